package head

import (
	"slices"

	"github.com/mfgs/mfgs/internal/onnx/graph"
	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
)

// A share is the contribution of one linear layer to the logits: features · Wᵀ, with W a sum of terms.
type share struct {
	features   string
	d          int
	known      graph.Value    // shape and type of the features
	assumed    bool           // their rank is unknown and assumed to be 2
	transposed bool           // they are [d,N]
	selection  []*onnxpb.Node // operators after the layer that commute with it: pooling, token selection
	terms      []term
	beside     bool // each class has a layer of its own
}

// A term is a stored weight: some of its rows, each with a scale.
type term struct {
	weight weight
	rows   []int     // the row of each class; nil for all rows in order
	scale  []float64 // of each class; nil for 1
}

// An affine is the logits as a function of features: the sum of the shares plus shift, which is nil
// or has length k.
type affine struct {
	k      int
	shares []*share
	shift  []float64
}

// apply composes a with x → scale ⊙ x + shift, which are nil or have length 1 or k.
func (a *affine) apply(scale, shift []float64) {
	full := func(v []float64) []float64 {
		if len(v) == 1 {
			return slices.Repeat(v, a.k)
		}
		return slices.Clone(v)
	}
	if scale != nil {
		scale = full(scale)
		for _, p := range a.shares {
			for i := range p.terms {
				t := &p.terms[i]
				if t.scale == nil {
					t.scale = slices.Clone(scale)
					continue
				}
				for j, s := range scale {
					t.scale[j] *= s
				}
			}
		}
		for i := range a.shift {
			a.shift[i] *= scale[i]
		}
	}
	if shift != nil {
		shift = full(shift)
		if a.shift == nil {
			a.shift = shift
			return
		}
		for i, s := range shift {
			a.shift[i] += s
		}
	}
}

// pick selects classes: the new class i is the old class rows[i].
func (a *affine) pick(rows []int) {
	for _, p := range a.shares {
		for i := range p.terms {
			t := &p.terms[i]
			if t.rows == nil {
				t.rows = slices.Clone(rows)
			} else {
				t.rows = picked(t.rows, rows)
			}
			t.scale = picked(t.scale, rows)
		}
	}
	a.shift = picked(a.shift, rows)
	a.k = len(rows)
}

func picked[T any](from []T, rows []int) []T {
	if from == nil {
		return nil
	}
	out := make([]T, len(rows))
	for i, r := range rows {
		out[i] = from[r]
	}
	return out
}

// weight is the constant side of a linear operator.
type weight struct {
	name       string
	transposed bool // the tensor is [d,K], not [K,d]
}
