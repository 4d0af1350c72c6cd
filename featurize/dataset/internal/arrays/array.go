// Package arrays reads arrays from files in the formats IDX and NPY, and from the members of an NPZ.
package arrays

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math"
)

const (
	// MaxItem bounds the bytes of one example's array. A 100-megapixel RGB image has 3e8.
	MaxItem = 1 << 29

	// MaxStrings bounds the strings of one example's array, which take more memory than their bytes.
	MaxStrings = 1 << 20

	// MaxInflate is the largest compression ratio of deflate, 1032:1.
	MaxInflate = 1032
)

// ErrNoExamples is the error for a file without examples, whose name precedes it.
var ErrNoExamples = errors.New("holds no examples")

// An Array is an array [count, shape…] stored in row-major order after a header: in a plain or gzipped file, or
// in a zip member.
type Array struct {
	Name  string // for messages
	Type  Type
	Count int
	Shape []int // of one item
	Item  int   // bytes of one item

	// Open returns the data from byte skip on.
	Open func(skip int64) (io.ReadCloser, error)
}

// NewArray checks sizes before anything is allocated. limit is the most data bytes that there can be.
func NewArray(name string, t Type, dims []int, limit int64) (*Array, error) {
	a := &Array{Name: name, Type: t, Count: dims[0], Shape: dims[1:]}
	if a.Count == 0 {
		return nil, fmt.Errorf("%s: %w (shape %v)", name, ErrNoExamples, dims)
	}
	var ok bool
	if a.Item, ok = Mul(append([]int{t.Size}, a.Shape...)...); !ok || a.Item == 0 || a.Item > MaxItem {
		return nil, fmt.Errorf("%s: one example of shape %v %s has an impossible size", name, a.Shape, t)
	}
	if total, ok := Mul(a.Count, a.Item); !ok || int64(total) > limit {
		return nil, fmt.Errorf("%s: truncated or corrupt: its header declares %d examples of %d bytes, but there cannot be more than %d bytes of data",
			name, a.Count, a.Item, limit)
	}
	return a, nil
}

// Bytes returns the size of all items.
func (a *Array) Bytes() int64 { return int64(a.Count) * int64(a.Item) }

// A Reader reads an Array's items in order.
type Reader struct {
	*Array
	src io.ReadCloser
	buf *bufio.Reader
	Pos int // items read
	raw []byte
}

// From starts reading at item i.
func (a *Array) From(i int) (*Reader, error) {
	src, err := a.Open(int64(i) * int64(a.Item))
	if err != nil {
		return nil, a.readError(err, i)
	}
	return &Reader{Array: a, src: src, buf: bufio.NewReaderSize(src, 64<<10), Pos: i}, nil
}

func (r *Reader) Close() error { return r.src.Close() }

// Read returns the next n items as one slice of the array's Go type. After the last item it checks that the
// data end.
func (r *Reader) Read(n int) (any, error) {
	raw := r.raw
	if size := n * r.Item; cap(raw) < size {
		raw = make([]byte, size)
	} else {
		raw = raw[:size]
	}
	if got, err := io.ReadFull(r.buf, raw); err != nil {
		return nil, r.readError(err, r.Pos+got/r.Item)
	}
	r.Pos += n
	if r.Pos == r.Count {
		// gzip and zip compare their checksums at the end.
		if _, err := r.buf.ReadByte(); err == nil {
			return nil, fmt.Errorf("%s: corrupt: more data follows the %d examples that its header declares", r.Name,
				r.Count)
		} else if err != io.EOF {
			return nil, r.readError(err, r.Pos)
		}
	}
	data, shared := r.Type.decode(raw)
	if r.raw = raw; shared {
		r.raw = nil
	}
	return data, nil
}

// readError describes an error after got items.
func (a *Array) readError(err error, got int) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return fmt.Errorf("%s: truncated: its header declares %d examples, the data ends after %d", a.Name, a.Count,
			got)
	}
	return fmt.Errorf("%s: after %d of %d examples: %w", a.Name, got, a.Count, err)
}

// Plain opens data that begins at offset start of f.
func Plain(f io.ReaderAt, start, size int64) func(int64) (io.ReadCloser, error) {
	return func(skip int64) (io.ReadCloser, error) {
		return io.NopCloser(io.NewSectionReader(f, start+skip, size-start-skip)), nil
	}
}

// Gzip opens data that begins at offset start of what f holds gzipped.
func Gzip(f io.ReaderAt, start, size int64) func(int64) (io.ReadCloser, error) {
	return func(skip int64) (io.ReadCloser, error) {
		z, err := gzip.NewReader(bufio.NewReaderSize(io.NewSectionReader(f, 0, size), 64<<10))
		if err != nil {
			return nil, err
		}
		if err := Discard(z, start+skip); err != nil {
			return nil, err
		}
		return z, nil
	}
}

// Discard skips n bytes.
func Discard(r io.Reader, n int64) error {
	got, err := io.CopyN(io.Discard, r, n)
	if err == io.EOF && got < n {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Mul multiplies sizes, reporting false on overflow or a negative factor.
func Mul(factors ...int) (int, bool) {
	p := 1
	for _, f := range factors {
		if f < 0 || f > 0 && p > math.MaxInt/f {
			return 0, false
		}
		p *= f
	}
	return p, true
}
