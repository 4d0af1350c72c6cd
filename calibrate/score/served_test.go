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

// The percentile of a validation example is the fraction that scores lower.
func TestPercentilesAreFractionsOfTheValidationData(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(23, 24))
	for _, n := range []int{1, 2, 3, 100, 257, 5000} {
		x := examples(rng, n, 4)
		for _, s := range All {
			if s.NeedsFitting() {
				continue
			}
			x := x
			if s.Correctness {
				x = examples(rng, n, 2)
			}
			f, _ := s.Fit(nil)
			values := f.Values(x)
			served := Serve(f, values)
			if len(served.Quantiles) > MostQuantiles || !slices.IsSorted(served.Quantiles) {
				t.Fatalf("%s: %d quantiles %v", s.Name, len(served.Quantiles), served.Quantiles)
			}
			got, percentiles, pvalues := served.Values(x)
			for i, p := range percentiles {
				lower := 0
				for _, v := range values {
					if v < values[i] {
						lower++
					}
				}
				// The same, found in another way.
				one := Numbers(Examples{N: 1})
				score := one.Number(got[i])
				rank := rankOf(one, served.Quantiles, score)
				same := shareOf(one, served.Quantiles, rank, score, one.Number(1)).Data[0]
				if q := pvalueOf(one, served, rank, one.Number(1)).Data[0]; q != pvalues[i] {
					t.Errorf("%s: p-value %v, in a graph %v", s.Name, pvalues[i], q)
				}
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
		if got := shareOf(x, s.Quantiles, rankOf(x, s.Quantiles, ood), ood, known).Data[0]; got != want {
			t.Errorf("%v is above %v of the validation examples, want %v", value, got, want)
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
		if got := s.Percentile(score); !approx.Equal(got, want, 1e-12) {
			t.Errorf("%v is above %v of %v, want %v", score, got, q, want)
		}
		one := Numbers(Examples{N: 1})
		x := one.Number(score)
		if got := shareOf(one, q, rankOf(one, q, x), x, one.Number(1)).Data[0]; !approx.Equal(got, want, 1e-12) {
			t.Errorf("in a graph %v is above %v of %v, want %v", score, got, q, want)
		}
	}
}

// A feature or logit that is not finite gives an example the highest score, and so does a leverage beyond any sense.
func TestNonFiniteInputsGetTheHighestScore(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(25, 26))
	for _, link := range layer.All {
		for _, s := range All {
			if s.NeedsFitting() {
				continue
			}
			for _, bad := range []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), 1e19} {
				k := 5
				if s.Correctness {
					k = 2
				}
				x := examples(rng, 3, k)
				x.Link = link
				f, _ := s.Fit(nil)
				served := Serve(f, f.Values(x))
				x.Features[1], x.Logits[k+1] = bad, bad
				if bad == 1e19 {
					x.Leverage[0], x.Leverage[1] = 1e38, mostLeverage
				}
				got, share, p := served.Values(x)
				if got[0] != 1 || got[1] != 1 || !(got[2] < 1) || share[0] != 1 || p[0] != 0.25 {
					t.Errorf("%s, %s of %v: %v, shares %v", s.Name, link, bad, got, share)
				}
			}
		}
	}
}

// slowPValue is the conformal p-value by its definition.
func slowPValue(bounded []float64, score float64) float64 {
	atLeast := 0
	for _, v := range bounded {
		if v >= score {
			atLeast++
		}
	}
	return float64(1+atLeast) / float64(1+len(bounded))
}

