package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/internal/measure"
)

// Validation examples, and unlabelled examples to estimate class frequencies from.
const frequencyVal = 1000

var unlabelledSizes = []int{100, 1000}

// A correction is NLLs on test examples with other class frequencies than the validation data: without correction,
// with the frequencies given, and with them estimated from so many unlabelled examples, 0 for too few.
type correction struct {
	network            string
	changed            bool // else the frequencies are those of the validation data
	val                int
	uncorrected, given float64
	estimated          [2]float64 // by unlabelledSizes
	estimable          [2]bool
}

// correct measures corrections for drawn class frequencies, and for those of the validation data.
func correct(ctx context.Context, curvature *calibrate.Curvature, pool *rows.Batch, draw int) ([]correction, error) {
	rng := rand.New(rand.NewPCG(uint64(draw), 11))
	order := rng.Perm(pool.N)
	n := min(frequencyVal, pool.N/3)
	val, rest := pool.Pick(order[:n]), order[n:]
	fit, err := calibrate.Fit(ctx, curvature, val, nil, calibrate.FitOptions{})
	if err != nil {
		return nil, err
	}
	c := &fit.Calibration
	if c.Method == calibrate.MLE {
		c.Method = calibrate.TS
	}
	f := calibrate.ClassFrequencies(measure.Outcomes(c, val).Probabilities, val.Labels)
	var all []correction
	for _, changed := range []bool{true, false} {
		use := f
		unlabelled, test := pool.Pick(rest[:len(rest)/2]), pool.Pick(rest[len(rest)/2:])
		if changed {
			use = drawFrequencies(rng, f, val.Labels)
			inUse := calibrate.NewSampler(use, f, val.N)
			unlabelled, test = inUse.Of(unlabelled), inUse.Of(test)
		}
		one := correction{changed: changed, val: n, uncorrected: nll(c, c.Method, test)}
		corrected := *c
		corrected.Prior = calibrate.PriorRatios(use, f)
		one.given = nll(&corrected, c.Method, test)
		for i, size := range unlabelledSizes {
			if size > unlabelled.N {
				continue
			}
			e, err := calibrate.EstimatePrior(ctx, c, unlabelled.Slice(0, size), f, val.N)
			if err != nil {
				return nil, err
			}
			if corrected.Prior = nil; e.Significant {
				corrected.Prior = calibrate.PriorRatios(e.Frequencies, f)
			}
			one.estimated[i], one.estimable[i] = nll(&corrected, c.Method, test), true
		}
		all = append(all, one)
	}
	return all, nil
}

// drawFrequencies draws frequencies of the classes that have labels uniformly from all possible ones. The others keep
// theirs.
func drawFrequencies(rng *rand.Rand, f []float64, labels []int) []float64 {
	use, seen := make([]float64, len(f)), make([]bool, len(f))
	for _, y := range labels {
		seen[y] = true
	}
	drawn, total := 0.0, 0.0
	for c := range use {
		if seen[c] {
			use[c] = rng.ExpFloat64() // normalised, a Dirichlet distribution with all parameters 1
			drawn, total = drawn+use[c], total+f[c]
		}
	}
	for c := range use {
		if use[c] *= total / drawn; !seen[c] {
			use[c] = f[c]
		}
	}
	return use
}

// corrections writes the table of corrections.
func corrections(w io.Writer, networks []string, all []correction) {
	fmt.Fprintln(w, "| network | validation examples | not corrected | frequencies given | estimated from 100 | estimated from 1,000 | unchanged frequencies: change by 100, mean and worst | by 1,000 |")
	fmt.Fprintln(w, "|---|---|---|---|---|---|---|---|")
	for _, n := range networks {
		var sum correction
		var draws, of [2]float64
		var change, worst, unchanged [2]float64
		for _, x := range all {
			if x.network != n {
				continue
			}
			if x.changed {
				sum.val = x.val
				sum.uncorrected, sum.given, draws[0] = sum.uncorrected+x.uncorrected, sum.given+x.given, draws[0]+1
			}
			for i, estimable := range x.estimable {
				switch {
				case !estimable:
				case x.changed:
					sum.estimated[i], of[i] = sum.estimated[i]+x.estimated[i], of[i]+1
				default:
					d := x.estimated[i] - x.uncorrected
					change[i], worst[i], unchanged[i] = change[i]+d, max(worst[i], d), unchanged[i]+1
				}
			}
		}
		fmt.Fprintf(w, "| %s | %d | %.3f | %.3f |", n, sum.val, sum.uncorrected/draws[0], sum.given/draws[0])
		for i := range of {
			if of[i] < draws[0] {
				fmt.Fprint(w, " – |")
			} else {
				fmt.Fprintf(w, " %.3f |", sum.estimated[i]/of[i])
			}
		}
		for i := range unchanged {
			if unchanged[i] < draws[0] {
				fmt.Fprint(w, " – |")
			} else {
				fmt.Fprintf(w, " %.4f, %.4f |", rounded(change[i]/unchanged[i]), worst[i])
			}
		}
		fmt.Fprintln(w)
	}
}

// rounded returns zero for what would be printed as zero with a sign.
func rounded(x float64) float64 {
	if math.Abs(x) < 5e-5 {
		return 0
	}
	return x
}
