package dataset

import (
	"path/filepath"

	"github.com/mfgs/mfgs/featurize/dataset/internal/arrays"
)

func openNPY(path string, _ Options) (_ Source, err error) {
	s := &arraySource{names: filepath.Base(path)}
	f, err := s.Open(path)
	if err != nil {
		return nil, err
	}
	a, err := arrays.ReadNPY(path, f, f.Size())
	if err != nil {
		s.Close()
		return nil, err
	}
	s.Count, s.inputs = a.Count, []namedArray{{"", imageLayout(a.Type, a.Shape), a}}
	return s, nil
}
