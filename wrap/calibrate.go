package wrap

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/meanfield"
	"github.com/mfgs/mfgs/calibrate/metrics"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/calibrate/score"
	"github.com/mfgs/mfgs/onnx/head"
	"github.com/mfgs/mfgs/wrap/bundle"
	"github.com/mfgs/mfgs/wrap/internal/attach"
	"github.com/mfgs/mfgs/wrap/internal/measure"
	"github.com/mfgs/mfgs/wrap/internal/source"
)

// Calibrate fits the posterior and the temperatures of a classifier and writes the bundle cfg.Out.
// On error there is no bundle, and an older one stands as it was.
//
// The training set is streamed; the held-out sets, at most 50,000 examples of each, are kept in
// memory.
func Calibrate(ctx context.Context, cfg Config) (*Report, error) {
	cfg = cfg.withDefaults()
	if err := cfg.check(); err != nil {
		return nil, err
	}
	log := newJournal(&cfg)

	log.begin("open")
	in, err := openSources(ctx, &cfg, log)
	if err != nil {
		return nil, err
	}
	defer in.close()
	log.begin("proof")
	proof, err := prove(ctx, &cfg, in, log)
	if err != nil {
		return nil, err
	}
	log.begin("train")
	curvature, logitError, train, err := accumulate(ctx, &cfg, in, log)
	if err != nil {
		return nil, err
	}
	log.begin("held_out")
	val, err := collect(ctx, in.val, in.head, log)
	if err != nil {
		return nil, err
	}
	var ood heldOut
	if in.ood != nil {
		if ood, err = collect(ctx, in.ood, in.head, log); err != nil {
			return nil, err
		}
	}
	log.begin("fingerprint")
	datasets, err := identify(ctx, in, []reading{train, val.reading, ood.reading}, log)
	if err != nil {
		return nil, err
	}
	log.warn(dataWarnings(in, train.counts, val.counts, ood.counts)...)

	log.begin("tuning")
	fitted, err := calibrate.Fit(ctx, curvature, val.rows, ood.rows, calibrate.FitOptions{
		Covariance: cfg.Covariance, Damping: cfg.Damping, Lambda0: cfg.Lambda0,
		Progress: func(stage string, done, total int) { log.Step(stage, "steps", done, total) },
	})
	if err != nil {
		return nil, err
	}
	log.warn(fitted.Warnings...)
	figures, err := measureHeldOut(fitted, val.rows, ood.rows)
	if err != nil {
		return nil, err
	}
	log.warn(figureWarnings(&cfg, in.head, figures, val.rows, ood.rows)...)

	log.begin("write")
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	report := newReport(&cfg, in, fitted, log)
	report.Head.LogitError, report.Head.Proof, report.HeldOut = logitError, proof, figures
	report.Examples = Examples{Train: train.examples, Val: val.examples, OOD: ood.examples, Bad: len(log.Bad)}
	if err := write(&cfg, in, fitted, report, datasets); err != nil {
		return nil, err
	}
	report.Seconds = log.end()
	return report, nil
}

// newReport describes a calibration, but for what its reading and measuring gave.
func newReport(cfg *Config, in *sources, fitted *calibrate.Fitted, log *journal) *Report {
	r := &Report{
		Bundle: cfg.Out, Preprocess: in.preprocess,
		Head:      HeadInfo{Head: in.describeHead()},
		Structure: string(fitted.Posterior.Structure), Covariance: string(fitted.Posterior.Covariance),
		Damping: bundle.Damping{
			Rule: cfg.Damping.String(), Epsilon: fitted.Posterior.Epsilon, Rho: fitted.Rho,
			Candidates: fitted.Candidates,
		},
		Probabilities: choiceInfo(fitted.Choice),
		Temperatures: TemperatureInfo{
			NLL: fitted.NLL, OOD: fitted.OOD, Optimum: &fitted.Optimum, OODTuned: fitted.OODTuned,
			TS: fitted.TS, TSOOD: fitted.TSOOD,
		},
		Bad: append([]string{}, log.Bad...), Ignored: append([]string{}, log.Ignored...), Warnings: log.warnings,
	}
	if in.cut != nil {
		r.Model = NewModelInfo(in.cut.Model)
	}
	return r
}

