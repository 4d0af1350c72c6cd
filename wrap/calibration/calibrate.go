package calibration

import (
	"cmp"
	"context"
	"fmt"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/featurize/dataset"
	"github.com/mfgs/mfgs/internal/option"
	"github.com/mfgs/mfgs/internal/source"
	"github.com/mfgs/mfgs/onnx/head"
	"github.com/mfgs/mfgs/wrap/bundle"
	"github.com/mfgs/mfgs/wrap/internal/part"
)

// Calibrate fits the posterior and the temperatures of a classifier and writes the bundle cfg.Out.
// On error it writes no bundle, and an older one is left unchanged.
//
// The training set is streamed. Validation and OOD data, at most 50,000 examples of each, are kept in
// memory.
func Calibrate(ctx context.Context, cfg Config) (*Report, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.complete()
	if cfg.Shard != (rows.Shard{}) {
		return nil, fmt.Errorf("%s is for parts, which Accumulate writes: leave it out", option.Shard)
	}
	if err := cfg.checkSets(); err != nil {
		return nil, err
	}
	if cfg.OODScore == "learned" && cfg.OOD == "" {
		return nil, fmt.Errorf("the score learned needs OOD data to learn from: give %s",
			option.OOD)
	}
	log := newJournal(cfg.Progress, cfg.Notice)
	var report *Report
	err := bundleOutput.run(ctx, &cfg, log, func(in *sources, p *part.Part) (err error) {
		to := &target{
			dir: cfg.Out, keepCurvature: cfg.KeepCurvature,
			WriteOptions: bundle.WriteOptions{Force: cfg.Force, Keep: cfg.keep()},
		}
		if in.cut != nil {
			to.model, to.weights = in.cut.Model.Info(), in.cut.Head.Weights
			to.external = in.external
			if !cfg.NoModel {
				if to.Model, to.ModelData, err = modelFiles(in.file, log); err != nil {
					return err
				}
			}
		}
		if err := cfg.Expect.checkData(p); err != nil {
			return err
		}
		report, err = fitAndWrite(ctx, p, to, log)
		return err
	})
	if err != nil {
		return nil, err
	}
	return report, nil
}

// checkSets reports a missing dataset.
func (c *Config) checkSets() error {
	switch {
	case c.Head.Kind == head.Linear && c.Posterior == "" && (c.Train == "" || c.Val == ""):
		return fmt.Errorf("%s or %s is missing: calibration needs both", option.Train, option.Val)
	case c.Val == "":
		return fmt.Errorf("%s is missing: calibration needs labelled data that the model was not trained on", option.Val)
	case c.Head.Kind != head.Linear && c.Head.Features != "" && c.Train == "":
		return fmt.Errorf("%s is missing: scores learn from it what %s %s are like", option.Train, option.Features, c.Head.Features)
	}
	return nil
}

// untrained reports whether training data are not read: without a linear layer and features there is nothing to
// accumulate.
func (c *Config) untrained() bool { return c.Head.Kind != head.Linear && c.Head.Features == "" }

// complete fills in defaults.
func (c *Config) complete() {
	if c.Posterior != "" {
		c.Covariance, c.Train = calibrate.External, cmp.Or(c.Train, c.Val)
	}
	c.Settings = c.Complete()
}

