package synthetic

import (
	"bytes"
	"fmt"
	"math"
	"math/cmplx"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/mfgs/mfgs/internal/pixels"
)

// image is random bytes of so much contrast around the middle.
func image(h, w, channels int, contrast float64) *pixels.Pixels {
	r := rand.New(rand.NewPCG(uint64(h), uint64(w)))
	p := &pixels.Pixels{Data: make([]uint8, h*w*channels), Height: h, Width: w, Channels: channels}
	for i := range p.Data {
		p.Data[i] = uint8(128 + contrast*(r.Float64()-0.5))
	}
	return p
}

// coefficients is the Fourier transform of a channel by its definition.
func coefficients(p *pixels.Pixels, channel int) []complex128 {
	h, w := p.Height, p.Width
	out := make([]complex128, h*w)
	for v := range h {
		for u := range w {
			for y := range h {
				for x := range w {
					turns := float64(v*y)/float64(h) + float64(u*x)/float64(w)
					value := float64(p.Data[(y*w+x)*p.Channels+channel])
					out[v*w+u] += complex(value, 0) * cmplx.Exp(complex(0, -2*math.Pi*turns))
				}
			}
		}
	}
	return out
}

func TestASyntheticImageKeepsAmplitudesAndSharesPhasesAcrossChannels(t *testing.T) {
	t.Parallel()
	for _, size := range [][3]int{{1, 1, 1}, {1, 9, 1}, {7, 1, 3}, {8, 8, 1}, {5, 7, 3}, {9, 12, 3}, {16, 11, 1}} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			p := image(size[0], size[1], size[2], 60) // too little contrast to be clipped
			q := Of(p, 3)
			if q.Height != p.Height || q.Width != p.Width || q.Channels != p.Channels || len(q.Data) != len(p.Data) {
				t.Fatalf("a synthetic image of %d×%d×%d, want %v", q.Height, q.Width, q.Channels, size)
			}
			// Each byte is rounded by at most a half, which moves a coefficient by as much for each.
			room := 0.5*float64(p.Height*p.Width) + 1e-9
			n := p.Height * p.Width
			shifts := make([]complex128, n)
			for c := range p.Channels {
				before, after := coefficients(p, c), coefficients(q, c)
				for i := range n {
					if d := math.Abs(cmplx.Abs(before[i]) - cmplx.Abs(after[i])); !(d <= room) {
						t.Errorf("channel %d: coefficient %d has the size %.2f, want %.2f", c, i, cmplx.Abs(after[i]), cmplx.Abs(before[i]))
					}
					if size := cmplx.Abs(before[i]); size > 8*math.Sqrt(float64(n)) { // rounding turns it little
						turn := after[i] / before[i]
						if c > 0 && shifts[i] != 0 && !(cmplx.Abs(turn-shifts[i]) <= 0.3) {
							t.Errorf("channel %d: coefficient %d is turned by %.2f, that of another by %.2f", c, i, turn, shifts[i])
						}
						shifts[i] = turn
					}
				}
				if d := cmplx.Abs(before[0] - after[0]); !(d <= room) {
					t.Errorf("channel %d: the mean moves by %.2f", c, d/float64(n))
				}
			}
		})
	}
}

// Rounding alone would leave a bound of half a byte for each: typical errors are far below.
func TestAmplitudesAreThoseOfTheImageWithinRounding(t *testing.T) {
	t.Parallel()
	p := image(16, 12, 1, 60)
	before, after := coefficients(p, 0), coefficients(Of(p, 0), 0)
	var off, size float64
	for i := range before {
		d := cmplx.Abs(before[i]) - cmplx.Abs(after[i])
		off += d * d
		if i > 0 {
			size += real(before[i])*real(before[i]) + imag(before[i])*imag(before[i])
		}
	}
	// A rounded byte is off by 1/√12 in the mean square, and a coefficient by √n times that.
	if got, want := math.Sqrt(off/192), math.Sqrt(192./12); !(got <= 1.5*want) {
		t.Errorf("amplitudes are off by %.3f in the root mean square, want about %.3f; they are %.1f", got, want, math.Sqrt(size/192))
	}
}

func TestASyntheticImageDependsOnItsImageAndPositionAlone(t *testing.T) {
	t.Parallel()
	p := image(10, 10, 3, 200)
	kept := slices.Clone(p.Data)
	first := Of(p, 5)
	if !bytes.Equal(first.Data, Of(p, 5).Data) {
		t.Error("another synthetic image for the same image at the same position")
	}
	if bytes.Equal(first.Data, Of(p, 6).Data) {
		t.Error("the same synthetic image at another position")
	}
	if bytes.Equal(first.Data, p.Data) {
		t.Error("the synthetic image is the image")
	}
	if !bytes.Equal(kept, p.Data) {
		t.Error("the image was changed")
	}
}

// Values that are infinite or no number would become 0 in all places alike.
func TestSyntheticImagesOfExtremeImagesAreValid(t *testing.T) {
	t.Parallel()
	flat := &pixels.Pixels{Data: bytes.Repeat([]byte{200}, 6*6), Height: 6, Width: 6, Channels: 1}
	if got := Of(flat, 0); !bytes.Equal(got.Data, flat.Data) {
		t.Errorf("an image of one colour becomes %v", got.Data)
	}
	for _, size := range [][2]int{{1, 5000}, {2081, 3}, {67, 71}, {1, 1021}, {2048, 1025}} {
		p := image(size[0], size[1], 1, 250)
		got := Of(p, 1)
		if len(got.Data) != len(p.Data) || bytes.Equal(got.Data, p.Data) {
			t.Errorf("%v: no synthetic image", size)
		}
		var sum, square float64
		for _, v := range got.Data {
			sum += float64(v)
			square += float64(v) * float64(v)
		}
		n := float64(len(got.Data))
		if mean := sum / n; !(math.Abs(mean-128) < 30) || !(square/n-mean*mean > 100) {
			t.Errorf("%v: mean %.1f and variance %.1f, want those of noise around 128", size, mean, square/n-mean*mean)
		}
	}
}

func TestFastSides(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]int{1: 1, 28: 28, 61: 61, 67: 66, 127: 126, 1021: 1020, 1024: 1024} {
		if got := fast(n); got != want {
			t.Errorf("fast(%d) = %d, want %d", n, got, want)
		}
	}
}

func BenchmarkStandIn(b *testing.B) {
	for _, side := range []int{32, 224, 4000} {
		b.Run(fmt.Sprint(side), func(b *testing.B) {
			p := image(side, side, 3, 200)
			for b.Loop() {
				Of(p, 1)
			}
		})
	}
}
