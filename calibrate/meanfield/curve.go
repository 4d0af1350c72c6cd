package meanfield

import (
	"fmt"
	"math"
)

// A Curve tabulates f(β) = log Σ_i exp(β(a_i - max a)) of one example's
// logits a for every inverse temperature β that tuning may ask for, so that
// trying a pair of temperatures costs O(K) rather than O(K²).
//
// With μ = a/T_act the log-sum-exp in mf0 is f(1/(T_act T_k)): it depends on
// the temperatures through β alone. f is interpolated by cubic Hermite
// polynomials between its values and derivatives at 16 points per octave of β.
// The error is about 1e-7 for common logits and below 1e-4 nats for adversarial
// ones (K-1 classes tied far below the first): enough to choose temperatures
// by, while what is reported with them is computed by [Workspace.MF0].
type Curve struct {
	cells *[curveSteps * octaves]cell
	first [2]float64 // f and f' at MinBeta
	peak  float64
}

// A cell holds the polynomial of f between two points, c0 + c1 x + c2 x² + c3 x³
// for x in [0,1). Four float32 are one load of 16 bytes, and resolve f ≤ log K
// to 1e-6.
type cell [4]float32

const (
	stepBits   = 4
	curveSteps = 1 << stepBits // per octave
	// MinBeta and MaxBeta bound the inverse temperatures of a Curve:
	// T_act in [0.02, 20] and T_k from 1 to 6000 lie inside.
	MinBeta = 1.0 / (1 << 17)
	MaxBeta = 64.0

	minExponent = -17
	octaves     = 17 + 6
)

// NewCurve tabulates the logits of one example. It costs 16 K exponentials and
// at most 368 K multiplications: stepping up an octave squares exp(βδ), which
// doubles its relative error, to 1e-9 after all 23.
func NewCurve(logits []float64) Curve {
	top := argmax(logits)
	peak := logits[top]
	c := Curve{cells: new([curveSteps * octaves]cell), peak: peak}
	var f, slope [curveSteps*octaves + 1]float64
	e := make([]float64, 0, len(logits))
	delta := make([]float64, 0, len(logits))
	for step := range curveSteps {
		beta := MinBeta * (1 + float64(step)/curveSteps)
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
			// f = log(1 + Σ e) and f' = Σ δ e / (1 + Σ e), and the next octave's e.
			var sum, weighted float64
			live := 0
			for i, v := range e {
				d := delta[i]
				sum += v
				weighted += v * d
				// f is wanted to 1e-7: what is far below stays out from here on.
				const negligible = 1e-20
				if v *= v; v > negligible {
					e[live], delta[live] = v, d
					live++
				}
			}
			e, delta = e[:live], delta[:live]
			p := octave*curveSteps + step
			f[p], slope[p] = math.Log1p(sum), weighted/(1+sum)
		}
	}
	c.first = [2]float64{f[0], slope[0]}
	for p := range c.cells {
		h := math.Ldexp(1, minExponent+p/curveSteps) / curveSteps
		d0, d1, df := h*slope[p], h*slope[p+1], f[p+1]-f[p]
		c.cells[p] = cell{float32(f[p]), float32(d0), float32(3*df - 2*d0 - d1), float32(d0 + d1 - 2*df)}
	}
	return c
}

// at evaluates f(β). The position in the table is read off the bits of β: the
// exponent is the octave and the leading bits of the fraction are the step.
func (c *Curve) at(beta float64) float64 {
	if beta < MinBeta {
		// f is nearly linear so close to zero.
		return c.first[0] - (MinBeta-beta)*c.first[1]
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

// NLL returns -log softmax_label(β a) in nats: temperature scaling with
// T = 1/β.
func (c *Curve) NLL(logits []float64, label int, beta float64) float64 {
	return c.at(beta) - beta*(logits[label]-c.peak)
}

// InverseTemperaturesTo writes 1/T_k = 1/√(1+λ₀ scale s²_k) to dst, for
// [Curve.MF0].
func InverseTemperaturesTo(dst, s2 []float64, scale, lambda0 float64) {
	checkLen("dst", len(dst), len(s2))
	for k, v := range s2 {
		dst[k] = 1 / math.Sqrt(1+lambda0*scale*v)
	}
}

// MF0 returns, for the example whose curve this is, -log p_label and
// log(1 - max p) of mf0 at μ = logits/tact and inverse temperatures 1/T_k of
// the classes, both in nats. A negative label gives NaN for the first.
//
// The second is floored at log(2⁻¹²⁶): smaller scores are ties, as they are in
// the float32 of an ONNX graph.
func (c *Curve) MF0(logits, inverseT []float64, label int, tact float64) (nll, logRest float64) {
	checkLen("inverseT", len(inverseT), len(logits))
	if label >= len(logits) {
		panic(fmt.Sprintf("meanfield: label %d, want below %d", label, len(logits)))
	}
	inverseT = inverseT[:len(logits)]
	peak, act := c.peak, 1/tact
	// log ẽ_k ≤ 0, and the largest is at least -log K: exponentials need no
	// shift, but for the largest, which is kept out of the sum of the others.
	others, best := 0.0, math.Inf(-1)
	for k, a := range logits {
		beta := act * inverseT[k]
		l := beta * (a - peak)
		if beta >= MinBeta && beta < MaxBeta { // [Curve.at], which is not inlined
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
		if l > negligibleLog {
			others += expSmall(l)
		}
	}
	total, logRest := best, LogFloor
	if others > 0 {
		ratio := others * math.Exp(-best)
		total += math.Log1p(ratio)
		logRest = math.Max(LogFloor, math.Log(others)-total)
	}
	if label < 0 {
		return math.NaN(), logRest
	}
	beta := act * inverseT[label]
	return total - (beta*(logits[label]-peak) - c.at(beta)), logRest
}

const (
	// LogFloor is the least log(1 - max p) that tuning tells apart: the
	// logarithm of the smallest normal float32.
	LogFloor = -126 * math.Ln2

	// negligibleLog is far enough below LogFloor that a million classes there
	// change nothing above it.
	negligibleLog = LogFloor - 40
)

// expSmall is exp(x) for x in [-700, 0] with a relative error below 1e-10, in a
// third of [math.Exp]'s time: 2^(n/64) from a table and a cubic polynomial for
// the rest, which is below log 2 / 128.
func expSmall(x float64) float64 {
	const (
		round = 1<<52 + 1<<51 // added, it leaves n in the low bits of the sum
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
