package featurize_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/featurize/ort"
	"github.com/mfgs/mfgs/internal/approx"
	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
	"github.com/mfgs/mfgs/internal/onnx/onnxtest"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/head"
	"github.com/mfgs/mfgs/onnx/tensor"
)

const recurrentStates = "h=hn,c=cn"

func parsed(t testing.TB, m *onnxpb.Model) *onnx.Model {
	t.Helper()
	model, err := onnx.Parse("model", onnxtest.Marshal(t, m))
	if err != nil {
		t.Fatal(err)
	}
	return model
}

// unrolled returns a network of one step with its head, and the same over all steps.
func unrolled(t testing.TB, m *onnx.Model, states string) (*head.Head, *onnx.Model, *head.Head) {
	t.Helper()
	h, err := head.Find(m, head.Options{})
	if err != nil {
		t.Fatal(err)
	}
	all, of, err := head.Unroll(m, h, states)
	if err != nil {
		t.Fatal(err)
	}
	return h, all, of
}

func session(t testing.TB, m *onnx.Model) *ort.Session {
	t.Helper()
	graph, folder, err := m.Runnable()
	if err != nil {
		t.Fatal(err)
	}
	c := ort.SessionConfig{Graph: graph, Folder: folder, Threads: 1}
	for _, v := range m.Inputs() {
		c.Inputs = append(c.Inputs, v.Name)
	}
	for _, v := range m.Outputs() {
		c.Outputs = append(c.Outputs, v.Name)
	}
	s, err := ort.NewSession(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func ran(t testing.TB, s *ort.Session, inputs ...tensor.Tensor) map[string]tensor.Tensor {
	t.Helper()
	out, err := s.Run(t.Context(), inputs)
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]tensor.Tensor{}
	for _, o := range out {
		named[o.Name] = o
	}
	return named
}

// The slow definition: the network of one step is called for each step, with the states of the step before.
func TestAnUnrolledNetworkIsALoopOverItsSteps(t *testing.T) {
	t.Parallel()
	for _, r := range []onnxtest.Recurrent{
		{Seed: 1}, {Seed: 2, Inner: 2}, {Seed: 3, NamesClash: true}, {Seed: 4, Batch: 2}, {Seed: 5, Frozen: true},
		{Seed: 6, Inner: 3, NamesClash: true},
	} {
		for _, steps := range []int{1, 2, 7} {
			t.Run(fmt.Sprintf("%+v/%d", r, steps), func(t *testing.T) {
				t.Parallel()
				n := 3
				if r.Batch > 0 {
					n = r.Batch
				}
				checkLoop(t, parsed(t, r.Model()), n, steps, max(1, r.Inner), r.Inner > 0)
			})
		}
	}
}

func checkLoop(t *testing.T, m *onnx.Model, n, steps, inner int, has bool) {
	const d, hidden, k = onnxtest.RecurrentWidth, onnxtest.RecurrentHidden, onnxtest.RecurrentClasses
	h, all, of := unrolled(t, m, recurrentStates)
	same := of.FeaturesTensor == h.FeaturesTensor && of.LogitsTensor == h.LogitsTensor
	if of.Steps != 1 || of.Features != hidden || of.Logits != k || !same {
		t.Fatalf("%+v", of)
	}
	cut, err := head.Cut(all, of)
	if err != nil {
		t.Fatal(err)
	}
	one, together, logits := session(t, m), session(t, all), session(t, cut)
	rng := rand.New(rand.NewPCG(uint64(n), uint64(steps)))
	width := inner * d
	shape := []int64{int64(n), int64(steps), d}
	if has {
		shape = slices.Insert(shape, 2, int64(inner))
	}
	x := tensor.Tensor{Name: "x", Shape: shape, Data: make([]float32, n*steps*width)}
	for i := range x.Data.([]float32) {
		x.Data.([]float32)[i] = rng.Float32()*4 - 2
	}
	got := ran(t, together, x)
	state := map[string]tensor.Tensor{
		"h": {Name: "h", Shape: []int64{int64(n), hidden}, Data: make([]float32, n*hidden)},
		"c": {Name: "c", Shape: []int64{2, int64(n), hidden}, Data: make([]float32, 2*n*hidden)},
	}
	var last map[string]tensor.Tensor
	for step := range steps {
		now := tensor.Tensor{Name: "x", Shape: slices.Delete(slices.Clone(shape), 1, 2), Data: make([]float32, 0, n*width)}
		for i := range n {
			at := (i*steps + step) * width
			now.Data = append(now.Data.([]float32), x.Data.([]float32)[at:at+width]...)
		}
		last = ran(t, one, now, state["h"], state["c"])
		for in, out := range map[string]string{"h": "hn", "c": "cn"} {
			s := last[out]
			s.Name = in
			state[in] = s
		}
		for name, o := range got {
			want := last[name]
			if want.Name == "" || len(want.Shape) == 1 {
				continue
			}
			each := want.Len() / n
			for i := range n {
				// The logits and features have the steps of all steps on one axis, which makes no difference here.
				a, b := o.Data.([]float32)[(i*steps+step)*each:][:each], want.Data.([]float32)[i*each:][:each]
				for j := range a {
					if !approx.Equal(float64(a[j]), float64(b[j]), 1e-6) {
						t.Fatalf("%s of example %d, step %d: %v, want %v", name, i, step, a, b)
					}
				}
			}
		}
		drawn := slices.Repeat([]int64{int64(step * inner)}, n)
		step := tensor.Tensor{Name: head.CutStep, Shape: []int64{int64(n)}, Data: drawn}
		cutAt, err := logits.Run(t.Context(), []tensor.Tensor{x, step})
		if err != nil {
			t.Fatal(err)
		}
		checkCut(t, of, cutAt, last["y"], n, inner)
	}
	if !slices.Equal(got["y"].Shape[:2], []int64{int64(n), int64(steps)}) {
		t.Errorf("y is %v", got["y"].Shape)
	}
}

// checkCut compares softmax(φ·Wᵀ + b) and softmax(logits) of the first inner step with the network's probabilities.
func checkCut(t *testing.T, h *head.Head, cut []tensor.Tensor, y tensor.Tensor, n, inner int) {
	t.Helper()
	const k, hidden = onnxtest.RecurrentClasses, onnxtest.RecurrentHidden
	w, b, err := h.Weights()
	if err != nil {
		t.Fatal(err)
	}
	phi, logits := cut[0].Data.([]float32), cut[1].Data.([]float32)
	for i := range n {
		for c := range k {
			a := b[c]
			for j := range hidden {
				a += w[c*hidden+j] * phi[i*hidden+j]
			}
			if !approx.Equal(float64(a), float64(logits[i*k+c]), 1e-5) {
				t.Fatalf("φ·Wᵀ + b is %v for a logit of %v", a, logits[i*k+c])
			}
		}
		p, sum := make([]float64, k), 0.0
		for c, a := range logits[i*k : (i+1)*k] {
			p[c] = math.Exp(float64(a))
			sum += p[c]
		}
		for c, want := range y.Data.([]float32)[i*inner*k:][:k] {
			if !approx.Equal(p[c]/sum, float64(want), 1e-6) {
				t.Fatalf("softmax of the logits is %v, want %v", p, y.Data)
			}
		}
	}
}

func TestStatesThatCannotBeUnrolledAreRefused(t *testing.T) {
	t.Parallel()
	info := onnxpb.TensorInfo
	for name, c := range map[string]struct {
		states string
		edit   func(g *onnxpb.Graph)
		want   string
	}{
		"no pair":              {"h", nil, "want INPUT=OUTPUT"},
		"empty":                {"h=", nil, "want INPUT=OUTPUT"},
		"input twice":          {"h=hn,h=cn", nil, `the input "h" is named twice`},
		"output twice":         {"h=hn,c=hn", nil, `the output "hn" is named twice`},
		"unknown input":        {"g=hn", nil, `the model has no input "g", only x, h, c`},
		"unknown output":       {"h=y2", nil, `the model has no output "y2", only y, hn, cn`},
		"other number of axes": {"h=cn", nil, `"cn" is [2,?,4] float32: want the same type and shape`},
		"other size":           {"h=y,c=cn", nil, `"y" is [?,3] float32: want the same type and shape`},
		"other type": {recurrentStates, func(g *onnxpb.Graph) { g.Output[1] = info("hn", tensor.Float64, -1, 4) },
			`"hn" is [?,4] float64: want the same type and shape`},
		"not floating": {recurrentStates, func(g *onnxpb.Graph) { g.Input[1] = info("h", tensor.Int64, -1, 4) },
			"it is [?,4] int64, want float32, float64 or float16"},
		"several open axes": {recurrentStates, func(g *onnxpb.Graph) { g.Input[1] = info("h", tensor.Float32, -1, -1) },
			"it is [?,?] float32, and only the axis of the examples may be open"},
		"no shape": {recurrentStates, func(g *onnxpb.Graph) { g.Input[1].Type.TensorType.Shape = nil },
			"of an unknown number of axes"},
		"fixed state of open examples": {recurrentStates, func(g *onnxpb.Graph) {
			g.Input[1], g.Output[1] = info("h", tensor.Float32, 1, 4), info("hn", tensor.Float32, 1, 4)
		}, `its sizes [1,4] float32 are all fixed, and the number of examples of the input "x" [?,3] float32 is open`},
		"open state of fixed examples": {recurrentStates, func(g *onnxpb.Graph) {
			g.Input[0] = info("x", tensor.Float32, 1, 3)
		}, `state "h": it is [?,4] float32, whose open axis cannot be that of the examples`},
		"large": {recurrentStates, func(g *onnxpb.Graph) {
			g.Input[1], g.Output[1] = info("h", tensor.Float32, -1, 1<<25), info("hn", tensor.Float32, -1, 1<<25)
		}, "want at most 16777216 elements"},
		"no input left": {"h=hn,c=cn,x=z", func(g *onnxpb.Graph) {
			g.Node = append(g.Node, onnxtest.Node("Identity", "x", "z"))
			g.Output = append(g.Output, info("z", tensor.Float32, -1, 3))
		}, "no input is left"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			right := parsed(t, onnxtest.Recurrent{}.Model())
			h, err := head.Find(right, head.Options{})
			if err != nil {
				t.Fatal(err)
			}
			m := right
			if c.edit != nil {
				pb := onnxtest.Recurrent{}.Model()
				c.edit(pb.Graph)
				m = parsed(t, pb)
				if h, err = head.Find(m, head.Options{Logits: "logits"}); err != nil {
					t.Fatal(err)
				}
			}
			if _, _, err := head.Unroll(m, h, c.states); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

func TestObviousStatesAreSuggested(t *testing.T) {
	t.Parallel()
	for _, batch := range []int{0, 1} {
		m := parsed(t, onnxtest.Recurrent{Batch: batch}.Model())
		if got := head.SuggestStates(m); got != recurrentStates {
			t.Errorf("a batch of %d: suggested %q, want %q", batch, got, recurrentStates)
		}
	}
	for _, c := range [][3]string{
		{"state", "stateN", "state=stateN"}, {"h0", "hn", "h0=hn"}, {"state_in", "state_out", "state_in=state_out"},
		{"input", "output", ""}, {"image", "mask", ""}, {"past_key", "present_key", "past_key=present_key"},
	} {
		pb := onnxtest.Network()
		pb.Graph.Input = append(pb.Graph.Input, onnxpb.TensorInfo(c[0], tensor.Float32, -1, 5))
		pb.Graph.Node = append(pb.Graph.Node, onnxtest.Node("Neg", c[0], c[1]))
		pb.Graph.Output = append(pb.Graph.Output, onnxpb.TensorInfo(c[1], tensor.Float32, -1, 5))
		if got := head.SuggestStates(parsed(t, pb)); got != c[2] {
			t.Errorf("%s and %s: suggested %q, want %q", c[0], c[1], got, c[2])
		}
	}
}
