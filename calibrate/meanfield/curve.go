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
// the temperatures through β alone. The table holds f and its derivative at
// 16 points per octave of β and interpolates by cubic Hermite polynomials.
// The error is about 1e-7 for common logits and below 1e-4 nats for adversarial
// ones (K-1 classes tied far below the first): enough to choose temperatures
// by, while what is reported with them is computed by [Workspace.MF0].
type Curve struct {
	table []float32 // f and df/dβ of each point
	top   int
	peak  float64
}

const (
	curveSteps = 16 // per octave
	// MinBeta and MaxBeta bound the inverse temperatures of a Curve:
	// T_act in [0.02, 20] and T_k from 1 to 6000 lie inside.
	MinBeta = 1.0 / (1 << 17)
	MaxBeta = 64.0

	octaves = 17 + 6
)

// NewCurve tabulates the logits of one example. It costs 16 K exponentials and
// 368 K multiplications: stepping up an octave squares exp(βδ), which doubles
// its relative error, to 1e-9 after all 23.
func NewCurve(logits []float64) Curve {
	top := argmax(logits)
	peak := logits[top]
	points := curveSteps * octaves
	c := Curve{table: make([]float32, 2*(points+1)), top: top, peak: peak}
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
		for octave := range octaves {
			c.set(octave*curveSteps+step, beta, e, delta)
			beta *= 2
			live := 0 // classes whose term has underflowed stay at zero
			for i, v := range e {
				if v *= v; v > 0 {
					e[live], delta[live] = v, delta[i]
					live++
				}
			}
			e, delta = e[:live], delta[:live]
		}
		if step == 0 {
			c.set(points, beta, e, delta)
		}
	}
	return c
}

// set stores point p, at beta: f = log(1 + Σ e) and f' = Σ δ e / (1 + Σ e).
// Neighbouring points of an octave [2^n, 2^(n+1)] are 2^n/16 apart.
func (c *Curve) set(p int, beta float64, e, delta []float64) {
	var sum, slope float64
	for i, v := range e {
		sum += v
		slope += v * delta[i]
	}
	c.table[2*p] = float32(math.Log1p(sum))
	c.table[2*p+1] = float32(slope / (1 + sum))
}

// at evaluates f(β). The position in the table is read off the bits of β: the
// exponent is the octave and the leading bits of the fraction are the step.
func (c *Curve) at(beta float64) float64 {
	if beta < MinBeta {
		// f is nearly linear so close to zero; the first two values define it.
		return float64(c.table[0]) - (MinBeta-beta)*float64(c.table[1])
	}
	if beta >= MaxBeta {
		beta = math.Nextafter(MaxBeta, 0)
	}
	bits := math.Float64bits(beta)
	const stepBits = 4 // log2 of curveSteps
	pos := int(bits>>(52-stepBits)) - (1023-17)<<stepBits
	// The rest of the fraction, as a number in [0,1).
	x := math.Float64frombits(1023<<52|bits<<(12+stepBits)>>12) - 1
	h := math.Float64frombits(bits&(0x7ff<<52)) / curveSteps

	f0, d0 := float64(c.table[2*pos]), float64(c.table[2*pos+1])*h
	f1, d1 := float64(c.table[2*pos+2]), float64(c.table[2*pos+3])*h
	df := f1 - f0
	return f0 + x*(d0+x*(3*df-2*d0-d1+x*(d0+d1-2*df)))
}

// Top returns the class with the largest logit.
func (c *Curve) Top() int { return c.top }

// NLL returns -log softmax_label(β a) in nats: temperature scaling with
// T = 1/β.
func (c *Curve) NLL(logits []float64, label int, beta float64) float64 {
	return c.at(beta) - beta*(logits[label]-c.peak)
}

// MF0 returns, for the example whose curve this is, -log p_label and
// log(1 - max p) of mf0 at μ = logits/tact and variances scale·s2, both in
// nats. A negative label gives NaN for the first.
//
// The second is floored at log(2⁻¹²⁶): smaller scores are ties, as they are in
// the float32 of an ONNX graph. scratch needs K values.
func (c *Curve) MF0(logits, s2 []float64, label int, tact, scale, lambda0 float64, scratch []float64) (nll, logRest float64) {
	checkLen("s2", len(s2), len(logits))
	scratch = scratch[:len(logits)]
	best := 0
	for k, a := range logits {
		beta := 1 / (tact * math.Sqrt(1+lambda0*scale*s2[k]))
		l := beta*(a-c.peak) - c.at(beta)
		scratch[k] = l
		if l > scratch[best] {
			best = k
		}
	}
	peak := math.Inf(-1) // of the others
	for k, l := range scratch {
		if k != best && l > peak {
			peak = l
		}
	}
	if math.IsInf(peak, -1) {
		return 0, LogFloor // a single class
	}
	var others float64
	for k, l := range scratch {
		// exp(-40) is below the precision of a sum that starts at 1.
		if l -= peak; k != best && l > -40 {
			others += math.Exp(l)
		}
	}
	logOthers := peak + math.Log(others)
	total := scratch[best] + math.Log1p(math.Exp(logOthers-scratch[best]))
	logRest = math.Max(LogFloor, logOthers-total)
	if label < 0 {
		return math.NaN(), logRest
	}
	if label >= len(logits) {
		panic(fmt.Sprintf("meanfield: label %d, want below %d", label, len(logits)))
	}
	return total - scratch[label], logRest
}

// LogFloor is the least log(1 - max p) that tuning tells apart: the logarithm
// of the smallest normal float32.
const LogFloor = -126 * math.Ln2
