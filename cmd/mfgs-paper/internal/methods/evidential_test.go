package methods

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/meanfield"
	"github.com/mfgs/mfgs/internal/approx"
	"gonum.org/v1/gonum/diff/fd"
	"gonum.org/v1/gonum/mathext"
	"gonum.org/v1/gonum/stat/distmv"
)

var evidences = []Evidence{ReLU, Softplus, Exp}

func naiveAlpha(e Evidence, a float64) float64 {
	switch e {
	case ReLU:
		return 1 + math.Max(0, a)
	case Softplus:
		return 1 + math.Log(1+math.Exp(a))
	}
	return 1 + math.Exp(a)
}

func TestEvidentialIsTheDirichletMean(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 1))
	for _, evidence := range evidences {
		for _, k := range []int{2, 7} {
			logits := normals(rng, 20*k, 6)
			e, err := NewEvidential(logits, k, evidence)
			if err != nil {
				t.Fatal(err)
			}
			if e.Len() != 20 || e.Probabilities() != k || e.MedianVariance() != 0 {
				t.Fatalf("%d examples of %d outcomes with spread %v", e.Len(), e.Probabilities(), e.MedianVariance())
			}
			predict, logp := e.Predictor(), make([]float64, k)
			for i := range 20 {
				for _, act := range []float64{0.5, 1, 4} {
					want := make([]float64, k)
					var sum float64
					for c := range want {
						want[c] = naiveAlpha(evidence, float64(logits[i*k+c])/act)
						sum += want[c]
					}
					for c := range want {
						want[c] /= sum
					}
					rest := meanfield.OneMinusMax(predict(logp, i, layer.Temperatures{Act: act, Ens: 1}), len(logp))
					wantProbabilities(t, fmt.Sprintf("%s, example %d, T_act %v", evidence, i, act), logp, rest, want, 1e-12)
				}
			}
		}
	}
}

func TestEvidentialIsFiniteForExtremeLogits(t *testing.T) {
	t.Parallel()
	for _, evidence := range evidences {
		e, err := NewEvidential([]float32{3e38, -3e38, 1e38, -1000, -1e4, -1e5}, 3, evidence)
		if err != nil {
			t.Fatal(err)
		}
		logp := make([]float64, 3)
		predict := e.Predictor()
		for i := range 2 {
			rest := meanfield.OneMinusMax(predict(logp, i, layer.Temperatures{Act: 0.02, Ens: 1}), len(logp))
			for _, v := range append(logp, rest) {
				if math.IsNaN(v) || math.IsInf(v, 0) {
					t.Errorf("%s: log-probabilities %v, rest %v", evidence, logp, rest)
				}
			}
		}
		if !approx.Equal(logp[0], -math.Log(3), 1e-12) {
			t.Errorf("%s: without evidence log p is %v, want log ⅓", evidence, logp)
		}
	}
}

func TestTrigammaIsAccurate(t *testing.T) {
	t.Parallel()
	for x, want := range map[float64]float64{
		1:   math.Pi * math.Pi / 6,
		0.5: math.Pi * math.Pi / 2,
		2:   math.Pi*math.Pi/6 - 1,
		1e8: 1e-8 + 0.5e-16,
	} {
		if got := trigamma(x); !approx.Relative(got, want, 1e-13) {
			t.Errorf("ψ'(%v) is %v, want %v", x, got, want)
		}
	}
	for x := 0.3; x < 1e4; x *= 1.3 {
		// Hurwitz' zeta function of 2 is ψ'.
		if got, want := trigamma(x), mathext.Zeta(2, x); !approx.Relative(got, want, 1e-13) {
			t.Errorf("ψ'(%v) is %v, want %v", x, got, want)
		}
	}
	if v := trigamma(1e300); !(v > 0 && v < 1e-299) {
		t.Errorf("ψ'(1e300) is %v", v)
	}
}

