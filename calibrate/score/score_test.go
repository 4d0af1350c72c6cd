package score

import (
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/internal/approx"
)

// Names become JSON keys, CSV columns and tensor names.
func TestNamesAreUniqueIdentifiers(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, s := range All {
		if found, ok := Find(s.Name); !ok || found.Name != s.Name {
			t.Errorf("Find(%q) found %q", s.Name, found.Name)
		}
		if !regexp.MustCompile(`^[a-z][a-z0-9_]*$`).MatchString(s.Name) || seen[s.Name] {
			t.Errorf("%q is no identifier, or not the only one", s.Name)
		}
		if s.Doc == "" || s.Source == "" {
			t.Errorf("%s says not what it is, or where it comes from", s.Name)
		}
		seen[s.Name] = true
	}
	if _, ok := Find("none"); ok {
		t.Error("a score that does not exist was found")
	}
}

// A formula over all operations against the same written by hand.
func TestFormulasAreEvaluatedElementByElement(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 4))
	x := examples(rng, 7, 5)
	matrix, row := numbers(rng, x.D*3), numbers(rng, x.K)
	got := everything(Numbers(x), matrix, row).Data
	for i := range x.N {
		most, sum, mean := math.Inf(-1), 0.0, 0.0
		var a []float64
		for k := range x.K {
			a = append(a, float64(x.Logits[i*x.K+k]))
			most = math.Max(most, a[k])
			mean += x.Variance[i*x.K+k] / float64(x.K)
		}
		for _, v := range a {
			sum += math.Exp(v)
		}
		want := math.Log(sum) + math.Sqrt(mean*x.Leverage[i]) - x.Margin[i]
		least := math.Inf(1)
		for j := range 3 {
			z := 0.0
			for l := range x.D {
				z += float64(x.Features[i*x.D+l]) * matrix[l*3+j]
			}
			least = math.Min(least, z)
		}
		want += least
		for k, v := range a {
			if c := math.Min(math.Max(v, -0.5), 0.5); c > row[k] {
				want += math.Log1p(math.Abs(c))
			}
		}
		slices.Sort(a)
		want += a[x.K-2]
		if !approx.Equal(got[i], want, 1e-12) {
			t.Errorf("example %d: %v, want %v", i, got[i], want)
		}
	}
}

func everything[V any](t Terms[V], matrix, row []float64) V {
	a, half := t.Logits(), t.Number(0.5)
	all := t.Sub(t.Add(logSumExp(t, a), t.Sqrt(t.Mul(t.Mean(t.Variance()), t.Leverage()))), t.Margin())
	all = t.Add(all, t.Min(t.MatMul(t.Features(), t.Constant("matrix", matrix, 3))))
	c, r := t.MinOf(t.MaxOf(a, t.Neg(half)), half), t.Constant("row", row, len(row))
	all = t.Add(all, t.Sum(t.Mul(t.Greater(c, r), t.Log1p(t.Abs(c)))))
	return t.Add(all, t.Min(t.Largest(a, 2)))
}

// Fitted tensors are checked against the specs of the score.
func TestTensorsAreChecked(t *testing.T) {
	t.Parallel()
	s := Score{Name: "test", fitted: []TensorSpec{{"mean", []string{"d"}}, {"index", []string{"m", "d"}}, {"norms", []string{"m"}}}}
	good := func() Tensors {
		return Tensors{{"mean", []int{2}, []float64{1, 2}}, {"index", []int{3, 2}, make([]float64, 6)},
			{"norms", []int{3}, make([]float64, 3)}}
	}
	turned := good()
	slices.Reverse(turned)
	for _, tensors := range []Tensors{good(), turned} {
		if _, err := s.With(4, 2, tensors); err != nil {
			t.Fatal(err)
		}
	}
	for name, tc := range map[string]struct {
		change func(Tensors) Tensors
		want   string
	}{
		"one too few":     {func(t Tensors) Tensors { return t[:2] }, "2 tensors, want 3"},
		"another name":    {func(t Tensors) Tensors { t[1].Name = "list"; return t }, "index is missing"},
		"dimensions":      {func(t Tensors) Tensors { t[1].Shape = []int{6}; return t }, "shape [6]"},
		"other features":  {func(t Tensors) Tensors { t[0].Shape, t[0].Data = []int{1}, []float64{1}; return t }, "d = 2"},
		"other m":         {func(t Tensors) Tensors { t[2].Shape, t[2].Data = []int{2}, make([]float64, 2); return t }, "the same in all tensors"},
		"none":            {func(t Tensors) Tensors { t[1].Shape, t[1].Data = []int{0, 2}, nil; return t }, "from 1 to"},
		"too many":        {func(t Tensors) Tensors { t[1].Shape[0] = MostOpen + 1; return t }, "from 1 to"},
		"numbers":         {func(t Tensors) Tensors { t[2].Data = t[2].Data[:2]; return t }, "2 numbers"},
		"not a number":    {func(t Tensors) Tensors { t[2].Data[1] = math.NaN(); return t }, "NaN"},
		"an infinite one": {func(t Tensors) Tensors { t[2].Data[1] = math.Inf(-1); return t }, "-Inf"},
	} {
		if _, err := s.With(4, 2, tc.change(good())); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
}

func TestExamplesOfOtherSizesPanic(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("three leverages were taken for four examples")
		}
	}()
	x := examples(rand.New(rand.NewPCG(5, 6)), 4, 3)
	x.Leverage = x.Leverage[:3]
	(&Fitted{Score: &leverage}).Values(x)
}

func examples(rng *rand.Rand, n, k int) Examples {
	const d = 4
	x := Examples{N: n, K: k, D: d, Link: layer.Softmax}
	for range n * d {
		x.Features = append(x.Features, float32(rng.NormFloat64()))
	}
	for range n {
		x.Leverage, x.Margin = append(x.Leverage, rng.ExpFloat64()), append(x.Margin, rng.ExpFloat64())
		for range k {
			x.Logits, x.Variance = append(x.Logits, float32(rng.NormFloat64())), append(x.Variance, rng.ExpFloat64())
		}
	}
	return x
}

func numbers(rng *rand.Rand, n int) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = rng.NormFloat64()
	}
	return x
}
