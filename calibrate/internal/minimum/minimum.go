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

// Downhill minimises f in [a,b] from x on. It goes where f falls, by a step and then by twice as much
// each time, as long as f falls by more than a gain; and then to the vertices of parabolas through the
// three best points, until such a vertex promises less.
func Downhill(f func(float64) float64, a, b, x, step, gain float64) float64 {
	clamp := func(x float64) float64 { return math.Min(b, math.Max(a, x)) }
	type value struct{ x, f float64 }
	at := func(x float64) value { return value{x, f(x)} }
	mid := at(clamp(x))
	behind, ahead := value{clamp(mid.x + step), math.Inf(1)}, value{clamp(mid.x - step), math.Inf(1)}
	if ahead.x < mid.x {
		ahead.f = f(ahead.x)
	}
	if ahead.f >= mid.f && behind.x > mid.x {
		behind.f = f(behind.x)
	}
	if behind.f < mid.f {
		ahead, behind = behind, ahead
	}
	for ahead.f < mid.f {
		gained := mid.f - ahead.f
		behind, mid = mid, ahead
		if gained < gain {
			return mid.x
		}
		if ahead = (value{clamp(mid.x + 2*(mid.x-behind.x)), math.Inf(1)}); ahead.x != mid.x {
			ahead.f = f(ahead.x)
		}
	}
	// The minimum is between ahead and behind, one of which may be mid itself, at a bound.
	const most = 12
	before := math.Inf(1) // how far apart these were two evaluations ago
	width := math.Inf(1)
	for range most {
		p, q := behind.x-mid.x, ahead.x-mid.x
		far := behind
		if math.Abs(q) > math.Abs(p) {
			far = ahead
		}
		// f(mid+d) = f(mid) + slope·d + bend·d²
		dp, dq := (behind.f-mid.f)/p, (ahead.f-mid.f)/q
		bend := (dp - dq) / (p - q)
		slope := dp - bend*p
		u := mid.x - slope/bend/2
		now := math.Abs(p - q)
		switch promises := bend > 0 && slope*slope/bend/4 >= gain; {
		case !promises && (math.Abs(far.x-mid.x) <= step/2 || far.f-mid.f < 4*gain):
			return mid.x
		case !promises: // by a point that may be too far off for a parabola
			u = mid.x + math.Copysign(step/2, far.x-mid.x)
		case now > before/2:
			u = (mid.x + far.x) / 2
		}
		before, width = width, now
		next := at(u)
		switch sameSide := (u < mid.x) == (behind.x < ahead.x); {
		case next.f < mid.f && sameSide:
			ahead, mid = mid, next
		case next.f < mid.f:
			behind, mid = mid, next
		case sameSide:
			behind = next
		default:
			ahead = next
		}
	}
	return mid.x
}
