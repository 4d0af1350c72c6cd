package calibrate

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/internal/parallel"
)

// PriorRatios returns log π_c - log f_c, [C], for class frequencies π in use and f in the validation data, both [C]
// and positive: see [Calibration.Prior].
func PriorRatios(prior, frequencies []float64) []float64 {
	ratios := make([]float64, len(prior))
	for c := range ratios {
		ratios[c] = math.Log(prior[c]) - math.Log(frequencies[c])
	}
	return ratios
}

// ClassFrequencies returns the mean of each class's probability, [C], over validation examples with probabilities p,
// [n,C]. It is nearer to what probabilities assume than the frequencies of labels. A class without labels has less than
// half an example, and more than none: all classes share half an example.
func ClassFrequencies(p []float64, labels []int) []float64 {
	n := len(labels)
	classes := len(p) / n
	f, seen := make([]float64, classes), make([]bool, classes)
	for i, v := range p {
		f[i%classes] += v / float64(n)
	}
	for _, y := range labels {
		seen[y] = true
	}
	const most = 0.8 // of half an example, so that it is less after normalisation
	for c, v := range f {
		if !seen[c] {
			v = min(v, most*halfExample(n))
		}
		f[c] = max(v, halfExample(n)/float64(classes))
	}
	floats.Scale(1/floats.Sum(f), f)
	return f
}

// halfExample is the frequency of half an example of n.
func halfExample(n int) float64 { return 0.5 / float64(n) }

// ApplyPrior corrects log-probabilities, [n,C], for Prior, in place. The results of the methods of a Calibration are
// corrected already.
func (c *Calibration) ApplyPrior(logp []float64) {
	width := len(c.Prior)
	if width == 0 {
		return
	}
	parallel.For(len(logp)/width, func(first, last int) {
		for i := first; i < last; i++ {
			row := logp[i*width : (i+1)*width]
			floats.Add(row, c.Prior)
			top := floats.MaxIdx(row)
			shift, others := row[top], 0.0
			for k, v := range row {
				if k != top {
					others += math.Exp(v - shift)
				}
			}
			floats.AddConst(-shift, row) // first, so that log p of a sure class keeps its digits
			floats.AddConst(-math.Log1p(others), row)
		}
	})
}

// WithoutPrior returns the calibration for the class frequencies of the validation data.
func (c *Calibration) WithoutPrior() *Calibration {
	other := *c
	other.Prior = nil
	return &other
}

// A Sampler keeps some of the validation examples, so that classes have the frequencies in use: if only these have
// changed, a sample of the data in use. It is for n validation examples with class frequencies f: an example of class c
// is kept with a probability proportional to π_c/f_c, and always or never, whatever the other examples are.
type Sampler struct{ keep []float64 } // probabilities, by class

// NewSampler returns the sampler of a prior, for the class frequencies f of n validation examples.
func NewSampler(prior, f []float64, n int) *Sampler {
	s := &Sampler{make([]float64, len(f))}
	most := 0.0
	for c, v := range f {
		if s.keep[c] = prior[c] / v; v >= halfExample(n) { // without examples there is nothing to keep
			most = max(most, s.keep[c])
		}
	}
	floats.Scale(1/most, s.keep)
	return s
}

// Of returns the examples of a labelled batch that are kept. All are for a nil Sampler.
func (s *Sampler) Of(b *rows.Batch) *rows.Batch {
	if s == nil || b == nil {
		return b
	}
	var kept []int
	for i, y := range b.Labels {
		if rand.New(rand.NewPCG(1, uint64(b.Positions[i]))).Float64() < s.keep[y] {
			kept = append(kept, i)
		}
	}
	return b.Pick(kept)
}

// ConfidencesDiffer reports whether the means of confidence in two samples differ by more than four standard errors and
// a hundredth, and returns these means. In unlabelled data and in a sample of the validation data with the same class
// frequencies they do not, if only the frequencies differ.
func ConfidencesDiffer(a, b []float64) (meanA, meanB float64, differ bool) {
	const many, much = 4, 0.01
	meanA, varianceA := stat.MeanVariance(a, nil)
	meanB, varianceB := stat.MeanVariance(b, nil)
	stdErr := math.Sqrt(varianceA/float64(len(a)) + varianceB/float64(len(b)))
	return meanA, meanB, math.Abs(meanA-meanB) > math.Max(many*stdErr, much)
}

// PriorEstimate is the class frequencies of unlabelled data, with intervals.
type PriorEstimate struct {
	Frequencies []float64 `yaml:"frequencies,flow" json:"frequencies"` // [C]; they add up to 1
	// Low and High, [C], are the ends of 95 % credible intervals, widened to hold Frequencies.
	Low  []float64 `yaml:"low,flow" json:"low"`
	High []float64 `yaml:"high,flow" json:"high"`
	// Strength is the number of examples with the validation data's class frequencies that were added to the data.
	Strength float64 `yaml:"strength" json:"strength"`
	// Gain is the mean log-likelihood of examples under the frequencies estimated from the others, in nats above that
	// under the frequencies of the validation data. Significant says that it is more than chance, at 95 %; if it is
	// not, these frequencies remain in force.
	Gain        float64 `yaml:"gain" json:"gain"`
	Significant bool    `yaml:"significant" json:"significant"`
}

