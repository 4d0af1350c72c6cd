package calibrate

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"

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

// ClassFrequencies returns the mean of each class's probability, [C], over n validation examples with probabilities p,
// [n,C]. It is nearer to what probabilities assume than the frequencies of labels. A class has at least the frequency
// of half an example.
func ClassFrequencies(p []float64, n int) []float64 {
	classes := len(p) / n
	f := make([]float64, classes)
	for i, v := range p {
		f[i%classes] += v / float64(n)
	}
	least := leastFrequency(n)
	for c, v := range f {
		f[c] = max(v, least)
	}
	return f
}

// leastFrequency is that of half an example.
func leastFrequency(n int) float64 { return 0.5 / float64(n) }

// applyPrior adds log ratios [C] to log-probabilities [n,C] and normalises these, in place.
func applyPrior(logp, ratios []float64) {
	width := len(ratios)
	parallel.For(len(logp)/width, func(first, last int) {
		for i := first; i < last; i++ {
			row := logp[i*width : (i+1)*width]
			floats.Add(row, ratios)
			top := floats.MaxIdx(row)
			shift, others := row[top], 0.0
			for c, v := range row {
				if c != top {
					others += math.Exp(v - shift)
				}
			}
			floats.AddConst(-shift, row) // first, so that log p of a sure class keeps its digits
			floats.AddConst(-math.Log1p(others), row)
		}
	})
}

// ApplyPrior corrects log-probabilities, [n,C], for Prior, in place. The results of the methods of a Calibration are
// corrected already.
func (c *Calibration) ApplyPrior(logp []float64) {
	if c.Prior != nil {
		applyPrior(logp, c.Prior)
	}
}

// WithoutPrior returns the calibration for the class frequencies of the validation data.
func (c *Calibration) WithoutPrior() *Calibration {
	other := *c
	other.Prior = nil
	return &other
}

// Thin returns which examples, by their labels, to keep so that classes have the frequencies of prior, [C]: an example
// of class c is kept with a probability proportional to π_c over its frequency among the labels. If only the
// frequencies of classes change, the examples kept are a sample of the data in use. Classes without examples stay
// absent.
func Thin(labels []int, prior []float64) (kept []int) {
	counts := make([]float64, len(prior))
	for _, y := range labels {
		counts[y]++
	}
	most := 0.0
	for c, n := range counts {
		if n > 0 {
			most = max(most, prior[c]/n)
		}
	}
	draw := rand.New(rand.NewPCG(1, 2))
	for i, y := range labels {
		if draw.Float64()*most < prior[y]/counts[y] {
			kept = append(kept, i)
		}
	}
	return kept
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
	Frequencies []float64 `json:"frequencies"` // [C]; they add up to 1
	// Low and High, [C], are the ends of 95 % bootstrap intervals with a strength of 1, widened to hold Frequencies.
	Low  []float64 `json:"low"`
	High []float64 `json:"high"`
	// Strength is the number of examples with the validation data's class frequencies that were added to the data.
	Strength float64 `json:"strength"`
	// Gain is the mean log-likelihood of examples under the frequencies estimated from the others, in nats above
	// that under the frequencies of the validation data. Significant says that it exceeds its standard error; if
	// it does not, Frequencies are those of the validation data, and Low and High are nil.
	Gain        float64 `json:"gain"`
	Significant bool    `json:"significant"`
}

const (
	priorFolds     = 5
	priorResamples = 200
	priorSteps     = 200 // of expectation-maximisation
	priorTolerance = 1e-7
	leastStrength  = 1
	maxPriorValues = 4 << 20 // probabilities of the examples used
)

// EstimatePrior estimates the class frequencies of unlabelled data from c's probabilities for them without Prior, which
// are calibrated for the frequencies f, [C], of so many validation examples. Only frequencies of classes may differ
// between the two kinds of data. Of more examples than have 4 Mi probabilities it takes some, evenly spaced.
//
// It maximises Σ_i log Σ_c p_ic π_c/f_c + s Σ_c f_c log π_c over π by expectation-maximisation (Saerens, Latinne and
// Decaestecker, Adjusting the Outputs of a Classifier to New a Priori Probabilities, 2002, with a Dirichlet prior).
// The strength s is the largest of 1, 3, 10, … 10,000 whose likelihood in five-fold cross-validation is not
// significantly below the best. Classes as rare as half a validation example keep their frequencies.
func EstimatePrior(
	ctx context.Context, c *Calibration, unlabelled *rows.Batch, frequencies []float64, validation int,
) (*PriorEstimate, error) {
	const least = 20
	if unlabelled.N < least {
		return nil, fmt.Errorf("%d unlabelled examples, want at least %d, and better hundreds", unlabelled.N, least)
	}
	plain := c.WithoutPrior()
	some := unlabelled.Subsample(max(least, maxPriorValues/len(frequencies)))
	logp := make([]float64, 0, some.N*len(frequencies))
	for from := 0; from < some.N; from += rows.BlockSize { // bounds the memory of variances
		b := some.Slice(from, min(from+rows.BlockSize, some.N))
		logp = append(logp, plain.Predict(b.Features, b.Logits, b.N).LogP...)
	}
	return estimatePrior(ctx, logp, frequencies, validation)
}

