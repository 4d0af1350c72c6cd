package head

import (
	"slices"

	"github.com/mfgs/mfgs/internal/onnx/graph"
	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
)

// A share is what one linear layer gives to the logits: features · Wᵀ, where W is a sum of terms.
type share struct {
	features   string
	d          int
	known      graph.Value    // of the features tensor
	assumed    bool           // its rank is not known and taken to be 2
	transposed bool           // it is [d,N]
	selection  []*onnxpb.Node // operators between layer and logits that act alike on features: pooling, picking a token
	terms      []term
}

// A term is rows of a stored weight, each with a scale.
type term struct {
	weight weight
	rows   []int     // of the weight, class by class; nil for all in order
	scale  []float64 // nil for 1
}

// An affine is the logits as a function of features: the sum of the shares plus shift, which is nil
// or of length k.
type affine struct {
	k      int
	shares []*share
	shift  []float64
}

// apply follows a by x → scale ⊙ x + shift, each nil or of length 1 or k.
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

// pick makes class i what was class rows[i].
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
