package onnx

import (
	"fmt"
	"slices"

	"github.com/mfgs/mfgs/onnx/internal/onnxpb"
)

// Own is what a model itself makes of a head's logits: one of its outputs or, where that is a list of maps, the tensor that
// it is made of.
type Own struct {
	Name    string   // of the model's output
	Width   int      // numbers for each example
	Integer bool     // it holds whole numbers, such as that of the best class
	Coarse  bool     // on the way from the logits numbers are rounded to fewer bits than float32 has
	Ops     []string // the operators on that way, each once, sorted; none where it is the logits
}

// Size is the size of the model's files in bytes, those of external data included.
func (m *Model) Size() int64 {
	var n int64
	for _, f := range m.store.files {
		n += f.size
	}
	return n
}

// WithOwn returns a model whose outputs are the head's logits [N,K], and behind them what the model itself makes of them
// [N,Width], all in float32: reading both in one run tells whether they belong together. Outputs that are no numbers, that
// depend on none of the logits or whose width is not known are left out, and beyond 16 the rest. It panics if h was not
// found in m.
func WithOwn(m *Model, h *Head) (*Model, []Own, error) {
	if h.model != m {
		panic("onnx: WithOwn with the head of another model")
	}
	const most = 16
	b, in := newBuilder(m), m.infer()
	logits := b.rows(b.take(h.Logits), &h.logitsValue, CutLogits)
	outputs := []*onnxpb.ValueInfo{tensorInfo(logits, Float32, -1, int64(h.Classes))}
	below := m.view.descendants(h.Logits)
	var owns []Own
	for _, v := range m.pb.GetGraph().GetOutput() {
		name := v.GetName()
		if n := m.graph.producer[name]; n != nil && opName(n) == "ai.onnx.ml.ZipMap" {
			name = input(n, 0)
		}
		own, ok := ownOf(m, h, in, below, name, valueInfo(v))
		if own.Name = v.GetName(); !ok || len(owns) == most {
			continue
		}
		known := *in.get(name)
		known.typ = Undefined // so that it is converted, whatever its type
		out := b.rows(b.take(name), &known, "mfgs_own")
		outputs = append(outputs, tensorInfo(out, Float32, -1, int64(own.Width)))
		owns = append(owns, own)
	}
	with, err := b.build(outputs...)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the model's own outputs: %w", err)
	}
	return with, owns, nil
}

// ownOf describes a tensor that is declared as an output, or is what that is made of.
func ownOf(m *Model, h *Head, in *interpreter, below map[*onnxpb.Node]bool, name string, declared ValueInfo) (own Own, ok bool) {
	v := in.get(name)
	typ, dims := v.typ, v.dims
	if typ == Undefined {
		typ = declared.Type
	}
	if dims == nil && declared.Shape != nil {
		for _, d := range declared.Shape {
			dims = append(dims, d.Value)
		}
	}
	own.Integer = typ == Int32 || typ == Int64
	if !own.Integer && !typ.IsFloat() || dims != nil && len(dims) == 0 {
		return own, false
	}
	if own.Width = h.Classes; own.Integer {
		own.Width = 1
	}
	if dims != nil {
		if n, known := elements(dims[1:]); known && n > 0 && n <= 1<<24 {
			own.Width = int(n)
		}
	}
	if name == h.Logits {
		return own, true
	}
	made := m.view.ancestors(name)
	if p := m.view.producer[name]; p == nil || !below[p] {
		return own, false
	}
	own.Coarse = typ.IsFloat() && typ != Float32 && typ != Float64
	for n := range below {
		if !made[n] {
			continue
		}
		op := opName(n)
		if !slices.Contains(own.Ops, op) {
			own.Ops = append(own.Ops, op)
		}
		own.Coarse = own.Coarse || op == "Round" || op == "Floor" || op == "Ceil"
		for _, out := range n.GetOutput() {
			t := in.get(out).typ
			own.Coarse = own.Coarse || t == Float16 || t == BFloat16 || t == Uint8 || t == Int8 || t == Uint16 || t == Int16
		}
	}
	slices.Sort(own.Ops)
	return own, true
}

// descendants returns the nodes that depend on a tensor.
func (g *graph) descendants(name string) map[*onnxpb.Node]bool {
	found := map[*onnxpb.Node]bool{}
	for queue := []string{name}; len(queue) > 0; queue = queue[1:] {
		for _, n := range g.consumers[queue[0]] {
			if !found[n] {
				found[n] = true
				queue = append(queue, n.GetOutput()...)
			}
		}
	}
	return found
}