const (
	leastUnlabelled = 20
	priorFolds      = 5
	maxPriorValues  = 2 << 20 // probabilities of the examples used
)

// EstimatePrior estimates the class frequencies of unlabelled data from c's probabilities for them without Prior, which
// are calibrated for the frequencies f, [C], of so many validation examples. Only frequencies of classes may differ
// between the two kinds of data. Of more examples than have 2 Mi probabilities it takes some, evenly spaced.
//
// It maximises Σ_i log Σ_c p_ic π_c/f_c + s Σ_c f_c log π_c over π by expectation-maximisation (Saerens, Latinne and
// Decaestecker, Adjusting the Outputs of a Classifier to New a Priori Probabilities, 2002, with a Dirichlet prior).
// The strength s is the largest of 1, 3, 10, … 10,000 whose likelihood in five-fold cross-validation is within one
// standard error of the best. Classes less frequent than half a validation example keep their frequencies.
//
// Intervals are from the posterior distribution of π, with half an example of each class, but no more than √n in all,
// added to the n unlabelled examples, and f drawn as if from labels of the validation examples.
func EstimatePrior(
	ctx context.Context, c *Calibration, unlabelled *rows.Batch, f []float64, validation int,
) (*PriorEstimate, error) {
	if unlabelled.N < leastUnlabelled {
		return nil, fmt.Errorf("%d unlabelled examples, want at least %d, and better hundreds", unlabelled.N, leastUnlabelled)
	}
	plain := c.WithoutPrior()
	some := unlabelled.Subsample(max(leastUnlabelled, maxPriorValues/len(f)))
	logp := make([]float64, 0, some.N*len(f))
	for from := 0; from < some.N; from += rows.BlockSize { // bounds the memory of variances
		b := some.Slice(from, min(from+rows.BlockSize, some.N))
		logp = append(logp, plain.Predict(b.Features, b.Logits, b.N).LogP...)
	}
	return newPriorMixture(logp, f, validation).estimate(ctx)
}

// priorMixture is examples as mixtures of classes: rows p_c/f_c, whose products with class frequencies are their
// likelihoods, up to constants.
type priorMixture struct {
	n, classes, validation int
	f                      []float64
	fixed                  []bool // classes that keep f
	ratios                 []float64
}

func newPriorMixture(logp, f []float64, validation int) *priorMixture {
	classes := len(f)
	m := &priorMixture{n: len(logp) / classes, classes: classes, validation: validation, f: slices.Clone(f)}
	floats.Scale(1/floats.Sum(m.f), m.f)
	m.fixed = make([]bool, classes)
	for c, v := range m.f {
		m.fixed[c] = v < halfExample(validation)
	}
	m.ratios = make([]float64, len(logp))
	for i, l := range logp {
		m.ratios[i] = math.Exp(l) / m.f[i%classes]
	}
	return m
}

func (m *priorMixture) row(i int) []float64 { return m.ratios[i*m.classes : (i+1)*m.classes] }

// logRatio returns the log-likelihood of an example under class frequencies, above that under f.
func (m *priorMixture) logRatio(i int, prior []float64) float64 {
	return math.Log(floats.Dot(m.row(i), prior))
}

// estimate returns the estimate for all examples.
func (m *priorMixture) estimate(ctx context.Context) (*PriorEstimate, error) {
	strengths := []float64{1e4, 3e3, 1e3, 3e2, 1e2, 30, 10, 3, 1}
	gains := make([][]float64, len(strengths)) // of examples, by strength
	for j := range gains {
		gains[j] = make([]float64, m.n)
	}
	parallel.For(priorFolds, func(first, last int) {
		for fold := first; fold < last; fold++ {
			prior := slices.Clone(m.f)
			for j, s := range strengths {
				if ctx.Err() != nil {
					return
				}
				m.maximise(prior, s, 30, func(i int) bool { return i%priorFolds != fold })
				for i := fold; i < m.n; i += priorFolds {
					gains[j][i] = m.logRatio(i, prior)
				}
			}
		}
	})
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	best := 0
	for j := range gains {
		if mean(gains[j]) > mean(gains[best]) {
			best = j
		}
	}
	e := &PriorEstimate{Frequencies: slices.Clone(m.f)}
	var stdErr float64
	e.Gain, stdErr = pairedGain(gains[best], make([]float64, m.n))
	const normal95 = 1.645
	e.Significant = e.Gain > normal95*stdErr+m.chanceGain()
	for j := range gains {
		if loss, stdErr := pairedGain(gains[best], gains[j]); loss <= stdErr {
			e.Strength = strengths[j]
			break
		}
	}
	m.maximise(e.Frequencies, e.Strength, 200, func(int) bool { return true })
	return e, m.intervals(ctx, e)
}

