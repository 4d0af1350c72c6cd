// Package minimum finds the minimum of a function of one variable.
package minimum

import "math"

// Downhill minimises f in [a,b] from x on. It steps downhill, doubling the step each time, while f falls by at least
// gain. It then moves to the vertices of parabolas through the three best points, until a vertex is expected to gain
// less.
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
	// The minimum is between ahead and behind. At a bound one of them may be mid itself.
	const most = 12
	before := math.Inf(1) // their distance two evaluations ago
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
		switch expects := bend > 0 && slope*slope/bend/4 >= gain; {
		case !expects && (math.Abs(far.x-mid.x) <= step/2 || far.f-mid.f < 4*gain):
			return mid.x
		case !expects: // a point may be too far off for a parabola
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
