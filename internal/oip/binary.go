package oip

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/mfgs/mfgs/onnx/tensor"
)

var le = binary.LittleEndian

// A budget is what the rest of a message may take.
type budget struct {
	bytes, elements, allBytes, allElements int64

	reserve func(bytes int64) error // may be nil
}

func (l Limits) budget() budget { return budget{l.Bytes, l.Elements, l.Bytes, l.Elements, l.Reserve} }

// take charges a tensor to the budget, and returns its number of elements.
func (b *budget) take(t tensor.Type, shape []int64) (int64, error) {
	if len(shape) > maxDims {
		return 0, fmt.Errorf("%d dimensions: at most %d are taken", len(shape), maxDims)
	}
	n, err := tensor.Elements(shape)
	if err != nil {
		return 0, err
	}
	if n > b.elements {
		return 0, Errorf(TooLarge, "shape %s: tensors of one message have at most %d elements in all",
			tensor.FormatShape(shape), b.allElements)
	}
	size, ok := t.Bytes(n)
	if !ok {
		size = 16 * n // the header of a string
	}
	if size > b.bytes {
		return 0, Errorf(TooLarge, "shape %s of %s: tensors of one message have at most %d bytes in all",
			tensor.FormatShape(shape), Datatype(t), b.allBytes)
	}
	b.bytes -= size
	b.elements -= n
	return n, nil
}

// stringBytes is the overhead of a string: its header, and the rounding of its allocation.
const stringBytes = 32

// keep reserves the memory of n elements before they are allocated; text bounds the bytes of strings.
func (b *budget) keep(t tensor.Type, n, text int64) error {
	if b.reserve == nil {
		return nil
	}
	size, ok := t.Bytes(n)
	if !ok {
		size = stringBytes*n + text
	}
	return b.reserve(size)
}

// decode returns the n elements in raw: little-endian numbers, bools as bytes 0 or 1, strings with their length in
// four bytes before them. Numbers share the memory of raw if it is aligned for them and the machine is little-endian;
// otherwise the budget is charged for a copy.
func (b *budget) decode(t tensor.Type, n int64, raw []byte) (any, error) {
	if t == tensor.String {
		if err := b.keep(t, min(n, int64(len(raw))), int64(len(raw))); err != nil {
			return nil, err
		}
		return decodeStrings(n, raw)
	}
	want, ok := t.Bytes(n)
	if !ok || want != int64(len(raw)) {
		return nil, fmt.Errorf("%d bytes of data, where %d elements of %s take %d", len(raw), n, Datatype(t), want)
	}
	if t == tensor.Bool {
		for i, b := range raw {
			if b > 1 {
				return nil, fmt.Errorf("element %d: a byte of %d, where BOOL has 0 or 1", i, b)
			}
		}
	}
	if data := t.View(raw); data != nil {
		return data, nil
	}
	if err := b.keep(t, n, 0); err != nil {
		return nil, err
	}
	data, err := t.Make(int(n))
	if err != nil {
		return nil, err
	}
	if _, err := binary.Decode(raw, le, plain(data)); err != nil {
		return nil, err
	}
	return data, nil
}

// plain converts 16-bit floats to the integers that package binary knows, and returns other slices unchanged.
func plain(data any) any {
	switch d := data.(type) {
	case tensor.Float16Bits:
		return []uint16(d)
	case tensor.BFloat16Bits:
		return []uint16(d)
	}
	return data
}

func decodeStrings(n int64, raw []byte) ([]string, error) {
	if n > int64(len(raw))/4 {
		return nil, fmt.Errorf("%d bytes of data, where %d elements of BYTES take at least %d", len(raw), n, 4*n)
	}
	all := make([]string, n)
	for i := range all {
		if len(raw) < 4 || uint64(le.Uint32(raw)) > uint64(len(raw)-4) {
			return nil, fmt.Errorf("element %d: it ends after the data", i)
		}
		end := 4 + int(le.Uint32(raw))
		all[i] = string(raw[4:end])
		raw = raw[end:]
	}
	if len(raw) > 0 {
		return nil, fmt.Errorf("%d bytes are left after %d elements of BYTES", len(raw), n)
	}
	return all, nil
}

// encode appends the elements of a tensor in the form that decode reads.
func encode(dst []byte, t tensor.Tensor) ([]byte, error) {
	strings, ok := t.Data.([]string)
	if !ok {
		return binary.Append(dst, le, plain(t.Data))
	}
	for _, s := range strings {
		if len(s) > math.MaxUint32 {
			return nil, errors.New("a string of more than 4 GiB")
		}
		dst = append(le.AppendUint32(dst, uint32(len(s))), s...)
	}
	return dst, nil
}
