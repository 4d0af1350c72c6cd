package external_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
)

// hollow is a file of zeros behind a header. It counts what is read.
type hollow struct {
	header []byte
	read   int
}

func (h *hollow) ReadAt(p []byte, at int64) (int, error) {
	h.read += len(p)
	clear(p)
	if at < int64(len(h.header)) {
		copy(p, h.header[at:])
	}
	return len(p), nil
}

var _ io.ReaderAt = (*hollow)(nil)

// header is that of a file with one F64 tensor of n bytes.
func header(name string, shape []int, n int64) []byte {
	dims, _ := json.Marshal(shape)
	text := fmt.Sprintf(`{"%s":{"dtype":"F64","shape":%s,"data_offsets":[0,%d]}}`, name, dims, n)
	return append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...)
}
