package metrics

import "math"

// bin is a bin of confidences: their number, their sum, and the number of right predictions.
type bin struct{ n, confidence, right float64 }

func (b *bin) add(confidence float64, right bool) {
	b.n++
	b.confidence += confidence
	if right {
		b.right++
	}
}

// ece is the ℓ1 calibration error of n decisions.
func ece(bins []bin, n float64) (gap float64) {
	for _, b := range bins {
		gap += math.Abs(b.right - b.confidence)
	}
	return gap / n
}

// debiased estimates the square of the ℓ2 calibration error of n decisions, see [Reliability]. It may be negative.
func debiased(bins []bin, n float64) (e float64) {
	for _, b := range bins {
		if b.n < 2 {
			continue
		}
		gap, accuracy := (b.right-b.confidence)/b.n, b.right/b.n
		e += b.n / n * (gap*gap - accuracy*(1-accuracy)/(b.n-1))
	}
	return e
}

// root is the error whose square e estimates.
func root(e float64) float64 { return math.Sqrt(math.Max(0, e)) }

// classCounts are the counts of one class.
type classCounts struct {
	bins     []bin // of its probability, over all examples
	n, wrong int   // examples with this label
}

func newClasses(k, bins int) []classCounts {
	all, of := make([]classCounts, k), make([]bin, k*bins)
	for i := range all {
		all[i].bins = of[i*bins : (i+1)*bins]
	}
	return all
}

func (c *classCounts) count(p float64, is bool) { c.bins[binOf(p, len(c.bins))].add(p, is) }

func (c *classCounts) labelled(wrong bool) {
	c.n++
	if wrong {
		c.wrong++
	}
}

// binOf returns the b with b/bins < p <= (b+1)/bins. p·bins may round to the wrong side of an edge, so the edges
// decide.
func binOf(p float64, bins int) int {
	n := float64(bins)
	b := min(max(int(math.Ceil(p*n))-1, 0), bins-1)
	if b > 0 && p <= float64(b)/n {
		b--
	} else if b < bins-1 && p > float64(b+1)/n {
		b++
	}
	return b
}
