package onnx

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"

	"github.com/mfgs/mfgs/onnx/internal/onnxpb"
)

// checkTensor checks that a tensor has one payload and that its size is what dims and type ask for.
func checkTensor(t *onnxpb.Tensor) error {
	fail := func(format string, args ...any) error {
		return fmt.Errorf("tensor %q: %s", t.GetName(), fmt.Sprintf(format, args...))
	}
	typ := DataType(t.GetDataType())
	n, ok := elements(t.GetDims())
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
		if want, ok := typ.payload(n); ok && raw != want {
			return fail("%v of %v wants %d bytes and has %d", t.GetDims(), typ, want, raw)
		}
		if typ == String {
			return fail("strings cannot be raw data")
		}
		return nil
	}
	want := n
	switch typ {
	case Complex64, Complex128:
		want = 2 * n
	case 21, 22, 23: // two elements to an int32
		want = (n + 1) / 2
	case 25, 26: // four
		want = (n + 3) / 4
	}
	if count != want {
		return fail("%v of %v wants %d elements and has %d", t.GetDims(), typ, want, count)
	}
	return nil
}

// floats calls do for every element of a numeric tensor, in order, as float64.
func (s *store) floats(t *onnxpb.Tensor, do func(float64)) error {
	switch {
	case len(t.GetFloatData()) > 0:
		for _, v := range t.GetFloatData() {
			do(float64(v))
		}
		return nil
	case len(t.GetDoubleData()) > 0:
		for _, v := range t.GetDoubleData() {
			do(v)
		}
		return nil
	case len(t.GetInt64Data()) > 0:
		for _, v := range t.GetInt64Data() {
			do(float64(v))
		}
		return nil
	case len(t.GetUint64Data()) > 0:
		for _, v := range t.GetUint64Data() {
			do(float64(v))
		}
		return nil
	}
	typ := DataType(t.GetDataType())
	decode, ok := decoders[typ]
	if !ok {
		return fmt.Errorf("tensor %q: elements of type %v cannot be read as numbers", t.GetName(), typ)
	}
	if len(t.GetInt32Data()) > 0 {
		// Types narrower than 32 bits lie here too, the 16-bit floats as their bits.
		var b [8]byte
		for _, v := range t.GetInt32Data() {
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
	b := make([]byte, dataTypes[typ].bits/8)
	for {
		if _, err := io.ReadFull(in, b); err == io.EOF {
			return nil
		} else if err != nil {
			return fmt.Errorf("tensor %q: %w", t.GetName(), err)
		}
		do(decode(b))
	}
}

// payload returns the raw bytes of a tensor that has them inline or in a file.
func (s *store) payload(t *onnxpb.Tensor) (io.ReadCloser, error) {
	if t.GetSpan() != nil {
		return s.reader(t.GetSpan())
	}
	return io.NopCloser(bytes.NewReader(t.GetRawData())), nil
}

// decoders turns the raw little-endian bytes of one element into its value.
var decoders = map[DataType]func([]byte) float64{
	Float32: func(b []byte) float64 { return float64(math.Float32frombits(binary.LittleEndian.Uint32(b))) },
	Float64: func(b []byte) float64 { return math.Float64frombits(binary.LittleEndian.Uint64(b)) },
	Float16: func(b []byte) float64 { return float16(binary.LittleEndian.Uint16(b)) },
	BFloat16: func(b []byte) float64 {
		return float64(math.Float32frombits(uint32(binary.LittleEndian.Uint16(b)) << 16))
	},
	Uint8:  func(b []byte) float64 { return float64(b[0]) },
	Int8:   func(b []byte) float64 { return float64(int8(b[0])) },
	Bool:   func(b []byte) float64 { return float64(b[0]) },
	Uint16: func(b []byte) float64 { return float64(binary.LittleEndian.Uint16(b)) },
	Int16:  func(b []byte) float64 { return float64(int16(binary.LittleEndian.Uint16(b))) },
	Uint32: func(b []byte) float64 { return float64(binary.LittleEndian.Uint32(b)) },
	Int32:  func(b []byte) float64 { return float64(int32(binary.LittleEndian.Uint32(b))) },
	Uint64: func(b []byte) float64 { return float64(binary.LittleEndian.Uint64(b)) },
	Int64:  func(b []byte) float64 { return float64(int64(binary.LittleEndian.Uint64(b))) },
}

// float16 returns the value of an IEEE 754 binary16.
func float16(bits uint16) float64 {
	sign, exp, frac := 1.0, int(bits>>10&0x1f), float64(bits&0x3ff)
	if bits>>15 == 1 {
		sign = -1
	}
	switch exp {
	case 0:
		return sign * math.Ldexp(frac, -24)
	case 31:
		if frac != 0 {
			return math.NaN()
		}
		return math.Inf(int(sign))
	}
	return sign * math.Ldexp(1024+frac, exp-25)
}
