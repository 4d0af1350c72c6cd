package calibration

import (
	"context"
	"fmt"
	"math"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/metrics"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/calibrate/score"
	"github.com/mfgs/mfgs/internal/measure"
	"github.com/mfgs/mfgs/internal/source"
	"github.com/mfgs/mfgs/wrap/bundle"
	"github.com/mfgs/mfgs/wrap/internal/part"
)

// finish fits the posterior and the temperatures to what was read, and writes the bundle. It reads
// nothing but the part, which holds all of the training data and of the held-out data.
func finish(ctx context.Context, p *part.Part, to *target, log *journal) (*Report, error) {
	log.begin("tuning")
	asked := &p.Recipe.Settings
	whole := *p // the caller's stays as it was read: on error it may be kept
	p = &whole
	p.Val, p.OOD, p.StandIns = thin(p.Val), thin(p.OOD), thin(p.StandIns)
	if p.OOD != nil && p.OOD.N < 2 {
		return nil, fmt.Errorf("out-of-distribution data: %d example, want at least 2, or some hundreds to tune by", p.OOD.N)
	}
	log.warn(dataWarnings(p)...)
	all := p.Val
	val, held := divide(all, asked.Decisions)
	p.Val, p.StandIns = val, standInsFor(val, p.StandIns)
	curvature, err := p.Sums.Finish()
	if err != nil {
		return nil, err
	}
	var known *score.Training
	if s, given := score.Find(asked.OODScore); p.OOD != nil || p.StandIns != nil || given && s.Learns() {
		if known, err = training(curvature, p, to.weights); err != nil {
			return nil, err
		}
	}
	fitted, err := calibrate.Fit(ctx, curvature, p.Val, p.OOD, calibrate.FitOptions{
		Covariance: asked.Covariance, Damping: asked.Damping, Lambda0: asked.Lambda0, Score: asked.OODScore,
		Training: known, Synthetic: p.StandIns,
		Progress: func(stage string, done, total int) { log.Step(stage, "steps", done, total) },
	})
	if err != nil {
		return nil, err
	}
	log.warn(fitted.Warnings...)
	decisions, doubt, err := decide(asked.Decisions, &fitted.Calibration, p.Val, held)
	if err != nil {
		return nil, err
	}
	log.warn(doubt)
	figures, recommendation, err := measureHeldOut(ctx, fitted, p.Val, p.OOD)
	if err != nil {
		return nil, err
	}
	log.warn(figureWarnings(p, figures)...)
	reference, err := refer(&fitted.Calibration, all)
	if err != nil {
		return nil, err
	}

	log.begin("write")
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	info, missing := probeInfo(p, to)
	log.warn(missing)
	m := manifest(p, to, fitted)
	m.HeldOut, m.Decisions, m.Reference, m.Warnings = figures.HeldOut, decisions, reference, log.warnings
	report := newReport(p, to, m)
	report.HeldOut, report.Recommendation, report.Probe = figures, recommendation, info
	if err := write(p, to, fitted, m); err != nil {
		return nil, err
	}
	report.Seconds = log.end()
	return report, nil
}

// thin returns so many held-out examples as are tuned on: shards of streams have each as many as there
// are.
func thin(b *rows.Batch) *rows.Batch {
	if b == nil {
		return nil
	}
	return b.Subsample(source.MaxHeldOut)
}

// newReport describes a calibration, but for what its measuring gave.
func newReport(p *part.Part, to *target, m *bundle.Manifest) *Report {
	sum := summarise(p)
	for _, d := range to.trained {
		sum.examples.Train += d.Count
	}
	return &Report{
		Bundle: to.dir, Model: to.model, Preprocess: p.Recipe.Preprocess, Head: sum.head, Summary: m.Summary(),
		Examples: sum.examples, Bad: sum.bad, Ignored: sum.ignored, Warnings: m.Warnings,
	}
}

// measureHeldOut computes the held-out figures of the methods that need nothing but a calibration, and
// what they recommend, and gathers those of scores. ood may be nil.
func measureHeldOut(
	ctx context.Context, f *calibrate.Fitted, val, ood *rows.Batch,
) (HeldOut, metrics.Recommendation, error) {
	var none metrics.Recommendation
	names, oods := []string{"mle", "ts", "mf0"}, []string(nil)
	if ood != nil {
		oods = []string{"ood"}
		if f.Score.Name != "mf0" {
			names = append(names, f.Score.Name)
		}
	}
	tallies := make([]*measure.Tally, len(names))
	for i, name := range names {
		tallies[i] = measure.New(name, f.Posterior.Head, 0, oods)
	}
	if err := measure.AddPlain(tallies, &f.Calibration, nil, measure.Part{Role: measure.Test}, val); err != nil {
		return HeldOut{}, none, err
	}
	if ood != nil {
		if err := measure.AddPlain(tallies, &f.Calibration, nil, measure.Part{Role: measure.OOD}, ood); err != nil {
			return HeldOut{}, none, err
		}
	}
	results := map[string]bundle.Figures{}
	var unfamiliar *metrics.OOD // of the score that serves
	for _, t := range tallies {
		got, err := t.Figures()
		if err != nil {
			return HeldOut{}, none, err
		}
		if ood != nil && t.Name == f.Score.Name {
			unfamiliar = &got.OOD[0].OOD
		}
		if got.InDomain == nil {
			continue // a score alone
		}
		figures := bundle.Figures{InDomain: got.InDomain.InDomain}
		if ood != nil {
			figures.OOD, figures.OODNLL = &got.OOD[0].OOD, &got.OODNLL[0].OOD
		}
		results[t.Name] = figures
	}
	mf0, served := results["mf0"], results[string(f.Method)]
	h := HeldOut{Scores: f.Scores, StandIns: f.SyntheticScores}
	h.Before, h.TS, h.MF0 = results["mle"], results["ts"], &mf0
	h.After = bundle.Figures{InDomain: served.InDomain, OOD: unfamiliar, OODNLL: served.OODNLL}
	resampled, err := measure.ResampleCompared(ctx, tallies, measure.Resamples, 0)
	if err != nil {
		return HeldOut{}, none, err
	}
	return h, resampled.RecommendTuned(string(f.Method), f.Choice.String(), f.Score.Name), nil
}

// figureWarnings warns of held-out figures that speak of a mistake, or say too little.
func figureWarnings(p *part.Part, h HeldOut) (warnings []string) {
	head, val, ood := p.Recipe.Head.Head, p.Val, p.OOD
	if h.Scores != nil {
		served := detection{"ood_score", h.After.OOD.AUROC}
		warnings = append(warnings, belowChance([]detection{served}, val.N, ood.N))
	}
	warnings = append(warnings, likelihoodWarning(head, h.Before.InDomain, h.TS.InDomain))
	if look := measure.ProbabilitiesIn(val.Logits, head); look != "" && p.Recipe.Model == nil {
		warnings = append(warnings, fmt.Sprintf("val: %s: are they probabilities? Give the values before the %s", look, head.Link))
	}
	return warnings
}

// likelihoodWarning warns of figures of the network itself, as it is and at its best temperature;
// "" if there is nothing to warn of.
func likelihoodWarning(head layer.Head, before, scaled metrics.InDomain) string {
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
