package layer

import "fmt"

// Affine is an affine map of K logits, a ↦ scale∘a + left·right·a + offset: matrix scaling (Guo et al., On
// Calibration of Modern Neural Networks, 2017, section 4.2) with the sum of a diagonal matrix and one of rank R. A nil
// Affine is the identity.
type Affine struct {
	Scale, Offset []float64 // [K]
	Left          []float64 // [K,R]
	Right         []float64 // [R,K]
}

// MaxDense is the largest K for which a matrix over classes is dense. Beyond it maps and covariances are diagonal.
const MaxDense = 2048

const maxAffineRank = 32

// AffineRank returns R of the maps for a head. Logits that are separate keep to themselves.
func (h Head) AffineRank() int {
	if h.Link.Separate() || h.Logits > MaxDense {
		return 0
	}
	return min(h.Logits, maxAffineRank)
}

// Rank returns R.
func (f *Affine) Rank() int {
	if f == nil {
		return 0
	}
	return len(f.Left) / len(f.Scale)
}

// Validate reports a map that does not fit a head.
func (f *Affine) Validate(h Head) error {
	k, r := h.Logits, h.AffineRank()
	if len(f.Scale) != k || len(f.Offset) != k || len(f.Left) != k*r || len(f.Right) != r*k {
		return fmt.Errorf("an affine map with %d scales, %d offsets and matrices of %d and %d numbers, want %d, %d, %d and %d",
			len(f.Scale), len(f.Offset), len(f.Left), len(f.Right), k, k, k*r, r*k)
	}
	return nil
}

// To writes the image of logits [K] to dst.
func (f *Affine) To(dst []float64, logits []float32) {
	if f == nil {
		for k, a := range logits {
			dst[k] = float64(a)
		}
		return
	}
	for k, a := range logits {
		dst[k] = f.Scale[k]*float64(a) + f.Offset[k]
	}
	r, width := f.Rank(), len(f.Scale)
	for j := range r {
		var along float64
		for k, v := range f.Right[j*width : (j+1)*width] {
			along += v * float64(logits[k])
		}
		for k := range dst {
			dst[k] += f.Left[k*r+j] * along
		}
	}
}

// Divide divides the images of all logits by a temperature.
func (f *Affine) Divide(temperature float64) {
	for _, x := range [][]float64{f.Scale, f.Offset, f.Left} {
		for i := range x {
			x[i] /= temperature
		}
	}
}

// Matrix returns scale + left·right, [K,K].
func (f *Affine) Matrix() []float64 {
	k, r := len(f.Scale), f.Rank()
	m := make([]float64, k*k)
	for i := range k {
		row := m[i*k : (i+1)*k]
		row[i] = f.Scale[i]
		for j := range r {
			for l, v := range f.Right[j*k : (j+1)*k] {
				row[l] += f.Left[i*r+j] * v
			}
		}
	}
	return m
}
