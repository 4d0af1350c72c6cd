package score

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/internal/approx"
)

// The bounded forms by their definitions.
func TestServedScoresAreBounded(t *testing.T) {
	t.Parallel()
	g := Served{Fitted: Fitted{Score: &studentized}, Median: 2}
	for value, want := range map[float64]float64{
		0: 1, -2: 0.5, -20: 2.0 / 22, -1e300: 2e-300, math.NaN(): 1, math.Inf(1): 1, math.Inf(-1): 1,
	} {
		if got := g.Bounded(value); !approx.Relative(got, want, 1e-15) {
			t.Errorf("similarity: %v became %v, want %v", value, got, want)
		}
	}
	z := Served{Fitted: Fitted{Score: &energy}, Median: -5, Scale: 4}
	for value, want := range map[float64]float64{
		-5: 0.5, -9: 0.25, -1: 0.75, -4e300: 0.5e-300, 4e10: 1 - 0.5e-10,
		math.NaN(): 1, math.Inf(1): 1, math.Inf(-1): 1,
	} {
		if got := z.Bounded(value); !approx.Relative(got, want, 1e-9) {
			t.Errorf("energy: %v became %v, want %v", value, got, want)
		}
	}
}

func TestServedScoresKeepTheOrder(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(21, 22))
	for _, s := range []Score{studentized, energy} {
		values := numbers(rng, 1000)
		for i, v := range values {
			if values[i] = 1e3 * v * v * v; s.Similarity {
				values[i] = -math.Abs(values[i])
			}
		}
		served := Serve(&Fitted{Score: &s}, values)
		slices.Sort(values)
		for i, v := range values[1:] {
			if low, high := served.Bounded(values[i]), served.Bounded(v); !(low < high) {
				t.Errorf("%s: %v and %v became %v and %v", s.Name, values[i], v, low, high)
			}
		}
	}
}

// The percentile of an example of those that were held out is the share that scores lower.
func TestPercentilesAreFractionsOfTheValidationData(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(23, 24))
	for _, n := range []int{1, 2, 3, 100, 257, 5000} {
		x := examples(rng, n, 4)
		for _, s := range All {
			if s.NeedsFitting() {
				continue
			}
			f, _ := s.Fit(nil)
			values := f.Values(x)
			served := Serve(f, values)
			if len(served.Quantiles) > MostQuantiles || !slices.IsSorted(served.Quantiles) {
				t.Fatalf("%s: %d quantiles %v", s.Name, len(served.Quantiles), served.Quantiles)
			}
			got, percentiles := served.Values(x)
			for i, p := range percentiles {
				lower := 0
				for _, v := range values {
					if v < values[i] {
						lower++
					}
				}
				// The same, found in another way.
				one := Numbers(Examples{N: 1})
				same := shareOf(one, served.Quantiles, one.Number(got[i]), one.Number(1)).Data[0]
				if !approx.Equal(p, same, 1e-12) {
					t.Errorf("%s: percentile %v, want %v", s.Name, p, same)
				}
				if got[i] != served.Bounded(values[i]) {
					t.Errorf("%s: %v is served as %v, want %v", s.Name, values[i], got[i], served.Bounded(values[i]))
				}
				// Between quantiles, and one example itself.
				if want := float64(lower) / float64(n); !(math.Abs(p-want) <= 1.0/256+1.0/float64(n)) {
					t.Errorf("%s of %d examples: percentile %v, want %v", s.Name, n, p, want)
				}
			}
		}
	}
}

func TestPercentilesOfEqualScoresAreSteps(t *testing.T) {
	t.Parallel()
	s := Serve(&Fitted{Score: &energy}, []float64{1, 1, 1, 1})
	for value, want := range map[float64]float64{1: 0, math.Nextafter(1, 2): 1, 0: 0, math.NaN(): 1} {
		x := Numbers(examples(rand.New(rand.NewPCG(27, 28)), 1, 3))
		ood, known := oodScore(x, s, x.Number(value))
		if got := shareOf(x, s.Quantiles, ood, known).Data[0]; got != want {
			t.Errorf("%v is above %v of the held-out examples, want %v", value, got, want)
		}
	}
}

// Beyond all validation examples the share that scores lower is 1, and below them 0; between two it is in
// proportion, and the graph's formula gives the same.
func TestPercentilesEndAtTheEnds(t *testing.T) {
	t.Parallel()
	s := Serve(&Fitted{Score: &energy}, []float64{2, -2, -3, 0, -1})
	q := s.Quantiles
	if s.Median != -1 || s.Scale != 1 || len(q) != 5 { // quartiles -2 and 0
		t.Fatalf("median %v, scale %v and %d quantiles, want -1, 1 and 5", s.Median, s.Scale, len(q))
	}
	for score, want := range map[float64]float64{
		0: 0, q[0]: 0, (q[0] + q[1]) / 2: 1. / 8, q[2]: 0.5, q[4]: 1, math.Nextafter(q[4], 1): 1, 1: 1,
	} {
		if got := s.share(score); !approx.Equal(got, want, 1e-12) {
			t.Errorf("%v is above %v of %v, want %v", score, got, q, want)
		}
		one := Numbers(Examples{N: 1})
		if got := shareOf(one, q, one.Number(score), one.Number(1)).Data[0]; !approx.Equal(got, want, 1e-12) {
			t.Errorf("in a graph %v is above %v of %v, want %v", score, got, q, want)
		}
	}
}

// A feature or logit that is not finite gives an example the highest score.
func TestNonFiniteInputsGetTheHighestScore(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(25, 26))
	for _, link := range layer.All {
		for _, s := range All {
			if s.NeedsFitting() {
				continue
			}
			for _, bad := range []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))} {
				x := examples(rng, 3, 5)
				x.Link = link
				f, _ := s.Fit(nil)
				served := Serve(f, f.Values(x))
				x.Features[1], x.Logits[8] = bad, bad
				if got, share := served.Values(x); got[0] != 1 || got[1] != 1 || !(got[2] < 1) || share[0] != 1 {
					t.Errorf("%s, %s of %v: %v, shares %v", s.Name, link, bad, got, share)
				}
			}
		}
	}
}
