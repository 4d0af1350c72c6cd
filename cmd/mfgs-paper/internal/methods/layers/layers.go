// Package layers implements the posterior of the top dense layers of a network, rather than of the last only (paper,
// Table 2). It is Gaussian and independent between layers, with a Kronecker-factored covariance for each (Ritter, Botev
// and Barber 2018, "A Scalable Laplace Approximation for Neural Networks").
//
//  1. [NewNetwork] takes the layers, the lowest first:
//     h₀ = x, z_l = W_l h_l + b_l, h_(l+1) = f_l(z_l), and the last h are the logits a.
//  2. [Curvature] sums, over training examples, A_l = Σ h_l h_lᵀ, with h_l augmented by 1
//     for a bias, and B_l = Σ J_lᵀ(diag p - ppᵀ)J_l, J_l = ∂a/∂z_l. The generalised
//     Gauss-Newton matrix of a layer's weights is approximated by B_l ⊗ A_l / N. For the last
//     layer it is the Hessian of calibrate.Curvature.
//  3. [Posterior] has Σ_l = (B_l ⊗ A_l / N + ε_l I)⁻¹, exactly, in the eigenbases.
//  4. It gives covariances of logits, S = Σ_l ∇a Σ_l ∇aᵀ (paper, eq. 19), linearising the logits in the
//     weights; or [Sampled] networks with random weights, without linearisation.
package layers

import (
	"fmt"
	"math"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/internal/parallel"
)

const (
	// maxOrder bounds factors of the curvature: 16,384 squared is 2 GiB of float64, and
	// finding its eigenvalues takes an hour.
	maxOrder = 16384
	// maxNumbers bounds the float64 of a block of work, of at least one example: 64 MiB.
	maxNumbers = 8 << 20
	// maxCached bounds the float32 of drawn weights that are cached: 256 MiB. Others are redrawn each time.
	maxCached = 64 << 20
)

// Layer is a dense layer, Activation(W h + b).
type Layer struct {
	In, Out int
	Weights []float32 // W [Out,In]
	Bias    []float32 // [Out], or nil
	// Activation writes a function of each x to y, which may be x, and its derivatives to slope unless that is nil.
	// Nil is the identity.
	Activation func(y, slope, x []float64)
}

// Network is the top dense layers of a network, down to the logits of a softmax. It is immutable.
type Network struct {
	layers  []layer
	product parallel.Product
}

// layer is a Layer in float64.
type layer struct {
	in, dim, out int       // dim: in, plus one for a bias
	forward      []float64 // [dim,out]: Wᵀ, then b
	back         []float64 // W [out,in]; nil for the lowest layer
	activation   func(y, slope, x []float64)
}

// NewNetwork takes layers, lowest first. A nil product is Go's own. No single method calls it concurrently.
func NewNetwork(layers []Layer, product parallel.Product) (*Network, error) {
	if len(layers) == 0 {
		return nil, fmt.Errorf("no layers, want at least one")
	}
	n := &Network{product: parallel.OrGo(product)}
	for i, l := range layers {
		made, err := newLayer(l, i > 0)
		if err == nil && i > 0 && l.In != layers[i-1].Out {
			err = fmt.Errorf("it has %d inputs, want the %d outputs of the layer below", l.In, layers[i-1].Out)
		}
		if err != nil {
			return nil, fmt.Errorf("dense layer %d of %d: %w", i+1, len(layers), err)
		}
		n.layers = append(n.layers, made)
	}
	if k := n.Logits(); k < 2 {
		return nil, fmt.Errorf("the layers give %d logit, want a softmax of at least 2", k)
	}
	return n, nil
}

func newLayer(l Layer, back bool) (layer, error) {
	made := layer{in: l.In, dim: l.In, out: l.Out, activation: l.Activation}
	if l.Bias != nil {
		made.dim++
	}
	switch {
	case l.In < 1 || l.Out < 1:
		return layer{}, fmt.Errorf("it has %d inputs and %d outputs, want at least 1 each", l.In, l.Out)
	case max(made.dim, made.out) > maxOrder:
		return layer{}, fmt.Errorf("it has %d inputs and %d outputs, want at most %d each: take fewer layers", l.In, l.Out, maxOrder)
	case len(l.Weights) != l.In*l.Out || l.Bias != nil && len(l.Bias) != l.Out:
		return layer{}, fmt.Errorf("it has %d weights and %d biases for %d inputs and %d outputs", len(l.Weights), len(l.Bias), l.In, l.Out)
	}
	made.forward = make([]float64, made.dim*l.Out)
	for o := range l.Out {
		for i, v := range l.Weights[o*l.In : (o+1)*l.In] {
			made.forward[i*l.Out+o] = float64(v)
		}
	}
	for o, v := range l.Bias {
		made.forward[l.In*l.Out+o] = float64(v)
	}
	for _, v := range made.forward {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return layer{}, fmt.Errorf("one of its weights is %v, want finite numbers", v)
		}
	}
	if back {
		made.back = make([]float64, len(l.Weights))
		for i, v := range l.Weights {
			made.back[i] = float64(v)
		}
	}
	return made, nil
}

// Inputs returns d₀, the size of the lowest layer's input.
func (n *Network) Inputs() int { return n.layers[0].in }

// Logits returns K.
func (n *Network) Logits() int { return n.layers[len(n.layers)-1].out }

// weights returns the weights of each layer, [dim,out].
func (n *Network) weights() [][]float64 {
	var w [][]float64
	for _, l := range n.layers {
		w = append(w, l.forward)
	}
	return w
}

