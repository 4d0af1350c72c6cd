package metrics

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// OOD says how well a score tells out-of-distribution examples from in-distribution ones.
type OOD struct {
	// N is the number of out-of-distribution examples.
	N int `yaml:"examples" json:"n"`

	// Accuracy is the detection accuracy at equal priors and the best
	// threshold: max_t ½ (P(in ≤ t) + P(out > t)). 0.5 is chance.
	Accuracy float64 `yaml:"accuracy" json:"accuracy"`

	// AUROC is the probability that an out-of-distribution example scores
	// higher than an in-distribution one, a tie counting ½.
	AUROC float64 `yaml:"auroc" json:"auroc"`

	// AUPRIn and AUPROut are average precisions, Σ_i (R_i − R_{i−1}) P_i over the distinct scores,
	// with the in- and with the out-of-distribution examples as the positive class. They depend on
	// the ratio of the two numbers of examples.
	AUPRIn  float64 `yaml:"aupr_in" json:"aupr_in"`
	AUPROut float64 `yaml:"aupr_out" json:"aupr_out"`

	// FPR95 is the fraction of out-of-distribution examples accepted by the lowest threshold that
	// accepts at least 95 % of the in-distribution ones (accepted: score ≤ threshold).
	FPR95 float64 `yaml:"fpr95" json:"fpr95"`
}

// Detect measures scores for which higher means more out-of-distribution, of in- and of
// out-of-distribution examples, in any order. The slices are left as they are. It costs O(n log n).
// The error says which slice is empty or where a NaN stands.
func Detect(in, out []float64) (OOD, error) {
	a, b := slices.Clone(in), slices.Clone(out)
	if err := sortScores(a, b); err != nil {
		return OOD{}, err
	}
	c := newCurve(len(a), len(b))
	for g := range groups(a, b) {
		c.add(g)
	}
	return c.result(), nil
}

// curve gathers the figures of groups of ascending score. It is the hot loop of [Resample], and so
// divides and branches as little as it can.
type curve struct {
	in, out    int   // examples
	need       int   // in-distribution examples that are at least 95 % of all
	wins       int64 // twice the number of (in, out) pairs in order, a tie counting 1
	best       int64 // largest P(in ≤ t) - P(out ≤ t), times in·out
	precisions [2]float64
	fpr95      int // out-of-distribution examples; -1 before they are known
}

func newCurve(in, out int) curve {
	// In integers: 0.95·n rounds up for some n and would ask for one more.
	return curve{in: in, out: out, need: (95*in + 99) / 100, fpr95: -1}
}

// add may be given groups of no example.
func (c *curve) add(g group) {
	c.wins += g.wins(c.out)
	seenIn, seenOut := g.in+g.tiedIn, g.out+g.tiedOut
	c.best = max(c.best, int64(seenIn)*int64(c.out)-int64(seenOut)*int64(c.in))
	// In as positive: the accepted are those up to and with this group. Out as positive: the flagged are
	// those from this group on.
	c.precisions[0] += float64(g.tiedIn) * (float64(seenIn) / float64(max(1, seenIn+seenOut)))
	c.precisions[1] += float64(g.tiedOut) * (float64(c.out-g.out) / float64(max(1, c.in-g.in+c.out-g.out)))
	if c.fpr95 < 0 && seenIn >= c.need {
		c.fpr95 = seenOut
	}
}

func (c *curve) result() OOD {
	nIn, nOut := float64(c.in), float64(c.out)
	return OOD{
		N:        c.out,
		Accuracy: 0.5 + float64(c.best)/nIn/nOut/2,
		AUROC:    auroc(c.wins, c.in, c.out),
		AUPRIn:   c.precisions[0] / nIn,
		AUPROut:  c.precisions[1] / nOut,
		FPR95:    float64(c.fpr95) / nOut,
	}
}

// AUROC returns [OOD.AUROC] alone. It allocates nothing when scratch, which it
// overwrites, has room for len(in)+len(out) values; a shorter one, or nil,
// costs an allocation. in and out are left as they are.
func AUROC(in, out, scratch []float64) (float64, error) {
	scratch = append(append(scratch[:0], in...), out...)
	a, b := scratch[:len(in)], scratch[len(in):]
	if err := sortScores(a, b); err != nil {
		return 0, err
	}
	var wins int64
	for g := range groups(a, b) {
		wins += g.wins(len(b))
	}
	return auroc(wins, len(a), len(b)), nil
}

// auroc is that of so many examples with so many wins.
func auroc(wins int64, in, out int) float64 { return float64(wins) / (2 * float64(in) * float64(out)) }

// sortScores checks and sorts both slices in place.
func sortScores(in, out []float64) error {
	if err := checkScores(in, out); err != nil {
		return err
	}
	slices.Sort(in)
	slices.Sort(out)
	return nil
}

func checkScores(in, out []float64) error {
	if len(in) == 0 {
		return errors.New("no in-distribution scores to measure")
	}
	if len(out) == 0 {
		return errors.New("no out-of-distribution scores to measure")
	}
	if i := slices.IndexFunc(in, math.IsNaN); i >= 0 {
		return fmt.Errorf("in-distribution score %d is NaN", i)
	}
	if i := slices.IndexFunc(out, math.IsNaN); i >= 0 {
		return fmt.Errorf("out-of-distribution score %d is NaN", i)
	}
	return nil
}

// A group is all examples of one score: how many of each kind have it, and how
// many of each kind score lower.
type group struct {
	in, out         int
	tiedIn, tiedOut int
}

// wins is twice the number of (in, out) pairs in which the in-distribution
// example is of this group and the other, of nOut, scores higher; ties count
// once. As an integer it is exact for up to 2^62 pairs.
func (g group) wins(nOut int) int64 {
	higher := nOut - g.out - g.tiedOut
	return int64(g.tiedIn) * (2*int64(higher) + int64(g.tiedOut))
}

// groups merges two sorted slices into groups of ascending score.
func groups(in, out []float64) func(yield func(group) bool) {
	return func(yield func(group) bool) {
		var g group
		for g.in < len(in) || g.out < len(out) {
			var score float64
			switch {
			case g.in == len(in):
				score = out[g.out]
			case g.out == len(out):
				score = in[g.in]
			default:
				score = min(in[g.in], out[g.out])
			}
			g.tiedIn, g.tiedOut = leading(in[g.in:], score), leading(out[g.out:], score)
			if !yield(g) {
				return
			}
			g.in += g.tiedIn
			g.out += g.tiedOut
		}
	}
}

// leading returns how many values at the start of x equal score.
func leading(x []float64, score float64) int {
	n := 0
	for n < len(x) && x[n] == score {
		n++
	}
	return n
}
