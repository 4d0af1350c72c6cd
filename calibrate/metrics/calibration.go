package metrics

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
	Class string  `json:"class,omitempty"` // its name, for who knows it
	N     int     `json:"n"`               // examples of this label; of many labels all examples
	Error float64 `json:"error"`           // the fraction of them that is predicted wrongly; 0 of none
	ECE   float64 `json:"ece"`             // of p_k as a probability of this class, over all examples
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
