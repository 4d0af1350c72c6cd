package calibration

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/conformal"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/internal/measure"
)

// heldOut is the validation data, divided by split, and the OOD data, which may be nil.
type heldOut struct{ all, tuning, thresholds, ood *rows.Batch }

// split divides the validation examples into those to tune on and those to set thresholds of decisions on. Of each
// pair of neighbours it draws one, so that neither half has only one kind if kinds alternate, as the writers of
// MNIST's digits do. Without decisions all tune, and thresholds is nil.
func split(val *rows.Batch, plan conformal.Plan) (tuning, thresholds *rows.Batch) {
	if plan == (conformal.Plan{}) {
		return val, nil
	}
	var first, second []int
	draw := rand.NewPCG(1, 1)
	for i := 0; i+1 < val.N; i += 2 {
		drawn := int(draw.Uint64() & 1)
		first, second = append(first, i+drawn), append(second, i+1-drawn)
	}
	if val.N%2 == 1 {
		first = append(first, val.N-1)
	}
	return val.Pick(first), val.Pick(second)
}

// thresholdExamples returns how many of n validation examples set thresholds.
func thresholdExamples(n int) int { return n / 2 }

func decisionError(err error) error {
	return fmt.Errorf("validation data, half for thresholds and half for tuning: %w", err)
}

// syntheticOf returns the synthetic examples made from those that tune. An example that sets a threshold must not be
// learned from, nor must the one made from it.
func syntheticOf(tuning, synthetic *rows.Batch) *rows.Batch {
	if synthetic == nil {
		return nil
	}
	var wanted []int
	for i, position := range synthetic.Positions {
		if _, found := slices.BinarySearch(tuning.Positions, position); found {
			wanted = append(wanted, i)
		}
	}
	return synthetic.Pick(wanted)
}

// decide sets the thresholds of decisions on examples that nothing was tuned on. It returns nil without such
// examples, and a warning, or "", if many prediction sets are empty.
func decide(
	plan conformal.Plan, c *calibrate.Calibration, tuning, thresholds *rows.Batch,
) (d *conformal.Decisions, warning string, err error) {
	if thresholds == nil {
		return nil, "", nil
	}
	x := measure.Outcomes(c, thresholds)
	d, err = plan.Decide(measure.Outcomes(c, tuning), x)
	if err != nil {
		return nil, "", decisionError(err)
	}
	const much = 0.01
	t := conformal.NewTally(d)
	t.Add(x)
	if empty := t.Result().EmptySets; empty != nil && *empty > much && !d.MultiLabel {
		return d, fmt.Sprintf("%.1f %% of the validation examples have an empty prediction set, since the network makes fewer errors than alpha %v allows: use a smaller alpha, or the sets aps, which are never empty",
			100**empty, d.Alpha), nil
	}
	return d, "", nil
}
