package attach_test

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/score"
	"github.com/mfgs/mfgs/internal/approx"
	"github.com/mfgs/mfgs/internal/attach"
	"github.com/mfgs/mfgs/onnx/fuse"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// operations are formulas that have every operation among them, over terms of examples with positive
// variances.
func operations[V any](t score.Terms[V], matrix, row []float64) map[string]V {
	a, f, s := t.Logits(), t.Features(), t.Variance()
	r, half := t.Constant("row", row, len(row)), t.Number(0.5)
	return map[string]V{
		"add, sub":   t.Sum(t.Sub(t.Add(a, r), t.Mul(half, r))),
		"div":        t.Sum(t.Div(a, t.Add(s, t.Leverage()))),
		"known":      t.OrOne(t.Sum(s), t.Greater(t.Number(2), t.Number(1))),
		"not known":  t.OrOne(t.Log(t.Number(-1)), t.Greater(t.Sum(a), t.Sum(a))),
		"expm1":      t.Sum(t.Expm1(t.Neg(s))),
		"log1p":      t.Sum(t.Log1p(s)),
		"of largest": t.OfLargest(a, "rows", row, 1),
		"min, max":   t.Sum(t.MinOf(t.MaxOf(a, t.Neg(half)), r)),
		"greater":    t.Sum(t.Greater(a, r)),
		"abs, exp":   t.Sum(t.Exp(t.Neg(t.Abs(a)))),
		"log, sqrt":  t.Sum(t.Log(t.Sqrt(s))),
		"rows":       t.Add(t.Max(a), t.Add(t.Min(a), t.Mean(a))),
		"largest":    t.Sum(t.Mul(t.Largest(a, 2), t.Constant("weights", []float64{1, 3}, 2))),
		"matmul":     t.Min(t.MatMul(f, t.Constant("matrix", matrix, 3))),
		"project":    t.Sum(t.Project(f, "projection", matrix, 3)),
		"distances":  t.Sum(t.Distances(f, t.MatMul(f, t.Constant("rough", matrix, 3)), 2, "near", matrix, len(matrix)/3)),
		"of class":   t.OfClass("classes", row, 1),
		"at":         t.At(t.Sum(t.Greater(a, r)), "table", slices.Concat(matrix, row[:3]), 3),
		"features":   t.Sum(f),
		"number":     t.Number(2),
		"margin":     t.Margin(),
	}
}

// A formula over a graph gives what it gives over numbers, in every operator set.
func TestTermsInGraphsEqualThoseInGo(t *testing.T) {
	t.Parallel()
	const k, r = 5, 6
	rng := rand.New(rand.NewPCG(31, 32))
	logits, variances := make([]float32, r*k), make([]float32, r*k)
	matrix, row := make([]float64, r*3), make([]float64, k)
	for i := range logits {
		logits[i], variances[i] = float32(rng.NormFloat64()), float32(0.1+rng.Float64())
	}
	for _, x := range [][]float64{matrix, row} {
		for i := range x {
			x[i] = rng.NormFloat64()
		}
	}
	x := score.Examples{N: r, K: k, D: r, Link: layer.Softmax, Logits: logits, Variance: widened(variances)}
	for i := range r {
		feature := make([]float32, r)
		feature[i] = 1
		x.Features, x.Leverage = append(x.Features, feature...), append(x.Leverage, float64(i))
		_, margin := formula(layer.Softmax, fuse.MF0, logits[i*k:(i+1)*k], variances[i*k:(i+1)*k],
			layer.Temperatures{Act: 1.5, Ens: 0.5})
		x.Margin = append(x.Margin, margin)
	}
	want := operations(score.Numbers(x), matrix, row)
	formulas := slices.Sorted(maps.Keys(want))
	for opset := uint64(7); opset <= 24; opset++ {
		for _, single := range []bool{false, true} {
			m, names := fusedSelector(t, opset, logits, variances, r, func(mf *fuse.MeanField) {
				if single {
					inSingle(mf)
				}
				mf.Scores = nil
				var made map[string]string
				for i, name := range formulas {
					mf.Scores = append(mf.Scores, fuse.Score{Name: fmt.Sprintf("s%d", i), Double: true,
						Emit: func(t *fuse.Terms) string {
							if made == nil {
								made = operations(attach.GraphOf(t), matrix, row)
							}
							// One number stands for all examples, and the output has one for each.
							return t.Add(made[name], t.Mul(t.Leverage(), t.Number(0)))
						}})
				}
			})
			out, err := startFused(t, m, names).Run(t.Context(), []tensor.Tensor{unit(r)})
			if err != nil {
				t.Fatalf("operator set %d: %v", opset, err)
			}
			for i, name := range formulas {
				for e, got := range numbersOf(out[fuse.Scores+i]) {
					all := want[name].Data
					if v := all[min(e, len(all)-1)]; !approx.Relative(got, v, 2e-6) {
						t.Errorf("operator set %d, float32 %t, %s: %v, want %v", opset, single, name, got, v)
					}
				}
			}
		}
	}
	if want["not known"].Data[0] != 1 {
		t.Error("what is not known is not 1")
	}
}

