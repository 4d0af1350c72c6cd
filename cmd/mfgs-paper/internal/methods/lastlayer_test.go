package methods

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/diff/fd"
	"gonum.org/v1/gonum/optimize"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/internal/approx"
)

// central differences have errors of about step² and 2⁻⁵²/step.
var central = &fd.Settings{Formula: fd.Central, Step: 1e-5}

func TestCrossEntropyGradientsAreFiniteDifferences(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 1))
	for range 50 {
		z := make([]float64, 2+rng.IntN(6))
		for c := range z {
			z[c] = 3 * rng.NormFloat64()
		}
		y := rng.IntN(len(z))
		want := fd.Gradient(nil, func(z []float64) float64 { return -math.Log(naiveSoftmax(z)[y]) }, z, central)
		crossEntropy(z, y)
		for c := range z {
			// That of exponentials is 1e-7.
			if !approx.Equal(z[c], want[c], 3e-7) {
				t.Fatalf("derivative %d is %v, want %v", c, z[c], want[c])
			}
		}
	}
}

// meanLoss is the mean over the examples that are left of -log p_y, under weights [K,D].
func meanLoss(s *rows.Batch, h layer.Head, w []float64, leftOut func(example int) bool) float64 {
	var sum, n float64
	for i, y := range s.Labels {
		if !leftOut(i) {
			sum -= math.Log(naiveSoftmax(naiveLogits(w, h, s.Features[i*h.Features:(i+1)*h.Features]))[y])
			n++
		}
	}
	return sum / n
}

// minimum finds the least of a smooth function of n variables.
func minimum(t *testing.T, n int, f func(x []float64) float64) float64 {
	t.Helper()
	r, err := optimize.Minimize(optimize.Problem{
		Func: f,
		Grad: func(grad, x []float64) { fd.Gradient(grad, f, x, central) },
	}, make([]float64, n), &optimize.Settings{GradientThreshold: 1e-6}, &optimize.BFGS{})
	if err != nil {
		t.Fatal(err)
	}
	return r.F
}

// The loss is convex: each member ends where another optimiser does, from any start.
func TestFitsReachTheOptimum(t *testing.T) {
	t.Parallel()
	for _, bias := range []bool{false, true} {
		h := softmaxHead(3, 2, bias)
		s := clouds(60, 2, 3, 0.7, 12)
		for i := range s.Features {
			s.Features[i] *= 40 // rates are in units of it
		}
		o := FitOptions{Epochs: 1500, Batch: 60, Rate: 0.1, Seed: 5}
		const leave = 25
		for _, fit := range []struct {
			name      string
			do        func() (*LastLayers, error)
			leavesOut func(member, example int) bool
		}{
			{"ensemble", func() (*LastLayers, error) { return FitEnsemble(background, s, h, 3, o) },
				func(int, int) bool { return false }},
			{"jackknife", func() (*LastLayers, error) { return FitJackknife(background, s, h, 0, leave, o) },
				jackknifeParts(60, 3, leave, 5)},
		} {
			l, err := fit.do()
			if err != nil {
				t.Fatal(err)
			}
			if l.layers.m != 3 {
				t.Fatalf("%s: %d members, want 3", fit.name, l.layers.m)
			}
			for m := range 3 {
				loss := func(w []float64) float64 {
					return meanLoss(s, h, w, func(example int) bool { return fit.leavesOut(m, example) })
				}
				// In units of the features, as the other optimiser wants them.
				want := minimum(t, 3*h.Dim(), func(w []float64) float64 {
					scaled := make([]float64, len(w))
					for i := range w {
						scaled[i] = w[i]
						if i%h.Dim() < 2 {
							scaled[i] /= 40
						}
					}
					return loss(scaled)
				})
				if got := loss(l.layers.layer(m)); !approx.Equal(got, want, 1e-6) {
					t.Errorf("bias %v, %s, member %d: loss %v, want %v", bias, fit.name, m, got, want)
				}
			}
		}
	}
}

