package methods

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/internal/approx"
)

// A noiseScene is an overconfident last layer with training and validation data.
type noiseScene struct {
	h          layer.Head
	w          []float64
	train, val *rows.Batch
}

func newNoiseScene(n int) noiseScene {
	const d, k = 4, 3
	s := noiseScene{h: softmaxHead(k, d, true)}
	rng := rand.New(rand.NewPCG(5, 5))
	for range k * s.h.Dim() {
		s.w = append(s.w, 2*rng.NormFloat64())
	}
	examples := func(n int, seed uint64) *rows.Batch {
		b := clouds(n, d, k, 0.5, seed)
		rng := rand.New(rand.NewPCG(seed, 6))
		for i := range n {
			a := naiveLogits(s.w, s.h, b.Features[i*d:(i+1)*d])
			half := slices.Clone(a)
			for c, v := range a {
				b.Logits[i*k+c], half[c] = float32(v), v/2
			}
			b.Labels[i] = drawn(naiveSoftmax(half), rng)
		}
		return b
	}
	s.train, s.val = examples(500, 1), examples(n, 2)
	return s
}

func drawn(p []float64, rng *rand.Rand) int {
	u := rng.Float64()
	for c, v := range p {
		if u -= v; u < 0 {
			return c
		}
	}
	return len(p) - 1
}

