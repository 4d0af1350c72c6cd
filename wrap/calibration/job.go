package calibration

import (
	"bytes"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/mfgs/mfgs/featurize/dataset"
	"github.com/mfgs/mfgs/featurize/preprocess"
	"github.com/mfgs/mfgs/internal/files"
	"github.com/mfgs/mfgs/internal/text"
	"github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/bundle"
	"github.com/mfgs/mfgs/wrap/internal/folder"
	"gopkg.in/yaml.v3"
)

// A Job is a calibration as it is written down, so that it can be reviewed before it is run, and repeated from
// the bundle that it made: YAML whose keys are those of a bundle's manifest.
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
// A key of the manifest means what it means there. What the command line takes as one word may be that
// word instead of a mapping: model a path, damping a rule, ood_score a name, preprocess a preset or a file,
// labels a file. What the manifest does not have is named as the flag of mfgs calibrate, with an underscore:
// see [Config]. What a calibration finds out, such as temperatures, is no key of a job. The paths of a job are
// seen from the folder of its file.
//
// A document with the key format is the manifest of a bundle, and the job is the calibration that made
// it, which takes its settings and not its results: the model is the copy that stands beside the manifest,
// and model and data must be what they were. SPECs are as they were given, and seen from the current folder.
// An edited copy is a job too: its seal is not looked at. A bundle that was updated, or merged of
// runs whose sets lay in different places, was not made by one calibration.
type Job struct {
	Config Config
	// Preprocess is a preset or a file of preprocessing, and Classes a file of class names, where the job names
	// one in place of what Config has.
	Preprocess, Classes string
	Report              string // a file that tells of the bundle
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
	j.seenFrom(filepath.Dir(path), manifest)
	return j, nil
}

// parseJob reads a document, which may be a manifest; paths are as they stand in it. Of a manifest the model is
// relative to it, and all other paths are whole.
func parseJob(data []byte) (j *Job, manifest bool, err error) {
	// A byte order mark is what some editors begin a file with.
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
	// Without a model the sets are of features.
	j.Config.PrecomputedFeatures = j.Config.Model == "" && j.Config.Expect.Model == "" && len(d.Datasets) > 0
	return j, false, j.validate()
}

// document is what a job says.
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

// modelKeys are those of a model in a manifest that a job may have.
type modelKeys struct {
	SHA256 string `yaml:"sha256"`
	File   struct {
		Name string `yaml:"name"`
	} `yaml:"file"`
}

// null is the node of a key whose value was taken.
var null = yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}

// takeWords has what may be a word or a mapping be what [Config] has: a word where the manifest has a mapping, and
// nothing where it is the name of a file.
func (j *Job) takeWords(root *yaml.Node) error {
	if len(root.Content) == 0 || root.Content[0].Kind != yaml.MappingNode {
		return nil // which checkKeys refuses
	}
	fields := root.Content[0]
	for i := 0; i < len(fields.Content); i += 2 {
		key, value := fields.Content[i].Value, fields.Content[i+1]
		if value.Kind == yaml.ScalarNode {
			file := map[string]*string{"preprocess": &j.Preprocess, "labels": &j.Classes}[key]
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
				return fmt.Errorf("line %d: %s: want a word, or a mapping of %s to one", value.Line, key, word)
			}
		}
	}
	return nil
}

// add takes up a dataset.
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
		return fmt.Errorf("datasets: two sets have the role %s, and one calibration reads one", s.Role)
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

// repeat is the calibration that made a bundle.
func repeat(m *bundle.Manifest) (*Job, error) {
	c := Config{
		Settings: m.Asked(), Preprocess: m.Preprocess, Classes: m.Labels, Runtime: wrap.Runtime{Batch: m.Batch},
		KeepCurvature: m.Curvature != nil, PrecomputedFeatures: m.Model == nil,
	}
	if m.Model != nil {
		c.Expect.Model, c.NoModel, c.NoProbe = m.Model.SHA256, m.Model.File == nil, m.Probe == nil
		if m.Model.File != nil {
			c.Model, c.Expect.Model = m.Model.File.Name, m.Model.File.SHA256
		}
		if m.Model.Data != nil {
			c.Expect.Model = "" // what is known is the sum of the model's file alone
		}
	}
	for _, d := range m.Datasets {
		s := set{d.Role, d.Spec, d.Fingerprint}
		if len(d.Parts) > 0 {
			s.Fingerprint = "" // which is that of parts
		}
		if err := c.add(s); err != nil {
			return nil, fmt.Errorf("this bundle was not made by one calibration: %w", err)
		}
	}
	return &Job{Config: c}, nil
}

// validate refuses values that cannot be meant.
func (j *Job) validate() error {
	c := &j.Config
	if err := c.Settings.Validate(); err != nil {
		return err
	}
	if c.Preprocess != nil {
		if err := c.Preprocess.Validate(); err != nil {
			return err
		}
	}
	return c.Runtime.Validate()
}

// seenFrom has relative paths begin at a folder. SPECs of a manifest are as they were given.
func (j *Job) seenFrom(dir string, manifest bool) {
	c := &j.Config
	for _, path := range []*string{&c.Model, &j.Preprocess, &j.Classes, &c.Cache, &c.Out, &j.Report} {
		if *path != "" && !(path == &j.Preprocess && isPreset(*path)) {
			*path = join(dir, *path)
		}
	}
	if manifest {
		return
	}
	for _, spec := range []*string{&c.Train, &c.Val, &c.OOD} {
		if *spec != "" && !(spec == &c.OOD && *spec == wrap.SyntheticOOD) {
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
		return fmt.Errorf("%w: a job is a mapping of keys such as model and datasets", folder.ErrYAML)
	}
	return keysOf(root.Content[0], reflect.TypeFor[document](), "")
}

// keysOf checks the keys of a node, which is decoded into a type; at is the key that leads to it.
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
		fields := fieldsOf(t)
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

// fieldsOf are the types of the fields of a struct, by their keys.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	fields := map[string]reflect.Type{}
	for i := range t.NumField() {
		switch key, option, _ := strings.Cut(t.Field(i).Tag.Get("yaml"), ","); {
		case option == "inline" && t.Field(i).Type.Kind() == reflect.Struct:
			maps.Copy(fields, fieldsOf(t.Field(i).Type))
		case key != "" && key != "-":
			fields[key] = t.Field(i).Type
		}
	}
	return fields
}

// unknown refuses a key.
func unknown(key *yaml.Node, fields map[string]reflect.Type, at string) error {
	names := slices.Sorted(maps.Keys(fields))
	name, hint := strings.TrimPrefix(at+"."+text.Name(key.Value), "."), ""
	if near := text.Nearest(key.Value, names); near != nil {
		hint = ": did you mean " + strings.Join(near, " or ") + "?"
	} else if key.Value == "settings" && at == "" {
		hint = ": its keys stand at the top of a job"
	} else if _, ok := fieldsOf(reflect.TypeFor[bundle.Manifest]())[key.Value]; ok && at == "" {
		hint = ", as it is what a calibration finds out: leave it out"
	}
	return fmt.Errorf("line %d: %s is no key of a job%s", key.Line, name, hint)
}