// Scaled features give the same logits, long before the optimum.
func TestFitsDoNotDependOnTheScaleOfFeatures(t *testing.T) {
	t.Parallel()
	h, s := softmaxHead(3, 2, true), clouds(60, 2, 3, 1, 12)
	large := &rows.Batch{N: s.N, Features: slices.Clone(s.Features), Logits: s.Logits, Labels: s.Labels}
	for i := range large.Features {
		large.Features[i] *= 40
	}
	o := FitOptions{Epochs: 3, Batch: 20, Rate: 0.1, Start: 1}
	for name, fit := range map[string]func(s *rows.Batch) ([]float64, error){
		"ensemble": func(s *rows.Batch) ([]float64, error) {
			l, err := FitEnsemble(background, s, h, 1, o)
			if err != nil {
				return nil, err
			}
			return l.layers.layer(0), nil
		},
		"evidential": func(s *rows.Batch) ([]float64, error) {
			e, err := FitEvidential(background, s, h, EvidentialOptions{FitOptions: o})
			if err != nil {
				return nil, err
			}
			return e.layers.layer(0), nil
		},
	} {
		w, err := fit(s)
		if err != nil {
			t.Fatal(err)
		}
		other, err := fit(large)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 60 {
			want := naiveLogits(w, h, s.Features[i*2:i*2+2])
			for c, a := range naiveLogits(other, h, large.Features[i*2:i*2+2]) {
				if !approx.Equal(a, want[c], 1e-5) {
					t.Fatalf("%s: example %d: logit %d of features × 40 is %v, want %v", name, i, c, a, want[c])
				}
			}
		}
	}
}

