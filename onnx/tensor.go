package onnx

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// checkTensor checks that a tensor has one payload, of the size that its dims and type require.
func checkTensor(t *onnxpb.Tensor) error {
	fail := func(format string, args ...any) error {
		return fmt.Errorf("tensor %q: %s", t.GetName(), fmt.Sprintf(format, args...))
	}
	typ := tensor.Type(t.GetDataType())
	n, ok := onnxpb.Elements(t.GetDims())
	if !ok {
		return fail("its shape %v is impossible", t.GetDims())
	}
	typed := []int{len(t.GetFloatData()), len(t.GetInt32Data()), len(t.GetStringData()), len(t.GetInt64Data()),
		len(t.GetDoubleData()), len(t.GetUint64Data())}
	payloads, count := 0, int64(0)
	for _, c := range typed {
		if c > 0 {
			payloads++
			count = int64(c)
		}
	}
	raw := int64(len(t.GetRawData()))
	if t.GetSpan() != nil {
		payloads++
		raw = t.GetSpan().GetLength()
	}
	if len(t.GetRawData()) > 0 {
		payloads++
	}
	if payloads > 1 {
		return fail("has more than one payload")
	}
	if t.GetRawData() != nil || t.GetSpan() != nil {
		if want, ok := typ.Bytes(n); ok && raw != want {
			return fail("%v of %v needs %d bytes and has %d", t.GetDims(), typ, want, raw)
		}
		if typ == tensor.String {
			return fail("strings cannot be raw data")
		}
		return nil
	}
	want := n
	switch typ {
	case tensor.Complex64, tensor.Complex128:
		want = 2 * n
	case 21, 22, 23: // two elements to an int32
		want = (n + 1) / 2
	case 25, 26: // four
		want = (n + 3) / 4
	}
	if count != want {
		return fail("%v of %v needs %d elements and has %d", t.GetDims(), typ, want, count)
	}
	return nil
}

// Floats calls do for every element of a numeric tensor, in order, as float64.
func (s *store) Floats(t *onnxpb.Tensor, do func(float64)) error {
	if all(t.GetFloatData(), do) || all(t.GetDoubleData(), do) || all(t.GetInt64Data(), do) ||
		all(t.GetUint64Data(), do) {
		return nil
	}
	typ := tensor.Type(t.GetDataType())
	decode := typ.Value()
	if decode == nil {
		return fmt.Errorf("tensor %q: elements of type %v cannot be read as numbers", t.GetName(), typ)
	}
	if len(t.GetInt32Data()) > 0 {
		// Types below 32 bits are stored here too: floats as their bits, and elements below 8 bits packed as
		// in bytes.
		var b [8]byte
		bits := typ.Bits()
		left, _ := onnxpb.Elements(t.GetDims()) // checked when the model was read
		for _, v := range t.GetInt32Data() {
			if bits < 8 {
				left -= unpackByte(byte(v), bits, left, func(b []byte) { do(decode(b)) })
				continue
			}
			binary.LittleEndian.PutUint32(b[:], uint32(v))
			do(decode(b[:]))
		}
		return nil
	}
	r, err := s.payload(t)
	if err != nil {
		return err
	}
	defer r.Close()
	in := bufio.NewReaderSize(r, 1<<16)
	bits := typ.Bits()
	b := make([]byte, (bits+7)/8)
	left, _ := onnxpb.Elements(t.GetDims()) // checked when the model was read
	for {
		if _, err := io.ReadFull(in, b); err == io.EOF {
			return nil
		} else if err != nil {
			return fmt.Errorf("tensor %q: %w", t.GetName(), err)
		}
		if bits >= 8 {
			do(decode(b))
			continue
		}
		left -= unpackByte(b[0], bits, left, func(b []byte) { do(decode(b)) })
	}
}

// all calls do for every number, and reports whether there are any.
func all[T float32 | float64 | int64 | uint64](list []T, do func(float64)) bool {
	for _, v := range list {
		do(float64(v))
	}
	return len(list) > 0
}

// unpackByte calls do for the elements of the given bits in a byte, the lowest first, up to left, and returns
// their number.
func unpackByte(packed byte, bits, left int64, do func([]byte)) int64 {
	n := min(8/bits, left)
	for range n {
		do([]byte{packed & (1<<bits - 1)})
		packed >>= bits
	}
	return n
}

// checkSparse checks a sparse tensor as far as possible without reading it: it has one value per position, no
// more than elements, and positions of one number or one per dimension.
func checkSparse(t *onnxpb.SparseTensor) error {
	name := t.GetValues().GetName()
	n, ok := onnxpb.Elements(t.GetDims())
	if !ok {
		return fmt.Errorf("sparse tensor %q: its shape %v is impossible", name, t.GetDims())
	}
	values, indices := t.GetValues().GetDims(), t.GetIndices().GetDims()
	rank := int64(len(t.GetDims()))
	switch {
	case t.GetValues() == nil || len(values) != 1 || values[0] > n:
		return fmt.Errorf("sparse tensor %q: values of shape %v for %d elements", name, values, n)
	case values[0] == 0 && t.GetIndices() == nil:
	case len(indices) < 1 || len(indices) > 2 || indices[0] != values[0] || len(indices) == 2 &&
		(rank == 0 || indices[1] != rank):
		return fmt.Errorf("sparse tensor %q: positions of shape %v for %d values in %d dimensions", name, indices,
			values[0], rank)
	case tensor.Type(t.GetIndices().GetDataType()) != tensor.Int64:
		return fmt.Errorf("sparse tensor %q: positions of type %v, want %v", name,
			tensor.Type(t.GetIndices().GetDataType()), tensor.Int64)
	}
	return nil
}

// Dense returns all n elements of a sparse tensor that [checkSparse] has accepted.
func (s *store) Dense(t *onnxpb.SparseTensor, n int64) ([]float64, error) {
	data := make([]float64, n)
	values := t.GetValues().GetDims()[0]
	if values == 0 {
		return data, nil
	}
	at := make([]int64, 0, values)
	dims := []int64{n} // of one position
	if len(t.GetIndices().GetDims()) == 2 {
		dims = t.GetDims()
	}
	var k int
	var wrong error
	err := s.Floats(t.GetIndices(), func(x float64) {
		d := int64(-1)
		if x >= 0 && x < float64(dims[k]) {
			d = int64(x)
		} else if wrong == nil {
			wrong = fmt.Errorf("sparse tensor %q: position %v along %d elements", t.GetValues().GetName(), x, dims[k])
		}
		if k == 0 {
			at = append(at, 0)
		}
		at[len(at)-1] = at[len(at)-1]*dims[k] + d
		k = (k + 1) % len(dims)
	})
	if err == nil {
		err = wrong
	}
	if err != nil {
		return nil, err
	}
	k = 0
	err = s.Floats(t.GetValues(), func(x float64) {
		data[at[k]] = x
		k++
	})
	return data, err
}

// payload returns the raw bytes of a tensor that has them inline or in a file.
func (s *store) payload(t *onnxpb.Tensor) (io.ReadCloser, error) {
	if t.GetSpan() != nil {
		return s.reader(t.GetSpan())
	}
	return io.NopCloser(bytes.NewReader(t.GetRawData())), nil
}
