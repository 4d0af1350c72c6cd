package wrap

import (
	"github.com/mfgs/mfgs/calibrate"
)

// What the tests need of the inside: they are in package wrap_test because they use package bench.

var OpenRead = open

// Formulas returns the formulas of PredictFeatures.
func (p *Predictor) Formulas() (*calibrate.Calibration, error) { return p.formulas() }

// HoldsPosterior reports whether the posterior is in memory.
func (p *Predictor) HoldsPosterior() bool { return p.bundle.Posterior.Leverage != nil }
