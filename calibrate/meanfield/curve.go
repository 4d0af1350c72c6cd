package meanfield

import (
	"fmt"
	"math"
)

// A Curve tabulates F(β) = log mean_i exp(β(a_i - max a)) of one example's logits a over all inverse temperatures β in
// tuning. Evaluating a pair of temperatures then costs O(K) rather than O(K²).
//
// With μ = a/T_act the log-sum-exp in mf0 is F(1/(T_act T_k)) + log K: it depends on the temperatures through β alone.
// F is interpolated by cubic Hermite polynomials at 16 points per octave of β. The error is about 1e-7 nats for common
// logits and below 1e-4 for adversarial ones (K-1 classes tied far below the first). That is enough to choose
// temperatures; results are computed by [Workspace.MF0].
type Curve struct {
	cells *[curveSteps * octaves]cell
	first [2]float64 // F(β) = β(first₀ + β first₁) up to minBeta
	peak  float64
	logK  float64
}

// A cell holds the polynomial of F between two points, c0 + c1 x + c2 x² + c3 x³ for x in [0,1). Four float32 are one
// load of 16 bytes, and resolve F to a relative 1e-7.
type cell [4]float32

const (
	stepBits   = 4
	curveSteps = 1 << stepBits // per octave
	// minBeta and MaxBeta bound the inverse temperatures of a Curve: T_act in [0.02, 20] and T_k from 1 to 6000
	// lie inside.
	minBeta = 1.0 / (1 << 17)
	MaxBeta = 64.0

	minExponent = -17
	octaves     = 17 + 6
)

// NewCurve tabulates the logits of one example. It costs 16 K exponentials and at most 368 K multiplications:
// stepping up an octave squares exp(βδ), which doubles its relative error, to 1e-9 after 23 octaves.
func NewCurve(logits []float64) Curve {
	top := argmax(logits)
	peak := logits[top]
	c := Curve{cells: new([curveSteps * octaves]cell), peak: peak, logK: math.Log(float64(len(logits)))}
	var f, slope [curveSteps*octaves + 1]float64
	e := make([]float64, 0, len(logits))
	delta := make([]float64, 0, len(logits))
	for step := range curveSteps {
		beta := minBeta * (1 + float64(step)/curveSteps)
		e, delta = e[:0], delta[:0]
		for i, a := range logits {
			if i != top {
				delta = append(delta, a-peak)
				e = append(e, math.Exp(beta*(a-peak)))
			}
		}
		last := octaves
		if step == 0 {
			last++ // the end of the table
		}
		for octave := range last {
			// F = log(1 + Σ e) - log K and F' = Σ δ e / (1 + Σ e), and the next octave's e.
			var sum, weighted float64
			live := 0
			for i, v := range e {
				d := delta[i]
				sum += v
				weighted += v * d
				// F is needed to 1e-7: negligible terms are dropped from here on.
				const negligible = 1e-20
				if v *= v; v > negligible {
					e[live], delta[live] = v, d
					live++
				}
			}
			e, delta = e[:live], delta[:live]
			p := octave*curveSteps + step
			f[p], slope[p] = math.Log1p(sum)-c.logK, weighted/(1+sum)
		}
	}
	// The parabola through F(0) = 0 with F and F' at minBeta.
	c.first[0] = 2*f[0]/minBeta - slope[0]
	c.first[1] = (slope[0] - f[0]/minBeta) / minBeta
	for p := range c.cells {
		h := math.Ldexp(1, minExponent+p/curveSteps) / curveSteps
		d0, d1, df := h*slope[p], h*slope[p+1], f[p+1]-f[p]
		c.cells[p] = cell{float32(f[p]), float32(d0), float32(3*df - 2*d0 - d1), float32(d0 + d1 - 2*df)}
	}
	return c
}

