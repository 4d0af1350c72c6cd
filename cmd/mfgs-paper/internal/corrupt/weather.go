package corrupt

import (
	"math"
	"math/rand/v2"
)

// snow makes the picture paler and adds flakes that fall in one direction.
func snow(p *picture, by level, rng *rand.Rand) *picture {
	for i, v := range p.v {
		p.v[i] = v + by[0]*(.5+.5*v-v) // dark becomes grey
	}
	slant := .35 + .3*rng.Float64() // in half turns
	sin, cos := math.Sincos(slant * math.Pi)
	flakes := newPicture(p.width, p.height, 1)
	u := p.unit()
	for range int(by[1] * float64(p.width*p.height) / 1000) {
		x, y := rng.Float64()*float64(p.width), rng.Float64()*float64(p.height)
		length := (1 + 2*rng.Float64()) * u
		flakes.stroke(x, y, length*cos, length*sin, u*(.3+.7*rng.Float64()), .5+.5*rng.Float64())
	}
	return p.blend(1, flakes)
}

// frost adds needles of ice that grow from the sides, and haze that is denser near them.
func frost(p *picture, by level, rng *rand.Rand) *picture {
	haze := clouds(p.width, p.height, rng)
	for y := range p.height {
		for x := range p.width {
			// 0 in the centre, 1 at a side.
			outside := max(math.Abs(2*float64(x)/float64(p.width)-1), math.Abs(2*float64(y)/float64(p.height)-1))
			at := haze.row(x, y)
			at[0] *= by[2] * (.4 + .6*outside)
		}
	}
	side := float64(max(p.width, p.height))
	for i := range int(4*by[1] + .5) {
		along := rng.Float64() * side
		// Clockwise from the top; a quarter turn points down.
		start := [4][2]float64{{along, 0}, {side, along}, {along, side}, {0, along}}[i%4]
		inward := (float64(i%4) + .6 + .8*rng.Float64()) * math.Pi / 2
		needle(haze, start[0], start[1], inward, side*(.25+.35*rng.Float64()), by[0], rng)
	}
	return p.blend(.92, haze)
}

// needle draws a line with shorter branches at 60 degrees on both sides.
func needle(ice *picture, x, y, angle, length, brightness float64, rng *rand.Rand) {
	u := ice.unit()
	sin, cos := math.Sincos(angle)
	ice.stroke(x, y, length*cos, length*sin, u, brightness)
	for at := 2 * u; at < length; at += (1.5 + 2*rng.Float64()) * u {
		for _, turn := range []float64{math.Pi / 3, -math.Pi / 3} {
			sin, cos := math.Sincos(angle + turn)
			reach := (length - at) * (.2 + .3*rng.Float64())
			ice.stroke(x+at*math.Cos(angle), y+at*math.Sin(angle), reach*cos, reach*sin, .6*u, brightness)
		}
	}
}

// fog blends in fractal noise.
func fog(p *picture, by level, rng *rand.Rand) *picture {
	thick := clouds(p.width, p.height, rng)
	for i, v := range thick.v {
		thick.v[i] = by[0] * (.6 + .6*v)
	}
	return p.blend(.85, thick)
}

// brightness raises the largest value of each pixel and scales the others in proportion.
func brightness(p *picture, by level, _ *rand.Rand) *picture {
	for at := 0; at < len(p.v); at += p.channels {
		pixel := p.v[at : at+p.channels]
		largest := 0.0
		for _, v := range pixel {
			largest = max(largest, v)
		}
		for c, v := range pixel {
			if pixel[c] = min(1, by[0]); largest > 0 {
				pixel[c] = v / largest * min(1, largest+by[0])
			}
		}
	}
	return p
}
