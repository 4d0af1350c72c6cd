package metrics

import (
	"context"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
)

// Measured is figures of one method that can be taken of resampled examples, see [Resample].
type Measured struct {
	names []string // of the figures, as in JSON
	// figures computes them. weights say how often each example of each sample was drawn.
	figures func(weights [][]int32, into []float64)
	// biased are the figures that chance makes larger, and squares those among them that are
	// computed as squares, which may be negative.
	biased, squares []string
}

// Probabilities are the figures of [InDomain], [Reliability] but for the class-wise one, and
// [Selective], of the examples added so far; sample is their place in the sizes of Resample.
func (c *Classifier) Probabilities(sample int) *Measured {
	kept, each, bins := c.kept, float64(c.each), len(c.bins)
	n := float64(len(kept.wrong))
	ranked := newRanked(kept.doubt)
	nll, infinite := withoutInfinite(kept.nll)
	figures := func(weights [][]int32, into []float64) {
		w := weights[sample]
		var sums [3]float64
		filled := make([]bin, bins)
		start := 0
		for i, w := range w {
			w := float64(w)
			sums[0] += w * kept.wrong[i]
			sums[1] += w * nll[i]
			sums[2] += w * kept.brier[i]
			for _, c := range kept.cells[start:kept.ends[i]] {
				b := &filled[c.of]
				b.n += w * c.n
				b.confidence += w * c.confidence
				b.right += w * c.right
			}
			start = kept.ends[i]
		}
		sums[1] += infinite.sum(w)
		area, risks := ranked.selective(kept.wrong, w)
		copy(into, []float64{
			sums[0] / n, sums[1] / n, ece(filled, n*each), debiased(filled, n*each), sums[2] / n,
			area, risks[0], risks[1], risks[2],
		})
	}
	names := []string{"error", "nll", "ece", "debiased_ce", "brier", "aurc", "risk80", "risk90", "risk95"}
	return &Measured{names, figures, []string{"ece", "debiased_ce"}, []string{"debiased_ce"}}
}

// NLL is that of [Classifier.Probabilities] alone, in less time.
func (c *Classifier) NLL(sample int) *Measured {
	nll, infinite := withoutInfinite(c.kept.nll)
	figures := func(weights [][]int32, into []float64) {
		w := weights[sample]
		var sum float64
		for i, w := range w {
			sum += float64(w) * nll[i]
		}
		into[0] = (sum + infinite.sum(w)) / float64(len(nll))
	}
	return &Measured{names: []string{"nll"}, figures: figures}
}

// infinite are examples whose value is infinite, of which no multiple is 0.
type infinite []int

// withoutInfinite returns values with 0 in the place of what is infinite.
func withoutInfinite(x []float64) ([]float64, infinite) {
	x = slices.Clone(x)
	var of infinite
	for i, v := range x {
		if math.IsInf(v, 1) {
			of = append(of, i)
			x[i] = 0
		}
	}
	return x, of
}

// sum is that of the values which are infinite, of examples that were drawn so often.
func (of infinite) sum(weights []int32) float64 {
	for _, i := range of {
		if weights[i] > 0 {
			return math.Inf(1)
		}
	}
	return 0
}

// Detection is the figures of [Detect]; inSample and outSample are the places of the scores in the
// sizes of Resample, which are theirs. The error is that of Detect.
func Detection(in, out []float64, inSample, outSample int) (*Measured, error) {
	d, err := newDetector(in, out)
	if err != nil {
		return nil, err
	}
	figures := func(weights [][]int32, into []float64) {
		o := d.measure(slices.Concat(weights[inSample], weights[outSample]))
		copy(into, []float64{o.Accuracy, o.AUROC, o.AUPRIn, o.AUPROut, o.FPR95})
	}
	return &Measured{names: []string{"accuracy", "auroc", "aupr_in", "aupr_out", "fpr95"}, figures: figures}, nil
}

// DetectionAUROC is the AUROC of [Detection] alone, in less time.
func DetectionAUROC(in, out []float64, inSample, outSample int) (*Measured, error) {
	order, err := rank(in, out)
	if err != nil {
		return nil, err
	}
	figures := func(weights [][]int32, into []float64) {
		w := slices.Concat(weights[inSample], weights[outSample])
		var g group
		var wins int64
		for _, p := range order {
			n := int(w[p.at])
			outside := n & -int(p.out)
			g.tiedOut += outside
			g.tiedIn += n - outside
			if p.last {
				wins += g.wins(len(out))
				g = group{in: g.in + g.tiedIn, out: g.out + g.tiedOut}
			}
		}
		into[0] = auroc(wins, len(in), len(out))
	}
	return &Measured{names: []string{"auroc"}, figures: figures}, nil
}

