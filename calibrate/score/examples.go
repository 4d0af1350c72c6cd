package score

import (
	"fmt"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/internal/parallel"
)

// Examples are the outputs of a calibration for N examples with K logits and d features, row-major.
type Examples struct {
	N, K, D int
	Link    layer.Link
	// Nonlinear says that there is no last layer, see [layer.Head], and so no variance and leverage.
	Nonlinear bool
	// Correctness says that the classes are whether the model's answer is right, see [layer.Head].
	Correctness bool
	Features    []float32        // [N,d]
	Logits      []float32        // [N,K]
	Variance    []float64        // [N,K]
	Leverage    []float64        // [N]
	Margin      []float64        // [N], for scores that need it
	Product     parallel.Product // if nil, or if it fails, Go's own
}

// check panics if sizes do not fit. Margins may be left out unless needed.
func (x Examples) check(margin bool) {
	n := x.N
	forms := n
	if x.Nonlinear {
		forms = 0
	}
	if len(x.Features) != n*x.D || len(x.Logits) != n*x.K || len(x.Variance) != forms*x.K || len(x.Leverage) != forms ||
		margin && len(x.Margin) != n {
		panic(fmt.Sprintf("score: %d features, %d logits, %d variances, %d leverages and %d margins for %d examples of %d features and %d logits",
			len(x.Features), len(x.Logits), len(x.Variance), len(x.Leverage), len(x.Margin), n, x.D, x.K))
	}
}

// subsample returns at most n of the examples, which may be nil, evenly spaced: folders come class by class.
func (x *Examples) subsample(n int) *Examples {
	if x == nil || x.N <= n {
		return x
	}
	some := &Examples{K: x.K, D: x.D, Link: x.Link, Nonlinear: x.Nonlinear, Correctness: x.Correctness,
		Product: x.Product}
	for _, i := range rows.Firsts(x.N, n) {
		some.add(x.slice(i, i+1))
	}
	return some
}

func (x *Examples) add(more Examples) {
	x.N += more.N
	x.Features, x.Logits = append(x.Features, more.Features...), append(x.Logits, more.Logits...)
	x.Variance, x.Leverage = append(x.Variance, more.Variance...), append(x.Leverage, more.Leverage...)
	x.Margin = append(x.Margin, more.Margin...)
}

// slice returns the examples [from,to).
func (x Examples) slice(from, to int) Examples {
	some := x
	some.N = to - from
	some.Features, some.Logits = x.Features[from*x.D:to*x.D], x.Logits[from*x.K:to*x.K]
	if !x.Nonlinear {
		some.Variance, some.Leverage = x.Variance[from*x.K:to*x.K], x.Leverage[from:to]
	}
	if x.Margin != nil {
		some.Margin = x.Margin[from:to]
	}
	return some
}
