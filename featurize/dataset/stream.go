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

	// StreamPositions is the most examples in a stream. Streams that are shards begin at its multiples,
	// so that their positions do not overlap.
	StreamPositions = 1 << 30

	// streamChunk is how much of a stream is read ahead.
	streamChunk = 256 << 10

	// maxStreamRest bounds what may follow the last example, such as an archive's padding.
	maxStreamRest = 1 << 20
)

// A Stream is a sequence of bytes that can be read once, and whose length is unknown. Its beginning can
// be read several times, see [Dataset.Between].
type Stream struct {
	name   string
	chunks func() <-chan chunk // begins reading at the first call

	mu     sync.Mutex
	ctx    context.Context // of the current pass, nil for none
	last   bool            // the last pass, which keeps nothing, has begun
	rest   []byte          // of the current chunk
	err    error           // at the end of the bytes
	kept   []byte          // the first bytes, for the next pass
	at     int64           // bytes handed out, from the beginning on
	sum    hash.Hash       // of these
	passes int
}

type chunk struct {
	data []byte
	err  error
}

// NewStream returns a stream that reads r. A pass that ends does not end a Read of r that is waiting.
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

// stdin is the process's standard input.
var stdin = sync.OnceValue(func() *Stream { return NewStream(os.Stdin, stdinPath) })

// Name returns the stream's name in messages: - for standard input.
func (s *Stream) Name() string { return s.name }

// Reader reads the stream from its beginning, decompressed if it is gzipped. It is valid until the
// current pass, or the opening, ends.
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

var errReadTwice = errors.New("standard input can be read only once: give a file for data that is used twice")

// begin begins a pass, and returns a function that ends it. The last pass keeps nothing for another.
func (s *Stream) begin(ctx context.Context, last bool) (end func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.last:
		return nil, errReadTwice
	case s.ctx != nil:
		return nil, errors.New("standard input is already being read")
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

// A streamReader reads from the beginning. It is valid until the next one is made.
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

// drain reads what follows the last example, so that the writer of the stream can finish and all of it
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
	return fmt.Errorf("%s: more than %d bytes follow the last example: want a single archive", s.name, n)
}

// fingerprint returns the hash of the header and all bytes.
func (s *Stream) fingerprint(header string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != io.EOF || len(s.rest) > 0 {
		return "", fmt.Errorf("%s: the length of a stream is known only at its end", s.name)
	}
	sum := sha256.Sum256(s.sum.Sum([]byte(header)))
	return hex.EncodeToString(sum[:]), nil
}

var gzipMagic = []byte{0x1f, 0x8b}
