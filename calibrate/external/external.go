// Package external reads a Gaussian over a last layer's weights that another program computed, from a safetensors file
// with the names under which that program keeps it.
//
// # Names
//
// K is the number of logits and d that of features. W is the layer's weight [K,d], as in PyTorch, and b its bias [K].
// n is the number of weights in a vector or matrix of all: first W, row by row, then b, as PyTorch flattens a layer:
// n = Kd + K. Or n = Kd: then b is constant. Tensors are F32 or F64.
//
//	program        names                shapes
//	laplace-torch  mean                 [n]: W and b
//	               H                    [n] diagonal or [n,n] full: the curvature
//	               H.0.0, H.0.1, H.1.0  [K,K], [d,d], [K,K]: Kronecker factors of W's, and b's curvature
//	               prior_precision      [], [1]; [n] of a diagonal or full H; [2], of W and b, of factors
//	               temperature,
//	               sigma_noise          [], [1]; 1 if left out
//	vbll           W_mean, noise_mean   [K,d], [K]
//	               W_logdiag            [K,d]
//	               W_offdiag            left out (diagonal), [K,d,d] (dense), or [K,d,r], r < d (lowrank)
//	               noise_logdiag        [K]: the standard deviation of noise that each logit has
//	sngp           beta.weight,
//	               beta.bias            [K,d], [K]
//	               covariance           [d,d], of every logit
//	               precision            likewise, if there is no covariance
//	any            weight, bias         [K,d], [K]; may be left out
//	               covariance           one of the forms below
//	               precision            likewise: the inverse of the covariance
//
// The forms of the last are, with m = d or D, that of the features with a constant 1 for the bias,
//
//	[n]      diagonal
//	[m,m]    shared by all logits, which are independent
//	[K,m,m]  one of each logit, which are independent
//	[n,n]    full
//
// The metadata "bias" says where the bias is, in rows of D as in vectors of n: "last", the default, or "first". With
// "first" vectors are b, then W.
//
// Noise of logits is the variance of the bias, which is 0 where the layer has none.
//
// mean, W_mean, beta.weight and weight must be those of the network: the file belongs to its last layer.
//
// # What is refused
//
// Tensors of other names, types and shapes, before their data are read; numbers that are not finite; matrices that are
// not symmetric; precisions that are not positive definite, and covariances and curvatures that are not positive
// semi-definite, up to the rounding of their type; and matrices too large to be inverted, see [MaxOrder].
package external

import (
	"fmt"
	"io"
	"math"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/internal/parallel"
	"github.com/mfgs/mfgs/internal/safetensors"
)

// Form is the form of a covariance.
type Form string

const (
	Diagonal  Form = "diagonal"
	Kronecker Form = "kron"
	Shared    Form = "shared"    // by all logits
	PerLogit  Form = "per-logit" // independent logits
	Full      Form = "full"
)

// The largest matrices that are read.
const (
	// MaxOrder bounds the order of a full matrix: 8,192² float64 are 512 MiB, and inverting them takes a minute.
	MaxOrder = 8192
	// MaxFactor bounds the order of a factor, or of the matrix of a logit.
	MaxFactor = 16384
	// MaxBlocks bounds the entries of the matrices of all logits: 2 GiB.
	MaxBlocks = 1 << 28
)

// Posterior is a posterior that was read. It is a [calibrate.Gaussian].
type Posterior struct {
	Program string // laplace-torch, vbll or sngp; "" for a file with the names of none
	Form    Form

	head   layer.Head
	w, b   []float64 // mean, [K,d] and [K]; nil if the file has none
	axes   *axes     // of the forms diagonal, kron and shared
	blocks []float64 // [K,D,D], of the forms per-logit and full
	sigma  []float64 // [KD,KD], of the form full, class by class
}

var _ calibrate.Gaussian = (*Posterior)(nil)

// Read reads the posterior of a head from a file of size bytes. It reads no tensor whose shape does not fit the head.
func Read(r io.ReaderAt, size int64, h layer.Head) (*Posterior, error) {
	if h.Nonlinear {
		return nil, fmt.Errorf("a posterior is of a linear last layer, and the head has none")
	}
	if err := h.Validate(); err != nil {
		return nil, err
	}
	f, err := safetensors.NewFile(r, size)
	if err != nil {
		return nil, fmt.Errorf("not a safetensors file: %w", err)
	}
	p := &Posterior{head: h}
	if err := newReader(f, p).read(); err != nil {
		return nil, err
	}
	return p, nil
}

