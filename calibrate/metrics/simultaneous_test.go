package metrics

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/mfgs/mfgs/internal/approx"
)

// normal is a figure whose draws are those of a mean, of the sizes of their effects.
func normal(rng *rand.Rand, shared []float64, value, sd, correlation float64) Series {
	s := Series{value, make([]float64, len(shared))}
	for r, v := range shared {
		s.Draws[r] = value + sd*(correlation*v+math.Sqrt(1-correlation*correlation)*rng.NormFloat64())
	}
	return s
}

// The largest of m independent deviations is below c in Φ(c)^m of all cases, on both sides.
func TestSimultaneousIntervalsAreThoseOfTheLargestDeviation(t *testing.T) {
	t.Parallel()
	const draws, level = 20_000, 0.95
	rng := rand.New(rand.NewPCG(31, 4))
	shared := make([]float64, draws)
	for r := range shared {
		shared[r] = rng.NormFloat64()
	}
	for _, test := range []struct {
		m           int
		correlation float64
		want        float64 // standard errors
	}{
		{1, 0, 1.960}, {5, 0, 2.569}, {20, 0, 3.016}, // Φ⁻¹((1 + level^(1/m))/2)
		{20, 1, 1.960}, // all the same
	} {
		var differences []Series
		for i := range test.m {
			sd := math.Pow(10, float64(i%3))
			differences = append(differences, normal(rng, shared, float64(i), sd, test.correlation))
		}
		for i, d := range Simultaneous(differences, level) {
			sd := math.Pow(10, float64(i%3))
			if d.Difference != float64(i) || !approx.Equal((d.Interval[1]-d.Interval[0])/2, test.want*sd, 0.05*sd) {
				t.Errorf("%d with correlation %v: %+v, want ± %v", test.m, test.correlation, d, test.want*sd)
			}
			if !approx.Equal(d.Interval[1]-d.Difference, d.Difference-d.Interval[0], 1e-9*sd) {
				t.Errorf("%+v is lopsided", d)
			}
		}
	}
}

func TestDifferencesWithoutSpreadOrBounds(t *testing.T) {
	t.Parallel()
	inf := math.Inf(1)
	got := Simultaneous([]Series{
		{1, []float64{0, 2, 1}}, {3, []float64{3, 3, 3}},
		{inf, []float64{inf, inf, 2}}, {math.NaN(), []float64{math.NaN(), 1, 1}},
	}, 0.9)
	if got[1] != (Difference{3, Interval{3, 3}}) || !got[1].Significant() {
		t.Errorf("always 3: %+v", got[1])
	}
	if !(got[0].Interval[0] < 1 && got[0].Interval[1] > 1) || math.IsInf(got[0].Interval[1], 0) {
		t.Errorf("beside infinities: %+v", got[0])
	}
	for _, d := range got[2:] {
		if d.Significant() {
			t.Errorf("%+v is sure", d)
		}
	}
	if Simultaneous(nil, 0.95) != nil {
		t.Error("none have intervals")
	}
}

func TestMeanOfFigures(t *testing.T) {
	t.Parallel()
	got := MeanOf([]Series{{1, []float64{1, 2}}, {3, []float64{5, 0}}})
	if got.Value != 2 || got.Draws[0] != 3 || got.Draws[1] != 1 {
		t.Errorf("got %+v", got)
	}
}

// What chance may gain, by the definition: of each resample the largest deviation of all, in
// standard errors, and the 95 % quantile of these, times each one's own standard error.
func TestGainsByChanceAreBoundedJointly(t *testing.T) {
	t.Parallel()
	const resamples = 400
	rng := rand.New(rand.NewPCG(44, 1))
	spreads := []float64{0.02, 0.3, 0, 0.1} // the third is the same on all draws
	gains := make([]Series, len(spreads))
	for i, s := range spreads {
		gains[i].Value = s * float64(i-1) / 2
		for range resamples {
			gains[i].Draws = append(gains[i].Draws, gains[i].Value+s*rng.NormFloat64())
		}
	}
	errs := make([]float64, len(gains))
	var largest []float64
	for r := range resamples {
		most := math.Inf(-1)
		for i, g := range gains {
			squares := 0.
			for _, v := range g.Draws {
				squares += (v - g.Value) * (v - g.Value)
			}
			if errs[i] = math.Sqrt(squares / (resamples - 1)); errs[i] > 0 {
				most = max(most, (g.Draws[r]-g.Value)/errs[i])
			}
		}
		largest = append(largest, most)
	}
	slices.Sort(largest)
	for i, got := range ChanceGains(gains, 0.95) {
		if want := errs[i] * largest[resamples*95/100]; !approx.Relative(got, want, 1e-12) {
			t.Errorf("gain %d may gain %v by chance, want %v", i, got, want)
		}
	}
}
