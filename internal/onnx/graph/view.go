// Package graph has the view of a model that the search for its head works on. A model's function calls are
// inlined (inline.go); its graph (graph.go) is lowered to plain operators (lower.go), and groups of
// operators are folded into one (fold.go). An interpreter infers shapes and computes constants
// (value.go, ops.go).
package graph

import (
	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
)

// A View is a model's graph in plain operators of the default domain: quantised and fused operators are
// lowered to their parts, and groups of operators that exporters write for one are folded into it.
type View struct {
	*Graph
	file      *Graph // as it runs
	model     *onnxpb.Model
	functions map[string]bool // operators defined by the model itself, by opName
	reader    reader
	Limit     int64 // bound on the elements computed from what the model stores
}

// A reader reads the numbers of stored tensors.
type reader interface {
	// Floats calls do for every element of a numeric tensor, in order.
	Floats(t *onnxpb.Tensor, do func(float64)) error
	// Dense returns all n elements of a sparse tensor.
	Dense(t *onnxpb.SparseTensor, n int64) ([]float64, error)
}

// NewView returns the view of a model whose graph is g, with a bound on the elements that are computed
// from its constants.
func NewView(m *onnxpb.Model, g *Graph, r reader, limit int64) *View {
	v := &View{file: g, model: m, reader: r, Limit: min(limit, MaxWeightElements), functions: map[string]bool{}}
	for _, f := range m.GetFunctions() {
		v.functions[(&onnxpb.Node{OpType: f.Name, Domain: f.Domain}).Op()] = true
	}
	v.Graph = v.lower(g)
	v.Graph = v.fold()
	return v
}

// Names returns a namer that avoids every name of the model and of the view.
func (v *View) Names() *onnxpb.Namer {
	n := new(onnxpb.Namer)
	n.Take(v.model.GetGraph())
	for name := range v.Producer {
		n.Taken[name] = true
	}
	for name := range v.Consts {
		n.Taken[name] = true
	}
	return n
}
