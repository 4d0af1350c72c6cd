package dataset

import (
	"archive/zip"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mfgs/mfgs/featurize/dataset/internal/arrays"
	"github.com/mfgs/mfgs/internal/text"
)

// An npzFile is an open .npz: a zip of .npy members.
type npzFile struct {
	path    string
	arrays  map[string]*arrays.Array
	names   []string // of arrays, sorted
	ignored []Ignored
	skipped map[string]string // why, by array
}

// openNPZFile opens the arrays of a zip for a source. Arrays of strings are read if they are named in
// texts, or may be labels.
func openNPZFile(b *Base, path string, texts ...string) (*npzFile, error) {
	f, err := b.Open(path)
	if err != nil {
		return nil, err
	}
	z, err := readNPZ(path, f, f.Size(), texts)
	if err != nil {
		b.Close()
	}
	return z, err
}

// readNPZ opens the arrays of a zip. Other members, such as metadata, are ignored.
func readNPZ(path string, f io.ReaderAt, size int64, texts []string) (*npzFile, error) {
	zr, err := zip.NewReader(f, size)
	if err != nil {
		return nil, fmt.Errorf("%s: broken .npz (a zip of arrays): %w", path, err)
	}
	z := &npzFile{path: path, arrays: map[string]*arrays.Array{}, skipped: map[string]string{}}
	var l listing
	for _, m := range zr.File {
		name, isArray := strings.CutSuffix(m.Name, ".npy")
		if !isArray {
			l.ignore("not an array", m.Name, 1)
			continue
		}
		if z.arrays[name] != nil {
			return nil, fmt.Errorf("%s: array %q appears twice", path, text.Name(name))
		}
		a, reason, err := arrays.ReadZipped(path+": "+text.Name(name), m, size, slices.Contains(texts, name) ||
			slices.Contains(labelNames, name))
		if err != nil {
			return nil, err
		}
		if reason != "" {
			l.ignore(reason, name, 1)
			z.skipped[name] = reason
			continue
		}
		z.arrays[name] = a
		z.names = append(z.names, name)
	}
	slices.Sort(z.names)
	z.ignored = l.ignored
	return z, nil
}

// labelNames are the accepted names of the labels.
var labelNames = []string{"labels", "label", "y"}

// labelsArray returns the name and array of the labels, or nil. Under MultiLabel they must have k targets
// per example, any number if k is 0. Numeric labels are preferred to class names, which may be there too.
func (z *npzFile) labelsArray(o Options, k int) (string, *arrays.Array, error) {
	var found, names string
	for _, name := range labelNames {
		a := z.arrays[name]
		if a == nil || a.Type.IsText() && slices.Contains(o.Inputs, name) {
			continue
		}
		at := &found
		if a.Type.IsText() {
			at = &names
		}
		if *at != "" {
			return "", nil, fmt.Errorf("%s: both %q and %q could be the labels", z.path, *at, name)
		}
		*at = name
	}
	if found == "" {
		found = names
	} else if names != "" {
		delete(z.arrays, names)
		z.names = slices.DeleteFunc(z.names, func(n string) bool { return n == names })
	}
	if found == "" {
		for _, name := range labelNames {
			if reason := z.skipped[name]; reason != "" && !o.Unlabelled {
				return "", nil, fmt.Errorf("%s: %s is %s: labels are whole numbers from 0, or class names as NumPy's strings: labels.astype(str)",
					z.path, name, reason)
			}
		}
		return "", nil, nil
	}
	a := z.arrays[found]
	shape := append([]int{a.Count}, a.Shape...)
	switch {
	case o.Unlabelled:
	case o.Steps && len(a.Shape) > 0:
	case o.Texts, o.Tags, o.Steps:
		return "", nil, singleLabels(z.path, o)
	case o.MultiLabel && a.Type.IsText():
		return "", nil, fmt.Errorf("%s: strings; want %s, [N,K]", a.Name, wantTargets(k))
	case o.MultiLabel && (len(a.Shape) != 1 || k > 0 && a.Shape[0] != k):
		return "", nil, fmt.Errorf("%s: shape %v; want %s, [N,K]", a.Name, shape, wantTargets(k))
	case !o.MultiLabel && a.Item != a.Type.Size: // neither [N] nor [N,1]
		return "", nil, fmt.Errorf("%s: shape %v; want one label per example, [N], for a head whose classes exclude each other",
			a.Name, shape)
	case a.Type.IsText() && a.Item > maxLabelText:
		return "", nil, fmt.Errorf("%s: class names of %d bytes, want at most %d", a.Name, a.Item, maxLabelText)
	}
	return found, a, nil
}

func openNPZ(path string, o Options) (_ Source, err error) {
	s := &arraySource{names: filepath.Base(path), text: newLabelParser(o), multi: o.MultiLabel, steps: o.Steps}
	z, err := openNPZFile(&s.Base, path, o.Inputs...)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	labelName, labels, err := z.labelsArray(o, o.Classes)
	if err != nil {
		return nil, err
	}
	names := slices.DeleteFunc(slices.Clone(z.names), func(n string) bool { return labels != nil && n == labelName })
	if len(names) == 0 {
		reasons := make([]string, 0, len(z.skipped))
		for _, name := range slices.Sorted(maps.Keys(z.skipped)) {
			reasons = append(reasons, fmt.Sprintf("; %q is %s", name, z.skipped[name]))
		}
		return nil, fmt.Errorf("%s: no input arrays, only %q%s", path, z.names,
			strings.Join(reasons[:min(3, len(reasons))], ""))
	}
	if len(names) > 1 && o.Inputs != nil {
		for _, want := range o.Inputs {
			if !slices.Contains(names, want) {
				return nil, fmt.Errorf("%s: no array named %q for the model's input; there are %s", path, want,
					Some(names))
			}
		}
		names = o.Inputs
	}
	for _, name := range names {
		a := z.arrays[name]
		if first := z.arrays[names[0]]; a.Count != first.Count {
			return nil, fmt.Errorf("%s: %q has %d examples, %q has %d", path, names[0], first.Count, name, a.Count)
		}
		s.inputs = append(s.inputs, namedArray{name, imageLayout(a.Type, a.Shape), a})
	}
	if len(names) == 1 {
		s.inputs[0].name = ""
	}
	s.Count = s.inputs[0].Count
	if labels != nil && !o.Unlabelled {
		if labels.Count != s.Count {
			return nil, fmt.Errorf("%s: %d labels for %d examples", path, labels.Count, s.Count)
		}
		s.labels = labels
	}
	s.Labelled, s.Ignored = s.labels != nil, z.ignored
	return s, nil
}