// Forward writes the logits of examples x [rows,d₀] to dst [rows,K], for comparison with those of the whole network.
func (n *Network) Forward(dst []float64, x []float32) error {
	k := n.Logits()
	rows, err := n.check(x)
	if err != nil {
		return err
	}
	if len(dst) != rows*k {
		panic(fmt.Sprintf("layers: room for %d logits, want %d for each of %d examples", len(dst), k, rows))
	}
	p, w := n.newPass(min(rows, calibrate.BlockSize), false), n.weights()
	for first := 0; first < rows; first += calibrate.BlockSize {
		end := min(rows, first+calibrate.BlockSize)
		p.load(x[first*n.Inputs() : end*n.Inputs()])
		if err := p.forward(w); err != nil {
			return err
		}
		copy(dst[first*k:], p.logits())
	}
	return nil
}

// check returns the number of examples, and an error if a value is not finite.
func (n *Network) check(x []float32) (rows int, err error) {
	d := n.Inputs()
	if len(x)%d != 0 {
		panic(fmt.Sprintf("layers: %d numbers, want %d for each example", len(x), d))
	}
	for i, v := range x {
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			return 0, fmt.Errorf("example %d: input %d of the dense layers is %v, want a finite number: does the preprocessing fit the model?", i/d, i%d, v)
		}
	}
	return len(x) / d, nil
}

// pass is the work space for running a block of examples through the layers.
type pass struct {
	*Network
	rows int
	// h[l] is the augmented input of layer l, [size,dim]; the last is the logits [size,K]. slope[l] is the
	// derivatives of layer l's activation, [size,out]; nil if not needed or all 1.
	h, slope [][]float64
	z        []float64
}

// newPass allocates work space for blocks of size examples.
func (n *Network) newPass(size int, slopes bool) *pass {
	p := &pass{Network: n, slope: make([][]float64, len(n.layers))}
	widest := 0
	for l, layer := range n.layers {
		h := make([]float64, size*layer.dim)
		for at := layer.in; layer.dim > layer.in && at < len(h); at += layer.dim {
			h[at] = 1
		}
		p.h = append(p.h, h)
		if slopes && layer.activation != nil {
			p.slope[l] = make([]float64, size*layer.out)
		}
		widest = max(widest, layer.out)
	}
	p.h = append(p.h, make([]float64, size*n.Logits()))
	p.z = make([]float64, size*widest)
	return p
}

// load sets the examples, x [rows,d₀].
func (p *pass) load(x []float32) {
	l := p.layers[0]
	p.rows = len(x) / l.in
	for r := range p.rows {
		row := p.h[0][r*l.dim:]
		for i, v := range x[r*l.in : (r+1)*l.in] {
			row[i] = float64(v)
		}
	}
}

// logits returns the logits that forward computed, [rows,K].
func (p *pass) logits() []float64 { return p.h[len(p.layers)][:p.rows*p.Logits()] }

// forward runs the examples through layers with the given weights.
func (p *pass) forward(weights [][]float64) error {
	for l, layer := range p.layers {
		z := p.z[:p.rows*layer.out]
		if err := p.product.Multiply(z, p.h[l][:p.rows*layer.dim], weights[l], p.rows, layer.dim,
			layer.out); err != nil {
			return err
		}
		stride := layer.out
		if l+1 < len(p.layers) {
			stride = p.layers[l+1].dim
		}
		parallel.For(p.rows, func(first, last int) {
			for r := first; r < last; r++ {
				z, y := z[r*layer.out:(r+1)*layer.out], p.h[l+1][r*stride:r*stride+layer.out]
				switch slope := p.slope[l]; {
				case layer.activation == nil:
					copy(y, z)
				case slope == nil:
					layer.activation(y, nil, z)
				default:
					layer.activation(y, slope[r*layer.out:(r+1)*layer.out], z)
				}
			}
		})
	}
	return nil
}

// backward propagates v [rows·each,K], `each` rows of derivatives with respect to the logits for each example, down
// the layers. It calls f with those with respect to z_l, [rows·each,out], from the last layer on. v and spare are
// work space of rows·each times the widest layer.
func (p *pass) backward(v, spare []float64, each int, f func(l int, v []float64) error) error {
	for l := len(p.layers) - 1; l >= 0; l-- {
		layer := p.layers[l]
		now := v[:p.rows*each*layer.out]
		if p.slope[l] != nil {
			parallel.For(p.rows*each, func(first, last int) {
				for r := first; r < last; r++ {
					row, slope := now[r*layer.out:(r+1)*layer.out], p.slope[l][r/each*layer.out:]
					for i := range row {
						row[i] *= slope[i]
					}
				}
			})
		}
		if err := f(l, now); err != nil || l == 0 {
			return err
		}
		if err := p.product.Multiply(spare[:p.rows*each*layer.in], now, layer.back, p.rows*each, layer.out,
			layer.in); err != nil {
			return err
		}
		v, spare = spare, v
	}
	return nil
}

// blockRows returns the number of examples in a block, with `each` rows of the widest layer per example.
func (n *Network) blockRows(each int) int {
	return max(1, min(calibrate.BlockSize, maxNumbers/(each*n.widest())))
}

// widest returns the largest output of a layer.
func (n *Network) widest() int {
	most := 0
	for _, l := range n.layers {
		most = max(most, l.out)
	}
	return most
}
