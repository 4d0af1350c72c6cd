package bundle

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/safetensors"
	"github.com/mfgs/mfgs/onnx/files"
)

// WriteOptions says what goes into a bundle beside manifest and posterior, and
// whether it may replace another. The zero value adds and replaces nothing.
type WriteOptions struct {
	// Force replaces an existing bundle, or an empty folder. It does not replace a folder that has
	// no manifest, or that holds anything but the files of a bundle.
	Force bool

	// Keep names files that are to be there afterwards, such as the model that was calibrated where
	// Model is not set: a bundle that holds one of them is not replaced.
	Keep []string

	// Model, if set, writes [ModelName], ModelData [ModelDataName], the external
	// data of that model, and Curvature [CurvatureName].
	Model     func(io.Writer) error
	ModelData func(io.Writer) error
	Curvature func(io.Writer) error
}

// Copy returns a function that writes the content of the file at path.
func Copy(path string) func(io.Writer) error {
	return func(w io.Writer) error {
		f, err := files.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.Copy(w, f)
		return err
	}
}

// CheckTarget reports whether [Write], with force and keep for its options
// Force and Keep, would refuse dir for what is there already, or could write
// nothing there, which it tries: to be asked before the work whose result goes there.
func CheckTarget(dir string, force bool, keep ...string) error {
	path, _, err := target(dir, force, keep)
	if err != nil {
		return err
	}
	return tryWriting(dir, path)
}

// tryWriting makes what Write would make, and takes it away again; path is where dir really is.
func tryWriting(dir, path string) error {
	fail := func(err error) error {
		var p *fs.PathError
		if errors.As(err, &p) {
			err = p.Err // the path is of a hidden file, which nobody named
		}
		return fmt.Errorf("%s cannot be written: %w: choose another folder, or see to its permissions", dir, err)
	}
	draft, err := files.NewDraft(filepath.Dir(path))
	if err != nil {
		return fail(err)
	}
	defer draft.Close()
	f, err := draft.Create(filepath.Join(filepath.Base(path), ManifestName))
	if err != nil {
		return fail(err)
	}
	if err := f.Close(); err != nil {
		return fail(err)
	}
	return nil
}

// fileNames are those of all files that a bundle can have.
var fileNames = []string{ManifestName, PosteriorName, CurvatureName, ModelName, ModelDataName}

// target returns where dir really is and whether it is there, and refuses what
// must not be replaced.
func target(dir string, force bool, keep []string) (path string, there bool, err error) {
	if path, err = filepath.Abs(dir); err != nil {
		return "", false, err
	}
	if s, err := os.Stat(filepath.Dir(path)); err != nil {
		return "", false, err
	} else if !s.IsDir() {
		return "", false, fmt.Errorf("%s is not a folder", filepath.Dir(path))
	}
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return path, false, nil
	} else if err != nil {
		return "", false, err
	}
	if !force {
		return "", false, fmt.Errorf("%s: %w: use --force to replace it", path, fs.ErrExist)
	}
	// A link to a bundle stays, and the bundle is replaced.
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return "", false, err
	}
	if err := replaceable(path, keep); err != nil {
		return "", false, err
	}
	return path, true, nil
}

// replaceable refuses a folder in which anything but a bundle would be lost, or
// one of the files in keep.
func replaceable(dir string, keep []string) error {
	folder, err := os.Stat(dir)
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	manifest := len(entries) == 0
	for _, e := range entries {
		if !slices.Contains(fileNames, e.Name()) || e.IsDir() {
			return fmt.Errorf("%s is not replaced: it holds %s, which is no part of a bundle", dir, e.Name())
		}
		manifest = manifest || e.Name() == ManifestName
	}
	if len(entries) > 0 && manifest {
		if err := isManifest(filepath.Join(dir, ManifestName)); err != nil {
			return fmt.Errorf("%s is not replaced: %w", dir, err)
		}
	}
	if !manifest {
		return fmt.Errorf("%s is not replaced: it holds %s but no %s, so it is not a bundle", dir, entries[0].Name(), ManifestName)
	}
	for _, name := range keep {
		path, err := filepath.EvalSymlinks(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // nothing to be lost
		}
		if err != nil {
			return err
		}
		// There are no folders in dir, so a file in it lies right there.
		s, err := os.Stat(filepath.Dir(path))
		if err != nil {
			return err
		}
		if os.SameFile(s, folder) {
			return fmt.Errorf("%s is not replaced: %s would be lost with it; move one of them elsewhere", dir, name)
		}
	}
	return nil
}

// isManifest refuses a file that was never the manifest of a bundle, broken or
// not: other programs have a bundle.yaml too.
func isManifest(path string) error {
	data, err := files.Read(path, MaxManifest)
	if err != nil {
		return err
	}
	if len(data) > 0 && !bytes.HasPrefix(data, []byte("# "+comments["format"]+"\n")) && !sealLine.Match(data) {
		return fmt.Errorf("its %s is not that of a bundle: remove it yourself, or choose another folder", ManifestName)
	}
	return nil
}

