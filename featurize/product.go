package featurize

import (
	"context"
	_ "embed"

	"github.com/mfgs/mfgs/featurize/ort"
)

//go:embed product.onnx
var productGraph []byte

// Product is a matrix product run by ONNX Runtime, in float64 and on all cores:
// several times as fast as one in Go. It serves as calibrate.Product.
type Product struct {
	session *ort.Session
	out     []float64
}

// NewProduct prepares the product. The runtime's library must be loaded, and
// the caller closes the Product.
func NewProduct(threads int) (*Product, error) {
	s, err := ort.NewSession(ort.SessionConfig{Graph: productGraph, Threads: threads})
	if err != nil {
		return nil, err
	}
	return &Product{session: s}, nil
}

// AddTransposedProduct computes c += aᵀb for a [rows,m], b [rows,n] and c [m,n],
// row-major. It is not safe for concurrent use.
func (p *Product) AddTransposedProduct(c, a, b []float64, rows, m, n int) error {
	if cap(p.out) < m*n {
		p.out = make([]float64, m*n)
	}
	out := p.out[:m*n]
	err := p.session.RunInto(context.Background(),
		[]ort.Tensor{
			{Name: "a", Shape: []int64{int64(rows), int64(m)}, Data: a[:rows*m]},
			{Name: "b", Shape: []int64{int64(rows), int64(n)}, Data: b[:rows*n]},
		},
		[]ort.Tensor{{Name: "c", Shape: []int64{int64(m), int64(n)}, Data: out}})
	if err != nil {
		return err
	}
	for i, v := range out {
		c[i] += v
	}
	return nil
}

// Close releases the runtime's memory.
func (p *Product) Close() error { return p.session.Close() }
