package score

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/internal/approx"
)

// probabilities are those of the network itself, by their definition.
func probabilities(by layer.Link, a []float64) []float64 {
	p := make([]float64, len(a))
	sum := 0.0
	for k, v := range a {
		if p[k] = 1 / (1 + math.Exp(-v)); by == layer.Softmax {
			p[k] = math.Exp(v)
		}
		sum += p[k]
	}
	switch {
	case by != layer.Sigmoid:
		for k := range p {
			p[k] /= sum
		}
	case len(a) == 1:
		p = []float64{1 - p[0], p[0]}
	}
	return p
}

// slow are the scores by their definitions, of moderate logits a and leverage h.
var slow = map[string]func(by layer.Link, a []float64, h float64) float64{
	"studentized":     func(by layer.Link, a []float64, h float64) float64 { return -slowMargin(by, a) / math.Sqrt(h) },
	"margin_leverage": func(by layer.Link, a []float64, h float64) float64 { return -slowMargin(by, a) / h },
	"leverage":        func(_ layer.Link, _ []float64, h float64) float64 { return h },
	"max_logit":       func(by layer.Link, a []float64, _ float64) float64 { return -slices.Max(twoOf(by, a)) },
	"energy":          slowEnergy,
	"studentized_energy": func(by layer.Link, a []float64, h float64) float64 {
		return slowEnergy(by, a, h) / math.Sqrt(h)
	},
	"entropy": func(by layer.Link, a []float64, _ float64) (sum float64) {
		for _, p := range probabilities(by, a) {
			sum -= p * math.Log(p)
			if by == layer.Sigmoid && len(a) > 1 {
				sum -= (1 - p) * math.Log(1-p)
			}
		}
		return math.Log(sum)
	},
	"gen": func(by layer.Link, a []float64, _ float64) (sum float64) {
		p := probabilities(by, a)
		if by != layer.Sigmoid {
			slices.Sort(p)
			slices.Reverse(p)
			p = p[:min(len(p), 100)]
		}
		for _, p := range p {
			one := math.Pow(p, 0.1) * math.Pow(1-p, 0.1)
			if sum += one; by == layer.Sigmoid && len(a) > 1 {
				sum += one // of the label's absence
			}
		}
		return math.Log(sum)
	},
}

func slowMargin(by layer.Link, a []float64) float64 {
	var sum, size float64
	for _, v := range a {
		sum += v
		size += math.Abs(v)
	}
	if by == layer.Sigmoid {
		return size / float64(len(a))
	}
	return slices.Max(a) - sum/float64(len(a))
}

// twoOf are the two logits that one stands for.
func twoOf(by layer.Link, a []float64) []float64 {
	if by == layer.Sigmoid && len(a) == 1 {
		return []float64{-a[0] / 2, a[0] / 2}
	}
	return a
}

func slowEnergy(by layer.Link, a []float64, _ float64) float64 {
	var sum, joint float64
	for _, v := range twoOf(by, a) {
		sum += math.Exp(v)
		joint += math.Log(1 + math.Exp(v))
	}
	if by == layer.Softmax || len(a) == 1 {
		return -math.Log(sum)
	}
	return -joint
}

// Each score of logits, variance and leverage against its definition, for every link.
func TestScoresAreTheirDefinitions(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(11, 12))
	for _, by := range layer.All {
		for _, k := range []int{1, 2, 5, 150} {
			if k == 1 && by != layer.Sigmoid {
				continue
			}
			x := examples(rng, 40, k)
			x.Link = by
			for i := range x.Logits {
				x.Logits[i] *= 4
			}
			x.Logits[0] = x.Logits[k-1] // tied
			for _, s := range All {
				if s.NeedsFitting() || s.Name == "mf0" || s.Correctness {
					continue
				}
				got := valuesOf(t, s, x)
				for i := range x.N {
					a := make([]float64, k)
					for j := range a {
						a[j] = float64(x.Logits[i*k+j])
					}
					want := slow[s.Name](by, a, x.Leverage[i])
					if !approx.Equal(got[i], want, 1e-10*(1+math.Abs(want))) {
						t.Fatalf("%s, %s of %d logits: %v, want %v", s.Name, by, k, got[i], want)
					}
				}
			}
		}
	}
}

// error_odds is log p(wrong)/p(right) of the softmax of both logits: far from 0 a difference of the logits has the
// digits that the probabilities lack.
func TestErrorOddsAreThoseOfTheAnswer(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(15, 16))
	x := Examples{N: 40, K: 2, Link: layer.Softmax, Nonlinear: true, Correctness: true}
	for range x.N * x.K {
		x.Logits = append(x.Logits, float32(rng.NormFloat64()))
	}
	for i, got := range valuesOf(t, errorOdds, x) {
		wrong, right := math.Exp(float64(x.Logits[2*i])), math.Exp(float64(x.Logits[2*i+1]))
		p := right / (wrong + right)
		if want := math.Log((1 - p) / p); !approx.Equal(got, want, 1e-10*(1+math.Abs(want))) {
			t.Errorf("logits %v: %v, want %v", x.Logits[2*i:2*i+2], got, want)
		}
	}
	x.N, x.Logits = 2, []float32{-16.6, 0, 0, -690}
	if got := valuesOf(t, errorOdds, x); got[0] != float64(float32(-16.6)) || got[1] != 690 {
		t.Errorf("of answers that are nearly certain: %v", got)
	}
}

