package drift

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"

	"github.com/mfgs/mfgs/internal/approx"
)

// sigma is so large that rounding makes no ties.
const sigma = 1e6

// sources are distributions that streams and validation examples are drawn from: without ties, with
// most values the same, of two values, and of ties within a continuum.
var sources = []struct {
	name string
	draw func(*rand.Rand) float64
}{
	{"continuous", func(r *rand.Rand) float64 { return round(sigma * r.NormFloat64()) }},
	{"saturated", func(r *rand.Rand) float64 { return min(1, 0.8+r.ExpFloat64()/5) }},
	{"two values", func(r *rand.Rand) float64 { return float64(r.IntN(10) / 9) }},
	{"all the same", func(*rand.Rand) float64 { return 3 }},
	{"rounded", func(r *rand.Rand) float64 { return math.Round(4*r.NormFloat64()) / 4 }},
}

func draws(rng *rand.Rand, draw func(*rand.Rand) float64, n int) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = draw(rng)
	}
	return v
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// naive is the test by its definitions: it keeps all p-values, and each time sums what every
// beginning of bets has become.
type naive struct {
	rng    *rand.Rand
	held   []float64
	edges  []float64
	stream []float64
	ps     []float64
}

// p counts, of all values there were, those on the other side of the edge above the new one.
func (x *naive) p(v float64) float64 {
	top := math.Inf(1) // the smallest edge that is not below v
	bottom := math.Inf(-1)
	for _, e := range x.edges {
		if e >= v {
			top = min(top, e)
		} else {
			bottom = max(bottom, e)
		}
	}
	above, same := 0, 1
	for _, h := range x.held {
		switch {
		case h >= top:
			above++
		case h > bottom:
			same++
		}
	}
	for _, s := range x.stream {
		switch {
		case s > top:
			above++
		case s > bottom:
			same++
		}
	}
	x.stream = append(x.stream, v)
	return (float64(above) + x.rng.Float64()*float64(same)) / float64(len(x.held)+len(x.stream))
}

// log10 has each beginning s bet its part R(s-1)-R(s) alone, by itself.
func (x *naive) log10() float64 {
	r := func(n int) float64 { return 1 / (1 + math.Log(1+float64(n))) }
	capital := r(len(x.ps))
	for s := range x.ps {
		part := r(s) - r(s+1)
		c := map[int]float64{-1: part / 3, 0: part / 3, 1: part / 3}
		for _, p := range x.ps[s:] {
			sum := c[-1] + c[0] + c[1]
			for e := range c {
				c[e] = (0.99*c[e] + 0.01/3*sum) * (1 + float64(e)*(p-0.5))
			}
		}
		capital += c[-1] + c[0] + c[1]
	}
	return math.Log10(capital)
}

func TestTheTestIsItsDefinition(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ held, edges, stream int }{{2, 1, 150}, {40, 7, 200}, {500, 20, 300}, {60, 60, 150}} {
		rng := rand.New(rand.NewPCG(1, uint64(c.held)))
		held := draws(rng, sources[0].draw, c.held)
		r := newReference(held, min(c.edges, c.held-1))
		b := must(NewBins(r, 1))
		test := NewTest(b.Weights(), 0.01, 7)
		twin := &naive{rng: rand.New(rand.NewPCG(7, 0x74657374)), held: held, edges: r.Edges}
		for i := range c.stream {
			v := sources[0].draw(rng)
			if i > c.stream/2 {
				v = round(v + 1.5*sigma)
			}
			p, want := test.p(b.Place(v)), twin.p(v)
			if !approx.Equal(p, want, 1e-15) {
				t.Fatalf("%v: p-value %d is %v, want %v", c, i, p, want)
			}
			twin.ps = append(twin.ps, p)
			test.bet(p)
			if i%20 == 0 && !approx.Equal(test.Log10(), twin.log10(), 1e-12*float64(i+1)) {
				t.Fatalf("%v: after %d examples the capital is 10^%v, want 10^%v", c, i, test.Log10(), twin.log10())
			}
		}
	}
}

// Without bins, the p-value of an example is its rank among all validation and earlier examples. Bins give an
// interval that contains it.
func TestBinsHoldTheExactRank(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(2, 2))
	all := draws(rng, sources[0].draw, 200)
	r := must(NewReference(all, 20))
	b := must(NewBins(r, 1))
	weights := b.Weights()
	for i := range 500 {
		v := 1.3 * sources[0].draw(rng)
		larger := 0
		for _, w := range all {
			if w > v {
				larger++
			}
		}
		k, above := b.Place(v), 0
		for _, w := range weights[k+1:] {
			above += w
		}
		// Exact: (larger + U)/(n+1).
		if larger < above || larger+1 > above+weights[k] {
			t.Fatalf("example %d has rank %d to %d from above, its bin %d to %d", i, larger, larger+1, above, above+weights[k])
		}
		weights[k]++
		all = append(all, v)
	}
}