// Each score of the registry, for every link: the graph against float64.
func TestScoresInGraphsEqualThoseInGo(t *testing.T) {
	t.Parallel()
	for _, by := range layer.All {
		for _, k := range []int{1, 2, 7, 130} {
			if k == 1 && by != layer.Sigmoid {
				continue
			}
			logits, variances, what := adversarial(k, 3, 5)
			r := len(what)
			x := score.Examples{N: r, K: k, D: r, Link: by, Logits: logits, Variance: widened(variances)}
			for i := range r {
				_, margin := formula(by, fuse.MF0, logits[i*k:(i+1)*k], variances[i*k:(i+1)*k],
					layer.Temperatures{Act: 1.5, Ens: 0.5})
				x.Leverage, x.Margin = append(x.Leverage, 0.3*float64(i+1)), append(x.Margin, margin)
				x.Features = append(x.Features, unit(r).Data.([]float32)[i*r:(i+1)*r]...)
			}
			training := trainingOf(by, k, r)
			for _, opset := range []uint64{7, 9, 10, 13, 18, 24} {
				m, names := fusedSelectorLink(t, opset, by, logits, variances, r, func(mf *fuse.MeanField) {
					mf.Scores = nil
					for _, s := range score.All {
						if s.Correctness && k != 2 {
							continue
						}
						f, err := fitted(&s, training)
						if errors.Is(err, score.ErrNoFit) {
							continue
						}
						mf.Scores = append(mf.Scores, fuse.Score{Name: s.Name, Double: true,
							Emit: func(t *fuse.Terms) string { return f.Emit(attach.GraphOf(t)) }})
					}
					for i := range r {
						mf.Forms.Weights[i*(k+1)+k] = x.Leverage[i]
					}
				})
				out, err := startFused(t, m, names).Run(t.Context(), []tensor.Tensor{unit(r)})
				if err != nil {
					t.Fatalf("operator set %d: %v", opset, err)
				}
				for i, name := range names[fuse.Scores:] {
					s, _ := score.Find(name.Key)
					f, err := fitted(s, training)
					if err != nil {
						t.Fatal(err)
					}
					want := f.Values(x)
					for e, got := range out[fuse.Scores+i].Data.([]float64) {
						room := 1e-6 * math.Abs(want[e])
						if s.Name == "learned" { // a sum that is around zero
							room = max(room, 1e-6)
						}
						if !approx.Equal(got, want[e], room) {
							t.Errorf("%s, K=%d, operator set %d, %s of %s: %v, want %v", by, k, opset, name.Key, what[e], got, want[e])
						}
					}
				}
			}
		}
	}
}

// fitted fits a score to training data; the learned score is fitted to detect twice its sample.
func fitted(s *score.Score, training *score.Training) (*score.Fitted, error) {
	if s.Name != "learned" {
		return s.Fit(training)
	}
	in := score.Examples{N: training.Sample.M, K: training.K, D: training.D, Link: training.Link,
		Features: training.Sample.Features, Logits: make([]float32, training.Sample.M*training.K),
		Variance: make([]float64, training.Sample.M*training.K)}
	rng := rand.New(rand.NewPCG(52, uint64(training.K)))
	for i := range in.Logits {
		in.Logits[i] = float32(5 + rng.NormFloat64())
	}
	for i := range in.N {
		in.Leverage = append(in.Leverage, 1+float64(i%7))
	}
	out := in
	out.Features, out.Leverage = slices.Clone(in.Features), slices.Clone(in.Leverage)
	for i := range out.Features {
		out.Features[i] *= 2
	}
	for i := range out.Leverage {
		out.Leverage[i] *= 4
	}
	return score.Learn(training, in, out)
}

