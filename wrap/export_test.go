package wrap

import (
	"github.com/mfgs/mfgs/calibrate"
)

// What the tests of this package reach inside: they are of package wrap_test, since they evaluate
// with package bench.

var OpenRead = open

// Formulas are those that PredictFeatures computes with.
func (p *Predictor) Formulas() (*calibrate.Calibration, error) { return p.formulas() }

// HoldsPosterior reports whether the posterior takes a place in memory.
func (p *Predictor) HoldsPosterior() bool { return p.bundle.Posterior != nil }
