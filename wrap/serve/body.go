package serve

import (
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/mfgs/mfgs/internal/oip"
)

// A reservation is a request's share of the memory of all requests.
type reservation struct {
	of    *semaphore.Weighted
	limit int64 // of all requests
	held  int64
}

// add reserves n more bytes, or refuses the request.
func (r *reservation) add(n int64) error {
	if n > r.limit-r.held {
		return tooLarge("the request needs more memory than the limit for all requests, %d bytes", r.limit)
	}
	if !r.of.TryAcquire(n) {
		return errBusy
	}
	r.held += n
	return nil
}

// give gives n bytes back.
func (r *reservation) give(n int64) {
	r.of.Release(n)
	r.held -= n
}

func (r *reservation) release() {
	r.of.Release(r.held)
	r.held = 0
}

// readBody reads the decompressed body of a request, at most limit bytes, into a slice that begins with pad other
// bytes, and reserves its memory. beyond is the error of a larger body.
func readBody(r *http.Request, pad int, limit int64, beyond error, memory *reservation) ([]byte, error) {
	if r.ContentLength > limit {
		return nil, beyond
	}
	in, err := unpacked(r)
	if err != nil {
		return nil, err
	}
	expected := int64(0)
	if r.Header.Get("Content-Encoding") == "" {
		expected = r.ContentLength
	}
	return readAll(in, pad, expected, limit, beyond, memory, func(err error) error { return bodyError(r, err) })
}

// firstBytes is the buffer of a body of which nothing has arrived. Its Content-Length is not trusted: otherwise a few
// connections that send nothing could reserve all memory.
const firstBytes = 4 << 10

// readAll is readBody for a reader. It reserves memory as bytes arrive; expected is how many are announced, 0 if
// that is unknown. failed translates errors of the reader.
func readAll(in io.Reader, pad int, expected, limit int64, beyond error, memory *reservation,
	failed func(error) error) ([]byte, error) {
	var data []byte
	for {
		if len(data) == cap(data) {
			n := int64(len(data))
			size := max(firstBytes, 2*n)
			if n > 0 && size < 1<<20 {
				size *= 2
			}
			if n < expected {
				size = min(max(firstBytes, 16*n), expected)
			}
			size = min(size, limit) + int64(pad) + 1 // one more, to see the end
			more := bodies.take(size)
			if err := memory.add(int64(cap(more))); err != nil {
				bodies.give(more)
				return nil, err
			}
			before := data
			if data = append(more, data...); before == nil {
				data = data[:pad]
			}
			memory.give(int64(cap(before)))
			bodies.give(before)
		}
		n, err := in.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		switch {
		case int64(len(data)-pad) > limit:
			return nil, beyond
		case err == io.EOF:
			return data, nil
		case err != nil:
			return nil, failed(err)
		}
	}
}

// A pool reuses the memory of bodies. Allocating the size of an image takes as long as reading the image, and the
// garbage competes with inferences for processors.
type pool struct{ small, large sync.Pool }

var bodies pool

// of returns the pool for slices of a size: most bodies begin small.
func (p *pool) of(size int) *sync.Pool {
	if size <= 2*firstBytes {
		return &p.small
	}
	return &p.large
}

// take returns an empty slice with a capacity of size bytes, at most twice as many.
func (p *pool) take(size int64) []byte {
	if kept, ok := p.of(int(size)).Get().(*[]byte); ok && int64(cap(*kept)) >= size && int64(cap(*kept)) <= 2*size {
		return (*kept)[:0]
	}
	return make([]byte, 0, size)
}

func (p *pool) give(b []byte) {
	if cap(b) > 0 {
		p.of(cap(b)).Put(&b)
	}
}

// unpacked returns the body without its Content-Encoding. The caller bounds its decompressed size.
func unpacked(r *http.Request) (io.Reader, error) {
	switch encoding := strings.ToLower(strings.TrimSpace(r.Header.Get("Content-Encoding"))); encoding {
	case "", "identity":
		return r.Body, nil
	case "gzip":
		z, err := gzip.NewReader(r.Body)
		if err != nil {
			return nil, bodyError(r, err)
		}
		return z, nil
	case "deflate": // RFC 9110, 8.4.1.2: the zlib format
		z, err := zlib.NewReader(r.Body)
		if err != nil {
			return nil, bodyError(r, err)
		}
		return z, nil
	default:
		return nil, invalid("Content-Encoding %.70q: want gzip, deflate or none", encoding)
	}
}

// ended is a body that remembers how reading it ended.
type ended struct {
	io.ReadCloser
	err error // nil: not yet
}

func (e *ended) Read(p []byte) (int, error) {
	n, err := e.ReadCloser.Read(p)
	if err != nil {
		e.err = err
	}
	return n, err
}

// Errors of incomplete bodies. A client that has only stopped sending can still read the answer.
var (
	errLateBody = oip.Errorf(oip.Invalid, "the body did not arrive in time")
	errCutBody  = oip.Errorf(oip.Invalid, "the body ended early: the client stopped sending it")
)

// cutOff reports whether the client stopped sending the body, which may also break its Content-Encoding.
func cutOff(r *http.Request) bool {
	sent, ok := r.Body.(*ended)
	if !ok || sent.err == nil || sent.err == io.EOF {
		return false
	}
	// HTTP/1.1 also has errors for malformed chunks. HTTP/2 reports no other errors on a stream.
	var connection net.Error
	return errors.Is(sent.err, io.ErrUnexpectedEOF) || errors.As(sent.err, &connection) || r.ProtoMajor > 1
}

// bodyError says why a body could not be read.
func bodyError(r *http.Request, err error) error {
	var broken flate.CorruptInputError
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return errLateBody
	case cutOff(r):
		return errCutBody
	case errors.Is(err, gzip.ErrHeader), errors.Is(err, gzip.ErrChecksum), errors.Is(err, zlib.ErrHeader),
		errors.Is(err, zlib.ErrChecksum), errors.Is(err, zlib.ErrDictionary), errors.As(err, &broken),
		errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return invalid("the body does not match its Content-Encoding, or ends early: %v", err)
	}
	return invalid("the body cannot be read: %v", err)
}

// packedFrom is the size from which answers are compressed, in bytes: what fits into one packet is as fast plain.
const packedFrom = 1400

var packers = sync.Pool{New: func() any {
	z, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed) // the level is valid
	return z
}}

// writePacked writes an answer, compressed if the client accepts gzip.
func writePacked(w http.ResponseWriter, r *http.Request, body []byte) {
	h := w.Header()
	h.Add("Vary", "Accept-Encoding")
	if len(body) < packedFrom || !takesGzip(r.Header.Values("Accept-Encoding")) {
		h.Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = w.Write(body)
		return
	}
	h.Set("Content-Encoding", "gzip")
	z := packers.Get().(*gzip.Writer)
	defer packers.Put(z)
	z.Reset(w)
	_, _ = z.Write(body)
	_ = z.Close()
}

// takesGzip parses Accept-Encoding: RFC 9110, 12.5.3.
func takesGzip(values []string) bool {
	for _, value := range values {
		for coding := range strings.SplitSeq(value, ",") {
			name, weight, _ := strings.Cut(coding, ";")
			if !strings.EqualFold(strings.TrimSpace(name), "gzip") {
				continue
			}
			_, q, weighed := strings.Cut(weight, "=")
			v, err := strconv.ParseFloat(strings.TrimSpace(q), 64)
			return !weighed || err == nil && v > 0
		}
	}
	return false
}
