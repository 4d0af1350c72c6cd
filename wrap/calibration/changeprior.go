package calibration

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/conformal"
	"github.com/mfgs/mfgs/calibrate/metrics"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/internal/measure"
	"github.com/mfgs/mfgs/internal/option"
	"github.com/mfgs/mfgs/internal/source"
	"github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/bundle"
)

// changePrior writes the bundle with other class frequencies in use, and with other decisions if they are configured.
func (u *update) changePrior(ctx context.Context, to *target) (*Report, error) {
	if u.manifest.Format == 1 {
		return nil, fmt.Errorf("%s is of format 1, which has no class frequencies: calibrate again", u.Bundle)
	}
	cfg, m := u.config(), *u.manifest
	if err := cfg.CheckPrior(u.in.head, u.in.classes); err != nil {
		return nil, err
	}
	choice := *m.Probabilities
	if choice.Method == calibrate.TS && choice.TSGain <= choice.TSNeeded {
		choice.Method = calibrate.MLE // as it was selected before a prior needed another
	}
	m.Tool, m.Settings, m.Probabilities, m.PriorEstimate = "mfgs "+wrap.Version(), &cfg.Settings, &choice, nil
	m.Datasets = slices.Clone(m.Datasets)
	if m.Decisions == nil && cfg.Decisions != (conformal.Plan{}) && u.Val == "" {
		return nil, fmt.Errorf("the bundle was calibrated without thresholds, so that all of its validation data was used for tuning: give other data with %s, or calibrate again with them", option.Val)
	}
	val, unlabelled, err := u.readForPrior(ctx, cfg, &m)
	if err != nil {
		return nil, err
	}

	u.log.begin("tuning")
	f := &calibrate.Fitted{Calibration: *u.bundle.Calibration().WithoutPrior(), Choice: choice}
	f.Method, f.Product = choice.Method, u.in.matrixProduct()
	if m.OODScore != nil {
		f.ScoreChoice = m.OODScore.Selection
	}
	ofVal := &f.Calibration
	if valIsTrain(&m) {
		ofVal = ofVal.LeaveOneOut()
	}
	report := &Report{
		Bundle: to.dir, Head: HeadInfo{Head: m.Head}, Preprocess: u.in.preprocess, Bad: []string{}, Ignored: []string{},
	}
	var estimate *bundle.PriorEstimate
	if unlabelled != nil {
		if estimate, err = u.estimate(ctx, &m, ofVal, val, unlabelled); err != nil {
			return nil, err
		}
	}
	if val == nil {
		if _, err := correctForUse(&m, &f.Calibration, ofVal, nil); err != nil {
			return nil, err
		}
		m.Reference = nil
		report.Validation = Validation{Validation: m.Validation}
	} else if report.Validation, report.Recommendation, err = u.figures(ctx, &m, f, ofVal, val); err != nil {
		return nil, err
	}
	if m.PriorEstimate != nil && val != nil {
		u.log.warn(otherShift(&m, &f.Calibration, ofVal, val, unlabelled))
	}
	m.Warnings = append(withoutPrior(m.Warnings), u.log.warnings...)

	u.log.begin("write")
	u.describe(to)
	report.Model, report.Summary, report.Warnings = to.model, m.Summary(), u.log.warnings
	if estimate != nil { // significant or not
		report.PriorEstimate, report.ClassFrequencies = estimate, m.Frequencies(estimate.Frequencies)
	}
	report.Examples, report.Probe = examplesOf(&m), ProbeInfo{Reason: hadNone}
	if u.bundle.Probe != nil {
		report.Probe = ProbeInfo{Examples: u.bundle.Probe.N}
	}
	if err := u.rewrite(&m, to); err != nil {
		return nil, err
	}
	report.Seconds = u.log.end()
	return report, nil
}

