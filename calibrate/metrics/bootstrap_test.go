package metrics

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/mfgs/mfgs/internal/approx"
)

func mean(x []float64) func([][]int) float64 {
	return func(draw [][]int) float64 {
		var sum float64
		for _, i := range draw[0] {
			sum += x[i]
		}
		return sum / float64(len(draw[0]))
	}
}

func TestBootstrapOfAMeanIsTheNormalInterval(t *testing.T) {
	rng := rand.New(rand.NewPCG(10, 10))
	const n = 400
	x := make([]float64, n)
	var sum, squares float64
	for i := range x {
		x[i] = rng.NormFloat64()
		sum += x[i]
		squares += x[i] * x[i]
	}
	average := sum / n
	stderr := math.Sqrt((squares/n - average*average) / n)

	got, err := Bootstrap([]int{n}, mean(x), BootstrapOptions{Resamples: 4000})
	if err != nil {
		t.Fatal(err)
	}
	// The 2.5 % quantile of 4000 draws has a standard error of
	// sqrt(0.025·0.975/4000)/φ(1.96) = 0.042 standard deviations: four of them.
	for _, d := range []float64{got[0] - (average - 1.96*stderr), got[1] - (average + 1.96*stderr)} {
		if !approx.Equal(d, 0, 4*0.042*stderr) {
			t.Errorf("got %+v, want %v ± %v", got, average, 1.96*stderr)
		}
	}
}

// One example is drawn again and again, and what cannot be meant panics.
func TestBootstrapOptionsAreChecked(t *testing.T) {
	got, err := Bootstrap([]int{1}, mean([]float64{7}), BootstrapOptions{Resamples: 3})
	if err != nil || got != (Interval{7, 7}) {
		t.Errorf("of one example: %v, %v", got, err)
	}
	for name, f := range map[string]func(){
		"no samples":    func() { Bootstrap(nil, mean(nil), BootstrapOptions{}) },
		"no examples":   func() { Bootstrap([]int{3, 0}, mean(nil), BootstrapOptions{}) },
		"level 1":       func() { Bootstrap([]int{1}, mean([]float64{7}), BootstrapOptions{Level: 1}) },
		"a low level":   func() { Bootstrap([]int{1}, mean([]float64{7}), BootstrapOptions{Level: -0.5}) },
		"few resamples": func() { Bootstrap([]int{1}, mean([]float64{7}), BootstrapOptions{Resamples: -1}) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s did not panic", name)
				}
			}()
			f()
		}()
	}
}

func TestBootstrapIsSeeded(t *testing.T) {
	x := []float64{1, 5, 2, 9, 3}
	run := func(seed uint64) Interval {
		got, err := Bootstrap([]int{len(x)}, mean(x), BootstrapOptions{Resamples: 50, Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if run(1) != run(1) {
		t.Error("the same seed gave another interval")
	}
	if run(1) == run(2) {
		t.Error("another seed gave the same interval")
	}
}

func TestBootstrapDrawsEachSampleApart(t *testing.T) {
	sizes := []int{3, 50}
	_, err := Bootstrap(sizes, func(draw [][]int) float64 {
		if len(draw) != len(sizes) {
			t.Fatalf("%d samples drawn, want %d", len(draw), len(sizes))
		}
		for s, n := range sizes {
			if len(draw[s]) != n {
				t.Fatalf("sample %d: %d drawn, want %d", s, len(draw[s]), n)
			}
			for _, i := range draw[s] {
				if i < 0 || i >= n {
					t.Fatalf("sample %d: drew %d of %d", s, i, n)
				}
			}
		}
		return 0
	}, BootstrapOptions{Resamples: 20})
	if err != nil {
		t.Fatal(err)
	}
}

func TestBootstrapRefusesAStatisticThatIsNaN(t *testing.T) {
	_, err := Bootstrap([]int{2}, func([][]int) float64 { return math.NaN() }, BootstrapOptions{})
	if err == nil {
		t.Error("no error")
	}
}

func TestQuantileOfInfinities(t *testing.T) {
	inf := math.Inf(1)
	if got := quantile([]float64{0, inf, inf}, 0.75); got != inf {
		t.Errorf("got %v, want +Inf", got)
	}
}
