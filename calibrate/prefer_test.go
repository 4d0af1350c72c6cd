package calibrate

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/meanfield"
	"github.com/mfgs/mfgs/calibrate/rows"
)

// flatSet makes validation examples of a network that is overconfident by the
// factor sharpness, some of which have more logit variance than others. The
// variance says something of the errors where informative.
func flatSet(n int, sharpness float64, informative bool, seed uint64) *tuningSet {
	rng := rand.New(rand.NewPCG(11, seed))
	const k = 5
	s := &rows.Batch{N: n}
	s2 := make([]float64, 0, n*k)
	for range n {
		spread := math.Exp(1.5 * rng.NormFloat64())
		noise := 1.0
		if informative {
			noise = math.Sqrt(1 + spread)
		}
		label := rng.IntN(k)
		for j := range k {
			a := noise * rng.NormFloat64()
			if j == label {
				a += 2
			}
			s.Logits = append(s.Logits, float32(sharpness*a))
			s2 = append(s2, spread)
		}
		s.Features = append(s.Features, 0)
		s.Labels = append(s.Labels, label)
	}
	t := newTuningSet(layer.Head{Logits: k, Features: 1, Link: layer.Softmax}, nil, s, true, meanfield.Lambda0, 1)
	copy(t.s2, s2)
	return t
}

func TestPreferTakesTheLeastTauThatLikelihoodAllows(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		n           int
		informative bool
	}{
		"few, informative": {300, true}, "many, informative": {4000, true},
		"few, not informative": {300, false}, "many, not informative": {4000, false},
	} {
		val := flatSet(tc.n, 2, tc.informative, 1)
		mid := median(val.s2)
		_, limit, err := val.temperatureScaling(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_, best, err := tuneNLL(t.Context(), &val.examples, mid, meanfield.Lambda0)
		if err != nil {
			t.Fatal(err)
		}
		optimum := append([]float64(nil), val.nll[0]...)
		got := prefer(&val.examples, best, limit, mid, meanfield.Lambda0)
		if got.tau > best.tau {
			t.Errorf("%s: τ %v, above the optimum's %v", name, got.tau, best.tau)
		}
		if best.tau > leastTau && got.tau < leastTau*(1-1e-12) {
			t.Errorf("%s: τ %v, below %v", name, got.tau, leastTau)
		}
		val.evaluate([]float64{got.act}, got.tau*mid)
		most := math.Min(maxGivenUp*best.value, limit-best.value)
		loss, stdErr := pairedGain(val.nll[0], optimum)
		if got != best && loss > math.Min(stdErr, most)+1e-6 { // as exact as parabolas are
			t.Errorf("%s: NLL is %v above the optimum, want at most the standard error %v and %v", name, loss, stdErr, most)
		}
		// A clearly smaller τ must be worse by more than that, at every T_act of a fine grid.
		if got.tau/2 > leastTau {
			for _, act := range logSpace(0.1, maxAct, 200) {
				val.evaluate([]float64{act}, got.tau/2*mid)
				if loss, stdErr := pairedGain(val.nll[0], optimum); loss <= math.Min(stdErr, most) {
					t.Errorf("%s: τ/2 at T_act %.3g costs only %v", name, act, loss)
					break
				}
			}
		}
	}
}

// Where the variances say nothing and data is plenty, likelihood decides, and
// the preference must not overrule it.
func TestPreferStopsWhereLikelihoodDecides(t *testing.T) {
	t.Parallel()
	val := flatSet(10_000, 2, false, 1)
	mid := median(val.s2)
	_, limit, err := val.temperatureScaling(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, best, err := tuneNLL(t.Context(), &val.examples, mid, meanfield.Lambda0)
	if err != nil {
		t.Fatal(err)
	}
	if got := prefer(&val.examples, best, limit, mid, meanfield.Lambda0); got.tau < 10*leastTau {
		t.Errorf("τ = %v although variances are noise (optimum %v)", got.tau, best.tau)
	}
}

func TestPreferKeepsAnOptimumOfSmallTau(t *testing.T) {
	t.Parallel()
	best := point{act: 0.5, tau: leastTau / 2, value: 1}
	if got := prefer(nil, best, 2, 1, meanfield.Lambda0); got != best {
		t.Errorf("%v became %v", best, got)
	}
}

// Few validation examples have large standard errors. What they make prefer give up on fresh data
// stays about what it may give up on the validation ones, even where variances are noise.
func TestPreferGivesUpLittleWithFewExamples(t *testing.T) {
	t.Parallel()
	const repetitions = 12
	fresh := flatSet(5000, 2, false, 100)
	var optimum, preferred float64
	for seed := range uint64(repetitions) {
		val := flatSet(100, 2, false, 1+seed)
		mid := median(val.s2)
		_, limit, err := val.temperatureScaling(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_, best, err := tuneNLL(t.Context(), &val.examples, mid, meanfield.Lambda0)
		if err != nil {
			t.Fatal(err)
		}
		got := prefer(&val.examples, best, limit, mid, meanfield.Lambda0)
		for _, p := range []struct {
			point
			sum *float64
		}{{best, &optimum}, {got, &preferred}} {
			fresh.evaluate([]float64{p.act}, p.tau*mid)
			*p.sum += mean(fresh.nll[0]) / repetitions
		}
	}
	if preferred > (1+3*maxGivenUp)*optimum {
		t.Errorf("NLL on fresh data %.4f, that of the optimum %.4f", preferred, optimum)
	}
}
