package arrays

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/mfgs/mfgs/onnx/tensor"
)

// IDX: two zero bytes, a type byte, the number of dimensions, each dimension as a big-endian
// uint32, then the elements, big-endian. http://yann.lecun.com/exdb/mnist
var idxTypes = map[byte]tensor.Type{
	0x08: tensor.Uint8, 0x09: tensor.Int8, 0x0b: tensor.Int16, 0x0c: tensor.Int32, 0x0d: tensor.Float32,
	0x0e: tensor.Float64,
}

// maxIDXDims allows videos, [N,T,H,W,C].
const maxIDXDims = 5

// IsIDX reports whether the first bytes of a file are those of IDX.
func IsIDX(head []byte) bool {
	if len(head) < 4 || head[0] != 0 || head[1] != 0 || head[3] == 0 || head[3] > maxIDXDims {
		return false
	}
	_, ok := idxTypes[head[2]]
	return ok
}

// ReadIDX reads the header of an IDX file, plain or gzipped.
func ReadIDX(name string, f io.ReaderAt, size int64) (*Array, error) {
	var r io.Reader = io.NewSectionReader(f, 0, size)
	limit, data := size, Plain
	magic := make([]byte, 2)
	if _, err := f.ReadAt(magic, 0); err != nil && err != io.EOF {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(r)
		if err != nil {
			return nil, fmt.Errorf("%s: broken gzip header: %w", name, err)
		}
		r, data = z, Gzip
		limit = size * MaxInflate
	}
	head := make([]byte, 4+4*maxIDXDims)
	n, err := io.ReadFull(r, head)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if head = head[:n]; !IsIDX(head) {
		return nil, fmt.Errorf("%s: not an IDX file (it begins % x)", name, head[:min(4, n)])
	}
	rank := int(head[3])
	start := 4 + 4*rank
	if n < start {
		return nil, fmt.Errorf("%s: truncated within its header of %d bytes", name, start)
	}
	dims := make([]int, rank)
	for i := range dims {
		dims[i] = int(binary.BigEndian.Uint32(head[4+4*i:]))
	}
	a, err := NewArray(name, Stored(idxTypes[head[2]], binary.BigEndian), dims, limit-int64(start))
	if err != nil {
		return nil, err
	}
	if limit == size && a.Bytes() != size-int64(start) {
		return nil, fmt.Errorf("%s: corrupt: its header declares %d examples of %d bytes, the file holds %d bytes of data",
			name, a.Count, a.Item, size-int64(start))
	}
	a.Open = data(f, int64(start), size)
	return a, nil
}
