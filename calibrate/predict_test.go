package calibrate

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"sync"
	"testing"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/meanfield"
	"github.com/mfgs/mfgs/calibrate/score"
	"github.com/mfgs/mfgs/internal/approx"
	"github.com/mfgs/mfgs/internal/parallel"
)

// naiveOutcomes are the log-probabilities of a head of separate logits by their
// definitions, and 1 - max p.
func naiveOutcomes(h layer.Head, mu []float64) (logp []float64, rest float64) {
	var sum float64
	sigma := make([]float64, len(mu))
	for k, m := range mu {
		sigma[k] = 1 / (1 + math.Exp(-m))
		sum += sigma[k]
	}
	top := 0.0
	for _, p := range sigma {
		if h.Link == layer.OneVsRest {
			logp = append(logp, math.Log(p/sum))
			top = math.Max(top, p/sum)
			continue
		}
		logp = append(logp, math.Log(1-p), math.Log(p))
		top += math.Max(p, 1-p) / float64(len(mu))
	}
	return logp, 1 - top
}

// servedMF0 is mf0 with a median margin.
func servedMF0(median float64) *score.Served {
	s, _ := score.Find("mf0")
	return &score.Served{Fitted: score.Fitted{Score: s}, Median: median, Scale: 1}
}

func TestPredictionsAreMeanfieldOfEachExample(t *testing.T) {
	t.Parallel()
	for i, h := range []layer.Head{
		{Logits: 3, Features: 5, Bias: true, Link: layer.Softmax},
		{Logits: 250, Features: 5, Link: layer.Softmax}, // mf0 is interpolated
		{Logits: 1, Features: 5, Bias: true, Link: layer.Sigmoid},
		{Logits: 6, Features: 5, Bias: true, Link: layer.Sigmoid},
		{Logits: 4, Features: 5, Link: layer.OneVsRest},
	} {
		train, test := randomSet(h, 200, 3, uint64(1000+i)), randomSet(h, 40, 3, uint64(1010+i))
		n, outcomes := test.N, h.Probabilities()
		for _, structure := range []Structure{Full, Kronecker} {
			t.Run(fmt.Sprintf("%s/%s", nameOf(h), structure), func(t *testing.T) {
				c := accumulate(t, CurvatureConfig{Head: h, Structure: structure}, train, 0)
				calibration := &Calibration{
					Posterior: mustPosterior(t, c, Hessian, 0.5),
					NLL:       layer.Temperatures{Act: 1.3, Ens: 0.7},
					OOD:       layer.Temperatures{Act: 0.4, Ens: 0.02},
					Lambda0:   meanfield.LambdaProbit, Score: servedMF0(0.3),
				}
				got := calibration.Predict(test.Features, test.Logits, n)
				s2 := calibration.Posterior.variancesOf(test)
				wantRelative(t, "leverage", got.Leverage, calibration.Posterior.leveragesOf(test), 0)
				for i := range n {
					one := func(pair layer.Temperatures) (logp []float64, rest float64) {
						mu, v := make([]float64, h.Logits), make([]float64, h.Logits)
						for k := range mu {
							mu[k] = float64(logitsOf(test, i)[k]) / pair.Act
							v[k] = s2[i*h.Logits+k] / pair.Ens
						}
						logp = make([]float64, outcomes)
						if h.Link != layer.Softmax { // σ(μ/√(1+λ₀s²))
							for k := range mu {
								mu[k] /= math.Sqrt(1 + calibration.Lambda0*v[k])
							}
							return naiveOutcomes(h, mu)
						}
						rest = meanfield.OneMinusMax(meanfield.MF0Exact(logp, mu, v, calibration.Lambda0), h.Logits)
						return logp, rest
					}
					logp, rest := one(calibration.NLL)
					for k, want := range logp {
						if !approx.Equal(got.LogP[i*outcomes+k], want, 1e-8) { // meanfield's own tolerance
							t.Errorf("example %d: log p[%d] = %v, want %v", i, k, got.LogP[i*outcomes+k], want)
						}
					}
					wantRelative(t, "1 - max p", []float64{meanfield.OneMinusMax(got.Margin[i], h.Categories())}, []float64{rest},
						1e-8)
					_, rest = one(calibration.OOD)
					chance := math.Log(float64(h.Categories() - 1))
					wantRelative(t, "OOD score", got.OODScore[i:i+1], []float64{0.3 / (0.3 + math.Log((1-rest)/rest) + chance)},
						1e-8)
				}
				for i, v := range s2 {
					if got.Variance[i] != v { // at T_ens = 1, whatever the pairs
						t.Fatalf("variance %d is %v, want %v", i, got.Variance[i], v)
					}
				}
			})
		}
	}
}

