package arrays

import (
	"archive/zip"
	"fmt"
	"io"
	"math"
)

// ReadZipped opens one array, or says why it is ignored.
func ReadZipped(name string, m *zip.File, size int64, text bool) (a *Array, ignored string, err error) {
	// The directory's sizes are not trusted: check them against the file's.
	factor := uint64(1)
	if m.Method == zip.Deflate {
		factor = MaxInflate
	}
	if m.CompressedSize64 > uint64(size) || m.UncompressedSize64 > m.CompressedSize64*factor ||
		m.UncompressedSize64 > math.MaxInt64 {
		return nil, "", fmt.Errorf("%s: corrupt: %d bytes cannot come from %d in a file of %d", name,
			m.UncompressedSize64, m.CompressedSize64, size)
	}
	r, err := m.Open()
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", name, err)
	}
	defer r.Close()
	h, unsupported, err := readHeader(r)
	switch {
	case err != nil:
		return nil, "", fmt.Errorf("%s: %w", name, err)
	case unsupported != nil && !(text && h.Type.IsText()):
		return nil, "not an array of numbers", nil
	case h.Columns:
		return nil, "", fmt.Errorf("%s: %w", name, errFortran)
	case len(h.Shape) == 0:
		return nil, "a single number, not one for each example", nil
	}
	start := int64(h.Size)
	data := int64(m.UncompressedSize64) - start
	if a, err = NewArray(name, h.Type, h.Shape, data); err != nil {
		return nil, "", err
	}
	if h.Type.IsText() && a.Item/a.Type.Size > MaxStrings {
		return nil, "", fmt.Errorf("%s: one example has %d strings, want at most %d", name, a.Item/a.Type.Size, MaxStrings)
	}
	if a.Bytes() != data {
		return nil, "", fmt.Errorf("%s: corrupt: its header declares %d bytes of data, the archive %d", name, a.Bytes(),
			data)
	}
	a.Open = func(skip int64) (io.ReadCloser, error) {
		r, err := m.Open()
		if err != nil {
			return nil, err
		}
		if err := Discard(r, start+skip); err != nil {
			r.Close()
			return nil, err
		}
		return r, nil
	}
	return a, "", nil
}
