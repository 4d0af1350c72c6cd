package arrays

import (
	"bytes"
	"encoding/binary"
	"testing"
)

// A header is refused, or ends within the bytes and has a type with a size.
func FuzzHeader(f *testing.F) {
	for _, dict := range []string{
		"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }", "{'descr': '>U7', 'fortran_order': True, 'shape': ()}",
		"{'descr': [('a', '<i4')], 'fortran_order': False, 'shape': (1,)}", "{'shape': (99999999999999999999,)}",
	} {
		b := append([]byte(Magic), 1, 0)
		f.Add(append(binary.LittleEndian.AppendUint16(b, uint16(len(dict))), dict...))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		h, unsupported, err := readHeader(bytes.NewReader(b))
		if err != nil {
			return
		}
		if h.Size > len(b) || unsupported == nil && h.Type.Size <= 0 {
			t.Fatalf("%+v of %d bytes", h, len(b))
		}
		for _, d := range h.Shape {
			if d < 0 {
				t.Fatalf("shape %v", h.Shape)
			}
		}
	})
}
