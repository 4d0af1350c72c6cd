package drift

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/mfgs/mfgs/internal/approx"
)

// psi is the index of a window, by its definition.
func psi(weights []int, window []int) float64 {
	var total, sum float64
	for _, w := range weights {
		total += float64(w)
	}
	for b, w := range weights {
		n := 0.5
		for _, k := range window {
			if k == b {
				n++
			}
		}
		o, e := n/(float64(len(window))+0.5*float64(len(weights))), float64(w)/total
		sum += o*math.Log(o/e) + e*math.Log(e/o)
	}
	return sum
}

func TestTheIndexIsOfTheLastExamples(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 1))
	weights := []int{100, 50, 30, 20, 1}
	x := NewIndex(weights, 64)
	if got := x.Read(); got != (Reading{}) {
		t.Errorf("of no examples: %+v", got)
	}
	var stream []int
	for i := range 400 {
		k := min(rng.IntN(7), 4)
		stream = append(stream, k)
		x.Add(k)
		last := stream[max(0, len(stream)-64):]
		got := x.Read()
		if got.Examples != len(last) || !approx.Equal(got.PSI, psi(weights, last), 1e-13) {
			t.Fatalf("after %d examples %+v, want %v of %d", i+1, got, psi(weights, last), len(last))
		}
	}
	x.Reset()
	if got := x.Read(); got != (Reading{}) {
		t.Errorf("after Reset: %+v", got)
	}
	x.Add(2)
	if got := x.Read(); got.Examples != 1 || !approx.Equal(got.PSI, psi(weights, []int{2}), 1e-13) {
		t.Errorf("after Reset and one example: %+v", got)
	}
}

// Without drift, the index of 1,500 draws of validation examples and window has the mean that a reading
// says within 8 %, and exceeds the level in at most 5 % of them, and not far fewer. What is added to counts
// makes shares more alike, by the more the fewer examples a bin expects: 15 here. The standard
// errors are 1.2 % and 0.6 %.
func TestTheNoiseOfTheIndex(t *testing.T) {
	t.Parallel()
	const draw = 1500
	for _, s := range sources[:2] {
		for _, c := range []struct{ held, window, bins int }{{150, 150, 10}, {600, 300, 20}, {150, 600, 10}} {
			rng := rand.New(rand.NewPCG(2, uint64(c.held)))
			var mean, over float64
			var r Reading
			for range draw {
				ref := must(NewReference(draws(rng, s.draw, c.held), c.bins))
				b := must(NewBins(ref, rng.Uint64()))
				x := NewIndex(b.Weights(), c.window)
				for range c.window {
					x.Add(b.Place(s.draw(rng)))
				}
				if r = x.Read(); r.PSI > r.Level95 {
					over += 1. / draw
				}
				mean += r.PSI / draw
			}
			t.Logf("%s, %+v: mean %.4f, said %.4f; %.1f %% above %.4f", s.name, c, mean, r.Expected, 100*over, r.Level95)
			if !approx.Relative(mean, r.Expected, 0.08) {
				t.Errorf("%s, %+v: the mean is %v, want %v", s.name, c, mean, r.Expected)
			}
			if !(over > 0.02 && over < 0.065) {
				t.Errorf("%s, %+v: %.1f %% exceed the level, want about 5 and not more", s.name, c, 100*over)
			}
		}
	}
}

// The level is χ²'s of one degree of freedom less than there are bins, which tables have, and the mean is
// that number of degrees.
func TestTheLevelHasOneDegreeOfFreedomLessThanBins(t *testing.T) {
	t.Parallel()
	for bins, quantile := range map[int]float64{
		1: 0, 2: 3.84146, 3: 5.99147, 10: 16.9190, 20: 30.1435, 31: 43.7729, 101: 124.342,
	} {
		weights := make([]int, bins)
		for b := range weights {
			weights[b] = 30 + b
		}
		total := 30*bins + bins*(bins-1)/2
		x := NewIndex(weights, 50)
		for i := range 40 {
			x.Add(i % bins)
		}
		r, noise := x.Read(), 1./40+1/float64(total)
		level, mean := quantile*noise, float64(bins-1)*noise
		if !approx.Equal(r.Level95, level, 5e-6*level) || !approx.Equal(r.Expected, mean, 1e-12) {
			t.Errorf("%d bins: level %v and mean %v, want %v and %v", bins, r.Level95, r.Expected, level, mean)
		}
	}
}

func TestRareClassesShareABin(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		counts        []int
		window        int
		bins, weights []int
	}{
		{[]int{100, 100, 100}, 1000, []int{0, 1, 2}, []int{100, 100, 100}},
		{[]int{100, 2, 90, 3, 1}, 1000, []int{2, 0, 1, 0, 0}, []int{6, 90, 100}},
		{[]int{2, 2, 2, 2, 2}, 1000, []int{0, 0, 0, 0, 0}, []int{10}},
		{[]int{5, 0}, 1000, []int{0, 0}, []int{5}},
		{[]int{50, 50, 50, 50}, 10, []int{0, 0, 1, 1}, []int{100, 100}},
		{[]int{1, 0, 0}, 10, []int{0, 0, 0}, []int{1}},
	} {
		got := must(NewClasses(c.counts, c.window))
		if !slices.Equal(got.bin, c.bins) || !slices.Equal(got.Weights(), c.weights) {
			t.Errorf("%v, window %d: bins %v of %v, want %v of %v", c.counts, c.window, got.bin, got.weights, c.bins, c.weights)
		}
		for class, b := range c.bins {
			if got.Place(class) != b {
				t.Errorf("class %d is in bin %d, want %d", class, got.Place(class), b)
			}
		}
	}
	for _, counts := range [][]int{nil, {0, 0}, {3, -1}, {math.MaxInt, 1}} {
		if _, err := NewClasses(counts, 100); err == nil {
			t.Errorf("%v: taken", counts)
		}
	}
}

// A thousand classes, of which most are rare: every bin has what its noise needs, and classes keep to
// their bins.
func TestBinsOfClassesAreLargeEnough(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 3))
	for range 200 {
		counts := make([]int, 1+rng.IntN(1000))
		for i := range counts {
			counts[i] = int(math.Exp(6 * rng.Float64() * rng.Float64()))
		}
		window := 10 + rng.IntN(2000)
		c := must(NewClasses(counts, window))
		sums := make([]int, len(c.weights))
		total := 0
		for class, n := range counts {
			sums[c.Place(class)] += n
			total += n
		}
		if !slices.Equal(sums, c.Weights()) {
			t.Fatalf("bins weigh %v, their classes %v", c.weights, sums)
		}
		for _, n := range sums {
			if len(sums) > 1 && (n < 5 || float64(n*window) < 5*float64(total)) {
				t.Fatalf("a bin of %d has %d of %d examples, and a window %d", len(sums), n, total, window)
			}
		}
	}
}
