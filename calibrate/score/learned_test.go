package score

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/internal/approx"
)

// inAndOut is a scene's head with in- and out-of-distribution examples, of other features and a larger
// leverage.
func inAndOut(s *scene) (in, out Examples) {
	rng := rand.New(rand.NewPCG(7, uint64(s.k)))
	draw := func(n int, scale float64) Examples {
		x := Examples{N: n, K: s.k, D: s.d, Link: s.link, Variance: make([]float64, n*s.k)}
		for range n {
			for range s.d {
				x.Features = append(x.Features, float32(max(0, scale+rng.NormFloat64())))
			}
			x.Leverage = append(x.Leverage, (0.5+rng.Float64())*(1.5-scale))
		}
		x.Logits = logitsOf(x.Features, s.w, s.b)
		return x
	}
	return draw(300, 1), draw(200, 0.5)
}

// The weights are where the loss has its least value among those that are not negative: no step
// downhill is left.
func TestRegressionFindsTheLeastLoss(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		rng := rand.New(rand.NewPCG(seed, 3))
		const d = 4
		draw := func(n int, shift float64) (all [][]float64) {
			for range n {
				row := make([]float64, d)
				for j := range row {
					row[j] = rng.NormFloat64() + shift*float64(j-1) // the first falls, the second tells nothing
				}
				row[3] = row[2] + 0.1*row[3] // nearly the same as another
				all = append(all, row)
			}
			return all
		}
		l := &loss{in: draw(150, 0), out: draw(90, 0.7), d: d}
		w, err := regress(l.in, l.out, d)
		if err != nil {
			t.Fatal(err)
		}
		// The best intercept for the weights, by bisection of the loss's slope.
		low, high := -50.0, 50.0
		for range 200 {
			middle := (low + high) / 2
			if _, slope, _ := l.at(append(slices.Clone(w), middle)); slope[d] > 0 {
				high = middle
			} else {
				low = middle
			}
		}
		at := append(slices.Clone(w), low)
		least := l.value(at)
		if w[0] != 0 {
			t.Errorf("seed %d: weight %v of what falls, want 0", seed, w[0])
		}
		// There the slope of the loss by its definition is 0, for all weights that are not 0: both kinds have
		// half of the weight, however many examples there are of each.
		for j := range at {
			slope := 0.0
			if j < d {
				slope = 0.01 * at[j]
			}
			for target, rows := range [][][]float64{l.in, l.out} {
				for _, row := range rows {
					row := append(slices.Clone(row), 1)
					s := 0.0
					for i, v := range row {
						s += at[i] * v
					}
					slope += (1/(1+math.Exp(-s)) - float64(target)) * row[j] / float64(2*len(rows))
				}
			}
			if !approx.Equal(slope, 0, 1e-7) && (j == d || at[j] > 0 || slope < 0) {
				t.Errorf("seed %d: the slope along weight %d, %v, is %v", seed, j, at[j], slope)
			}
		}
		for range 3000 {
			other := slices.Clone(at)
			for j := range other {
				other[j] += math.Pow(10, -4*rng.Float64()) * rng.NormFloat64()
				if j < d {
					other[j] = max(0, other[j])
				}
			}
			if v := l.value(other); v < least-1e-12 {
				t.Fatalf("seed %d: loss %v at %v, %v at %v", seed, v, other, least, at)
			}
		}
		// Its derivatives are those of differences.
		_, slope, curvature := l.at(at)
		for j := range at {
			const h = 1e-5
			up, down := slices.Clone(at), slices.Clone(at)
			up[j] += h
			down[j] -= h
			if want := (l.value(up) - l.value(down)) / (2 * h); !approx.Equal(slope[j], want, 1e-7) {
				t.Errorf("slope %d is %v, by differences %v", j, slope[j], want)
			}
			_, above, _ := l.at(up)
			_, below, _ := l.at(down)
			for i := range at {
				if want := (above[i] - below[i]) / (2 * h); !approx.Equal(curvature.At(i, j), want, 1e-7) {
					t.Errorf("curvature %d,%d is %v, by differences %v", i, j, curvature.At(i, j), want)
				}
			}
		}
	}
}

func TestTheLearnedScoreIsTheSumOfItsParts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		link layer.Link
		k, d int
	}{{layer.Softmax, 4, 9}, {layer.OneVsRest, 3, 6}, {layer.Sigmoid, 1, 5}, {layer.Sigmoid, 4, 7}} {
		s := newScene(c.link, c.k, c.d, 120, 21)
		in, out := inAndOut(s)
		f, err := Learn(s.Training, in, out)
		if err != nil {
			t.Fatal(err)
		}
		got := f.Values(out)
		weights := f.Tensors.Of(partWeights).Data
		want := make([]float64, out.N)
		for j, p := range parts {
			if weights[j] < 0 {
				t.Errorf("%s has the weight %v", p.Name, weights[j])
			}
			fitted := must(p.Fit(s.Training))
			usual := fitted.Values(in)
			slices.Sort(usual)
			at := func(q float64) float64 {
				h := q * float64(len(usual)-1)
				low := usual[int(h)]
				return low + (h-math.Floor(h))*(usual[min(int(h)+1, len(usual)-1)]-low)
			}
			for i, v := range fitted.Values(out) {
				z := (v - at(0.5)) / ((at(0.75) - at(0.25)) / 2)
				want[i] += weights[j] * 4 * math.Asinh(z/4)
			}
		}
		for i := range got {
			if !approx.Equal(got[i], want[i], 1e-9*(1+math.Abs(want[i]))) {
				t.Errorf("%s: example %d has %v, want %v", c.link, i, got[i], want[i])
			}
		}
		if again := must(learned.With(c.k, c.d, f.Tensors)).Values(out); !slices.Equal(again, got) {
			t.Errorf("%s: with its tensors it gives other values", c.link)
		}
	}
}