func estimatePrior(ctx context.Context, logp, frequencies []float64, validation int) (*PriorEstimate, error) {
	m := newPriorMixture(logp, frequencies, validation)
	strengths := []float64{1e4, 3e3, 1e3, 3e2, 1e2, 30, 10, 3, leastStrength}
	gains := make([][]float64, len(strengths)) // of examples, by strength
	for j := range gains {
		gains[j] = make([]float64, m.n)
	}
	parallel.For(priorFolds, func(first, last int) {
		for fold := first; fold < last && ctx.Err() == nil; fold++ {
			weights := make([]float64, m.n)
			for i := range weights {
				if i%priorFolds != fold {
					weights[i] = 1
				}
			}
			prior := slices.Clone(m.f)
			for j, s := range strengths {
				m.maximise(prior, weights, s)
				for i := fold; i < m.n; i += priorFolds {
					gains[j][i] = m.logRatio(i, prior)
				}
			}
		}
	})
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	e := &PriorEstimate{Frequencies: slices.Clone(m.f)}
	best := 0
	for j := range gains {
		if mean(gains[j]) > mean(gains[best]) {
			best = j
		}
	}
	var stdErr float64
	if e.Gain, stdErr = pairedGain(gains[best], make([]float64, m.n)); e.Gain <= stdErr {
		return e, nil
	}
	e.Significant = true
	for j := range gains {
		if loss, stdErr := pairedGain(gains[best], gains[j]); loss <= stdErr {
			e.Strength = strengths[j]
			break
		}
	}
	m.maximise(e.Frequencies, ones(m.n), e.Strength)
	return e, m.bootstrap(ctx, e)
}

func ones(n int) []float64 {
	x := make([]float64, n)
	floats.AddConst(1, x)
	return x
}

// priorMixture is examples as mixtures of classes: rows p_c/f_c, whose products with class frequencies are their
// likelihoods, up to constants.
type priorMixture struct {
	n, classes int
	f          []float64
	fixed      []bool // classes that keep f
	ratios     []float64
}

func newPriorMixture(logp, frequencies []float64, validation int) *priorMixture {
	classes := len(frequencies)
	m := &priorMixture{n: len(logp) / classes, classes: classes, f: slices.Clone(frequencies)}
	floats.Scale(1/floats.Sum(m.f), m.f)
	m.fixed = make([]bool, classes)
	for c, v := range frequencies {
		m.fixed[c] = v <= leastFrequency(validation)
	}
	m.ratios = make([]float64, len(logp))
	for i, l := range logp {
		m.ratios[i] = math.Exp(l) / m.f[i%classes]
	}
	return m
}

// logRatio returns the log-likelihood of an example under a prior, above that under f.
func (m *priorMixture) logRatio(i int, prior []float64) float64 {
	return math.Log(floats.Dot(m.ratios[i*m.classes:(i+1)*m.classes], prior))
}

// maximise moves class frequencies from where they are to the maximum for weighted examples and a strength.
func (m *priorMixture) maximise(prior, weights []float64, strength float64) {
	free, next := 0.0, make([]float64, m.classes)
	for c, v := range m.f {
		if !m.fixed[c] {
			free += v
		}
	}
	for range priorSteps {
		for c, v := range m.f {
			next[c] = strength * v
		}
		for i, w := range weights {
			if w == 0 {
				continue
			}
			row := m.ratios[i*m.classes : (i+1)*m.classes]
			w /= floats.Dot(row, prior)
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
		if moved < priorTolerance {
			return
		}
	}
}

// bootstrap sets the intervals of an estimate, from resamples of the examples. Those of strong estimates would be too
// narrow.
func (m *priorMixture) bootstrap(ctx context.Context, e *PriorEstimate) error {
	estimates, start := make([][]float64, priorResamples), slices.Clone(e.Frequencies)
	m.maximise(start, ones(m.n), leastStrength)
	parallel.For(priorResamples, func(first, last int) {
		for j := first; j < last && ctx.Err() == nil; j++ {
			draw := rand.New(rand.NewPCG(3, uint64(j)))
			weights := make([]float64, m.n)
			for range m.n {
				weights[draw.IntN(m.n)]++
			}
			estimates[j] = slices.Clone(start)
			m.maximise(estimates[j], weights, leastStrength)
		}
	})
	if err := context.Cause(ctx); err != nil {
		return err
	}
	e.Low, e.High = make([]float64, m.classes), make([]float64, m.classes)
	of := make([]float64, priorResamples)
	for c := range m.classes {
		for j := range of {
			of[j] = estimates[j][c]
		}
		slices.Sort(of)
		e.Low[c] = min(of[priorResamples*25/1000], e.Frequencies[c])
		e.High[c] = max(of[priorResamples*975/1000-1], e.Frequencies[c])
	}
	return nil
}
