package calibration

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/conformal"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/internal/measure"
	"github.com/mfgs/mfgs/internal/option"
	"github.com/mfgs/mfgs/internal/text"
	"github.com/mfgs/mfgs/wrap/bundle"
)

// inUse is the class frequencies in use, where they are not those of the validation data.
type inUse struct {
	prior    []float64          // [C]; nil if they are the same
	examples *calibrate.Sampler // of validation data, as in use; nil for all
}

// correctForUse corrects the probabilities of a calibration and of ofVal, the calibration for validation data, for the
// class frequencies in use that a manifest has. It records those of the validation examples that tune in the manifest,
// which has them already if tuning is nil.
func correctForUse(
	m *bundle.Manifest, c, ofVal *calibrate.Calibration, tuning *rows.Batch,
) (u inUse, err error) {
	if c.Posterior.Head.MultiLabel() {
		return u, nil
	}
	of := *ofVal
	if m.HasPrior() && of.Method == calibrate.MLE { // which stays the network's own
		m.Probabilities.Method, of.Method = calibrate.TS, calibrate.TS
	}
	n := m.TuningExamples()
	if tuning != nil {
		n = tuning.N
		m.ClassFrequencies = calibrate.ClassFrequencies(measure.Outcomes(&of, tuning).Probabilities, tuning.Labels)
	}
	if u.prior, err = m.ResolvePrior(); err != nil || u.prior == nil {
		return u, err
	}
	u.examples = calibrate.NewSampler(u.prior, m.ClassFrequencies, n)
	for _, one := range []*calibrate.Calibration{c, ofVal} {
		one.Method, one.Prior = m.Probabilities.Method, calibrate.PriorRatios(u.prior, m.ClassFrequencies)
	}
	return u, nil
}

// priorPrefix begins warnings about class frequencies. An update that changes these drops them.
const priorPrefix = "prior: "

// check refuses class frequencies that leave hardly any of the validation examples. It warns if they leave few, and of
// classes in use that have no examples.
func (u inUse) check(data heldOut) (warnings []string, err error) {
	if u.prior == nil {
		return nil, nil
	}
	say := func(format string, args ...any) {
		warnings = append(warnings, fmt.Sprintf(priorPrefix+format, args...))
	}
	sample := u.examples.Of(data.tuning)
	const least, few = 10, 100
	if sample.N < least {
		return nil, fmt.Errorf("%s: %d of %d validation examples remain in a sample with these class frequencies, want at least %d: give more examples of the frequent classes", option.Prior, sample.N, data.tuning.N, least)
	}
	for _, of := range []struct {
		what       string
		all, drawn *rows.Batch
	}{{"figures are measured on", data.tuning, sample}, {"thresholds are set on", data.thresholds, u.examples.Of(data.thresholds)}} {
		if of.all != nil && of.drawn.N < few {
			say("%s a sample of the validation data with the class frequencies in use, of %d of %d examples", of.what, of.drawn.N, of.all.N)
		}
	}
	seen := make([]bool, len(u.prior))
	for _, b := range []*rows.Batch{sample, u.examples.Of(data.thresholds)} {
		if b != nil {
			for _, y := range b.Labels {
				seen[y] = true
			}
		}
	}
	missing, share, gone := 0, 0.0, 0
	for c, v := range u.prior {
		if !seen[c] {
			missing, share = missing+1, share+v
		}
		if v <= bundle.LeastPrior {
			gone++
		}
	}
	const much = 1e-3
	if share >= much {
		say("no example of %s that %.1f %% of the data in use belongs to is among these: figures and guarantees do not include them", text.Plural(missing, "class"), 100*share)
	}
	if gone > 0 {
		verb := "is"
		if gone > 1 {
			verb = "are"
		}
		say("%s %s taken to be absent in use", text.Plural(gone, "class"), verb)
	}
	return warnings, nil
}

// decide sets the thresholds of decisions for the class frequencies in use. Sets that hold for each class need no
// sample with these frequencies.
func (u inUse) decide(
	plan conformal.Plan, c *calibrate.Calibration, data heldOut,
) (d *conformal.Decisions, warning string, err error) {
	if u.prior == nil || data.thresholds == nil {
		return decide(plan, c, data.tuning, data.thresholds)
	}
	sample := heldOut{tuning: u.examples.Of(data.tuning), thresholds: u.examples.Of(data.thresholds)}
	whole := plan
	if plan.ClassConditional {
		plan.Alpha, plan.Sets, plan.ClassConditional = 0, "", false
	}
	d = new(conformal.Decisions)
	if plan != (conformal.Plan{}) {
		if d, warning, err = decide(plan, c, sample.tuning, sample.thresholds); err != nil {
			return nil, "", err
		}
	}
	if whole.ClassConditional {
		sets := conformal.Plan{Alpha: whole.Alpha, Sets: whole.Sets, ClassConditional: true}
		of, more, err := decide(sets, c, data.tuning, data.thresholds)
		if err != nil {
			return nil, "", err
		}
		if d.Set = of.Set; d.Examples == 0 {
			d.Examples = of.Examples
		}
		d.Plan, warning = whole, strings.TrimSpace(warning+more)
	}
	d.SetInUse()
	return d, warning, nil
}

// withoutPrior returns a bundle's warnings but those about class frequencies.
func withoutPrior(warnings []string) []string {
	return slices.DeleteFunc(slices.Clone(warnings), func(w string) bool { return strings.HasPrefix(w, priorPrefix) })
}