// P-values of exchangeable examples are independent and uniform, for few validation examples and
// however many are equal. 20,000 draws of validation examples and stream each: the shares of p-values in
// each of 25 cells of the unit square are 1/25 within 4.5 standard errors.
func TestPValuesAreUniformAndIndependent(t *testing.T) {
	t.Parallel()
	const draw, cells = 20_000, 5
	for _, s := range sources {
		for _, held := range []int{2, 3, 7, 40} {
			rng := rand.New(rand.NewPCG(3, uint64(held)))
			var first, second [cells * cells]int
			for i := range draw {
				r := newReference(draws(rng, s.draw, held), min(held-1, 1+i%5))
				b := must(NewBins(r, rng.Uint64()))
				test := NewTest(b.Weights(), 0.01, rng.Uint64())
				var p [6]float64
				for k := range p {
					p[k] = test.p(b.Place(s.draw(rng)))
				}
				first[int(p[0]*cells)*cells+int(p[1]*cells)]++
				second[int(p[2]*cells)*cells+int(p[5]*cells)]++
			}
			se := math.Sqrt(draw * (1. / 25) * (24. / 25))
			for i := range first {
				for _, n := range []int{first[i], second[i]} {
					if !approx.Equal(float64(n), draw/25., 4.5*se) {
						t.Errorf("%s, %d validation: %d of %d pairs of p-values in cell %d, want %d ± %.0f", s.name, held, n, draw, i, draw/25, 4.5*se)
					}
				}
			}
		}
	}
}

// Alarms of 600 streams of 2,000 examples without a change: at most alpha, within 3 standard errors.
func TestFalseAlarms(t *testing.T) {
	const streams, length, alpha = 600, 2000, 0.1
	for _, s := range sources {
		for _, held := range []int{5, 300} {
			t.Run(fmt.Sprint(s.name, held), func(t *testing.T) {
				t.Parallel()
				rng := rand.New(rand.NewPCG(4, uint64(held)))
				alarms := 0
				for range streams {
					r := must(NewReference(draws(rng, s.draw, held), 20))
					b := must(NewBins(r, rng.Uint64()))
					test := NewTest(b.Weights(), alpha, rng.Uint64())
					for i := 0; i < length && test.Alarm() == 0; i++ {
						test.Add(b.Place(s.draw(rng)))
					}
					if test.Alarm() > 0 {
						alarms++
					}
				}
				t.Logf("%.1f %% of streams", 100*float64(alarms)/streams)
				if most := alpha + 3*math.Sqrt(alpha*(1-alpha)/streams); float64(alarms) > most*streams {
					t.Errorf("%d of %d streams alarmed, want at most %.1f %%", alarms, streams, 100*most)
				}
			})
		}
	}
}

// delay returns how many examples after a shift the alarm came, the median of some streams.
func delay(t *testing.T, held, before int, shift float64) int {
	rng := rand.New(rand.NewPCG(5, uint64(before)))
	var delays []int
	for range 11 {
		r := must(NewReference(draws(rng, sources[0].draw, held), 20))
		b := must(NewBins(r, rng.Uint64()))
		test := NewTest(b.Weights(), 0.01, rng.Uint64())
		for range before {
			test.Add(b.Place(sources[0].draw(rng)))
		}
		test.alarm = 0
		for test.Alarm() == 0 && test.Examples() < before+100_000 {
			test.Add(b.Place(sources[0].draw(rng) + shift*sigma))
		}
		delays = append(delays, test.Alarm()-before)
	}
	slices.Sort(delays)
	return delays[len(delays)/2]
}

func TestShiftsAreSeenSoonHoweverLateTheyCome(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		held, before int
		shift        float64
		most         int
	}{
		{1000, 0, 3, 40}, {1000, 0, 1, 90}, {1000, 0, 0.5, 400}, {1000, 0, -1, 90},
		{1000, 1000, 1, 150}, {1000, 100_000, 1, 200}, {1000, 100_000, 3, 100}, {100, 100_000, 0.5, 800},
	} {
		got := delay(t, c.held, c.before, c.shift)
		t.Logf("%d validation, %d before, shift by %v σ: %d examples", c.held, c.before, c.shift, got)
		if got <= 0 || got > c.most {
			t.Errorf("%v: the alarm came after %d examples, want at most %d", c, got, c.most)
		}
	}
}