// MeanField is Predict of logits and variances alone, for as many examples, at any temperatures.
func TestMeanFieldIsPredictWithoutFeatures(t *testing.T) {
	t.Parallel()
	for i, h := range heads {
		s := randomSet(h, 40, 3, uint64(1040+i))
		c := &Calibration{
			Posterior: mustPosterior(t, accumulate(t, CurvatureConfig{Head: h}, s, 0), Hessian, 1),
			NLL:       layer.Temperatures{Act: 1.2, Ens: 0.6}, OOD: layer.Temperatures{Act: 0.5, Ens: 3},
			Lambda0: 0.3, Score: servedMF0(0.4),
		}
		want := c.Predict(s.Features, s.Logits, s.N)
		logp, margin := c.MeanField(s.Logits, want.Variance, s.N, c.NLL)
		if !slices.Equal(logp, want.LogP) || !slices.Equal(margin, want.Margin) {
			t.Errorf("%s: not what Predict gives", nameOf(h))
		}
	}
}

func TestZeroLambdaIsTheDefault(t *testing.T) {
	t.Parallel()
	for i, h := range []layer.Head{heads[1], heads[3], heads[5], heads[7]} {
		s := randomSet(h, 30, 2, uint64(1020+i))
		c := &Calibration{
			Posterior: mustPosterior(t, accumulate(t, CurvatureConfig{Head: h}, s, 0), Hessian, 1),
			NLL:       layer.Temperatures{Act: 1, Ens: 0.1}, OOD: layer.Temperatures{Act: 2, Ens: 0.1},
		}
		zero := c.Predict(s.Features, s.Logits, 30)
		c.Lambda0 = meanfield.Lambda0
		if want := c.Predict(s.Features, s.Logits, 30); !reflect.DeepEqual(zero, want) {
			t.Errorf("%s: λ₀ = 0 gives other predictions than the default", nameOf(h))
		}
	}
}

func TestPlainIsSoftmaxOfTheLogits(t *testing.T) {
	t.Parallel()
	for i, h := range []layer.Head{
		{Logits: 7, Features: 1, Link: layer.Softmax}, {Logits: 1, Features: 1, Link: layer.Sigmoid},
		{Logits: 7, Features: 1, Link: layer.Sigmoid}, {Logits: 7, Features: 1, Link: layer.OneVsRest},
	} {
		s := randomSet(h, 50, 3, uint64(1030+i))
		for _, temperature := range []float64{0.5, 1, 4} {
			logp, rest := plain(h, s.Logits, 50, temperature)
			for e := range 50 {
				logits := make([]float32, h.Logits)
				for k, a := range logitsOf(s, e) {
					logits[k] = a / float32(temperature) // powers of two: exact
				}
				p := naiveP(h, logits)
				top := slices.Max(p)
				if h.Link != layer.Softmax {
					mu := make([]float64, h.Logits)
					for k, a := range logits {
						mu[k] = float64(a)
					}
					var rest float64
					p, rest = naiveOutcomes(h, mu)
					for k, l := range p {
						p[k] = math.Exp(l)
					}
					top = 1 - rest
				}
				for k, want := range p {
					if got := math.Exp(logp[e*len(p)+k]); !approx.Equal(got, want, 1e-14) {
						t.Errorf("%s at T = %v: p[%d] = %v, want %v", h.Link, temperature, k, got, want)
					}
				}
				if !approx.Equal(rest[e], (1 - top), 1e-14) {
					t.Errorf("%s at T = %v: rest %v, want %v", h.Link, temperature, rest[e], 1-top)
				}
			}
		}
	}
}

// A sigmoid head is a softmax over [0, a] of which only the difference is known.
func TestPlainSigmoidKeepsSmallProbabilities(t *testing.T) {
	t.Parallel()
	h := layer.Head{Logits: 1, Features: 1, Link: layer.Sigmoid}
	logp, rest := plain(h, []float32{60, -60}, 2, 1)
	want := math.Exp(-60)
	for i, r := range rest {
		if !approx.Relative(r, want, 1e-12) {
			t.Errorf("rest %d is %v, want %v", i, r, want)
		}
	}
	if !approx.Equal(logp[0], -60, 1e-12) || !approx.Relative(logp[1], -want, 1e-12) {
		t.Errorf("log p %v, want -60 and %v", logp[:2], -want)
	}
}

// So are the labels of a multi-label head, whose mean is no larger than its parts;
// one-vs-rest keeps the ratio of two classes that are both all but impossible.
func TestSeparateLogitsKeepSmallProbabilities(t *testing.T) {
	t.Parallel()
	multi := layer.Head{Logits: 2, Features: 1, Link: layer.Sigmoid}
	logp, rest := plain(multi, []float32{60, -70}, 1, 1)
	p, q := math.Exp(-60), math.Exp(-70)
	wantRelative(t, "log p of two labels", logp, []float64{-60, -p, -q, -70}, 1e-12)
	wantRelative(t, "their rest", rest, []float64{(p + q) / 2}, 1e-12)

	ovr := layer.Head{Logits: 3, Features: 1, Link: layer.OneVsRest}
	logp, rest = plain(ovr, []float32{-900, -940, -1000, 40, -30, -41}, 2, 1)
	wantRelative(t, "log p of three classes", logp, []float64{-math.Exp(-40), -40, -100, -math.Exp(-30), -30, -41}, 1e-4)
	wantRelative(t, "their rest", rest, []float64{math.Exp(-40), math.Exp(-30) + math.Exp(-41)}, 1e-12)
}

func TestPredictIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	h := heads[1]
	s := randomSet(h, 300, 2, 1040)
	c := &Calibration{
		Posterior: mustPosterior(t, accumulate(t, CurvatureConfig{Head: h, Structure: Kronecker}, s, 0), Hessian, 1),
		NLL:       layer.Temperatures{Act: 1, Ens: 1}, OOD: layer.Temperatures{Act: 1, Ens: 1},
	}
	want := c.Predict(s.Features, s.Logits, 300)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if got := c.Predict(s.Features, s.Logits, 300); !reflect.DeepEqual(got, want) {
				t.Error("predictions differ")
			}
		})
	}
	wg.Wait()
	if none := c.Predict(nil, nil, 0); len(none.LogP) != 0 || len(none.Leverage) != 0 {
		t.Errorf("of no examples: %+v", none)
	}
}

// counted counts what is multiplied.
type counted struct {
	parallel.Go
	n int
}

func (p *counted) Multiply(c, a, b []float64, rows, n, m int) error {
	p.n++
	return p.Go.Multiply(c, a, b, rows, n, m)
}

// A product that is brought is asked, and where it fails predictions are as without it.
func TestPredictionsTakeTheProduct(t *testing.T) {
	t.Parallel()
	h := layer.Head{Logits: 3, Features: 5, Bias: true, Link: layer.Softmax}
	train, test := randomSet(h, 200, 3, 1), randomSet(h, 40, 3, 2)
	for _, structure := range []Structure{Full, Kronecker} {
		c := accumulate(t, CurvatureConfig{Head: h, Structure: structure}, train, 0)
		calibration := &Calibration{Posterior: mustPosterior(t, c, Hessian, 0.5),
			NLL: layer.Temperatures{Act: 1, Ens: 1}, OOD: layer.Temperatures{Act: 1, Ens: 1}, TS: 1}
		want := calibration.Predict(test.Features, test.Logits, test.N)
		own := &counted{}
		for name, p := range map[string]parallel.Product{"its own": own, "one that fails": &failingProduct{}} {
			calibration.Product = p
			if got := calibration.Predict(test.Features, test.Logits, test.N); !reflect.DeepEqual(got, want) {
				t.Errorf("%s, %s: %+v, want %+v", structure, name, got, want)
			}
		}
		if own.n == 0 {
			t.Errorf("%s: the product was not asked", structure)
		}
	}
}

func TestPredictPanicsOnShapes(t *testing.T) {
	t.Parallel()
	h := heads[1]
	s := randomSet(h, 4, 2, 1050)
	c := &Calibration{
		Posterior: mustPosterior(t, accumulate(t, CurvatureConfig{Head: h}, s, 0), Hessian, 1),
		NLL:       layer.Temperatures{Act: 1, Ens: 1}, OOD: layer.Temperatures{Act: 1, Ens: 1},
	}
	for name, f := range map[string]func(){
		"features":          func() { c.Predict(s.Features[1:], s.Logits, 4) },
		"logits":            func() { c.Predict(s.Features, s.Logits[1:], 4) },
		"logits of Plain":   func() { Plain(h, s.Logits, 3, 1) },
		"features to score": func() { c.Posterior.Leverages(make([]float64, 4), s.Features, 3) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("wrong number of %s did not panic", name)
				}
			}()
			f()
		}()
	}
}

// plain is Plain with 1 - max p.
func plain(h layer.Head, logits []float32, n int, temperature float64) (logp, rest []float64) {
	logp, rest = Plain(h, logits, n, temperature)
	for i, g := range rest {
		rest[i] = meanfield.OneMinusMax(g, h.Categories())
	}
	return logp, rest
}

// Predictions and scores that come in the time of one are those that come apart.
func TestPredictScoresIsBoth(t *testing.T) {
	t.Parallel()
	h := heads[1]
	s := randomSet(h, 30, 2, 1060)
	c := &Calibration{
		Posterior: mustPosterior(t, accumulate(t, CurvatureConfig{Head: h}, s, 0), Hessian, 1),
		NLL:       layer.Temperatures{Act: 1, Ens: 1}, OOD: layer.Temperatures{Act: 2, Ens: 0.5},
	}
	leverage, _ := score.Find("leverage")
	c.Score = score.Serve(&score.Fitted{Score: leverage}, []float64{1, 2, 3})
	list := []*score.Fitted{&servedMF0(1).Fitted, &c.Served().Fitted}
	p, values := c.PredictScores(list, s.Features, s.Logits, s.N)
	if want := c.Predict(s.Features, s.Logits, s.N); !reflect.DeepEqual(p, want) {
		t.Errorf("predictions %+v, want %+v", p, want)
	}
	if want := c.Scores(list, s.Features, s.Logits, s.N); !reflect.DeepEqual(values, want) {
		t.Errorf("scores %v, want %v", values, want)
	}
}

func TestMethodsAreKnownByTheirNames(t *testing.T) {
	t.Parallel()
	for m, known := range map[Method]bool{MLE: true, TS: true, MF0: true, "mf1": false, "": false, "MF0": false} {
		if err := m.Validate(); (err == nil) != known {
			t.Errorf("method %q: %v", m, err)
		}
	}
}
