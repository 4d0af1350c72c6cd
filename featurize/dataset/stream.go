package dataset

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"sync"
)

const (
	// stdinPath is the path of a SPEC that reads standard input.
	stdinPath = "-"

	// StreamPositions is how many positions a stream has room for: more examples are refused. Shards
	// that are streams begin at its multiples, so that they never overlap and keep their order.
	StreamPositions = 1 << 30

	// streamChunk is how much is read of a stream at once, ahead of who wants it.
	streamChunk = 256 << 10

	// maxStreamRest bounds what a stream may hold behind its last example, such as an archive's padding.
	maxStreamRest = 1 << 20
)

// A Stream is a source of bytes that come once, front to back, and are known to end only when they
// do. Its beginning may be read several times, see [Dataset.Between], and all of it once.
type Stream struct {
	name   string
	chunks func() <-chan chunk // begins reading at the first call

	mu     sync.Mutex
	ctx    context.Context // of the pass that runs, nil for none
	last   bool            // a pass has begun that keeps nothing
	rest   []byte          // of the chunk that was read last
	err    error           // that the bytes ended with
	kept   []byte          // the first bytes, for the next pass
	at     int64           // bytes handed out, from the beginning on
	sum    hash.Hash       // of these
	passes int
}

type chunk struct {
	data []byte
	err  error
}

// NewStream returns a stream of what r holds. A Read that waits outlives whoever gave up on it.
func NewStream(r io.Reader, name string) *Stream {
	chunks := sync.OnceValue(func() <-chan chunk {
		c := make(chan chunk, 1)
		go func() {
			defer close(c)
			// One is being read, one waits, one is in use.
			buffers := make([]byte, 3*streamChunk)
			for i := 0; ; i = (i + streamChunk) % len(buffers) {
				n, err := r.Read(buffers[i : i+streamChunk])
				c <- chunk{buffers[i : i+n], err}
				if err != nil {
					return
				}
			}
		}()
		return c
	})
	return &Stream{name: name, chunks: chunks, sum: sha256.New()}
}

// stdin is the one standard input that a process has.
var stdin = sync.OnceValue(func() *Stream { return NewStream(os.Stdin, stdinPath) })

// Name returns what messages call the stream: - for standard input.
func (s *Stream) Name() string { return s.name }

// Reader reads the stream from its beginning, unpacked if it is gzipped. It is of use during the pass
// or the opening that it is called in.
func (s *Stream) Reader() (io.Reader, error) {
	s.mu.Lock()
	s.passes++
	r := &streamReader{s, s.passes, 0}
	s.mu.Unlock()
	magic := make([]byte, len(gzipMagic))
	n, err := io.ReadFull(r, magic)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return nil, err
	}
	whole := io.MultiReader(bytes.NewReader(magic[:n]), r)
	if !bytes.Equal(magic, gzipMagic) {
		return whole, nil
	}
	return gzip.NewReader(whole)
}

var errReadTwice = errors.New("standard input is read once, front to back, and has been: give a file where data are wanted twice")

// begin begins a pass, which ends with the function that is returned. The last keeps nothing for
// another.
func (s *Stream) begin(ctx context.Context, last bool) (end func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.last:
		return nil, errReadTwice
	case s.ctx != nil:
		return nil, errors.New("standard input is being read already")
	}
	s.ctx, s.last = ctx, last
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.ctx = nil
		if s.last {
			s.kept = nil
		}
	}, nil
}

// A streamReader reads from the beginning, until another does.
type streamReader struct {
	*Stream
	pass int
	pos  int64
}

func (r *streamReader) Read(p []byte) (n int, err error) {
	s := r.Stream
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx == nil || r.pass != s.passes {
		return 0, errReadTwice
	}
	if r.pos < int64(len(s.kept)) {
		n = copy(p, s.kept[r.pos:])
		r.pos += int64(n)
		return n, nil
	}
	if s.last {
		s.kept = nil
	}
	for len(s.rest) == 0 && s.err == nil {
		select {
		case c := <-s.chunks():
			s.rest, s.err = c.data, c.err
		case <-s.ctx.Done():
			return 0, context.Cause(s.ctx)
		}
	}
	if len(s.rest) == 0 {
		return 0, s.err
	}
	n = copy(p, s.rest)
	s.rest = s.rest[n:]
	s.sum.Write(p[:n])
	if !s.last {
		s.kept = append(s.kept, p[:n]...)
	}
	s.at += int64(n)
	r.pos = s.at
	return n, nil
}

// drain reads what is behind the last example, so that who writes the stream can end and all of it
// is hashed.
func (s *Stream) drain() error {
	r := &streamReader{s, s.passes, s.at}
	n, err := io.CopyN(io.Discard, r, maxStreamRest)
	switch {
	case err == io.EOF:
		return nil
	case err != nil:
		return fmt.Errorf("%s: %w", s.name, err)
	}
	return fmt.Errorf("%s: more than %d bytes follow the last example: is it one archive?", s.name, n)
}

// fingerprint is the hash of all bytes, under a header.
func (s *Stream) fingerprint(header string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != io.EOF || len(s.rest) > 0 {
		return "", fmt.Errorf("%s: what a stream holds is known when all of it has been read", s.name)
	}
	sum := sha256.Sum256(s.sum.Sum([]byte(header)))
	return hex.EncodeToString(sum[:]), nil
}

var gzipMagic = []byte{0x1f, 0x8b}
