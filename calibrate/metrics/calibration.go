package metrics

import "math"

// Reliability says in more than one figure how honest probabilities are.
type Reliability struct {
	// DebiasedCE is the ℓ2 calibration error of the top class over the bins of the ECE, less what
	// chance adds to it: the debiased estimator of Kumar, Liang and Ma ("Verified Uncertainty
	// Calibration", 2019, definition 4.3), √max(0, E) with
	//
	//	E = Σ_b (n_b/n) [(accuracy_b − mean confidence_b)² − accuracy_b (1 − accuracy_b)/(n_b − 1)].
	//
	// Few examples make an ECE large even if every probability is right: 500 of 15 bins some 5 %.
	// They do not make E large: of right probabilities it is 0 on average, half of the time
	// negative, and then 0 is given. A bin of one example counts 0: it has no variance. Like the ECE
	// it does not see errors that cancel within a bin.
	DebiasedCE float64 `json:"debiased_ce"`

	// ClasswiseECE is the mean over the classes of the ECE of p_k as a probability of class k, over
	// all examples (Kull et al., "Beyond temperature scaling", 2019, equation 2).
	ClasswiseECE float64 `json:"classwise_ece"`
}

// ClassFigures are those of one class.
type ClassFigures struct {
	N     int     `json:"n"`     // examples of this label; of many labels all examples
	Error float64 `json:"error"` // the fraction of them that is predicted wrongly; 0 of none
	ECE   float64 `json:"ece"`   // of p_k as a probability of this class, over all examples
}

// Reliability returns the figures over the examples added so far: the zero Reliability if there
// are none.
func (c *Classifier) Reliability() (r Reliability) {
	if c.n == 0 {
		return r
	}
	r.DebiasedCE = root(debiased(c.bins, float64(c.n)))
	for _, f := range c.Classes() {
		r.ClasswiseECE += f.ECE / float64(len(c.classes))
	}
	return r
}

// Classes returns the figures of each class or label.
func (c *Classifier) Classes() []ClassFigures {
	all := make([]ClassFigures, len(c.classes))
	for k, of := range c.classes {
		all[k].N = of.n
		if of.n > 0 {
			all[k].Error = float64(of.wrong) / float64(of.n)
		}
		if c.n > 0 {
			all[k].ECE = ece(of.bins, float64(c.n/c.each))
		}
	}
	return all
}

// bin is a bin of confidences: how many, their sum, and how many of them came true.
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

// debiased estimates the square of the ℓ2 calibration error of n decisions, see
// [Reliability.DebiasedCE]. It may be negative.
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

// root is the error of which e estimates the square.
func root(e float64) float64 { return math.Sqrt(math.Max(0, e)) }

// class counts what concerns one class.
type class struct {
	bins     []bin // of its probability, over all examples
	n, wrong int   // its examples
}

func newClasses(k, bins int) []class {
	all, of := make([]class, k), make([]bin, k*bins)
	for i := range all {
		all[i].bins = of[i*bins : (i+1)*bins]
	}
	return all
}

func (c *class) count(p float64, is bool) { c.bins[binOf(p, len(c.bins))].add(p, is) }

func (c *class) labelled(wrong bool) {
	c.n++
	if wrong {
		c.wrong++
	}
}

// binOf returns the b for which b/bins < p <= (b+1)/bins. Rounding may put
// p·bins on the wrong side of an edge, so the edges have the last word.
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
