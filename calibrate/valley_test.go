package calibrate

import (
	"math"
	"testing"

	"github.com/mfgs/mfgs/calibrate/approx"
	"github.com/mfgs/mfgs/calibrate/meanfield"
)

// trough is a search whose valley has its floor at an act that depends on τ.
func trough(floor func(tau float64) (act, value float64), width float64, calls *int) search {
	return func(acts []float64, tau float64) []float64 {
		*calls++
		at, value := floor(tau)
		v := make([]float64, len(acts))
		for i, act := range acts {
			d := math.Log(act/at) / width
			v[i] = value + 1 - math.Exp(-d*d/2)
		}
		return v
	}
}

func TestFloorIsWhereTheValleyIsLowest(t *testing.T) {
	for name, test := range map[string]struct {
		at, from float64
		want     float64
		calls    int
	}{
		"there":            {1, 1, 1, 1},
		"near":             {1, 1.08, 1, 1},
		"farther":          {1, 1.6, 1, 4},
		"far below":        {0.5, 1.3, 0.5, 5},
		"at the lowest":    {minAct / 2, 0.03, minAct, 6},
		"at the highest":   {maxAct * 2, 13, maxAct, 6},
		"from outside":     {maxAct * 0.9, 500, maxAct * 0.9, 3},
		"from far outside": {minAct * 1.2, 1e-9, minAct * 1.2, 3},
	} {
		for _, s := range []spacing{around, closely} {
			calls := 0
			f := trough(func(float64) (float64, float64) { return test.at, 0.25 }, 0.6, &calls)
			got := f.floor(3, test.from, s)
			if !approx.Equal(math.Log(got.act/test.want), 0, 0.02) || got.tau != 3 {
				t.Errorf("%s, %d T_act: at %+v, want T_act %v", name, s.n, got, test.want)
			}
			if want := f([]float64{got.act}, 3)[0]; !approx.Equal(got.value, want, 1e-3) {
				t.Errorf("%s, %d T_act: value %v, want %v", name, s.n, got.value, want)
			}
			if calls--; calls > test.calls {
				t.Errorf("%s, %d T_act: looked %d times, want at most %d", name, s.n, calls, test.calls)
			}
		}
	}
}

func TestFloorOfNoNumbers(t *testing.T) {
	for name, v := range map[string]float64{"NaN": math.NaN(), "all the same": 0.5} {
		f := search(func(acts []float64, _ float64) []float64 {
			values := make([]float64, len(acts))
			fill(values, 0.5)
			values[1] = v
			return values
		})
		got := f.floor(1, 2, around)
		if math.IsNaN(got.value) != math.IsNaN(v) {
			t.Errorf("%s: value %v", name, got.value)
		}
		if !math.IsNaN(v) && !(got.act > 1 && got.act < 4) {
			t.Errorf("%s: T_act %v, want one near 2", name, got.act)
		}
	}
}

// A valley that bends as that of mf0, with its lowest place anywhere, is followed to there.
func TestAlongFollowsTheValley(t *testing.T) {
	for _, lowest := range []float64{1e-6, 1e-3, 0.05, 0.7, 20, 900} {
		for _, start := range []float64{1e-5, 0.05, 4} {
			calls := 0
			act := func(tau float64) float64 { return 5 * math.Exp(-valley(tau, meanfield.Lambda0)) }
			f := trough(func(tau float64) (float64, float64) {
				d := math.Log(tau / lowest)
				return math.Max(act(tau), minAct), 1e-3 * d * d
			}, 0.3, &calls)
			points, err := f.along(t.Context(), f.floor(start, act(start), around).point)
			if err != nil {
				t.Fatal(err)
			}
			best := least(points)
			if best.value > 3*coarse {
				t.Errorf("from τ %v: %+v, want τ %v", start, best, lowest)
			}
			if calls > 25 {
				t.Errorf("from τ %v to %v: %d evaluations", start, lowest, calls)
			}
		}
	}
}

// Losses between T_act that were evaluated are those that there are.
func TestLossesAtTheFloor(t *testing.T) {
	val := flatSet(400, 2, true, 3)
	spread := median(val.s2)
	for _, tau := range []float64{0.02, 0.3, 50} {
		f := nllSearch(&val.examples, spread)
		p := f.floor(tau, 2, closely)
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
}
