package attach_test

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/meanfield"
	"github.com/mfgs/mfgs/calibrate/score"
	"github.com/mfgs/mfgs/featurize/ort"
	"github.com/mfgs/mfgs/internal/approx"
	"github.com/mfgs/mfgs/internal/attach"
	"github.com/mfgs/mfgs/internal/testerr"
	"github.com/mfgs/mfgs/internal/wraptest"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/fuse"
	"github.com/mfgs/mfgs/onnx/head"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// fusedSelector is a selector with the mean-field head: the r-th example has the
// r-th of the logits and of the variances at T_ens = 1, both [R,K].
func fusedSelector(t testing.TB, opset uint64, logits, variances []float32, r int,
	change func(*fuse.MeanField)) (*onnx.Model, fuse.Outputs) {
	return fusedSelectorLink(t, opset, layer.Softmax, logits, variances, r, change)
}

func fusedSelectorLink(t testing.TB, opset uint64, by layer.Link, logits, variances []float32, r int,
	change func(*fuse.MeanField)) (*onnx.Model, fuse.Outputs) {
	t.Helper()
	k := len(logits) / r
	m, err := onnx.Parse("selector", wraptest.Selector(opset, "y", logits, r, k))
	if err != nil {
		t.Fatal(err)
	}
	h, err := head.Find(m, head.Options{Link: by})
	if err != nil {
		t.Fatal(err)
	}
	q := layer.Quadratic{Forms: k + 1, Center: make([]float64, r), Projection: make([]float64, r*r),
		Offset: make([]float64, r)}
	for i := range r {
		q.Projection[i*r+i] = 1
		for _, v := range variances[i*k : (i+1)*k] {
			q.Weights = append(q.Weights, float64(v))
		}
		q.Weights = append(q.Weights, float64(i))
	}
	mf := &fuse.MeanField{
		Lambda0: meanfield.Lambda0, Forms: q,
		NLL: layer.Temperatures{Act: 1, Ens: 1}, OOD: layer.Temperatures{Act: 1.5, Ens: 0.5},
		Intervals: attach.Intervals(k, 2, 1e4), Scores: servedMF0(0.7),
	}
	if change != nil {
		change(mf)
	}
	fused, names, err := fuse.Append(m, h, mf)
	if err != nil {
		t.Fatal(err)
	}
	return fused, names
}