func TestTheAlarmStaysUntilReset(t *testing.T) {
	t.Parallel()
	test := NewTest([]int{50, 51}, 0.01, 1)
	for test.Alarm() == 0 {
		test.Add(1)
	}
	at := test.Alarm()
	if at != test.Examples() || test.Log10() < 2 {
		t.Fatalf("the alarm is of example %d of %d with 10^%v, want the last, 10^2 or more", at, test.Examples(), test.Log10())
	}
	for range 1000 {
		test.Add(0)
		test.Add(1)
	}
	if test.Alarm() != at {
		t.Errorf("after the alarm of example %d it is %d", at, test.Alarm())
	}
	test.Reset()
	if test.Alarm() != 0 || test.Examples() != 0 || test.Log10() != 0 ||
		!slices.Equal(test.weights, []int{50, 51}) || test.total != 101 {
		t.Errorf("after Reset: %+v", test)
	}
}

// A capital far beyond what float64 holds grows and shrinks as its logarithm does, and the rest of
// what was kept is never lost: the capital is R(n) at least.
func TestTheCapitalDoesNotOverflow(t *testing.T) {
	t.Parallel()
	test := NewTest([]int{1, 1}, 0.01, 1)
	for range 6_000 {
		test.bet(0)
	}
	// ε = -1 keeps 1-J+J/3 of itself and wins 3/2 each time.
	if got := test.Log10(); got < 6_000*math.Log10(1.5*0.9933)-2 || got > 6_000*math.Log10(1.5) {
		t.Errorf("6,000 times p = 0 give 10^%v", got)
	}
	rng := rand.New(rand.NewPCG(6, 6))
	for range 1_000_000 {
		test.bet(rng.Float64())
	}
	if got, least := test.Log10(), math.Log10(test.kept); !(got >= least && got < 2) {
		t.Errorf("after 1,000,000 uniform p-values the capital is 10^%v, want 10^%v to 10^2", got, least)
	}
}

func TestPlace(t *testing.T) {
	t.Parallel()
	r := must(NewReference([]float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, 3))
	if !slices.Equal(r.Edges, []float64{5, 10}) || !slices.Equal(r.Below, []int{4, 9}) ||
		!slices.Equal(r.AtMost, []int{5, 10}) {
		t.Fatalf("reference %+v", r)
	}
	b := must(NewBins(r, 1))
	if !slices.Equal(b.Weights(), []int{5, 5, 6}) {
		t.Errorf("weights %v", b.Weights())
	}
	inf := math.Inf(1)
	for v, want := range map[float64]int{-inf: 0, 4: 0, 5.5: 1, 9.9: 1, 10.1: 2, inf: 2, math.NaN(): 2} {
		if got := b.Place(v); got != want {
			t.Errorf("%v is in bin %d, want %d", v, got, want)
		}
	}
}

// Values equal to an edge fall above it as often as a uniform number exceeds that of the edge, whose
// mean is that of an order statistic: of 10 equal values the 5th has 5/11, the 10th 10/11.
func TestTiesAreBrokenAsOrderStatistics(t *testing.T) {
	t.Parallel()
	values := slices.Concat(make([]float64, 5), slices.Repeat([]float64{1}, 10))
	const draw = 20_000
	var means [3]float64
	for i := range draw {
		b := must(NewBins(newReference(values, 2), uint64(i)))
		if !slices.IsSorted(b.ties) && b.edges[0] == b.edges[1] {
			t.Fatalf("random numbers %v of edges %v do not rise", b.ties, b.edges)
		}
		for k, v := range b.ties {
			means[k] += v / draw
		}
	}
	// Edges are number 5, the last of five zeros, and number 10, the fifth of ten ones.
	for k, want := range []float64{5. / 6, 5. / 11} {
		if !approx.Equal(means[k], want, 4*0.16/math.Sqrt(draw)) { // a Beta(5,6) has a standard deviation of 0.144
			t.Errorf("the mean of edge %d is %v, want %v", k, means[k], want)
		}
	}
}

