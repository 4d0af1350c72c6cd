package fuse

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/head"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// Indices in [Outputs]; from Scores on there are those of [MeanField.Scores], in their order. N is the number of
// examples, K of logits, C of classes. A head with steps gives each of these for each step: [N,T,C] or [N,H,W,C], where
// others give [N,C].
const (
	// [N,C] with C = K, or 2 for a single logit with Sigmoid; several sigmoids need not sum to 1
	Probabilities = iota
	Logits        // [N,K], the model's own
	LogitVariance // [N,K], at T_ens = 1; left out without a linear layer
	Scores        // [N] each; decisions follow
)

// DecodedKeys returns the keys of the last two outputs of a model that reads text or tags: the symbols of each text,
// [N,U] for the longest of U symbols, or the tags of each sequence, [N,T], with "", or -1 for numbers, after the last
// symbol and for steps that do not count, and their probabilities, with 0 there.
func DecodedKeys(kind head.Kind) (symbols, probabilities string) {
	if kind == head.Tags {
		return "tags", "tag_probabilities"
	}
	return "text", "text_probabilities"
}

// FirstScore returns the index of the first of the scores: Scores, or one less without a linear layer.
func FirstScore(h layer.Head) int {
	if h.Nonlinear {
		return Scores - 1
	}
	return Scores
}

// Outputs are the outputs of a fused model, in order. The indices above are for a model with all of them.
type Outputs []Output

// Output is one of them. Key says what it is; Name is its name in the model, the same unless the model had used that
// name.
type Output struct {
	Key string
	onnx.ValueInfo
}

// outputs names and declares all outputs of the head. own says that the model's output logits is the head's.
func (f *fuser) outputs(h *head.Head, own bool, rename map[string]string) (Outputs, error) {
	var all Outputs
	add := func(key string, typ tensor.Type, dims ...int64) {
		info := onnx.ValueInfo{Type: typ, Shape: []onnx.Dim{{Value: -1}}}
		for range h.Steps {
			info.Shape = append(info.Shape, onnx.Dim{Value: -1})
		}
		for _, d := range dims {
			info.Shape = append(info.Shape, onnx.Dim{Value: d})
		}
		all = append(all, Output{key, info})
	}
	add("probabilities", tensor.Float32, f.classes)
	add("logits", tensor.Float32, f.k)
	if !h.Nonlinear {
		add("logit_variance", tensor.Float32, f.k)
	}
	for _, s := range f.mf.Scores {
		if s.Double {
			add(s.Name, f.real)
		} else {
			add(s.Name, tensor.Float32)
		}
	}
	f.addDecisions(add)
	if h.Kind.Decodes() {
		typ := tensor.Int64
		if f.mf.Strings {
			typ = tensor.String
		}
		symbols, probabilities := DecodedKeys(h.Kind)
		add(symbols, typ, -1)
		add(probabilities, tensor.Float32, -1)
	}
	if err := f.choose(all, own); err != nil {
		return nil, err
	}
	for i, o := range all {
		if all[i].Name = h.LogitsTensor; o.Key != "logits" || !own {
			all[i].Name = f.outputName(o.Key, rename)
		}
	}
	return all, nil
}

// choose finds the outputs of the model's own that remain, given all of the head.
func (f *fuser) choose(outputs Outputs, own bool) error {
	if !f.mf.Alone {
		f.own = slices.Clone(f.Model.Proto().GetGraph().GetOutput())
	}
	if f.mf.Outputs == nil {
		return nil
	}
	var names []string
	for _, o := range outputs {
		names = append(names, o.Key)
	}
	f.own = slices.DeleteFunc(f.own, func(v *onnxpb.ValueInfo) bool {
		name := v.GetName()
		if slices.Contains(names, name) {
			return name != "logits" || !own || !f.mf.remains(name)
		}
		names = append(names, name)
		return !f.mf.remains(name)
	})
	for _, name := range f.mf.Outputs {
		if !slices.Contains(names, name) {
			return fmt.Errorf("output %q, want some of %s", name, strings.Join(names, ", "))
		}
	}
	if len(f.mf.Outputs) == 0 {
		return fmt.Errorf("no outputs, want some of %s", strings.Join(names, ", "))
	}
	return nil
}

// remains reports whether the model has the output of that name, which is a key if it is one of the head.
func (mf *MeanField) remains(name string) bool {
	return mf.Outputs == nil || slices.Contains(mf.Outputs, name)
}

// wantsScores reports whether an output that remains is a score, or depends on one.
func (f *fuser) wantsScores(outputs Outputs) bool {
	first, d := FirstScore(f.head), f.mf.Decisions
	for i, o := range outputs {
		score := i >= first && i < first+len(f.mf.Scores) || o.Key == "abstain" && d.OOD != nil
		if score && f.mf.remains(o.Key) {
			return true
		}
	}
	return false
}

// declare returns the declarations of all outputs that remain, and those of them that are the head's, with the names
// that they get. own says that the model gives the logits itself.
func (f *fuser) declare(
	h *head.Head, outputs Outputs, own bool, rename renaming,
) (all []*onnxpb.ValueInfo, named Outputs) {
	all = f.own
	if h.Kind.Decodes() {
		declareSteps(all, h.LogitsTensor)
	}
	batch := batchDim(f.Model)
	for i, o := range outputs {
		if !f.mf.remains(o.Key) {
			continue
		}
		if i != Logits || !own {
			all = append(all, batched(o.declaration(), batch))
		}
		o.Name = rename.name(o.Name)
		named = append(named, o)
	}
	return all, named
}

func (o Output) declaration() *onnxpb.ValueInfo {
	var dims []int64
	for _, d := range o.Shape {
		dims = append(dims, d.Value)
	}
	return onnxpb.TensorInfo(o.Name, o.Type, dims...)
}

// in describes the outputs as a model declares them.
func (o Outputs) in(m *onnx.Model) Outputs {
	all := m.Outputs()
	for i := range o {
		at := slices.IndexFunc(all, func(v onnx.ValueInfo) bool { return v.Name == o[i].Name })
		o[i].ValueInfo = all[at]
	}
	return o
}

// Infos returns the declarations of the outputs.
func (o Outputs) Infos() []onnx.ValueInfo {
	all := make([]onnx.ValueInfo, len(o))
	for i, output := range o {
		all[i] = output.ValueInfo
	}
	return all
}

// Of returns the output with the given key, or nil.
func (o Outputs) Of(key string) *Output {
	for i := range o {
		if o[i].Key == key {
			return &o[i]
		}
	}
	return nil
}

// MarshalJSON writes an object with a value for each key, in the order of the outputs.
func (o Outputs) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for i, output := range o {
		key, _ := json.Marshal(output.Key) // strings never fail
		value, err := json.Marshal(output.ValueInfo)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(append(b, key...), ':'), value...)
	}
	return append(b, '}'), nil
}