// maximise moves class frequencies from where they are to the maximum for some examples and a strength, in so many
// steps at most.
func (m *priorMixture) maximise(prior []float64, strength float64, steps int, use func(i int) bool) {
	free, next := 0.0, make([]float64, m.classes)
	for c, v := range m.f {
		if !m.fixed[c] {
			free += v
		}
	}
	tolerance := 1e-5 / float64(m.classes)
	for range steps {
		for c, v := range m.f {
			next[c] = strength * v
		}
		for i := range m.n {
			if !use(i) {
				continue
			}
			row := m.row(i)
			w := 1 / floats.Dot(row, prior)
			for c, r := range row {
				next[c] += w * r * prior[c]
			}
		}
		total := 0.0
		for c, v := range next {
			if !m.fixed[c] {
				total += v
			}
		}
		moved := 0.0
		for c, v := range next {
			if m.fixed[c] {
				continue
			}
			v *= free / total
			moved = max(moved, math.Abs(v-prior[c]))
			prior[c] = v
		}
		if moved < tolerance {
			return
		}
	}
}

const priorDraws = 400

// chanceGain returns the gain that the sampling error of f alone may give, in 95 % of validation sets, if the class
// frequencies are the same: half the mean square of Σ_c p_ic/f_c (f*_c - f_c) with frequencies f* of labels drawn from
// f.
func (m *priorMixture) chanceGain() float64 {
	gains := make([]float64, priorDraws)
	parallel.For(priorDraws, func(first, last int) {
		for j := first; j < last; j++ {
			other := m.drawFrequencies(rand.New(rand.NewPCG(2, uint64(j))))
			floats.Sub(other, m.f)
			for i := range m.n {
				d := floats.Dot(m.row(i), other)
				gains[j] += d * d / float64(2*m.n)
			}
		}
	})
	slices.Sort(gains)
	return gains[priorDraws*95/100]
}

// drawFrequencies draws class frequencies of the validation data from a Dirichlet distribution around f. Fixed classes
// keep theirs.
func (m *priorMixture) drawFrequencies(rng *rand.Rand) []float64 {
	other := slices.Clone(m.f)
	drawn, free := 0.0, 0.0
	for c, v := range m.f {
		if !m.fixed[c] {
			other[c] = distuv.Gamma{Alpha: v * float64(m.validation), Beta: 1, Src: rng}.Rand()
			drawn, free = drawn+other[c], free+v
		}
	}
	for c, v := range other {
		if !m.fixed[c] {
			other[c] = max(v*free/drawn, m.f[c]*1e-3)
		}
	}
	return other
}

// intervals sets the intervals of an estimate by Gibbs sampling: classes of the examples given class frequencies, and
// frequencies given classes.
func (m *priorMixture) intervals(ctx context.Context, e *PriorEstimate) error {
	const burnIn = 50
	rng := rand.New(rand.NewPCG(3, 3))
	added := min(0.5, math.Sqrt(float64(m.n))/float64(m.classes))
	prior, draws := slices.Clone(e.Frequencies), make([][]float64, m.classes)
	for sweep := range burnIn + priorDraws {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		of := m.drawFrequencies(rng)
		for c := range of {
			of[c] = prior[c] * m.f[c] / of[c] // ratios have f
		}
		next := make([]float64, m.classes)
		for c, count := range m.drawClasses(of, uint64(sweep)) {
			next[c] = distuv.Gamma{Alpha: count + added, Beta: 1, Src: rng}.Rand()
		}
		floats.Scale(1/floats.Sum(next), next)
		if prior = next; sweep >= burnIn {
			for c, v := range prior {
				draws[c] = append(draws[c], v)
			}
		}
	}
	e.Low, e.High = make([]float64, m.classes), make([]float64, m.classes)
	for c, of := range draws {
		slices.Sort(of)
		e.Low[c] = min(of[priorDraws*25/1000], e.Frequencies[c])
		e.High[c] = max(of[priorDraws*975/1000-1], e.Frequencies[c])
	}
	return nil
}

// drawClasses draws a class for each example and counts them.
func (m *priorMixture) drawClasses(prior []float64, seed uint64) []float64 {
	classes := make([]int, m.n)
	parallel.For(m.n, func(first, last int) {
		for i := first; i < last; i++ {
			row := m.row(i)
			left := rand.New(rand.NewPCG(seed, uint64(i))).Float64() * floats.Dot(row, prior)
			for c, r := range row {
				if left -= r * prior[c]; left < 0 || c == m.classes-1 {
					classes[i] = c
					break
				}
			}
		}
	})
	counts := make([]float64, m.classes)
	for _, c := range classes {
		counts[c]++
	}
	return counts
}
