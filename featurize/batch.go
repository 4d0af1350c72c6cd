package featurize

import (
	"fmt"
	"reflect"

	"github.com/mfgs/mfgs/featurize/dataset"
	"github.com/mfgs/mfgs/featurize/preprocess"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// input is one of the model's inputs and how it is filled.
type input struct {
	info onnx.ValueInfo
	pipe *preprocess.Pipeline // its sizes may be open
}

func (in *input) typ() tensor.Type { return in.info.Type }

// A batch is the model's inputs for some examples, one column per input. Different rows may be set
// concurrently.
type batch []column

// A column is one input's tensor.
type column struct {
	name string
	typ  tensor.Type
	only bool // the model has no other input
	pipe *preprocess.Pipeline
	data reflect.Value // a slice of rows × pipe.Len() elements
}

// newBatch allocates a batch. The pipes have no open sizes.
func newBatch(inputs []input, pipes []*preprocess.Pipeline, rows int) (batch, error) {
	b := make(batch, len(inputs))
	for i, in := range inputs {
		data, err := in.typ().Make(rows * pipes[i].Len())
		if err != nil {
			return nil, fmt.Errorf("input %q: %w", in.info.Name, err)
		}
		b[i] = column{name: in.info.Name, typ: in.typ(), only: len(inputs) == 1, pipe: pipes[i],
			data: reflect.ValueOf(data)}
	}
	return b, nil
}

// row returns one example's elements.
func (c *column) row(i int) reflect.Value {
	n := c.pipe.Len()
	return c.data.Slice(i*n, (i+1)*n)
}

// set preprocesses an example into a row.
func (b batch) set(row int, ex *dataset.Example) error {
	for i := range b {
		c := &b[i]
		array, err := find(ex, c.name, c.only)
		if err != nil {
			return err
		}
		img := image(*array)
		if text, ok := array.Data.(dataset.Text); ok {
			if img.Data, err = text.As(c.typ); err != nil {
				return err
			}
		}
		if dst := c.row(row).Interface(); c.typ.IsBits() {
			err = c.round(img, dst)
		} else {
			err = c.pipe.Apply(img, dst)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// labels gives a label map of an example the geometry of its image.
func (b batch) labels(ex *dataset.Example, h, w int) (labels []int32, outH, outW int, err error) {
	for i := range b {
		array, err := find(ex, b[i].name, b[i].only)
		if err != nil {
			return nil, 0, 0, err
		}
		if img := image(*array); b[i].pipe.Pixels(img) {
			return b[i].pipe.Labels(img, ex.Steps, h, w)
		}
	}
	return ex.Steps, h, w, nil
}

// round preprocesses an image into the bits of 16-bit numbers. A finite number beyond their range is
// an error.
func (c *column) round(img preprocess.Image, dst any) error {
	exact := make([]float32, c.pipe.Len())
	if err := c.pipe.Apply(img, exact); err != nil {
		return err
	}
	if i := c.typ.Round(dst, exact); i >= 0 {
		return fmt.Errorf("value %v is too large for the model's input %q of %d-bit numbers", exact[i], c.name,
			c.typ.Bits())
	}
	return nil
}

// move copies row from to row to.
func (b batch) move(to, from int) {
	if to == from {
		return
	}
	for i := range b {
		reflect.Copy(b[i].row(to), b[i].row(from))
	}
}

// tensors returns the first n rows.
func (b batch) tensors(n int) []tensor.Tensor {
	out := make([]tensor.Tensor, len(b))
	for i, c := range b {
		shape := []int64{int64(n)}
		for _, d := range c.pipe.Shape() {
			shape = append(shape, int64(d))
		}
		out[i] = tensor.Tensor{Name: c.name, Shape: shape, Data: c.data.Slice(0, n*c.pipe.Len()).Interface()}
	}
	return out
}

// find returns the example's array for an input. A single array goes to a single input, whatever its
// name.
func find(ex *dataset.Example, name string, only bool) (*dataset.Array, error) {
	for i := range ex.Inputs {
		if a := &ex.Inputs[i]; a.Name == name || only && len(ex.Inputs) == 1 {
			return a, nil
		}
	}
	have := make([]string, len(ex.Inputs))
	for i, a := range ex.Inputs {
		have[i] = a.Name
	}
	return nil, fmt.Errorf("there is no array for the model's input %q among %q: name the arrays, keys or columns after the model's inputs",
		name, have)
}

// image converts a dataset's array to a preprocess.Image. Text in it is not converted to numbers.
func image(a dataset.Array) preprocess.Image {
	if text, ok := a.Data.(dataset.Text); ok {
		a.Data = text.Cells
	}
	return preprocess.Image{Shape: a.Shape, Layout: a.Layout, Data: a.Data,
		Orientation: a.Orientation}
}