// f(z) keeps its digits for small z, increases everywhere and is odd.
func TestSqueezedIsOddAndRises(t *testing.T) {
	t.Parallel()
	terms := Numbers(Examples{N: 1})
	last := math.Inf(-1)
	for e := 30.; e >= -30; e-- {
		z := -math.Pow(10, e)
		got := compressed(terms, terms.Number(z)).Data[0]
		if want := 4 * math.Asinh(z/4); !approx.Relative(got, want, 1e-13) {
			t.Errorf("f(%v) = %v, want %v", z, got, want)
		}
		if opposite := compressed(terms, terms.Number(-z)).Data[0]; opposite != -got {
			t.Errorf("f(%v) = %v, f(%v) = %v", z, got, -z, opposite)
		}
		if !(got > last) {
			t.Errorf("f(%v) = %v does not rise from %v", z, got, last)
		}
		last = got
	}
	if got := compressed(terms, terms.Number(0)).Data[0]; got != 0 {
		t.Errorf("f(0) = %v", got)
	}
}

// Without training data the parts that learn from it are left out, and their tensors with them.
func TestTheLearnedScoreSkipsPartsThatCannotBeFitted(t *testing.T) {
	t.Parallel()
	s := newScene(layer.Softmax, 4, 9, 120, 22)
	in, out := inAndOut(s)
	noWeights := newScene(layer.Softmax, 4, 9, 120, 22).Training
	noWeights.W, noWeights.B = nil, nil
	for name, training := range map[string]*Training{"no training data": nil, "no weights of the layer": noWeights} {
		f, err := Learn(training, in, out)
		if err != nil {
			t.Fatal(err)
		}
		w := f.Tensors.Of(partWeights).Data
		if len(f.Tensors) != 3 || w[2] != 0 || w[3] != 0 || slices.Max(w) <= 0 {
			t.Errorf("%s: %d tensors and the weights %v", name, len(f.Tensors), w)
		}
	}
	// One example that is not finite is none to learn from.
	broken := out
	broken.Leverage = slices.Clone(out.Leverage)
	broken.Leverage[0] = math.NaN()
	less := must(Learn(s.Training, in, broken))
	if got := less.Values(broken)[0]; got-got == 0 {
		t.Errorf("an example without a leverage has %v", got)
	}
}

func TestLearnedScoresThatCannotBeFittedReturnErrNoFit(t *testing.T) {
	t.Parallel()
	s := newScene(layer.Softmax, 4, 9, 120, 23)
	in, out := inAndOut(s)
	if _, err := Learn(s.Training, in, in); !errors.Is(err, ErrNoFit) ||
		!strings.Contains(err.Error(), "no score is higher for the OOD examples") {
		t.Errorf("of the same examples: %v", err)
	}
	none := in
	none.Leverage = make([]float64, none.N)
	for i := range none.Leverage {
		none.Leverage[i] = math.NaN()
	}
	if _, err := Learn(s.Training, none, out); !errors.Is(err, ErrNoFit) || !strings.Contains(err.Error(), "finite values of all scores") {
		t.Errorf("of examples without leverages: %v", err)
	}
	if _, err := Learn(s.Training, out, none); !errors.Is(err, ErrNoFit) || !strings.Contains(err.Error(), "finite values of all scores") {
		t.Errorf("with out-of-distribution examples without leverages: %v", err)
	}
	if _, err := learned.Fit(s.Training); !errors.Is(err, ErrNoFit) {
		t.Errorf("of training data alone: %v", err)
	}
	f := must(Learn(s.Training, in, out))
	for name, change := range map[string]func(t Tensors) Tensors{
		"nothing":     func(Tensors) Tensors { return nil },
		"no weights":  func(t Tensors) Tensors { return t[1:] },
		"few weights": func(t Tensors) Tensors { t[0] = Tensor{partWeights, []int{4}, t[0].Data[:4]}; return t },
		"one weight more": func(t Tensors) Tensors {
			w := []float64{1, 1, 1, 1, 1}
			t[0] = Tensor{partWeights, []int{5}, w}
			return t[:3]
		},
		"a tensor more": func(t Tensors) Tensors { return append(t, Tensor{"more", []int{1}, []float64{1}}) },
	} {
		if _, err := learned.With(4, 9, change(slices.Clone(f.Tensors))); err == nil {
			t.Errorf("%s: it is taken", name)
		}
	}
}
