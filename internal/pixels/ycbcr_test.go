package pixels

import (
	"image"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/mfgs/mfgs/internal/approx"
)

// libjpeg interpolates planes of more than two columns, and repeats the samples of others.
func TestNarrowChromaIsRepeated(t *testing.T) {
	for width, want := range map[int][]uint8{4: {0, 0, 100, 100}, 5: {0, 25, 75, 100, 100}} {
		m := image.NewYCbCr(image.Rect(0, 0, width, 1), image.YCbCrSubsampleRatio422)
		copy(m.Cb, []uint8{0, 100, 100})
		row := make([]uint8, width)
		if newUpsampler(m).row(row, m.Cb, 0); !slices.Equal(row, want) {
			t.Errorf("%d columns: %v, want %v", width, row, want)
		}
	}
}

// Chroma planes of every ratio come out at full size; each against interpolation written out in
// real numbers, which libjpeg rounds. What lies halfway goes down at the first of two pixels and up
// at the second where samples are interpolated along one axis, and the other way along both.
func TestChromaInterpolation(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for _, ratio := range []image.YCbCrSubsampleRatio{
		image.YCbCrSubsampleRatio444, image.YCbCrSubsampleRatio422, image.YCbCrSubsampleRatio420,
		image.YCbCrSubsampleRatio440, image.YCbCrSubsampleRatio411, image.YCbCrSubsampleRatio410,
	} {
		for _, size := range [][2]int{{1, 1}, {4, 3}, {5, 5}, {6, 2}, {13, 8}} {
			m := image.NewYCbCr(image.Rect(0, 0, size[0], size[1]), ratio)
			for i := range m.Cb {
				m.Cb[i] = uint8(random.Uint32())
			}
			u := newUpsampler(m)
			// at interpolates position i of a side of n samples, s pixels each.
			at := func(i, s, n int, smooth bool, sample func(int) float64) float64 {
				if !smooth {
					return sample(i / s)
				}
				other := i/2 - 1 + i%2*2
				return 0.75*sample(i/2) + 0.25*sample(min(max(other, 0), n-1))
			}
			row := make([]uint8, size[0])
			for y := range size[1] {
				u.row(row, m.Cb, y)
				for x, got := range row {
					want := at(x, u.sx, u.w, u.smoothX, func(cx int) float64 {
						return at(y, u.sy, u.h, u.smoothY,
							func(cy int) float64 { return float64(m.Cb[cy*m.CStride+cx]) })
					})
					up := x%2 == 1
					switch {
					case u.smoothX && u.smoothY:
						up = !up
					case u.smoothY:
						up = y%2 == 1
					}
					rounded := math.Ceil(want - 0.5)
					if up {
						rounded = math.Floor(want + 0.5)
					}
					if float64(got) != rounded {
						t.Errorf("%v %v: (%d,%d) is %d, want %v of %v", ratio, size, x, y, got, rounded, want)
					}
				}
			}
		}
	}
}

// Colours against JFIF's formulas in real numbers, with one rounding each.
func TestColoursAreRoundedOnce(t *testing.T) {
	const h, w = 256, 256 // of every pair of Cb and Cr
	pix := make([]uint8, 3*h*w)
	for _, luma := range []uint8{0, 1, 90, 128, 200, 255} {
		m := image.NewYCbCr(image.Rect(0, 0, w, h), image.YCbCrSubsampleRatio444)
		for i := range m.Y {
			m.Y[i], m.Cb[i], m.Cr[i] = luma, uint8(i%w), uint8(i/w)
		}
		ycbcrToRGB(pix, m)
		for i := range h * w {
			y, b, r := float64(luma), float64(i%w)-128, float64(i/w)-128
			for c, want := range []float64{y + 1.402*r, y - 0.344136286*b - 0.714136286*r, y + 1.772*b} {
				// The factors have 16 fractional bits.
				got, want := float64(pix[3*i+c]), min(max(want, 0), 255)
				if !approx.Equal(got, want, 0.5+2*128*0x1p-17) {
					t.Fatalf("Y %d, Cb %d, Cr %d: channel %d is %v, want %v", luma, i%w, i/w, c, got, want)
				}
			}
		}
	}
}
