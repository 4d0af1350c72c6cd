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
	Parts []string // folders that Accumulate wrote, or MergeParts
	Out   string   // folder to write
	Force bool     // replace one that is there
	// NoModel leaves the model out, and KeepCurvature keeps the sums over the training data in the
	// bundle, for Update and for methods that bench.Evaluate compares.
	NoModel, KeepCurvature bool
	// Model is the file of the calibrated model, for a bundle of parts made with NoModel. That is all
	// that is done with it.
	Model string
	// Decisions, Covariance and Damping, of a bundle, are asked for instead of those that the parts were
	// made for; zero and nil: these. All parts have what hessian takes; fisher and sandwich want parts made
	// for one of the two.
	Decisions  conformal.Plan
	Covariance calibrate.Covariance
	Damping    *calibrate.Damping

	// Runtime is used for the products of matrices alone, where it is found: no network is run.
	Runtime wrap.Runtime

	Progress func(wrap.Progress)
}

// Accumulate reads a calibration's data, cfg.Shard of each set, and writes what Merge needs of them
// as a part to cfg.Out. Of Train, Val and OOD one is enough. On error there is no part, and an older
// one stands as it was.
func Accumulate(ctx context.Context, cfg Config) (*PartReport, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.Settings = cfg.Complete()
	log := newJournal(cfg.Progress)
	var report *PartReport
	err := partOutput.run(ctx, &cfg, log, func(in *sources, p *part.Part) error {
		o := part.WriteOptions{Force: cfg.Force}
		var model *onnx.Info
		if in.cut != nil {
			model = in.cut.Model.Info()
			if cfg.holdsModel(p) {
				files, err := modelFiles(in.cut.Model)
				if err != nil {
					return err
				}
				o.Model, o.ModelData = files.Model, files.ModelData
			}
		}
		var err error
		report, err = writePart(ctx, p, cfg.Out, o, model, log)
		if err == nil && in.noProbe != "" {
			report.Probe = &ProbeInfo{Reason: in.noProbe}
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

// merging is parts that were merged.
type merging struct {
	*part.Part
	model   *onnx.Info // nil for ready-made features
	weights weights    // of the last layer; nil where there is no model
	part.WriteOptions
}

// merge merges parts.
func (c *MergeConfig) merge(ctx context.Context, in *sources, log *journal) (*merging, error) {
	log.begin("read")
	if err := in.openProduct(ctx, &Config{Runtime: c.Runtime}); err != nil {
		return nil, err
	}
	p, dir, err := part.Merge(ctx, c.Parts, in.matrixProduct())
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
		return m, m.take(c.Model)
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

// take has the model in a file written, which must be the one that was calibrated.
func (m *merging) take(path string) error {
	if m.model == nil {
		return fmt.Errorf("%s: the parts are of ready-made features, which have no model", path)
	}
	model, err := onnx.Open(path)
	if err != nil {
		return err
	}
	if model.SHA256() != m.model.SHA256 {
		return fmt.Errorf("%s has SHA-256 %.12s…, the parts are of the model with %.12s…: give that one", path, model.SHA256(), m.model.SHA256)
	}
	files, err := modelFiles(model)
	m.Model, m.ModelData, m.weights = files.Model, files.ModelData, weightsOf(path, m.Recipe.Head)
	return err
}

// check refuses what cannot work before anything is read.
func (c *MergeConfig) check() error {
	err := errors.Join(c.Runtime.Validate(), c.Decisions.Validate(),
		cmp.Or(c.Damping, &calibrate.Damping{}).Validate(), cmp.Or(c.Covariance, calibrate.Hessian).Validate())
	if err != nil {
		return err
	}
	switch {
	case len(c.Parts) == 0:
		return errors.New("there are no parts to merge: give the folders that Accumulate wrote")
	case c.Out == "":
		return errors.New("out is missing: give the folder to write")
	case c.Model != "" && c.NoModel:
		return errors.New("model and no-model contradict each other: give one of them")
	}
	for _, dir := range c.Parts {
		if folder.Inside(c.Out, dir) {
			return option.Errorf("%s would lie in the part %s: choose another folder for %s", c.Out, dir, option.Out)
		}
	}
	return nil
}

// Merge makes a bundle of the parts of a calibration: that which Calibrate would have made of all of
// the data, but for the rounding of sums. It reads the parts, and nothing else but a model given. The same
// parts in any order, or merged in any groups before, give the same bytes.
//
// Every shard of the training data and of the held-out data must be in one of the parts, and in no
// two. What is missing or twice is named, and so is the first thing in which the parts differ.
func Merge(ctx context.Context, cfg MergeConfig) (*Report, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if err := bundle.CheckTarget(cfg.Out, cfg.Force); err != nil {
		return nil, err
	}
	log, in := newJournal(cfg.Progress), &sources{}
	defer in.close()
	m, err := cfg.merge(ctx, in, log)
	if err != nil {
		return nil, err
	}
	if err := m.Missing(); err != nil {
		return nil, err
	}
	return finish(ctx, m.Part, &target{
		dir: cfg.Out, force: cfg.Force, keepCurvature: cfg.KeepCurvature, model: m.model, weights: m.weights,
		noProbe: whyNoProbe(m.Part),
		files:   bundle.WriteOptions{Model: m.Model, ModelData: m.ModelData},
	}, log)
}

// MergeParts makes one part of several, some of which may be missing still: many parts are merged in
// groups, and these with each other.
func MergeParts(ctx context.Context, cfg MergeConfig) (*PartReport, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if cfg.KeepCurvature {
		return nil, errors.New("a part has the sums over the training data in any case: keep-curvature is for a bundle")
	}
	if cfg.Decisions != (conformal.Plan{}) {
		return nil, errors.New("a part has the decisions of the parts that it was made of: others are for a bundle")
	}
	if cfg.Covariance != "" || cfg.Damping != nil {
		return nil, errors.New("a part has the covariance and the damping that it was made for: others are for a bundle")
	}
	if cfg.Model != "" {
		return nil, errors.New("a part has the model of the parts that it was made of: a model is for a bundle")
	}
	if err := part.CheckTarget(cfg.Out, cfg.Force); err != nil {
		return nil, err
	}
	log, in := newJournal(cfg.Progress), &sources{}
	defer in.close()
	m, err := cfg.merge(ctx, in, log)
	if err != nil {
		return nil, err
	}
	return writePart(ctx, m.Part, cfg.Out, m.WriteOptions, m.model, log)
}
