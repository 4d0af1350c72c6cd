package corrupt

import (
	"math"
	"math/rand/v2"
)

// gaussianNoise adds Gaussian noise.
func gaussianNoise(p *picture, by level, rng *rand.Rand) *picture {
	for i := range p.v {
		p.v[i] += by[0] * rng.NormFloat64()
	}
	return p
}

// shotNoise replaces each value by a Poisson photon count.
func shotNoise(p *picture, by level, rng *rand.Rand) *picture {
	for i, v := range p.v {
		p.v[i] = float64(poisson(v*by[0], rng)) / by[0]
	}
	return p
}

// poisson draws a Poisson count: how many exponential waiting times fit into the mean.
func poisson(mean float64, rng *rand.Rand) int {
	n := 0
	for left := mean - rng.ExpFloat64(); left > 0; left -= rng.ExpFloat64() {
		n++
	}
	return n
}

// impulseNoise sets some values to 0 or 1.
func impulseNoise(p *picture, by level, rng *rand.Rand) *picture {
	for i := range p.v {
		// Both are drawn for each value, so that severities hit the same ones.
		hit, to := rng.Float64() < by[0], math.Round(rng.Float64())
		if hit {
			p.v[i] = to
		}
	}
	return p
}