// trainingOf draws training data for a head, 120 examples after a ReLU.
func trainingOf(by layer.Link, k, d int) *score.Training {
	const n = 120
	rng := rand.New(rand.NewPCG(51, uint64(k)))
	t := &score.Training{K: k, D: d, Link: by, N: n, Gram: make([]float64, d*d), Sum: make([]float64, d)}
	for range k * d {
		t.W = append(t.W, rng.NormFloat64())
	}
	for range k {
		t.B = append(t.B, 20+rng.NormFloat64())
	}
	if by != layer.Sigmoid || k == 1 {
		classes := max(2, k)
		t.ClassSums, t.ClassCounts = make([]float64, classes*d), make([]int, classes)
	}
	t.Sample.M = n
	for i := range n {
		phi := make([]float32, d)
		for j := range phi {
			phi[j] = float32(max(0, 0.5+rng.NormFloat64()))
		}
		for j, v := range phi {
			t.Sum[j] += float64(v)
			for l, u := range phi {
				t.Gram[j*d+l] += float64(v) * float64(u)
			}
			if t.ClassSums != nil {
				t.ClassSums[i%len(t.ClassCounts)*d+j] += float64(v)
			}
		}
		if t.ClassSums != nil {
			t.ClassCounts[i%len(t.ClassCounts)]++
		}
		t.Sample.Features = append(t.Sample.Features, phi...)
	}
	t.Leverages = func(dst []float64, _ []float32, n int) error {
		for i := range n {
			dst[i] = 0.1 + 0.01*float64(i%7)
		}
		return nil
	}
	if t.ClassSums != nil { // of the features, in place of directions: the formula is the same
		t.Directions = &score.Training{K: k, D: d, Link: by, N: n, Gram: t.Gram, Sum: t.Sum, ClassSums: t.ClassSums,
			ClassCounts: t.ClassCounts}
	}
	return t
}

// served is a bundle's OOD score, measured on examples.
func served(t *testing.T, name string, x score.Examples) *score.Served {
	t.Helper()
	s, ok := score.Find(name)
	if !ok {
		t.Fatalf("there is no score %s", name)
	}
	var training *score.Training
	if s.NeedsFitting() {
		training = trainingOf(x.Link, x.K, x.D)
	}
	f, err := s.Fit(training)
	if err != nil {
		t.Fatal(err)
	}
	return score.Serve(f, f.Values(x))
}

// Served scores are the same in the graph as in float64, in every operator set. For a feature or logit that is not
// finite the graph gives the largest OOD score.
func TestNonFiniteNumbersGetTheLargestOODScoreInAGraph(t *testing.T) {
	t.Parallel()
	const k = 4
	logits, variances, what := adversarial(k, 3, 9)
	r := len(what)
	for i := range logits {
		logits[i] = min(max(logits[i], -50), 50)
	}
	x := score.Examples{N: r, K: k, D: r, Link: layer.Softmax, Logits: logits, Variance: widened(variances),
		Features: unit(r).Data.([]float32)}
	for i := range r {
		x.Leverage = append(x.Leverage, 0.3*float64(i+1))
		_, margin := formula(layer.Softmax, fuse.MF0, logits[i*k:(i+1)*k], variances[i*k:(i+1)*k],
			layer.Temperatures{Act: 1.5, Ens: 0.5})
		x.Margin = append(x.Margin, margin)
	}
	for _, name := range []string{score.Default, "studentized", "mf0", "leverage", "energy", "gen", "entropy"} {
		s := served(t, name, x)
		scores, shares, _ := s.Values(x)
		for i := range 2 * 18 {
			opset, single := uint64(7+i/2), i%2 == 1
			m, names := fusedSelector(t, opset, logits, variances, r, func(mf *fuse.MeanField) {
				if single {
					inSingle(mf)
				}
				mf.Scores = attach.Scores(s, false)
				for i := range r {
					mf.Forms.Weights[i*(k+1)+k] = x.Leverage[i]
				}
				if !s.Margin {
					mf.OOD = layer.Temperatures{}
				}
			})
			session := startFused(t, m, names)
			out, err := session.Run(t.Context(), []tensor.Tensor{unit(r)})
			if err != nil {
				t.Fatalf("%s, operator set %d, float32 %t: %v", name, opset, single, err)
			}
			for i, got := range numbersOf(out[fuse.Scores]) {
				if share := numbersOf(out[fuse.Scores+1])[i]; !approx.Relative(got, scores[i], 1e-6) ||
					!approx.Equal(share, shares[i], 1e-4) {
					t.Errorf("%s, operator set %d, %s: %v and %v, want %v and %v", name, opset, what[i], got, share, scores[i], shares[i])
				}
				// The score's last digits decide between two ranks.
				p, most, least := numbersOf(out[fuse.Scores+2])[i], s.PValue(got), s.PValue(got)
				if single {
					most, least = s.PValue(got*(1-1e-6))+1e-7, s.PValue(got*(1+1e-6))-1e-7
				}
				if !(least <= p && p <= most) {
					t.Errorf("%s, operator set %d, float32 %t, %s: p-value %v, want %v", name, opset, single, what[i], p, most)
				}
			}
			for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
				inputs := unit(r)
				inputs.Data.([]float32)[r+1] = float32(bad) // of the second example
				out, err := session.Run(t.Context(), []tensor.Tensor{inputs})
				if err != nil {
					t.Fatal(err)
				}
				got, share := numbersOf(out[fuse.Scores]), numbersOf(out[fuse.Scores+1])
				if got[1] != 1 || share[1] != 1 || !approx.Relative(got[0], scores[0], 1e-6) {
					t.Errorf("%s, operator set %d, float32 %t, %v: scores %v and %v, share %v", name, opset, single, bad, got[0], got[1], share[1])
				}
			}
		}
	}
}

