package layers

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/calibrate"
	geometry "github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/meanfield"
	"github.com/mfgs/mfgs/cmd/mfgs-paper/internal/methods"
	"github.com/mfgs/mfgs/internal/approx"
)

func (s stack) sampled(t *testing.T, p *Posterior, n, samples int) *Sampled {
	t.Helper()
	got, err := drawn(context.Background(), p, s.inputs(n), samples, 5)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func drawn(ctx context.Context, p *Posterior, x []float32, samples int, seed uint64) (*Sampled, error) {
	draws, err := p.Draw(samples, seed)
	if err != nil {
		return nil, err
	}
	return draws.Predictive(ctx, x)
}

// naiveDraw writes out the weights of sample m, [out,dim] for each layer.
func (s stack) naiveDraw(p *Posterior, m int, ens float64) [][]float64 {
	rng := rand.New(rand.NewPCG(5, uint64(m)))
	all := s.parameters()
	for i, l := range s.layers {
		dim, f := len(all[i])/l.Out, p.layers[i]
		z := make([]float64, dim*l.Out)
		for j := range z {
			z[j] = rng.NormFloat64()
		}
		for o := range l.Out {
			for c := range dim {
				for a := range dim {
					for b := range l.Out {
						all[i][o*dim+c] += f.qa[c*dim+a] * f.qb[o*l.Out+b] * z[a*l.Out+
							b] * math.Sqrt(f.variance[a*l.Out+b]/ens)
					}
				}
			}
		}
	}
	return all
}

func TestSampledIsTheMeanOverDrawnNetworks(t *testing.T) {
	t.Parallel()
	const n, samples = 4, 7
	for _, s := range stacks() {
		for _, cov := range kinds {
			p, k := s.fit(t, cov, 40, calibrate.Damping{Relative: 1}, nil), s.classes()
			sampled := s.sampled(t, p, n, samples)
			for _, at := range []geometry.Temperatures{{Act: 1, Ens: 0.2}, {Act: 0.5, Ens: 3}, {Act: 2, Ens: 3}} {
				if err := sampled.SetEns(at.Ens); err != nil {
					t.Fatal(err)
				}
				predict, logp := sampled.Predictor(), make([]float64, k)
				for i := range n {
					want := make([]float64, k)
					for m := range samples {
						_, _, logits := s.naive(s.naiveDraw(p, m, at.Ens), s.example(s.inputs(n), i), 0, nil)
						for c := range logits {
							logits[c] /= at.Act
						}
						for c, v := range naiveP(logits) {
							want[c] += v / samples
						}
					}
					rest := meanfield.OneMinusMax(predict(logp, i, at), len(logp))
					got, others := make([]float64, k), 1.0
					for c, l := range logp {
						got[c] = math.Exp(l)
						others = min(others, 1-want[c])
					}
					// Logits are kept in float32.
					wantSame(t, fmt.Sprintf("%s, %s, %v, example %d", s.name, cov, at, i), append(got, rest), append(want, others), 1e-5)
				}
			}
		}
	}
}

// The covariance over draws is S / T_ens up to the sampling error, √(2/M) for a variance.
func TestSmallDeviationsAreLinear(t *testing.T) {
	t.Parallel()
	const n, samples, tau = 3, 4000, 1e6
	for _, s := range stacks() {
		p, k := s.fit(t, calibrate.Hessian, 200, calibrate.Damping{Relative: 1}, nil), s.classes()
		sampled := s.sampled(t, p, n, samples)
		ens := tau * sampled.MedianVariance()
		if err := sampled.SetEns(ens); err != nil {
			t.Fatal(err)
		}
		want := covariancesOf(t, p, s.inputs(n))
		variance := func(i, c int) float64 {
			at := i * k * (k + 1) / 2
			for r := range c {
				at += k - r
			}
			return want[at]
		}
		at := 0
		for i := range n {
			_, _, center := s.naive(s.parameters(), s.example(s.inputs(n), i), 0, nil)
			for c := range k {
				for d := c; d < k; d++ {
					var sum float64
					for m := range samples {
						row := sampled.members[(i*samples+m)*k:]
						sum += (float64(row[c]) - center[c]) * (float64(row[d]) - center[d])
					}
					got := sum / samples * ens
					// Five standard errors; the logits' last bits and what is not linear
					// are each some 1e-3 of a deviation.
					if slack := 5.2 * math.Sqrt(2*variance(i, c)*variance(i, d)/samples); !approx.Equal(got, want[at],
						slack) {
						t.Errorf("%s, example %d: covariance %d, %d is %v, want %v ± %v", s.name, i, c, d, got, want[at], slack)
					}
					at++
				}
			}
		}
	}
}

// With one layer the logits are linear in the weights.
func TestOneLayerEqualsMethodsSamples(t *testing.T) {
	t.Parallel()
	const n, samples, ens = 5, 30, 0.1
	s := stacks()[0]
	p, k := s.fit(t, calibrate.Hessian, 60, calibrate.Damping{Relative: 1}, nil), s.classes()
	sampled := s.sampled(t, p, n, samples)
	if err := sampled.SetEns(ens); err != nil {
		t.Fatal(err)
	}
	logits, deviations := make([]float32, n*k), make([]float32, n*samples*k)
	for i := range n {
		_, _, center := s.naive(s.parameters(), s.example(s.inputs(n), i), 0, nil)
		for m := range samples {
			_, _, drawn := s.naive(s.naiveDraw(p, m, 1), s.example(s.inputs(n), i), 0, nil)
			for c := range k {
				logits[i*k+c] = float32(center[c])
				deviations[(i*samples+m)*k+c] = float32(drawn[c] - center[c])
			}
		}
	}
	linear, err := methods.NewSamples(logits, deviations, n, samples, k)
	if err != nil {
		t.Fatal(err)
	}
	for _, act := range []float64{0.5, 1, 3} {
		ours, theirs := sampled.Predictor(), linear.Predictor()
		got, want := make([]float64, k), make([]float64, k)
		for i := range n {
			ours(got, i, geometry.Temperatures{Act: act, Ens: ens})
			theirs(want, i, geometry.Temperatures{Act: act, Ens: ens * act * act})
			wantSame(t, fmt.Sprintf("T_act %v, example %d", act, i), got, want, 1e-5)
		}
	}
}

func TestMedianVarianceIsThatOfTheExamples(t *testing.T) {
	t.Parallel()
	for _, s := range stacks() {
		p, k := s.fit(t, calibrate.Hessian, 50, calibrate.Damping{Relative: 1}, nil), s.classes()
		const n = 9
		spread := s.sampled(t, p, n, 1).MedianVariance()
		all := make([]float64, n*k)
		if err := p.Variances(all, s.inputs(n), n); err != nil {
			t.Fatal(err)
		}
		below, above := 0, 0
		for _, v := range all {
			if v <= spread {
				below++
			}
			if v >= spread {
				above++
			}
		}
		if below+above <= n*k || below < n*k/2 || above < n*k/2 {
			t.Errorf("%s: of %d variances %d are at most the spread %v, %d at least", s.name, n*k, below, spread, above)
		}
	}
}

func TestSampledDoesNotDependOnTheProcessors(t *testing.T) {
	s := stacks()[3]
	const n, samples = calibrate.BlockSize + 40, 3
	run := func(processors int) []float32 {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(processors))
		sampled := s.sampled(t, s.fit(t, calibrate.Hessian, n, calibrate.Damping{Relative: 1}, nil), n, samples)
		if err := sampled.SetEns(0.3); err != nil {
			t.Fatal(err)
		}
		return sampled.members
	}
	one, four := run(1), run(4)
	for i := range one {
		if one[i] != four[i] {
			t.Fatalf("logit %d is %v with one processor, %v with four", i, one[i], four[i])
		}
	}
}

