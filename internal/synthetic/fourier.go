package synthetic

import (
	"math/cmplx"
	"math/rand/v2"

	"gonum.org/v1/gonum/dsp/fourier"
)

// maxFactor bounds the prime factors of transformed lengths: time grows with the largest.
const maxFactor = 64

// fast returns the largest number up to n without a prime factor above maxFactor.
func fast(n int) int {
	for ; ; n-- {
		rest := n
		for f := 2; f <= maxFactor; f++ {
			for rest%f == 0 {
				rest /= f
			}
		}
		if rest == 1 {
			return n
		}
	}
}

// scramble multiplies the Fourier coefficients of a plane, [h,w], by the phase factors turn, see noise. Amplitudes and
// the mean stay.
func scramble(plane []float64, h, w int, turn []complex128) {
	spectrum := transform(plane, h, w)
	for i := 1; i < len(spectrum); i++ {
		spectrum[i] *= turn[i]
	}
	back(plane, spectrum, h, w)
}

// noise returns the phase factors e^iθ of the Fourier coefficients of white noise, [h,w/2+1]. They have the symmetry of
// a real plane, so that a scrambled plane is real.
func noise(r *rand.Rand, h, w int) []complex128 {
	plane := make([]float64, h*w)
	for i := range plane {
		plane[i] = r.NormFloat64()
	}
	turn := transform(plane, h, w)
	for i, v := range turn {
		if size := cmplx.Abs(v); size > 0 {
			turn[i] = v / complex(size, 0)
		} else {
			turn[i] = 1
		}
	}
	return turn
}

// transform returns the Fourier coefficients of a plane, [h,w/2+1]: the others are conjugates of these.
func transform(plane []float64, h, w int) []complex128 {
	half := w/2 + 1
	spectrum := make([]complex128, h*half)
	rows := fourier.NewFFT(w)
	for y := range h {
		rows.Coefficients(spectrum[y*half:][:half], plane[y*w:][:w])
	}
	columns(spectrum, h, half, (*fourier.CmplxFFT).Coefficients)
	return spectrum
}

// back inverts transform. It overwrites the spectrum.
func back(plane []float64, spectrum []complex128, h, w int) {
	half := w/2 + 1
	columns(spectrum, h, half, (*fourier.CmplxFFT).Sequence)
	rows := fourier.NewFFT(w)
	for y := range h {
		rows.Sequence(plane[y*w:][:w], spectrum[y*half:][:half])
	}
	for i := range plane {
		plane[i] /= float64(h * w)
	}
}

// columns transforms each of width columns of h numbers.
func columns(spectrum []complex128, h, width int, apply func(f *fourier.CmplxFFT, dst, src []complex128) []complex128) {
	f, column := fourier.NewCmplxFFT(h), make([]complex128, h)
	for x := range width {
		for y := range h {
			column[y] = spectrum[y*width+x]
		}
		apply(f, column, column)
		for y := range h {
			spectrum[y*width+x] = column[y]
		}
	}
}
