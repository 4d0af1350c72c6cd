package calibrate

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/meanfield"
	"github.com/mfgs/mfgs/internal/approx"
)

func searchOf(values func(acts []float64, tau float64) []float64) search {
	return search{values: values, least: minAct, most: maxAct, lambda0: meanfield.Lambda0}
}

// trough is a search whose valley has its floor at an act that depends on τ.
func trough(floor func(tau float64) (act, value float64), width float64) search {
	return searchOf(func(acts []float64, tau float64) []float64 {
		at, value := floor(tau)
		v := make([]float64, len(acts))
		for i, act := range acts {
			d := math.Log(act/at) / width
			v[i] = value + 0.1*(math.Sqrt(1+d*d)-1)
		}
		return v
	})
}

func TestFloorIsWhereTheValleyIsLowest(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ at, from, want float64 }{
		"there":            {1, 1, 1},
		"near":             {1, 1.08, 1},
		"farther":          {1, 1.6, 1},
		"far below":        {0.5, 1.3, 0.5},
		"at the lowest":    {minAct / 2, 0.03, minAct},
		"at the highest":   {maxAct * 2, 13, maxAct},
		"from outside":     {maxAct * 0.9, 500, maxAct * 0.9},
		"from far outside": {minAct * 1.2, 1e-9, minAct * 1.2},
	} {
		for _, at := range []spacing{around, closely} {
			s := trough(func(float64) (float64, float64) { return test.at, 0.25 }, 0.6)
			got := s.floor(3, test.from, at)
			if !approx.Equal(math.Log(got.act/test.want), 0, 0.02) || got.tau != 3 {
				t.Errorf("%s, %d T_act: at %+v, want T_act %v", name, at.n, got, test.want)
			}
			if want := s.values([]float64{got.act}, 3)[0]; !approx.Equal(got.value, want, 1e-3) {
				t.Errorf("%s, %d T_act: value %v, want %v", name, at.n, got.value, want)
			}
		}
	}
}

func TestFloorOfValuesWithoutParabola(t *testing.T) {
	t.Parallel()
	inf, nan := math.Inf(1), math.NaN()
	for name, test := range map[string]struct {
		values   []float64 // at five T_act around any
		from, to int       // between which of them the floor is
		want     float64
	}{
		"a NaN":               {values: []float64{1, nan, 1, 1, 1}, from: 1, to: 1, want: nan},
		"all the same":        {values: []float64{3, 3, 3, 3, 3}, from: 2, to: 2, want: 3},
		"the same at the end": {values: []float64{1, 1, 1, 2, 4}, from: 1, to: 2, want: 1},
		"infinite at the end": {values: []float64{inf, 1, 2, 3, 4}, from: 1, to: 1, want: 1},
		"infinite beside":     {values: []float64{4, inf, 1, inf, 2}, from: 2, to: 2, want: 1},
		"all infinite":        {values: []float64{inf, inf, inf, inf, inf}, from: 2, to: 2, want: inf},
	} {
		var acts []float64
		f := searchOf(func(at []float64, _ float64) []float64 {
			acts = append([]float64{}, at...)
			return append([]float64{}, test.values...)
		})
		got := f.floor(1, 2, around)
		if slack := 1e-9; !(got.act >= acts[test.from]-slack && got.act <= acts[test.to]+slack) {
			t.Errorf("%s: T_act %v, want %v to %v", name, got.act, acts[test.from], acts[test.to])
		}
		same := got.value == test.want || math.IsNaN(got.value) && math.IsNaN(test.want)
		if !same && !approx.Equal(got.value, test.want, 0.2) {
			t.Errorf("%s: value %v, want %v", name, got.value, test.want)
		}
	}
}

func TestMiddleOfLeast(t *testing.T) {
	t.Parallel()
	nan := math.NaN()
	for _, test := range []struct {
		v    []float64
		want int
	}{
		{[]float64{3, 1, 2}, 1}, {[]float64{1, 1, 1}, 1}, {[]float64{1, 1, 2, 2, 2}, 1}, {[]float64{1, 2, 3}, 0},
		{[]float64{2, 3, 3, 1, 1}, 3}, {[]float64{1, 5, nan}, 2}, {[]float64{1, 5, 1}, 0}, {[]float64{1, 1, 1, 1}, 1},
	} {
		if got := middleOfLeast(test.v); got != test.want {
			t.Errorf("%v: %d, want %d", test.v, got, test.want)
		}
	}
}

