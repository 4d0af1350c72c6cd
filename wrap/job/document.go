package job

import (
	"fmt"

	"gopkg.in/yaml.v3"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/conformal"
	"github.com/mfgs/mfgs/featurize/preprocess"
	"github.com/mfgs/mfgs/onnx/head"
	"github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/bundle"
	"github.com/mfgs/mfgs/wrap/calibration"
)

// document is what a job says, in the order of the manifest, and then of the flags.
type document struct {
	Model      model                `yaml:"model"`
	Head       layer                `yaml:"head"`
	Preprocess preprocessing        `yaml:"preprocess"`
	Covariance calibrate.Covariance `yaml:"covariance"`
	Structure  calibrate.Structure  `yaml:"structure"`
	Damping    damping              `yaml:"damping"`
	OODScore   oodScore             `yaml:"ood_score"`
	Decisions  conformal.Plan       `yaml:"decisions"`
	Datasets   []set                `yaml:"datasets"`
	Batch      int                  `yaml:"batch"`
	Labels     labels               `yaml:"labels"`

	Out           string `yaml:"out"`
	Report        string `yaml:"report"`
	Limit         int    `yaml:"limit"`
	MaxBad        int    `yaml:"max_bad"`
	FeaturesCache string `yaml:"features_cache"`
	KeepCurvature bool   `yaml:"keep_curvature"`
	NoModel       bool   `yaml:"no_model"`
	NoProbe       bool   `yaml:"no_probe"`
	Provider      string `yaml:"provider"`
	Threads       int    `yaml:"threads"`
}

// The fields of the manifest that a job may have, each with those of its own.
type (
	model struct {
		SHA256 string `yaml:"sha256"`
		File   file   `yaml:"file"`
	}
	file struct {
		Name string `yaml:"name"`
	}
	layer struct {
		Features      string             `yaml:"features"`
		Logits        string             `yaml:"logits"`
		Output        string             `yaml:"output"` // the manifest has none: it names the logits
		Link          head.Link          `yaml:"link"`
		Approximation head.Approximation `yaml:"approximation"`
	}
	damping struct {
		Rule string `yaml:"rule"`
	}
	oodScore struct {
		Name string `yaml:"name"`
	}
	set struct {
		Role        bundle.Role `yaml:"role"`
		Spec        string      `yaml:"spec"`
		Fingerprint string      `yaml:"fingerprint"`
	}
	preprocessing struct {
		name string
		preprocess.Spec
		given bool
	}
	labels struct {
		file  string
		names []string
	}
)

// word decodes a scalar into a word, and anything else into a mapping.
func word(n *yaml.Node, to *string, mapping any) error {
	if n.Kind == yaml.ScalarNode {
		return n.Decode(to)
	}
	return n.Decode(mapping)
}

func (m *model) UnmarshalYAML(n *yaml.Node) error {
	type plain model
	return word(n, &m.File.Name, (*plain)(m))
}

func (d *damping) UnmarshalYAML(n *yaml.Node) error {
	type plain damping
	return word(n, &d.Rule, (*plain)(d))
}

func (s *oodScore) UnmarshalYAML(n *yaml.Node) error {
	type plain oodScore
	return word(n, &s.Name, (*plain)(s))
}

func (p *preprocessing) UnmarshalYAML(n *yaml.Node) error {
	p.given = n.Kind != yaml.ScalarNode
	return word(n, &p.name, &p.Spec)
}

func (l *labels) UnmarshalYAML(n *yaml.Node) error { return word(n, &l.file, &l.names) }

// job takes a document apart.
func (d *document) job() (*Job, error) {
	j := &Job{
		Model: d.Model.File.Name,
		Head: head.Options{Features: d.Head.Features, Logits: d.Head.Logits, Output: d.Head.Output, Link: d.Head.Link,
			Approximate: d.Head.Approximation},
		Preprocess: d.Preprocess.name, Classes: d.Labels.file, Labels: d.Labels.names,
		Covariance: d.Covariance, Structure: d.Structure, Damping: d.Damping.Rule, OODScore: d.OODScore.Name,
		Decisions: d.Decisions, Batch: d.Batch,
		Out: d.Out, Report: d.Report,
		Limit: d.Limit, MaxBad: d.MaxBad, Cache: d.FeaturesCache, Provider: d.Provider, Threads: d.Threads,
		KeepCurvature: d.KeepCurvature, NoModel: d.NoModel, NoProbe: d.NoProbe,
		Known: calibration.Known{Model: d.Model.SHA256},
	}
	if d.Preprocess.given {
		j.Spec = &d.Preprocess.Spec
	}
	for _, s := range d.Datasets {
		if err := j.add(s); err != nil {
			return nil, err
		}
	}
	return j, nil
}

// add takes up a dataset.
func (j *Job) add(s set) error {
	to := map[bundle.Role]*string{bundle.Train: &j.Train, bundle.Val: &j.Val, bundle.OOD: &j.OOD}[s.Role]
	switch {
	case s.Role == bundle.StandIns:
		to, s.Spec, s.Fingerprint = &j.OOD, wrap.StandIns, ""
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
		if j.Known.Data == nil {
			j.Known.Data = map[bundle.Role]string{}
		}
		j.Known.Data[s.Role] = s.Fingerprint
	}
	return nil
}

// ofManifest is the calibration that made a bundle.
func ofManifest(m *bundle.Manifest) (*Job, error) {
	j := &Job{
		Covariance: m.Covariance, Structure: m.Structure, Damping: m.Damping.Rule, Lambda0: m.MeanField.Lambda0,
		Spec: m.Preprocess, Labels: m.Labels, Batch: m.Batch, KeepCurvature: m.Curvature != nil,
		found: &m.Head,
	}
	if m.OODScore != nil && m.OODScore.Given {
		j.OODScore = m.OODScore.Name
	}
	if m.Decisions != nil {
		j.Decisions = m.Decisions.Plan
	}
	if m.Model != nil {
		j.Known.Model, j.NoModel, j.NoProbe = m.Model.SHA256, m.Model.File == nil, m.Probe == nil
		if m.Model.File != nil {
			j.Model, j.Known.Model = m.Model.File.Name, m.Model.File.SHA256
		}
		if m.Model.Data != nil {
			j.Known.Model = "" // what is known is the sum of the model's file alone
		}
	}
	if m.Model == nil {
		j.Head.Link = head.Link(m.Head.Link)
	}
	for _, d := range m.Datasets {
		s := set{d.Role, d.Spec, d.Fingerprint}
		if len(d.Parts) > 0 {
			s.Fingerprint = "" // which is that of parts
		} else if d.Role == bundle.Train {
			j.Limit = d.Count + d.Bad
		}
		j.MaxBad = max(j.MaxBad, d.Bad)
		if err := j.add(s); err != nil {
			return nil, fmt.Errorf("this bundle was not made by one calibration: %w", err)
		}
	}
	return j, nil
}
