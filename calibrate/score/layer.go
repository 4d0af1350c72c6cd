package score

import (
	"fmt"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
)

var (
	errNoWeights = fmt.Errorf("%w: it needs the weights of the last layer, and there is no model", ErrNoFit)
	errNoSample  = fmt.Errorf("%w: it needs a sample of the training data, and the bundle to update has none", ErrNoFit)
)

// mostMoments bounds the features of scores that need eigenvectors of their moments: for 4,096 a matrix takes 128 MiB,
// and a minute.
const mostMoments = 4096

func (t *Training) checkMoments() error {
	if t.D > mostMoments {
		return fmt.Errorf("%w: it needs eigenvectors of the moments of %d features, want at most %d", ErrNoFit, t.D, mostMoments)
	}
	return nil
}

// lastLayer is the last layer's weights, for scores that change its input.
var lastLayer = []TensorSpec{{"weight", []string{"d", "K"}}, {"bias", []string{"K"}}}

func (t *Training) layer() (Tensors, error) {
	if t.W == nil {
		return nil, errNoWeights
	}
	return t.layerOnce.of(func() (Tensors, error) {
		return Tensors{{"weight", []int{t.D, t.K}, transposed(t.W, t.K, t.D)}, {"bias", []int{t.K}, t.B}}, nil
	})
}

// throughLayer are the logits of changed features.
func throughLayer[V any](t Terms[V], fitted Tensors, phi V) V {
	return t.Add(t.MatMul(phi, constant(t, fitted, "weight")), constant(t, fitted, "bias"))
}

// norm is the length of each row, [N,1].
func norm[V any](t Terms[V], x V) V { return t.Sqrt(t.SumSquares(x)) }

// transposed returns the transpose of a matrix [rows,columns].
func transposed(m []float64, rows, columns int) []float64 {
	out := make([]float64, len(m))
	for i := range rows {
		for j := range columns {
			out[j*rows+i] = m[i*columns+j]
		}
	}
	return out
}

func general(data []float64, rows, columns int) blas64.General {
	return blas64.General{Rows: rows, Cols: columns, Stride: columns, Data: data}
}

func scaleTo(dst []float64, a float64, x []float64) {
	for i, v := range x {
		dst[i] = a * v
	}
}

func vector(data []float64) blas64.Vector { return blas64.Vector{N: len(data), Inc: 1, Data: data} }

// product returns x·y, each as it is or transposed.
func product(x blas64.General, ofX blas.Transpose, y blas64.General, ofY blas.Transpose) blas64.General {
	rows, columns := x.Rows, y.Cols
	if ofX == blas.Trans {
		rows = x.Cols
	}
	if ofY == blas.Trans {
		columns = y.Rows
	}
	out := general(make([]float64, rows*columns), rows, columns)
	blas64.Gemm(ofX, ofY, 1, x, y, 0, out)
	return out
}
