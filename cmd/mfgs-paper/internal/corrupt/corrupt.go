// Package corrupt applies fifteen kinds of corruption to small images, each at five severities, to measure classifiers
// under distribution shift.
//
// The kinds and their order are those of Hendrycks and Dietterich ("Benchmarking Neural Network
// Robustness to Common Corruptions and Perturbations", 2019). The implementation and its strengths are
// ours: results are not comparable with CIFAR-10-C. Severities are chosen for images of 28 to 32 pixels a side, so that
// the error rises with each. Lengths in pixels are for images of 32 × 32, and scale with the image. Frost is drawn;
// theirs uses photographs.
package corrupt

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// Severities is the number of severities. 1 is the mildest.
const Severities = 5

const maxSide = 4096

// An Image has pixels [Height,Width,Channels], with 1 channel of grey or 3 of RGB.
type Image struct {
	Width, Height, Channels int
	Pixels                  []byte
}

// level holds the parameters of a severity. Their meaning depends on the kind.
type level [3]float64

// A kind is a kind of corruption. Its function may modify the picture and return it.
type kind struct {
	name    string
	corrupt func(p *picture, by level, rng *rand.Rand) *picture
	levels  [Severities]level
}

var kinds = []kind{
	// The standard deviation; the mean photon count of white; the fraction of the values.
	{"gaussian noise", gaussianNoise, [Severities]level{{.04}, {.07}, {.1}, {.14}, {.19}}},
	{"shot noise", shotNoise, [Severities]level{{120}, {55}, {28}, {15}, {8}}},
	{"impulse noise", impulseNoise, [Severities]level{{.01}, {.03}, {.06}, {.1}, {.16}}},

	// The radius; the fraction of pixels swapped, how far, and the standard deviation of the blur; the
	// length; the largest factor.
	{"defocus blur", defocusBlur, [Severities]level{{.7}, {1}, {1.3}, {1.7}, {2.2}}},
	{"glass blur", glassBlur, [Severities]level{{.15, 1, .3}, {.35, 1, .4}, {.6, 1, .5}, {.6, 2, .6}, {.9, 2, .7}}},
	{"motion blur", motionBlur, [Severities]level{{2}, {3}, {4.5}, {6}, {8}}},
	{"zoom blur", zoomBlur, [Severities]level{{1.1}, {1.18}, {1.26}, {1.36}, {1.5}}},

	// How much paler, and flakes per 1,000 pixels; opacity, needles per side, and haze; thickness; the value added.
	{"snow", snow, [Severities]level{{.1, 8}, {.18, 16}, {.26, 26}, {.34, 38}, {.42, 55}}},
	{"frost", frost, [Severities]level{{.45, .75, .2}, {.55, 1.5, .3}, {.65, 2.25, .4}, {.75, 3, .5}, {.85, 4, .6}}},
	{"fog", fog, [Severities]level{{.25}, {.4}, {.52}, {.64}, {.75}}},
	{"brightness", brightness, [Severities]level{{.1}, {.2}, {.3}, {.4}, {.5}}},

	// The remaining contrast; how far pixels move; the remaining pixels per side; the quality.
	{"contrast", contrast, [Severities]level{{.6}, {.42}, {.3}, {.2}, {.12}}},
	{"elastic transform", elastic, [Severities]level{{.5}, {.8}, {1.15}, {1.55}, {2}}},
	{"pixelate", pixelate, [Severities]level{{24}, {19}, {15}, {12}, {9}}},
	{"jpeg compression", compress, [Severities]level{{45}, {25}, {15}, {9}, {4}}},
}

// Kinds returns the names of all kinds, in order.
func Kinds() []string {
	all := make([]string, len(kinds))
	for i, k := range kinds {
		all[i] = k.name
	}
	return all
}

// Apply returns a corrupted copy of an image. The same seed gives the same bytes, and the severities of a kind
// share their random draws, so that they differ in strength only. It returns an error if the kind is not one of
// [Kinds] or the severity is not 1 to [Severities]. It panics if the image's dimensions and pixels disagree, or a
// side is longer than 4,096 pixels.
func Apply(name string, severity int, im Image, seed uint64) (Image, error) {
	if min(im.Width, im.Height) < 1 || max(im.Width, im.Height) > maxSide ||
		im.Channels != 1 && im.Channels != 3 || len(im.Pixels) != im.Width*im.Height*im.Channels {
		panic(fmt.Sprintf("corrupt: an image of %d × %d with %d channels and %d bytes",
			im.Width, im.Height, im.Channels, len(im.Pixels)))
	}
	if severity < 1 || severity > Severities {
		return Image{}, fmt.Errorf("severity %d: want 1 to %d", severity, Severities)
	}
	for i, k := range kinds {
		if k.name == name {
			rng := rand.New(rand.NewPCG(seed, uint64(i)))
			return k.corrupt(toPicture(im), k.levels[severity-1], rng).image(), nil
		}
	}
	return Image{}, fmt.Errorf("unknown corruption %q: want one of %s", name, strings.Join(Kinds(), ", "))
}
