package corrupt

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/internal/approx"
)

// digit resembles MNIST: bright strokes on black, 28 × 28.
func digit(seed uint64) Image {
	rng := rand.New(rand.NewPCG(seed, 1))
	p := newPicture(28, 28, 1)
	for range 4 {
		at := func() float64 { return 6 + 16*rng.Float64() }
		x, y := at(), at()
		p.stroke(x, y, at()-x, at()-y, 2.5, .9)
	}
	return p.image()
}

// photo resembles CIFAR-10: areas of colour with detail, 32 × 32.
func photo(seed uint64) Image {
	rng := rand.New(rand.NewPCG(seed, 2))
	p := newPicture(32, 32, 3)
	for c := range 3 {
		for i, v := range clouds(32, 32, rng).v {
			p.v[3*i+c] = .1 + .6*v
		}
	}
	for range 3 {
		x, y, w, h := rng.IntN(24), rng.IntN(24), 4+rng.IntN(12), 4+rng.IntN(12)
		colour := []float64{rng.Float64(), rng.Float64(), rng.Float64()}
		for j := y; j < min(32, y+h); j++ {
			for i := x; i < min(32, x+w); i++ {
				copy(p.row(i, j), colour)
			}
		}
	}
	return p.image()
}

var sorts = map[string]func(seed uint64) Image{"digits": digit, "photos": photo}

func apply(t *testing.T, kind string, severity int, im Image, seed uint64) Image {
	t.Helper()
	out, err := Apply(kind, severity, im, seed)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// distance is the root of the mean squared difference of the values, in [0,255].
func distance(a, b Image) float64 {
	var sum float64
	for i := range a.Pixels {
		d := float64(a.Pixels[i]) - float64(b.Pixels[i])
		sum += d * d
	}
	return math.Sqrt(sum / float64(len(a.Pixels)))
}

func TestSeverityRaisesTheDistance(t *testing.T) {
	t.Parallel()
	const images = 10
	for sort, of := range sorts {
		for _, kind := range Kinds() {
			last := 0.0
			for severity := 1; severity <= Severities; severity++ {
				mean := 0.0
				for seed := range uint64(images) {
					im := of(seed)
					mean += distance(im, apply(t, kind, severity, im, seed)) / images
				}
				if !(mean > last) {
					t.Errorf("%s, %s, severity %d: distance %.2f after %.2f", sort, kind, severity, mean, last)
				}
				last = mean
			}
			if last < 5 {
				t.Errorf("%s, %s: distance %.2f at the most severe", sort, kind, last)
			}
		}
	}
}

func TestTheSeedAloneDecides(t *testing.T) {
	t.Parallel()
	drawn := func(kind string) bool { // rather than following from the image
		return !slices.Contains([]string{"defocus blur", "zoom blur", "brightness", "contrast", "pixelate", "jpeg compression"}, kind)
	}
	for sort, of := range sorts {
		for _, kind := range Kinds() {
			for _, severity := range []int{1, Severities} {
				im := of(3)
				before := bytes.Clone(im.Pixels)
				a := apply(t, kind, severity, im, 7)
				shape := func(i Image) [4]int { return [4]int{i.Width, i.Height, i.Channels, len(i.Pixels)} }
				if shape(a) != shape(im) {
					t.Errorf("%s, %s: shape and size %v, want %v", sort, kind, shape(a), shape(im))
				}
				if !bytes.Equal(im.Pixels, before) {
					t.Errorf("%s, %s: the original was changed", sort, kind)
				}
				if !bytes.Equal(a.Pixels, apply(t, kind, severity, im, 7).Pixels) {
					t.Errorf("%s, %s, severity %d: one seed, two images", sort, kind, severity)
				}
				if other := apply(t, kind, severity, im, 8); bytes.Equal(a.Pixels, other.Pixels) == drawn(kind) {
					t.Errorf("%s, %s, severity %d: by another seed the same: %v", sort, kind, severity, !drawn(kind))
				}
			}
		}
	}
}

func TestFifteenKinds(t *testing.T) {
	t.Parallel()
	all := Kinds()
	slices.Sort(all)
	if len(slices.Compact(all)) != 15 {
		t.Errorf("kinds %q", all)
	}
}

func TestUnknownKindsAndBadImagesAreRefused(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		kind     string
		severity int
		want     string
	}{
		{"fog", 0, "severity 0: want 1 to 5"},
		{"fog", 6, "severity 6: want 1 to 5"},
		{"fog", -1, "severity -1: want 1 to 5"},
		{"rain", 1, `unknown corruption "rain": want one of gaussian noise, shot noise`},
	} {
		_, err := Apply(test.kind, test.severity, digit(1), 0)
		if err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%s, %d: %v, want %q", test.kind, test.severity, err, test.want)
		}
	}
	for name, im := range map[string]Image{
		"bytes":    {2, 2, 1, make([]byte, 3)},
		"channels": {2, 2, 2, make([]byte, 8)},
		"empty":    {0, 2, 1, nil},
		"negative": {-1, -1, 1, make([]byte, 1)},
		"long":     {maxSide + 1, 1, 1, make([]byte, maxSide+1)},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: an image that cannot be is taken", name)
				}
			}()
			_, _ = Apply("fog", 1, im, 0)
		}()
	}
}

