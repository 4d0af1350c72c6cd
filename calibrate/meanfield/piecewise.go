package meanfield

import "math"

// piecewise is F(t) = log mean_i exp(e^t δ_i) over an interval of t, as polynomials on equal parts of it, each by its
// Chebyshev coefficients.
type piecewise struct {
	first, width float64   // start of the first part, and width of each
	parts, m     int       // their number, and the coefficients of each
	coef         []float64 // [parts,m]

	bins   bins
	values []float64 // [m], at the nodes
	cosine []float64 // cos(2π i/4m), [4m]
}

// interpolate sets p to F over [lo,hi] for δ ≤ 0, one of which is 0. nodes returns the number of coefficients that
// keep a part of a given length within the tolerance. It reports false if summing over all δ costs no more.
func (p *piecewise) interpolate(delta []float64, lo, hi float64, nodes func(length float64) int) bool {
	hi = math.Max(hi, lo+shortest)
	p.bins.gather(delta, math.Exp(lo), math.Exp(hi))
	// More parts mean fewer coefficients to evaluate for each class, but more values of F, each of which costs as
	// much as several coefficients.
	least, value := exponential*float64(len(delta)*len(delta)), p.bins.cost(len(delta))
	p.parts = 0
	for parts := 1; parts <= maxParts; parts *= 2 {
		m := nodes((hi - lo) / float64(parts))
		if cost := float64(m) * (float64(len(delta)) + value*float64(parts)); cost < least {
			p.parts, p.m, least = parts, m, cost
		}
	}
	if p.parts == 0 {
		return false
	}
	m := p.m
	p.first, p.width = lo, (hi-lo)/float64(p.parts)
	p.coef, p.values = resize(p.coef, p.parts*m), resize(p.values, m)
	if len(p.cosine) != 4*m {
		p.cosine = resize(p.cosine, 4*m)
		for i := range p.cosine {
			p.cosine[i] = math.Cos(2 * math.Pi * float64(i) / float64(4*m))
		}
	}
	for part := range p.parts {
		mid, half := p.first+(float64(part)+0.5)*p.width, p.width/2
		for j := range p.values {
			p.values[j] = p.bins.logMean(delta, math.Exp(mid+half*p.cosine[2*j+1]))
		}
		for n := range m {
			var sum float64
			at := n // of n(2j+1), the multiple of 2π/4m
			for _, v := range p.values {
				sum += v * p.cosine[at]
				if at += 2 * n; at >= 4*m {
					at -= 4 * m
				}
			}
			p.coef[part*m+n] = 2 * sum / float64(m)
		}
		p.coef[part*m] /= 2
	}
	return true
}

const (
	// maxParts bounds the parts. More would pay only for temperature ratios in the hundreds.
	maxParts = 64
	// shortest is a length at which rounding in t is negligible.
	shortest = 1e-6
)

// at evaluates F.
func (p *piecewise) at(t float64) float64 {
	x := (t - p.first) / p.width
	part := min(int(x), p.parts-1) // rounding may put t a little outside
	return clenshaw(p.coef[part*p.m:(part+1)*p.m], 2*(x-float64(part))-1)
}

// clenshaw evaluates Σ c_n T_n(x).
func clenshaw(c []float64, x float64) float64 {
	var b1, b2 float64
	twice := 2 * x
	for n := len(c) - 1; n > 0; n-- {
		b1, b2 = (c[n]-b2)+twice*b1, b1
	}
	return c[0] + x*b1 - b2
}

// bins hold the δ of one example in intervals of e^hi δ of length 1, by the moments of their distances r to the
// middle of the interval:
//
//	Σ_i exp(bδ_i) = Σ_j exp(-y(j+½)) Σ_n yⁿ/n! M_jn,  M_jn = Σ_{i in j} r_iⁿ,  y = b/e^hi
//
// for b ≤ e^hi, in a few operations per interval rather than an exponential per class. The terms are positive, so
// that the relative error of the sum is at most that of the series of exp(yr), |yr| ≤ ½, truncated at n = 11:
// below ½¹¹/11! e^½ / e^-½ = 4e-11. If all e^hi δ are in [-½,0], where the mean of the exponentials may be nearly
// one, r is e^hi δ itself, and the mean minus one is the series without its first term, to the same relative
// error.
type bins struct {
	scale   float64   // e^hi
	limit   float64   // -bδ beyond which a class is dropped
	depth   float64   // minus the least δ
	n       int       // 0: not used, the sum is taken over the classes
	around0 bool      // moments are those of δ e^hi itself, of all classes
	moments []float64 // [n,moments], M_jn/n!
}

const moments = 11

// gather prepares sums for b in [lo,hi].
func (s *bins) gather(delta []float64, lo, hi float64) {
	// The classes beyond sum to less than e^-32, where the largest is 1.
	s.limit = 32 + math.Log(float64(len(delta)))
	s.scale, s.n = hi, 0
	var deepest float64
	s.depth = 0
	for _, d := range delta {
		s.depth = math.Max(s.depth, -d)
		if d < deepest && d*lo > -s.limit {
			deepest = d
		}
	}
	n := 1 + math.Floor(-deepest*hi)
	if !(n*binCost < float64(len(delta))) {
		return
	}
	s.n, s.around0 = int(n), s.depth*hi < small
	s.moments = resize(s.moments, s.n*moments)
	clear(s.moments)
	for _, d := range delta {
		if !(d >= deepest) { // too deep, or NaN
			continue
		}
		u := -d * hi
		j := int(u)
		r := float64(j) + 0.5 - u
		if s.around0 {
			r = -u
		}
		m := s.moments[j*moments : (j+1)*moments]
		power := 1.0
		for n := range m {
			m[n] += power
			power *= r
		}
	}
	for at := 0; at < len(s.moments); at += moments {
		factorial := 1.0
		for n := range moments {
			s.moments[at+n] /= factorial
			factorial *= float64(n + 1)
		}
	}
}

// Measured costs: of an exponential in coefficients evaluated, and of an interval of the bins in exponentials.
const (
	exponential = 6
	binCost     = 2
)

// cost returns the cost of a value of F, in coefficients.
func (s *bins) cost(classes int) float64 {
	if s.n == 0 {
		return exponential * float64(classes)
	}
	return exponential * binCost * float64(s.n)
}

// logMean returns log mean_i exp(bδ_i).
func (s *bins) logMean(delta []float64, b float64) float64 {
	count := float64(len(delta))
	if s.n == 0 {
		return logMeanExp(delta, argmax(delta), s.depth, b)
	}
	y := b / s.scale
	if s.around0 {
		m := (*[moments]float64)(s.moments)
		var lack float64
		for n := moments - 1; n > 0; n-- {
			lack = y * (m[n] + lack)
		}
		return math.Log1p(lack / count)
	}
	var sum float64
	step, factor := math.Exp(-y), math.Exp(-y/2)
	last := math.Min(float64(s.n), s.limit/y+1) // y may be too small for an int
	for j := range int(last) {
		if m := (*[moments]float64)(s.moments[j*moments:]); m[0] > 0 {
			even, odd, yy := m[10], m[9], y*y
			for n := 8; n > 0; n -= 2 {
				even, odd = m[n]+yy*even, m[n-1]+yy*odd
			}
			sum += factor * (m[0] + yy*even + y*odd)
		}
		factor *= step
	}
	return math.Log(sum / count)
}

func resize(x []float64, n int) []float64 {
	if cap(x) < n {
		return make([]float64, n)
	}
	return x[:n]
}