// Head returns the head that the posterior is of: with a bias where the program has a variance for it, though that of
// the layer may be 0 and left out.
func (p *Posterior) Head() layer.Head { return p.head }

// HasWeights reports whether the file has the mean of the weights, for CheckWeights.
func (p *Posterior) HasWeights() bool { return p.w != nil }

// weightTolerance is how far a network's weights may be from the mean, as a fraction of the largest: as of 8 bits.
const weightTolerance = 0.01

// CheckWeights refuses the weights w [K,d] and bias b [K], which may be nil, of another layer than the posterior's.
func (p *Posterior) CheckWeights(w, b []float32) error {
	for _, t := range []struct {
		file  []float64
		layer []float32
		name  func(i int) string
	}{
		{p.w, w, func(i int) string {
			return fmt.Sprintf("weight of logit %d and feature %d", i/p.head.Features, i%p.head.Features)
		}},
		{p.b, b, func(i int) string { return fmt.Sprintf("bias of logit %d", i) }},
	} {
		largest := 0.0
		for _, v := range t.file {
			largest = math.Max(largest, math.Abs(v))
		}
		for i, v := range t.file {
			own := 0.0
			if t.layer != nil {
				own = float64(t.layer[i])
			}
			if !(math.Abs(v-own) <= weightTolerance*largest) {
				return fmt.Errorf("the %s is %.6g here and %.6g in the model's last layer: "+
					"export the network that this posterior was computed for, with the posterior's mean as weights", t.name(i), v, own)
			}
		}
	}
	return nil
}

// Posterior returns the posterior, without leverages, with the variances of logits that f maps, or of the network's for
// nil.
func (p *Posterior) Posterior(f *layer.Affine) (*calibrate.Posterior, error) {
	post := &calibrate.Posterior{Head: p.head, Covariance: calibrate.External, Affine: f}
	if p.axes != nil {
		post.Structure = calibrate.Kronecker
		p.axes.to(post)
		return post, nil
	}
	post.Structure, post.Blocks = calibrate.Full, p.blocks
	if f != nil && p.sigma != nil && f.Rank() > 0 {
		post.Blocks = mappedFull(p.sigma, f, p.head.Dim())
	} else if f != nil {
		post.Blocks = mappedBlocks(p.blocks, f, p.head.Dim())
	}
	return post, nil
}

// mappedBlocks returns Σ_j M_kj² Σ_jj, for independent logits.
func mappedBlocks(blocks []float64, f *layer.Affine, d int) []float64 {
	k, size := len(f.Scale), d*d
	out := make([]float64, len(blocks))
	if f.Rank() == 0 {
		for i, v := range blocks {
			out[i] = f.Scale[i/size] * f.Scale[i/size] * v
		}
		return out
	}
	m := f.Matrix()
	parallel.For(k, func(first, last int) {
		for i := first; i < last; i++ {
			block := out[i*size : (i+1)*size]
			for j := range k {
				addScaled(block, m[i*k+j]*m[i*k+j], blocks[j*size:(j+1)*size])
			}
		}
	})
	return out
}

// mappedFull returns the diagonal blocks Σ_ij M_ki M_kj Σ_ij of MΣMᵀ.
func mappedFull(sigma []float64, f *layer.Affine, d int) []float64 {
	k := len(f.Scale)
	m, n := f.Matrix(), k*d
	out := make([]float64, k*d*d)
	parallel.For(k, func(first, last int) {
		rows := make([]float64, d*n) // Σ_i M_ki times the rows of logit i
		for i := first; i < last; i++ {
			clear(rows)
			for j := range k {
				addScaled(rows, m[i*k+j], sigma[j*d*n:(j+1)*d*n])
			}
			block := out[i*d*d : (i+1)*d*d]
			for r := range d {
				for j := range k {
					addScaled(block[r*d:(r+1)*d], m[i*k+j], rows[r*n+j*d:r*n+(j+1)*d])
				}
			}
		}
	})
	return out
}

func addScaled(dst []float64, a float64, x []float64) {
	for i, v := range x {
		dst[i] += a * v
	}
}