// Validate reports settings that cannot work, before any work is done.
func (c *Config) Validate() error {
	if err := c.Settings.Validate(); err != nil {
		return err
	}
	if err := c.Runtime.Validate(); err != nil {
		return err
	}
	switch {
	case c.Train == "" && c.Val == "" && c.OOD == "":
		return fmt.Errorf("there are no data: give %s, %s or %s", option.Train, option.Val, option.OOD)
	case !c.PrecomputedFeatures && c.Model == "":
		return fmt.Errorf("%s is missing: give it or %s", option.Model, option.PrecomputedFeatures)
	case c.Resume && c.stream() != "":
		return fmt.Errorf("%s: a stream cannot be resumed, since it cannot be read again: leave %s out, or give files",
			c.stream(), option.Resume)
	case c.Limit > 0 && dataset.IsStream(c.Train):
		return fmt.Errorf("train: %s: a stream cannot be subsampled, since its length is not known: leave out %s, or give a file",
			c.Train, option.Limit)
	}
	if err := c.checkPrecomputed(); err != nil {
		return err
	}
	if err := c.checkPosterior(); err != nil {
		return err
	}
	if c.KeepCurvature && c.Head.Kind != head.Linear {
		return fmt.Errorf("%s is for a linear last layer, and %s %s has no curvature: leave it out", option.KeepCurvature, option.Kind, c.Head.Kind)
	}
	if err := source.OneStream(map[string]string{"train": c.Train, "val": c.Val, "ood": c.OOD}); err != nil {
		return err
	}
	return c.Shard.Validate()
}

// checkPosterior refuses options of a posterior that is computed if there is one, and a posterior without its layer.
func (c *Config) checkPosterior() error {
	if c.Posterior == "" {
		if c.Covariance == calibrate.External {
			return fmt.Errorf("%s %s: the posterior is missing: give %s", option.Covariance, calibrate.External, option.Posterior)
		}
		return nil
	}
	switch {
	case c.PrecomputedFeatures:
		return fmt.Errorf("%s needs a model, whose last layer is compared with it: precomputed features have none", option.Posterior)
	case c.Head.Kind != head.Linear:
		return fmt.Errorf("%s is for a linear last layer, and with %s %s there is none: leave it out", option.Posterior, option.Kind, c.Head.Kind)
	case c.Train == "" && dataset.IsStream(c.Val):
		return fmt.Errorf("val: %s: a stream is read once, and without %s its features are needed twice: give %[2]s, or a file", c.Val, option.Train)
	case c.Shard != (rows.Shard{}):
		return fmt.Errorf("%s: a calibration with %s is not done in parts: no curvature is accumulated: leave it out", option.Shard, option.Posterior)
	}
	for _, o := range []struct {
		name  option.Name
		given bool
	}{
		{option.Covariance, c.Covariance != "" && c.Covariance != calibrate.External},
		{option.Structure, c.Structure != "" && c.Structure != calibrate.Auto},
		{option.Damping, c.Damping != calibrate.Damping{}}, {option.KeepCurvature, c.KeepCurvature},
	} {
		if o.given {
			return fmt.Errorf("%s is for a posterior that is computed from training data, and %s has one: leave it out", o.name, option.Posterior)
		}
	}
	return nil
}

// checkPrecomputed refuses options of a model if there is none.
func (c *Config) checkPrecomputed() error {
	if !c.PrecomputedFeatures {
		return nil
	}
	if c.Head.Kind != head.Linear {
		return fmt.Errorf("%s %s needs a model that gives probabilities or scores, and precomputed features have none", option.Kind, c.Head.Kind)
	}
	if c.Model != "" {
		return fmt.Errorf("%s and %s exclude each other: give one of them", option.Model, option.PrecomputedFeatures)
	}
	for _, f := range []struct {
		name  option.Name
		given bool
	}{
		{option.Features, c.Head.Features != ""}, {option.Logits, c.Head.Logits != ""},
		{option.Output, c.Head.Output != ""}, {option.Approximate, c.Head.Approximate != ""},
		{option.Preprocess, c.Preprocess != nil}, {option.Cache, c.Cache != ""}, {option.NoModel, c.NoModel},
	} {
		if f.given {
			return fmt.Errorf("%s needs a model, and precomputed features have none: leave it out", f.name)
		}
	}
	return nil
}

// stream returns the SPEC that is a stream, or "".
func (c *Config) stream() string {
	for _, spec := range []string{c.Train, c.Val, c.OOD} {
		if dataset.IsStream(spec) {
			return spec
		}
	}
	return ""
}

// keep returns the files that must not be lost with a bundle that is replaced.
func (c *Config) keep() []string {
	if c.NoModel && c.Model != "" {
		return []string{c.Model}
	}
	return nil
}
