package safetensors

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"io"
	"slices"

	"github.com/mfgs/mfgs/onnx/tensor"
)

// A Tensor is a tensor in memory.
type Tensor struct {
	Name  string
	Shape []int

	// Data is a []float64, []float32 or []int64, or a []byte of little-endian elements of Type. A [][]float64
	// is data in pieces.
	Data any

	// Type must be set for a []byte, and may be for other data.
	Type tensor.Type
}

// info describes t, and refuses data that is not of its type or shape.
func (t Tensor) info() (Info, error) {
	i := Info{Name: t.Name, Type: t.Type, Shape: t.Shape}
	var bytes int64
	set := func(typ tensor.Type, n int) error {
		if i.Type != tensor.Undefined && i.Type != typ {
			return fmt.Errorf("tensor %q: %w: %T declared as %s", t.Name, ErrType, t.Data, cmp.Or(i.Type.Safetensors(), i.Type.String()))
		}
		i.Type = typ
		bytes = int64(n) * int64(size(typ))
		return nil
	}
	var err error
	switch data := t.Data.(type) {
	case []float64:
		err = set(tensor.Float64, len(data))
	case [][]float64:
		n := 0
		for _, piece := range data {
			n += len(piece)
		}
		err = set(tensor.Float64, n)
	case []float32:
		err = set(tensor.Float32, len(data))
	case []int64:
		err = set(tensor.Int64, len(data))
	case []byte:
		bytes = int64(len(data))
	default:
		err = fmt.Errorf("tensor %q: %w: %T, want []float64, [][]float64, []float32, []int64 or []byte", t.Name, ErrType, t.Data)
	}
	if err == nil {
		err = i.check()
	}
	if err == nil && bytes != i.Bytes() {
		err = fmt.Errorf("tensor %q: %w: %d bytes of data for %s %v", t.Name, ErrShape, bytes, i.Type.Safetensors(), i.Shape)
	}
	return i, err
}

// writeTo writes the data of t.
func (t Tensor) writeTo(w io.Writer) error {
	switch data := t.Data.(type) {
	case []float64:
		return writeChunks(w, data)
	case [][]float64:
		return writePieces(w, data)
	case []float32:
		return writeChunks(w, data)
	case []int64:
		return writeChunks(w, data)
	default:
		_, err := w.Write(data.([]byte))
		return err
	}
}

// writePieces writes pieces in chunks, however small they are.
func writePieces(w io.Writer, pieces [][]float64) error {
	var buf []byte
	for _, piece := range pieces {
		for part := range slices.Chunk(piece, chunk/8) {
			if len(buf)+8*len(part) > chunk {
				if _, err := w.Write(buf); err != nil {
					return err
				}
				buf = buf[:0]
			}
			buf = encode(buf, part)
		}
	}
	_, err := w.Write(buf)
	return err
}

func writeChunks[T Element](w io.Writer, data []T) error {
	var buf []byte
	for part := range slices.Chunk(data, chunk/size(tensor.TypeOf(data))) {
		buf = encode(buf[:0], part)
		if _, err := w.Write(buf); err != nil {
			return err
		}
	}
	return nil
}

// Encode writes a whole file to w, in large pieces, with the tensors in the order of
// the package documentation. Nothing is written if a tensor is invalid.
func Encode(w io.Writer, tensors []Tensor, metadata map[string]string) error {
	infos, err := infosOf(tensors)
	if err != nil {
		return err
	}
	order := make([]int, len(tensors))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(rank(infos[b].Type), rank(infos[a].Type)), cmp.Compare(infos[a].Name,
			infos[b].Name))
	})
	sorted, sortedInfos := make([]Tensor, len(order)), make([]Info, len(order))
	for i, at := range order {
		sorted[i], sortedInfos[i] = tensors[at], infos[at]
	}
	return encodeAll(w, sorted, sortedInfos, metadata)
}

func infosOf(tensors []Tensor) (infos []Info, err error) {
	infos = make([]Info, len(tensors))
	for i, t := range tensors {
		if infos[i], err = t.info(); err != nil {
			return nil, err
		}
	}
	return infos, nil
}

// encodeAll writes tensors in the given order. infos may have more, whose data the caller writes.
func encodeAll(w io.Writer, tensors []Tensor, infos []Info, metadata map[string]string) error {
	header, err := formatHeader(infos, metadata)
	if err != nil {
		return err
	}
	if _, err := w.Write(header); err != nil {
		return err
	}
	for _, t := range tensors {
		if err := t.writeTo(w); err != nil {
			return err
		}
	}
	return nil
}

// sealName is the name of the last tensor of a sealed file.
const sealName = "sha256"

var seal = Info{Name: sealName, Type: tensor.Uint8, Shape: []int{sha256.Size}}

// EncodeSealed writes tensors in the given order, and after them another, "sha256", U8 [32]: the
// SHA-256 of all bytes before it.
func EncodeSealed(w io.Writer, tensors []Tensor, metadata map[string]string) error {
	infos, err := infosOf(tensors)
	if err != nil {
		return err
	}
	h := sha256.New()
	if err := encodeAll(io.MultiWriter(w, h), tensors, append(infos, seal), metadata); err != nil {
		return err
	}
	_, err = w.Write(h.Sum(nil))
	return err
}

// NewSealedFile is [NewFile] for files of EncodeSealed. It reads all of the file to check the seal, which is
// not among its tensors.
func NewSealedFile(r io.ReaderAt, size int64) (*File, error) {
	f, err := NewFile(r, size)
	if err != nil {
		return nil, err
	}
	last := len(f.tensors) - 1
	if last < 0 || f.tensors[last].Name != sealName || f.tensors[last].Type != tensor.Uint8 ||
		!slices.Equal(f.tensors[last].Shape, seal.Shape) {
		return nil, fmt.Errorf("%w: want %q behind all other tensors", ErrSeal, sealName)
	}
	h := sha256.New()
	if _, err := io.Copy(h, io.NewSectionReader(r, 0, size-sha256.Size)); err != nil {
		return nil, err
	}
	var sum [sha256.Size]byte
	if err := readAt(r, sum[:], size-sha256.Size); err != nil {
		return nil, err
	}
	if [sha256.Size]byte(h.Sum(nil)) != sum {
		return nil, fmt.Errorf("%w: the bytes have another SHA-256", ErrSeal)
	}
	f.tensors = f.tensors[:last]
	delete(f.index, sealName)
	return f, nil
}
