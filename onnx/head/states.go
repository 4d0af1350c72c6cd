package head

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
	"github.com/mfgs/mfgs/internal/option"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// StateKey is the key of the states among the metadata of the model that [Unroll] returns.
const StateKey = "mfgs.state"

// maxStates is more than the states of any network that streams.
const maxStates = 1 << 10

// A State is an input of a network that runs over a stream, and the output that holds its next value.
type State struct {
	In, Out string
	Type    tensor.Type
	// Shape is the declared shape of In.
	Shape []onnx.Dim
	// Batch is the axis of Shape that counts the examples; -1 where all sizes are fixed, for a fixed number of these.
	Batch int
}

// parseStates reads IN=OUT,IN=OUT.
func parseStates(states string) (list []State, err error) {
	if states == "" {
		return nil, nil
	}
	ins, outs := map[string]bool{}, map[string]bool{}
	for _, part := range strings.Split(states, ",") {
		in, out, ok := strings.Cut(part, "=")
		switch {
		case !ok || in == "" || out == "":
			return nil, fmt.Errorf("state %.70q: want INPUT=OUTPUT", part)
		case ins[in]:
			return nil, fmt.Errorf("state: the input %.70q is named twice", in)
		case outs[out]:
			return nil, fmt.Errorf("state: the output %.70q is named twice", out)
		case len(list) == maxStates:
			return nil, fmt.Errorf("state: more than %d", maxStates)
		}
		ins[in], outs[out] = true, true
		list = append(list, State{In: in, Out: out})
	}
	return list, nil
}

// statesOf checks the states of a model, and returns them with the model's other inputs.
func statesOf(m *onnx.Model, states string) (list []State, data []onnx.ValueInfo, err error) {
	if list, err = parseStates(states); err != nil {
		return nil, nil, err
	}
	data = m.Inputs()
	for i := range list {
		s := &list[i]
		in, err := declaredAs(data, s.In, "input")
		if err != nil {
			return nil, nil, err
		}
		out, err := declaredAs(m.Outputs(), s.Out, "output")
		if err != nil {
			return nil, nil, err
		}
		if err := s.take(in, out); err != nil {
			return nil, nil, fmt.Errorf("state %q: %w", s.In, err)
		}
		data = slices.DeleteFunc(data, func(v onnx.ValueInfo) bool { return v.Name == s.In })
	}
	if len(data) == 0 {
		return nil, nil, fmt.Errorf("state: no input is left for the steps of a stream")
	}
	for _, v := range data {
		switch {
		case v.Type == tensor.Undefined || v.Shape == nil:
			return nil, nil, fmt.Errorf("input %q is %v, and the steps of a stream need a tensor with a known number of axes: export the model with a declared shape", v.Name, v)
		case len(v.Shape) == 0:
			return nil, nil, fmt.Errorf("input %q is %v, without an axis of examples: if it is no data, %s gives it a value", v.Name, v, option.Fix)
		}
	}
	for _, s := range list {
		is := onnx.ValueInfo{Type: s.Type, Shape: s.Shape}
		switch open := data[0].Shape[0].Value < 0; {
		case open && s.Batch < 0:
			return nil, nil, fmt.Errorf("state %q: its sizes %v are all fixed, and the number of examples of the input %q %v is open: export the model with an open axis of examples in both",
				s.In, is, data[0].Name, data[0])
		case !open && s.Batch >= 0:
			return nil, nil, fmt.Errorf("state %q: it is %v, whose open axis cannot be that of the examples, since the input %q %v has a fixed number of them: a state that grows with the stream cannot be fed back, export one of a fixed size",
				s.In, is, data[0].Name, data[0])
		}
	}
	return list, data, nil
}

// declaredAs finds an input or output by its name.
func declaredAs(list []onnx.ValueInfo, name, what string) (onnx.ValueInfo, error) {
	names := make([]string, len(list))
	for i, v := range list {
		if v.Name == name {
			return v, nil
		}
		names[i] = v.Name
	}
	return onnx.ValueInfo{}, fmt.Errorf("state: the model has no %s %.70q, only %s", what, name, strings.Join(names, ", "))
}