// withDefaults fills in what was left out.
func (c Config) withDefaults() Config {
	if c.Covariance == "" {
		c.Covariance = calibrate.Hessian
	}
	if c.Lambda0 == 0 {
		c.Lambda0 = meanfield.Lambda0
	}
	return c
}

// check refuses what cannot work before any work is done.
func (c *Config) check() error {
	if err := c.Covariance.Validate(); err != nil {
		return err
	}
	if err := c.Runtime.Validate(); err != nil {
		return err
	}
	if err := c.Damping.Validate(); err != nil {
		return err
	}
	switch {
	case !(c.Lambda0 > 0) || math.IsInf(c.Lambda0, 1):
		return fmt.Errorf("lambda0 is %v, want a positive number", c.Lambda0)
	case c.Limit < 0 || c.MaxBad < 0:
		return fmt.Errorf("limit is %d and max-bad %d, want no negative numbers", c.Limit, c.MaxBad)
	case c.Train == "" || c.Val == "":
		return errors.New("calibration needs training data and held-out data")
	case c.ReadyMade && c.Model != "":
		return errors.New("ready-made features come without a model")
	case c.ReadyMade &&
		(c.Head != head.Options{Link: c.Head.Link} || c.Preprocess != nil || c.Cache != "" || c.NoModel):
		return errors.New("head, preprocessing, features cache and no-model are for a model, and with ready-made features there is none")
	case !c.ReadyMade && c.Model == "":
		return errors.New("calibration needs a model, or ready-made features")
	case c.Out == "":
		return errors.New("calibration needs a folder to write the bundle to")
	}
	return bundle.CheckTarget(c.Out, c.Force, c.keep()...)
}

// keep returns the files that must outlive the bundle that is replaced.
func (c *Config) keep() []string {
	if c.NoModel && c.Model != "" {
		return []string{c.Model}
	}
	return nil
}

// reading is what was met in reading a set.
type reading struct {
	examples, bad int
	counts        *dataCounts
}

// accumulate streams the training set into the curvature, and proves the head on its first batch:
// logitError is how far φW + b is from the logits there.
func accumulate(
	ctx context.Context, cfg *Config, in *sources, log *journal,
) (c *calibrate.Curvature, logitError float64, read reading, err error) {
	sums, err := calibrate.NewSums(calibrate.CurvatureConfig{
		Head: in.head, Structure: cfg.Structure, Fisher: cfg.Covariance.NeedsFisher(), Product: in.matrixProduct(),
	})
	if err != nil {
		return nil, 0, read, err
	}
	read.counts = &dataCounts{}
	blocks := rows.NewBlocks(sums.AddBlock)
	var inCurvature time.Duration
	read.examples, read.bad, err = in.train.Stream(ctx, in.head, &log.Notes, func(b *rows.Batch) (err error) {
		if read.counts.n == 0 && in.cut != nil {
			if logitError, err = attach.CheckLogits(in.cut.Head, b); err != nil {
				return err
			}
			if a := in.cut.Head.Approximation; a != "" {
				log.warnf("approximation %s: φW + b differs from the logits by %.2g of the largest; variances are as approximate", a, logitError)
			}
		}
		read.counts.add(in.head, b)
		start := time.Now()
		defer func() { inCurvature += time.Since(start) }()
		return blocks.Add(b)
	})
	if err != nil {
		return nil, 0, read, err
	}
	start := time.Now()
	if err := blocks.Flush(); err != nil {
		return nil, 0, read, fmt.Errorf("train: %w", err)
	}
	c, err = sums.Finish()
	log.seconds["curvature"] = (inCurvature + time.Since(start)).Seconds()
	return c, logitError, read, err
}

// heldOut is a held-out set in memory.
type heldOut struct {
	reading
	rows *rows.Batch
}

// collect reads a held-out set.
func collect(ctx context.Context, s *source.Set, h calibrate.Head, log *journal) (heldOut, error) {
	batch, bad, err := s.Collect(ctx, h, &log.Notes)
	if err != nil {
		return heldOut{}, err
	}
	c := &dataCounts{}
	c.add(h, batch)
	return heldOut{reading{batch.N, bad, c}, batch}, nil
}