func TestAnySizeIsAccepted(t *testing.T) {
	t.Parallel()
	for _, size := range [][3]int{{1, 1, 1}, {1, 1, 3}, {2, 1, 3}, {1, 9, 1}, {5, 3, 3}, {40, 17, 1}} {
		im := Image{size[0], size[1], size[2], bytes.Repeat([]byte{99}, size[0]*size[1]*size[2])}
		for _, kind := range Kinds() {
			for severity := 1; severity <= Severities; severity++ {
				if out := apply(t, kind, severity, im, 5); len(out.Pixels) != len(im.Pixels) {
					t.Errorf("%v, %s: %d bytes", size, kind, len(out.Pixels))
				}
			}
		}
	}
}

func TestBlursAndGeometryLeaveAUniformImageUnchanged(t *testing.T) {
	t.Parallel()
	for _, channels := range []int{1, 3} {
		im := Image{32, 28, channels, bytes.Repeat([]byte{120}, 32*28*channels)}
		for _, kind := range []string{
			"defocus blur", "glass blur", "motion blur", "zoom blur", "contrast", "elastic transform", "pixelate", "jpeg compression",
		} {
			for severity := 1; severity <= Severities; severity++ {
				out := apply(t, kind, severity, im, 5)
				// JPEG rounds to coarser steps.
				most := 1.
				if kind == "jpeg compression" {
					most = 12
				}
				if d := distance(im, out); d > most {
					t.Errorf("%s, severity %d: distance %v", kind, severity, d)
				}
			}
		}
	}
}

func TestBlursSpreadASpotAndKeepItsSum(t *testing.T) {
	t.Parallel()
	p := newPicture(33, 33, 1)
	p.row(16, 16)[0] = 1
	for name, blurred := range map[string]*picture{
		"defocus": defocusBlur(p, level{2}, nil),
		"smooth":  p.smooth(1.5),
		"motion":  motionBlur(p, level{6}, rand.New(rand.NewPCG(1, 1))),
	} {
		sum, most := 0.0, 0.0
		for _, v := range blurred.v {
			sum, most = sum+v, max(most, v)
		}
		if !approx.Equal(sum, 1, 1e-12) || most > .5 {
			t.Errorf("%s: the light sums to %v, at most %v", name, sum, most)
		}
	}
}

func TestNoiseHasTheStandardDeviationOfItsLevel(t *testing.T) {
	t.Parallel()
	const side = 200
	spread := func(p *picture) (mean, deviation float64) {
		for _, v := range p.v {
			mean += v / float64(len(p.v))
		}
		for _, v := range p.v {
			deviation += (v - mean) * (v - mean) / float64(len(p.v))
		}
		return mean, math.Sqrt(deviation)
	}
	plain := func(value float64) *picture {
		p := newPicture(side, side, 1)
		for i := range p.v {
			p.v[i] = value
		}
		return p
	}
	rng := rand.New(rand.NewPCG(4, 4))
	for _, test := range []struct {
		name      string
		got       *picture
		mean, dev float64
	}{
		{"gaussian", gaussianNoise(plain(.5), level{.1}, rng), .5, .1},
		{"shot", shotNoise(plain(.5), level{20}, rng), .5, math.Sqrt(.5 / 20)},
		{"impulse", impulseNoise(plain(.5), level{.2}, rng), .5, math.Sqrt(.2 * .25)},
	} {
		mean, dev := spread(test.got)
		// Five standard errors of the mean; that of the deviation is smaller.
		if e := 5 * test.dev / side; !approx.Equal(mean, test.mean, e) || !approx.Equal(dev, test.dev, e) {
			t.Errorf("%s: mean %v, deviation %v, want %v and %v", test.name, mean, dev, test.mean, test.dev)
		}
	}
}

func TestBrightnessContrastAndPixelateByHand(t *testing.T) {
	t.Parallel()
	p := &picture{2, 1, 3, []float64{.2, .4, .8, 0, 0, 0}}
	got := brightness(&picture{2, 1, 3, slices.Clone(p.v)}, level{.1}, nil).v
	for i, want := range []float64{.225, .45, .9, .1, .1, .1} {
		if !approx.Equal(got[i], want, 1e-12) {
			t.Errorf("brightness: %v", got)
			break
		}
	}
	got = contrast(&picture{2, 1, 3, slices.Clone(p.v)}, level{.5}, nil).v
	for i, want := range []float64{.15, .3, .6, .05, .1, .2} {
		if !approx.Equal(got[i], want, 1e-12) {
			t.Errorf("contrast: %v", got)
			break
		}
	}
	half := &picture{4, 2, 1, []float64{0, .2, 1, 1, .4, .2, 1, 1}}
	if got := pixelate(half, level{16}, nil).v; !approx.Equal(got[0], .2, 1e-12) || !approx.Equal(got[7], 1, 1e-12) {
		t.Errorf("pixelate: %v", got)
	}
}