// readForPrior reads the validation data and the unlabelled data, which are nil if there are none. A bundle without
// decisions can do without its validation data.
func (u *update) readForPrior(
	ctx context.Context, cfg *Config, m *bundle.Manifest,
) (val, unlabelled *rows.Batch, err error) {
	if err := cfg.Runtime.Validate(); err != nil {
		return nil, nil, err
	}
	if err := source.OneStream(map[string]string{"val": cfg.Val, "prior": u.Unlabelled}); err != nil {
		return nil, nil, err
	}
	if err := u.openRunner(ctx, cfg); err != nil {
		return nil, nil, err
	}
	u.in.opener.Classes, u.in.opener.Limit = u.in.classes, source.MaxTuning
	u.log.begin("held_out")
	if u.Unlabelled != "" {
		s, err := u.in.opener.Open(ctx, "prior", u.Unlabelled, u.in.head.Classes(), false)
		if err != nil {
			return nil, nil, fmt.Errorf("%w (class frequencies are in files .yaml or .yml)", err)
		}
		defer s.Close()
		if err := s.Fits(u.in.head, "the bundle"); err != nil {
			return nil, nil, err
		}
		if unlabelled, err = s.Collect(ctx); err != nil {
			return nil, nil, err
		}
		for _, d := range u.manifest.Datasets {
			if d.Spec == u.Unlabelled {
				u.log.warn(fmt.Sprintf(priorPrefix+"%s is the %s data of the bundle", u.Unlabelled, d.Role))
			}
		}
	}
	val, err = u.readVal(ctx, cfg, m)
	needed := u.Val != "" || cfg.Decisions != (conformal.Plan{}) || u.manifest.ClassFrequencies == nil
	if err != nil && ctx.Err() == nil && !needed {
		u.log.warn(fmt.Sprintf(priorPrefix+"figures are those of the validation data, and there is no reference for drift, since the validation data was not read: %v", err))
		return nil, unlabelled, nil
	}
	if err != nil {
		err = fmt.Errorf("%w (validation data defaults to that of the bundle)", err)
	}
	return val, unlabelled, err
}

// readVal reads the validation data. If it is not that of the bundle, it is recorded in the manifest.
func (u *update) readVal(ctx context.Context, cfg *Config, m *bundle.Manifest) (*rows.Batch, error) {
	s, err := u.in.open(ctx, cfg, u.in.opener, bundle.Val, cfg.Val)
	if err != nil {
		return nil, err
	}
	u.in.val = s
	if err := s.Fits(u.in.head, "the bundle"); err != nil {
		return nil, err
	}
	val, err := s.Collect(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.Identify(ctx); err != nil {
		return nil, err
	}
	if err := u.checkUnchanged(ctx, s, bundle.Val, u.Val); err != nil || u.Val == "" {
		return val, err
	}
	of := slices.IndexFunc(m.Datasets, func(d bundle.Dataset) bool { return d.Role == bundle.Val })
	m.Datasets[of] = bundle.Dataset{
		Role: bundle.Val, Spec: u.Val, Fingerprint: s.Fingerprint, Count: val.N, Ignored: s.Ignored(),
	}
	return val, nil
}

// valIsTrain reports whether a bundle's training data are its validation data.
func valIsTrain(m *bundle.Manifest) bool {
	of := map[bundle.Role][]string{}
	for _, d := range m.Datasets {
		of[d.Role] = append(of[d.Role], d.Fingerprint)
	}
	return m.CalibrationSettings().Limit == 0 && slices.Equal(of[bundle.Train], of[bundle.Val])
}

// figures is judge for validation data alone: figures of OOD data are those of the bundle, as class frequencies do not
// change them.
func (u *update) figures(
	ctx context.Context, m *bundle.Manifest, f *calibrate.Fitted, ofVal *calibrate.Calibration, val *rows.Batch,
) (figures Validation, recommendation metrics.Recommendation, err error) {
	tuning, thresholds := split(val, m.Settings.Decisions)
	old, data := m.Validation, heldOut{val, tuning, thresholds, nil}
	if figures, recommendation, err = judge(ctx, m, f, ofVal, data, u.log); err != nil {
		return figures, recommendation, err
	}
	for _, x := range []struct{ to, from *bundle.Figures }{
		{&figures.Before, &old.Before}, {&figures.TS, &old.TS}, {figures.Matrix, old.Matrix}, {figures.MF0, old.MF0},
		{&figures.After, &old.After},
	} {
		if x.to != nil && x.from != nil {
			x.to.OOD, x.to.OODNLL = x.from.OOD, x.from.OODNLL
		}
	}
	m.Validation = figures.Validation
	return figures, recommendation, nil
}

// estimate estimates class frequencies from unlabelled data, and puts them into a manifest if they are significant.
func (u *update) estimate(
	ctx context.Context, m *bundle.Manifest, c *calibrate.Calibration, val, unlabelled *rows.Batch,
) (*bundle.PriorEstimate, error) {
	if u.in.head.MultiLabel() {
		return nil, errors.New("class frequencies are of classes that exclude each other, and the head is multi-label")
	}
	of, f, n := *c, m.ClassFrequencies, m.TuningExamples()
	if of.Method == calibrate.MLE { // is not corrected
		of.Method = calibrate.TS
	}
	if val != nil {
		tuning, _ := split(val, m.Settings.Decisions)
		f, n = calibrate.ClassFrequencies(measure.Outcomes(&of, tuning).Probabilities, tuning.Labels), tuning.N
	}
	e, err := calibrate.EstimatePrior(ctx, &of, unlabelled, f, n)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", u.Unlabelled, err)
	}
	estimate := &bundle.PriorEstimate{Spec: u.Unlabelled, Examples: unlabelled.N, PriorEstimate: *e}
	if m.Settings.Prior = nil; e.Significant {
		m.PriorEstimate = estimate
	}
	return estimate, nil
}

