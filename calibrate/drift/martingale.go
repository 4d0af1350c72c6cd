package drift

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// A Test bets against the stream being exchangeable with the validation data: a conformal test martingale (Vovk et al.,
// "Retrain or not retrain: conformal test martingales for change-point detection", 2021). Its capital starts at 1, is
// never negative, and is a martingale as long as the stream is exchangeable. By Ville's inequality it then ever reaches
// 1/alpha with a probability of at most alpha, over the draw of validation data, stream and random numbers. Reaching it
// raises the alarm, which stays until Reset. It is not safe for concurrent use.
//
// The p-value of an example in bin b, with U uniform in [0,1) and w_c the weight of bin c, its validation examples and
// the stream so far, is
//
//	p = (Σ_{c>b} w_c + U w_b) / Σ_c w_c.
//
// Without a change these are independent and uniform. The bets are those of the Simple Jumper, with ε = -1, 0 and 1:
//
//	C_ε ← ((1-J) C_ε + J/3 Σ_δ C_δ) (1 + ε(p - ½)),   J = 0.01.
//
// Its capital shrinks exponentially while nothing changes, and would have to be won back before a late change shows.
// So a part R(t) = 1/(1 + ln(1+t)) of the initial capital is kept after t examples, and R(t-1) - R(t) is divided
// equally among the C_ε. This is a mixture of martingales that start at all times, and hence a martingale. After t
// examples a change has to win back at most t(1 + ln t)².
type Test struct {
	alpha   float64
	start   []int // weights of the validation data
	weights []int // w
	total   int   // Σ w
	seed    uint64
	rng     *rand.Rand

	n     int        // examples
	kept  float64    // R(n)
	bets  [3]float64 // C_ε exp(-scale), for ε = -1, 0, 1
	scale float64
	alarm int // the example that raised the alarm, from 1; 0: none
}

const jump = 0.01 // J, as in the paper

// NewTest returns a test whose probability of ever raising a false alarm is at most alpha, in (0,1). weights are those
// of the validation data in each bin: [Bins.Weights]. seed is that of the random numbers U; it must not be that of the
// bins.
func NewTest(weights []int, alpha float64, seed uint64) *Test {
	checkWeights(weights)
	if !(alpha > 0 && alpha < 1) {
		panic(fmt.Sprintf("drift: a false-alarm rate of %v, want a number between 0 and 1", alpha))
	}
	t := &Test{alpha: alpha, start: slices.Clone(weights), seed: seed}
	t.rng = rand.New(rand.NewPCG(seed, 0x74657374))
	t.Reset()
	return t
}

// Reset restarts the test, without an alarm and with the validation data alone.
func (t *Test) Reset() {
	t.weights = append(t.weights[:0], t.start...)
	t.total = 0
	for _, w := range t.weights {
		t.total += w
	}
	t.n, t.kept, t.bets, t.scale, t.alarm = 0, 1, [3]float64{}, 0, 0
}

// Add adds the next example, in a bin.
func (t *Test) Add(bin int) { t.bet(t.p(bin)) }

// p returns the p-value of an example in a bin, and adds the example to the bin.
func (t *Test) p(bin int) float64 {
	above := 0
	for _, w := range t.weights[bin+1:] {
		above += w
	}
	p := (float64(above) + t.rng.Float64()*float64(t.weights[bin])) / float64(t.total)
	t.weights[bin]++
	t.total++
	return p
}

// bet updates the capital by a p-value.
func (t *Test) bet(p float64) {
	t.n++
	kept := 1 / (1 + math.Log1p(float64(t.n)))
	begin := t.kept - kept
	if t.scale != 0 {
		begin *= math.Exp(-t.scale)
	}
	t.kept = kept
	all := begin
	for _, c := range t.bets {
		all += c
	}
	var sum float64
	for i := range t.bets {
		c := t.bets[i] + begin/3
		t.bets[i] = ((1-jump)*c + jump/3*all) * (1 + float64(i-1)*(p-0.5))
		sum += t.bets[i]
	}
	// Rarely: rescale long before overflow or underflow.
	if sum > 0x1p256 || sum < 0x1p-256 {
		for i := range t.bets {
			t.bets[i] /= sum
		}
		t.scale += math.Log(sum)
	}
	if t.alarm == 0 && (t.scale != 0 || sum+kept >= 1/t.alpha) && t.log() >= -math.Log(t.alpha) {
		t.alarm = t.n
	}
}

// log returns the natural logarithm of the capital.
func (t *Test) log() float64 {
	sum := t.bets[0] + t.bets[1] + t.bets[2]
	if t.scale > 0 { // then t.kept is the smaller part
		return t.scale + math.Log(sum+t.kept*math.Exp(-t.scale))
	}
	return math.Log(sum*math.Exp(t.scale) + t.kept)
}

// Log10 returns the decimal logarithm of the capital: a test with alpha 0.01 raises the alarm at 2.
func (t *Test) Log10() float64 { return t.log() / math.Ln10 }

// Alarm returns the number of the example that raised the alarm, from 1, or 0 without an alarm.
func (t *Test) Alarm() int { return t.alarm }

// Examples returns the number of examples since the start or Reset.
func (t *Test) Examples() int { return t.n }