// Series is a figure as measured, and its values on resamples of the examples.
type Series struct {
	Value float64
	Draws []float64
}

// Resample draws examples with replacement, as often as o says, and takes the figures of all
// methods of the same draws, so that the figures of two methods can be compared draw by draw. sizes
// hold the number of examples of each independent sample: what is drawn of one says nothing of
// another. The result has for each of the measured, by name, its figures.
//
// Draws of the ECE and of the debiased error are moved so that their mean is the figure, the latter
// as squares: resampling adds once more what chance adds to them.
//
// It panics if a size is below 1 or an option out of range. The error is that of the context.
func Resample(
	ctx context.Context, sizes []int, measured []*Measured, o BootstrapOptions,
) ([]map[string]Series, error) {
	o = o.checked(sizes)
	width := 0
	for _, m := range measured {
		width += len(m.names)
	}
	weights := make([][]int32, len(sizes))
	for i, n := range sizes {
		weights[i] = slices.Repeat([]int32{1}, n)
	}
	values := make([]float64, width)
	all := func(weights [][]int32, values []float64) {
		for _, m := range measured {
			m.figures(weights, values)
			values = values[len(m.names):]
		}
	}
	all(weights, values)

	draws := make([][]float64, o.Resamples)
	parallel(o.Resamples, func() func(int) {
		weights := make([][]int32, len(sizes))
		for i, n := range sizes {
			weights[i] = make([]int32, n)
		}
		return func(r int) {
			if ctx.Err() != nil {
				return
			}
			rng := rand.New(rand.NewPCG(o.Seed, uint64(r)))
			for _, w := range weights {
				clear(w)
				for range w {
					w[rng.IntN(len(w))]++
				}
			}
			draws[r] = make([]float64, width)
			all(weights, draws[r])
		}
	})

	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	results := make([]map[string]Series, len(measured))
	column := 0
	for i, m := range measured {
		results[i] = map[string]Series{}
		for _, name := range m.names {
			s := Series{values[column], make([]float64, o.Resamples)}
			for r := range draws {
				s.Draws[r] = draws[r][column]
			}
			if slices.Contains(m.biased, name) {
				s.centre()
			}
			if slices.Contains(m.squares, name) {
				s.Value = root(s.Value)
				for r, v := range s.Draws {
					s.Draws[r] = root(v)
				}
			}
			results[i][name] = s
			column++
		}
	}
	return results, nil
}

// parallel calls do for 0 … n-1, on all processors. worker makes do for one of them.
func parallel(n int, worker func() (do func(int))) {
	var wg sync.WaitGroup
	var next atomic.Int64
	for range min(n, runtime.GOMAXPROCS(0)) {
		wg.Go(func() {
			do := worker()
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				do(i)
			}
		})
	}
	wg.Wait()
}

// centre moves the draws so that their mean is the value.
func (s Series) centre() {
	var bias float64
	for _, v := range s.Draws {
		bias += (v - s.Value) / float64(len(s.Draws))
	}
	for i := range s.Draws {
		s.Draws[i] -= bias
	}
}

// Minus is the difference to another figure of the same draws.
func (s Series) Minus(t Series) Series {
	d := Series{s.Value - t.Value, make([]float64, len(s.Draws))}
	for i := range d.Draws {
		d.Draws[i] = s.Draws[i] - t.Draws[i]
	}
	return d
}

// Interval returns the percentile interval of a level of confidence in (0,1) (Efron and Tibshirani,
// "An Introduction to the Bootstrap", 1993, section 13.3), with quantiles that are interpolated
// linearly between order statistics. It is false where draws can tell none: one has no value, as the
// difference of two infinities, or all are the same, as the error where no example is wrong.
func (s Series) Interval(level float64) (Interval, bool) {
	draws := slices.Sorted(slices.Values(s.Draws))
	if len(draws) == 0 || math.IsNaN(draws[0]) || draws[0] == draws[len(draws)-1] {
		return Interval{}, false
	}
	tail := (1 - level) / 2
	return Interval{quantile(draws, tail), quantile(draws, 1-tail)}, true
}
