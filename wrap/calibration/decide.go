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

// divide returns what of the held-out examples tunes, and what sets the thresholds of decisions: of each
// pair of neighbours one, drawn, so that neither half is of one kind where kinds alternate, as the writers of
// MNIST do. Where no decisions are wanted, all tune.
func divide(val *rows.Batch, plan conformal.Plan) (tune, held *rows.Batch) {
	if plan == (conformal.Plan{}) {
		return val, nil
	}
	var tunes, sets []int
	draw := rand.NewPCG(1, 1)
	for i := 0; i+1 < val.N; i += 2 {
		second := int(draw.Uint64() & 1)
		tunes, sets = append(tunes, i+second), append(sets, i+1-second)
	}
	if val.N%2 == 1 {
		tunes = append(tunes, val.N-1)
	}
	return val.Pick(tunes), val.Pick(sets)
}

// setting returns how many of n held-out examples set thresholds.
func setting(n int) int { return n / 2 }

func undecided(err error) error {
	return fmt.Errorf("held-out data, of which half sets thresholds and half tunes: %w", err)
}

// syntheticOf returns the stand-ins for examples that tune: of one that sets a threshold nothing is
// learned, by its stand-in neither.
func syntheticOf(tune, all *rows.Batch) *rows.Batch {
	if all == nil {
		return all
	}
	var wanted []int
	for i, position := range all.Positions {
		if _, tunes := slices.BinarySearch(tune.Positions, position); tunes {
			wanted = append(wanted, i)
		}
	}
	return all.Pick(wanted)
}

// decide sets the thresholds of decisions on held-out examples that nothing was tuned on, nil where no
// decisions are wanted. The warning, "" if there is none, is of sets that say nothing.
func decide(
	plan conformal.Plan, c *calibrate.Calibration, tune, held *rows.Batch,
) (d *conformal.Decisions, warning string, err error) {
	if held == nil {
		return nil, "", nil
	}
	x := measure.Outcomes(c, held)
	d, err = plan.Decide(measure.Outcomes(c, tune), x)
	if err != nil {
		return nil, "", undecided(err)
	}
	const much = 0.01
	t := conformal.NewTally(d)
	t.Add(x)
	if empty := t.Result().EmptySets; empty != nil && *empty > much && !d.MultiLabel {
		return d, fmt.Sprintf("%.1f %% of the held-out examples have an empty prediction set: the network errs less than alpha %v allows; a smaller alpha leaves fewer empty, and the sets aps none",
			100**empty, d.Alpha), nil
	}
	return d, "", nil
}