// No T_act is beyond the bounds, whatever the values are.
func TestFloorStaysWithinBounds(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 5))
	for range 3000 {
		f := searchOf(func(acts []float64, _ float64) []float64 {
			v := make([]float64, len(acts))
			for i, act := range acts {
				if v[i] = rng.NormFloat64(); act < minAct*(1-1e-9) || act > maxAct*(1+1e-9) {
					t.Fatalf("asked for T_act %v", act)
				}
			}
			return v
		})
		for _, s := range []spacing{around, closely, finely} {
			from := minAct * math.Exp(rng.Float64()*0.3)
			if rng.IntN(2) == 0 {
				from = maxAct * math.Exp(-rng.Float64()*0.3)
			}
			if got := f.floor(1, from, s); !(got.act >= minAct*(1-1e-9) && got.act <= maxAct*(1+1e-9)) {
				t.Fatalf("from %v, %d T_act: %+v", from, s.n, got)
			}
		}
	}
}

// A valley that bends as that of mf0, or not at all, is followed to where it is lowest.
func TestAlongFollowsTheValley(t *testing.T) {
	t.Parallel()
	for name, act := range map[string]func(tau float64) float64{
		"as mf0":   func(tau float64) float64 { return math.Max(minAct, 5/math.Sqrt(1+meanfield.Lambda0/tau)) },
		"straight": func(float64) float64 { return 3 },
	} {
		for _, lowest := range []float64{1e-6, 1e-3, 0.05, 0.7, 20, 900} {
			for _, start := range []float64{1e-5, 0.05, 4} {
				f := trough(func(tau float64) (float64, float64) {
					d := math.Log(tau / lowest)
					return act(tau), 1e-3 * d * d
				}, 0.3)
				points, err := f.along(t.Context(), f.floor(start, act(start), around).point, coarse)
				if err != nil {
					t.Fatal(err)
				}
				best := least(points)
				if !approx.Equal(math.Log(best.tau/lowest), 0, 0.5) {
					t.Errorf("%s, from τ %v: %+v, want τ %v", name, start, best, lowest)
				}
				if value := f.values([]float64{best.act}, best.tau)[0]; !approx.Equal(value, 0, 3e-4) {
					t.Errorf("%s, from τ %v: value %v at %+v, want 0", name, start, value, best)
				}
			}
		}
	}
}

func TestAlongEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	stop, calls := errors.New("stopped"), 0
	f := searchOf(func(acts []float64, tau float64) []float64 {
		if calls++; calls == 2 {
			cancel(stop)
		}
		return make([]float64, len(acts))
	})
	if _, err := f.along(ctx, point{1, 1, 1}, fine); !errors.Is(err, stop) || calls > 2 {
		t.Errorf("error %v after %d evaluations, want %v after 2", err, calls, stop)
	}
}

// Where the AUROC is 1 all the way, T_ens is the largest, and T_act is at no bound.
func TestTuneWhereTheAUROCIsOneEverywhere(t *testing.T) {
	t.Parallel()
	for name, n := range map[string]int{"few": 60, "many": 4*subsampleSize + 9} {
		sure, unsure := &predictive{h: tuneHead, spread: 1}, &predictive{h: tuneHead, spread: 1}
		var labels []int
		for i := range n {
			sure.logits = append(sure.logits, 9, 0, float64(i%7)/7)
			unsure.logits = append(unsure.logits, 0.1, 0, float64(i%5)/50)
			for range 3 {
				sure.s2, unsure.s2 = append(sure.s2, 0.5+float64(i%3)/2), append(unsure.s2, 0.5+float64(i%3)/2)
			}
			labels = append(labels, 0)
		}
		got, err := Tune(t.Context(), sure, labels, unsure, math.Inf(1))
		if err != nil {
			t.Fatal(err)
		}
		if got.OODAtBound {
			t.Errorf("%s: T_act %v is at a bound", name, got.OOD.Act)
		}
		if got.OOD.Ens < 1e-3 {
			t.Errorf("%s: T_ens %v, want a large one", name, got.OOD.Ens)
		}
	}
}

// Losses between T_act that were evaluated are those that there are.
func TestLossesAtTheFloor(t *testing.T) {
	t.Parallel()
	val := flatSet(400, 2, true, 3)
	spread := median(val.s2)
	between := 0
	for _, tau := range []float64{0.02, 0.3, 50} {
		f := nllSearch(&val.examples, spread, meanfield.Lambda0)
		p := f.floor(tau, 2, closely)
		if p.above != 0 {
			between++
		}
		got := val.lossesAt(p)
		val.evaluate([]float64{p.act}, tau*spread)
		want := val.losses(0)
		for i := range want {
			if !approx.Equal(got[i], want[i], 2e-4*(1+want[i])) {
				t.Errorf("τ %v, example %d: loss %v, want %v", tau, i, got[i], want[i])
			}
		}
		if !approx.Equal(mean(got), mean(want), 5e-5) || !approx.Equal(p.value, mean(want), 5e-5) {
			t.Errorf("τ %v: mean loss %v, value %v, want %v", tau, mean(got), p.value, mean(want))
		}
	}
	if between == 0 {
		t.Error("all floors were at a T_act that was evaluated")
	}
}

