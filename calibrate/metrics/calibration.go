package metrics

// Reliability is calibration errors beside the ECE.
type Reliability struct {
	// DebiasedCE is the ℓ2 calibration error of the top class over the bins of the ECE, without the bias of
	// small samples (Kumar, Liang and Ma, "Verified Uncertainty Calibration", 2019, definition 4.3): √max(0, E)
	// with
	//
	//	E = Σ_b (n_b/n) [(accuracy_b − mean confidence_b)² − accuracy_b (1 − accuracy_b)/(n_b − 1)].
	//
	// Few examples make an ECE large even if every probability is right: 500 examples in 15 bins, about 5 %.
	// E is then 0 on average, and negative half of the time. A bin of one example counts 0. Like the ECE it does
	// not see errors that cancel within a bin.
	DebiasedCE float64 `json:"debiased_ce"`

	// ClasswiseECE is the mean over classes of the ECE of p_k as a probability of class k (Kull et al., "Beyond
	// temperature scaling", 2019, equation 2).
	ClasswiseECE float64 `json:"classwise_ece"`
}

// ClassFigures are those of one class.
type ClassFigures struct {
	Class string  `json:"class,omitempty"` // its name, if known
	N     int     `json:"n"`               // examples with this label; all examples for multi-label heads
	Error float64 `json:"error"`           // the fraction of them predicted wrongly; 0 if there are none
	ECE   float64 `json:"ece"`             // of p_k as a probability of this class, over all examples
}

// Reliability returns the figures over the examples added so far, zero if there are none.
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