// take checks the declarations of a state, and takes its type and shape from them.
func (s *State) take(in, out onnx.ValueInfo) error {
	if in.Type != tensor.Float32 && in.Type != tensor.Float64 && in.Type != tensor.Float16 {
		return fmt.Errorf("it is %v, want float32, float64 or float16: other states do not begin at zero", in)
	}
	if in.Shape == nil {
		return fmt.Errorf("it is %v, of an unknown number of axes: export the model with a declared shape", in)
	}
	if !alike(in, out) {
		return fmt.Errorf("it is %v, and %q is %v: want the same type and shape", in, s.Out, out)
	}
	s.Type, s.Shape, s.Batch = in.Type, in.Shape, -1
	for i, d := range in.Shape {
		switch {
		case d.Value >= 0:
		case s.Batch >= 0:
			return fmt.Errorf("it is %v, and only the axis of the examples may be open: export the model with the sizes of the others", in)
		default:
			s.Batch = i
		}
	}
	if n, ok := onnxpb.Elements(s.dims(1)); !ok || n > maxFixed {
		return fmt.Errorf("it is %v, want at most %d elements of each example", in, maxFixed)
	}
	return nil
}

// alike reports whether an input and an output may hold the same tensor, as far as they are declared.
func alike(in, out onnx.ValueInfo) bool {
	if in.Type != out.Type || out.Shape == nil {
		return in.Type == out.Type
	}
	if len(in.Shape) != len(out.Shape) {
		return false
	}
	for i, d := range in.Shape {
		if o := out.Shape[i]; d.Value >= 0 && o.Value >= 0 && d.Value != o.Value {
			return false
		}
	}
	return true
}

// dims is the shape of the state of n examples.
func (s *State) dims(n int64) []int64 {
	dims := make([]int64, len(s.Shape))
	for i, d := range s.Shape {
		if dims[i] = d.Value; i == s.Batch {
			dims[i] = n
		}
	}
	return dims
}

// SuggestStates returns what of a model's inputs and outputs looks like a state, for Options.State: pairs of
// floating-point tensors with the same shape whose names say so, such as state and stateN, or h0 and hn; "" if there
// are none. It is a guess from the declarations: a state may also be another's.
func SuggestStates(m *onnx.Model) string {
	var pairs []string
	inputs, used := m.Inputs(), map[string]bool{}
	for _, in := range inputs {
		for _, out := range m.Outputs() {
			s := State{In: in.Name, Out: out.Name}
			special := strings.ContainsAny(in.Name+out.Name, "=,")
			if !used[out.Name] && !special && nextOf(in.Name, out.Name) && s.take(in, out) == nil {
				used[out.Name] = true
				pairs = append(pairs, in.Name+"="+out.Name)
				break
			}
		}
	}
	list := strings.Join(pairs, ",")
	states, _ := parseStates(list)
	for _, in := range inputs {
		state := slices.ContainsFunc(states, func(s State) bool { return s.In == in.Name })
		if !state && len(in.Shape) > 0 {
			return list
		}
	}
	return ""
}

// nextOf reports whether the name of an output is what exporters call the next value of an input.
func nextOf(in, out string) bool {
	in, out = strings.ToLower(in), strings.ToLower(out)
	for _, stem := range []string{in, strings.TrimSuffix(in, "0")} {
		for _, form := range []string{
			"%sn", "%s_n", "%s_out", "%s_next", "%s_new", "next_%s", "new_%s", "out_%s", "output_%s",
		} {
			if out == fmt.Sprintf(form, stem) {
				return true
			}
		}
	}
	for _, pair := range [][2]string{
		{"_in", "_out"}, {"in_", "out_"}, {"input_", "output_"}, {"prev_", "next_"}, {"prev_", ""}, {"past_", "present_"},
		{"old_", "new_"},
	} {
		if strings.Contains(in, pair[0]) && out == strings.Replace(in, pair[0], pair[1], 1) {
			return true
		}
	}
	return false
}

// stateInfo describes a tensor in the body of a loop; shape may be nil.
func stateInfo(name string, typ tensor.Type, shape []onnx.Dim) *onnxpb.ValueInfo {
	t := &onnxpb.TensorType{ElemType: proto.Int32(int32(typ))}
	if shape != nil {
		dims := make([]int64, len(shape))
		for i, d := range shape {
			dims[i] = d.Value
		}
		t.Shape = onnxpb.TensorInfo("", typ, dims...).GetType().GetTensorType().GetShape()
	}
	return &onnxpb.ValueInfo{Name: &name, Type: &onnxpb.Type{TensorType: t}}
}
