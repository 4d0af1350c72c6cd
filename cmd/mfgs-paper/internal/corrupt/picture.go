package corrupt

import (
	"math"
	"math/rand/v2"
)

// A picture is an image with values from 0, black, to 1. Values outside are clipped at the end.
type picture struct {
	width, height, channels int
	v                       []float64 // [height,width,channels]
}

func toPicture(im Image) *picture {
	p := newPicture(im.Width, im.Height, im.Channels)
	for i, b := range im.Pixels {
		p.v[i] = float64(b) / 255
	}
	return p
}

func newPicture(width, height, channels int) *picture {
	return &picture{width, height, channels, make([]float64, width*height*channels)}
}

func (p *picture) image() Image {
	im := Image{p.width, p.height, p.channels, make([]byte, len(p.v))}
	for i, v := range p.v {
		im.Pixels[i] = byte(255*clip(v) + .5)
	}
	return im
}

func clip(v float64) float64 { return min(max(v, 0), 1) }

// unit is the size, in pixels, of a pixel of a 32 × 32 image.
func (p *picture) unit() float64 { return float64(max(p.width, p.height)) / 32 }

// row returns the values of a pixel, or of the nearest one if it is outside.
func (p *picture) row(x, y int) []float64 {
	x, y = min(max(x, 0), p.width-1), min(max(y, 0), p.height-1)
	at := (y*p.width + x) * p.channels
	return p.v[at : at+p.channels]
}

// add adds the weighted value at (x, y), interpolated bilinearly.
func (p *picture) add(into []float64, x, y, weight float64) {
	x0, y0 := math.Floor(x), math.Floor(y)
	u, v := x-x0, y-y0
	i, j := int(x0), int(y0)
	if u == 0 && v == 0 {
		for c, value := range p.row(i, j) {
			into[c] += weight * value
		}
		return
	}
	for _, of := range [...]struct {
		x, y int
		w    float64
	}{{i, j, (1 - u) * (1 - v)}, {i + 1, j, u * (1 - v)}, {i, j + 1, (1 - u) * v}, {i + 1, j + 1, u * v}} {
		if of.w == 0 {
			continue
		}
		for c, value := range p.row(of.x, of.y) {
			into[c] += weight * of.w * value
		}
	}
}

// each returns a picture of the same size; at fills in the values of each pixel, initially 0.
func (p *picture) each(at func(x, y int, into []float64)) *picture {
	out := newPicture(p.width, p.height, p.channels)
	for y := range p.height {
		for x := range p.width {
			at(x, y, out.row(x, y))
		}
	}
	return out
}

// A tap is the weight of a pixel at an offset.
type tap struct{ x, y, weight float64 }

// filter replaces each pixel by the weighted mean of the taps.
func (p *picture) filter(taps []tap) *picture {
	var sum float64
	for _, t := range taps {
		sum += t.weight
	}
	return p.each(func(x, y int, into []float64) {
		for _, t := range taps {
			p.add(into, float64(x)+t.x, float64(y)+t.y, t.weight/sum)
		}
	})
}

// smooth is a Gaussian filter. spread is its standard deviation in pixels.
func (p *picture) smooth(spread float64) *picture {
	reach := int(math.Ceil(3 * spread))
	var across, down []tap
	for i := -reach; i <= reach; i++ {
		d := float64(i)
		w := math.Exp(-d * d / (2 * spread * spread))
		across, down = append(across, tap{d, 0, w}), append(down, tap{0, d, w})
	}
	return p.filter(across).filter(down)
}

// blend moves all values towards one value, by the fractions in parts, which has one channel.
func (p *picture) blend(value float64, parts *picture) *picture {
	for i, part := range parts.v {
		for c := range p.channels {
			v := &p.v[i*p.channels+c]
			*v += clip(part) * (value - *v)
		}
	}
	return p
}

// clouds returns fractal noise in [0,1] of one channel: halving the scale halves the amplitude.
func clouds(width, height int, rng *rand.Rand) *picture {
	out := newPicture(width, height, 1)
	strength := 1.0
	for cell := max(width, height) / 2; cell >= 2; cell /= 2 {
		grid := newPicture(width/cell+2, height/cell+2, 1)
		for i := range grid.v {
			grid.v[i] = rng.Float64()
		}
		for y := range height {
			for x := range width {
				grid.add(out.row(x, y), float64(x)/float64(cell), float64(y)/float64(cell), strength)
			}
		}
		strength /= 2
	}
	least, most := math.Inf(1), math.Inf(-1)
	for _, v := range out.v {
		least, most = min(least, v), max(most, v)
	}
	for i, v := range out.v {
		if out.v[i] = .5; most > least {
			out.v[i] = (v - least) / (most - least)
		}
	}
	return out
}

// stroke draws an antialiased line into one channel. Brighter values stay.
func (p *picture) stroke(x, y, dx, dy, width, brightness float64) {
	length := math.Hypot(dx, dy)
	reach := width + 1
	for j := max(0, int(min(y, y+dy)-reach)); j < p.height && float64(j) <= max(y, y+dy)+reach; j++ {
		for i := max(0, int(min(x, x+dx)-reach)); i < p.width && float64(i) <= max(x, x+dx)+reach; i++ {
			px, py := float64(i)-x, float64(j)-y
			along := 0.0
			if length > 0 {
				along = clip((px*dx + py*dy) / (length * length))
			}
			away := math.Hypot(px-along*dx, py-along*dy)
			into := p.row(i, j)
			into[0] = max(into[0], brightness*clip(width/2+.5-away))
		}
	}
}