// naiveEvidentialLoss is the loss as Sensoy et al. print it.
func naiveEvidentialLoss(z []float64, y int, evidence Evidence, lambda float64) (risk, divergence float64) {
	alpha, beta := make([]float64, len(z)), make([]float64, len(z))
	var s, b float64
	for c, a := range z {
		alpha[c] = naiveAlpha(evidence, a)
		beta[c] = alpha[c]
		if c == y {
			beta[c] = 1
		}
		s += alpha[c]
		b += beta[c]
	}
	for c, a := range alpha {
		p, target := a/s, 0.0
		if c == y {
			target = 1
		}
		risk += (target-p)*(target-p) + p*(1-p)/(s+1)
	}
	lgamma := func(x float64) float64 { v, _ := math.Lgamma(x); return v }
	divergence = lgamma(b) - lgamma(float64(len(z)))
	for _, v := range beta {
		divergence += -lgamma(v) + (v-1)*(mathext.Digamma(v)-mathext.Digamma(b))
	}
	return risk, lambda * divergence
}

func TestEvidentialGradientsAreFiniteDifferences(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(4, 1))
	for _, evidence := range evidences {
		for range 40 {
			z := make([]float64, 2+rng.IntN(5))
			for c := range z {
				z[c] = 2 * rng.NormFloat64()
			}
			y, lambda := rng.IntN(len(z)), rng.Float64()
			want := fd.Gradient(nil, func(z []float64) float64 {
				risk, divergence := naiveEvidentialLoss(z, y, evidence, lambda)
				return risk + divergence
			}, z, central)
			got := slices.Clone(z)
			evidentialLoss(got, y, evidence, lambda)
			for c := range z {
				if !approx.Equal(got[c], want[c], 1e-7*(1+math.Abs(want[c]))) {
					t.Fatalf("%s, logits %v, y %d, λ %v: derivative %d is %v, want %v", evidence, z, y, lambda, c, got[c], want[c])
				}
			}
		}
		z := []float64{300, -300, 800, 0}
		evidentialLoss(z, 0, evidence, 1)
		for _, g := range z {
			if math.IsNaN(g) || math.IsInf(g, 0) {
				t.Errorf("%s: derivatives %v of far logits", evidence, z)
			}
		}
	}
}

func TestTheNaiveEvidentialLossAgreesWithSampling(t *testing.T) {
	t.Parallel()
	const draws = 200000
	z, y := []float64{1.2, 0.3, -2, 2}, 3
	for _, evidence := range evidences {
		alpha, beta := make([]float64, 4), make([]float64, 4)
		for c, a := range z {
			alpha[c] = naiveAlpha(evidence, a)
			beta[c] = alpha[c]
		}
		beta[y] = 1
		src := rand.NewPCG(1, 1)
		of, wrong, flat := distmv.NewDirichlet(alpha, src), distmv.NewDirichlet(beta,
			src), distmv.NewDirichlet([]float64{1, 1, 1, 1}, nil)
		var risk, risk2, divergence, divergence2 float64
		p := make([]float64, 4)
		for range draws {
			var x float64
			for c, v := range of.Rand(p) {
				if c == y {
					v--
				}
				x += v * v
			}
			risk += x / draws
			risk2 += x * x / draws
			wrong.Rand(p)
			x = wrong.LogProb(p) - flat.LogProb(p)
			divergence += x / draws
			divergence2 += x * x / draws
		}
		wantRisk, wantDivergence := naiveEvidentialLoss(z, y, evidence, 1)
		if !approx.Equal(risk, wantRisk, 6*math.Sqrt((risk2-risk*risk)/draws)) {
			t.Errorf("%s: risk %v, sampled %v", evidence, wantRisk, risk)
		}
		if !approx.Equal(divergence, wantDivergence, 6*math.Sqrt((divergence2-divergence*divergence)/draws)) {
			t.Errorf("%s: divergence %v, sampled %v", evidence, wantDivergence, divergence)
		}
	}
}