func (s noiseScene) noise(t *testing.T, weight float64) *FeatureNoise {
	t.Helper()
	f, err := NewFeatureNoise(s.train, s.val, s.h, s.w, NoiseOptions{Weight: weight, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// terms are those of a batch, with |φ|² as its leverage.
func (s noiseScene) terms(t *testing.T, b *rows.Batch) Terms {
	t.Helper()
	r, err := NewDirections(s.train, s.h, nil)
	if err != nil {
		t.Fatal(err)
	}
	distances, err := r.Distances(b.Features, b.N)
	if err != nil {
		t.Fatal(err)
	}
	leverages := make([]float64, b.N)
	for i := range leverages {
		for _, v := range b.Features[i*s.h.Features : (i+1)*s.h.Features] {
			leverages[i] += float64(v) * float64(v)
		}
	}
	return NewTerms(distances, leverages)
}

// scaling is temperature scaling's T.
func (s noiseScene) scaling(t *testing.T) float64 {
	t.Helper()
	tuned, err := calibrate.Tune(t.Context(), NewScaled(s.val.Logits, s.h.Logits), s.val.Labels, nil, math.Inf(1))
	if err != nil {
		t.Fatal(err)
	}
	return tuned.NLL.Act
}

// The features have the covariance of the training data, in all or within classes, times the mean of t², and the
// logits are the last layer's.
func TestNoiseHasTheCovarianceOfTheFeatures(t *testing.T) {
	t.Parallel()
	const n = 40_000
	s := newNoiseScene(n)
	d, k := s.h.Features, s.h.Logits
	matrix := func(examples int, of func(i, j int) float64) *mat.Dense {
		m := mat.NewDense(examples, d, nil)
		for i := range examples * d {
			m.Set(i/d, i%d, of(i/d, i%d))
		}
		return m
	}
	means, counts := mat.NewDense(k, d, nil), make([]float64, k)
	for _, y := range s.train.Labels {
		counts[y]++
	}
	for i, y := range s.train.Labels {
		for j, v := range s.train.Features[i*d : (i+1)*d] {
			means.Set(y, j, means.At(y, j)+float64(v)/counts[y])
		}
	}
	var f *FeatureNoise
	for _, within := range []bool{true, false} {
		var err error
		if f, err = NewFeatureNoise(s.train, s.val, s.h, s.w, NoiseOptions{Within: within, Seed: 1}); err != nil {
			t.Fatal(err)
		}
		noise := matrix(n, func(i, j int) float64 {
			return float64(f.Noisy.Features[i*d+j]) - float64(s.val.Features[i*d+j])
		})
		features := matrix(s.train.N, func(i, j int) float64 {
			v := float64(s.train.Features[i*d+j])
			if within {
				v -= means.At(s.train.Labels[i], j)
			}
			return v
		})
		var got, want mat.SymDense
		stat.CovarianceMatrix(&got, noise, nil)
		stat.CovarianceMatrix(&want, features, nil)
		for i := range d {
			for j := range d {
				// t ~ U(0, 1.2) has the mean square 0.48. Four standard errors, of products of heavy tails, and the
				// factor n/(n-1) of the training data.
				size := math.Sqrt(want.At(i, i) * want.At(j, j))
				if v := 0.48 * want.At(i, j); !approx.Equal(got.At(i, j), v, size*(4/math.Sqrt(n)+1./500)) {
					t.Errorf("within %t: covariance %d,%d of the noise is %v, want %v", within, i, j, got.At(i, j), v)
				}
			}
		}
	}
	for i := range 50 {
		for c, v := range naiveLogits(s.w, s.h, f.Noisy.Features[i*d:(i+1)*d]) {
			if a := float64(f.Noisy.Logits[i*k+c]); !approx.Equal(a, v, 1e-5*math.Max(1, math.Abs(v))) { // float32
				t.Errorf("logit %d of noisy example %d is %v, want %v", c, i, a, v)
			}
		}
	}
	if !slices.Equal(f.Noisy.Labels, s.val.Labels) || f.Noisy.N != n {
		t.Error("the labels of the noisy examples are others")
	}
	if again := s.noise(t, 0); !slices.Equal(again.Noisy.Features, f.Noisy.Features) {
		t.Error("the same seed gives other noise")
	}
}

// The objective is what its definition gives, and the fit is a minimum of it.
func TestTheFittedTemperatureIsAMinimum(t *testing.T) {
	t.Parallel()
	s := newNoiseScene(1500)
	f := s.noise(t, NoiseWeight)
	val, noisy := s.terms(t, f.Val), s.terms(t, f.Noisy)
	fit, err := f.FitTemperature(t.Context(), val, noisy, s.scaling(t))
	if err != nil {
		t.Fatal(err)
	}
	if !(fit.C[0] > 0 || fit.C[1] > 0) {
		t.Errorf("the temperature does not rise: %+v", fit)
	}
	k := s.h.Logits
	naive := func(of RisingTemperature) float64 {
		loss := func(b *rows.Batch, terms Terms) (nll, wrong float64) {
			for i, y := range b.Labels {
				log := of.B
				for j, c := range of.C {
					log += c * math.Min(math.Max(0, terms[j][i]-of.from[j]), of.most[j])
				}
				a := make([]float64, k)
				for c := range a {
					a[c] = float64(b.Logits[i*k+c]) / math.Exp(log)
				}
				p := naiveSoftmax(a)
				nll -= math.Log(p[y]) / float64(b.N)
				wrong -= math.Log(1-slices.Max(p)) / float64(b.N)
			}
			return nll, wrong
		}
		clean, wrong := loss(f.Val, val)
		other, _ := loss(f.Noisy, noisy)
		return 0.85*(clean+wrong/2/float64(f.Val.N)) + 0.15*other
	}
	least, err := f.objectiveOf(t.Context(), fit, val, noisy, 1)
	if err != nil || !approx.Relative(least, naive(*fit), 1e-9) {
		t.Errorf("objective %v, want %v (%v)", least, naive(*fit), err)
	}
	for _, step := range []float64{-0.3, -0.03, -0.003, 0.003, 0.03, 0.3} {
		for p := range 3 {
			moved := *fit
			if p == 0 {
				moved.B += step
			} else {
				moved.C[p-1] = math.Max(0, moved.C[p-1]+step)
			}
			if v := naive(moved); v < least-1e-9 {
				t.Errorf("parameter %d changed by %v: %v, less than %v", p, step, v, least)
			}
		}
	}
}

// Without noise, and if unusual examples are no more often wrong than their logits say, the temperature is that of
// temperature scaling.
func TestWithoutNoiseTheTemperatureIsThatOfTemperatureScaling(t *testing.T) {
	t.Parallel()
	s := newNoiseScene(1500)
	f := s.noise(t, 0)
	val, noisy := s.terms(t, f.Val), s.terms(t, f.Noisy)
	from := [2]float64{}
	for j := range from {
		from[j] = stat.Quantile(usual, stat.Empirical, slices.Sorted(slices.Values(val[j])), nil)
	}
	for i := range s.val.Labels { // those are always right
		if val[0][i] > from[0] || val[1][i] > from[1] {
			s.val.Labels[i] = s.h.Predicted(s.val.Logits[i*s.h.Logits : (i+1)*s.h.Logits])
		}
	}
	scaling := s.scaling(t)
	fit, err := f.FitTemperature(t.Context(), val, noisy, 3*scaling)
	if err != nil {
		t.Fatal(err)
	}
	// Temperature scaling is found to 1e-3 or better, and a slope of zero is a square.
	if got := fit.Temperatures(); !approx.Relative(got.Act, scaling, 2e-3) || got.Ens != 1 {
		t.Errorf("temperatures %v, want %v", got, scaling)
	}
	for j, c := range fit.C {
		if !(c >= 0 && c < 1e-3) {
			t.Errorf("slope %d is %v, want 0", j, c)
		}
	}
	plain := NewScaled(s.val.Logits, s.h.Logits)
	want, err := f.Objective(t.Context(), plain, plain, layer.Temperatures{Act: scaling, Ens: 1})
	if err != nil {
		t.Fatal(err)
	}
	got, err := f.objectiveOf(t.Context(), fit, val, noisy, 1)
	if err != nil || !approx.Equal(got, want, 1e-6) {
		t.Errorf("objective %v, of temperature scaling %v (%v)", got, want, err)
	}
}

func TestARisingTemperatureIsBounded(t *testing.T) {
	t.Parallel()
	logits := []float32{3, -1, 0.5, 3, -1, 0.5, 3, -1, 0.5, 3, -1, 0.5}
	terms := Terms{{0, 1.5, 2, 9}, {0, 0, 4, 9}} // below, above one knot, above both, beyond the bounds
	for _, test := range []struct {
		c    [2]float64
		logs []float64 // log T
	}{
		{[2]float64{}, []float64{0.7, 0.7, 0.7, 0.7}},
		{[2]float64{2, 0}, []float64{0.7, 1.7, 2.7, 3.7}},
		{[2]float64{2, 0.5}, []float64{0.7, 1.7, 3.2, 4.7}},
	} {
		r := &RisingTemperature{B: 0.7, C: test.c, from: [2]float64{1, 3}, most: [2]float64{1.5, 2}}
		p := r.Predictive(logits, 3, terms)
		if p.Len() != 4 || p.Probabilities() != 3 || p.MedianVariance() != 0 {
			t.Errorf("%d examples of %d classes", p.Len(), p.Probabilities())
		}
		logp, _, err := calibrate.PredictAll(t.Context(), p, r.Temperatures())
		if err != nil {
			t.Fatal(err)
		}
		for i, log := range test.logs {
			a := make([]float64, 3)
			for c := range a {
				a[c] = float64(logits[i*3+c]) / math.Exp(log)
			}
			for c, v := range naiveSoftmax(a) {
				if got := math.Exp(logp[i*3+c]); !approx.Equal(got, v, 1e-14) {
					t.Errorf("slopes %v: probability %d of example %d is %v, want %v", test.c, c, i, got, v)
				}
			}
		}
	}
}

// Nine tenths of the validation examples have the temperature e^B, and the slopes end at the noisy examples.
func TestTheSlopesBeginAtAQuantile(t *testing.T) {
	t.Parallel()
	s := newNoiseScene(1000)
	f := s.noise(t, NoiseWeight)
	val, noisy := s.terms(t, f.Val), s.terms(t, f.Noisy)
	fit, err := f.FitTemperature(t.Context(), val, noisy, s.scaling(t))
	if err != nil {
		t.Fatal(err)
	}
	for j := range val {
		above := 0
		for _, v := range val[j] {
			if v > fit.from[j] {
				above++
			}
		}
		if above != 100 || !approx.Equal(fit.from[j]+fit.most[j], slices.Max(noisy[j]), 1e-12) {
			t.Errorf("term %d: %d of 1,000 examples are above, and the bound is %v, want %v", j, above, fit.from[j]+fit.most[j], slices.Max(noisy[j]))
		}
	}
}

// No pair of a grid has a lower objective, and without noise no pair of the library's own search has.
func TestTheFittedPairIsAMinimum(t *testing.T) {
	t.Parallel()
	s := newNoiseScene(2500) // of which every other one shows where to search
	k := s.h.Logits
	field := func(b *rows.Batch) *Gaussian {
		variances := make([]float64, len(b.Logits))
		for i := range variances {
			for _, v := range b.Features[i/k*s.h.Features : (i/k+1)*s.h.Features] {
				variances[i] += float64(v) * float64(v) * (1 + float64(i%k))
			}
		}
		g, err := NewMeanField(b.Logits, variances, k)
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	for _, weight := range []float64{0, NoiseWeight} {
		f := s.noise(t, weight)
		val, noisy := field(f.Val), field(f.Noisy)
		pair, err := f.FitPair(t.Context(), val, noisy, s.scaling(t))
		if err != nil {
			t.Fatal(err)
		}
		objective := func(t layer.Temperatures) float64 {
			v, err := f.Objective(background, val, noisy, t)
			if err != nil {
				panic(err)
			}
			return v
		}
		least := objective(pair)
		for act := 0.05; act < 10; act *= 1.5 {
			for tau := 1e-6; tau < 1e3; tau *= 4 {
				if v := objective(layer.Temperatures{Act: act, Ens: tau * val.MedianVariance()}); v < least-1e-6 {
					t.Fatalf("weight %v: objective %v at T_act %v, τ %v, and %v at %v", weight, v, act, tau, least, pair)
				}
			}
		}
		if weight > 0 {
			continue
		}
		tuned, err := calibrate.Tune(t.Context(), val, s.val.Labels, nil, math.Inf(1))
		if err != nil || !approx.Equal(objective(tuned.Optimum), least, 2e-5) { // the search ends at gains of 5e-6
			t.Errorf("objective %v at %v, of the library's search %v at %v (%v)", least, pair, objective(tuned.Optimum), tuned.Optimum, err)
		}
	}
}

func TestMeanFieldOfKnownVariancesIsThatOfTheirCovariance(t *testing.T) {
	t.Parallel()
	const n, d, k = 30, 3, 4
	set, cov := testSet(n, d, k, 3, 1), newRandomCovariance(k, d, 4, 1)
	var variances []float64
	for i := range n {
		full := dense(t, cov, set, i, k)
		for c := range k {
			variances = append(variances, full[c*k+c])
		}
	}
	known, err := NewMeanField(set.Logits, variances, k)
	if err != nil {
		t.Fatal(err)
	}
	want := gaussian(t, MF0, cov, set, k)
	if known.MedianVariance() != want.MedianVariance() || known.Len() != n {
		t.Errorf("median variance %v, want %v", known.MedianVariance(), want.MedianVariance())
	}
	at := layer.Temperatures{Act: 1.3, Ens: 0.4}
	got, _, err := calibrate.PredictAll(t.Context(), known, at)
	if err != nil {
		t.Fatal(err)
	}
	wanted, _, err := calibrate.PredictAll(t.Context(), want, at)
	if err != nil || !slices.Equal(got, wanted) {
		t.Errorf("log-probabilities differ (%v)", err)
	}
}

func TestFeatureNoiseRefusesWhatDoesNotFit(t *testing.T) {
	t.Parallel()
	s := newNoiseScene(100)
	unlabelled := *s.val
	unlabelled.Labels = nil
	f := s.noise(t, NoiseWeight)
	terms := s.terms(t, s.val)
	constant, err := NewMeanField(s.val.Logits, make([]float64, len(s.val.Logits)), s.h.Logits)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		want string
		of   func() error
	}{
		{"weight of the noise is 1", func() error { _, err := NewFeatureNoise(s.train, s.val, s.h, s.w, NoiseOptions{Weight: 1}); return err }},
		{"14 weights, want 5", func() error { _, err := NewFeatureNoise(s.train, s.val, s.h, s.w[1:], NoiseOptions{}); return err }},
		{"training data: no examples", func() error { _, err := NewFeatureNoise(nil, s.val, s.h, s.w, NoiseOptions{}); return err }},
		{"validation data: 0 labels", func() error { _, err := NewFeatureNoise(s.train, &unlabelled, s.h, s.w, NoiseOptions{}); return err }},
		{"temperature 0", func() error { _, err := f.FitTemperature(background, terms, terms, 0); return err }},
		{"median variance 0", func() error { _, err := f.FitPair(background, constant, constant, 1); return err }},
		{"11 variances", func() error { _, err := NewMeanField(make([]float32, 12), make([]float64, 11), 3); return err }},
		{"variance of logit", func() error { _, err := NewMeanField(make([]float32, 2), []float64{1, -1}, 2); return err }},
		{"training data: no examples", func() error { _, err := NewDirections(nil, s.h, nil); return err }},
	} {
		if err := test.of(); err == nil || !strings.Contains(fmt.Sprint(err), test.want) {
			t.Errorf("error %v, want %q", err, test.want)
		}
	}
}
