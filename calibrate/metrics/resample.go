package metrics

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
)

// Statistics are figures of one method as functions of the resampled examples, see [Resample].
type Statistics struct {
	columns []column
	// figures computes them. weights are how often each example of each sample was drawn.
	figures func(weights [][]int32, into []float64)
}

// column is one of the Statistics; see [LabelledFigure].
type column struct {
	key             string
	biased, squared bool
}

// Probabilities returns the figures of the examples added so far to be resampled: those of [LabelledFigures] with
// these keys, all if there are none. sample is the place of the examples in the sizes of Resample.
func (c *Classifier) Probabilities(sample int, keys ...string) *Statistics {
	m := &Statistics{}
	var list []LabelledFigure
	for _, f := range LabelledFigures {
		resampled := f.mean != nil || f.binned != nil || f.ranked
		if resampled && (len(keys) == 0 || slices.Contains(keys, f.Key)) {
			list, m.columns = append(list, f), append(m.columns, column{f.Key, f.biased, f.squared})
		}
	}
	of := newWeighted(c, list)
	m.figures = func(weights [][]int32, into []float64) { of.measure(weights[sample], into) }
	return m
}

// weighted computes figures of weighted examples.
type weighted struct {
	list      []LabelledFigure
	kept      *exampleStats
	decisions float64
	means     [][]float64 // by figure; nil for those that are not means
	infinite  []infinite
	bins      int     // 0 if no figure needs them
	ranked    *ranked // nil if no figure needs it
}

func newWeighted(c *Classifier, list []LabelledFigure) *weighted {
	r := &weighted{
		list: list, kept: &c.kept, decisions: float64(len(c.kept.wrong)) * float64(c.each),
		means: make([][]float64, len(list)), infinite: make([]infinite, len(list)),
	}
	for i, f := range list {
		switch {
		case f.mean != nil:
			r.means[i], r.infinite[i] = splitInfinite(f.mean(r.kept))
		case f.binned != nil:
			r.bins = len(c.bins)
		case r.ranked == nil:
			r.ranked = newRanked(r.kept.uncertainty)
		}
	}
	return r
}

func (r *weighted) measure(w []int32, into []float64) {
	filled := make([]bin, r.bins)
	if r.bins > 0 {
		r.fill(filled, w)
	}
	var curve Labelled
	if r.ranked != nil {
		curve.Selective = r.ranked.selective(r.kept.wrong, w)
	}
	for i, f := range r.list {
		switch {
		case f.mean != nil:
			var sum float64
			for j, v := range r.means[i] {
				sum += float64(w[j]) * v
			}
			into[i] = (sum + r.infinite[i].sum(w)) / float64(len(r.means[i]))
		case f.binned != nil:
			into[i] = f.binned(filled, r.decisions)
		default:
			into[i] = f.Of(&curve)
		}
	}
}

// fill adds up the bins of the ECE.
func (r *weighted) fill(filled []bin, w []int32) {
	start := 0
	for i, w := range w {
		w := float64(w)
		for _, c := range r.kept.cells[start:r.kept.ends[i]] {
			b := &filled[c.of]
			b.n += w * c.n
			b.confidence += w * c.confidence
			b.right += w * c.right
		}
		start = r.kept.ends[i]
	}
}

// infinite are examples whose value is infinite: times a weight of 0 it would be NaN.
type infinite []int

// splitInfinite replaces infinite values by 0, and returns where they were.
func splitInfinite(x []float64) ([]float64, infinite) {
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

// sum is the weighted sum of the infinite values.
func (of infinite) sum(weights []int32) float64 {
	for _, i := range of {
		if weights[i] > 0 {
			return math.Inf(1)
		}
	}
	return 0
}

// Detection returns the figures of [Detect] to be resampled: those of [DetectionFigures] with these keys, all if
// there are none. inSample and outSample are the places of the two samples of scores in the sizes of Resample.
// The error is that of Detect.
func Detection(in, out []float64, inSample, outSample int, keys ...string) (*Statistics, error) {
	d, err := newDetector(in, out)
	if err != nil {
		return nil, err
	}
	m := &Statistics{}
	var list []DetectionFigure
	for _, f := range DetectionFigures {
		if len(keys) == 0 || slices.Contains(keys, f.Key) {
			list, m.columns = append(list, f), append(m.columns, column{key: f.Key})
		}
	}
	aurocOnly := len(list) == 1 && list[0].Key == "auroc" // which takes a fraction of the time
	m.figures = func(weights [][]int32, into []float64) {
		o := d.measure(slices.Concat(weights[inSample], weights[outSample]), aurocOnly)
		for i, f := range list {
			into[i] = f.Of(&o)
		}
	}
	return m, nil
}

// ResampleOptions says how [Resample] draws. The zero value asks for 1000 resamples and seed 0.
type ResampleOptions struct {
	Resamples int    // 0: 1000
	Seed      uint64 // the same seed draws the same examples on every machine

	// Progress, unless nil, is called with the number of resamples that are done, by one goroutine at a time.
	Progress func(done, total int)
}

// Resample draws examples with replacement and computes the figures of all methods on the same draws, so that
// two methods can be compared draw by draw. sizes holds the number of examples of each independent sample: one
// for probabilities, two for a score, whose in- and out-of-distribution examples are drawn apart. The result
// has, for each of the measured, its figures by name.
//
// Draws of the ECE and of the debiased error are shifted so that their mean is the figure, the latter as
// squares: resampling adds the bias of chance a second time.
//
// It panics if a size is below 1 or the number of resamples negative. The error is that of the context.
func Resample(
	ctx context.Context, sizes []int, measured []*Statistics, o ResampleOptions,
) ([]map[string]Series, error) {
	o.Resamples = cmp.Or(o.Resamples, 1000)
	if o.Resamples < 0 || len(sizes) == 0 || slices.Min(sizes) < 1 {
		panic(fmt.Sprintf("metrics: %d resamples of samples of %v examples", o.Resamples, sizes))
	}
	width := 0
	for _, m := range measured {
		width += len(m.columns)
	}
	weights := make([][]int32, len(sizes))
	for i, n := range sizes {
		weights[i] = slices.Repeat([]int32{1}, n)
	}
	values := make([]float64, width)
	all := func(weights [][]int32, values []float64) {
		for _, m := range measured {
			m.figures(weights, values)
			values = values[len(m.columns):]
		}
	}
	all(weights, values)

	draws := make([][]float64, o.Resamples)
	step := o.counter()
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
			step()
		}
	})

	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	return series(measured, values, draws), nil
}

// series gives the figures and their draws, a column each, the names of the measured.
func series(measured []*Statistics, values []float64, draws [][]float64) []map[string]Series {
	results := make([]map[string]Series, len(measured))
	column := 0
	for i, m := range measured {
		results[i] = map[string]Series{}
		for _, of := range m.columns {
			s := Series{values[column], make([]float64, len(draws))}
			for r := range draws {
				s.Draws[r] = draws[r][column]
			}
			if of.biased {
				s.centre()
			}
			if of.squared {
				s.Value = root(s.Value)
				for r, v := range s.Draws {
					s.Draws[r] = root(v)
				}
			}
			results[i][of.key] = s
			column++
		}
	}
	return results
}

// counter returns a function that reports one more resample to Progress.
func (o *ResampleOptions) counter() func() {
	if o.Progress == nil {
		return func() {}
	}
	var done int
	var lock sync.Mutex
	return func() {
		lock.Lock()
		defer lock.Unlock()
		done++
		o.Progress(done, o.Resamples)
	}
}

// parallel calls do for 0 … n-1 on all processors. worker returns the do of one goroutine, with its own buffers.
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
