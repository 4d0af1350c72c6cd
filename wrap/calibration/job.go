package calibration

import (
	"bytes"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/mfgs/mfgs/featurize/dataset"
	"github.com/mfgs/mfgs/featurize/preprocess"
	"github.com/mfgs/mfgs/internal/files"
	"github.com/mfgs/mfgs/internal/option"
	"github.com/mfgs/mfgs/internal/text"
	"github.com/mfgs/mfgs/internal/yamlcheck"
	"github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/bundle"
	"github.com/mfgs/mfgs/wrap/internal/folder"
)

// A Job is a calibration written down in YAML, with the keys of a bundle's manifest: it can be reviewed before it
// runs, and repeated from the bundle that it made.
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
// Keys mean what they mean in the manifest. Some may be one word instead of a mapping, as on the
// command line: model a path, damping a rule, ood_score a name, preprocess a preset or a file,
// labels or alphabet a file. Other keys are named like the flags of mfgs calibrate, with underscores:
// see [Config]. Results of a calibration, such as temperatures, are not keys of a job. Paths are relative to
// the folder of the job's file.
//
// A document with the key format is the manifest of a bundle. The job is the calibration that made it: with its
// settings, not its results, and the model beside the manifest; model and data must be unchanged. SPECs are
// relative to the current folder. The seal of the manifest is not checked, so that an edited copy is a job too.
// A bundle that was updated, or merged from runs whose sets were in different places, was not made by one
// calibration.
type Job struct {
	Config Config
	// Preprocess is a preset or a file of preprocessing, Classes a file of class names, and Alphabet one of the symbols
	// of a model that reads text, if the job names one instead of spelling it out in Config.
	Preprocess, Classes, Alphabet string
	Report                        string // file of the report to write
}

// ReadJob reads a job, or a manifest of at most [bundle.MaxManifest] bytes. Errors begin with the path.
func ReadJob(path string) (*Job, error) {
	data, err := files.Read(path, bundle.MaxManifest)
	if err != nil {
		return nil, err
	}
	j, manifest, err := parseJob(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	j.resolvePaths(filepath.Dir(path), manifest)
	return j, nil
}

// ReadPrior reads class frequencies, see [bundle.Settings], from a YAML file: a mapping of names or indices of classes.
// Errors begin with the path.
func ReadPrior(path string) (map[string]float64, error) {
	data, err := files.Read(path, bundle.MaxManifest)
	if err != nil {
		return nil, err
	}
	prior := map[string]float64{}
	root, err := folder.Parse(bytes.TrimPrefix(data, []byte("\ufeff")))
	if err == nil {
		err = yamlcheck.Types(root, reflect.TypeOf(prior), "")
	}
	if err == nil {
		if e := root.Decode(&prior); e != nil {
			err = folder.Error(e)
		}
	}
	if err == nil {
		err = (bundle.Settings{Prior: prior}).Validate()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w: want YAML with lines of class: frequency (an update estimates them from unlabelled data)", path, err)
	}
	return prior, nil
}

// parseJob reads a job, or a manifest, and leaves paths as they are written.
func parseJob(data []byte) (j *Job, manifest bool, err error) {
	// Some editors write a byte order mark.
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	root, err := folder.Parse(data)
	if err != nil {
		return nil, false, err
	}
	if hasKey(root, "format") {
		m, err := bundle.ParseManifest(data)
		if err != nil {
			return nil, true, err
		}
		j, err = repeat(m)
		return j, true, err
	}
	j = &Job{}
	if err := j.takeWords(root); err != nil {
		return nil, false, err
	}
	if err := checkKeys(root); err != nil {
		return nil, false, err
	}
	if err := yamlcheck.Types(root, reflect.TypeFor[document](), ""); err != nil {
		return nil, false, err
	}
	var d document
	if err := root.Decode(&d); err != nil {
		return nil, false, folder.Error(err)
	}
	expect := j.Config.Expect
	j.Config, j.Report = d.Config, d.Report
	j.Config.Expect = expect
	for _, s := range d.Datasets {
		if err := j.Config.add(s); err != nil {
			return nil, false, err
		}
	}
	// Without a model the sets are features.
	j.Config.PrecomputedFeatures = j.Config.Model == "" && j.Config.Expect.Model == "" && len(d.Datasets) > 0
	return j, false, j.validate()
}

// document is the YAML of a job.
type document struct {
	Config   `yaml:",inline"`
	Datasets []set  `yaml:"datasets"`
	Report   string `yaml:"report"`
}

type set struct {
	Role        bundle.Role `yaml:"role"`
	Spec        string      `yaml:"spec"`
	Fingerprint string      `yaml:"fingerprint"`
}

// modelKeys are the keys of a manifest's model that a job may have.
type modelKeys struct {
	SHA256 string `yaml:"sha256"`
	File   struct {
		Name string `yaml:"name"`
	} `yaml:"file"`
}

// null replaces a value that was taken out of the document.
var null = yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}