// at evaluates F(β). The bits of β give the position in the table: the exponent is the octave, and the leading bits of
// the fraction are the step.
func (c *Curve) at(beta float64) float64 {
	if beta < minBeta {
		return beta * (c.first[0] + beta*c.first[1])
	}
	if beta >= MaxBeta {
		beta = math.Nextafter(MaxBeta, 0)
	}
	bits := math.Float64bits(beta)
	t := &c.cells[int(bits>>(52-stepBits))-(1023+minExponent)<<stepBits]
	// The rest of the fraction, as a number in [0,1).
	x := math.Float64frombits(1023<<52|bits<<(12+stepBits)>>12) - 1
	return float64(t[0]) + x*(float64(t[1])+x*(float64(t[2])+x*float64(t[3])))
}

// InverseTemperaturesTo writes 1/T_k = 1/√(1+λ₀ scale s²_k) to dst, for [Curve.MF0].
func InverseTemperaturesTo(dst, s2 []float64, scale, lambda0 float64) {
	checkLen("dst", len(dst), len(s2))
	for k, v := range s2 {
		dst[k] = 1 / math.Sqrt(1+lambda0*scale*v)
	}
}

// MF0 returns -log p_label, in nats, and the margin of mf0 for the curve's example at μ = logits/tact and inverse
// temperatures 1/T_k of the classes. For a negative label the first is NaN.
func (c *Curve) MF0(logits, inverseT []float64, label int, tact float64) (nll, margin float64) {
	checkLen("inverseT", len(inverseT), len(logits))
	if label >= len(logits) {
		panic(fmt.Sprintf("meanfield: label %d, want below %d", label, len(logits)))
	}
	inverseT = inverseT[:len(logits)]
	peak, act := c.peak, 1/tact
	// log(K ẽ_k) ≤ log K, and the largest is at least zero, so that exponentials need no shift. The largest is
	// kept out of the sum of the others.
	others, best, second := 0.0, math.Inf(-1), math.Inf(-1)
	for k, a := range logits {
		beta := act * inverseT[k]
		l := beta * (a - peak)
		if beta >= minBeta && beta < MaxBeta { // [Curve.at], which is not inlined
			bits := math.Float64bits(beta)
			t := &c.cells[int(bits>>(52-stepBits))-(1023+minExponent)<<stepBits]
			x := math.Float64frombits(1023<<52|bits<<(12+stepBits)>>12) - 1
			l -= float64(t[0]) + x*(float64(t[1])+x*(float64(t[2])+x*float64(t[3])))
		} else {
			l -= c.at(beta)
		}
		if l > best {
			l, best = best, l
		}
		if l > second-negligible {
			if l > second {
				second = l
			}
			if l > leastExponent {
				others += expSmall(l)
			}
		}
	}
	total := best
	if others > 0 {
		total += math.Log1p(others * math.Exp(-best))
	}
	shift := 0.0
	if second <= leastExponent+negligible { // the other exponentials underflow
		shift, others = second, 0
		for k, a := range logits {
			beta := act * inverseT[k]
			if l := beta*(a-peak) - c.at(beta); l <= second && l > second-negligible {
				others += expSmall(l - second)
			}
		}
	}
	margin = best - shift - math.Log(others/float64(len(logits)-1))
	if label < 0 {
		return math.NaN(), margin
	}
	beta := act * inverseT[label]
	return total - (beta*(logits[label]-peak) - c.at(beta)), margin
}

const (
	// negligible is the distance below another exponent at which a million terms are negligible.
	negligible = 50
	// leastExponent is the smallest argument of expSmall.
	leastExponent = -700
)

// expSmall is exp(x) for x in [-700, 0] with a relative error below 1e-10, in a third of the time of [math.Exp]:
// 2^(n/64) from a table, and a cubic polynomial for the rest, which is below log 2 / 128.
func expSmall(x float64) float64 {
	const (
		round = 1<<52 + 1<<51 // adding it leaves n in the low bits
		step  = math.Ln2 / 64
	)
	n := x*(1/step) + round
	i := math.Float64bits(n)
	r := x - (n-round)*step
	return math.Float64frombits(exp2[i&63]+i>>6<<52) * (1 + r*(1+r*(1./2+r*(1./6))))
}

// exp2 holds the bits of 2^(i/64).
var exp2 = func() (t [64]uint64) {
	for i := range t {
		t[i] = math.Float64bits(math.Exp2(float64(i) / 64))
	}
	return t
}()
