package calibrate

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/internal/approx"
)

// shifted is examples of classes that are unit normals around points, drawn with class frequencies, and the classifier
// of these classes that is exact at the frequencies f.
type shifted struct {
	f     []float64
	means [][2]float64
}

func newShifted(f ...float64) *shifted {
	s := &shifted{f: f}
	for c := range f {
		angle := 2 * math.Pi * float64(c) / float64(len(f))
		s.means = append(s.means, [2]float64{1.8 * math.Cos(angle), 1.8 * math.Sin(angle)})
	}
	return s
}

// draw returns n examples whose features are the point and whose logits are exact at f.
func (s *shifted) draw(seed uint64, n int, frequencies []float64) *rows.Batch {
	rng := rand.New(rand.NewPCG(seed, 7))
	b := &rows.Batch{N: n}
	for i := range n {
		u, y := rng.Float64(), 0
		for y < len(frequencies)-1 && u >= frequencies[y] {
			u -= frequencies[y]
			y++
		}
		x := [2]float64{s.means[y][0] + rng.NormFloat64(), s.means[y][1] + rng.NormFloat64()}
		b.Features = append(b.Features, float32(x[0]), float32(x[1]))
		for _, l := range s.logits(x, s.f) {
			b.Logits = append(b.Logits, float32(l))
		}
		b.Labels, b.Positions = append(b.Labels, y), append(b.Positions, i)
	}
	return b
}

func (s *shifted) logits(x [2]float64, f []float64) []float64 {
	a := make([]float64, len(f))
	for c, m := range s.means {
		a[c] = math.Log(f[c]) + x[0]*m[0] + x[1]*m[1] - (m[0]*m[0]+m[1]*m[1])/2
	}
	return a
}

// calibration serves temperature scaling at T = 1.
func (s *shifted) calibration(t *testing.T) *Calibration {
	t.Helper()
	h := layer.Head{Features: 2, Logits: len(s.f), Bias: true, Link: layer.Softmax}
	train := s.draw(99, 200, s.f)
	sums, err := NewSums(CurvatureConfig{Head: h, Structure: Full})
	if err != nil {
		t.Fatal(err)
	}
	if err := sums.AddBlock(train); err != nil {
		t.Fatal(err)
	}
	c, err := sums.Finish()
	if err != nil {
		t.Fatal(err)
	}
	p, err := c.Posterior(Hessian, 1)
	if err != nil {
		t.Fatal(err)
	}
	one := layer.Temperatures{Act: 1, Ens: 1}
	return &Calibration{Method: TS, Posterior: p, NLL: one, OOD: one, TS: 1}
}

// A classifier that is exact at class frequencies f is, corrected, exact at others; only its probabilities change, and
// those of the network itself do not.
func TestAPriorGivesTheExactProbabilitiesOfOtherFrequencies(t *testing.T) {
	t.Parallel()
	s, use := newShifted(0.5, 0.3, 0.2), []float64{0.01, 0.04, 0.95}
	before := s.calibration(t)
	c := *before
	c.Prior = PriorRatios(use, s.f)
	b := s.draw(1, 100, use)
	got, old := c.Predict(b.Features, b.Logits, b.N), before.Predict(b.Features, b.Logits, b.N)
	byName, _ := c.Plain(TS, b.Logits, b.N)
	own, _ := c.Plain(MLE, b.Logits, b.N)
	network, _ := Plain(c.Posterior.Head, b.Logits, b.N, 1)
	for i := range b.N {
		x := [2]float64{float64(b.Features[2*i]), float64(b.Features[2*i+1])}
		exact := s.logits(x, use)
		norm := floats.LogSumExp(exact)
		for k, a := range exact {
			at := 3*i + k
			if !approx.Equal(got.LogP[at], a-norm, 1e-5) || got.LogP[at] != byName[at] || own[at] != network[at] {
				t.Fatalf("log p[%d] of example %d is %v, by name %v, want %v", k, i, got.LogP[at], byName[at], a-norm)
			}
		}
	}
	if !slices.Equal(got.Margin, old.Margin) || !slices.Equal(got.OODScore, old.OODScore) {
		t.Error("a prior changes margins or scores")
	}
	if p := c.WithoutPrior().Predict(b.Features, b.Logits, b.N); !slices.Equal(p.LogP, old.LogP) {
		t.Error("WithoutPrior gives other probabilities")
	}
}

