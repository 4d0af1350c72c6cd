package eigen

import "math"

// epsilon is the distance from 1 to the next float64.
const epsilon = 0x1p-52

// secular is the function whose zeros are the eigenvalues of D + ρzzᵀ,
//
//	f(λ) = 1/ρ + Σ_i z_i²/(d_i − λ),  ρ > 0, d ascending and distinct, z_i ≠ 0,
//
// increasing between its poles, with one zero between each pair of them and the
// last within ρ‖z‖² above the last.
type secular struct {
	d, square []float64 // d_i and z_i²
	inverse   float64   // 1/ρ
	norm2     float64   // ‖z‖²
}

// zero is a λ as the sum of the nearest pole and the distance to it, so that each d_i − λ has a small relative error
// however close λ is to a pole.
type zero struct {
	pole     float64
	distance float64
}

func (l zero) value() float64 { return l.pole + l.distance }

// to returns d − λ.
func (l zero) to(d float64) float64 { return (d - l.pole) - l.distance }

// values are f at a point between poles j and j+1, split into the terms of the poles up to j (psi, negative) and
// after it (phi, positive), and their derivatives.
type values struct {
	f, psi, phi    float64
	slopeL, slopeR float64
	rounding       float64 // a bound on the rounding error in f
}

func (s *secular) at(l zero, j int) values {
	var v values
	var partial float64
	for i, d := range s.d[:j+1] {
		inverse := 1 / l.to(d)
		term := s.square[i] * inverse
		v.psi += term
		v.slopeL += term * inverse
		partial -= v.psi
	}
	for i := len(s.d) - 1; i > j; i-- {
		inverse := 1 / l.to(s.d[i])
		term := s.square[i] * inverse
		v.phi += term
		v.slopeR += term * inverse
		partial += v.phi
	}
	v.f = s.inverse + v.psi + v.phi
	// Each term has at most four roundings and each sum one.
	v.rounding = epsilon * (4*(v.phi-v.psi) + partial + 2*s.inverse)
	return v
}

// zero finds the zero above pole j. The sum over the poles up to j, and that over the rest, are approximated by
// one pole each, at j and j+1, with the same value and slope; the zero of the approximation is the next point (the
// "middle way" of Li 1994, LAPACK Working Note 89). The zero stays bracketed, and the interval is bisected if the
// approximation leaves it or converges slowly.
//
// It ends when |f| is below its rounding error, which suffices for the eigenvectors (Gu and Eisenstat 1995), or
// when no number is left between the bounds: at most after quickSteps and 64 bisections of the logarithm, each
// with one other step.
func (s *secular) zero(j int) zero {
	l, low, high, done := s.start(j)
	if done {
		return l
	}
	const quickSteps = 16
	for step := 0; ; step++ {
		v := s.at(l, j)
		next := l.distance + s.step(l, j, v)
		if math.Abs(v.f) <= v.rounding {
			if low < next && next < high {
				l.distance = next
			}
			return l
		}
		if v.f > 0 {
			high = l.distance
		} else {
			low = l.distance
		}
		if !(low < next && next < high) || step > quickSteps && step%2 == 0 {
			// low and high have one sign and neither is 0.
			next = math.Copysign(math.Sqrt(math.Abs(low))*math.Sqrt(math.Abs(high)), low)
		}
		if !(low < next && next < high) {
			return l
		}
		l.distance = next
	}
}

// start chooses the nearer pole, by the sign of f half way, and returns bounds of the distance and a first guess:
// the zero with all poles except j and j+1 replaced by their value half way. done says that the guess is the zero.
func (s *secular) start(j int) (l zero, low, high float64, done bool) {
	last := j == len(s.d)-1
	gap := s.norm2 / s.inverse
	if !last {
		gap = s.d[j+1] - s.d[j]
	}
	// The term of one pole is at most the sum of all others and 1/ρ, and the others are at least gap/2 away.
	nearest := func(i int) float64 { return 0.25 * s.square[i] / (s.inverse + 2*s.norm2/gap) }
	if last {
		// A zero at the bound may lie beyond it by rounding.
		high = gap * (1 + 8*epsilon)
		return zero{s.d[j], gap}, nearest(j), high, false
	}
	l = zero{s.d[j], gap / 2}
	v := s.at(l, j)
	if math.Abs(v.f) <= v.rounding {
		return l, 0, 0, true
	}
	left, right := s.square[j], s.square[j+1]
	rest := v.f + (left-right)/(gap/2)
	if v.f > 0 {
		low, high = nearest(j), gap/2
		l.distance = smaller(rest, rest*gap+left+right, left*gap)
	} else {
		l.pole = s.d[j+1]
		low, high = -gap/2, -nearest(j+1)
		l.distance = smaller(rest, -rest*gap+left+right, -right*gap)
	}
	if !(low < l.distance && l.distance < high) {
		l.distance = math.Copysign(math.Sqrt(math.Abs(low))*math.Sqrt(math.Abs(high)), low)
	}
	return l, low, high, false
}

// step returns the distance from λ to the zero of
//
//	c + L²ψ'/(L − x) + R²φ'/(R − x),  L = d_j − λ, R = d_{j+1} − λ, c = f − Lψ' − Rφ'
//
// or, above the last pole, of the first two terms.
func (s *secular) step(l zero, j int, v values) float64 {
	left := l.to(s.d[j])
	if j == len(s.d)-1 {
		return left * v.f / (v.f - left*v.slopeL)
	}
	right := l.to(s.d[j+1])
	c := v.f - left*v.slopeL - right*v.slopeR
	a := (left+right)*v.f - left*right*(v.slopeL+v.slopeR)
	return smaller(c, a, left*right*v.f)
}

// smaller returns the zero (a − √(a² − 4bc))/2c of cx² − ax + b without cancellation: the one between the two poles,
// whatever the sign of c.
func smaller(c, a, b float64) float64 {
	root := math.Sqrt(math.Max(0, a*a-4*b*c))
	if a > 0 {
		return 2 * b / (a + root)
	}
	return (a - root) / (2 * c)
}
