package fuse_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/meanfield"
	"github.com/mfgs/mfgs/featurize/ort"
	"github.com/mfgs/mfgs/internal/approx"
	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
	"github.com/mfgs/mfgs/internal/onnx/onnxtest"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/fuse"
	"github.com/mfgs/mfgs/onnx/head"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// opsets are those in which operators of the head changed their form, and the ends of what is supported.
var opsets = []int64{7, 8, 9, 10, 11, 13, 17, 18, 24}

// network is y = x·w as a model of an operator set, with its head.
func network(t testing.TB, opset int64, by layer.Link, w []float64, d, k int) (*onnx.Model, *head.Head) {
	t.Helper()
	open := &onnxpb.Dimension_DimParam{DimParam: "N"}
	value := func(name string, width int) *onnxpb.ValueInfo {
		v := onnxpb.TensorInfo(name, tensor.Float32, -1, int64(width))
		v.Type.TensorType.Shape.Dim[0].Value = open
		return v
	}
	pb := &onnxpb.Model{IrVersion: proto.Int64(7), OpsetImport: []*onnxpb.OperatorSet{{Version: proto.Int64(opset)}},
		Graph: &onnxpb.Graph{Name: proto.String("network"), Node: []*onnxpb.Node{onnxtest.Node("MatMul", "x w", "y")},
			Initializer: []*onnxpb.Tensor{onnxtest.FloatTensor("w", w, int64(d), int64(k))},
			Input:       []*onnxpb.ValueInfo{value("x", d)}, Output: []*onnxpb.ValueInfo{value("y", k)}}}
	m, err := onnx.Parse("network", onnxtest.Marshal(t, pb))
	if err != nil {
		t.Fatal(err)
	}
	h, err := head.Find(m, head.Options{Link: by})
	if err != nil {
		t.Fatal(err)
	}
	return m, h
}

// results are what a fused model gives for N examples, by the keys of outputs: numbers as float64.
type results struct {
	numbers map[string][]float64
	bools   map[string][]bool
}

// run appends the head to a network and runs both on x, [N,d].
func run(t testing.TB, m *onnx.Model, h *head.Head, mf *fuse.MeanField, x []float32) results {
	t.Helper()
	fused, outputs, err := fuse.Append(m, h, mf)
	if err != nil {
		t.Fatal(err)
	}
	out := ranFused(t, fused, outputs, x, h.Features)
	r := results{map[string][]float64{}, map[string][]bool{}}
	for i, o := range outputs {
		switch data := out[i].Data.(type) {
		case []float32:
			for _, v := range data {
				r.numbers[o.Key] = append(r.numbers[o.Key], float64(v))
			}
		case []float64:
			r.numbers[o.Key] = data
		case []bool:
			r.bools[o.Key] = data
		default:
			t.Fatalf("%s is a %T", o.Key, data)
		}
	}
	return r
}