// Write writes a bundle to the folder dir, which must not exist unless
// o.Force, as the package documentation says. The fields of the manifest that
// are marked so are set here, from the posterior and the files written.
func Write(dir string, b Bundle, o WriteOptions) error {
	return write(dir, b, o, func(d *files.Draft, name string) (io.WriteCloser, error) { return d.Create(name) })
}

// write is Write, on a disk that may be full.
func write(dir string, b Bundle, o WriteOptions,
	create func(d *files.Draft, name string) (io.WriteCloser, error)) (err error) {
	dir, _, err = target(dir, o.Force, o.Keep)
	if err != nil {
		return err
	}
	m := b.Manifest
	if err := describe(&m, b.Posterior); err != nil {
		return err
	}
	switch {
	case o.Model != nil && m.Model == nil:
		return errors.New("a model is written into a bundle whose manifest does not describe it")
	case o.ModelData != nil && o.Model == nil:
		return fmt.Errorf("%s is written into a bundle without %s", ModelDataName, ModelName)
	}
	draft, err := files.NewDraft(filepath.Dir(dir))
	if err != nil {
		return err
	}
	defer draft.Close()

	base := filepath.Base(dir)
	put := func(name string, content func(io.Writer) error) (*File, error) {
		f, err := create(draft, filepath.Join(base, name))
		if err != nil {
			return nil, err
		}
		h := sha256.New()
		if err := content(io.MultiWriter(f, h)); err != nil {
			return nil, fmt.Errorf("writing %s: %w", name, err)
		}
		return &File{Name: name, SHA256: hex.EncodeToString(h.Sum(nil))}, f.Close()
	}
	if o.Model != nil {
		if m.Model.File, err = put(ModelName, o.Model); err != nil {
			return err
		}
	}
	if o.ModelData != nil {
		if m.Model.Data, err = put(ModelDataName, o.ModelData); err != nil {
			return err
		}
	}
	posterior, err := put(PosteriorName, func(w io.Writer) error { return encode(w, b.Posterior) })
	if err != nil {
		return err
	}
	m.Posterior = *posterior
	if o.Curvature != nil {
		if m.Curvature, err = put(CurvatureName, o.Curvature); err != nil {
			return err
		}
	}
	document, err := m.document()
	if err != nil {
		return err
	}
	if _, err := put(ManifestName, func(w io.Writer) error {
		_, err := w.Write(seal(document))
		return err
	}); err != nil {
		return err
	}
	return move(draft, dir, o)
}

// describe sets the fields of m that p determines, and leaves those of files
// empty. What m pointed to stays as it was.
func describe(m *Manifest, p *calibrate.Posterior) error {
	if err := p.Head.Validate(); err != nil {
		return err
	}
	if m.Head.Head != p.Head {
		return fmt.Errorf("the manifest describes the head %+v, the posterior %+v", m.Head.Head, p.Head)
	}
	m.Format = Version
	m.Covariance, m.Structure, m.Damping.Epsilon = p.Covariance, p.Structure, p.Epsilon
	m.Posterior, m.Curvature = File{}, nil
	if m.Model != nil {
		model := *m.Model
		model.File, model.Data = nil, nil
		m.Model = &model
	}
	return nil
}

// encode writes the posterior, after the checks that a reader would make.
func encode(w io.Writer, p *calibrate.Posterior) error {
	if err := validatePosterior(p); err != nil {
		return err
	}
	var list []safetensors.Tensor
	for _, t := range tensors(p) {
		if t.optional && *t.data == nil {
			continue
		}
		list = append(list, safetensors.Tensor{Name: t.name, Shape: t.shape, Data: *t.data})
	}
	return safetensors.Encode(w, list, nil)
}

// document renders a manifest and reads it again as a reader would, so that
// nothing is written that cannot be opened, or says something else then.
func (m *Manifest) document() ([]byte, error) {
	document, err := m.render()
	if err != nil {
		return nil, err
	}
	if len(document) > MaxManifest-1024 {
		return nil, fmt.Errorf("%s: %w: %d bytes, at most %d can be read", ManifestName, ErrTooLarge, len(document), MaxManifest)
	}
	back, err := parse(document)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", ManifestName, err)
	}
	again, err := back.render()
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(again, document) {
		return nil, fmt.Errorf("%s: %w: it reads differently from what was written", ManifestName, ErrYAML)
	}
	return document, nil
}

// move gives the folder of the draft the name dir.
func move(draft *files.Draft, dir string, o WriteOptions) error {
	// Writing took its time: dir need not be what it was before.
	dir, there, err := target(dir, o.Force, o.Keep)
	if err != nil {
		return err
	}
	base := filepath.Base(dir)
	if !there {
		return draft.MoveNew(base)
	}
	old, err := draft.Exchange(base)
	if err != nil {
		return err
	}
	if err := discard(old); err != nil {
		kept, e := draft.Keep(old)
		return fmt.Errorf("the new bundle is in place, but the old one is left at %s: %w", kept, errors.Join(err, e))
	}
	return nil
}

// discard removes the folder of a bundle. What is no part of one, it leaves,
// and the folder with it.
func discard(dir string) error {
	for _, name := range fileNames {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return os.Remove(dir)
}
