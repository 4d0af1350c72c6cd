package oip

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/mfgs/mfgs/onnx/tensor"
)

// maxClasses bounds the classes that a request may ask for in one output.
const maxClasses = 1 << 20

// A wantedOutput is an output in a request, before its parameters are checked.
type wantedOutput struct {
	name       string
	parameters Parameters
}

// setOutputs sets r.Outputs and r.Binary from the outputs that a request lists and its parameters, and removes the
// parameters that it has used.
func (r *Request) setOutputs(outputs []wantedOutput) error {
	all, err := r.Parameters.Bool(binaryAll)
	if err != nil {
		return err
	}
	delete(r.Parameters, binaryAll)
	r.Binary = all
	for i, w := range outputs {
		o, err := w.output(all)
		if err != nil {
			return fmt.Errorf("output %s: %w", cmp.Or(w.name, strconv.Itoa(i)), err)
		}
		if slices.ContainsFunc(r.Outputs, func(other Output) bool { return other.Name == o.Name }) {
			return fmt.Errorf("output %q is requested twice", o.Name)
		}
		r.Outputs = append(r.Outputs, o)
	}
	return nil
}

func (w wantedOutput) output(binary bool) (o Output, err error) {
	o = Output{Name: w.name, Binary: binary}
	if o.Name == "" {
		return o, fmt.Errorf(`"name" is missing`)
	}
	if _, ok := w.parameters[sharedRegion]; ok {
		return o, Errorf(Unsupported, "shared memory is not supported: take the data")
	}
	if _, ok := w.parameters[binaryOne]; ok {
		if o.Binary, err = w.parameters.Bool(binaryOne); err != nil {
			return o, err
		}
	}
	if v, ok := w.parameters[classes]; ok {
		n, whole := v.(int64)
		if !whole || n < 0 || n > maxClasses {
			return o, fmt.Errorf("%s %s: want how many classes to return", classes, show(v))
		}
		o.Classes = int(n)
	}
	return o, nil
}

// IsBinary reports whether an output is sent as bytes after the JSON.
func (r *Request) IsBinary(output string) bool {
	for _, o := range r.Outputs {
		if o.Name == output {
			return o.Binary
		}
	}
	return r.Binary
}

// Select returns the outputs that r asks for, of all outputs of a model. With [Output.Classes], an output becomes a
// list of its largest classes, named by labels if there is one for each class.
func (r *Request) Select(outputs []tensor.Tensor, labels []string) ([]tensor.Tensor, error) {
	if len(r.Outputs) == 0 {
		return outputs, nil
	}
	var all []tensor.Tensor
	for _, o := range r.Outputs {
		i := slices.IndexFunc(outputs, func(t tensor.Tensor) bool { return t.Name == o.Name })
		if i < 0 {
			return nil, Errorf(Invalid, "output %s: there is no such output, but %s", show(o.Name), names(outputs))
		}
		t := outputs[i]
		if o.Classes > 0 {
			var err error
			if t, err = largest(t, o.Classes, labels); err != nil {
				return nil, Errorf(Invalid, "output %q: %w", o.Name, err)
			}
		}
		all = append(all, t)
	}
	return all, nil
}

// largest returns the n largest values of each row of t, [N,C] or [C], as strings "value:column" or
// "value:column:label", the largest first; of equal ones the first column first.
func largest(t tensor.Tensor, n int, labels []string) (tensor.Tensor, error) {
	var value func(i int) string
	var compare func(i, j int) int
	switch d := t.Data.(type) {
	case []float32:
		value = func(i int) string { return strconv.FormatFloat(float64(d[i]), 'g', -1, 32) }
		compare = func(i, j int) int { return cmp.Compare(d[j], d[i]) }
	case []float64:
		value = func(i int) string { return strconv.FormatFloat(d[i], 'g', -1, 64) }
		compare = func(i, j int) int { return cmp.Compare(d[j], d[i]) }
	default:
		return t, fmt.Errorf("%s is of floats only, not of %s", classes, Datatype(t.Type()))
	}
	if len(t.Shape) == 0 || len(t.Shape) > 2 {
		return t, fmt.Errorf("%s is of outputs of rows of classes, not of %s", classes, tensor.FormatShape(t.Shape))
	}
	columns := int(t.Shape[len(t.Shape)-1])
	n = min(n, columns)
	text := make([]string, 0, t.Len()/max(columns, 1)*n)
	order := make([]int, columns)
	for row := 0; row < t.Len(); row += columns {
		for c := range order {
			order[c] = row + c
		}
		slices.SortStableFunc(order, compare)
		for _, i := range order[:n] {
			s := value(i) + ":" + strconv.Itoa(i-row)
			if len(labels) == columns {
				s += ":" + labels[i-row]
			}
			text = append(text, s)
		}
	}
	shape := slices.Clone(t.Shape)
	shape[len(shape)-1] = int64(n)
	return tensor.Tensor{Name: t.Name, Shape: shape, Data: text}, nil
}

// checkLength refuses a long name.
func checkLength(name string) error {
	if len(name) > maxName {
		return fmt.Errorf("%s and so on: %d bytes, where at most %d are taken", show(name), len(name), maxName)
	}
	return nil
}

// show formats a value from outside for an error: quoted, and shortened.
func show(v any) string {
	s, ok := v.(string)
	if !ok {
		return fmt.Sprint(v)
	}
	if len(s) > 40 {
		cut := 40
		for cut > 0 && !utf8.RuneStart(s[cut]) {
			cut--
		}
		s = s[:cut] + "…"
	}
	return strconv.Quote(s)
}