func TestUncachedDrawsAreTheSame(t *testing.T) {
	t.Parallel()
	s := stacks()[3]
	const n, samples = 20, 5
	p := s.fit(t, calibrate.Hessian, n, calibrate.Damping{Relative: 1}, nil)
	var want []float32
	for _, keep := range []int{samples, 2, 0} {
		sampled := s.sampled(t, p, n, samples)
		sampled.draws.maxCache = keep
		for _, ens := range []float64{2, 0.3} {
			if err := sampled.SetEns(ens); err != nil {
				t.Fatal(err)
			}
		}
		if got := len(sampled.draws.cached); got != keep {
			t.Errorf("%d draws are kept, want %d", got, keep)
		}
		if want == nil {
			want = sampled.members
		}
		if !slices.Equal(sampled.members, want) {
			t.Errorf("with %d draws kept the logits are others", keep)
		}
	}
}

func TestSampledRefusesBadInputs(t *testing.T) {
	t.Parallel()
	s := stacks()[3]
	p := s.fit(t, calibrate.Hessian, 20, calibrate.Damping{Relative: 1}, nil)
	for name, c := range map[string]struct {
		n, samples int
		want       string
	}{
		"no samples":  {3, 0, "0 samples"},
		"no examples": {0, 5, "0 examples"},
		"too many":    {3, 1 << 31, "take fewer with a limit, or fewer samples"},
	} {
		if _, err := drawn(context.Background(), p, s.inputs(c.n), c.samples, 1); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
	sampled := s.sampled(t, p, 3, 2)
	for _, ens := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		if err := sampled.SetEns(ens); err == nil {
			t.Errorf("T_ens %v: no error", ens)
		}
	}
	// A spread that takes logits out of float32's range.
	if err := sampled.SetEns(1e-300); err != nil {
		t.Fatal(err)
	}
	logp := make([]float64, 3)
	if margin := sampled.Predictor()(logp, 0, geometry.Temperatures{Act: 0.02, Ens: 1e-300}); !(margin >= 0 &&
		margin < math.Inf(1)) {
		t.Errorf("the margin is %v", margin)
	}
	defer func() {
		if recover() == nil {
			t.Error("a prediction with another T_ens than was set: no panic")
		}
	}()
	sampled.Predictor()(logp, 0, geometry.Temperatures{Act: 1, Ens: 1})
}

