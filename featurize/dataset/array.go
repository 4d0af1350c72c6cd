package dataset

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/mfgs/mfgs/featurize/dataset/internal/numpy"
	"github.com/mfgs/mfgs/featurize/tensor"
)

const (
	// maxItem bounds the bytes of one example's array. A 100-megapixel RGB image has 3e8.
	maxItem = 1 << 29

	// maxStrings bounds the strings of one example's array, each of which costs
	// more than its bytes.
	maxStrings = 1 << 20

	// maxLabelText bounds the bytes of one label as text: 1,024 characters.
	maxLabelText = 4 << 10

	// maxInflate bounds how much longer than its compressed form data can be:
	// deflate reaches 1032:1 and not more.
	maxInflate = 1032
)

// An arrayFile is an array [count, shape…] stored in row-major order behind a
// header: plain in a file, gzipped, or in a zip member.
type arrayFile struct {
	name  string // for messages
	dtype numpy.Type
	count int
	shape []int // of one item
	item  int   // bytes of one item

	// open returns the data from byte skip on.
	open func(skip int64) (io.ReadCloser, error)
}

// newArrayFile checks sizes before anything of them is allocated. limit is
// the largest number of data bytes that can be there.
func newArrayFile(name string, t numpy.Type, dims []int, limit int64) (*arrayFile, error) {
	a := &arrayFile{name: name, dtype: t, count: dims[0], shape: dims[1:]}
	if a.count == 0 {
		return nil, fmt.Errorf("%s: holds no examples (shape %v)", name, dims)
	}
	var ok bool
	if a.item, ok = mul(append([]int{t.Size}, a.shape...)...); !ok || a.item == 0 || a.item > maxItem {
		return nil, fmt.Errorf("%s: one example of shape %v %s has an impossible size", name, a.shape, t)
	}
	if total, ok := mul(a.count, a.item); !ok || int64(total) > limit {
		return nil, fmt.Errorf("%s: truncated or corrupt: its header promises %d examples of %d bytes, but there cannot be more than %d bytes of data",
			name, a.count, a.item, limit)
	}
	return a, nil
}

// bytes returns the size of all items.
func (a *arrayFile) bytes() int64 { return int64(a.count) * int64(a.item) }

// An arrayReader reads an arrayFile's items in order.
type arrayReader struct {
	*arrayFile
	src io.ReadCloser
	buf *bufio.Reader
	pos int // items read
	raw []byte
}

// from starts reading at item i.
func (a *arrayFile) from(i int) (*arrayReader, error) {
	src, err := a.open(int64(i) * int64(a.item))
	if err != nil {
		return nil, a.readError(err, i)
	}
	return &arrayReader{arrayFile: a, src: src, buf: bufio.NewReaderSize(src, 64<<10), pos: i}, nil
}

func (r *arrayReader) Close() error { return r.src.Close() }

// read returns the next n items as one slice of the array's Go type. Having
// read the last item it makes sure that the data ends there.
func (r *arrayReader) read(n int) (any, error) {
	size := n * r.item
	if cap(r.raw) < size {
		r.raw = make([]byte, size)
	}
	r.raw = r.raw[:size]
	if got, err := io.ReadFull(r.buf, r.raw); err != nil {
		return nil, r.readError(err, r.pos+got/r.item)
	}
	r.pos += n
	if r.pos == r.count {
		// The end is also where gzip and zip compare their checksums.
		if _, err := r.buf.ReadByte(); err == nil {
			return nil, fmt.Errorf("%s: corrupt: more data follows the %d examples that its header promises", r.name,
				r.count)
		} else if err != io.EOF {
			return nil, r.readError(err, r.pos)
		}
	}
	return r.dtype.Decode(r.raw), nil
}

// readError words an error met after got items.
func (a *arrayFile) readError(err error, got int) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return fmt.Errorf("%s: truncated: its header promises %d examples, the data ends after %d", a.name, a.count,
			got)
	}
	return fmt.Errorf("%s: after %d of %d examples: %w", a.name, got, a.count, err)
}

// plainData opens data that begins at offset start of f.
func plainData(f io.ReaderAt, start, size int64) func(int64) (io.ReadCloser, error) {
	return func(skip int64) (io.ReadCloser, error) {
		return io.NopCloser(io.NewSectionReader(f, start+skip, size-start-skip)), nil
	}
}

// gzipData opens data that begins at offset start of what f holds gzipped.
func gzipData(f io.ReaderAt, start, size int64) func(int64) (io.ReadCloser, error) {
	return func(skip int64) (io.ReadCloser, error) {
		z, err := gzip.NewReader(bufio.NewReaderSize(io.NewSectionReader(f, 0, size), 64<<10))
		if err != nil {
			return nil, err
		}
		if err := discard(z, start+skip); err != nil {
			return nil, err
		}
		return z, nil
	}
}

func discard(r io.Reader, n int64) error {
	got, err := io.CopyN(io.Discard, r, n)
	if err == io.EOF && got < n {
		return io.ErrUnexpectedEOF
	}
	return err
}