func TestImpossibleReferencesAreRefused(t *testing.T) {
	t.Parallel()
	good := func() *Reference { return newReference([]float64{1, 2, 2, 2, 2, 2, 2, 3, 4, 5}, 4) }
	if err := good().Check(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Reference){
		"no edges":           func(r *Reference) { *r = Reference{Examples: 3} },
		"counts missing":     func(r *Reference) { r.Below = r.Below[1:] },
		"few examples":       func(r *Reference) { r.Examples = 4 },
		"too many examples":  func(r *Reference) { r.Examples = math.MaxInt },
		"not a number":       func(r *Reference) { r.Edges[3] = math.NaN() },
		"infinite":           func(r *Reference) { r.Edges[3] = math.Inf(1) },
		"falling":            func(r *Reference) { r.Edges[3] = 0 },
		"negative":           func(r *Reference) { r.Below[0] = -1 },
		"rank outside":       func(r *Reference) { r.Below[3] = 9 },
		"more than all":      func(r *Reference) { r.AtMost[3] = 11 },
		"other ties":         func(r *Reference) { r.AtMost[0] = 6 },
		"overlap":            func(r *Reference) { r.Below[3] = 6 },
		"same counts, other": func(r *Reference) { r.Edges[0] = 1.5 },
	} {
		r := good()
		change(r)
		if r.Check() == nil {
			t.Errorf("%s: taken: %+v", name, r)
		}
		if _, err := NewBins(r, 1); err == nil {
			t.Errorf("%s: bins were made", name)
		}
	}
	for _, v := range [][]float64{nil, {1}, {1, math.NaN()}, {1, math.Inf(-1), 2}, {1, math.MaxFloat64}} {
		if _, err := NewReference(v, 20); err == nil {
			t.Errorf("%v: taken", v)
		}
	}
}

func TestANumberOfBinsOutOfRangePanics(t *testing.T) {
	t.Parallel()
	for bins, want := range map[int]any{
		1: "drift: 1 bins, want 2 to 1024", 2: nil, 1024: nil, 1025: "drift: 1025 bins, want 2 to 1024",
	} {
		func() {
			defer func() {
				if got := recover(); got != want {
					t.Errorf("%d bins: panic %v, want %v", bins, got, want)
				}
			}()
			must(NewReference([]float64{1, 2}, bins))
		}()
	}
}

// Rounding to float32 is not drift: here half of the confidences are nearer to 1 than float32 can represent, and
// others are off by the rounding of its sums.
func TestPrecisionIsNoDrift(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(9, 9))
	confident := func() float64 { return 1 / (1 + math.Exp(-30*rng.Float64())) }
	held := make([]float64, 5000)
	for i := range held {
		held[i] = confident()
	}
	b := must(NewBins(must(NewReference(held, 32)), 1))
	test, index := NewTest(b.Weights(), 0.01, 1), NewIndex(b.Weights(), 1000)
	for range 20_000 {
		k := b.Place(float64(min(1, float32(confident())+float32(1e-6*(rng.Float64()-0.5)))))
		test.Add(k)
		index.Add(k)
	}
	if r := index.Read(); test.Alarm() != 0 || r.PSI > 1.5*r.Level95 {
		t.Errorf("the alarm is of example %d, the index %+v", test.Alarm(), r)
	}
}

// A reference holds what sorting the values shows, and passes its check.
func TestAReferenceSummarisesSortedValues(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(8, 8))
	for _, s := range sources {
		for _, n := range []int{2, 9, 10, 99, 1000} {
			values := draws(rng, s.draw, n)
			r := must(NewReference(values, 20))
			if err := r.Check(); err != nil {
				t.Errorf("%s, %d values: %v", s.name, n, err)
			}
			if got, want := len(r.Edges), max(1, min(20, n/5)-1); got != want || r.Examples != n {
				t.Errorf("%d values: %d edges of %d, want %d", n, got, r.Examples, want)
			}
			for i, v := range values {
				values[i] = round(v)
			}
			sort.Float64s(values)
			for k, e := range r.Edges {
				at := int(math.Ceil(float64((k+1)*n) / float64(len(r.Edges)+1)))
				below, atMost := 0, 0
				for _, v := range values {
					if v < e {
						below++
					}
					if v <= e {
						atMost++
					}
				}
				if e != values[at-1] || r.Below[k] != below || r.AtMost[k] != atMost {
					t.Errorf("%s: edge %d of %d is %v, %d, %d, want %v, %d, %d", s.name, k, n, e, r.Below[k], r.AtMost[k], values[at-1], below, atMost)
				}
			}
		}
	}
}

func BenchmarkAdd(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	r := must(NewReference(draws(rng, sources[0].draw, 5000), 20))
	bins := must(NewBins(r, 1))
	test, index := NewTest(bins.Weights(), 0.01, 1), NewIndex(bins.Weights(), 1000)
	b.ReportAllocs()
	for b.Loop() {
		k := bins.Place(sources[0].draw(rng))
		test.Add(k)
		index.Add(k)
	}
}
