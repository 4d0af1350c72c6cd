package layer

import (
	"fmt"
	"math"
	"slices"
)

// Affine is an affine map of K logits, a ↦ scale∘a + left·right·a + offset: matrix scaling (Guo et al., On
// Calibration of Modern Neural Networks, 2017, section 4.2) with the sum of a diagonal matrix and one of rank R. A nil
// Affine is the identity, and so is one without numbers.
type Affine struct {
	Scale, Offset []float64 // [K]; nil for a map that only smooths
	Left          []float64 // [K,R]
	Right         []float64 // [R,K]

	// Smoothing is ε: before the map, log(p + ε) takes the place of the logits, where p is their softmax (Lidstone,
	// Note on the general case of the Bayes-Laplace formula for inductive or a posteriori probabilities, 1920). Zero
	// is none. Votes of a forest are frequencies in a small sample, and 0 of them is not a probability of 0.
	Smoothing float64
}

// MaxDense is the largest K for which a matrix over classes is dense. Beyond it maps and covariances are diagonal.
const MaxDense = 2048

const maxAffineRank = 32

// MaxSmoothing bounds [Affine.Smoothing].
const MaxSmoothing = 1.0

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
	return len(f.Left) / max(1, len(f.Scale))
}

// Validate reports a map that does not fit a head.
func (f *Affine) Validate(h Head) error {
	k, r := h.Logits, h.AffineRank()
	if !(f.Smoothing >= 0 && f.Smoothing <= MaxSmoothing) || f.Smoothing > 0 && h.Link != Softmax {
		return fmt.Errorf("smoothing is %v with the link %s, want 0 to %v, and 0 without softmax", f.Smoothing, h.Link, MaxSmoothing)
	}
	if f.Scale == nil && f.Offset == nil && f.Left == nil && f.Right == nil {
		return nil
	}
	if len(f.Scale) != k || len(f.Offset) != k || len(f.Left) != k*r || len(f.Right) != r*k {
		return fmt.Errorf("an affine map with %d scales, %d offsets and matrices of %d and %d numbers, want %d, %d, %d and %d",
			len(f.Scale), len(f.Offset), len(f.Left), len(f.Right), k, k, k*r, r*k)
	}
	return nil
}

// To writes the image of logits [K] to dst.
func (f *Affine) To(dst []float64, logits []float32) {
	for k, a := range logits {
		dst[k] = float64(a)
	}
	if f == nil {
		return
	}
	if f.Smoothing > 0 {
		smooth(dst, f.Smoothing)
	}
	if f.Scale == nil {
		return
	}
	r, width := f.Rank(), len(f.Scale)
	var along [maxAffineRank]float64
	for j := range r {
		for k, v := range f.Right[j*width : (j+1)*width] {
			along[j] += v * dst[k]
		}
	}
	for k, a := range dst {
		dst[k] = f.Scale[k]*a + f.Offset[k]
		for j, v := range along[:r] {
			dst[k] += f.Left[k*r+j] * v
		}
	}
}

// smooth replaces logits by log(p + ε).
func smooth(logits []float64, epsilon float64) {
	top, sum := slices.Max(logits), 0.0
	for k, a := range logits {
		logits[k] = math.Exp(a - top)
		sum += logits[k]
	}
	for k, e := range logits {
		logits[k] = math.Log(e/sum + epsilon)
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