// otherShift warns if confidence in unlabelled data is not what it is in a sample of the validation data with the
// same class frequencies: then not only these differ, and their estimate means little.
func otherShift(m *bundle.Manifest, c, ofVal *calibrate.Calibration, val, unlabelled *rows.Batch) (warning string) {
	p, _ := m.ResolvePrior() // was resolved before
	in := confidences(ofVal, calibrate.NewSampler(p, m.ClassFrequencies, m.TuningExamples()).Of(val))
	if got, expected, differ := calibrate.ConfidencesDiffer(confidences(c, unlabelled), in); differ {
		return fmt.Sprintf(priorPrefix+"the mean confidence in the unlabelled data is %.2f, in validation data with these class frequencies %.2f: more than the frequencies differ, and their estimate may be wrong", got, expected)
	}
	return ""
}

// confidences returns the confidence in each of some examples.
func confidences(c *calibrate.Calibration, b *rows.Batch) []float64 {
	h := c.Posterior.Head
	p := measure.Outcomes(c, b).Probabilities
	out := make([]float64, b.N)
	for i := range out {
		out[i] = slices.Max(p[i*h.Classes() : (i+1)*h.Classes()])
	}
	return out
}

// examplesOf counts the examples of a bundle.
func examplesOf(m *bundle.Manifest) (e Examples) {
	for _, d := range m.Datasets {
		*map[bundle.Role]*int{
			bundle.Train: &e.Train, bundle.Val: &e.Val, bundle.OOD: &e.OOD, bundle.SyntheticOOD: &e.SyntheticOOD,
		}[d.Role] += d.Count
	}
	return e
}

// rewrite writes the bundle with another manifest.
func (u *update) rewrite(m *bundle.Manifest, to *target) error {
	if err := to.confirm(); err != nil {
		return err
	}
	o := to.WriteOptions
	if m.Curvature != nil {
		o.Curvature = bundle.Copy(filepath.Join(u.Bundle, bundle.CurvatureName))
	}
	if m.Sample != nil {
		o.Sample = bundle.Copy(filepath.Join(u.Bundle, bundle.SampleName))
	}
	b := *u.bundle
	b.Manifest = *m
	return bundle.Write(to.dir, b, o)
}