// Up to MostQuantiles examples the p-value is the definition, ties included. With more it is never below it, and at
// most 1/256 + 1/n above. It is 1 for scores at most the smallest, and 1/(n+1) above the largest.
func TestPValuesAreTheirDefinition(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(29, 30))
	for _, n := range []int{1, 2, 3, 100, 256, 257, 258, 300, 1000, 5003} {
		for _, levels := range []float64{1, 3, 20, 1e9} { // few make ties
			values := numbers(rng, n)
			for i, v := range values {
				values[i] = math.Round(v*levels) / levels
			}
			served := Serve(&Fitted{Score: &energy}, values)
			bounded := make([]float64, n)
			for i, v := range values {
				bounded[i] = served.Bounded(v)
			}
			low, high := slices.Min(bounded), slices.Max(bounded)
			if got := served.PValue(low); got != 1 {
				t.Errorf("n = %d: the smallest score has p = %v, want 1", n, got)
			}
			if got, want := served.PValue(math.Nextafter(high, 2)), 1/float64(n+1); got != want {
				t.Errorf("n = %d: above the largest score p = %v, want %v", n, got, want)
			}
			for range 300 {
				score := rng.Float64()
				if rng.IntN(2) == 0 {
					score = bounded[rng.IntN(n)]
				}
				got, want := served.PValue(score), slowPValue(bounded, score)
				if n <= MostQuantiles && got != want || got < want || got > want+1.0/256+1/float64(n) {
					t.Errorf("n = %d, %v levels: p = %v of %v, want %v", n, levels, got, score, want)
				}
				one := Numbers(Examples{N: 1})
				rank := rankOf(one, served.Quantiles, one.Number(score))
				if same := pvalueOf(one, served, rank, one.Number(1)).Data[0]; same != got {
					t.Errorf("n = %d: in a graph p = %v of %v, want %v", n, same, score, got)
				}
			}
		}
	}
}

// P(p ≤ α) is at most α if validation examples and the new one are exchangeable, with ties and without; without ties,
// and with few examples, it is the largest multiple of 1/(n+1) that is at most α.
func TestPValuesAreSuperUniform(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(31, 32))
	const draws = 20000
	for _, tc := range []struct {
		n      int
		levels float64
	}{{19, 1e9}, {19, 2}, {99, 1e9}, {99, 5}, {600, 1e9}, {600, 10}} {
		alphas := []float64{0.01, 0.05, 0.1, 0.5}
		flagged := make([]float64, len(alphas))
		sample := func() float64 { return math.Round(rng.NormFloat64()*tc.levels) / tc.levels }
		runs := draws
		if tc.n > 200 {
			runs = draws / 10
		}
		for range runs {
			values := make([]float64, tc.n)
			for i := range values {
				values[i] = sample()
			}
			served := Serve(&Fitted{Score: &energy}, values)
			p := served.PValue(served.Bounded(sample()))
			for i, alpha := range alphas {
				if p <= alpha {
					flagged[i]++
				}
			}
		}
		for i, alpha := range alphas {
			rate, err := flagged[i]/float64(runs), 4*math.Sqrt(alpha*(1-alpha)/float64(runs))
			if rate > alpha+err {
				t.Errorf("n = %d, %v levels: p ≤ %v in %v of the draws", tc.n, tc.levels, alpha, rate)
			}
			if tc.levels < 1e9 || tc.n > MostQuantiles {
				continue
			}
			if want := math.Floor(alpha*float64(tc.n+1)+1e-9) / float64(tc.n+1); !approx.Equal(rate, want, err) {
				t.Errorf("n = %d: p ≤ %v in %v of the draws, want about %v", tc.n, alpha, rate, want)
			}
		}
	}
}

// A rank found by blocks is that of a search, whatever the number of quantiles, and if some are equal.
func TestRanksByBlocks(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(81, 82))
	one := Numbers(Examples{N: 1})
	for n := 1; n <= MostQuantiles; n++ {
		q := make([]float64, n)
		for i := range q {
			q[i] = float64(rng.IntN(n)) / float64(n)
		}
		slices.Sort(q)
		for _, x := range append(q, 0, 1, rng.Float64()) {
			want, _ := slices.BinarySearch(q, x)
			if got := rankOf(one, q, one.Number(x)).Data[0]; got != float64(want) {
				t.Fatalf("%v is above %v of %v, want %d", x, got, q, want)
			}
		}
	}
}
