package metrics

import (
	"fmt"
)

// MultiLabel measures predictions of k labels that are told independently of each other, one
// example after the other. Each label of an example is a decision between two classes, absent and
// present, and the figures of n examples are those of a [Classifier] over the n·k decisions: error
// is the fraction of wrong ones at p > ½, NLL the mean binary one, ECE that of the probability of
// the side decided for, Brier the mean of 2(p-y)².
type MultiLabel struct {
	k         int
	decisions *Classifier
	outcomes  []outcome // of one example
}

// NewMultiLabel returns an empty accumulator for k labels. bins is the number of
// ECE bins, 0 for [DefaultBins]. It panics if k < 1 or bins < 0.
func NewMultiLabel(k, bins int) *MultiLabel {
	if k < 1 {
		panic(fmt.Sprintf("metrics: multi-label of %d labels", k))
	}
	return &MultiLabel{k: k, decisions: NewClassifier(2, bins), outcomes: make([]outcome, k)}
}

// Add counts one example. logp holds log(1-p_k) and log p_k of each label, [k,2];
// targets, each 0 or 1, what is true of it. Add panics if there are not 2k and k
// of them. After an error the example is not counted.
func (m *MultiLabel) Add(logp []float64, targets []uint8) error {
	if len(logp) != 2*m.k || len(targets) != m.k {
		panic(fmt.Sprintf("metrics: %d log-probabilities and %d targets for %d labels", len(logp), len(targets), m.k))
	}
	for i, y := range targets {
		var err error
		if m.outcomes[i], err = m.decisions.measure(logp[2*i:2*i+2], int(y)); err != nil {
			return fmt.Errorf("example %d: label %d: %w", m.decisions.n/m.k, i, err)
		}
	}
	for _, o := range m.outcomes {
		m.decisions.count(o)
	}
	return nil
}

// Result returns the figures over the examples added so far: the zero InDomain
// if there are none. The accumulator may go on counting.
func (m *MultiLabel) Result() InDomain {
	r := m.decisions.Result()
	r.N /= m.k
	return r
}
