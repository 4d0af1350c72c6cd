package oip

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/mfgs/mfgs/onnx/tensor"
)

// maxClasses is the most classes that one output may be asked for.
const maxClasses = 1 << 20

// wanted is an output that a request asks for, as it does so.
type wanted struct {
	name       string
	parameters Parameters
}

// ask sets what r asks for from what it says: the outputs, and the parameters about them, which are
// no others then.
func (r *Request) ask(outputs []wanted) error {
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
			return fmt.Errorf("output %q is asked for twice", o.Name)
		}
		r.Outputs = append(r.Outputs, o)
	}
	return nil
}

func (w wanted) output(binary bool) (o Output, err error) {
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

// IsBinary reports whether r asks for an output as bytes behind the JSON.
func (r *Request) IsBinary(output string) bool {
	for _, o := range r.Outputs {
		if o.Name == output {
			return o.Binary
		}
	}
	return r.Binary
}

// Select returns what r asks for of outputs, which are all that there are: each as it is or, where
// classes are asked for, the largest, whose names labels are if it is as long as there are classes.
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

// largest returns the n largest of each row of t [N,C] or [C], or all C, as strings "value:column"
// or "value:column:label", the largest first; of equal ones the first column first.
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

// checkLength refuses a name that is too long.
func checkLength(name string) error {
	if len(name) > maxName {
		return fmt.Errorf("%s and so on: %d bytes, where at most %d are taken", show(name), len(name), maxName)
	}
	return nil
}

// show writes a value from outside into an error: quoted, and its begin only.
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
