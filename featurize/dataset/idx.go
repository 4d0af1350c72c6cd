package dataset

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/mfgs/mfgs/featurize/dataset/internal/arrays"
)

// sniffIDX excludes a .bin file that may be CIFAR: a dark image of class 0 begins like an IDX file.
func sniffIDX(p *Peek) (bool, error) {
	return arrays.IsIDX(p.Head) && !(p.Ext == ".bin" && (cifar10.fits(p, p.Size) || cifar100.fits(p, p.Size))), nil
}

func openIDX(path string, o Options) (_ Source, err error) {
	s := &arraySource{names: filepath.Base(path)}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	images, err := s.openIDX(path)
	if err != nil {
		return nil, err
	}
	if len(images.Shape) == 0 {
		return nil, fmt.Errorf("%s: holds one number per example, as labels files do; name the images file", path)
	}
	s.inputs = []namedArray{{"", imageLayout(images.Type, images.Shape), images}}
	if lp := labelsPath(path); lp != "" && !o.Unlabelled {
		if err := singleLabels(lp, o); err != nil {
			return nil, err
		}
		if s.labels, err = s.openIDX(lp); err != nil {
			return nil, err
		}
		if len(s.labels.Shape) != 0 || s.labels.Type.IsFloat() {
			return nil, fmt.Errorf("%s: labels are %s with %d dimensions; want integers with 1", lp, s.labels.Type,
				len(s.labels.Shape)+1)
		}
		if s.labels.Count != images.Count {
			return nil, fmt.Errorf("%s: %d labels for the %d examples of %s", lp, s.labels.Count, images.Count, path)
		}
	}
	s.Count, s.Labelled = images.Count, s.labels != nil
	return s, nil
}

// labelsPath returns the existing labels file beside an images file, or "".
func labelsPath(images string) string {
	dir, base := filepath.Split(images)
	name := strings.NewReplacer("images", "labels", "idx3", "idx1", "idx4", "idx1").Replace(base)
	if name == base {
		return ""
	}
	other := name + ".gz"
	if plain, zipped := strings.CutSuffix(name, ".gz"); zipped {
		other = plain
	}
	for _, n := range []string{name, other} {
		if exists(dir + n) {
			return dir + n
		}
	}
	return ""
}

// openIDX opens one IDX file.
func (s *arraySource) openIDX(path string) (*arrays.Array, error) {
	f, err := s.Open(path)
	if err != nil {
		return nil, err
	}
	return arrays.ReadIDX(path, f, f.Size())
}