// A labelReader reads labels from an array of integers, some at a time: one
// an example, or as many as its items hold. Text is read as in a table.
type labelReader struct {
	r       *arrayReader
	text    labelParser
	to      int
	each    int
	pending []int
}

func newLabelReader(a *arrayFile, text labelParser, from, to int) (*labelReader, error) {
	r, err := a.from(from)
	if err != nil {
		return nil, err
	}
	return &labelReader{r: r, text: text, to: to, each: a.item / a.dtype.Size}, nil
}

func (l *labelReader) Close() error { return l.r.Close() }

// next returns the label of the next example.
func (l *labelReader) next() (int, error) {
	y, err := l.row()
	if err != nil {
		return 0, err
	}
	return y[0], nil
}

// targets returns the labels of the next example, each of which must be 0 or 1.
func (l *labelReader) targets() ([]uint8, error) {
	row, err := l.row()
	if err != nil {
		return nil, err
	}
	t := make([]uint8, len(row))
	for k, y := range row {
		if y != 0 && y != 1 {
			at := l.r.pos - len(l.pending)/l.each - 1
			return nil, fmt.Errorf("%s: label %d of example %d is %d; want 0 or 1", l.r.name, k, at, y)
		}
		t[k] = uint8(y)
	}
	return t, nil
}

// row returns the numbers of the next example.
func (l *labelReader) row() ([]int, error) {
	if len(l.pending) == 0 {
		at := l.r.pos
		data, err := l.r.read(min(max(1, 4096/l.each), l.to-at))
		if err != nil {
			return nil, err
		}
		var bad int
		if texts, ok := data.([]string); ok {
			if l.pending, bad, err = l.fromTexts(texts); err != nil {
				return nil, fmt.Errorf("%s: example %d: %w", l.r.name, at+bad, err)
			}
		} else if l.pending, bad = toInts(data); bad >= 0 {
			return nil, fmt.Errorf("%s: label %d is not a whole number", l.r.name, at+bad/l.each)
		}
	}
	row := l.pending[:l.each]
	l.pending = l.pending[l.each:]
	return row, nil
}

// fromTexts reads labels that are class names or numbers. bad is the first that is neither.
func (l *labelReader) fromTexts(texts []string) (labels []int, bad int, err error) {
	labels = make([]int, len(texts))
	for i, s := range texts {
		if labels[i], err = l.text.fromText(strings.TrimSpace(s)); err != nil {
			return nil, i, err
		}
	}
	return labels, 0, nil
}

// imageLayout guesses what the axes of a uint8 array mean; other arrays are
// ready tensors, not images.
func imageLayout(t numpy.Type, shape []int) Layout {
	channels := func(c int) bool { return c == 1 || c == 3 }
	switch {
	case t.Type != tensor.Uint8:
		return None
	case len(shape) == 2:
		return HW
	case len(shape) == 3 && channels(shape[2]) && !channels(shape[0]):
		return HWC
	case len(shape) == 3 && channels(shape[0]) && !channels(shape[2]):
		return CHW
	}
	return None
}

type namedArray struct {
	name   string
	layout Layout
	*arrayFile
}

// An arraySource reads examples from arrays side by side.
type arraySource struct {
	Base
	names  string // examples are named names[index]
	inputs []namedArray
	labels *arrayFile // may be nil
	text   labelParser
	multi  bool // labels are targets
}

// Examples reads the arrays side by side.
func (s *arraySource) Examples(from, to int, yield func(Example, error) bool) {
	fail := func(err error) { yield(Example{Label: -1}, err) }
	readers := make([]*arrayReader, len(s.inputs))
	for i, in := range s.inputs {
		r, err := in.from(from)
		if err != nil {
			fail(err)
			return
		}
		defer r.Close()
		readers[i] = r
	}
	var labels *labelReader
	if s.labels != nil {
		var err error
		if labels, err = newLabelReader(s.labels, s.text, from, to); err != nil {
			fail(err)
			return
		}
		defer labels.Close()
	}
	for i := from; i < to; i++ {
		e := Example{Index: i, Name: s.names + "[" + strconv.Itoa(i) + "]", Label: -1,
			Inputs: make([]Array, len(readers))}
		for j, r := range readers {
			data, err := r.read(1)
			if err != nil {
				fail(err)
				return
			}
			in := &s.inputs[j]
			e.Inputs[j] = Array{Name: in.name, Shape: in.shape, Layout: in.layout, Data: data}
		}
		if labels != nil {
			var err error
			if s.multi {
				e.Targets, err = labels.targets()
			} else {
				e.Label, err = labels.next()
			}
			if err != nil {
				fail(err)
				return
			}
		}
		if !yield(e, nil) {
			return
		}
	}
}

// mul multiplies sizes, reporting false on overflow or a negative factor.
func mul(factors ...int) (int, bool) {
	p := 1
	for _, f := range factors {
		if f < 0 || f > 0 && p > math.MaxInt/f {
			return 0, false
		}
		p *= f
	}
	return p, true
}