// takeWords turns values that may be a word or a mapping into what [Config] decodes: model, damping and ood_score
// into a word. File names under preprocess, labels and alphabet go to the
// job, and leave null.
func (j *Job) takeWords(root *yaml.Node) error {
	if len(root.Content) == 0 || root.Content[0].Kind != yaml.MappingNode {
		return nil // checkKeys refuses it
	}
	fields := root.Content[0]
	for i := 0; i < len(fields.Content); i += 2 {
		key, value := fields.Content[i].Value, fields.Content[i+1]
		if value.Kind == yaml.ScalarNode {
			file := map[string]*string{"preprocess": &j.Preprocess, "labels": &j.Classes, "alphabet": &j.Alphabet}[key]
			if file != nil && value.ShortTag() != "!!null" {
				*file = value.Value
				*value = null
			}
			continue
		}
		switch key {
		case "model":
			var m modelKeys
			if err := keysOf(value, reflect.TypeOf(m), key); err != nil {
				return err
			}
			if err := yamlcheck.Types(value, reflect.TypeOf(m), key); err != nil {
				return err
			}
			if err := value.Decode(&m); err != nil {
				return folder.Error(err)
			}
			j.Config.Expect.Model = m.SHA256
			*value = yaml.Node{Kind: yaml.ScalarNode, Value: m.File.Name, Line: value.Line}
		case "damping", "ood_score":
			word := map[string]string{"damping": "rule", "ood_score": "name"}[key]
			if value.Kind != yaml.MappingNode {
				continue
			}
			for k := 0; k < len(value.Content); k += 2 {
				if value.Content[k].Value != word {
					return unknown(value.Content[k], map[string]reflect.Type{word: nil}, key)
				}
			}
			switch n := len(value.Content); {
			case n == 0:
				*value = null
			case n == 2 && value.Content[1].Kind == yaml.ScalarNode:
				*value = *value.Content[1]
			default:
				return fmt.Errorf("line %d: %s: want a string, or a mapping of %s to strings", value.Line, key, word)
			}
		}
	}
	return nil
}

// add sets the SPEC of a dataset, and the fingerprint that is expected of it.
func (c *Config) add(s set) error {
	to := map[bundle.Role]*string{bundle.Train: &c.Train, bundle.Val: &c.Val, bundle.OOD: &c.OOD}[s.Role]
	switch {
	case s.Role == bundle.SyntheticOOD:
		to, s.Spec, s.Fingerprint = &c.OOD, wrap.SyntheticOOD, ""
	case to == nil:
		return fmt.Errorf("datasets: role %q: want %s, %s or %s", s.Role, bundle.Train, bundle.Val, bundle.OOD)
	}
	switch {
	case s.Spec == "":
		return fmt.Errorf("datasets: role %s has no spec", s.Role)
	case *to != "":
		return fmt.Errorf("datasets: two datasets have the role %s, want one", s.Role)
	}
	*to = s.Spec
	if s.Fingerprint != "" {
		if c.Expect.Data == nil {
			c.Expect.Data = map[bundle.Role]string{}
		}
		c.Expect.Data[s.Role] = s.Fingerprint
	}
	return nil
}

// repeat returns the calibration that made a bundle.
func repeat(m *bundle.Manifest) (*Job, error) {
	if m.PriorEstimate != nil {
		return nil, fmt.Errorf("this bundle does not come from a single calibration: its class frequencies were estimated from %s", m.PriorEstimate.Spec)
	}
	c := Config{
		Settings: m.CalibrationSettings(), Preprocess: m.Preprocess, Classes: m.Labels,
		Runtime:       wrap.Runtime{Batch: m.Batch},
		KeepCurvature: m.Curvature != nil, PrecomputedFeatures: m.Model == nil,
	}
	if d := m.Head.Decoding; d != nil && d.Tags() {
		c.Classes = d.Alphabet
	} else if d != nil {
		c.Classes, c.Alphabet = nil, d.Alphabet
	}
	if m.External != nil {
		c.Posterior, c.Expect.Posterior = m.External.File, m.External.SHA256
	}
	if m.Model != nil {
		c.Expect.Model, c.NoModel, c.NoProbe = m.Model.SHA256, m.Model.File == nil, m.Probe == nil
		if m.Model.File != nil {
			c.Model, c.Expect.Model = m.Model.File.Name, m.Model.File.SHA256
		}
		if m.Model.Data != nil {
			c.Expect.Model = "" // the manifest has hashes of the two files, not of the model
		}
	}
	for _, d := range m.Datasets {
		s := set{d.Role, d.Spec, d.Fingerprint}
		if len(d.Parts) > 0 {
			s.Fingerprint = "" // of the parts, not of the whole
		}
		if err := c.add(s); err != nil {
			return nil, fmt.Errorf("this bundle does not come from a single calibration: %w", err)
		}
	}
	return &Job{Config: c}, nil
}

