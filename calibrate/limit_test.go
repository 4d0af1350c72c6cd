package calibrate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/score"
	"github.com/mfgs/mfgs/internal/approx"
)

// mf0's own limit, without parameters: where every logit has the leverage for its variance, as under
// Σ = (A+δI)⁻¹ ⊗ I, mf0's 1 - max p orders examples as the studentized margin does, as T_ens goes to
// zero with T_act large; its margin is that of the logits in proportion.
func TestMF0TendsToTheStudentizedMargin(t *testing.T) {
	t.Parallel()
	const n = 400
	for _, by := range layer.All {
		for _, k := range []int{1, 2, 3, 40} {
			if k == 1 && by != layer.Sigmoid {
				continue
			}
			t.Run(fmt.Sprintf("%s/K=%d", by, k), func(t *testing.T) {
				rng := rand.New(rand.NewPCG(17, uint64(k)))
				x := score.Examples{N: n, K: k, Link: by, Variance: make([]float64, n*k)}
				for range n {
					x.Leverage = append(x.Leverage, math.Exp(2*rng.NormFloat64()))
					for range k {
						x.Logits = append(x.Logits, float32(5*rng.NormFloat64()))
					}
				}
				s, _ := score.Find("studentized")
				f, err := s.Fit(nil)
				if err != nil {
					t.Fatal(err)
				}
				want := f.Values(x)

				h, pair := layer.Head{Features: 1, Logits: k, Link: by}, layer.Temperatures{Act: 1e5, Ens: 1e-10}
				e := newEvaluator(h, 0)
				logp, s2 := make([]float64, 2*k+2), make([]float64, k)
				var last float64 // what one unit of the score is of mf0's margin
				for i := range n {
					for j := range s2 {
						s2[j] = x.Leverage[i]
					}
					margin := e.mf0(logp[:h.Probabilities()], mapped(nil, k, x.Logits[i*k:(i+1)*k]), s2, pair)
					unit := -margin / want[i]
					if i > 0 && !approx.Relative(unit, last, 1e-6) {
						t.Fatalf("example %d: margin %v is %v of the score %v, of others %v", i, margin, unit, want[i], last)
					}
					last = unit
				}
			})
		}
	}
}
