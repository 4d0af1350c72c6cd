package bundle

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/internal/files"
	"github.com/mfgs/mfgs/internal/safetensors"
	"github.com/mfgs/mfgs/wrap/internal/folder"
)

// WriteOptions says what goes into a bundle besides manifest and posterior, and whether it may replace another.
// The zero value adds and replaces nothing.
type WriteOptions struct {
	// Force replaces an existing bundle, or an empty folder. It does not replace a folder that has
	// no manifest, or that holds anything but the files of a bundle.
	Force bool

	// Keep names files that must not be lost, such as the calibrated model if Model is not set: a bundle that
	// holds one of them is not replaced.
	Keep []string

	// Model, if set, writes [ModelName], ModelData [ModelDataName], the external data of that model, Curvature
	// [CurvatureName] and Sample [SampleName].
	Model     func(io.Writer) error
	ModelData func(io.Writer) error
	Curvature func(io.Writer) error
	Sample    func(io.Writer) error
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

// CheckTarget reports why [Write] with the options Force and Keep would refuse dir, or could not write
// there, which it tries. Call it before long work whose result goes there.
func CheckTarget(dir string, force bool, keep ...string) error {
	return kind.CheckTarget(dir, folder.Options{Force: force, Keep: keep})
}

// fileNames lists all files that a bundle can have.
var fileNames = []string{
	ManifestName, PosteriorName, CurvatureName, SampleName, ScoresName, ProbeName, ModelName, ModelDataName,
}

var kind = &folder.Kind{
	Noun: "bundle", Manifest: ManifestName, Files: fileNames, Title: comments["format"], Largest: MaxManifest,
}

// Write writes a bundle to the folder dir, which must not exist unless o.Force is set; see the package
// documentation. It sets the fields of the manifest marked so, from the posterior and the files written.
func Write(dir string, b Bundle, o WriteOptions) error {
	return write(dir, b, o, folder.Ordinary)
}

// write is Write with the function that creates files, which tests replace by one that fails.
func write(dir string, b Bundle, o WriteOptions, create folder.Create) (err error) {
	m := b.Manifest
	if err := describe(&m, b.Posterior); err != nil {
		return err
	}
	if err := m.describeScore(b.Score); err != nil {
		return err
	}
	switch {
	case o.Model != nil && m.Model == nil:
		return errors.New("the bundle has a model, and the manifest does not describe it")
	case o.ModelData != nil && o.Model == nil:
		return fmt.Errorf("%s is written into a bundle without %s", ModelDataName, ModelName)
	}
	return kind.WriteWith(dir, folder.Options{Force: o.Force, Keep: o.Keep}, func(put folder.Put) error {
		return fill(put, &m, &b, o)
	}, create)
}

// fill writes the files of a bundle, and records them in the manifest.
func fill(put folder.Put, m *Manifest, b *Bundle, o WriteOptions) error {
	var model, data *File
	posterior := new(File)
	var scores func(io.Writer) error
	if b.Score != nil && b.Score.NeedsFitting() {
		scores = func(w io.Writer) error { return encodeScore(w, b.Score) }
	}
	var probe func(io.Writer) error
	if b.Probe != nil {
		probe = func(w io.Writer) error { return b.Probe.Encode(w, m.Head.Head) }
	}
	for _, f := range []struct {
		name    string
		content func(io.Writer) error
		record  **File
	}{
		{ModelName, o.Model, &model},
		{ModelDataName, o.ModelData, &data},
		{PosteriorName, func(w io.Writer) error { return encode(w, b.Posterior) }, &posterior},
		{CurvatureName, o.Curvature, &m.Curvature},
		{ScoresName, scores, &m.Scores},
		{SampleName, o.Sample, &m.Sample},
		{ProbeName, probe, &m.Probe},
	} {
		if f.content == nil {
			continue
		}
		sum, err := put(f.name, f.content)
		if err != nil {
			return err
		}
		*f.record = &File{Name: f.name, SHA256: sum}
	}
	m.Posterior = *posterior
	if m.Model != nil {
		m.Model.File, m.Model.Data = model, data
	}
	document, err := m.document()
	if err != nil {
		return err
	}
	_, err = put(ManifestName, func(w io.Writer) error {
		_, err := w.Write(folder.Seal(document))
		return err
	})
	return err
}

// describe sets the fields of m that p determines, and empties those of files. It does not change what m
// points to.
func describe(m *Manifest, p *calibrate.Posterior) error {
	if err := p.Head.Validate(); err != nil {
		return err
	}
	if m.Head.Head != p.Head {
		return fmt.Errorf("the manifest describes the head %+v, the posterior %+v", m.Head.Head, p.Head)
	}
	m.Format = Version
	m.Covariance, m.Structure, m.Damping.Epsilon = p.Covariance, p.Structure, p.Epsilon
	m.Posterior, m.Curvature, m.Sample, m.Probe = File{}, nil, nil, nil
	if m.Model != nil {
		model := *m.Model
		model.File, model.Data = nil, nil
		m.Model = &model
	}
	return nil
}

// encode writes the posterior, after a reader's checks.
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

// document renders a manifest and reads it again, so that what is written can be opened and says the same.
func (m *Manifest) document() ([]byte, error) {
	if p := m.Preprocess; p != nil && p.Exif == nil {
		return nil, fmt.Errorf("%s: %w: preprocess.exif is not set, want true or false", ManifestName, ErrField)
	}
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
