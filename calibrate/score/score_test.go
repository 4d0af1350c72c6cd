package score

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"testing"

	"github.com/mfgs/mfgs/calibrate/approx"
)

// Names become JSON keys, CSV columns and tensor names.
func TestNamesAreUniqueIdentifiers(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range All {
		if !regexp.MustCompile(`^[a-z][a-z0-9_]*$`).MatchString(s.Name) || seen[s.Name] {
			t.Errorf("%q is no identifier, or not the only one", s.Name)
		}
		if s.Doc == "" {
			t.Errorf("%s says nothing of itself", s.Name)
		}
		seen[s.Name] = true
		if All[Index(s.Name)].Name != s.Name {
			t.Errorf("Index(%q) = %d", s.Name, Index(s.Name))
		}
	}
	if Index("none") != -1 {
		t.Error("a score that does not exist was found")
	}
}

func TestOODScoreIsHalfAtTheMedianMarginAndRisesAsMarginsFall(t *testing.T) {
	x := examples(rand.New(rand.NewPCG(1, 2)), 4, 3)
	x.Margin, x.MedianMargin = []float64{0, 2, 20, 1e300}, 2
	got := oodScore.Values(x)
	for i, want := range []float64{1, 0.5, 2.0 / 22, 2e-300} {
		if !approx.Equal(got[i], want, 1e-15) {
			t.Errorf("margin %v: score %v, want %v", x.Margin[i], got[i], want)
		}
	}
}

// A formula over all operations against the same written by hand.
func TestFormulasAreEvaluatedElementByElement(t *testing.T) {
	x := examples(rand.New(rand.NewPCG(3, 4)), 7, 5)
	// log Σ exp(a - max a) + √(mean s² · h) - g/m
	got := everything[Rows](terms{x}).Data
	for i := range x.N {
		most, sum, mean := math.Inf(-1), 0.0, 0.0
		for k := range x.K {
			most = math.Max(most, float64(x.Logits[i*x.K+k]))
			mean += x.Variance[i*x.K+k] / float64(x.K)
		}
		for k := range x.K {
			sum += math.Exp(float64(x.Logits[i*x.K+k]) - most)
		}
		want := math.Log(sum) + math.Sqrt(mean*x.Leverage[i]) - x.Margin[i]/x.MedianMargin
		if !approx.Equal(got[i], want, 1e-13) {
			t.Errorf("example %d: %v, want %v", i, got[i], want)
		}
	}
}

func everything[V any](t Terms[V]) V {
	a := t.Logits()
	spread := t.Log(t.Sum(t.Exp(t.Sub(a, t.Max(a)))))
	return t.Sub(t.Add(spread, t.Sqrt(t.Mul(t.Mean(t.Variance()), t.Leverage()))), t.Div(t.Margin(), t.MedianMargin()))
}

func TestExamplesOfOtherSizesPanic(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("three leverages were taken for four examples")
		}
	}()
	x := examples(rand.New(rand.NewPCG(5, 6)), 4, 3)
	x.Leverage = x.Leverage[:3]
	leverage.Values(x)
}

func examples(rng *rand.Rand, n, k int) Examples {
	x := Examples{N: n, K: k, MedianMargin: 1 + rng.Float64()}
	for range n {
		x.Leverage, x.Margin = append(x.Leverage, rng.ExpFloat64()), append(x.Margin, rng.ExpFloat64())
		for range k {
			x.Logits, x.Variance = append(x.Logits, float32(rng.NormFloat64())), append(x.Variance, rng.ExpFloat64())
		}
	}
	return x
}

// Numbers are written as package json writes them.
func TestNumbersAreThoseOfPackageJSON(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	numbers := []float64{
		0, math.Copysign(0, -1), 1, -1, 1e-6, 9.99e-7, 1e-9, 1.5e-10, 1e20, 1e21, 1e300, 5e-324, math.MaxFloat64,
	}
	for range 10_000 {
		if x := math.Float64frombits(rng.Uint64()); finite(x) {
			numbers = append(numbers, x)
		}
	}
	for _, x := range numbers {
		var got bytes.Buffer
		if err := EncodeJSON(&got, struct{}{}, func(int) any { return &x }); err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(x)
		if want := fmt.Sprintf(`{"ood_score":%s,"leverage":%[1]s}`, text); err != nil || got.String() != want {
			t.Errorf("%s, %v; want %s", &got, err, want)
		}
	}
	nan := math.NaN()
	if err := EncodeJSON(new(bytes.Buffer), struct{}{}, func(int) any { return &nan }); err == nil {
		t.Error("NaN was written")
	}
}