// ranFused are the outputs of a fused model for x, [N,width].
func ranFused(t testing.TB, m *onnx.Model, outputs fuse.Outputs, x []float32, width int) []tensor.Tensor {
	t.Helper()
	var names []string
	for _, o := range outputs {
		names = append(names, o.Name)
	}
	s, err := ort.NewSession(ort.SessionConfig{Graph: onnxtest.BytesOf(t, m), Outputs: names, Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	shape := []int64{int64(len(x) / width), int64(width)}
	out, err := s.Run(t.Context(), []tensor.Tensor{{Name: "x", Shape: shape, Data: x}})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func normal(rng *rand.Rand, n int, scale float64) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = scale * rng.NormFloat64()
	}
	return x
}

func singles(x []float64) []float32 {
	out := make([]float32, len(x))
	for i, v := range x {
		out[i] = float32(v)
	}
	return out
}

// marginScore gives the margin itself, and the leverage.
var marginScore = []fuse.Score{
	{Name: "ood_score", Double: true, Emit: func(t *fuse.Terms) string { return t.Add(t.Margin(), t.Number(0)) }},
	{Name: "leverage", Emit: (*fuse.Terms).Leverage},
}

// values are the quadratic forms of an example by their definition, in float64.
func values(q *layer.Quadratic, phi []float32) []float64 {
	terms := len(q.Offset)
	z := slices.Clone(q.Offset)
	for i, v := range phi {
		for r := range z {
			z[r] += (float64(v) - q.Center[i]) * q.Projection[i*terms+r]
		}
	}
	out := make([]float64, q.Forms)
	if q.Weights == nil {
		each := terms / q.Forms
		for r, v := range z {
			out[r/each] += v * v
		}
		return out
	}
	u := make([]float64, terms)
	for r, v := range z {
		u[r] = v * v
	}
	if q.Reduction != nil {
		inner := len(q.Reduction) / terms
		reduced := make([]float64, inner)
		for r, v := range u {
			for s := range inner {
				reduced[s] += v * q.Reduction[r*inner+s]
			}
		}
		u = reduced
	}
	for r, v := range u {
		for m := range out {
			out[m] += v * q.Weights[r*q.Forms+m]
		}
	}
	return out
}

// forms draws quadratic forms that are never negative, in one of the three ways they are written.
func forms(rng *rand.Rand, d, k int, kind string) layer.Quadratic {
	positive := func(n int) []float64 {
		x := make([]float64, n)
		for i := range x {
			x[i] = 0.05 + rng.Float64()
		}
		return x
	}
	m := k + 1
	q := layer.Quadratic{Forms: m, Center: normal(rng, d, 0.5)}
	terms := d + 2
	switch kind {
	case "weights":
		q.Weights = positive(terms * m)
	case "a reduction":
		q.Reduction, q.Weights = positive(terms*3), positive(3*m)
	case "groups":
		terms = 2 * m
	}
	q.Projection, q.Offset = normal(rng, d*terms, 0.4), normal(rng, terms, 0.3)
	return q
}

// oracle gives probabilities and the margin of one example by package meanfield, under a pair.
func oracle(by layer.Link, method fuse.Method, logits, variances []float64, lambda0 float64, pair layer.Temperatures,
) (p []float64, margin float64) {
	k := len(logits)
	mu, s2, logp := make([]float64, k), make([]float64, k), make([]float64, k)
	for j := range k {
		mu[j], s2[j] = logits[j]/pair.Act, variances[j]/pair.Ens
		if by != layer.Softmax {
			mu[j] /= math.Sqrt(1 + lambda0*s2[j])
		}
	}
	switch {
	case by == layer.Softmax && method == fuse.MF1:
		margin = meanfield.MF1(logp, mu, s2, lambda0)
	case by == layer.Softmax:
		margin = meanfield.MF0Exact(logp, mu, s2, lambda0)
	case by == layer.OneVsRest:
		margin = meanfield.OneVsRest(logp, mu)
	default:
		both := make([]float64, 2*k)
		margin = meanfield.Sigmoids(both, mu)
		for j := range logp {
			logp[j] = both[2*j+1]
		}
		if k == 1 {
			logp = both
		}
	}
	for _, l := range logp {
		p = append(p, math.Exp(l))
	}
	return p, margin
}

// The whole head is what the formulas give in float64, for every link and method, each form of the
// quadratic forms, temperatures of one pair, of two and of none, and in every operator set whose
// operators differ. With many classes log-sum-exps are interpolated, unless that takes too many nodes.
func TestHeadEqualsFormulas(t *testing.T) {
	t.Parallel()
	const n, d, lambda0 = 12, 5, 0.37
	kinds := []string{"weights", "a reduction", "groups"}
	seed := uint64(0)
	type headCase struct {
		link      layer.Link
		method    fuse.Method
		k         int
		intervals []fuse.Interval
	}
	cases := []headCase{
		{layer.Softmax, "", 2, nil}, {layer.Softmax, fuse.MF0, 5, nil}, {layer.Softmax, fuse.MF1, 5, nil},
		{layer.Softmax, fuse.MF0, 70, []fuse.Interval{{Ratio: 1e4, Parts: 1, Nodes: 34}}},
		{layer.Softmax, fuse.MF0, 70, []fuse.Interval{
			{Ratio: 1.0001, Parts: 1, Nodes: 2}, {Ratio: 1e4, Parts: 1, Nodes: 33}}},
		{layer.Softmax, fuse.MF0, 70, []fuse.Interval{{Ratio: 1e4, Parts: 3, Nodes: 11}}},
		{layer.Softmax, fuse.MF0, 70, []fuse.Interval{
			{Ratio: 1.0001, Parts: 1, Nodes: 2}, {Ratio: 1e4, Parts: 1, Nodes: 35}}},
		{layer.Softmax, fuse.MF0, 60, []fuse.Interval{{Ratio: 1e4, Parts: 2, Nodes: 15}}},
		{layer.Softmax, fuse.MF1, 40, nil},
		{layer.OneVsRest, "", 6, nil}, {layer.Sigmoid, "", 1, nil}, {layer.Sigmoid, "", 6, nil},
	}
	for _, c := range cases {
		for i, plain := range []float64{0, 1.7, 0, 1.7} {
			for _, pairs := range []string{"two pairs", "one pair", "no margin"} {
				seed++
				single := i > 1
				if n := len(c.intervals); single && (n > 1 || n == 1 && c.intervals[0].Parts > 1) {
					continue // float32 has neither choice nor parts
				}
				rng := rand.New(rand.NewPCG(seed, 1))
				kind, opset, double := kinds[seed%3], opsets[seed%uint64(len(opsets))], !single && seed%4 == 0
				what := fmt.Sprintf("%s %s, K=%d, %v, T=%v, %s, %s, float64 %t, float32 %t, operator set %d",
					c.link, c.method, c.k, c.intervals, plain, pairs, kind, double, single, opset)
				m, h := network(t, opset, c.link, normal(rng, d*c.k, 1), d, c.k)
				mf := &fuse.MeanField{Method: c.method, Lambda0: lambda0, Plain: plain, Forms: forms(rng, d, c.k, kind),
					NLL: layer.Temperatures{Act: 0.8, Ens: 0.5}, OOD: layer.Temperatures{Act: 1.4, Ens: 0.2},
					Intervals: c.intervals, Scores: marginScore, Single: single}
				mf.Forms.Double = double
				if seed%5 < 2 {
					what += ", matrix scaling"
					r, of := h.AffineRank(), rand.New(rand.NewPCG(seed, 2))
					mf.Affine = &layer.Affine{Scale: normal(of, c.k, 0.5), Offset: normal(of, c.k, 1),
						Left: normal(of, c.k*r, 0.3/math.Sqrt(float64(c.k))), Right: normal(of, r*c.k, 0.3)}
				}
				if seed%3 == 0 && !h.MultiLabel() {
					what += ", prior"
					mf.Prior = normal(rand.New(rand.NewPCG(seed, 3)), h.Classes(), 2)
				}
				switch pairs {
				case "one pair":
					mf.OOD = mf.NLL
				case "no margin":
					mf.OOD, mf.Scores = layer.Temperatures{}, marginScore[1:]
				}
				x := singles(normal(rng, n*d, 1))
				got := run(t, m, h, mf, x)
				for i := range n {
					logits := got.numbers["logits"][i*c.k : (i+1)*c.k]
					q := values(&mf.Forms, x[i*d:(i+1)*d])
					for j, v := range got.numbers["logit_variance"][i*c.k : (i+1)*c.k] {
						if !approx.Relative(v, q[j], 2e-5) {
							t.Fatalf("%s: variance %v of logit %d, want %v", what, v, j, q[j])
						}
					}
					if v := got.numbers["leverage"][i]; !approx.Relative(v, q[c.k], 2e-5) {
						t.Fatalf("%s: leverage %v, want %v", what, v, q[c.k])
					}
					mapped := make([]float64, c.k)
					mf.Affine.To(mapped, singles(logits))
					logits = mapped
					p, _ := oracle(c.link, c.method, logits, q[:c.k], lambda0, mf.NLL)
					if plain > 0 {
						alone := layer.Temperatures{Act: plain, Ens: 1}
						p, _ = oracle(c.link, fuse.MF0, logits, make([]float64, c.k), lambda0, alone)
					}
					if mf.Prior != nil {
						var sum float64
						for j := range p {
							p[j] *= math.Exp(mf.Prior[j])
							sum += p[j]
						}
						for j := range p {
							p[j] /= sum
						}
					}
					for j, v := range got.numbers["probabilities"][i*len(p) : (i+1)*len(p)] {
						if !approx.Equal(v, p[j], 5e-6) || !approx.Relative(v, p[j], 1e-3) {
							t.Fatalf("%s: p[%d] = %v, want %v", what, j, v, p[j])
						}
					}
					if pairs == "no margin" {
						continue
					}
					_, want := oracle(c.link, c.method, logits, q[:c.k], lambda0, mf.OOD)
					room := 2e-5 * want
					if single && mf.Affine != nil { // whose image may cancel
						room += 1e-6
					}
					if v := got.numbers["ood_score"][i]; !approx.Equal(v, want, room) {
						t.Fatalf("%s: margin %v, want %v", what, v, want)
					}
				}
			}
		}
	}
}

// A model with some of the outputs gives the same numbers for them, and holds less: without scores the mean-field
// integral is computed by shorter formulas.
func TestChosenOutputsAreThoseOfTheWholeModel(t *testing.T) {
	t.Parallel()
	const n, d = 12, 5
	at := 0.3
	for _, c := range []struct {
		link      layer.Link
		method    fuse.Method
		k         int
		intervals []fuse.Interval
	}{
		{layer.Softmax, fuse.MF0, 5, nil}, {layer.Softmax, fuse.MF1, 5, nil},
		{layer.Softmax, fuse.MF0, 70, []fuse.Interval{{Ratio: 1e4, Parts: 1, Nodes: 34}}},
		{layer.OneVsRest, "", 6, nil}, {layer.Sigmoid, "", 1, nil}, {layer.Sigmoid, "", 6, nil},
	} {
		for _, single := range []bool{false, true} {
			rng := rand.New(rand.NewPCG(uint64(c.k), 7))
			m, h := network(t, 17, c.link, normal(rng, d*c.k, 1), d, c.k)
			mf := &fuse.MeanField{Method: c.method, Lambda0: 0.4, Forms: forms(rng, d, c.k, "weights"), Single: single,
				NLL: layer.Temperatures{Act: 0.8, Ens: 0.5}, OOD: layer.Temperatures{Act: 1.4, Ens: 0.2},
				Intervals: c.intervals, Scores: marginScore,
				Decisions: &fuse.Decisions{OOD: &at, Set: &fuse.Set{Thresholds: []float64{0.7}}}}
			x := singles(normal(rng, n*d, 1))
			x[d] = float32(math.NaN())
			size := func() int {
				t.Helper()
				fused, _, err := fuse.Append(m, h, mf)
				if err != nil {
					t.Fatal(err)
				}
				return len(fused.Proto().GetGraph().GetNode())
			}
			whole, most := run(t, m, h, mf, x), size()
			for _, names := range [][]string{
				{"probabilities"}, {"logits"}, {"logit_variance"}, {"ood_score"}, {"leverage"}, {"abstain"},
				{"prediction_set"}, {"abstain", "probabilities"}, {"leverage", "prediction_set", "logits"},
			} {
				what := fmt.Sprintf("%s %s, K=%d, float32 %t, %v", c.link, c.method, c.k, single, names)
				mf.Outputs = names
				got := run(t, m, h, mf, x)
				if len(got.numbers)+len(got.bools) != len(names) || size() >= most {
					t.Errorf("%s: outputs %v and %v, %d operators and %d with all outputs", what, got.numbers, got.bools, size(), most)
				}
				for _, name := range names {
					if !slices.Equal(got.bools[name], whole.bools[name]) {
						t.Errorf("%s: %s is %v, want %v", what, name, got.bools[name], whole.bools[name])
					}
					if len(got.numbers[name]) != len(whole.numbers[name]) {
						t.Fatalf("%s: %d numbers, want %d", what, len(got.numbers[name]), len(whole.numbers[name]))
					}
					for i, v := range whole.numbers[name] {
						nan := math.IsNaN(v) && math.IsNaN(got.numbers[name][i])
						if !nan && !approx.Relative(got.numbers[name][i], v, 3e-6) {
							t.Errorf("%s: number %d of %s is %v, want %v", what, i, name, got.numbers[name][i], v)
						}
					}
				}
			}
			mf.Outputs = nil
		}
	}
}

// Outputs are named by their keys: of two of one name, the network's and the head's, the head's is meant.
func TestChosenOutputsHaveTheirUsualNames(t *testing.T) {
	t.Parallel()
	const d, k = 3, 4
	rng := rand.New(rand.NewPCG(1, 7))
	m, _ := network(t, 17, layer.Softmax, normal(rng, d*k, 1), d, k)
	pb := proto.Clone(m.Proto()).(*onnxpb.Model)
	g := pb.Graph
	for _, name := range []string{"probabilities", "logits"} { // the second is not what the head has for logits
		g.Node = append(g.Node, onnxtest.Node("Softmax", "y", name))
		g.Output = append(g.Output, onnxpb.TensorInfo(name, tensor.Float32, -1, k))
	}
	m, err := onnx.Parse("network", onnxtest.Marshal(t, pb))
	if err != nil {
		t.Fatal(err)
	}
	h, err := head.Find(m, head.Options{Logits: "y", Link: layer.Softmax})
	if err != nil {
		t.Fatal(err)
	}
	mf := &fuse.MeanField{Lambda0: 0.4, Forms: forms(rng, d, k, "weights"), Scores: marginScore,
		NLL: layer.Temperatures{Act: 0.8, Ens: 0.5}, OOD: layer.Temperatures{Act: 1.4, Ens: 0.2}}
	for want, names := range map[string][]string{
		"y, probabilities, logits, mfgs_probabilities, mfgs_logits, logit_variance, ood_score, leverage": nil,

		"probabilities":    {"probabilities"},
		"y, logits":        {"logits", "y"},
		"y, probabilities": {"probabilities", "y", "y"},
		"y":                {"y"},
	} {
		mf.Outputs = names
		fused, outputs, err := fuse.Append(m, h, mf)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, v := range fused.Outputs() {
			got = append(got, v.Name)
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%q: outputs %q, want %q", names, got, want)
		}
		if logits := outputs.Of("logits"); logits != nil {
			sum := 0.0
			for _, v := range ranFused(t, fused, fuse.Outputs{*logits}, []float32{1, 2, 3}, d)[0].Data.([]float32) {
				sum += float64(v)
			}
			if approx.Equal(sum, 1, 1e-3) {
				t.Errorf("%q: logits sum to 1, as the network's own probabilities do", names)
			}
		}
	}
	for want, names := range map[string][]string{
		`output "p", want some of probabilities, logits, logit_variance, ood_score, leverage, y`: {"y", "p"},
		`no outputs, want some of probabilities, logits, logit_variance, ood_score, leverage, y`: {},
	} {
		mf.Outputs = names
		if _, _, err := fuse.Append(m, h, mf); err == nil || err.Error() != want {
			t.Errorf("%q: got %v, want %s", names, err, want)
		}
	}
}

// With many classes, log-sum-exps and the nodes of their interpolation are computed in parts.
func TestManyClassesAreComputedInParts(t *testing.T) {
	t.Parallel()
	const n, d, k, lambda0 = 2, 3, 4124, 0.4 // 133 parts of 31, and one class more
	for _, intervals := range [][]fuse.Interval{
		nil, {{Ratio: 1e3, Parts: 1, Nodes: 40}}, {{Ratio: 1e3, Parts: 3, Nodes: 40}},
	} {
		rng := rand.New(rand.NewPCG(6, 6))
		m, h := network(t, 13, layer.Softmax, normal(rng, d*k, 1), d, k)
		mf := &fuse.MeanField{Lambda0: lambda0, Forms: forms(rng, d, k, "weights"), Scores: marginScore, Intervals: intervals,
			NLL: layer.Temperatures{Act: 1, Ens: 0.5}, OOD: layer.Temperatures{Act: 1.1, Ens: 0.7}}
		x := singles(normal(rng, n*d, 1))
		got := run(t, m, h, mf, x)
		w := meanfield.NewWorkspace(k, lambda0)
		for i := range n {
			mu, s2, logp := make([]float64, k), values(&mf.Forms, x[i*d:(i+1)*d])[:k], make([]float64, k)
			for j := range mu {
				mu[j], s2[j] = got.numbers["logits"][i*k+j], s2[j]/0.5
			}
			w.MF0(logp, mu, s2)
			for j, l := range logp {
				if v := got.numbers["probabilities"][i*k+j]; !approx.Relative(v, math.Exp(l), 1e-4) {
					t.Fatalf("%v: p[%d] = %v, want %v", intervals, j, v, math.Exp(l))
				}
			}
			for j := range mu {
				mu[j], s2[j] = mu[j]/1.1, s2[j]*0.5/0.7
			}
			if v, want := got.numbers["ood_score"][i], w.MF0(logp, mu, s2); !approx.Relative(v, want, 2e-5) {
				t.Errorf("%v: margin %v, want %v", intervals, v, want)
			}
		}
	}
}

// If logits are nearly equal, or T are huge, margins keep their digits, because they are computed by series. If one
// class has nearly all probability, they are not a difference from 1 either.
func TestMarginsKeepTheirDigitsAtBothEnds(t *testing.T) {
	t.Parallel()
	const n, d, lambda0 = 8, 4, 0.4
	for _, c := range []struct {
		link   layer.Link
		method fuse.Method
		k      int
	}{
		{layer.Softmax, fuse.MF0, 5}, {layer.Softmax, fuse.MF1, 5}, {layer.Softmax, fuse.MF0, 2},
		{layer.Softmax, fuse.MF0, 90},
		{layer.OneVsRest, "", 5}, {layer.Sigmoid, "", 1}, {layer.Sigmoid, "", 4},
	} {
		for _, scale := range []float64{1e-9, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1, 60} {
			if c.link == layer.OneVsRest && scale > 1 {
				continue // several sigmoids are 1
			}
			rng := rand.New(rand.NewPCG(uint64(c.k), 2))
			m, h := network(t, 17, c.link, normal(rng, d*c.k, scale), d, c.k)
			mf := &fuse.MeanField{Method: c.method, Lambda0: lambda0, Forms: forms(rng, d, c.k, "weights"), Scores: marginScore,
				NLL: layer.Temperatures{Act: 1, Ens: 1}, OOD: layer.Temperatures{Act: 1.1, Ens: 0.7},
				Intervals: []fuse.Interval{{Ratio: 100, Parts: 1, Nodes: 40}}}
			x := singles(normal(rng, n*d, 1))
			got := run(t, m, h, mf, x)
			for i := range n {
				q := values(&mf.Forms, x[i*d:(i+1)*d])
				_, want := oracle(c.link, c.method, got.numbers["logits"][i*c.k:(i+1)*c.k], q[:c.k], lambda0, mf.OOD)
				if v := got.numbers["ood_score"][i]; !approx.Relative(v, want, 2e-5) {
					t.Errorf("%s %s, K=%d, logits of %v: margin %v, want %v", c.link, c.method, c.k, scale, v, want)
				}
			}
		}
	}
}

// Without variances only the logits are float32, and they are known: margins have all digits of the formulas, series
// included, but for 1e-12 where the cumulants are truncated, and as much of rounding.
func TestMarginsWithoutVarianceAreExact(t *testing.T) {
	t.Parallel()
	const n, d, lambda0 = 40, 4, 0.4
	for _, c := range []struct {
		link   layer.Link
		method fuse.Method
		k      int
	}{
		{layer.Softmax, fuse.MF0, 5}, {layer.Softmax, fuse.MF1, 5}, {layer.Softmax, fuse.MF0, 2},
		{layer.OneVsRest, "", 5}, {layer.Sigmoid, "", 1}, {layer.Sigmoid, "", 4},
	} {
		rng := rand.New(rand.NewPCG(uint64(c.k), 7))
		m, h := network(t, 17, c.link, normal(rng, d*c.k, 1), d, c.k)
		var x []float32
		for i := range n { // logits of 1e-6 to 4
			x = append(x, singles(normal(rng, d, math.Pow(10, -6+6.6*float64(i)/n)))...)
		}
		mf := &fuse.MeanField{Method: c.method, Lambda0: lambda0, Forms: forms(rng, d, c.k, "weights"), Scores: marginScore,
			NLL: layer.Temperatures{Act: 1, Ens: 1}, OOD: layer.Temperatures{Act: 2, Ens: 0.5}}
		clear(mf.Forms.Weights)
		got := run(t, m, h, mf, x)
		for i := range n {
			logits := got.numbers["logits"][i*c.k : (i+1)*c.k]
			_, want := oracle(c.link, c.method, logits, make([]float64, c.k), lambda0, mf.OOD)
			if v := got.numbers["ood_score"][i]; !approx.Relative(v, want, 5e-12) {
				t.Errorf("%s %s, K=%d, logits %v: margin %v, want %v", c.link, c.method, c.k, logits, v, want)
			}
		}
	}
}

// Numbers beyond all that float32 can square end at bounds: no output is infinite or not a number, and
// probabilities still sum to 1.
func TestExtremeNumbersGiveFiniteOutputs(t *testing.T) {
	t.Parallel()
	const d, k = 3, 5
	for _, kind := range []string{"weights", "a reduction", "groups"} {
		for _, method := range []fuse.Method{fuse.MF0, fuse.MF1} {
			for _, opset := range []int64{7, 17} {
				rng := rand.New(rand.NewPCG(3, 3))
				m, h := network(t, opset, layer.Softmax, normal(rng, d*k, 1), d, k)
				mf := &fuse.MeanField{Method: method, Lambda0: 0.4, Forms: forms(rng, d, k, kind), Scores: marginScore,
					NLL: layer.Temperatures{Act: 1, Ens: 0.5}, OOD: layer.Temperatures{Act: 1.1, Ens: 0.7}}
				var x []float32
				for _, scale := range []float32{1, 1e5, 1e12, 1e16, 1e20, 1e30, 1e37} {
					x = append(x, scale, -scale/2, scale/3)
				}
				got := run(t, m, h, mf, x)
				for key, all := range got.numbers {
					for i, v := range all {
						if v-v != 0 || key != "logits" && v < 0 {
							t.Errorf("%s, %s, operator set %d: number %d of %s is %v", kind, method, opset, i, key, v)
						}
					}
				}
				for i := range len(x) / d {
					sum := 0.0
					for _, p := range got.numbers["probabilities"][i*k : (i+1)*k] {
						sum += p
					}
					if !approx.Equal(sum, 1, 1e-6) {
						t.Errorf("%s, %s, operator set %d: probabilities of example %d sum to %v", kind, method, opset, i, sum)
					}
				}
			}
		}
	}
}

// Each operator of Terms is what its name says, in every operator set.
func TestTermsEqualTheirOperators(t *testing.T) {
	t.Parallel()
	const n, d, k = 6, 4, 3
	constant := []float64{0.5, -1, 2, 0.25}
	matrix := []float64{1, 2, -1, 0.5, 3, -2, 0.1, 1}
	each := func(f func(v float64) float64) func(phi []float64) float64 {
		return func(phi []float64) (sum float64) {
			for i, v := range phi {
				sum += float64(i+1) * f(v)
			}
			return sum
		}
	}
	for _, opset := range opsets {
		scores := []fuse.Score{}
		want := map[string]func(phi []float64) float64{}
		add := func(name string, emit func(t *fuse.Terms) string, f func(phi []float64) float64) {
			scores, want[name] = append(scores, fuse.Score{Name: name, Double: true, Emit: emit}), f
		}
		// weighted sums functions of the features, each with a different weight.
		weighted := func(of func(t *fuse.Terms) string) func(t *fuse.Terms) string {
			return func(t *fuse.Terms) string {
				return t.Sum(t.Mul(of(t), t.Constant("weights", []float64{1, 2, 3, 4}, d)))
			}
		}
		unary := func(name string, emit func(t *fuse.Terms, x string) string, f func(v float64) float64) {
			add(name, weighted(func(t *fuse.Terms) string { return emit(t, t.Features()) }), each(f))
		}
		unary("neg", (*fuse.Terms).Neg, func(v float64) float64 { return -v })
		unary("abs", (*fuse.Terms).Abs, math.Abs)
		unary("exp", (*fuse.Terms).Exp, math.Exp)
		unary("log of abs", func(t *fuse.Terms, x string) string { return t.Log(t.Abs(x)) },
			func(v float64) float64 { return math.Log(math.Abs(v)) })
		unary("sqrt of abs", func(t *fuse.Terms, x string) string { return t.Sqrt(t.Abs(x)) },
			func(v float64) float64 { return math.Sqrt(math.Abs(v)) })
		binary := func(name string, emit func(t *fuse.Terms, x, y string) string, f func(a, b float64) float64) {
			add(name, weighted(func(t *fuse.Terms) string {
				return emit(t, t.Features(), t.Constant("constant", constant, d))
			}), func(phi []float64) (sum float64) {
				for i, v := range phi {
					sum += float64(i+1) * f(v, constant[i])
				}
				return sum
			})
		}
		binary("add", (*fuse.Terms).Add, func(a, b float64) float64 { return a + b })
		binary("sub", (*fuse.Terms).Sub, func(a, b float64) float64 { return a - b })
		binary("mul", (*fuse.Terms).Mul, func(a, b float64) float64 { return a * b })
		binary("div", (*fuse.Terms).Div, func(a, b float64) float64 { return a / b })
		unary("expm1 of less", func(t *fuse.Terms, x string) string { return t.Expm1(t.Sub(t.Mul(x, t.Number(1e-3)), t.Number(0.3))) },
			func(v float64) float64 { return math.Expm1(v/1000 - 0.3) })
		unary("expm1 far below", func(t *fuse.Terms, x string) string { return t.Expm1(t.Sub(t.Neg(t.Abs(x)), t.Number(0.5))) },
			func(v float64) float64 { return math.Expm1(-math.Abs(v) - 0.5) })
		unary("log1p", func(t *fuse.Terms, x string) string { return t.Log1p(t.Mul(x, t.Number(0.1))) },
			func(v float64) float64 { return math.Log1p(v / 10) })
		unary("log1p of much", func(t *fuse.Terms, x string) string { return t.Log1p(t.Exp(t.Mul(x, t.Number(20)))) },
			func(v float64) float64 { return math.Log1p(math.Exp(20 * v)) })
		add("or one", func(t *fuse.Terms) string {
			first := t.Sum(t.Features())
			known := t.Greater(first, t.Number(0))
			return t.OrOne(t.Log(t.Mul(first, t.Div(known, known))), known)
		}, func(phi []float64) float64 {
			if sum := phi[0] + phi[1] + phi[2] + phi[3]; sum > 0 {
				return math.Log(sum)
			}
			return 1
		})
		add("of largest", func(t *fuse.Terms) string { return t.OfLargest(t.Features(), "of", []float64{4, 5, 6, 7}, 1) },
			func(phi []float64) float64 { return float64(4 + slices.Index(phi, slices.Max(phi))) })
		binary("min of", (*fuse.Terms).MinOf, math.Min)
		binary("max of", (*fuse.Terms).MaxOf, math.Max)
		binary("greater", (*fuse.Terms).Greater, func(a, b float64) float64 {
			if a > b {
				return 1
			}
			return 0
		})
		row := func(emit func(t *fuse.Terms, x string) string) func(t *fuse.Terms) string {
			return func(t *fuse.Terms) string { return emit(t, t.Features()) }
		}
		add("max", row((*fuse.Terms).Max), func(phi []float64) float64 { return slices.Max(phi) })
		add("min", row((*fuse.Terms).Min), func(phi []float64) float64 { return slices.Min(phi) })
		add("sum", row((*fuse.Terms).Sum), func(phi []float64) float64 { return phi[0] + phi[1] + phi[2] + phi[3] })
		add("mean", row((*fuse.Terms).Mean), func(phi []float64) float64 { return (phi[0] + phi[1] + phi[2] + phi[3]) / 4 })
		add("the third largest", func(t *fuse.Terms) string { return t.Min(t.Largest(t.Features(), 3)) },
			func(phi []float64) float64 { return slices.Sorted(slices.Values(phi))[1] })
		add("a product", func(t *fuse.Terms) string {
			return t.Max(t.MatMul(t.Features(), t.Constant("matrix", matrix, 2)))
		}, func(phi []float64) float64 {
			var out [2]float64
			for i, v := range phi {
				out[0] += v * matrix[2*i]
				out[1] += v * matrix[2*i+1]
			}
			return max(out[0], out[1])
		})
		add("sizes", func(t *fuse.Terms) string {
			if t.Link() != layer.Softmax {
				panic("another link")
			}
			return t.Add(t.Mul(t.Max(t.Features()), t.Number(0)), t.Number(float64(100*t.K()+t.D())))
		}, func([]float64) float64 { return 304 })

		rng := rand.New(rand.NewPCG(4, 4))
		m, h := network(t, opset, layer.Softmax, normal(rng, d*k, 1), d, k)
		mf := &fuse.MeanField{Lambda0: 0.4, Forms: forms(rng, d, k, "weights"), Scores: scores,
			NLL: layer.Temperatures{Act: 1, Ens: 1}}
		x := singles(normal(rng, n*d, 1))
		got := run(t, m, h, mf, x)
		for name, f := range want {
			for i := range n {
				phi := make([]float64, d)
				for j := range phi {
					phi[j] = float64(x[i*d+j])
				}
				if v, w := got.numbers[name][i], f(phi); !approx.Equal(v, w, 1e-12*(1+math.Abs(w))) {
					t.Errorf("operator set %d: %s of %v is %v, want %v", opset, name, phi, v, w)
				}
			}
		}
	}
}

// decided is what the definitions of decisions make of a model's own outputs for one example: whether
// it is abstained from, and its set.
func decided(d *fuse.Decisions, labels bool, p []float64, ood float64) (abstain bool, set []bool) {
	top, rest, uncertainty := 0, 0.0, 0.0
	for j, v := range p {
		if v > p[top] {
			top = j
		}
		uncertainty += min(v, 1-v) / float64(len(p))
	}
	for j, v := range p {
		if j != top {
			rest += v
		}
	}
	if !labels {
		uncertainty = rest
	}
	abstain = d.Uncertainty != nil && !(uncertainty <= *d.Uncertainty) || d.OOD != nil && !(ood <= *d.OOD)
	if d.Set == nil {
		return abstain, nil
	}
	for j, v := range p {
		score := 1 - v
		if j == top && !labels {
			score = rest
		}
		if d.Set.Ranked {
			place, after := 1, 0.0
			for _, other := range p {
				if other > v {
					place++
				} else {
					after += other
				}
			}
			if score = 1 - after; j == top {
				score = 0
			}
			if d.Set.Penalties != nil {
				score += d.Set.Penalties[place-1]
			}
		}
		set = append(set, score <= d.Set.Thresholds[min(j, len(d.Set.Thresholds)-1)])
	}
	return abstain, set
}

// Decisions follow their definitions on the model's own outputs, for every kind of rule and set. NaN is abstained
// from and is in no set.
func TestDecisionsFollowTheirDefinitions(t *testing.T) {
	t.Parallel()
	const n, d = 40, 4
	at := func(v float64) *float64 { return &v }
	for _, by := range []layer.Link{layer.Softmax, layer.OneVsRest, layer.Sigmoid} {
		for _, k := range []int{1, 5} {
			if k == 1 && by != layer.Sigmoid {
				continue
			}
			labels, classes := by == layer.Sigmoid && k > 1, max(k, 2)
			each := []float64{0.3, 0.9, 0.6, 0.1, 0.5}[:classes]
			rising := []float64{0.25, 0.5, 0.75, 1, 1.25}[:classes]
			first, second := []float64{0, 0.1, 0.2, 0.3, 0.4}[:classes], []float64{0, 0, 0.1, 0.2, 0.3}[:classes]
			for name, decisions := range map[string]*fuse.Decisions{
				"uncertainty":     {Uncertainty: at(0.2)},
				"ood":             {OOD: at(0.4)},
				"both and a set":  {Uncertainty: at(0.2), OOD: at(0.4), Set: &fuse.Set{Thresholds: []float64{0.7}}},
				"a set":           {Set: &fuse.Set{Thresholds: []float64{0.7}}},
				"sets by class":   {Set: &fuse.Set{Thresholds: each}},
				"ranked":          {Set: &fuse.Set{Ranked: true, Thresholds: []float64{0.8}}},
				"penalties":       {Set: &fuse.Set{Ranked: true, Penalties: first, Thresholds: []float64{0.9}}},
				"all have one":    {Set: &fuse.Set{Ranked: true, Penalties: rising, Thresholds: []float64{0.5}}},
				"ranked by class": {Set: &fuse.Set{Ranked: true, Penalties: second, Thresholds: each}},
			} {
				if decisions.Set != nil && decisions.Set.Ranked && labels {
					continue
				}
				for _, opset := range []int64{7, 11, 13, 18} {
					if decisions.Set != nil && decisions.Set.Ranked && opset < fuse.RankedOpset {
						continue
					}
					what := fmt.Sprintf("%s K=%d, %s, operator set %d", by, k, name, opset)
					rng := rand.New(rand.NewPCG(uint64(k), 5))
					m, h := network(t, opset, by, normal(rng, d*k, 1), d, k)
					mf := &fuse.MeanField{Lambda0: 0.4, Forms: forms(rng, d, k, "weights"), Decisions: decisions,
						NLL: layer.Temperatures{Act: 0.5, Ens: 2}, OOD: layer.Temperatures{Act: 1, Ens: 1},
						Scores: []fuse.Score{{Name: "ood_score", Double: true, Emit: func(t *fuse.Terms) string {
							return t.Div(t.Number(1), t.Add(t.Number(1), t.Margin()))
						}}}}
					x := singles(normal(rng, n*d, 1))
					x[d] = float32(math.NaN()) // of the second example
					got := run(t, m, h, mf, x)
					checkDecided(t, what, decisions, labels, got, classes)
				}
			}
		}
	}
}

// checkDecided compares the decisions of a model with what their definitions make of its other outputs. The
// second example is not a number.
func checkDecided(t *testing.T, what string, d *fuse.Decisions, labels bool, got results, classes int) {
	t.Helper()
	abstains, sets := got.bools["abstain"], got.bools["prediction_set"]
	if (abstains != nil) != (d.Uncertainty != nil || d.OOD != nil) || (sets != nil) != (d.Set != nil) {
		t.Fatalf("%s: the outputs are %v", what, got.bools)
	}
	n, abstained, in := len(got.numbers["ood_score"]), 0, 0
	for i := range n {
		p := got.numbers["probabilities"][i*classes : (i+1)*classes]
		abstain, set := decided(d, labels, p, got.numbers["ood_score"][i])
		if i == 1 {
			abstain = true
			clear(set)
		}
		if abstains != nil && abstains[i] != abstain {
			t.Errorf("%s: example %d is abstained from: %t, want %t", what, i, abstains[i], abstain)
		}
		if sets != nil && !slices.Equal(sets[i*classes:(i+1)*classes], set) {
			t.Errorf("%s: set %v, want %v of %v", what, sets[i*classes:(i+1)*classes], set, p)
		}
		for j := range set {
			if set[j] {
				in++
			}
		}
		if abstain {
			abstained++
		}
	}
	if sets != nil && (in == 0 || in == classes*(n-1)) || abstains != nil && (abstained < 2 || abstained == n) {
		t.Errorf("%s: %d classes in sets and %d abstained from: the thresholds tell little", what, in, abstained)
	}
}

// Uncertainty, and the score of the most probable class, keep their digits where its probability rounds to 1.
func TestDecisionsKeepTheirDigitsNearOne(t *testing.T) {
	t.Parallel()
	const k = 3
	m, h := network(t, 13, layer.Softmax, []float64{40, 10, 0}, 1, k)
	for _, side := range []bool{false, true} {
		// At x = 1 the others have exp(-30) + exp(-40) together.
		threshold := math.Exp(-30) + math.Exp(-40)
		threshold *= 0.999
		if side {
			threshold *= 1.002
		}
		mf := &fuse.MeanField{Lambda0: 0.4, Plain: 1, NLL: layer.Temperatures{Act: 1, Ens: 1},
			Forms: layer.Quadratic{Forms: k + 1, Center: []float64{0}, Projection: []float64{1}, Offset: []float64{0},
				Weights: []float64{1, 1, 1, 1}},
			Decisions: &fuse.Decisions{Uncertainty: &threshold, Set: &fuse.Set{Thresholds: []float64{threshold}}}}
		got := run(t, m, h, mf, []float32{1})
		abstain, set := got.bools["abstain"], got.bools["prediction_set"]
		if abstain[0] == side || set[0] != side || set[1] {
			t.Errorf("at the threshold %v: abstain %v and set %v", threshold, abstain, set)
		}
	}
}
