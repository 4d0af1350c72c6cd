// Package approx compares floating-point numbers in tests. Nothing is close to NaN, not even NaN. A test of the form
// |got - want| > tolerance would pass for it.
package approx

import "math"

// Equal reports whether two numbers differ by at most the tolerance. Equal infinities are equal.
func Equal(got, want, tolerance float64) bool {
	return got == want || math.Abs(got-want) <= tolerance
}

// Relative reports whether got differs from want by at most the tolerance times |want|.
func Relative(got, want, tolerance float64) bool {
	return Equal(got, want, tolerance*math.Abs(want))
}
