package images

import (
	"math"

	"github.com/mfgs/mfgs/internal/pixels"
)

// weights are the weights with which one output pixel sums input pixels from, from+1, ….
type weights struct {
	from int
	of   []float64
}

// triangle returns the weights, one per output pixel, that scale a row of n pixels to m bilinearly. As in Pillow, the
// filter widens when the image shrinks.
func triangle(n, m int) []weights {
	scale := float64(n) / float64(m)
	width := math.Max(scale, 1)
	all := make([]weights, m)
	for i := range all {
		centre := (float64(i) + .5) * scale
		first, last := max(0, int(centre-width+.5)), min(n, int(centre+width+.5))
		w, sum := weights{from: first}, 0.0
		for j := first; j < last; j++ {
			v := math.Max(0, 1-math.Abs(float64(j)+.5-centre)/width)
			w.of, sum = append(w.of, v), sum+v
		}
		for j := range w.of {
			w.of[j] /= sum
		}
		all[i] = w
	}
	return all
}

// Resize scales an image [height,width,channels].
func Resize(p pixels.Pixels, height, width int) pixels.Pixels {
	across, down := triangle(p.Width, width), triangle(p.Height, height)
	c := p.Channels
	rows := make([]float64, p.Height*width*c) // [p.Height,width,c]
	for y := range p.Height {
		for x, w := range across {
			for k, v := range w.of {
				from := (y*p.Width + w.from + k) * c
				for ch := range c {
					rows[(y*width+x)*c+ch] += v * float64(p.Data[from+ch])
				}
			}
		}
	}
	out := pixels.Pixels{Data: make([]uint8, height*width*c), Height: height, Width: width, Channels: c}
	line := make([]float64, width*c)
	for y, w := range down {
		clear(line)
		for k, v := range w.of {
			from := rows[(w.from+k)*width*c:]
			for i := range line {
				line[i] += v * from[i]
			}
		}
		for i, v := range line {
			out.Data[y*width*c+i] = uint8(v + .5)
		}
	}
	return out
}

// ToGrey converts an image to one channel, the luma of ITU-R 601.
func ToGrey(p pixels.Pixels) pixels.Pixels {
	if p.Channels == 1 {
		return p
	}
	out := pixels.Pixels{Data: make([]uint8, p.Height*p.Width), Height: p.Height, Width: p.Width, Channels: 1}
	for i := range out.Data {
		rgb := p.Data[3*i : 3*i+3]
		out.Data[i] = uint8(.299*float64(rgb[0]) + .587*float64(rgb[1]) + .114*float64(rgb[2]) + .5)
	}
	return out
}

// ToRGB converts an image to three channels.
func ToRGB(p pixels.Pixels) pixels.Pixels {
	if p.Channels == 3 {
		return p
	}
	out := pixels.Pixels{Data: make([]uint8, 3*p.Height*p.Width), Height: p.Height, Width: p.Width, Channels: 3}
	for i, v := range p.Data {
		out.Data[3*i], out.Data[3*i+1], out.Data[3*i+2] = v, v, v
	}
	return out
}
