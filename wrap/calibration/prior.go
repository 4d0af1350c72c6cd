package calibration

import (
	"fmt"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/internal/measure"
	"github.com/mfgs/mfgs/internal/option"
	"github.com/mfgs/mfgs/wrap/bundle"
)

// prior is the frequencies of the classes in use, [C]; nil if they are those of the validation data.
type prior []float64

// priorOf returns the prior that a manifest's settings ask for. It records the class frequencies of the validation
// data val in the manifest, which has them already if val is nil, and corrects the probabilities of a calibration and
// of ofVal, the calibration for val.
func priorOf(m *bundle.Manifest, c, ofVal *calibrate.Calibration, val *rows.Batch) (prior, error) {
	if c.Posterior.Head.MultiLabel() {
		return nil, nil
	}
	if val != nil {
		m.ClassFrequencies = calibrate.ClassFrequencies(measure.Outcomes(ofVal, val).Probabilities, val.N)
	}
	p, err := m.ResolvePrior()
	if err != nil || p == nil {
		return nil, err
	}
	if m.Probabilities.Method == calibrate.MLE { // which stays the network's own
		m.Probabilities.Method = calibrate.TS
	}
	for _, one := range []*calibrate.Calibration{c, ofVal} {
		one.Method, one.Prior = m.Probabilities.Method, calibrate.PriorRatios(p, m.ClassFrequencies)
	}
	return p, nil
}

// sample returns the validation examples of a sample of the data in use: some of them, or all without a prior.
func (p prior) sample(val *rows.Batch) *rows.Batch {
	if p == nil || val == nil {
		return val
	}
	return val.Pick(calibrate.Thin(val.Labels, p))
}

// check refuses a prior that leaves hardly any of the validation examples, and warns if it leaves few, or has classes
// without any.
func (p prior) check(val *rows.Batch) (warnings []string, err error) {
	if p == nil {
		return nil, nil
	}
	n := p.sample(val).N
	const least, few = 10, 100
	switch {
	case n < least:
		return nil, fmt.Errorf("%s: %d of %d validation examples remain in a sample with these class frequencies, want at least %d: give more examples of the frequent classes", option.Prior, n, val.N, least)
	case n < few:
		warnings = append(warnings, fmt.Sprintf("val: figures and thresholds are for class frequencies in use, at which only %d of %d examples remain", n, val.N))
	}
	seen := make([]bool, len(p))
	for _, y := range val.Labels {
		seen[y] = true
	}
	absent, share := 0, 0.0
	for c, v := range p {
		if !seen[c] {
			absent, share = absent+1, share+v
		}
	}
	const much = 0.01
	if share >= much {
		warnings = append(warnings, fmt.Sprintf("val: %d classes that make up %.0f %% of the data in use have no examples: figures and guarantees do not include them", absent, 100*share))
	}
	return warnings, nil
}
