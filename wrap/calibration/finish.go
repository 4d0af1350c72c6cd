package calibration

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/external"
	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/metrics"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/calibrate/score"
	"github.com/mfgs/mfgs/internal/measure"
	"github.com/mfgs/mfgs/internal/source"
	"github.com/mfgs/mfgs/onnx/head"
	"github.com/mfgs/mfgs/wrap/bundle"
	"github.com/mfgs/mfgs/wrap/internal/part"
)

// fitAndWrite fits the posterior and the temperatures to a part that has all of the data, and writes the bundle.
func fitAndWrite(ctx context.Context, p *part.Part, to *target, log *journal) (*Report, error) {
	log.begin("tuning")
	settings := &p.Recipe.Settings
	whole := *p // the caller may write its own to a checkpoint if this fails
	p = &whole
	// Parts of a stream may have MaxTuning examples each.
	p.Val, p.OOD = p.Val.Subsample(source.MaxTuning), p.OOD.Subsample(source.MaxTuning)
	p.SyntheticOOD = p.SyntheticOOD.Subsample(source.MaxTuning)
	if p.OOD != nil && p.OOD.N < 2 {
		return nil, fmt.Errorf("out-of-distribution data: %d example, want at least 2, and better hundreds", p.OOD.N)
	}
	log.warn(dataWarnings(p)...)
	all := p.Val
	tuning, thresholds := split(all, settings.Decisions)
	p.Val, p.SyntheticOOD = tuning, syntheticOf(tuning, p.SyntheticOOD)
	o := fitOptions(settings, p.SyntheticOOD)
	o.ValTrained = valTrained(p)
	o.Progress = func(stage string, done, total int) { log.Step(stage, "steps", done, total) }
	fitted, err := fit(ctx, p, to, o)
	if err != nil {
		return nil, err
	}
	log.warn(fitted.Warnings...)
	ofVal := &fitted.Calibration
	if o.ValTrained {
		ofVal = ofVal.LeaveOneOut()
		if fitted.Score.NeedsFitting() {
			log.warn(fmt.Sprintf("val: the score %s was fitted to these examples as train: it flags too many new ones; use other data for train, or the score %s", fitted.Score.Name, score.Fallback))
		}
	}
	m := manifest(p, to, fitted)
	figures, recommendation, err := judge(ctx, m, fitted, ofVal, heldOut{all, tuning, thresholds, p.OOD}, log)
	if err != nil {
		return nil, err
	}
	log.warn(figureWarnings(p, m.HasPrior(), figures)...)

	log.begin("write")
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	info, warning := probeInfo(p)
	log.warn(warning)
	m.Warnings = log.warnings
	report := newReport(p, to, m)
	report.Validation, report.Recommendation, report.Probe = figures, recommendation, info
	if err := write(p, to, fitted, m); err != nil {
		return nil, err
	}
	report.Seconds = log.end()
	return report, nil
}

// fit fits what the head can have to the sums and rows of a part.
func fit(ctx context.Context, p *part.Part, to *target, o calibrate.FitOptions) (*calibrate.Fitted, error) {
	h := p.Recipe.Head.Head
	if p.Sums == nil {
		return fitHead(ctx, h, nil, nil, p.Val, p.OOD, o)
	}
	curvature, err := p.Sums.Finish()
	if err != nil {
		return nil, err
	}
	if needsTraining(&p.Recipe.Settings, h, p.OOD, p.SyntheticOOD) {
		if o.Training, err = training(curvature, p, to.weights); err != nil {
			return nil, err
		}
	}
	return fitHead(ctx, h, curvature, to.external, p.Val, p.OOD, o)
}

// fitHead fits the posterior of a curvature, or that of another program, which may be nil, or the maps alone without a
// linear layer.
func fitHead(ctx context.Context, h layer.Head, c *calibrate.Curvature, given *external.Posterior, val, ood *rows.Batch,
	o calibrate.FitOptions,
) (*calibrate.Fitted, error) {
	switch {
	case h.Nonlinear:
		return calibrate.FitMaps(ctx, h, val, ood, o)
	case given != nil:
		return calibrate.FitExternal(ctx, given, c, val, ood, o)
	}
	return calibrate.Fit(ctx, c, val, ood, o)
}

