package wrap

import (
	"reflect"

	"github.com/mfgs/mfgs/calibrate/rows"
)

// steps is the number of axes of steps of the outputs.
func (p *Predictor) steps() int { return p.bundle.Manifest.Head.Steps }

// CountedSteps returns which of the steps of an example count, by the input of the model that says so; all n if it has
// none, or if that leaves none.
func (p *Predictor) CountedSteps(inputs []Tensor, example, n int) []int {
	mask := reflect.Value{}
	for _, t := range inputs {
		if t.Name == p.network.MaskInput() && t.Len() == int(t.Shape[0])*n {
			mask = reflect.ValueOf(t.Data)
		}
	}
	counted := make([]int, 0, n)
	for i := range n {
		if !mask.IsValid() || !mask.Index(example*n+i).IsZero() {
			counted = append(counted, i)
		}
	}
	if len(counted) == 0 && n > 0 {
		return p.CountedSteps(nil, example, n)
	}
	return counted
}

// stepsOf describes the rows of an output: the examples, or the steps of each where there are axes of these.
func stepsOf(output Tensor, axes, examples int) *rows.Batch {
	if axes == 0 {
		return &rows.Batch{N: examples}
	}
	each := 1
	for _, d := range output.Shape[1 : 1+axes] {
		each *= int(d)
	}
	x := &rows.Batch{N: examples * each, Steps: make([]int, examples*each)}
	for i := range x.Steps {
		x.Steps[i] = i % max(1, each)
	}
	return x
}
