// Package minimum finds the minimum of a function of one variable.
package minimum

import "math"

// Bracket returns the neighbours of the least of evenly spaced values of f in [a,b].
func Bracket(f func(float64) float64, a, b float64) (lo, hi float64) {
	const steps = 32
	at := func(i int) float64 { return a + (b-a)*float64(i)/steps }
	best, least := 0, math.Inf(1)
	for i := range steps + 1 {
		if v := f(at(i)); v < least {
			best, least = i, v
		}
	}
	return at(max(0, best-1)), at(min(steps, best+1))
}

// GoldenSection minimises f, which has one minimum in [a,b].
func GoldenSection(f func(float64) float64, a, b, tolerance float64) float64 {
	const ratio = 0.6180339887498949 // (√5-1)/2
	c, d := b-ratio*(b-a), a+ratio*(b-a)
	fc, fd := f(c), f(d)
	for b-a > tolerance {
		if fc < fd {
			b, d, fd = d, c, fc
			c = b - ratio*(b-a)
			fc = f(c)
		} else {
			a, c, fc = c, d, fd
			d = a + ratio*(b-a)
			fd = f(d)
		}
	}
	return (a + b) / 2
}

// Brent minimises f, which has one minimum in [a,b] and is smooth, from x in between to within the
// tolerance: by parabolas through the three best points where these close in, else by golden
// sections (Brent, Algorithms for Minimization without Derivatives, 1973, chapter 5).
func Brent(f func(float64) float64, a, b, x, tolerance float64) float64 {
	const golden = 0.3819660112501051 // (3-√5)/2
	x = math.Min(b, math.Max(a, x))
	fx := f(x)
	second, third, fSecond, fThird := x, x, fx, fx
	var step, before float64 // the last step, and the one before it
	for range 100 {
		mid := (a + b) / 2
		if math.Abs(x-mid) <= 2*tolerance-(b-a)/2 {
			break
		}
		// The vertex of the parabola is x + p/q.
		r, q := (x-second)*(fx-fThird), (x-third)*(fx-fSecond)
		p := (x-third)*q - (x-second)*r
		if q = 2 * (q - r); q > 0 {
			p = -p
		}
		q = math.Abs(q)
		if math.Abs(p) < math.Abs(q*before/2) && p > q*(a-x) && p < q*(b-x) {
			step, before = p/q, step
			if u := x + step; u-a < 2*tolerance || b-u < 2*tolerance {
				step = math.Copysign(tolerance, mid-x)
			}
		} else {
			before = b - x
			if x >= mid {
				before = a - x
			}
			step = golden * before
		}
		u := x + step
		if math.Abs(step) < tolerance {
			u = x + math.Copysign(tolerance, step)
		}
		fu := f(u)
		if fu <= fx {
			if u < x {
				b = x
			} else {
				a = x
			}
			third, fThird, second, fSecond, x, fx = second, fSecond, x, fx, u, fu
			continue
		}
		if u < x {
			a = u
		} else {
			b = u
		}
		switch {
		case fu <= fSecond || second == x:
			third, fThird, second, fSecond = second, fSecond, u, fu
		case fu <= fThird || third == x || third == second:
			third, fThird = u, fu
		}
	}
	return x
}
