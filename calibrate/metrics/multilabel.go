package metrics

import (
	"fmt"
)

// MultiLabel measures predictions of k independent labels, one example at a time. Each label is a decision between
// two classes, absent and present, and the figures of n examples are those of a [Classifier] over the n·k
// decisions: error at p > ½, binary NLL, ECE of the predicted side's probability, Brier as the mean of 2(p-y)².
type MultiLabel struct {
	k         int
	decisions *Classifier
	outcomes  []outcome // of one example
	p         []float64 // of the presence of each label, of one example
}

// NewMultiLabel returns an empty accumulator for k labels. bins is the number of ECE bins, 0 for [DefaultBins]. It
// panics if k < 1 or bins < 0.
func NewMultiLabel(k, bins int) *MultiLabel {
	if k < 1 {
		panic(fmt.Sprintf("metrics: multi-label of %d labels", k))
	}
	c := NewClassifier(2, bins)
	c.each, c.classes = k, newClasses(k, len(c.bins))
	return &MultiLabel{k: k, decisions: c, outcomes: make([]outcome, k), p: make([]float64, k)}
}

// Add counts one example: logp [k,2] holds log(1-p_k) and log p_k, targets [k] are 0 or 1. It panics for other
// lengths. After an error the example is not counted.
func (m *MultiLabel) Add(logp []float64, targets []uint8) error {
	if len(logp) != 2*m.k || len(targets) != m.k {
		panic(fmt.Sprintf("metrics: %d log-probabilities and %d targets for %d labels", len(logp), len(targets), m.k))
	}
	c := m.decisions
	for i, y := range targets {
		var err error
		if m.outcomes[i], err = c.measure(logp[2*i:2*i+2], int(y)); err != nil {
			return fmt.Errorf("example %d: label %d: %w", c.n/m.k, i, err)
		}
		m.p[i] = c.p[1]
	}
	for i, y := range targets {
		c.classes[i].count(m.p[i], y == 1)
		c.classes[i].labelled(!m.outcomes[i].right)
	}
	c.count(m.outcomes)
	return nil
}

// Result returns the figures over the examples added so far, zero if there are none.
func (m *MultiLabel) Result() InDomain { return m.decisions.Result() }

// Decisions returns the Classifier of all decisions, for its other figures.
func (m *MultiLabel) Decisions() *Classifier { return m.decisions }
