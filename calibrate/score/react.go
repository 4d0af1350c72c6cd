package score

import (
	"slices"

	"github.com/mfgs/mfgs/calibrate/metrics"
)

// reactPercentile is the paper's: the fraction of all activations that is not clipped.
const reactPercentile = 0.9

var react = Score{
	Name: "react", Doc: "energy, features cut at their 90th percentile",
	Source: "Sun, Guo, Li 2021 (ReAct), with p = 90",
	rows:   reactOf[Rows], graph: reactOf[string],
	fitted: append([]TensorSpec{{"threshold", []string{"1"}}}, lastLayer...),
	fit:    fitReact,
}

// reactOf is the energy of W min(φ, c) + b, and NaN if a feature is infinite, which clipping would hide.
func reactOf[V any](t Terms[V], fitted Tensors) V {
	phi := t.Features()
	clipped := t.MinOf(phi, constant(t, fitted, "threshold"))
	return t.Add(energyFrom(t, throughLayer(t, fitted, clipped)), t.Sum(t.Mul(phi, t.Number(0))))
}

// fitReact computes the percentile of all features of the sample.
func fitReact(t *Training) (Tensors, error) {
	if t.Sample.M == 0 {
		return nil, errNoSample
	}
	layer, err := t.layer()
	if err != nil {
		return nil, err
	}
	c := make([]float64, 0, len(t.Sample.Features))
	for _, v := range t.Sample.Features {
		c = append(c, float64(v))
	}
	slices.Sort(c)
	return append(Tensors{{"threshold", []int{1}, []float64{metrics.Quantile(c, reactPercentile)}}}, layer...), nil
}