// identify describes the sets for the manifest, and warns of those that share examples: each has a
// part that the others must not have.
func identify(ctx context.Context, in *sources, read []reading, log *journal) ([]bundle.Dataset, error) {
	var datasets []bundle.Dataset
	for i, s := range in.sets() {
		if err := s.Identify(ctx); err != nil {
			return nil, err
		}
		for _, other := range in.sets()[:i] {
			if shared := s.Shares(other); shared != "" {
				log.warnf("%s and %s %s: what is tuned here may not hold on new data", other.Name, s.Name, shared)
			}
		}
		datasets = append(datasets, bundle.Dataset{
			Role: bundle.Role(s.Name), Spec: s.Spec, Fingerprint: s.Fingerprint,
			Count: read[i].examples, Ignored: s.Ignored(), Bad: read[i].bad,
		})
	}
	return datasets, nil
}

// measureHeldOut computes the held-out figures of the methods that need nothing but a calibration.
// ood may be nil.
func measureHeldOut(f *calibrate.Fitted, val, ood *rows.Batch) (HeldOut, error) {
	var oods []string
	if ood != nil {
		oods = []string{"ood"}
	}
	var tallies []*measure.Tally
	for _, name := range measure.Plain {
		tallies = append(tallies, measure.New(name, f.Posterior.Head, 0, oods))
	}
	if err := measure.AddPlain(tallies, &f.Calibration, measure.Part{Role: measure.Test}, val); err != nil {
		return HeldOut{}, err
	}
	if ood != nil {
		if err := measure.AddPlain(tallies, &f.Calibration, measure.Part{Role: measure.OOD}, ood); err != nil {
			return HeldOut{}, err
		}
	}
	results := map[string]bundle.Figures{}
	for _, t := range tallies {
		got, err := t.Figures()
		if err != nil {
			return HeldOut{}, err
		}
		var figures bundle.Figures
		if got.InDomain != nil {
			figures.InDomain = *got.InDomain
		}
		if ood != nil {
			figures.OOD, figures.OODNLL = &got.OOD[0], &got.OODNLL[0]
		}
		results[t.Name] = figures
	}
	mf0 := results["mf0"]
	var h HeldOut
	if ood != nil {
		h.Scores = map[string]*metrics.OOD{}
		for _, s := range score.All {
			if figures, ok := results[s.Name]; ok {
				h.Scores[s.Name] = figures.OOD
			}
		}
	}
	h.Before, h.TS, h.MF0, h.After = results["mle"], results["ts"], &mf0, mf0
	if f.Method != calibrate.MF0 {
		served := results[string(f.Method)]
		h.After.InDomain, h.After.OODNLL = served.InDomain, served.OODNLL
	}
	return h, nil
}

// figureWarnings warns of held-out figures that speak of a mistake, or say too little.
func figureWarnings(cfg *Config, head calibrate.Head, h HeldOut, val, ood *rows.Batch) (warnings []string) {
	if h.Scores != nil {
		detections := []detection{{"ood_score", h.After.OOD.AUROC}}
		for _, s := range score.All {
			if figures := h.Scores[s.Name]; figures != nil {
				detections = append(detections, detection{s.Name, figures.AUROC})
			}
		}
		warnings = append(warnings, belowChance(detections, val.N, ood.N))
	}
	warnings = append(warnings, likelihoodWarning(head, h.Before.InDomain, h.TS.InDomain))
	if look := measure.ProbabilitiesIn(val.Logits, head); look != "" && cfg.ReadyMade {
		warnings = append(warnings, fmt.Sprintf("val: %s: are they probabilities? Give the values before the %s", look, head.Link))
	}
	return warnings
}

// likelihoodWarning warns of figures of the network itself, as it is and at its best temperature;
// "" if there is nothing to warn of.
func likelihoodWarning(head calibrate.Head, before, scaled metrics.InDomain) string {
	const few = 100
	choices := head.Classes()
	if head.MultiLabel() {
		choices = 2 // for each label
	}
	switch guess := math.Log(float64(choices)); {
	// A temperature mends probabilities that are too sure, whatever the logits' unit, but not what
	// they say.
	case scaled.NLL >= 0.98*guess:
		return fmt.Sprintf("on the held-out data the network does no better than guessing (NLL %.2f at its best temperature, log %d = %.2f): do the preprocessing, the order of the classes and the labels fit?", scaled.NLL, choices, guess)
	case before.N < few:
		return fmt.Sprintf("%d held-out examples say little about two temperatures: give some hundreds or more", before.N)
	case before.Error == 0:
		return "the network makes no error on the held-out data: was it trained on it? Its temperatures come out too sure"
	}
	return ""
}
