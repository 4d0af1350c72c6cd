package wrap

import (
	"context"
	"testing"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/rows"
)

// What the tests of this package reach inside: they are of package wrap_test, since they evaluate
// with package bench.

var OpenRead = open

// Formulas are those that PredictFeatures computes with.
func (p *Predictor) Formulas() (*calibrate.Calibration, error) { return p.formulas() }

// HoldsPosterior reports whether the posterior takes a place in memory.
func (p *Predictor) HoldsPosterior() bool { return p.bundle.Posterior != nil }

// An OwnOutput is one of a model's own outputs for some examples.
type OwnOutput struct {
	Name    string
	Integer bool
	Values  []float32
}

// OwnValues returns the logits of the first training examples, and what the model itself makes of
// them.
func OwnValues(t testing.TB, cfg Config) (logits []float32, outputs []OwnOutput) {
	c := openCalibration(t, cfg)
	logits, owns, err := c.own(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range owns {
		outputs = append(outputs, OwnOutput{o.Name, o.Integer, o.values})
	}
	return logits, outputs
}

// HeldOut opens the sets of a calibration and reads the validation set.
func HeldOutSet(t testing.TB, cfg Config) (warnings []string, set *rows.Batch, n int) {
	c := openCalibration(t, cfg)
	set, _, err := c.sets[1].Collect(t.Context(), c.head, &c.notes)
	if err != nil {
		t.Fatal(err)
	}
	return c.report.Warnings, set, set.N
}

// Accumulation returns what makes one pass over the training set.
func Accumulation(t testing.TB, cfg Config) func(context.Context) error {
	c := openCalibration(t, cfg)
	return func(ctx context.Context) error {
		var err error
		c.sums, err = calibrate.NewSums(calibrate.CurvatureConfig{Head: c.head, Structure: c.Structure, Product: c.matrixProduct()})
		if err == nil {
			err = c.accumulate(ctx)
		}
		return err
	}
}

func openCalibration(t testing.TB, cfg Config) *calibration {
	c := &calibration{Config: cfg, report: Report{Seconds: map[string]float64{}}}
	t.Cleanup(c.close)
	if err := c.check(); err != nil {
		t.Fatal(err)
	}
	if err := c.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}
