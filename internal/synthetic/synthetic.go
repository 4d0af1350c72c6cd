// Package synthetic makes synthetic out-of-distribution images from in-distribution ones, for use without real
// out-of-distribution data.
//
// A synthetic image keeps its original's size, mean and amplitude spectrum, channel by channel; the phases of its
// Fourier transform are those of noise, so that no shape is left. All channels share the phases, which keeps colours
// together.
//
// It is made in pixels, not features: means or mixtures of features lie between those of known classes, and mislead a
// score that is fitted to them.
package synthetic

import (
	"math"
	"math/rand/v2"

	"github.com/mfgs/mfgs/internal/pixels"
)

// Name identifies the way synthetic images are made, in files and hashes. Another way has another name.
const Name = "phase"

// seed is the first half of the noise's seed; the example's position is the second.
const seed = 0x7068617365 // "phase"

// maxSide bounds the sides that are transformed. Blocks of pixels of larger images are averaged into one, which is
// repeated afterwards: models see such images scaled down anyway.
const maxSide = 1024

// Of returns a synthetic image, without changing the original. It depends on the image and its position in the dataset
// alone; other positions have other phases.
//
// Values are rounded, and clipped at 0 and 255, which changes the amplitudes of images with high contrast. An image of
// one colour stays as it is.
func Of(p *pixels.Pixels, position int) *pixels.Pixels {
	block := 1 + (max(p.Height, p.Width)-1)/maxSide
	h, w := max(1, p.Height/block), max(1, p.Width/block)
	// Sides without large prime factors: the scrambled plane is periodic, and continues beyond them.
	fastH, fastW := fast(h), fast(w)
	turn := noise(rand.New(rand.NewPCG(seed, uint64(position))), fastH, fastW)
	plane := make([]float64, fastH*fastW)
	out := &pixels.Pixels{
		Data: make([]uint8, len(p.Data)), Height: p.Height, Width: p.Width, Channels: p.Channels,
	}
	for c := range p.Channels {
		for y := range fastH {
			for x := range fastW {
				plane[y*fastW+x] = mean(p, c, y*block, x*block, block)
			}
		}
		scramble(plane, fastH, fastW, turn)
		for y := range p.Height {
			for x := range p.Width {
				v := plane[y/block%fastH*fastW+x/block%fastW]
				out.Data[(y*p.Width+x)*p.Channels+c] = uint8(math.Round(min(max(v, 0), 255)))
			}
		}
	}
	return out
}

// mean is a channel's mean over a block of pixels, cut off at the image's edge.
func mean(p *pixels.Pixels, channel, top, left, block int) float64 {
	sum, n := 0, 0
	for y := top; y < min(p.Height, top+block); y++ {
		for x := left; x < min(p.Width, left+block); x++ {
			sum += int(p.Data[(y*p.Width+x)*p.Channels+channel])
			n++
		}
	}
	return float64(sum) / float64(n)
}
