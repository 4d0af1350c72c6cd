package calibrate

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/mfgs/mfgs/calibrate/meanfield"
)

// flatSet makes held-out examples of a network that is overconfident by the
// factor sharpness, some of which have more logit variance than others. The
// variance says something of the errors where informative.
func flatSet(n int, sharpness float64, informative bool) *tuningSet {
	rng := rand.New(rand.NewPCG(11, 1))
	const k = 5
	s := &Set{}
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
		s.Labels = append(s.Labels, int32(label))
	}
	t := newTuningSet(Head{Logits: k, Features: 1, Link: Softmax}, s, true)
	copy(t.s2, s2)
	return t
}

func TestPreferTakesTheLeastTauThatLikelihoodAllows(t *testing.T) {
	for name, tc := range map[string]struct {
		n           int
		informative bool
	}{
		"few, informative": {300, true}, "many, informative": {4000, true},
		"few, not informative": {300, false}, "many, not informative": {4000, false},
	} {
		val := flatSet(tc.n, 2, tc.informative)
		mid := median(val.s2)
		_, best, err := tuneNLL(t.Context(), val, mid, meanfield.Lambda0)
		if err != nil {
			t.Fatal(err)
		}
		optimum := append([]float64(nil), val.nll[0]...)
		got := prefer(val, best, mid, meanfield.Lambda0)
		if got.tau > best.tau {
			t.Errorf("%s: τ %v, above the optimum's %v", name, got.tau, best.tau)
		}
		if best.tau > leastTau && got.tau < leastTau*(1-1e-12) {
			t.Errorf("%s: τ %v, below %v", name, got.tau, leastTau)
		}
		val.evaluate([]float64{got.act}, 1/(got.tau*mid), meanfield.Lambda0)
		loss, stdErr := pairedGain(val.nll[0], optimum)
		if loss > stdErr {
			t.Errorf("%s: NLL is %v above the optimum, more than its standard error %v", name, loss, stdErr)
		}
		// A clearly smaller τ must be worse by more than the standard error, at
		// every T_act of a fine grid.
		if got.tau/2 > leastTau {
			for _, act := range logSpace(0.1, maxAct, 200) {
				val.evaluate([]float64{act}, 1/(got.tau/2*mid), meanfield.Lambda0)
				if loss, stdErr := pairedGain(val.nll[0], optimum); loss <= stdErr {
					t.Errorf("%s: τ/2 at T_act %.3g costs %v, within its standard error %v", name, act, loss, stdErr)
					break
				}
			}
		}
	}
}

// Where the variances say nothing and data is plenty, likelihood decides, and
// the preference must not overrule it.
func TestPreferYieldsToEvidence(t *testing.T) {
	val := flatSet(20_000, 2, false)
	mid := median(val.s2)
	_, best, err := tuneNLL(t.Context(), val, mid, meanfield.Lambda0)
	if err != nil {
		t.Fatal(err)
	}
	if got := prefer(val, best, mid, meanfield.Lambda0); got.tau < 10*leastTau {
		t.Errorf("τ = %v although variances are noise (optimum %v)", got.tau, best.tau)
	}
}

func TestPreferKeepsAnOptimumOfSmallTau(t *testing.T) {
	best := point{act: 0.5, tau: leastTau / 2, value: 1}
	if got := prefer(nil, best, 1, meanfield.Lambda0); got != best {
		t.Errorf("%v became %v", best, got)
	}
}
