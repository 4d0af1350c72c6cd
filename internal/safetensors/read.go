package safetensors

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/mfgs/mfgs/onnx/tensor"
)

// Why a tensor cannot be read.
var (
	ErrNotFound = errors.New("no such tensor")
	ErrType     = errors.New("the dtype does not fit")
)

// A File has the checked header of a file, and reads its data. Several goroutines may use it at once if they
// may use its io.ReaderAt.
type File struct {
	r        io.ReaderAt
	data     int64 // where the data starts
	tensors  []Info
	index    map[string]int
	metadata map[string]string
}

// NewFile reads and checks the header of a file of size bytes. It reads no tensor.
func NewFile(r io.ReaderAt, size int64) (*File, error) {
	var prefix [8]byte
	if size < int64(len(prefix)) {
		return nil, fmt.Errorf("%w: %d bytes, want at least 8", ErrTruncated, size)
	}
	if err := readAt(r, prefix[:], 0); err != nil {
		return nil, err
	}
	n := binary.LittleEndian.Uint64(prefix[:])
	if n > MaxHeader {
		return nil, fmt.Errorf("%w: %d bytes, at most %d are read", ErrHeaderSize, n, MaxHeader)
	}
	f := &File{r: r, data: 8 + int64(n)}
	if f.data > size {
		return nil, fmt.Errorf("%w: a header of %d bytes in a file of %d", ErrTruncated, n, size)
	}
	header := make([]byte, n)
	if err := readAt(r, header, 8); err != nil {
		return nil, err
	}
	var err error
	f.tensors, f.metadata, err = parseHeader(header, size-f.data)
	if err != nil {
		return nil, err
	}
	f.index = make(map[string]int, len(f.tensors))
	for i, t := range f.tensors {
		f.index[t.Name] = i
	}
	return f, nil
}

// readAt fills p. The end of the file before that is an error.
func readAt(r io.ReaderAt, p []byte, at int64) error {
	n, err := r.ReadAt(p, at)
	if n == len(p) {
		return nil
	}
	if err == io.EOF {
		return fmt.Errorf("%w while it was read", ErrTruncated)
	}
	return err
}

// Tensors lists the tensors in the order of their data. It must not be changed.
func (f *File) Tensors() []Info { return f.tensors }

// Metadata returns the strings under __metadata__, nil if there are none. It must not be changed.
func (f *File) Metadata() map[string]string { return f.metadata }

// Lookup describes a tensor. The error is an [ErrNotFound] that lists the names there are.
func (f *File) Lookup(name string) (Info, error) {
	i, ok := f.index[name]
	if !ok {
		var names []string
		for _, t := range f.tensors[:min(len(f.tensors), 10)] {
			names = append(names, t.Name)
		}
		if len(names) < len(f.tensors) {
			names = append(names, "…")
		}
		return Info{}, fmt.Errorf("tensor %q: %w: there are %q", name, ErrNotFound, names)
	}
	return f.tensors[i], nil
}

// Section returns the bytes of a tensor of any type, as in the file.
func (f *File) Section(name string) (*io.SectionReader, error) {
	t, err := f.Lookup(name)
	if err != nil {
		return nil, err
	}
	return io.NewSectionReader(f.r, f.data+t.begin, t.end-t.begin), nil
}

// Read returns a whole tensor, row-major. Its elements must be of type T: others are an [ErrType].
func Read[T Element](f *File, name string) ([]T, error) {
	t, err := f.Lookup(name)
	if err != nil {
		return nil, err
	}
	if want := tensor.TypeOf([]T(nil)); t.Type != want {
		return nil, fmt.Errorf("tensor %q: %w: %s, want %s", name, ErrType, t.Type.Safetensors(), want.Safetensors())
	}
	dst := make([]T, t.Len())
	return dst, readTo(dst, f, t)
}

// chunk is how many bytes are converted at a time: many enough that calls cost little, few enough for the
// cache.
const chunk = 1 << 18

// readTo fills dst with all of t.
func readTo[T Element](dst []T, f *File, t Info) error {
	size := size(t.Type)
	buf := make([]byte, min(chunk, len(dst)*size))
	offset := f.data + t.begin
	for len(dst) > 0 {
		n := min(len(dst), chunk/size)
		b := buf[:n*size]
		if err := readAt(f.r, b, offset); err != nil {
			return fmt.Errorf("tensor %q: %w", t.Name, err)
		}
		decode(dst[:n], b)
		dst = dst[n:]
		offset += int64(len(b))
	}
	return nil
}
