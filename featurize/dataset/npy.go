package dataset

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/mfgs/mfgs/featurize/dataset/internal/arrays"
)

func openNPY(path string, _ Options) (_ Source, err error) {
	s := &arraySource{names: filepath.Base(path)}
	f, err := s.Open(path)
	if err != nil {
		return nil, err
	}
	a, err := readNPY(path, f, f.Size())
	if err != nil {
		s.Close()
		return nil, err
	}
	s.Count, s.inputs = a.Count, []namedArray{{"", imageLayout(a.Type, a.Shape), a}}
	return s, nil
}

// readNPY opens the array in a plain .npy file.
func readNPY(name string, f io.ReaderAt, size int64) (*arrays.Array, error) {
	h, unsupported, err := arrays.ReadHeader(io.NewSectionReader(f, 0, size))
	if err = errors.Join(err, unsupported); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(h.Shape) == 0 {
		return nil, fmt.Errorf("%s: holds a single number; want an array with examples along its first axis", name)
	}
	start := int64(h.Size)
	a, err := arrays.NewArray(name, h.Type, h.Shape, size-start)
	if err != nil {
		return nil, err
	}
	if a.Bytes() != size-start {
		return nil, fmt.Errorf("%s: corrupt: its header promises %d bytes of data, the file holds %d", name, a.Bytes(),
			size-start)
	}
	a.Open = arrays.Plain(f, start, size)
	return a, nil
}
