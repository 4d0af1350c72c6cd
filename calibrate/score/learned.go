package score

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/mfgs/mfgs/calibrate/metrics"
)

var learned = Score{
	Name:   "learned",
	Doc:    "several scores, weighted by a logistic regression",
	Source: "docs/methods.md",
	rows:   learnedOf[Rows],
	graph:  learnedOf[string],
	fitted: slices.Concat(ownTensors, react.fitted, fdbd.fitted),
	needs:  neededBy,
	fit: func(*Training) (Tensors, error) {
		return nil, fmt.Errorf("%w: it is learned from OOD data or synthetic OOD images, which were not given", ErrNoFit)
	},
}

// parts are the scores that are combined, in the order of the score's own tensors.
var parts = []Score{energy, studentized, react, fdbd, leverage}

const (
	partWeights = "part_weights" // not negative
	partMedians = "part_medians"
	partScales  = "part_scales"
)

var ownTensors = []TensorSpec{{partWeights, []string{"5"}}, {partMedians, []string{"5"}}, {partScales, []string{"5"}}}

// neededBy returns the score's own tensors and those of the parts with a weight.
func neededBy(t Tensors) []TensorSpec {
	own := slices.Clone(ownTensors)
	i := slices.IndexFunc(t, func(t Tensor) bool { return t.Name == partWeights })
	if i < 0 || len(t[i].Data) != len(parts) {
		return own // whose check fails
	}
	for j, p := range parts {
		if t[i].Data[j] != 0 {
			own = append(own, p.fitted...)
		}
	}
	return own
}

// learnedOf is Σ wⱼ f((sⱼ - mⱼ)/cⱼ) over the parts.
func learnedOf[V any](t Terms[V], fitted Tensors) V {
	formulas := []func(Terms[V], Tensors) V{energyOf[V], studentizedOf[V], reactOf[V], fdbdOf[V], leverageOf[V]}
	weights, medians, scales := fitted.Of(partWeights).Data, fitted.Of(partMedians).Data, fitted.Of(partScales).Data
	sum := t.Number(0)
	for j, formula := range formulas {
		if weights[j] != 0 {
			z := t.Div(t.Sub(formula(t, fitted), t.Number(medians[j])), t.Number(scales[j]))
			sum = t.Add(sum, t.Mul(t.Number(weights[j]), compressed(t, z)))
		}
	}
	return sum
}

// bend is where f(z) begins to differ from z.
const bend = 4

// compressed is f(z) = 4 asinh(z/4): z near zero, and logarithmic far from it.
func compressed[V any](t Terms[V], z V) V {
	one := t.Number(1)
	x := t.Abs(t.Mul(z, t.Number(1./bend)))
	square := t.Mul(x, x)
	// asinh x = log(1 + x + x²/(1+√(1+x²))), precise for small x.
	size := t.Log1p(t.Add(x, t.Div(square, t.Add(one, t.Sqrt(t.Add(one, square))))))
	sign := t.Sub(t.Mul(t.Number(2), t.Greater(z, t.Number(0))), one)
	return t.Mul(t.Mul(sign, size), t.Number(bend))
}

// Learn fits the score "learned" to in- and out-of-distribution examples: see docs/methods.md. Parts that cannot be
// fitted to the training data, which may be nil, are left out, and so are examples with a score that is not finite.
// An error that is [ErrNoFit] says that no part separates the examples.
func Learn(training *Training, in, out Examples) (*Fitted, error) {
	weights, medians, scales := make([]float64, len(parts)), make([]float64, len(parts)), make([]float64, len(parts))
	var of [2][][]float64 // f(z) of the in- and the out-of-distribution examples, by fitted part
	var which []int       // the fitted parts
	var theirs Tensors
	for j := range parts {
		scales[j] = 1
		p := parts[j]
		if p.NeedsFitting() && training == nil {
			continue
		}
		fitted, err := p.Fit(training)
		if errors.Is(err, ErrNoFit) {
			continue
		}
		if err != nil {
			return nil, err
		}
		values := fitted.Values(in)
		medians[j], scales[j] = centre(values)
		for i, x := range [][]float64{values, fitted.Values(out)} {
			for n, v := range x {
				x[n] = bend * math.Asinh((v-medians[j])/scales[j]/bend)
			}
			of[i] = append(of[i], x)
		}
		which, theirs = append(which, j), append(theirs, fitted.Tensors...)
	}
	w, err := regress(finiteRows(of[0], in.N), finiteRows(of[1], out.N), len(which))
	if err != nil {
		return nil, fmt.Errorf("score %s: %w: %w", learned.Name, ErrNoFit, err)
	}
	for i, j := range which {
		weights[j] = w[i]
	}
	tensors := Tensors{{partWeights, []int{len(parts)}, weights}, {partMedians, []int{len(parts)}, medians},
		{partScales, []int{len(parts)}, scales}}
	for _, l := range neededBy(tensors)[len(tensors):] {
		tensors = append(tensors, theirs.Of(l.Name))
	}
	return learned.With(in.K, in.D, tensors)
}

// centre returns the median of the finite values, and half their interquartile range, or 1 if that is 0 or infinite.
func centre(values []float64) (median, scale float64) {
	finite := slices.DeleteFunc(slices.Clone(values), func(v float64) bool { return v-v != 0 })
	if len(finite) == 0 {
		return 0, 1
	}
	slices.Sort(finite)
	median, scale = metrics.Quantile(finite, 0.5), halfRange(finite)
	if !(scale > 0) || scale-scale != 0 {
		scale = 1
	}
	return median, scale
}

// halfRange is half the interquartile range of sorted values.
func halfRange(x []float64) float64 {
	return (metrics.Quantile(x, 0.75) - metrics.Quantile(x, 0.25)) / 2
}

// finiteRows turns columns of n numbers into rows, and leaves out rows that are not finite.
func finiteRows(columns [][]float64, n int) (rows [][]float64) {
	for i := range n {
		row := make([]float64, len(columns))
		sum := 0.0
		for j, c := range columns {
			row[j] = c[i]
			sum += c[i] - c[i]
		}
		if sum == 0 {
			rows = append(rows, row)
		}
	}
	return rows
}
