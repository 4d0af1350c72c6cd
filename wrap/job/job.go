// Package job reads calibrations that are written down: YAML whose keys are those of a bundle's manifest,
// so that a calibration can be reviewed before it is run, and repeated from the bundle that it made.
//
//	model: resnet50.onnx
//	datasets:
//	  - {role: train, spec: 'train-{000..127}.tar'}
//	  - {role: val, spec: val.tar}
//	  - {role: ood, spec: textures}
//	preprocess: imagenet
//	structure: kron
//	decisions: {target_error: 0.01}
//	out: resnet50.mfgs
//
// # Keys
//
// A key of the manifest means what it means there. What the command line takes as one word may be that
// word instead of a mapping: model a path, damping a rule, ood_score a name, preprocess a preset or a file,
// labels a file. What the manifest does not have is named as the flag of mfgs calibrate, with an underscore:
// see [Job]. What a calibration finds out, such as temperatures, is no key of a job.
//
// The paths of a job are seen from the folder of its file.
//
// # Manifests
//
// A document with the key format is the manifest of a bundle, and the job is the calibration that made
// it, which takes its choices and not its results: the model is the copy that stands beside the manifest,
// and model and data must be what they were. SPECs are as they were given, and seen from the current folder.
// An edited copy is a job too: its seal is not looked at. A bundle that was updated, or merged of
// runs whose sets lay in different places, was not made by one calibration.
package job

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/conformal"
	"github.com/mfgs/mfgs/calibrate/score"
	"github.com/mfgs/mfgs/featurize/dataset"
	"github.com/mfgs/mfgs/featurize/preprocess"
	"github.com/mfgs/mfgs/internal/files"
	"github.com/mfgs/mfgs/onnx/head"
	"github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/bundle"
	"github.com/mfgs/mfgs/wrap/calibration"
	"github.com/mfgs/mfgs/wrap/internal/folder"
)

// A Job is a calibration as it is written down. The zero value of a field says that it was left out.
// Fields are those of [calibration.Config], but for what the command line reads from files.
type Job struct {
	Model string // path; "" for ready-made features
	Head  head.Options

	// Preprocess is a preset or a file, Spec what stands in the job itself.
	Preprocess string
	Spec       *preprocess.Spec
	// Classes is a file of class names, Labels those in the job itself.
	Classes string
	Labels  []string

	Covariance calibrate.Covariance
	Structure  calibrate.Structure
	Damping    string // rule
	OODScore   string
	Decisions  conformal.Plan
	Lambda0    float64

	Train, Val, OOD string // SPECs

	Limit, MaxBad, Batch, Threads   int
	Provider, Cache, Out, Report    string
	KeepCurvature, NoModel, NoProbe bool

	// Known is what model and data must be.
	Known calibration.Known

	found *bundle.Head // of the manifest that this was; its SPECs are seen from the current folder
}

// Read reads a job, or a manifest of at most [bundle.MaxManifest] bytes. Errors begin with the path.
func Read(path string) (*Job, error) {
	data, err := files.Read(path, bundle.MaxManifest)
	if err != nil {
		return nil, err
	}
	j, err := Parse(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	j.seenFrom(filepath.Dir(path))
	return j, nil
}

// Parse reads a document; paths are as they stand in it. For a manifest Job.Model is relative to
// it, and all other paths are whole.
func Parse(data []byte) (*Job, error) {
	// A byte order mark is what some editors begin a file with.
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	root, err := folder.Parse(data)
	if err != nil {
		return nil, err
	}
	if hasKey(root, "format") {
		m, err := bundle.ParseManifest(data)
		if err != nil {
			return nil, err
		}
		return ofManifest(m)
	}
	if err := checkKeys(root); err != nil {
		return nil, err
	}
	var d document
	if err := folder.Decode(data, &d); err != nil {
		return nil, err
	}
	j, err := d.job()
	if err != nil {
		return nil, err
	}
	return j, j.validate()
}

// validate refuses values that cannot be meant.
func (j *Job) validate() error {
	if j.Covariance != "" {
		if err := j.Covariance.Validate(); err != nil {
			return err
		}
	}
	switch j.Structure {
	case "", calibrate.Auto, calibrate.Full, calibrate.Kronecker:
	default:
		return fmt.Errorf("structure %q: want %s, %s or %s", j.Structure, calibrate.Auto, calibrate.Full, calibrate.Kronecker)
	}
	if _, err := calibrate.ParseDamping(j.Damping); err != nil {
		return err
	}
	if j.OODScore != "" {
		if err := score.Check(j.OODScore); err != nil {
			return err
		}
	}
	switch j.Head.Link {
	case "", head.Softmax, head.Sigmoid, head.OneVsRest:
	default:
		return fmt.Errorf("head.link %q: want %s, %s or %s", j.Head.Link, head.Softmax, head.Sigmoid, head.OneVsRest)
	}
	if a := j.Head.Approximate; a != "" && a != head.IgnoreRelu {
		return fmt.Errorf("head.approximation %q: want %s", a, head.IgnoreRelu)
	}
	if j.Spec != nil {
		if err := j.Spec.Validate(); err != nil {
			return err
		}
	}
	for name, v := range map[string]int{"limit": j.Limit, "max_bad": j.MaxBad, "batch": j.Batch, "threads": j.Threads} {
		if v < 0 {
			return fmt.Errorf("%s %d is negative", name, v)
		}
	}
	if err := j.Decisions.Validate(); err != nil {
		return fmt.Errorf("decisions: %w", err)
	}
	return nil
}

// seenFrom has relative paths begin at a folder.
func (j *Job) seenFrom(dir string) {
	for _, path := range []*string{&j.Model, &j.Preprocess, &j.Classes, &j.Cache, &j.Out, &j.Report} {
		if *path != "" && !(path == &j.Preprocess && isPreset(*path)) {
			*path = join(dir, *path)
		}
	}
	if j.found != nil {
		return // SPECs are as they were given
	}
	for _, spec := range []*string{&j.Train, &j.Val, &j.OOD} {
		if *spec != "" && !(spec == &j.OOD && *spec == wrap.StandIns) {
			*spec = within(dir, *spec)
		}
	}
}

// isPreset tells names of preprocessing from files: torchvision's have a colon.
func isPreset(name string) bool {
	return slices.Contains(preprocess.Presets, name) || strings.HasPrefix(name, "torchvision:")
}

// within returns a SPEC that is seen from a folder as it is seen from here.
func within(dir, spec string) string {
	if dataset.IsStream(spec) {
		return spec
	}
	if format, path, ok := strings.Cut(spec, ":"); ok && slices.Contains(dataset.Formats(), format) {
		return format + ":" + join(dir, path)
	}
	return join(dir, spec)
}

// join is filepath.Join, but that it leaves what stands there as it is: it may be a pattern, or a slice.
func join(dir, path string) string {
	if dir == "." || filepath.IsAbs(path) {
		return path
	}
	return strings.TrimSuffix(dir, string(filepath.Separator)) + string(filepath.Separator) + path
}