// judge completes a manifest with what follows from a fit and validation data: class frequencies, decisions, figures
// and the reference of drift, all for the class frequencies in use. ofVal is the fit's calibration for validation data.
func judge(
	ctx context.Context, m *bundle.Manifest, f *calibrate.Fitted, ofVal *calibrate.Calibration, data heldOut,
	log *journal,
) (figures Validation, recommendation metrics.Recommendation, err error) {
	use, err := correctForUse(m, &f.Calibration, ofVal, data.tuning)
	if err != nil {
		return figures, recommendation, err
	}
	warnings, err := use.check(data)
	if err != nil {
		return figures, recommendation, err
	}
	log.warn(warnings...)
	f.Choice = *m.Probabilities
	var warning string
	if m.Decisions, warning, err = use.decide(m.Settings.Decisions, ofVal, data); err != nil {
		return figures, recommendation, err
	}
	log.warn(warning)
	sample := use.examples.Of(data.tuning)
	if figures, recommendation, err = measureValidation(ctx, f, ofVal, sample, data.ood, log); err != nil {
		return figures, recommendation, err
	}
	m.Validation = figures.Validation
	m.Reference, figures.ClassChanges, err = newDriftReference(ofVal, use.examples.Of(data.all))
	return figures, recommendation, err
}

// valTrained reports whether the training data are the validation data, and all of them were used.
func valTrained(p *part.Part) bool {
	data := func(role bundle.Role) (all []string) {
		for _, s := range p.Set(role).Shards {
			all = append(all, fmt.Sprint(s.Shard, s.Fingerprint))
		}
		return all
	}
	if p.Set(bundle.Train) == nil {
		return false
	}
	train := data(bundle.Train)
	return p.Recipe.Settings.Limit == 0 && len(train) > 0 && slices.Equal(train, data(bundle.Val))
}

// fitOptions returns how settings ask to fit.
func fitOptions(s *bundle.Settings, synthetic *rows.Batch) calibrate.FitOptions {
	return calibrate.FitOptions{
		Covariance: s.Covariance, Damping: s.Damping, Lambda0: s.Lambda0, Score: s.OODScore, Synthetic: synthetic,
		KeepClass: s.KeepClass,
	}
}

// needsTraining reports whether OOD scores are fitted to training data: to be compared, or because the configured or
// default one needs to be.
func needsTraining(s *bundle.Settings, h layer.Head, ood, synthetic *rows.Batch) bool {
	usual, _ := score.DefaultFor(h)
	first, ok := score.Find(cmp.Or(s.OODScore, usual))
	return ood != nil || synthetic != nil || ok && first.NeedsFitting()
}

// newReport describes a calibration, except for its figures.
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

// measureValidation computes the figures of the methods that a bundle can serve on the data that they were tuned
// on, and the recommendation that follows. ofVal predicts val. ood may be nil.
func measureValidation(
	ctx context.Context, f *calibrate.Fitted, ofVal *calibrate.Calibration, val, ood *rows.Batch, log *journal,
) (Validation, metrics.Recommendation, error) {
	var none metrics.Recommendation
	names, oods := []string{"mle", "ts"}, []string(nil)
	if !f.Posterior.Head.Nonlinear {
		names = append(names, "mf0")
	}
	if f.Choice.Matrix {
		names = append(names, "matrix")
	}
	if ood != nil {
		oods = []string{"ood"}
		if f.Score.Name != "mf0" {
			names = append(names, f.Score.Name)
		}
	}
	tallies := make([]*measure.Tally, len(names))
	for i, name := range names {
		tallies[i] = measure.New(name, f.Posterior.Head, 0, 0, oods)
	}
	if err := measure.AddPlain(tallies, ofVal, nil, measure.SetID{Role: measure.Test}, val); err != nil {
		return Validation{}, none, err
	}
	if ood != nil {
		if err := measure.AddPlain(tallies, &f.Calibration, nil, measure.SetID{Role: measure.OOD}, ood); err != nil {
			return Validation{}, none, err
		}
	}
	results := map[string]bundle.Figures{}
	var detection *metrics.OOD // of the selected score
	for _, t := range tallies {
		got, err := t.Figures()
		if err != nil {
			return Validation{}, none, err
		}
		if ood != nil && t.Name == f.Score.Name {
			detection = &got.OOD[0].OOD
		}
		if got.InDomain == nil {
			continue // an OOD score
		}
		figures := bundle.Figures{InDomain: got.InDomain.InDomain}
		if ood != nil {
			figures.OOD, figures.OODNLL = &got.OOD[0].OOD, &got.OODNLL[0].OOD
		}
		results[t.Name] = figures
	}
	served := results[string(f.Method)]
	h := Validation{Scores: f.Scores, SyntheticOOD: f.SyntheticScores}
	h.Before, h.TS = results["mle"], results["ts"]
	if mf0, ok := results["mf0"]; ok {
		h.MF0 = &mf0
	}
	if matrix, ok := results["matrix"]; ok {
		h.Matrix = &matrix
	}
	h.After = bundle.Figures{InDomain: served.InDomain, OOD: detection, OODNLL: served.OODNLL}
	resampled, err := measure.Resample(ctx, tallies, metrics.ResampleOptions{
		Resamples: measure.Resamples,
		Progress:  func(done, total int) { log.Step("intervals", "resamples", done, total) },
	}, measure.Compared()...)
	if err != nil {
		return Validation{}, none, err
	}
	return h, resampled.RecommendTuned(string(f.Method), f.Choice.String(), f.Score.Name), nil
}