// They come near the optimum, too.
func TestMinibatchesSeeEachExampleOnceAnEpoch(t *testing.T) {
	t.Parallel()
	h := softmaxHead(3, 2, true)
	s := clouds(61, 2, 3, 0.7, 12)
	tr, err := newTrainer(s, h, FitOptions{Batch: 10, Epochs: 3, Rate: 2}, FitOptions{})
	if err != nil {
		t.Fatal(err)
	}
	seen := make([]int, 61)
	var epochs []int
	var rates []float64
	err = tr.sweep(background, 0, func(done int) { epochs = append(epochs, done) }, func(b *batch) error {
		rates = append(rates, b.rate)
		for r, i := range b.examples {
			seen[i]++
			for j, v := range b.x[r*3 : r*3+3] {
				if j == 2 && v != 1 || j < 2 && float32(v) != s.Features[i*2+j] {
					t.Fatalf("example %d has features %v", i, b.x[r*3:r*3+3])
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, n := range seen {
		if n != 3 {
			t.Errorf("example %d was seen %d times in 3 epochs", i, n)
		}
	}
	if fmt.Sprint(epochs) != "[1 2 3]" {
		t.Errorf("epochs %v", epochs)
	}
	if n := len(rates); n != 21 || rates[0] != 2 || !approx.Equal(rates[7], 1.5, 1e-12) || rates[n-1] > 0.02 {
		t.Errorf("rates %v, want 21 from 2 to almost 0", rates)
	}

	l, err := FitEnsemble(background, s, h, 2, FitOptions{Epochs: 300, Batch: 10, Rate: 0.03})
	if err != nil {
		t.Fatal(err)
	}
	none := func(int) bool { return false }
	want := minimum(t, 9, func(w []float64) float64 { return meanLoss(s, h, w, none) })
	for m := range 2 {
		if got := meanLoss(s, h, l.layers.layer(m), none); got-want > 1e-3 {
			t.Errorf("member %d: loss %v, want %v", m, got, want)
		}
	}
}

func TestInitialLogitsHaveTheirStandardDeviation(t *testing.T) {
	t.Parallel()
	const d = 500
	h := softmaxHead(40, d, true)
	s := &rows.Batch{N: 1, Features: normals(rand.New(rand.NewPCG(1, 1)), d, 30), Logits: make([]float32, 40),
		Labels: []int{0}}
	tr, err := newTrainer(s, h, FitOptions{Start: 4}, FitOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var square float64
	const layers = 50
	for m := range layers {
		for _, a := range naiveLogits(tr.start(m), h, s.Features) {
			square += a * a / (40 * layers)
		}
	}
	// Six standard errors of 2,000 squares.
	if !approx.Relative(square, 16, 6*math.Sqrt(2./2000)) {
		t.Errorf("logits of random starts have the variance %v, want 16", square)
	}
}

// Weights are uniform up to 1/√d in units of 1/r, and hardly change at a tiny learning rate.
func TestEnsemblesStartUniformly(t *testing.T) {
	t.Parallel()
	const d, k = 100, 5
	s := clouds(50, d, k, 1, 14)
	for i := range s.Features {
		s.Features[i] = float32(math.Copysign(8, float64(s.Features[i]))) // r = 8
	}
	h := softmaxHead(k, d, false)
	l, err := FitEnsemble(background, s, h, 3, FitOptions{Epochs: 1, Rate: 1e-9})
	if err != nil {
		t.Fatal(err)
	}
	const bound = 1. / (8 * 10)
	for m := range 3 {
		var least, most float64
		for _, w := range l.layers.layer(m) {
			least, most = min(least, w), max(most, w)
		}
		// Of 500 numbers the largest is below 0.97 of the bound once in 2,000.
		if !(most <= bound+1e-7 && most > 0.97*bound && least >= -bound-1e-7 && least < -0.97*bound) {
			t.Errorf("member %d: weights from %v to %v, want them up to ±%v", m, least, most, bound)
		}
	}
}

func TestFeaturesOfZeroAreFitted(t *testing.T) {
	t.Parallel()
	s := &rows.Batch{N: 10, Features: make([]float32, 20), Logits: make([]float32, 30), Labels: []int{0, 1, 2, 0, 1, 2,
		0, 1, 2, 0}}
	h := softmaxHead(3, 2, false)
	l, err := FitEnsemble(background, s, h, 2, FitOptions{})
	if err != nil {
		t.Fatal(err)
	}
	v, err := FitVariational(background, s, h, []float64{1, 2, 3, 4, 5, 6}, VariationalOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range append(append(l.layers.layer(0), v.Mean...), v.Variance...) {
		if math.IsNaN(w) || math.IsInf(w, 0) {
			t.Fatalf("weights %v, means %v, variances %v", l.layers.layer(0), v.Mean, v.Variance)
		}
	}
}

func TestJackknifePartsPartitionTheExamples(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ n, members, leave int }{{10, 3, 4}, {100, 25, 10}, {7, 7, 1}, {1000, 4, 500}} {
		leavesOut := jackknifeParts(c.n, c.members, c.leave, 1)
		parts := (c.n + c.leave - 1) / c.leave
		out := make([]int, c.n)
		for m := range c.members {
			size := 0
			for i := range c.n {
				if leavesOut(m, i) {
					size++
					out[i]++
				}
			}
			want := c.leave
			if m%parts == parts-1 {
				want = c.n - (parts-1)*c.leave
			}
			if size != want {
				t.Errorf("%+v: member %d leaves out %d, want %d", c, m, size, want)
			}
		}
		for i, times := range out {
			if times < c.members/parts || times > (c.members+parts-1)/parts {
				t.Errorf("%+v: example %d is left out %d times", c, i, times)
			}
		}
	}
	first, other := jackknifeParts(100, 20, 10, 1), 0
	for i := range 100 {
		if first(0, i) != first(10, i) {
			other++
		}
	}
	if other == 0 {
		t.Error("the second round has the parts of the first")
	}
}

func TestFitsReportProgress(t *testing.T) {
	t.Parallel()
	s, h := clouds(40, 2, 3, 1, 1), softmaxHead(3, 2, true)
	w := []float64{1, 2, 3, 4, 5, 6, 7, 8, 9}
	for name, fit := range map[string]func(o FitOptions) error{
		"ensemble": func(o FitOptions) error { _, err := FitEnsemble(background, s, h, 180, o); return err },
		"variational": func(o FitOptions) error {
			_, err := FitVariational(background, s, h, w, VariationalOptions{FitOptions: o})
			return err
		},
		"evidential": func(o FitOptions) error {
			_, err := FitEvidential(background, s, h, EvidentialOptions{FitOptions: o})
			return err
		},
	} {
		last, all := 0, 0
		err := fit(FitOptions{Epochs: 2, Progress: func(done, total int) {
			if done <= last || done > total {
				t.Errorf("%s: %d of %d after %d", name, done, total, last)
			}
			last, all = done, total
		}})
		if err != nil {
			t.Fatal(err)
		}
		if last != all || all == 0 {
			t.Errorf("%s: ended at %d of %d", name, last, all)
		}
	}
}