func valuesOf(t *testing.T, s Score, x Examples) []float64 {
	t.Helper()
	f, err := s.Fit(nil)
	if err != nil {
		t.Fatal(err)
	}
	return f.Values(x)
}

func TestMF0IsItsMargin(t *testing.T) {
	t.Parallel()
	x := examples(rand.New(rand.NewPCG(13, 14)), 5, 3)
	for i, v := range valuesOf(t, mf0, x) {
		if v != -x.Margin[i] {
			t.Errorf("%v of the margin %v", v, x.Margin[i])
		}
	}
}

// Entropies of confident predictions keep their digits: their logarithms fall in proportion to the distance of the
// logits, as those of the definitions in higher precision do.
func TestEntropiesOfConfidentNetworksKeepTheirDigits(t *testing.T) {
	t.Parallel()
	const h = 1.5
	for _, gap := range []float64{1e-9, 1, 20, 36, 37, 40, 100, 300, 700} {
		for _, k := range []int{1, 2, 4} {
			by, a := layer.Softmax, make([]float32, k)
			a[0] = float32(gap)
			if k == 1 {
				by = layer.Sigmoid
			}
			x := Examples{N: 1, K: k, Link: by, Logits: a, Variance: make([]float64, k), Leverage: []float64{h}}
			gap := float64(a[0])
			others := float64(max(k-1, 1))
			// o = (K-1) exp(-gap): H = log(1+o) + gap o/(1+o).
			o := others * math.Exp(-gap)
			entropies := map[string]float64{"entropy": math.Log1p(o) + gap*o/(1+o)}
			// (o/(1+o)²)^γ of the first, and of each other e^-γgap (1+o-e^-gap)^γ / (1+o)^2γ.
			first := 0.1 * (math.Log(others) - gap - 2*math.Log1p(o))
			rest := 0.1 * (-gap + math.Log1p(o-math.Exp(-gap)) - 2*math.Log1p(o))
			entropies["gen"] = math.Exp(first) + others*math.Exp(rest)
			for name, want := range entropies {
				s, _ := Find(name)
				if got := valuesOf(t, *s, x)[0]; !approx.Relative(math.Exp(got), want, 1e-12) {
					t.Errorf("%s of %d logits %v apart: exp(%v), want %v", name, k, gap, got, want)
				}
			}
		}
	}
}

// Scores, served ones too, distinguish predictions at any level of confidence.
func TestEntropiesOfConfidentNetworksDoNotTie(t *testing.T) {
	t.Parallel()
	gaps := []float32{0, 1, 300, 744, 746, 800, 7e3, 8e3, 9e4, 1e10, 2e10, 1e30, 2e30}
	for _, by := range layer.All {
		for k := 1; k <= 4; k++ {
			if k == 1 && by != layer.Sigmoid {
				continue
			}
			x := Examples{N: len(gaps), K: k, D: 1, Link: by, Variance: make([]float64, len(gaps)*k),
				Leverage: make([]float64, len(gaps)), Features: make([]float32, len(gaps))}
			for _, gap := range gaps {
				for j := range k {
					x.Logits = append(x.Logits, -gap)
					if j == 0 {
						x.Logits[len(x.Logits)-1] = gap
					}
				}
			}
			for _, s := range []Score{entropy, gen} {
				f, err := s.Fit(nil)
				if err != nil {
					t.Fatal(err)
				}
				values := f.Values(x)
				ood, _, _ := Serve(f, values).Values(x)
				for i := range gaps[1:] {
					if !(values[i] > values[i+1] && ood[i] > ood[i+1]) {
						t.Errorf("%s, %s: %d logits ±%v have %v and %v, of ±%v %v and %v", s.Name, by, k, gaps[i], values[i],
							ood[i], gaps[i+1], values[i+1], ood[i+1])
					}
				}
			}
		}
	}
}

// A score that is a similarity is nowhere positive.
func TestSimilaritiesAreNotNegative(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(15, 16))
	for _, by := range layer.All {
		x := examples(rng, 200, 3)
		x.Link = by
		for _, s := range All {
			if !s.Similarity || s.NeedsFitting() {
				continue
			}
			if most := slices.Max(valuesOf(t, s, x)); most > 0 {
				t.Errorf("%s, %s: %v", s.Name, by, most)
			}
		}
	}
}
