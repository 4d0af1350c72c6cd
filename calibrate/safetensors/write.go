package safetensors

import (
	"cmp"
	"fmt"
	"io"
	"slices"
)

// A Writer writes a file whose tensors are declared first and filled then, in
// that order and in as many pieces as the caller likes, so that they never
// stand in memory together. After an error every call returns it.
type Writer struct {
	w       io.Writer
	tensors []Info
	next    int   // the tensor being filled
	left    int64 // bytes of it still to come
	buf     []byte
	err     error
}

// NewWriter writes the header of a file with the given tensors, each name,
// dtype and shape, and metadata, which may be nil. w is written to in large
// pieces and not closed.
func NewWriter(w io.Writer, tensors []Info, metadata map[string]string) (*Writer, error) {
	header, err := formatHeader(tensors, metadata)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(header); err != nil {
		return nil, err
	}
	sw := &Writer{w: w, tensors: slices.Clone(tensors), next: -1}
	sw.advance()
	return sw, nil
}

// advance goes to the next tensor that needs bytes.
func (w *Writer) advance() {
	for w.left == 0 && w.next < len(w.tensors) {
		w.next++
		if w.next < len(w.tensors) {
			w.left = w.tensors[w.next].Bytes()
		}
	}
}

// Write fills the next elements of a tensor, whose dtype must be that of T. The
// name says which, so that data out of order is an error and not another file.
func Write[T Element](w *Writer, name string, data []T) error {
	d := native[T]()
	for len(data) > 0 {
		n := min(len(data), chunk/d.Size())
		w.buf = encode(w.buf[:0], data[:n])
		if err := w.write(name, d, w.buf); err != nil {
			return err
		}
		data = data[n:]
	}
	return w.err
}

// WriteRaw fills the next bytes of a tensor of any dtype, little-endian.
func (w *Writer) WriteRaw(name string, data []byte) error {
	return w.write(name, "", data)
}

// write checks and writes bytes of a dtype, "" for any.
func (w *Writer) write(name string, d DType, data []byte) error {
	if w.err != nil || len(data) == 0 {
		return w.err
	}
	w.err = func() error {
		if w.next == len(w.tensors) {
			return fmt.Errorf("tensor %q: all tensors are written", name)
		}
		t := w.tensors[w.next]
		switch {
		case t.Name != name:
			return fmt.Errorf("tensor %q: out of order: %d bytes of %q come first", name, w.left, t.Name)
		case d != "" && d != t.DType:
			return fmt.Errorf("tensor %q: %w: %s, declared as %s", name, ErrType, d, t.DType)
		case int64(len(data)) > w.left:
			return fmt.Errorf("tensor %q: more data than %s %v holds", name, t.DType, t.Shape)
		}
		_, err := w.w.Write(data)
		return err
	}()
	w.left -= int64(len(data))
	w.advance()
	return w.err
}

// Close says whether the file is complete. It does not close the io.Writer.
func (w *Writer) Close() error {
	if w.err == nil && w.next < len(w.tensors) {
		w.err = fmt.Errorf("tensor %q: %d bytes were not written", w.tensors[w.next].Name, w.left)
	}
	return w.err
}

// A Tensor is a tensor in memory.
type Tensor struct {
	Name  string
	Shape []int

	// Data is a []float64, []float32 or []int64, or a []byte of little-endian
	// elements of the type DType.
	Data any

	// DType may be left empty but for a []byte.
	DType DType
}

// info describes t, and refuses data that is not of its type or shape.
func (t Tensor) info() (Info, error) {
	i := Info{Name: t.Name, DType: t.DType, Shape: t.Shape}
	var bytes int64
	set := func(d DType, n int) error {
		if i.DType != "" && i.DType != d {
			return fmt.Errorf("tensor %q: %w: %T declared as %s", t.Name, ErrType, t.Data, i.DType)
		}
		i.DType = d
		bytes = int64(n) * int64(d.Size())
		return nil
	}
	var err error
	switch data := t.Data.(type) {
	case []float64:
		err = set(F64, len(data))
	case []float32:
		err = set(F32, len(data))
	case []int64:
		err = set(I64, len(data))
	case []byte:
		bytes = int64(len(data))
	default:
		err = fmt.Errorf("tensor %q: %w: %T, want []float64, []float32, []int64 or []byte", t.Name, ErrType, t.Data)
	}
	if err == nil {
		err = i.check()
	}
	if err == nil && bytes != i.Bytes() {
		err = fmt.Errorf("tensor %q: %w: %d bytes of data for %s %v", t.Name, ErrShape, bytes, i.DType, i.Shape)
	}
	return i, err
}

func (t Tensor) write(w *Writer) error {
	switch data := t.Data.(type) {
	case []float64:
		return Write(w, t.Name, data)
	case []float32:
		return Write(w, t.Name, data)
	case []int64:
		return Write(w, t.Name, data)
	default:
		return w.WriteRaw(t.Name, data.([]byte))
	}
}

// Encode writes a whole file to w. The order of the tensors does not count: see
// the package documentation. Nothing is written if a tensor is at fault.
func Encode(w io.Writer, tensors []Tensor, metadata map[string]string) error {
	tensors = slices.Clone(tensors)
	for i, t := range tensors {
		info, err := t.info()
		if err != nil {
			return err
		}
		tensors[i].DType = info.DType
	}
	slices.SortFunc(tensors, func(a, b Tensor) int {
		return cmp.Or(cmp.Compare(b.DType.rank(), a.DType.rank()), cmp.Compare(a.Name, b.Name))
	})
	infos := make([]Info, len(tensors))
	for i, t := range tensors {
		infos[i] = Info{Name: t.Name, DType: t.DType, Shape: t.Shape}
	}
	sw, err := NewWriter(w, infos, metadata)
	if err != nil {
		return err
	}
	for _, t := range tensors {
		if err := t.write(sw); err != nil {
			return err
		}
	}
	return sw.Close()
}
