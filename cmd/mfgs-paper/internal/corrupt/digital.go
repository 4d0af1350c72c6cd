package corrupt

import (
	"bytes"
	"image"
	"image/color"
	"image/jpeg"
	"math"
	"math/rand/v2"
)

// contrast moves the values of each channel towards their mean.
func contrast(p *picture, by level, _ *rand.Rand) *picture {
	mean := make([]float64, p.channels)
	for i, v := range p.v {
		mean[i%p.channels] += v / float64(p.width*p.height)
	}
	for i, v := range p.v {
		m := mean[i%p.channels]
		p.v[i] = m + by[0]*(v-m)
	}
	return p
}

// elastic displaces pixels by a smooth random field.
func elastic(p *picture, by level, rng *rand.Rand) *picture {
	var moves [2]*picture
	for i := range moves {
		field := newPicture(p.width, p.height, 1)
		for j := range field.v {
			field.v[j] = 2*rng.Float64() - 1
		}
		field = field.smooth(2.5 * p.unit())
		squares := 0.0
		for _, v := range field.v {
			squares += v * v / float64(len(field.v))
		}
		if squares > 0 {
			for j := range field.v {
				field.v[j] *= by[0] * p.unit() / math.Sqrt(squares)
			}
		}
		moves[i] = field
	}
	return p.each(func(x, y int, into []float64) {
		p.add(into, float64(x)+moves[0].row(x, y)[0], float64(y)+moves[1].row(x, y)[0], 1)
	})
}

// pixelate reduces the resolution: each larger pixel is the mean of what it covers.
func pixelate(p *picture, by level, _ *rand.Rand) *picture {
	cells := func(side int) int { return max(1, int(by[0]*float64(side)/32+.5)) }
	small := newPicture(cells(p.width), cells(p.height), p.channels)
	// The fraction of cell j of n that pixel i covers, along a side.
	part := func(i, j, side, n int) float64 {
		scale := float64(side) / float64(n)
		return max(0, min(float64(i+1), float64(j+1)*scale)-max(float64(i), float64(j)*scale)) / scale
	}
	for y := range small.height {
		for x := range small.width {
			into := small.row(x, y)
			for j := y * p.height / small.height; j*small.height < (y+1)*p.height; j++ {
				for i := x * p.width / small.width; i*small.width < (x+1)*p.width; i++ {
					w := part(i, x, p.width, small.width) * part(j, y, p.height, small.height)
					p.add(into, float64(i), float64(j), w)
				}
			}
		}
	}
	return p.each(func(x, y int, into []float64) {
		copy(into, small.row((2*x+1)*small.width/(2*p.width), (2*y+1)*small.height/(2*p.height)))
	})
}

// compress encodes the picture as JPEG and decodes it.
func compress(p *picture, by level, _ *rand.Rand) *picture {
	im := p.image()
	var source image.Image
	if frame := image.Rect(0, 0, p.width, p.height); p.channels == 1 {
		source = &image.Gray{Pix: im.Pixels, Stride: p.width, Rect: frame}
	} else {
		all := image.NewRGBA(frame)
		for i := range p.width * p.height {
			copy(all.Pix[4*i:], im.Pixels[3*i:3*i+3])
			all.Pix[4*i+3] = 255
		}
		source = all
	}
	var file bytes.Buffer
	if err := jpeg.Encode(&file, source, &jpeg.Options{Quality: int(by[0])}); err != nil {
		panic(err) // writing to memory does not fail, and Apply bounds the sides
	}
	read, err := jpeg.Decode(&file)
	if err != nil {
		panic(err) // it was just encoded
	}
	return p.each(func(x, y int, into []float64) {
		c := color.NRGBAModel.Convert(read.At(x, y)).(color.NRGBA)
		values := [...]uint8{c.R, c.G, c.B}
		for i := range into {
			into[i] = float64(values[i]) / 255
		}
	})
}
