package methods

import (
	"fmt"
	"math"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/internal/parallel"
)

// SWAG is a Gaussian over the last layer's weights from checkpoints along a training (Maddox et al. 2019, A Simple
// Baseline for Bayesian Uncertainty in Deep Learning, eq. 1): half the diagonal of their variances and half
// their covariance,
//
//	Σ = ½ diag(1/T Σ_t δ_t²) + ½ 1/(T-1) Σ_t δ_tδ_tᵀ,  δ_t = w_t - mean w.
//
// Deviations are from the mean of all T checkpoints. The Gaussian is centred on the network's own logits.
type SWAG struct {
	head       layer.Head
	product    parallel.Product
	t          int
	variances  []float64 // ½ 1/T Σ_t δ_t², [D,K]
	deviations []float64 // δ_t/√(2(T-1)), [D,T·K]
}

var (
	_ Covariance = (*SWAG)(nil)
	_ Variances  = (*SWAG)(nil)
)

// NewSWAG takes T ≥ 2 checkpoints of the last layer, each [K,D] with the bias in the last
// column. A nil product is Go's own.
func NewSWAG(checkpoints [][]float64, h layer.Head, product parallel.Product) (*SWAG, error) {
	if err := h.Validate(); err != nil {
		return nil, err
	}
	if err := checkSoftmax(h); err != nil {
		return nil, err
	}
	n, k, d := len(checkpoints), h.Logits, h.Dim()
	if n < 2 {
		return nil, fmt.Errorf("%d checkpoints of the last layer, want at least 2", n)
	}
	if bytes := float64(n) * float64(k) * float64(d) * 8; bytes > MaxBytes {
		return nil, fmt.Errorf("%d checkpoints of the last layer would take %.1f GB of memory, want at most %.1f: take fewer", n, bytes/1e9, float64(MaxBytes)/1e9)
	}
	mean := make([]float64, k*d)
	for t, w := range checkpoints {
		if err := checkWeights(w, h); err != nil {
			return nil, fmt.Errorf("checkpoint %d: %w", t, err)
		}
		for i, v := range w {
			if v-v != 0 {
				return nil, fmt.Errorf("checkpoint %d: weight %d is %v, want a finite number", t, i, v)
			}
			mean[i] += v / float64(n)
		}
	}
	s := &SWAG{head: h, product: parallel.OrGo(product), t: n, variances: make([]float64, d*k),
		deviations: make([]float64, d*n*k)}
	scale := 1 / math.Sqrt(2*float64(n-1))
	for t, w := range checkpoints {
		for c := range k {
			for j := range d {
				v := w[c*d+j] - mean[c*d+j]
				s.variances[j*k+c] += v * v / float64(2*n)
				s.deviations[(j*n+t)*k+c] = v * scale
			}
		}
	}
	return s, nil
}

// Covariances implements Covariance, for features [n,d]. It takes K² T operations per example, and two products.
func (s *SWAG) Covariances(dst []float64, phi []float32, n int) error {
	k := s.head.Logits
	return s.each(dst, PackedSize(k), phi, n, func(packed, deviations, variances []float64) {
		clear(packed)
		for ; len(deviations) > 0; deviations = deviations[k:] {
			addOuter(packed, deviations[:k])
		}
		for c, v := range variances {
			packed[packedRow(c, k)] += v
		}
	})
}

// Variances implements Variances, for features [n,d].
func (s *SWAG) Variances(dst []float64, phi []float32, n int) error {
	return s.each(dst, s.head.Logits, phi, n, func(row, deviations, variances []float64) {
		clear(row)
		for i, v := range deviations {
			row[i%len(row)] += v * v
		}
		for c, v := range variances {
			row[c] += v
		}
	})
}

// each calls write with each example's row of dst [n,pairs] and the terms of its covariance: logits of the
// deviations [T,K], and the diagonal ½ 1/T Σ_t δ_t² [K].
func (s *SWAG) each(dst []float64, pairs int, phi []float32, n int, write func(row, deviations,
	variances []float64)) error {
	k, d, width := s.head.Logits, s.head.Dim(), s.t*s.head.Logits
	if len(phi) != n*s.head.Features || len(dst) != n*pairs {
		panic(fmt.Sprintf("methods: %d features and room for %d numbers for %d examples, want %d and %d each", len(phi), len(dst), n, s.head.Features, pairs))
	}
	size := min(n, blockRows)
	x, a, v := make([]float64, size*d), make([]float64, size*width), make([]float64, size*k)
	for first := 0; first < n; first += size {
		rows := min(size, n-first)
		for r := range rows {
			augment(x[r*d:(r+1)*d], s.head, phi, first+r)
		}
		if err := s.product.Multiply(a[:rows*width], x[:rows*d], s.deviations, rows, d, width); err != nil {
			return err
		}
		for i, u := range x[:rows*d] {
			x[i] = u * u
		}
		if err := s.product.Multiply(v[:rows*k], x[:rows*d], s.variances, rows, d, k); err != nil {
			return err
		}
		parallel.For(rows, func(from, to int) {
			for r := from; r < to; r++ {
				write(dst[(first+r)*pairs:(first+r+1)*pairs], a[r*width:(r+1)*width], v[r*k:(r+1)*k])
			}
		})
	}
	return nil
}

// addOuter adds the upper triangle of xxᵀ to packed.
func addOuter(packed, x []float64) {
	for i, u := range x {
		row := packed[:len(x)-i]
		for j, v := range x[i:] {
			row[j] += u * v
		}
		packed = packed[len(row):]
	}
}
