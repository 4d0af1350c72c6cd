package head

import (
	"fmt"
	"slices"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/internal/onnx/graph"
	"github.com/mfgs/mfgs/internal/option"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// MetadataAlphabet returns the symbols that the metadata of PaddleOCR's exports hold, a line each; nil for others.
func (h *Head) MetadataAlphabet() []string {
	text, ok := h.model.Metadata()["character"]
	if !ok {
		return nil
	}
	return ParseAlphabet(text)
}

// What a network that is cut at steps of unknown meaning has in the place of logits, for an inference of one example:
// the lengths of the output's three axes, the least of its numbers, and how far the sums of a step's numbers, and of
// their exponentials, are from 1. The symbols of its text are the most probable one of each step.
const (
	stepsAxis0 = iota
	stepsAxis1
	stepsAxis2
	stepsLeast
	stepsSum
	stepsExponentials
	stepsFigures
)

// Steps is what was seen of an output with a row of numbers for each step.
type Steps struct {
	Of         Kind
	StepsFirst bool
	Symbols    int // K
}

// StepsOf returns what the logits of a network that is cut at steps say, for one example each. They must agree.
func StepsOf(logits []float32) (s Steps, err error) {
	const tolerance = 1e-3
	s.Of = Probabilities
	placed := false
	for from := 0; from < len(logits); from += stepsFigures {
		row := logits[from : from+stepsFigures]
		a, b, k := row[stepsAxis0], row[stepsAxis1], int(row[stepsAxis2])
		switch {
		case a != 1 && b != 1:
			return Steps{}, fmt.Errorf("it is [%v,%v,%v] for one example, want 1 for one of the first two axes", a, b, row[stepsAxis2])
		case s.Symbols != 0 && k != s.Symbols:
			return Steps{}, fmt.Errorf("it has %d numbers for a step of one example, and %d of another", s.Symbols, k)
		case placed && a != b && s.StepsFirst != (a != 1):
			return Steps{}, fmt.Errorf("its steps are on one axis for some examples and on another for others")
		}
		s.Symbols = k
		if a != b {
			s.StepsFirst, placed = a != 1, true
		}
		if s.Of == Probabilities && !(row[stepsLeast] >= -tolerance && row[stepsSum] <= tolerance) {
			s.Of = LogProbabilities
		}
		if s.Of == LogProbabilities && !(row[stepsExponentials] <= tolerance) {
			s.Of = Scores
		}
	}
	switch {
	case s.Symbols < 2 || s.Symbols > MaxAlphabet:
		return Steps{}, fmt.Errorf("it has %d numbers for a step, want 2 to %d", s.Symbols, MaxAlphabet)
	case !placed:
		return Steps{}, fmt.Errorf("all examples have one step, which does not say which axis is that of the steps")
	}
	return s, nil
}

// findSteps returns the head of the output or tensor that the options name or else of the first output that may hold a
// row of numbers for each step. It has no [Decoding] yet: see [Head.Read].
func (f *finder) findSteps(o Options) (*Head, error) {
	switch {
	case o.Features != "":
		return nil, graph.Refuse("%s %s takes no features: leave out %s", option.Kind, o.Kind, option.Features)
	case o.Link != "" && o.Link != layer.Softmax:
		return nil, graph.Refuse("%s is for classes of one answer, and %s %s reads steps: leave it out", option.Link, option.Kind, o.Kind)
	case f.m.Opset() < ctcOpset:
		return nil, graph.Refuse("%s %s needs operator set %d, and the model has %d: convert it with onnx.version_converter",
			option.Kind, o.Kind, ctcOpset, f.m.Opset())
	}
	names, err := f.outputNames(o)
	if err != nil {
		return nil, err
	}
	var first error // preferably of an output that holds numbers
	for _, name := range names {
		v := *f.in.Get(name)
		node := f.g.Producer[name]
		switch {
		case v.Constant || node == nil:
			err = graph.Refuse("%q does not depend on the input", name)
		case v.Type != tensor.Undefined && !v.Type.IsFloat():
			err = graph.RefuseAt(node, "%q holds %v, want numbers for each symbol at each step: name the tensor that holds them with %s",
				name, v.Type, option.Logits)
		case v.Dims != nil && len(v.Dims) != 3:
			err = graph.RefuseAt(node, "%q is %v, want [N,T,K] or [T,N,K]: K numbers for each step of an example", name, &flow{Value: v})
		default:
			h := &Head{
				Op: f.g.Source(node).GetOpType(), Node: f.g.Source(node).Label(), LogitsTensor: name, Tail: []string{},
				Head:  layer.Head{Logits: stepsFigures, Link: layer.Softmax, Nonlinear: true},
				Kind:  o.Kind,
				model: f.m, logitsValue: v,
			}
			h.Evidence = []string{fmt.Sprintf("%q comes from %s: numbers for each symbol at each step", name, f.describe(node))}
			return h, nil
		}
		if first == nil || v.Type.IsFloat() && !v.Constant {
			first = err
		}
	}
	return nil, first
}

// MayDecode returns the head of a model that may read text or tag steps: some output has rank 3 and more than two
// numbers for each step. The kind is [CTC] if all inputs hold floating-point numbers, as images and sound do, and else
// [Tags]. It is nil for others. Detectors of objects have such outputs too.
func MayDecode(m *onnx.Model, output string) *Head {
	kind := CTC
	for _, v := range m.Inputs() {
		if !v.Type.IsFloat() {
			kind = Tags
		}
	}
	h, err := Find(m, Options{Kind: kind, Output: output})
	if err != nil || len(h.logitsValue.Dims) != 3 || h.logitsValue.Dims[2] >= 0 && h.logitsValue.Dims[2] < 3 {
		return nil
	}
	return h
}

// Read returns the head with a decoding: its two classes are whether the text, or any of the tags, is wrong or all is
// right. Its logits are the logarithms of both probabilities: of a text by the forward algorithm over all paths that
// give it (Graves et al. 2006, section 4.1), of tags by the product over the steps.
func (h *Head) Read(d Decoding) (*Head, error) {
	if !h.Kind.Decodes() {
		panic("head: Read for a head of another kind")
	}
	if err := d.Validate(); err != nil {
		return nil, err
	}
	if d.Tags() != (h.Kind == Tags) {
		return nil, fmt.Errorf("a decoding with the blank %d for %s %s", d.Blank, option.Kind, h.Kind)
	}
	if mask := MaskInput(h.model); d.Mask != "" && d.Mask != mask {
		return nil, fmt.Errorf("decoding.mask is %.70q, want the model's %q", d.Mask, mask)
	}
	as := *h
	as.Decoding, as.Evidence = &d, slices.Clone(h.Evidence)
	as.Head = layer.Head{Logits: 2, Link: layer.Softmax, Nonlinear: true, Correctness: true}
	as.Labels = []string{"wrong", "right"}
	return &as, nil
}

// MaskInput returns the name of the input of a model that says which steps are no padding, as exports of Hugging Face
// have it, or "".
func MaskInput(m *onnx.Model) string {
	const name = "attention_mask"
	for _, in := range m.Inputs() {
		if in.Name == name && len(in.Shape) == 2 {
			switch in.Type { // of floating-point numbers 0 may say either
			case tensor.Int64, tensor.Int32, tensor.Bool:
				return name
			}
		}
	}
	return ""
}

// StepNames returns the names of K tags that the model contains, or nil.
func (h *Head) StepNames(k int) []string {
	names, _ := named(h.model.Metadata(), k)
	return names
}