// figureWarnings warns of validation figures that point to a mistake, or rest on too few examples. inUse says that they
// are of a sample with the class frequencies in use.
func figureWarnings(p *part.Part, inUse bool, h Validation) (warnings []string) {
	head, val, ood := p.Recipe.Head.Head, p.Val, p.OOD
	if h.Scores != nil {
		served := detection{"ood_score", h.After.OOD.AUROC}
		warnings = append(warnings, belowChance([]detection{served}, val.N, ood.N))
	}
	warnings = append(warnings, likelihoodWarning(head, val.N, inUse, h.Before.InDomain, h.TS.InDomain))
	warnings = append(warnings, floored(p))
	if look := measure.LooksLikeProbabilities(val.Logits, head); look != "" && p.Recipe.Model == nil {
		warnings = append(warnings, fmt.Sprintf("val: %s, like probabilities: give the logits, before the %s", look, head.Link))
	}
	return warnings
}

// floored says how many probabilities of the validation data are 0, or too near to it to tell, and what for.
func floored(p *part.Part) string {
	if p.Recipe.Head.Kind != head.Probabilities {
		return ""
	}
	const least = 1.001 * head.LeastProbability
	k, labels, separate := p.Recipe.Head.Logits, p.Val.Labels, p.Recipe.Head.Link.Separate()
	low, high, wrong := 0, 0, 0
	for i := range p.Val.N {
		for j, v := range p.Val.Logits[i*k : (i+1)*k] {
			switch {
			case float64(v) <= math.Log(least):
				low++
				if labels != nil && labels[i] == j && !separate {
					wrong++
				}
			case separate && float64(v) >= -math.Log(least):
				high++
			}
		}
	}
	if low+high == 0 {
		return ""
	}
	of := fmt.Sprintf("val: %d of %d probabilities are 0, or below %.0e, and are taken as that", low, len(p.Val.Logits), head.LeastProbability)
	if high > 0 {
		of += fmt.Sprintf("; %d are 1, or as near to it", high)
	}
	if wrong > 0 {
		of += fmt.Sprintf("; %d of them are the label's: where they are 0, the NLL of the model as it is would be infinite", wrong)
	}
	return of
}

// likelihoodWarning warns of too few validation examples, n, and of implausible figures of the network itself, as it is
// and at its best temperature, unless these are of a sample with the class frequencies in use. "" is no warning.
func likelihoodWarning(head layer.Head, n int, inUse bool, before, scaled metrics.InDomain) string {
	const few = 100
	choices := head.Classes()
	if head.MultiLabel() {
		choices = 2 // for each label
	}
	switch guess := math.Log(float64(choices)); {
	// A temperature corrects overconfidence, but not wrong classes.
	case scaled.NLL >= 0.98*guess && !inUse:
		return fmt.Sprintf("the network does no better than guessing on the validation data (NLL %.2f at its best temperature, log %d = %.2f): check the preprocessing, the class order and the labels", scaled.NLL, choices, guess)
	case n < few:
		return fmt.Sprintf("%d validation examples are too few to tune temperatures well: give several hundred or more", n)
	case before.Error == 0 && !inUse:
		return "the network makes no error on the validation data: check that it was not trained on it, which would make its probabilities overconfident"
	}
	return ""
}