func TestSearchFindsTheMinimum(t *testing.T) {
	t.Parallel()
	bowl := func(act, tau float64) func(a, b float64) float64 {
		return func(a, b float64) float64 {
			u, v := math.Log(a/act), math.Log(b/tau)
			return u*u + v*v + u*v
		}
	}
	// What NLL looks like: one temperature matters, and how it comes about little.
	valley := func(slope float64) func(a, b float64) float64 {
		return func(a, b float64) float64 {
			u := math.Log(a * math.Sqrt(1+meanfield.Lambda0/b) / 1.9)
			return 50*u*u + slope*math.Log(b)
		}
	}
	for name, test := range map[string]struct {
		f        func(act, tau float64) float64
		act, tau float64 // where f is least in the box
	}{
		"inside":                     {bowl(1.3, 0.2), 1.3, 0.2},
		"near a corner":              {bowl(0.03, 300), 0.03, 300},
		"outside, beyond a corner":   {bowl(1e3, 1e-9), maxAct, minTau},
		"outside, beyond a side":     {bowl(1e-3, 1), minAct, math.Sqrt(1e-3 / minAct)},
		"the hot end of the valley":  {valley(-1e-3), 1.9, maxTau},
		"the cold end of the valley": {valley(1e-3), minAct, meanfield.Lambda0 * minAct * minAct / (1.9 * 1.9)},
	} {
		s := searchOf(func(acts []float64, tau float64) []float64 {
			values := make([]float64, len(acts))
			for i, act := range acts {
				if act < minAct*(1-1e-12) || act > maxAct*(1+1e-12) || tau < minTau*(1-1e-12) ||
					tau > maxTau*(1+1e-12) {
					t.Errorf("%s: asked for T_act %v, τ %v", name, act, tau)
				}
				values[i] = test.f(act, tau)
			}
			return values
		})
		points, g, err := s.find(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		best := least(points)
		if want := test.f(test.act, test.tau); best.value > want+1e-3 {
			t.Errorf("%s: least %v at T_act %v, τ %v; want %v at %v, %v", name, best.value, best.act, best.tau, want, test.act, test.tau)
		}
		if g.Act[0] != minAct || !approx.Relative(g.Act[8], maxAct, 1e-12) || g.Tau[0] != minTau ||
			!approx.Relative(g.Tau[8], maxTau, 1e-12) {
			t.Errorf("grid from T_act %v to %v, τ %v to %v", g.Act[0], g.Act[8], g.Tau[0], g.Tau[8])
		}
	}
	for at := range 40 {
		calls := 0
		s := searchOf(func(acts []float64, _ float64) []float64 {
			values := make([]float64, len(acts))
			if calls == at {
				values[0] = math.NaN()
			}
			calls++
			return values
		})
		if _, _, err := s.find(t.Context()); calls > at && (err == nil || !strings.Contains(err.Error(), "not a number")) {
			t.Errorf("a NaN objective at evaluation %d: error %v", at, err)
		}
	}
}

// Of many examples a few show where to look; what is found is the optimum of all.
func TestTuningOnManyExamplesFindsTheSameOptimum(t *testing.T) {
	t.Parallel()
	for i, h := range []layer.Head{
		{Logits: 4, Features: 6, Bias: true, Link: layer.Softmax},
		{Logits: 1, Features: 6, Link: layer.Sigmoid},
		{Logits: 3, Features: 5, Bias: true, Link: layer.Sigmoid},
		{Logits: 4, Features: 6, Link: layer.OneVsRest},
	} {
		m := newMixture(h, 2, 1.5, uint64(900+i))
		c := accumulate(t, CurvatureConfig{Head: h}, m.draw(300, 0), 0)
		for _, epsilon := range []float64{1e-3, 1} {
			p := mustPosterior(t, c, Hessian, epsilon)
			data := m.draw(4*subsampleSize+123, 0)
			val := newTuningSet(h, nil, data, true, meanfield.Lambda0, 1)
			copy(val.s2, p.variancesOf(data))
			mid := median(val.s2)
			_, best, err := tuneNLL(t.Context(), &val.examples, mid, meanfield.Lambda0)
			if err != nil {
				t.Fatal(err)
			}
			if got := val.objective(0); got != best.value {
				t.Errorf("%s: what is left is of value %v, the optimum's is %v", h.Link, got, best.value)
			}
			all := nllSearch(&val.examples, mid, meanfield.Lambda0)
			all.few = nil
			points, _, err := all.find(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if want := least(points); best.value > want.value+fine {
				t.Errorf("%s, ε = %v: NLL %v at T_act %v, τ %v; want %v at %v, %v", h.Link, epsilon, best.value, best.act, best.tau, want.value, want.act, want.tau)
			}
		}
	}
}