// With more features than components of the default score, and eigenvalues over five orders of magnitude, the graph's
// product in float32 is good enough.
func TestTheDefaultScoreOfManyFeaturesInAGraph(t *testing.T) {
	t.Parallel()
	const k, d, n, examples = 3, 600, 900, 20
	rng := rand.New(rand.NewPCG(61, 62))
	draw := func(class int) []float32 {
		phi := make([]float32, d)
		for j := range phi {
			phi[j] = float32(3 * rng.NormFloat64() / math.Pow(float64(j+1), 0.9))
		}
		phi[class] += 3
		return phi
	}
	training := &score.Training{
		K: k, D: d, Link: layer.Softmax, N: n, Gram: make([]float64, d*d), Sum: make([]float64, d),
		ClassSums: make([]float64, k*d), ClassCounts: make([]int, k), W: make([]float64, k*d), B: make([]float64, k),
		Leverages: func(dst []float64, _ []float32, n int) error {
			for i := range n {
				dst[i] = 1 + 0.01*float64(i%7)
			}
			return nil
		},
	}
	training.Sample.M = n
	for i := range n {
		phi := draw(i % k)
		training.Sample.Features = append(training.Sample.Features, phi...)
		training.ClassCounts[i%k]++
		for j, v := range phi {
			training.Sum[j] += float64(v)
			training.ClassSums[i%k*d+j] += float64(v)
			for l, u := range phi {
				training.Gram[j*d+l] += float64(v) * float64(u)
			}
		}
	}
	training.Directions = training // of the features, in place of directions: the formula is the same
	s, _ := score.Find(score.Default)
	f, err := s.Fit(training)
	if err != nil {
		t.Fatal(err)
	}
	x := score.Examples{N: examples, K: k, D: d, Link: layer.Softmax}
	weights, variances := make([]float32, d*k), make([]float32, d*k)
	for i := range weights {
		weights[i], variances[i] = float32(rng.NormFloat64()), 1
	}
	for i := range examples {
		x.Features = append(x.Features, draw(i%k)...)
	}
	m, names := fusedSelector(t, 17, weights, variances, d, func(mf *fuse.MeanField) {
		mf.Scores = []fuse.Score{
			{Name: s.Name, Double: true, Emit: func(t *fuse.Terms) string { return f.Emit(attach.GraphOf(t)) }},
			{Name: "leverage", Emit: (*fuse.Terms).Leverage},
		}
		for i := range d {
			mf.Forms.Weights[i*(k+1)+k] = 1
		}
	})
	in := tensor.Tensor{Name: unit(1).Name, Shape: []int64{examples, d}, Data: x.Features}
	out, err := startFused(t, m, names).Run(t.Context(), []tensor.Tensor{in})
	if err != nil {
		t.Fatal(err)
	}
	x.Logits, x.Variance = out[fuse.Logits].Data.([]float32), widened(out[fuse.LogitVariance].Data.([]float32))
	x.Leverage = widened(out[fuse.Scores+1].Data.([]float32))
	for i, want := range f.Values(x) {
		if got := out[fuse.Scores].Data.([]float64)[i]; !approx.Relative(got, want, 1e-6) {
			t.Errorf("example %d: %v in the graph, want %v", i, got, want)
		}
	}
}