// Few points, each with examples of all classes, keep the optimum finite. The kinks of relu are unsuitable for the
// other optimiser.
func TestEvidentialFitsReachTheOptimum(t *testing.T) {
	t.Parallel()
	h := softmaxHead(3, 2, true)
	s := clouds(100, 2, 3, 1, 12)
	for i, v := range s.Features {
		s.Features[i] = float32(math.Copysign(1, float64(v)))
	}
	for _, evidence := range []Evidence{Softplus, Exp} {
		e, err := FitEvidential(background, s, h, EvidentialOptions{Evidence: evidence,
			FitOptions: FitOptions{Epochs: 1000, Batch: 100, Rate: 0.2}})
		if err != nil {
			t.Fatal(err)
		}
		loss := func(w []float64) (sum float64) {
			for i, y := range s.Labels {
				risk, divergence := naiveEvidentialLoss(naiveLogits(w, h, s.Features[i*2:i*2+2]), int(y), evidence, 1)
				sum += (risk + divergence) / 100
			}
			return sum
		}
		want := minimum(t, 9, loss)
		if got := loss(e.layers.layer(0)); !approx.Equal(got, want, 1e-4) {
			t.Errorf("%s: loss %v, want %v", evidence, got, want)
		}
	}
}

// A fit of few full-batch steps, repeated with λ = step / annealing, up to 1.
func TestTheDivergenceIsAnnealed(t *testing.T) {
	t.Parallel()
	h, s := softmaxHead(3, 2, true), clouds(40, 2, 3, 1, 13)
	for _, c := range []struct {
		epochs    int
		annealing float64
		lambdas   []float64
	}{
		{6, 4, []float64{0, 0.25, 0.5, 0.75, 1, 1}},
		{6, 0, []float64{0, 1. / 3, 2. / 3, 1, 1, 1}}, // over half of them
		{30, 0, []float64{0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9}},
		{4, 1e9, []float64{0, 0, 0, 0}},
	} {
		o := EvidentialOptions{Evidence: Softplus, Annealing: c.annealing, FitOptions: FitOptions{Epochs: c.epochs,
			Batch: 40, Rate: 0.3, Start: 2}}
		tr, err := newTrainer(s, h, o.FitOptions, FitOptions{})
		if err != nil {
			t.Fatal(err)
		}
		w := tr.start(0) // [K,D]
		mean, square := make([]float64, 9), make([]float64, 9)
		for step := range c.epochs {
			lambda := 1.0
			if step < len(c.lambdas) {
				lambda = c.lambdas[step]
			}
			gradient := make([]float64, 9)
			for i, y := range s.Labels {
				phi := s.Features[i*2 : i*2+2]
				z := naiveLogits(w, h, phi)
				evidentialLoss(z, int(y), Softplus, lambda)
				for k, g := range z {
					gradient[k*3] += g * float64(phi[0]) / 40
					gradient[k*3+1] += g * float64(phi[1]) / 40
					gradient[k*3+2] += g / 40
				}
			}
			rate := 0.3 * (1 + math.Cos(math.Pi*float64(step)/float64(c.epochs))) / 2
			for i, g := range gradient {
				mean[i] = 0.9*mean[i] + 0.1*g
				square[i] = 0.999*square[i] + 0.001*g*g
				n := float64(step + 1)
				w[i] -= rate * tr.unit[i%3] * mean[i] / (1 - math.Pow(0.9,
					n)) / (math.Sqrt(square[i]/(1-math.Pow(0.999, n))) + 1e-8)
			}
		}
		e, err := FitEvidential(background, s, h, o)
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range e.layers.layer(0) {
			if !approx.Equal(v, w[i], 1e-6) {
				t.Fatalf("%d epochs, annealing %v: weight %d is %v, want %v", c.epochs, c.annealing, i, v, w[i])
			}
		}
	}
}
