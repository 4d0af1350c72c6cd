package part

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"

	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/internal/safetensors"
	"github.com/mfgs/mfgs/wrap/bundle"
	"github.com/mfgs/mfgs/wrap/internal/folder"
)

// Version is the format of parts, the only one that is written and read.
const Version = 2

// MaxManifest is the largest size of a manifest in bytes: room for the messages of a
// hundred thousand bad records.
const MaxManifest = 16 << 20

// The names of a part's files.
const (
	ManifestName  = "part.yaml"
	CurvatureName = bundle.CurvatureName
	CountsName    = "counts.safetensors"
	SampleName    = bundle.SampleName
	ValName       = "val.rows"
	OODName       = "ood.rows"
	SyntheticName = "synthetic_ood.rows"
	ProbeName     = bundle.ProbeName
	ModelName     = bundle.ModelName
	ModelDataName = bundle.ModelDataName
)

// rowsNames are the files with the examples of a role.
var rowsNames = map[bundle.Role]string{
	bundle.Val: ValName, bundle.OOD: OODName, bundle.SyntheticOOD: SyntheticName,
}

// comments stand above the fields of a manifest.
var comments = map[string]string{
	"format": "A part of a calibration, by mfgs. Merge the parts with: mfgs merge",
	"recipe": "The settings that all parts of the calibration share.",
	"sets":   "The data that was read.",
	"files":  "The other files of this folder.",
}

var kind = &folder.Kind{
	Noun: "part of a calibration", Manifest: ManifestName,
	Files: []string{
		ManifestName, CurvatureName, CountsName, SampleName, ValName, OODName, SyntheticName, ProbeName,
		ModelName, ModelDataName,
	},
	Title: comments["format"], Largest: MaxManifest,
}

// WriteOptions say whether a part has the model, and whether it may replace another.
type WriteOptions struct {
	Force bool // replace an existing part, or an empty folder

	// Model, if set, writes [ModelName], and ModelData [ModelDataName].
	Model, ModelData func(io.Writer) error
}

// CheckTarget reports why [Write] with the option Force would refuse dir, or could not write there, which it tries.
// Call it before long work whose result goes there.
func CheckTarget(dir string, force bool) error {
	return kind.CheckTarget(dir, folder.Options{Force: force})
}

// Write writes a part to the folder dir, which must not exist unless o.Force is set: whole or not at all.
// The same part gives the same bytes.
func Write(dir string, p *Part, o WriteOptions) error {
	m := p.Manifest
	m.Format, m.Files = Version, nil
	if err := p.check(); err != nil {
		return err
	}
	content := map[string]func(io.Writer) error{ModelName: o.Model, ModelDataName: o.ModelData}
	if p.Sums != nil {
		content[CurvatureName], content[CountsName] = p.Sums.Encode, p.Counts.encode
		content[SampleName] = p.Sample.Encode
	}
	for role, name := range rowsNames {
		if b := *p.Rows(role); b != nil {
			content[name] = func(w io.Writer) error { return writeRows(w, b) }
		}
	}
	if p.Probe != nil {
		content[ProbeName] = func(w io.Writer) error { return p.Probe.Encode(w, p.Recipe.Head.Head) }
	}
	return kind.Write(dir, folder.Options{Force: o.Force}, func(put folder.Put) error {
		for _, name := range kind.Files[1:] {
			if content[name] == nil {
				continue
			}
			sum, err := put(name, content[name])
			if err != nil {
				return err
			}
			m.Files = append(m.Files, bundle.File{Name: name, SHA256: sum})
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
	})
}

// Discard removes a part, if there is one, unless the folder holds anything else.
func Discard(dir string) error {
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return kind.Discard(dir)
}

// document renders a manifest and reads it again, so that what is written can be read.
func (m *Manifest) document() ([]byte, error) {
	document, err := folder.Render(m, comments)
	if err == nil && len(folder.Seal(document)) > MaxManifest {
		err = fmt.Errorf("%w: %d bytes, at most %d can be read", bundle.ErrTooLarge, len(document), MaxManifest)
	}
	if err == nil {
		_, err = parse(document)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", ManifestName, err)
	}
	return document, nil
}

// writeRows writes examples as a store.
func writeRows(w io.Writer, b *rows.Batch) error {
	s, err := rows.NewWriter(w, nil)
	if err != nil {
		return err
	}
	if b.N > 0 {
		if err := s.Add(b); err != nil {
			return err
		}
	}
	return s.End(rows.End{Labelled: b.Labels != nil || b.Targets != nil})
}

// countsVersion is the version of the format of counts.
const countsVersion = "1"

// encode writes the counts in the format of the package documentation.
func (c *Counts) encode(w io.Writer) error {
	hashes := c.repeats.hashes()
	keys, times := make([]int64, len(hashes)), make([]int64, len(hashes))
	for i, h := range hashes {
		keys[i], times[i] = int64(h), c.repeats.times[h]
	}
	wide := func(x []int) []int64 {
		out := make([]int64, len(x))
		for i, v := range x {
			out[i] = int64(v)
		}
		return out
	}
	return safetensors.EncodeSealed(w, []safetensors.Tensor{
		{Name: "labels", Shape: []int{len(c.Labels)}, Data: wide(c.Labels)},
		{Name: "predicted", Shape: []int{len(c.Predicted)}, Data: wide(c.Predicted)},
		{Name: "hashes", Shape: []int{len(keys)}, Data: keys},
		{Name: "times", Shape: []int{len(times)}, Data: times},
	}, map[string]string{
		"mfgs.counts": countsVersion, "examples": strconv.Itoa(c.Examples), "labelled": strconv.Itoa(c.Labelled),
		"mask": strconv.FormatUint(c.repeats.mask, 10),
	})
}
