package corrupt

import (
	"math"
	"math/rand/v2"
)

// defocusBlur spreads every point over a disk.
func defocusBlur(p *picture, by level, _ *rand.Rand) *picture {
	radius := by[0] * p.unit()
	reach := int(math.Ceil(radius))
	const parts = 5 // subpixels per side, which decide how much of a pixel the disk covers
	var taps []tap
	for y := -reach; y <= reach; y++ {
		for x := -reach; x <= reach; x++ {
			within := 0.0
			for i := range parts * parts {
				dx, dy := float64(x)+(float64(i%parts)-2)/parts, float64(y)+(float64(i/parts)-2)/parts
				if dx*dx+dy*dy <= radius*radius {
					within++
				}
			}
			if within > 0 {
				taps = append(taps, tap{float64(x), float64(y), within})
			}
		}
	}
	return p.filter(taps)
}

// glassBlur swaps some pixels with neighbours, between two slight blurs.
func glassBlur(p *picture, by level, rng *rand.Rand) *picture {
	share, far, spread := by[0], int(by[1]*p.unit()+.5), by[2]*p.unit()
	p = p.smooth(spread)
	for y := range p.height {
		for x := range p.width {
			moved := rng.Float64() < share
			dx, dy := int(rng.Float64()*float64(2*far+1))-far, int(rng.Float64()*float64(2*far+1))-far
			if !moved {
				continue
			}
			a, b := p.row(x, y), p.row(x+dx, y+dy)
			for c := range a {
				a[c], b[c] = b[c], a[c]
			}
		}
	}
	return p.smooth(spread)
}

// motionBlur averages along a line in a random direction.
func motionBlur(p *picture, by level, rng *rand.Rand) *picture {
	sin, cos := math.Sincos(rng.Float64() * math.Pi)
	length := by[0] * p.unit()
	const steps = 17
	var taps []tap
	for i := range steps {
		at := length * (float64(i)/(steps-1) - .5)
		taps = append(taps, tap{at * cos, at * sin, 1})
	}
	return p.filter(taps)
}

// zoomBlur averages the image with enlargements about its centre.
func zoomBlur(p *picture, by level, _ *rand.Rand) *picture {
	cx, cy := float64(p.width-1)/2, float64(p.height-1)/2
	const steps = 11
	return p.each(func(x, y int, into []float64) {
		for i := range steps {
			factor := 1 + (by[0]-1)*float64(i)/(steps-1)
			p.add(into, cx+(float64(x)-cx)/factor, cy+(float64(y)-cy)/factor, 1./steps)
		}
	})
}
