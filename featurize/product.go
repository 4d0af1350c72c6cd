package featurize

import (
	"context"
	_ "embed"
	"errors"
	"sync"

	"github.com/mfgs/mfgs/featurize/ort"
	"github.com/mfgs/mfgs/onnx/tensor"
)

var (
	//go:embed transposed.onnx
	transposedGraph []byte
	//go:embed product.onnx
	productGraph []byte
	//go:embed product32.onnx
	product32Graph []byte
)

// Product computes matrix products by ONNX Runtime on all cores, several times as fast as gonum. It
// implements parallel.Product, and is safe for concurrent use.
type Product struct {
	transposed, product, product32 *ort.Session

	mu  sync.Mutex
	out []float64 // of transposed
}

// NewProduct prepares the product. The runtime's library must be loaded, and the caller closes the
// Product.
func NewProduct(threads int) (*Product, error) {
	p := &Product{}
	for _, s := range []struct {
		to    **ort.Session
		graph []byte
	}{{&p.transposed, transposedGraph}, {&p.product, productGraph}, {&p.product32, product32Graph}} {
		var err error
		if *s.to, err = ort.NewSession(ort.SessionConfig{Graph: s.graph, Threads: threads}); err != nil {
			return nil, errors.Join(err, p.Close())
		}
	}
	return p, nil
}

// AddTransposedProduct computes c += aᵀb for a [rows,m], b [rows,n] and c [m,n], row-major.
func (p *Product) AddTransposedProduct(c, a, b []float64, rows, m, n int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if cap(p.out) < m*n {
		p.out = make([]float64, m*n)
	}
	out := p.out[:m*n]
	if err := run(p.transposed, matrix("c", out, m, n), matrix("a", a, rows, m), matrix("b", b, rows, n)); err != nil {
		return err
	}
	c = c[:len(out)]
	for i, v := range out {
		c[i] += v
	}
	return nil
}

// Multiply computes c = ab for a [rows,n], b [n,m] and c [rows,m], row-major.
func (p *Product) Multiply(c, a, b []float64, rows, n, m int) error {
	return run(p.product, matrix("c", c, rows, m), matrix("a", a, rows, n), matrix("b", b, n, m))
}

// Multiply32 is Multiply in float32.
func (p *Product) Multiply32(c, a, b []float32, rows, n, m int) error {
	return run(p.product32, matrix("c", c, rows, m), matrix("a", a, rows, n), matrix("b", b, n, m))
}

func run(s *ort.Session, c, a, b tensor.Tensor) error {
	return s.RunInto(context.Background(), []tensor.Tensor{a, b}, []tensor.Tensor{c})
}

func matrix[T float32 | float64](name string, x []T, rows, cols int) tensor.Tensor {
	return tensor.Tensor{Name: name, Shape: []int64{int64(rows), int64(cols)}, Data: x[:rows*cols]}
}

// Close releases the runtime's memory.
func (p *Product) Close() (err error) {
	for _, s := range []*ort.Session{p.transposed, p.product, p.product32} {
		if s != nil {
			err = errors.Join(err, s.Close())
		}
	}
	return err
}
