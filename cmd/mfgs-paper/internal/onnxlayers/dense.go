package onnxlayers

import (
	"errors"
	"fmt"
	"slices"

	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/head"
)

// A Dense layer is out = f(in · Wᵀ + b), with an elementwise f.
type Dense struct {
	Op         string // the linear operator
	Node       string // its name or, without one, that of its output
	In, Out    int    // sizes per example
	Bias       bool
	Activation Activation // f; Identity for the head

	// A quantised model rounds the layer's output, before or after its activation, to multiples
	// that add up to Rounding, 0 for none, and clips it to the range of its integers.
	Rounding float64

	layer *head.Head
}

// Weights returns w, [Out,In] row-major, and b, of length Out or nil, with all scales between the layer and its
// activation folded in. Each call reads them from the file.
func (d Dense) Weights() (w, b []float32, err error) { return d.layer.Weights() }

// A Tail is the last dense layers of a classifier, down to its logits. With N examples
//
//	x₀ = Input [N,d₀], xᵢ = fᵢ(xᵢ₋₁·Wᵢᵀ + bᵢ) [N,dᵢ], logits = x_L [N,K]
type Tail struct {
	Layers []Dense // lowest first, the head last
	// Input is the input tensor of the first layer: [N,d₀] after the selection and flattening that Cut does. For
	// a head that sums several layers it is several names, joined by ",".
	Input string

	head *head.Head
}

// Find returns the top dense layers of the network that ends in h, including h: as many as layers, or all consecutive
// ones if that is 0. Between two of them may be an activation, an inactive Dropout, operators that change type or shape
// but keep one row per example, and the selection of a token. A layer is whatever head.Find accepts. It panics if h was
// not found in m.
//
// If the network has fewer, the error is an *UnsupportedError with the reason; other errors come from reading the file.
// As with head.Find, the result depends on the graph only, and should be checked on a batch.
func Find(m *onnx.Model, h *head.Head, layers int) (*Tail, error) {
	if !h.Of(m) {
		panic("onnxlayers: Find with the head of another model")
	}
	if layers < 0 {
		return nil, fmt.Errorf("%d dense layers, want a positive number, or 0 for all", layers)
	}
	known := recogniser{m.View().Infer()}
	t := &Tail{head: h, Layers: []Dense{dense(h, Activation{Func: Identity})}}
	for lowest := h; layers == 0 || len(t.Layers) < layers; {
		a := Activation{Func: Identity}
		below, err := head.Below(lowest, func(n *onnxpb.Node) (from string) {
			if found, x := known.activation(n); x != "" {
				a, from = found, x
			}
			return from
		})
		var u *head.UnsupportedError
		if errors.As(err, &u) {
			if layers == 0 {
				break
			}
			return nil, unsupported("the network ends in %s, not in %d: %s", counted(len(t.Layers), "dense layer"),
				layers, u.Reason)
		}
		if err != nil {
			return nil, err
		}
		t.Layers = append(t.Layers, dense(below, a))
		lowest = below
	}
	slices.Reverse(t.Layers)
	t.Input = t.Layers[0].layer.FeaturesTensor
	return t, nil
}

func unsupported(format string, args ...any) error {
	return &UnsupportedError{Reason: fmt.Sprintf(format, args...)}
}

// UnsupportedError is returned for a network that lacks what is requested or cannot be changed.
type UnsupportedError struct{ Reason string }

// Error gives the reason.
func (e *UnsupportedError) Error() string { return e.Reason }

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func dense(h *head.Head, a Activation) Dense {
	return Dense{Op: h.Op, Node: h.Node, In: h.Features, Out: h.Logits, Bias: h.Bias, Activation: a,
		Rounding: h.Rounding, layer: h}
}

// Cut is head.Cut one or several layers lower: a model with two float32 outputs, the tail's input [N,d₀] and the logits
// [N,K]. It panics if h was not found in m, or t not for h.
func Cut(m *onnx.Model, h *head.Head, t *Tail) (*onnx.Model, error) {
	if !h.Of(m) || t.head != h {
		panic("onnxlayers: Cut with the head of another model, or the tail of another head")
	}
	return head.CutBelow(m, h, t.Layers[0].layer)
}
