package metrics

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
)

// OOD is how well a score detects out-of-distribution examples.
type OOD struct {
	// N is the number of out-of-distribution examples.
	N int `yaml:"examples" json:"n"`

	// Accuracy is the detection accuracy at equal priors and the best threshold: max_t ½ (P(in ≤ t) + P(out > t)).
	// 0.5 is chance.
	Accuracy float64 `yaml:"accuracy" json:"accuracy"`

	// AUROC is the probability that an out-of-distribution example scores higher than an in-distribution one, a
	// tie counting ½.
	AUROC float64 `yaml:"auroc" json:"auroc"`

	// AUPRIn and AUPROut are average precisions, Σ_i (R_i − R_{i−1}) P_i over the distinct scores, with the in- and
	// the out-of-distribution examples as the positive class. They depend on the ratio of the two sample sizes.
	AUPRIn  float64 `yaml:"aupr_in" json:"aupr_in"`
	AUPROut float64 `yaml:"aupr_out" json:"aupr_out"`

	// The literature has two figures called FPR@95TPR. They differ in which class is positive.
	//
	// FPR95 has the in-distribution examples as positive: the fraction of out-of-distribution examples accepted
	// (score ≤ threshold) by the lowest threshold that accepts at least 95 % of the in-distribution ones. This is
	// the figure of ODIN (Liang et al. 2018), of most papers since, and of the first OpenOOD.
	//
	// FPR95OOD has the out-of-distribution examples as positive: the fraction of in-distribution examples flagged
	// (score ≥ threshold) by the highest threshold that flags at least 95 % of the out-of-distribution ones. This
	// is the figure of OpenOOD today (auc_and_fpr_recall) and pytorch-ood (FPR95TPR). Bundles leave it out if it is 0,
	// and do not have it in format 1.
	FPR95    float64 `yaml:"fpr95" json:"fpr95"`
	FPR95OOD float64 `yaml:"fpr95_ood,omitempty" json:"fpr95_ood"`
}

// Detect measures scores of in- and out-of-distribution examples, in any order; higher means more
// out-of-distribution. It does not change the slices and costs O(n log n). The error says which slice is empty or
// holds a NaN.
func Detect(in, out []float64) (OOD, error) {
	d, err := newDetector(in, out)
	if err != nil {
		return OOD{}, err
	}
	return d.measure(slices.Repeat([]int32{1}, len(in)+len(out)), false), nil
}

// detector holds scores in order, and measures them for any number of draws of their examples.
type detector struct {
	in, out int // examples
	order   []place
}

func newDetector(in, out []float64) (*detector, error) {
	order, err := rank(in, out)
	if err != nil {
		return nil, err
	}
	return &detector{len(in), len(out), order}, nil
}

// measure returns the figures where each example is drawn weights times, first the in-distribution examples, then
// the others; aurocOnly leaves the other figures out. There are as many draws of each kind as examples. It is
// the hot loop of [Resample], and so branches as little as it can.
func (d *detector) measure(weights []int32, aurocOnly bool) OOD {
	var (
		g             group
		wins          int64 // twice the number of (in, out) pairs in order, a tie counting 1
		best          int64 // largest P(in ≤ t) - P(out ≤ t), times in·out
		precisionsIn  float64
		precisionsOut float64
		accepted      = -1 // out-of-distribution examples, with 95 % of the others; -1 before it is known
		flagged       int  // in-distribution examples, with 95 % of the others
	)
	nIn, nOut := d.in, d.out
	// In integers: 0.95·n rounds up for some n and would ask for one more.
	need, needOut := (95*nIn+99)/100, (95*nOut+99)/100
	for _, p := range d.order {
		n := int(weights[p.at])
		outside := n & -int(p.out)
		g.tiedOut += outside
		g.tiedIn += n - outside
		if !p.last {
			continue
		}
		// None of a group may have been drawn, and then none may be left: hence the max(1, …).
		wins += g.wins(nOut)
		next := group{in: g.in + g.tiedIn, out: g.out + g.tiedOut}
		if aurocOnly {
			g = next
			continue
		}
		// Out as positive: the flagged are those from this group on.
		precisionsOut += float64(g.tiedOut) * (float64(nOut-g.out) / float64(max(1, nIn-g.in+nOut-g.out)))
		// In as positive: the accepted are those up to and with this group.
		precisionsIn += float64(g.tiedIn) * (float64(next.in) / float64(max(1, next.in+next.out)))
		best = max(best, int64(next.in)*int64(nOut)-int64(next.out)*int64(nIn))
		if accepted < 0 && next.in >= need {
			accepted = next.out
		}
		if nOut-g.out >= needOut {
			flagged = nIn - g.in
		}
		g = next
	}
	return OOD{
		N:        nOut,
		Accuracy: 0.5 + float64(best)/float64(nIn)/float64(nOut)/2,
		AUROC:    auroc(wins, nIn, nOut),
		AUPRIn:   precisionsIn / float64(nIn),
		AUPROut:  precisionsOut / float64(nOut),
		FPR95:    float64(accepted) / float64(nOut),
		FPR95OOD: float64(flagged) / float64(nIn),
	}
}

// place is one of the scores in ascending order.
type place struct {
	at   int32 // index among the in-distribution examples, then the others
	out  int8  // 0 or 1, not a bool: the order is random, and a branch on it would be mispredicted
	last bool  // of equal scores
}

func rank(in, out []float64) ([]place, error) {
	if err := checkScores(in, out); err != nil {
		return nil, err
	}
	type scored struct {
		score float64
		place
	}
	all := make([]scored, 0, len(in)+len(out))
	for i, v := range in {
		all = append(all, scored{v, place{at: int32(i)}})
	}
	for i, v := range out {
		all = append(all, scored{v, place{at: int32(len(in) + i), out: 1}})
	}
	slices.SortFunc(all, func(a, b scored) int { return cmp.Compare(a.score, b.score) })
	order := make([]place, len(all))
	for i, s := range all {
		order[i] = s.place
		order[i].last = i+1 == len(all) || all[i+1].score != s.score
	}
	return order, nil
}

// AUROC returns the AUROC alone. It overwrites scratch, and does not allocate if that has room for
// len(in)+len(out) values. It does not change in and out.
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

// A group is all examples of one score: how many of each kind have it (tied), and how many score lower.
type group struct {
	in, out         int
	tiedIn, tiedOut int
}

// wins is twice the number of pairs of an in-distribution example of this group and one of nOut out-of-distribution
// examples that scores higher, a tie counting half: exact for up to 2^62 pairs.
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