func startFused(t testing.TB, m *onnx.Model, names fuse.Outputs) *ort.Session {
	t.Helper()
	graph, err := m.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	if dir := os.Getenv("MFGS_KEEP_FUSED"); dir != "" {
		name := filepath.Join(dir, fmt.Sprintf("fused-%d-%d.onnx", m.Opset(), len(graph)))
		if err := os.WriteFile(name, graph, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var list []string
	for _, o := range names {
		list = append(list, o.Name)
	}
	s, err := ort.NewSession(ort.SessionConfig{Graph: graph, Outputs: list, Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// inSingle makes a head float32, with its one interval.
func inSingle(mf *fuse.MeanField) {
	mf.Single = true
	if k := mf.Forms.Forms - 1; k > 0 {
		mf.Intervals, _ = attach.Single(k, 1e4)
	}
}

// numbersOf are the numbers of an output, as float64.
func numbersOf(x tensor.Tensor) []float64 {
	if single, ok := x.Data.([]float32); ok {
		return widened(single)
	}
	return x.Data.([]float64)
}

// servedMF0 is mf0 as the OOD score of a bundle with a median margin and without quantiles.
func servedMF0(median float64) []fuse.Score {
	mf0, _ := score.Find("mf0")
	return attach.Scores(&score.Served{Fitted: score.Fitted{Score: mf0}, Median: median, Scale: 1}, false)
}

// oodScore is m/(m+g) of a margin g.
func oodScore(margin, m float64) float64 { return m / (m + margin) }

// unit returns the unit vectors of r dimensions.
func unit(r int) tensor.Tensor {
	x := make([]float32, r*r)
	for i := range r {
		x[i*r+i] = 1
	}
	return tensor.Tensor{Name: "x", Shape: []int64{int64(r), int64(r)}, Data: x}
}

// adversarial returns examples that are hard to interpolate or to represent, [R,K] each,
// with temperatures T_k between 1 and ratio.
func adversarial(k int, ratio float64, seed uint64) (logits, variances []float32, names []string) {
	return adversarialFrom(k, 1, ratio, seed)
}

// adversarialFrom is adversarial with temperatures between base and base·ratio.
func adversarialFrom(k int, base, ratio float64, seed uint64) (logits, variances []float32, names []string) {
	rng := rand.New(rand.NewPCG(seed, uint64(k)))
	add := func(name string, logit func(i int) float64) {
		names = append(names, name)
		for i := range k {
			logits = append(logits, float32(logit(i)))
			// T from 1 to ratio, its logarithm spread evenly, in no order.
			u := rng.Float64()
			if i < 2 {
				u = float64(i)
			}
			t := base * math.Exp(u*math.Log(ratio))
			variances = append(variances, float32((t*t-1)/meanfield.Lambda0))
		}
	}
	add("equal", func(int) float64 { return 3 })
	add("zero", func(int) float64 { return 0 })
	add("random", func(int) float64 { return 4 * rng.NormFloat64() })
	add("spread over 2e4", func(i int) float64 { return -1e4 + 2e4*float64(i)/float64(max(k-1, 1)) })
	add("one at 1e4, the rest at -1e4", func(i int) float64 {
		if i == k/2 {
			return 1e4
		}
		return -1e4
	})
	// The tied case is the worst for interpolation where the others together weigh as much as the
	// first.
	for _, gap := range []float64{0.1, 0.5, 1, 1.5, 2, 4, 10} {
		gap := gap * math.Log(float64(max(k-1, 2)))
		add(fmt.Sprintf("first ahead by %.3g", gap), func(i int) float64 {
			if i == 0 {
				return gap
			}
			return 0
		})
	}
	add("two clusters", func(i int) float64 { return float64(i%2) * 6 })
	return logits, variances, names
}

// The graph gives what the formulas give in float64, for the worst logits there are.
func TestFusedGraphOnAdversarialLogits(t *testing.T) {
	t.Parallel()
	for _, k := range []int{2, 3, 10, 60, 100, 1000, 21841} {
		for _, ratio := range []float64{1, 1.0001, 2, 4, 40, 300, 1e9, 1e18} {
			for _, single := range []bool{false, true} {
				if ratio > 1000 && (single || k > 1000) {
					continue // not for float32, and seconds for many classes
				}
				t.Run(fmt.Sprintf("K=%d/ratio=%v/float32=%t", k, ratio, single), func(t *testing.T) {
					logits, variances, what := adversarial(k, ratio, 1)
					r := len(what)
					m, names := fusedSelector(t, 13, logits, variances, r, func(mf *fuse.MeanField) {
						variances := max(1e4, ratio*ratio)
						mf.Intervals = attach.Intervals(k, 2, variances)
						if mf.Single = single; single {
							mf.Intervals, _ = attach.Single(k, variances)
						}
					})
					out, err := startFused(t, m, names).Run(t.Context(), []tensor.Tensor{unit(r)})
					if err != nil {
						t.Fatal(err)
					}
					probabilities, score := out[0].Data.([]float32), numbersOf(out[3])
					mu, s2, logp := make([]float64, k), make([]float64, k), make([]float64, k)
					w := meanfield.NewWorkspace(k, 0)
					for i, name := range what {
						oracle := func(act, ens float64) float64 {
							for j := range k {
								mu[j] = float64(logits[i*k+j]) / act
								s2[j] = float64(variances[i*k+j]) / ens
							}
							if k > 1000 {
								return w.MF0(logp, mu, s2)
							}
							return meanfield.MF0Exact(logp, mu, s2, meanfield.Lambda0)
						}
						oracle(1, 1)
						for j, l := range logp {
							want := math.Exp(l)
							if got := float64(probabilities[i*k+j]); !approx.Equal(got, want, 2e-6) {
								t.Fatalf("%s: p[%d] = %v, want %v", name, j, got, want)
							}
						}
						want := oodScore(oracle(1.5, 0.5), 0.7)
						if got := score[i]; !approx.Relative(got, want, 1e-6) {
							t.Errorf("%s: ood_score %v, want %v", name, got, want)
						}
					}
				})
			}
		}
	}
}

// Temperatures that are nearly the same leave an interval of a few units in the last
// place, or of none.
func TestFusedGraphOnNearlyEqualVariances(t *testing.T) {
	t.Parallel()
	for _, k := range []int{300, 1000} {
		var logits, variances []float32
		var what []string // of each example, and r to a batch
		r := 0
		for _, base := range []float64{1, 3, 100, 1e4} {
			for _, above := range []float64{0, 1e-8, 3e-8, 1e-7, 3e-7, 1e-6, 3e-6, 1e-5, 1e-4, 1e-3} {
				l, v, names := adversarialFrom(k, base, 1+above, 4)
				r = len(names)
				for i := range l {
					l[i] *= float32(base) // so that the temperatures do not level them
					l[i] = min(max(l[i], -1e6), 1e6)
				}
				logits, variances = append(logits, l...), append(variances, v...)
				for _, name := range names {
					what = append(what, fmt.Sprintf("T from %v to %v times that, %s", base, 1+above, name))
				}
			}
		}
		all := unit(len(what))
		for _, single := range []func(*fuse.MeanField){nil, inSingle} {
			m, names := fusedSelector(t, 13, logits, variances, len(what), single)
			s := startFused(t, m, names)
			for first := 0; first < len(what); first += r {
				batch := tensor.Tensor{Name: "x", Shape: []int64{int64(r), int64(len(what))},
					Data: all.Data.([]float32)[first*len(what) : (first+r)*len(what)]}
				out, err := s.Run(t.Context(), []tensor.Tensor{batch})
				if err != nil {
					t.Fatal(err)
				}
				for i, name := range what[first : first+r] {
					// The variances as they are in the graph.
					got := out[2].Data.([]float32)[i*k : (i+1)*k]
					want := fewTemperatures(logits[(first+i)*k:(first+i+1)*k], got)
					for j := range want {
						if p := float64(out[0].Data.([]float32)[i*k+j]); !approx.Equal(p, want[j], 4e-6) {
							t.Fatalf("K=%d, float32 %t, %s: p[%d] = %v, want %v", k, single != nil, name, j, p, want[j])
						}
					}
				}
			}
		}
	}
}

// fewTemperatures are the probabilities of mean-field zero by their definition, in proportion to
// 1/Σ_j exp((μ_j - μ_k)/T_k), in K operations for each T_k that differs.
func fewTemperatures(logits, variances []float32) (p []float64) {
	largest, all := float64(slices.Max(logits)), 0.0
	sums := map[float32]float64{} // Σ_j exp((μ_j - max μ)/T), by the variance
	for k, v := range variances {
		t := math.Sqrt(1 + meanfield.Lambda0*float64(v))
		if _, ok := sums[v]; !ok {
			var sum float64
			for _, l := range logits {
				sum += math.Exp((float64(l) - largest) / t)
			}
			sums[v] = sum
		}
		p = append(p, math.Exp((float64(logits[k])-largest)/t)/sums[v])
		all += p[k]
	}
	for k := range p {
		p[k] /= all
	}
	return p
}

// In every operator set the same operators are meant: those that changed are written as they are in
// the model's own.
func TestFusedGraphInEveryOperatorSet(t *testing.T) {
	t.Parallel()
	for _, k := range []int{3, 300} {
		for _, ratio := range []float64{2, 5, 30} { // each of the branches
			logits, variances, what := adversarial(k, ratio, 2)
			r := len(what)
			var first []float64
			for opset := uint64(7); opset <= 24; opset++ {
				m, names := fusedSelector(t, opset, logits, variances, r, nil)
				out, err := startFused(t, m, names).Run(t.Context(), []tensor.Tensor{unit(r)})
				if err != nil {
					t.Fatalf("operator set %d: %v", opset, err)
				}
				all := widened(slices.Concat(out[0].Data.([]float32), out[2].Data.([]float32), out[4].Data.([]float32)))
				all = append(all, out[3].Data.([]float64)...)
				if first == nil {
					first = all
				}
				for i, v := range all {
					if !approx.Equal(float64(v), float64(first[i]), 1e-6*math.Abs(float64(first[i]))+1e-30) {
						t.Fatalf("operator set %d, K=%d: number %d is %v, in operator set 7 %v", opset, k, i, v, first[i])
					}
				}
			}
		}
	}
}

// Extreme inputs: features far beyond the training data, and masked classes.
func TestFusedGraphOnExtremeNumbers(t *testing.T) {
	t.Parallel()
	const masked = -3e38 // -Inf would be, times the zero of the other example, no number
	for _, k := range []int{5, 300} {
		for _, method := range []fuse.Method{fuse.MF0, fuse.MF1} {
			if method == fuse.MF1 && k > fuse.MaxMF1Classes {
				continue
			}
			for _, opset := range []uint64{7, 11, 18} {
				logits, variances := make([]float32, 2*k), make([]float32, 2*k)
				for j := range logits {
					logits[j], variances[j] = float32(j%7), 1+float32(j%3)
				}
				logits[k+2], logits[k+4] = masked, masked
				m, names := fusedSelector(t, opset, logits, variances, 2,
					func(mf *fuse.MeanField) { mf.Method = method })
				s, last := startFused(t, m, names), 0.0
				for _, scale := range []float32{1, 1e2, 1e5, 1e10, 1e14, 1e16, 1e19, 1e25, 1e30, 1e37} {
					out, err := s.Run(t.Context(),
						[]tensor.Tensor{{Name: "x", Shape: []int64{1, 2}, Data: []float32{scale, 0}}})
					if err != nil {
						t.Fatal(err)
					}
					p, score := out[0].Data.([]float32), out[3].Data.([]float64)[0]
					var sum float64
					for _, v := range p {
						sum += float64(v)
					}
					// As features grow, logits and T grow alike: the score has a limit.
					if !approx.Equal(sum, 1, 1e-5) || !(scale <= 1e2 || score >= 0.999*last) ||
						!(score > 0 && score <= 1) {
						t.Errorf("K=%d, %s, features of %v: probabilities sum to %v, ood_score %v", k, method, scale, sum, score)
					}
					last = score
				}
				// The other example, with two classes masked.
				out, err := s.Run(t.Context(),
					[]tensor.Tensor{{Name: "x", Shape: []int64{1, 2}, Data: []float32{1e-20, 1}}})
				if err != nil {
					t.Fatal(err)
				}
				var sum float64
				p := out[0].Data.([]float32)
				for _, v := range p {
					sum += float64(v)
				}
				if !approx.Equal(sum, 1, 1e-5) || p[2] != 0 || p[4] != 0 {
					t.Errorf("K=%d, %s: masked classes have probabilities %v and %v, all sum to %v", k, method, p[2], p[4], sum)
				}
			}
		}
	}
}

// The forms of features are written in three ways, and in float64 where they must be.
func TestFusedGraphInEveryForm(t *testing.T) {
	t.Parallel()
	const k = 5
	logits, variances, what := adversarial(k, 3, 6)
	r := len(what)
	forms := map[string]func(q *layer.Quadratic){
		"weights": func(*layer.Quadratic) {},
		"a reduction": func(q *layer.Quadratic) { // twice the last of r-1 rows
			q.Reduction, q.Weights = make([]float64, r*(r-1)), q.Weights[:(r-1)*(k+1)]
			for i := range r {
				q.Reduction[i*(r-1)+min(i, r-2)] = 1 + float64(i/(r-1))
			}
		},
		"groups": func(q *layer.Quadratic) {
			width := (k + 1) * r
			projection := make([]float64, r*width)
			for i := range r {
				for m := range k + 1 {
					projection[i*width+m*r+i] = math.Sqrt(q.Weights[i*(k+1)+m])
				}
			}
			q.Projection, q.Offset, q.Weights = projection, make([]float64, width), nil
		},
	}
	for name, form := range forms {
		for _, double := range []bool{false, true} {
			for _, centred := range []bool{false, true} {
				for _, opset := range []uint64{7, 13, 18} {
					m, names := fusedSelector(t, opset, logits, variances, r, func(mf *fuse.MeanField) {
						form(&mf.Forms)
						mf.Forms.Double = double
						if centred { // which the offset makes up for
							q := &mf.Forms
							width := len(q.Offset)
							for i := range q.Center {
								q.Center[i] = 0.5
								for j := range width {
									q.Offset[j] += 0.5 * q.Projection[i*width+j]
								}
							}
						}
					})
					out, err := startFused(t, m, names).Run(t.Context(), []tensor.Tensor{unit(r)})
					if err != nil {
						t.Fatal(err)
					}
					for i := range r {
						from, times := i, 1.0
						if name == "a reduction" && i == r-1 {
							from, times = r-2, 2
						}
						for j, got := range out[2].Data.([]float32)[i*k : (i+1)*k] {
							if want := times * float64(variances[from*k+j]); !approx.Equal(float64(got), want,
								1e-6*want) {
								t.Fatalf("%s, float64 %t, centred %t, operator set %d: variance %v, want %v", name, double, centred, opset, got, want)
							}
						}
						if got, want := float64(out[4].Data.([]float32)[i]), times*float64(from); !approx.Equal(got,
							want, 1e-6*want) {
							t.Fatalf("%s, float64 %t, centred %t, operator set %d: leverage %v, want %v", name, double, centred, opset, got, want)
						}
					}
				}
			}
		}
	}
}

// Every link and method, with and without separate temperatures for the score.
func TestFusedGraphEqualsTheFormulas(t *testing.T) {
	t.Parallel()
	for _, k := range []int{1, 2, 7, 200} {
		logits, variances, what := adversarial(k, 3, 3)
		r := len(what)
		for _, by := range layer.All {
			for _, method := range []fuse.Method{fuse.MF0, fuse.MF1} {
				for _, probabilities := range []string{"of their own pair", "of the score's", "plain"} {
					if k == 1 && by != layer.Sigmoid {
						continue
					}
					t.Run(fmt.Sprintf("%s/%s/K=%d/%s", by, method, k, probabilities), func(t *testing.T) {
						nll, ood := layer.Temperatures{Act: 0.7, Ens: 2}, layer.Temperatures{Act: 3, Ens: 0.4}
						plain := 0.0
						switch probabilities {
						case "of the score's":
							ood = nll
						case "plain":
							plain = 1.7
						}
						m, names := fusedSelectorLink(t, 17, by, logits, variances, r, func(mf *fuse.MeanField) {
							mf.Method, mf.NLL, mf.OOD, mf.Plain = method, nll, ood, plain
						})
						out, err := startFused(t, m, names).Run(t.Context(), []tensor.Tensor{unit(r)})
						if err != nil {
							t.Fatal(err)
						}
						for i, name := range what {
							a, v := logits[i*k:(i+1)*k], variances[i*k:(i+1)*k]
							want, _ := formula(by, method, a, v, nll)
							if plain > 0 {
								want, _ = formula(by, fuse.MF0, a, make([]float32, k),
									layer.Temperatures{Act: plain, Ens: 1})
							}
							_, margin := formula(by, method, a, v, ood)
							score := oodScore(margin, 0.7)
							c := len(want)
							for j := range want {
								if got := float64(out[0].Data.([]float32)[i*c+j]); !approx.Equal(got, want[j], 2e-6) {
									t.Fatalf("%s: p[%d] = %v, want %v", name, j, got, want[j])
								}
							}
							if got := out[3].Data.([]float64)[i]; !approx.Relative(got, score, 1e-6) {
								t.Errorf("%s: ood_score %v, want %v", name, got, score)
							}
							for j := range a {
								if got := out[1].Data.([]float32)[i*k+j]; got != a[j] {
									t.Fatalf("%s: logit %v, want %v", name, got, a[j])
								}
								got, want := float64(out[2].Data.([]float32)[i*k+j]), float64(v[j])
								if !approx.Equal(got, want, 1e-6*want) {
									t.Fatalf("%s: variance %v, want %v", name, got, want)
								}
							}
							if got := out[4].Data.([]float32)[i]; got != float32(i) {
								t.Errorf("%s: leverage %v, want %d", name, got, i)
							}
						}
					})
				}
			}
		}
	}
}

// formula returns probabilities and margin of one example in float64.
func formula(by layer.Link, method fuse.Method, logits, variances []float32,
	temperatures layer.Temperatures) (p []float64, margin float64) {
	k := len(logits)
	mu, s2 := make([]float64, k), make([]float64, k)
	for j := range k {
		mu[j], s2[j] = float64(logits[j])/temperatures.Act, float64(variances[j])/temperatures.Ens
	}
	logp := make([]float64, k)
	switch {
	case by == layer.Softmax && method == fuse.MF1:
		margin = meanfield.MF1(logp, mu, s2, meanfield.Lambda0)
	case by == layer.Softmax:
		margin = meanfield.MF0Exact(logp, mu, s2, meanfield.Lambda0)
	default:
		for j := range k {
			mu[j] /= math.Sqrt(1 + meanfield.Lambda0*s2[j])
		}
		if by == layer.OneVsRest {
			margin = meanfield.OneVsRest(logp, mu)
			break
		}
		both := make([]float64, 2*k)
		margin = meanfield.Sigmoids(both, mu)
		if k == 1 {
			logp = both
			break
		}
		for j := range k {
			logp[j] = both[2*j+1]
		}
	}
	for _, l := range logp {
		p = append(p, math.Exp(l))
	}
	return p, margin
}

// The last interval holds all temperatures, and the others are worth their branch.
func TestIntervals(t *testing.T) {
	t.Parallel()
	for _, seen := range []float64{1, 1.05, 3, 8.35, 30, 1e6, 1e308} {
		for _, variances := range []float64{0.5, 1, 30, 1e4, 1e12, math.Inf(1)} {
			list := attach.Intervals(1000, seen, variances)
			previous := fuse.Interval{Ratio: 1}
			for _, i := range list {
				if i.Ratio <= previous.Ratio || 4*i.Parts*i.Nodes <= 5*previous.Parts*previous.Nodes {
					t.Errorf("ratio %v, variances within %v: %v", seen, variances, list)
				}
				if part := math.Pow(i.Ratio, 1/float64(i.Parts)); part > 100.001 {
					t.Errorf("%+v: a part of ratio %v takes too many nodes, and their memory", i, part)
				}
				previous = i
			}
			if previous.Ratio < min(1e20, math.Sqrt(variances)) {
				t.Errorf("ratio %v, variances within %v: %v does not hold all", seen, variances, list)
			}
		}
	}
	// Nearly all inputs are in the first, which ends above all validation and OOD data.
	for _, seen := range []float64{1.05, 3, 8} {
		list := attach.Intervals(1000, seen, 1e12)
		if len(list) < 3 || list[0].Ratio != 1.25*seen || list[1].Ratio != 4*seen {
			t.Errorf("ratio %v: %v, want them to begin with 1.25 and 4 times as much", seen, list)
		}
	}
	if list := attach.Intervals(1000, 1.05, 1e4); list[0].Nodes > 12 {
		t.Errorf("%v, want few nodes for what is usual", list)
	}
	if list := attach.Intervals(1000, 30, 1000); len(list) != 1 {
		t.Errorf("%v, want one, as the data differ nearly as much as any can", list)
	}
}

// In float32 no temperature is beyond the interval, and what has none is computed exactly or refused.
func TestTheIntervalInFloat32HoldsAllTemperatures(t *testing.T) {
	t.Parallel()
	for ratio, want := range map[float64]float64{0.5: 2, 1: 2, 100: 10, 1e6: 1000} {
		if list, err := attach.Single(1000, ratio); err != nil || len(list) != 1 || list[0].Ratio != want {
			t.Errorf("ratio %v: %v, %v, want %v", ratio, list, err, want)
		}
	}
	for _, ratio := range []float64{1.1e6, math.Inf(1)} {
		if list, err := attach.Single(1000, ratio); list != nil || err != nil {
			t.Errorf("ratio %v: %v, %v, want neither", ratio, list, err)
		}
		_, err := attach.Single(5000, ratio)
		testerr.OneLine(t, err, "5000 classes in float32", "export in float64")
	}
}

// The score of the graph has the digits of the float64 formulas where float32 has none: for confident predictions,
// and where temperatures make all probabilities equal.
func TestFusedScoresDoNotTie(t *testing.T) {
	t.Parallel()
	const r = 30
	for _, k := range []int{1, 2, 4, 60, 700} {
		for _, by := range layer.All {
			for _, method := range []fuse.Method{fuse.MF0, fuse.MF1} {
				if k == 1 && by != layer.Sigmoid || method == fuse.MF1 &&
					(by != layer.Softmax || k > fuse.MaxMF1Classes) {
					continue
				}
				for _, scale := range []float64{1e-6, 1e-3, 1, 1e3, 1e6} {
					if by == layer.OneVsRest && scale > 1 {
						continue // σ is 1 for several classes: 1 - max p itself ties
					}
					for _, ens := range []float64{1e20, 1, 1e-12} {
						rng := rand.New(rand.NewPCG(uint64(k), 8))
						logits, variances := make([]float32, r*k), make([]float32, r*k)
						for i := range logits {
							logits[i] = float32(scale * rng.NormFloat64())
							temp := 1 + rng.Float64()
							variances[i] = float32(temp * temp / meanfield.Lambda0)
						}
						ood := layer.Temperatures{Act: 0.8, Ens: ens}
						margins := make([]float64, r)
						for i := range margins {
							_, margins[i] = formula(by, method, logits[i*k:(i+1)*k], variances[i*k:(i+1)*k], ood)
						}
						median := slices.Sorted(slices.Values(margins))[r/2]
						m, names := fusedSelectorLink(t, 13, by, logits, variances, r, func(mf *fuse.MeanField) {
							mf.Method, mf.OOD, mf.Scores = method, ood, servedMF0(median)
						})
						out, err := startFused(t, m, names).Run(t.Context(), []tensor.Tensor{unit(r)})
						if err != nil {
							t.Fatal(err)
						}
						what := fmt.Sprintf("%s, %s, K=%d, logits of %v, T_ens %v", by, method, k, scale, ens)
						scores := out[3].Data.([]float64)
						for i, got := range scores {
							if want := oodScore(margins[i], median); !approx.Relative(got, want, 1e-5) {
								t.Errorf("%s: score %v, want %v", what, got, want)
							}
						}
						order := make([]int, r)
						for i := range order {
							order[i] = i
						}
						slices.SortFunc(order, func(i, j int) int { return cmp.Compare(margins[j], margins[i]) })
						for i, at := range order[1:] {
							before := order[i]
							if !(scores[at] > scores[before]) && !approx.Relative(margins[at], margins[before], 1e-5) {
								t.Errorf("%s: scores %v and %v of margins %v and %v", what, scores[before], scores[at], margins[before], margins[at])
							}
						}
						if distinct := slices.Compact(slices.Sorted(slices.Values(scores))); len(distinct) < r {
							t.Errorf("%s: %d scores of %d examples", what, len(distinct), r)
						}
					}
				}
			}
		}
	}
}

func widened(x []float32) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(v)
	}
	return out
}