// The log-probability of a class that is almost sure has its digits: 1 - p is not lost.
func TestAPriorKeepsTheDigitsOfSureClasses(t *testing.T) {
	t.Parallel()
	logp := []float64{-1e-30, -70, -math.Inf(1)}
	(&Calibration{Prior: []float64{math.Log(2), 0, 0}}).ApplyPrior(logp)
	want := -math.Exp(-70) / 2
	if !approx.Relative(logp[0], want, 1e-12) || !approx.Relative(logp[1], -70-math.Log(2), 1e-15) ||
		!math.IsInf(logp[2], -1) {
		t.Errorf("%v, want %v first", logp, want)
	}
}

// The estimate is the maximum of its objective: no direction in which frequencies can move goes up.
func TestEstimatesMaximiseThePenalisedLikelihood(t *testing.T) {
	t.Parallel()
	s := newShifted(0.4, 0.3, 0.2, 0.1)
	c, b := s.calibration(t), s.draw(2, 400, []float64{0.1, 0.2, 0.3, 0.4})
	logp, _ := c.Plain(TS, b.Logits, b.N)
	for _, strength := range []float64{1, 30} {
		m := newPriorMixture(logp, s.f, 1000)
		prior := slices.Clone(m.f)
		m.maximise(prior, strength, 500, func(int) bool { return true })
		objective := func(p []float64) (sum float64) {
			for i := range m.n {
				var l float64
				for k, v := range p {
					l += math.Exp(logp[4*i+k]) * v / s.f[k]
				}
				sum += math.Log(l)
			}
			for k, v := range p {
				sum += strength * s.f[k] * math.Log(v)
			}
			return sum
		}
		best := objective(prior)
		for from := range prior {
			for to := range prior {
				other := slices.Clone(prior)
				other[from] -= 0.003
				other[to] += 0.003
				if v := objective(other); v > best {
					t.Errorf("strength %v: %v has %v, %v has more: %v", strength, prior, best, other, v)
				}
			}
		}
		if !approx.Equal(floats.Sum(prior), 1, 1e-9) {
			t.Errorf("frequencies %v add up to %v", prior, floats.Sum(prior))
		}
	}
}

// Estimates are near the truth, which 95 % intervals cover, and data of the same frequencies are hardly ever found to
// have others.
func TestEstimatesOfFrequencies(t *testing.T) {
	t.Parallel()
	const draws, n = 60, 500
	s, use := newShifted(0.4, 0.3, 0.2, 0.1), []float64{0.1, 0.1, 0.2, 0.6}
	c := s.calibration(t)
	covered, found, worse := 0, 0, 0
	for i := range uint64(draws) {
		b := s.draw(100+i, n, use)
		e, err := EstimatePrior(t.Context(), c, b, s.f, 1000)
		if err != nil {
			t.Fatal(err)
		}
		if !e.Significant {
			t.Fatalf("draw %d: no significant difference, gain %v", i, e.Gain)
		}
		for k, v := range e.Frequencies {
			if e.Low[k] <= use[k] && use[k] <= e.High[k] {
				covered++
			}
			if !approx.Equal(v, use[k], 0.12) {
				t.Errorf("draw %d: frequency %v of class %d, want %v", i, v, k, use[k])
			}
		}
		same := s.draw(200+i, n, s.f)
		if e, err = EstimatePrior(t.Context(), c, same, s.f, 1000); err != nil {
			t.Fatal(err)
		}
		if !e.Significant {
			continue
		}
		found++
		corrected := *c
		corrected.Prior = PriorRatios(e.Frequencies, s.f)
		before, after := nllOf(c, same), nllOf(&corrected, same)
		if after > before+0.02 {
			worse++
		}
	}
	if covered < 90*4*draws/100 {
		t.Errorf("%d of %d intervals cover the truth", covered, 4*draws)
	}
	if found > draws/4 || worse > 0 {
		t.Errorf("%d of %d samples of the validation data are found to differ, %d to their cost", found, draws, worse)
	}
}

func nllOf(c *Calibration, b *rows.Batch) (nll float64) {
	p := c.Predict(b.Features, b.Logits, b.N)
	for i, y := range b.Labels {
		nll -= p.LogP[i*c.Posterior.Head.Classes()+y] / float64(b.N)
	}
	return nll
}