func TestTuneSearchesBothTemperaturesOfSampled(t *testing.T) {
	t.Parallel()
	s := stacks()[3]
	const n = 60
	p := s.fit(t, calibrate.Hessian, n, calibrate.Damping{Relative: 1}, nil)
	val := s.sampled(t, p, n, 20)
	labels := s.labels(n) // what the network thinks, of four in five
	for i := range labels {
		_, _, logits := s.naive(s.parameters(), s.example(s.inputs(n), i), 0, nil)
		if i%5 > 0 {
			labels[i] = argmax(logits)
		}
	}
	tuned, err := calibrate.Tune(context.Background(), val, labels, s.sampled(t, p, 30, 20), math.Inf(1))
	if err != nil {
		t.Fatal(err)
	}
	// nll by the slow way, at what was found and where nothing is drawn.
	nll := func(at geometry.Temperatures) float64 {
		if err := val.SetEns(at.Ens); err != nil {
			t.Fatal(err)
		}
		predict, logp, sum := val.Predictor(), make([]float64, 3), 0.0
		for i, y := range labels {
			predict(logp, i, at)
			sum -= logp[y]
		}
		return sum / n
	}
	found := nll(tuned.Optimum)
	for _, other := range []geometry.Temperatures{{Act: tuned.Optimum.Act * 1.1, Ens: tuned.Optimum.Ens},
		{Act: tuned.Optimum.Act / 1.1, Ens: tuned.Optimum.Ens}, {Act: 1, Ens: val.MedianVariance()}} {
		if v := nll(other); v < found {
			t.Errorf("NLL %v at %v, found %v at %v", v, other, found, tuned.Optimum)
		}
	}
	if !tuned.OODTuned || !(tuned.OOD.Ens > 0) {
		t.Errorf("temperatures for out-of-distribution data %v", tuned.OOD)
	}
}
