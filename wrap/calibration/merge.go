package calibration

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/conformal"
	"github.com/mfgs/mfgs/internal/option"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/bundle"
	"github.com/mfgs/mfgs/wrap/internal/folder"
	"github.com/mfgs/mfgs/wrap/internal/part"
)

// MergeConfig says what Merge and MergeParts do. Parts and Out must be set.
type MergeConfig struct {
	Parts []string // folders written by Accumulate or MergeParts
	Out   string   // folder to write
	Force bool     // replace an existing one
	// NoModel leaves the model out. KeepCurvature keeps the sums over the training data in the
	// bundle, for Update and for methods that bench.Evaluate compares.
	NoModel, KeepCurvature bool
	// Model is the file of the calibrated model, to be copied into the bundle if the parts were made with NoModel.
	Model string
	// Decisions, Covariance and Damping of a bundle replace those that the parts were
	// made for; zero and nil keep them. Every part can be finished with hessian; fisher and sandwich need parts made
	// for one of the two.
	Decisions  conformal.Plan
	Covariance calibrate.Covariance
	Damping    *calibrate.Damping

	// Runtime, if found, multiplies matrices. No network is run.
	Runtime wrap.Runtime

	Progress func(wrap.Progress)
}

// Accumulate reads cfg.Shard of each set of a calibration, and writes what Merge needs of it
// as a part to cfg.Out. One of Train, Val and OOD is enough. On error it writes no part, and an older
// one is left unchanged.
func Accumulate(ctx context.Context, cfg Config) (*PartReport, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.complete()
	log := newJournal(cfg.Progress, cfg.Notice)
	var report *PartReport
	err := partOutput.run(ctx, &cfg, log, func(in *sources, p *part.Part) (err error) {
		o := part.WriteOptions{Force: cfg.Force}
		var model *onnx.Info
		if in.cut != nil {
			model = in.cut.Model.Info()
			if cfg.holdsModel(p) {
				if o.Model, o.ModelData, err = modelFiles(in.file, log); err != nil {
					return err
				}
			}
		}
		report, err = writePart(ctx, p, cfg.Out, o, model, log)
		if s := p.Set(bundle.Val); err == nil && s != nil && s.Shards[0].NoProbe != "" {
			report.Probe = &ProbeInfo{Reason: s.Shards[0].NoProbe}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return report, nil
}

// writePart writes a part and reports it.
func writePart(
	ctx context.Context, p *part.Part, dir string, o part.WriteOptions, model *onnx.Info, log *journal,
) (*PartReport, error) {
	log.begin("write")
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if err := part.Write(dir, p, o); err != nil {
		return nil, err
	}
	sum := summarise(p)
	r := &PartReport{
		Part: dir, Model: model, Head: sum.head, Preprocess: p.Recipe.Preprocess,
		Structure: string(p.Recipe.Structure()), Covariance: string(p.Recipe.Settings.Covariance),
		Examples: sum.examples, Bad: sum.bad, Ignored: sum.ignored, Warnings: sum.warnings, Seconds: log.end(),
	}
	if p.Probe != nil {
		r.Probe = &ProbeInfo{Examples: p.Probe.N}
	}
	for _, s := range p.Sets {
		set := PartSet{Role: string(s.Role), Spec: s.Spec}
		for _, shard := range s.Shards {
			set.Shards = append(set.Shards, shard.Shard.String())
		}
		r.Sets = append(r.Sets, set)
	}
	return r, nil
}

// merging is the result of merging parts.
type merging struct {
	*part.Part
	model   *onnx.Info // nil for precomputed features
	weights weights    // of the last layer; nil without a model
	part.WriteOptions
}

// merge merges parts.
func (c *MergeConfig) merge(ctx context.Context, in *sources, log *journal) (*merging, error) {
	log.begin("read")
	if err := in.openProduct(ctx, &Config{Runtime: c.Runtime}); err != nil {
		return nil, err
	}
	step := func(done, total int) { log.Step("merging", "parts", done, total) }
	p, dir, err := part.Merge(ctx, c.Parts, in.matrixProduct(), step)
	if err != nil {
		return nil, err
	}
	if c.Decisions != (conformal.Plan{}) {
		p.Recipe.Settings.Decisions = c.Decisions.Complete()
	}
	if err := p.Change(c.Covariance, c.Damping); err != nil {
		return nil, err
	}
	m := &merging{Part: p, WriteOptions: part.WriteOptions{Force: c.Force}}
	if r := p.Recipe.Model; r != nil {
		m.model = &onnx.Info{SHA256: r.SHA256, Opset: r.Opset, Producer: r.Producer}
	}
	if c.Model != "" {
		return m, m.take(c.Model, log)
	}
	if dir == "" {
		return m, nil
	}
	holds, err := part.ReadManifest(dir)
	if err != nil {
		return nil, err
	}
	m.weights = weightsOfPart(dir, holds)
	if !c.NoModel {
		m.Model, m.ModelData = holds.Copy(dir, part.ModelName), holds.Copy(dir, part.ModelDataName)
	}
	return m, nil
}

// take takes the model from a file, which must be the calibrated one.
func (m *merging) take(path string, log *journal) error {
	if m.model == nil {
		return fmt.Errorf("%s: the parts have precomputed features and no model", path)
	}
	model, err := onnx.Open(path)
	if err != nil {
		return err
	}
	if model.SHA256() != m.model.SHA256 {
		return fmt.Errorf("%s has SHA-256 %.12s…, the parts need the model with %.12s…: give that one", path, model.SHA256(), m.model.SHA256)
	}
	m.weights = weightsOf(path, m.Recipe.Head)
	m.Model, m.ModelData, err = modelFiles(model, log)
	return err
}

// check reports what cannot work, before anything is read.
func (c *MergeConfig) check() error {
	err := errors.Join(c.Runtime.Validate(), c.Decisions.Validate(),
		cmp.Or(c.Damping, &calibrate.Damping{}).Validate(), cmp.Or(c.Covariance, calibrate.Hessian).Validate())
	if err != nil {
		return err
	}
	switch {
	case len(c.Parts) == 0:
		return errors.New("no parts to merge: give the folders that Accumulate wrote")
	case c.Out == "":
		return fmt.Errorf("%s is missing: give the folder to write", option.Out)
	case c.Model != "" && c.NoModel:
		return fmt.Errorf("%s and %s exclude each other: give one of them", option.Model, option.NoModel)
	}
	for _, dir := range c.Parts {
		if folder.Inside(c.Out, dir) {
			return fmt.Errorf("%s would be inside the part %s: choose another folder for %s", c.Out, dir, option.Out)
		}
	}
	return nil
}

// Merge makes a bundle from the parts of a calibration: the one that Calibrate would have made from all of
// the data, up to the rounding of sums. It reads the parts and cfg.Model, and nothing else. The same
// parts give the same bytes in any order, and however they were merged before.
//
// Every shard of the training and validation data must be in exactly one part. The error names shards that are
// missing or duplicate, and the first field in which parts differ.
func Merge(ctx context.Context, cfg MergeConfig) (*Report, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if err := bundle.CheckTarget(cfg.Out, cfg.Force); err != nil {
		return nil, err
	}
	log, in := newJournal(cfg.Progress, nil), &sources{}
	defer in.close()
	m, err := cfg.merge(ctx, in, log)
	if err != nil {
		return nil, err
	}
	if err := m.Missing(); err != nil {
		return nil, err
	}
	return fitAndWrite(ctx, m.Part, &target{
		dir: cfg.Out, keepCurvature: cfg.KeepCurvature, model: m.model, weights: m.weights,
		WriteOptions: bundle.WriteOptions{Force: cfg.Force, Model: m.Model, ModelData: m.ModelData},
	}, log)
}

// MergeParts merges parts into one part. Some may still be missing: many parts can be merged in
// groups, and the groups with each other.
func MergeParts(ctx context.Context, cfg MergeConfig) (*PartReport, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if cfg.KeepCurvature {
		return nil, fmt.Errorf("parts always keep the sums over the training data: %s is for bundles", option.KeepCurvature)
	}
	if cfg.Decisions != (conformal.Plan{}) {
		return nil, errors.New("merging into a part keeps the decisions of its parts: others are for bundles")
	}
	if cfg.Covariance != "" || cfg.Damping != nil {
		return nil, errors.New("merging into a part keeps its covariance and damping: others are for bundles")
	}
	if cfg.Model != "" {
		return nil, errors.New("merging into a part keeps the model of its parts: leave the model out")
	}
	if err := part.CheckTarget(cfg.Out, cfg.Force); err != nil {
		return nil, err
	}
	log, in := newJournal(cfg.Progress, nil), &sources{}
	defer in.close()
	m, err := cfg.merge(ctx, in, log)
	if err != nil {
		return nil, err
	}
	return writePart(ctx, m.Part, cfg.Out, m.WriteOptions, m.model, log)
}