// Classes as rare in the validation data as half an example are not estimated: their share stays.
func TestClassesWithoutExamplesKeepTheirFrequencies(t *testing.T) {
	t.Parallel()
	s := newShifted(0.5, 0.4, 0.1)
	c := s.calibration(t)
	// The third class has the third part of half an example, and the fourth, which has no label, less than half of one.
	f := ClassFrequencies([]float64{0.6, 0.2, 0, 0.2, 0.3, 0.3, 0, 0.4}, []int{0, 1})
	want := []float64{0.45, 0.25, 0.0625, 0.2}
	floats.Scale(1/floats.Sum(want), want)
	if !floats.EqualApprox(f, want, 1e-12) {
		t.Fatalf("frequencies %v, want %v", f, want)
	}
	b := s.draw(3, 400, []float64{0.05, 0.9, 0.05})
	e, err := EstimatePrior(t.Context(), c, b, []float64{0.5, 0.4996, 0.0004}, 1000)
	if err != nil {
		t.Fatal(err)
	}
	if !approx.Equal(e.Frequencies[2], 0.0004, 1e-12) || e.Frequencies[1] < 0.8 {
		t.Errorf("frequencies %v", e.Frequencies)
	}
	few := s.draw(3, 10, s.f)
	if _, err := EstimatePrior(t.Context(), c, few, s.f, 1000); err == nil {
		t.Error("10 examples are enough")
	}
}

// A sample has the frequencies of the prior, and of each class a sample of its examples. An example is in it or not,
// whatever the others are.
func TestSampledExamplesAreASampleInUse(t *testing.T) {
	t.Parallel()
	s, use := newShifted(0.6, 0.3, 0.1), []float64{0.2, 0.2, 0.6}
	b := s.draw(4, 20_000, s.f)
	sampler := NewSampler(use, s.f, b.N)
	kept := sampler.Of(b)
	counts, of := make([]float64, 3), make([][]float64, 3)
	for i, y := range kept.Labels {
		counts[y]++
		of[y] = append(of[y], float64(kept.Features[2*i]))
	}
	floats.Scale(1/float64(kept.N), counts)
	if !floats.EqualApprox(counts, use, 0.02) || kept.N < 3000 {
		t.Errorf("%d examples with frequencies %v, want %v", kept.N, counts, use)
	}
	for k, x := range of {
		if m := stat.Mean(x, nil); !approx.Equal(m, s.means[k][0], 0.15) {
			t.Errorf("mean %v of class %d, want %v", m, k, s.means[k][0])
		}
	}
	half := sampler.Of(b.Slice(10_000, 20_000))
	if !slices.Equal(half.Positions, kept.Positions[kept.N-half.N:]) {
		t.Error("the examples of a half are not those of the whole")
	}
	if same := NewSampler(s.f, s.f, b.N).Of(b); same.N != b.N {
		t.Errorf("%d of %d examples at the same frequencies", same.N, b.N)
	}
	if (*Sampler)(nil).Of(b) != b {
		t.Error("no sampler keeps some")
	}
}

// Intervals hold for classes that are rare, or absent from the unlabelled data, and include the sampling error of the
// validation data's frequencies; with few of these, differences by chance are not significant.
func TestIntervalsOfRareClassesAndFewValidationExamples(t *testing.T) {
	t.Parallel()
	const draws = 40
	s := newShifted(0.5, 0.5)
	for _, c := range []struct {
		use           []float64
		n, validation int
		least         int // intervals of so many draws cover the truth
	}{
		{[]float64{0.998, 0.002}, 500, 1000, 36}, {[]float64{0.98, 0.02}, 100, 1000, 35},
		{[]float64{1 - 1e-9, 1e-9}, 200, 1000, draws}, {[]float64{0.5, 0.5}, 2000, 100, 36},
	} {
		covered, found := 0, 0
		for i := range uint64(draws) {
			// The validation data's frequencies are known as well as from so many labels.
			labels := s.draw(1000+i, c.validation, s.f).Labels
			f := []float64{0, 0}
			for _, y := range labels {
				f[y] += 1 / float64(c.validation)
			}
			off := &shifted{f: f, means: s.means}
			b := off.draw(2000+i, c.n, c.use)
			e, err := EstimatePrior(t.Context(), off.calibration(t), b, f, c.validation)
			if err != nil {
				t.Fatal(err)
			}
			if e.Low[1] <= c.use[1]+1e-3 && c.use[1] <= e.High[1] {
				covered++
			}
			if e.Significant {
				found++
			}
		}
		if covered < c.least {
			t.Errorf("%v, n = %d and %d: %d of %d intervals cover the truth", c.use, c.n, c.validation, covered, draws)
		}
		if c.use[0] == 0.5 && found > draws/8 {
			t.Errorf("%d of %d differences by chance are significant", found, draws)
		}
	}
}