// validate reports values that no calibration can have, by the keys of a job.
func (j *Job) validate() error { return option.Respell(j.check(), option.Name.Key) }

func (j *Job) check() error {
	c := &j.Config
	if err := c.Settings.Validate(); err != nil {
		return err
	}
	if c.Preprocess != nil {
		if err := c.Preprocess.Validate(); err != nil {
			return err
		}
	}
	runtime := c.Runtime
	runtime.Provider = "" // whoever runs the job may choose another; Calibrate checks it
	return runtime.Validate()
}

// resolvePaths makes relative paths relative to dir, except for the SPECs of a manifest.
func (j *Job) resolvePaths(dir string, manifest bool) {
	c := &j.Config
	for _, path := range []*string{
		&c.Model, &j.Preprocess, &j.Classes, &j.Alphabet, &c.Cache, &c.Out, &c.Expected, &j.Report,
	} {
		if *path != "" && !(path == &j.Preprocess && isPreset(*path)) {
			*path = join(dir, *path)
		}
	}
	if manifest {
		return
	}
	if c.Posterior != "" {
		c.Posterior = join(dir, c.Posterior)
	}
	for _, spec := range []*string{&c.Train, &c.Val, &c.OOD} {
		if *spec != "" && !(spec == &c.OOD && *spec == wrap.SyntheticOOD) {
			*spec = within(dir, *spec)
		}
	}
}

// isPreset reports whether a name of preprocessing is a preset, not a file.
func isPreset(name string) bool {
	return slices.Contains(preprocess.Presets, name) || strings.HasPrefix(name, "torchvision:")
}

// within returns a SPEC that is relative to dir, relative to the current folder.
func within(dir, spec string) string {
	if dataset.IsStream(spec) {
		return spec
	}
	if format, path, ok := strings.Cut(spec, ":"); ok && slices.Contains(dataset.Formats(), format) {
		return format + ":" + join(dir, path)
	}
	return join(dir, spec)
}

// join is filepath.Join without cleaning: path may be a pattern or have a slice.
func join(dir, path string) string {
	if dir == "." || filepath.IsAbs(path) {
		return path
	}
	return strings.TrimSuffix(dir, string(filepath.Separator)) + string(filepath.Separator) + path
}

// hasKey reports whether a document is a mapping with a key.
func hasKey(root *yaml.Node, key string) bool {
	if len(root.Content) == 0 || root.Content[0].Kind != yaml.MappingNode {
		return false
	}
	fields := root.Content[0].Content
	for i := 0; i < len(fields); i += 2 {
		if fields[i].Value == key {
			return true
		}
	}
	return false
}

// checkKeys refuses keys that a job does not have, and names those near them.
func checkKeys(root *yaml.Node) error {
	if len(root.Content) == 0 || root.Content[0].Kind != yaml.MappingNode {
		return fmt.Errorf("%w: want a mapping with keys such as model and datasets", folder.ErrYAML)
	}
	return keysOf(root.Content[0], reflect.TypeFor[document](), "")
}

// keysOf checks the keys of a node that is decoded into type t; at is the node's own key.
func keysOf(n *yaml.Node, t reflect.Type, at string) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case n.Kind == yaml.SequenceNode && t.Kind() == reflect.Slice:
		for _, item := range n.Content {
			if err := keysOf(item, t.Elem(), at); err != nil {
				return err
			}
		}
	case n.Kind == yaml.MappingNode && t.Kind() == reflect.Struct:
		fields := yamlcheck.Fields(t)
		for i := 0; i < len(n.Content); i += 2 {
			key := n.Content[i]
			field, ok := fields[key.Value]
			if !ok {
				return unknown(key, fields, at)
			}
			if err := keysOf(n.Content[i+1], field, strings.TrimPrefix(at+"."+key.Value, ".")); err != nil {
				return err
			}
		}
	}
	return nil
}

// unknown returns the error for an unknown key, with a hint.
func unknown(key *yaml.Node, fields map[string]reflect.Type, at string) error {
	names := slices.Sorted(maps.Keys(fields))
	name, hint := strings.TrimPrefix(at+"."+text.Name(key.Value), "."), ""
	if near := text.Nearest(key.Value, names); near != nil {
		hint = ": did you mean " + strings.Join(near, " or ") + "?"
	} else if key.Value == "settings" && at == "" {
		hint = ": its keys are at the top level of a job"
	} else if _, ok := yamlcheck.Fields(reflect.TypeFor[bundle.Manifest]())[key.Value]; ok && at == "" {
		hint = ", since it is a result of calibration: leave it out"
	}
	return fmt.Errorf("line %d: %s is not a key of a job%s", key.Line, name, hint)
}
