package metrics

import (
	"errors"
	"fmt"
	"math"
)

// InDomain says how right and how honest probabilities are on labelled examples.
type InDomain struct {
	N     int     `yaml:"examples" json:"n"`  // examples
	Error float64 `yaml:"error" json:"error"` // fraction whose most probable class is not the label
	NLL   float64 `yaml:"nll" json:"nll"`     // mean −log p(label), nats
	ECE   float64 `yaml:"ece" json:"ece"`     // expected calibration error of the top class, see [Classifier]
	Brier float64 `yaml:"brier" json:"brier"` // mean Σ_k (p_k − y_k)², in [0, 2]
}

// sumTolerance is how far the probabilities of one example may be from summing
// to 1. A softmax in float32 over 21,841 classes stays within 1e-4; logits
// given by mistake for log-probabilities do not come near.
const sumTolerance = 1e-3

// DefaultBins is the number of confidence bins of the ECE for k classes: 10,
// and 15 from 1000 classes on, as in the literature on ImageNet (Guo et al.,
// "On Calibration of Modern Neural Networks", 2017).
func DefaultBins(k int) int {
	if k >= 1000 {
		return 15
	}
	return 10
}

// Classify measures n examples at once. logp is row-major [n, k], the natural
// logarithms of the class probabilities; labels has n entries in [0, k); bins
// is the number of ECE bins, 0 for [DefaultBins]. See [Classifier] for the
// definitions. A head with one logit is measured with k = 2.
//
// It panics if len(logp) != len(labels)*k, k < 2 or bins < 0. The error names
// the first example whose row or label is bad, or says that there is none.
func Classify(logp []float64, k int, labels []int, bins int) (InDomain, error) {
	if len(logp) != len(labels)*k {
		panic(fmt.Sprintf("metrics: %d log-probabilities for %d labels of %d classes", len(logp), len(labels), k))
	}
	if len(labels) == 0 {
		return InDomain{}, errors.New("no labelled examples to measure")
	}
	c := NewClassifier(k, bins)
	for i, y := range labels {
		if err := c.Add(logp[i*k:(i+1)*k], int(y)); err != nil {
			return InDomain{}, err
		}
	}
	return c.Result(), nil
}

// Classifier measures one example after the other, in memory independent of their number.
//
//   - The predicted class is the most probable one, the lowest of several.
//   - NLL is the mean of −logp[label]. It is taken from the logarithm given, so
//     it is exact where the probability itself would underflow, and +Inf only
//     where logp[label] is −Inf.
//   - ECE is the ℓ1 calibration error of the confidence max p over equal-width
//     bins (l, u]: Σ_b (n_b/n) |accuracy_b − mean confidence_b|.
//   - Brier is the mean over examples of Σ_k (p_k − [k = label])².
type Classifier struct {
	k     int
	n     int
	wrong int
	nll   float64
	brier float64
	bins  []bin
}

type bin struct {
	confidence float64 // sum over the examples in the bin
	right      float64 // their number with the right class on top
}

// NewClassifier returns an empty accumulator for k classes. bins is the number
// of ECE bins, 0 for [DefaultBins]. It panics if k < 2 or bins < 0.
func NewClassifier(k, bins int) *Classifier {
	if k < 2 || bins < 0 {
		panic(fmt.Sprintf("metrics: classifier of %d classes and %d bins", k, bins))
	}
	if bins == 0 {
		bins = DefaultBins(k)
	}
	return &Classifier{k: k, bins: make([]bin, bins)}
}

// Add counts one example. logp holds the natural logarithms of its k class
// probabilities, −Inf for a probability of 0, and label its class. Add panics
// if len(logp) != k. After an error the example is not counted.
func (c *Classifier) Add(logp []float64, label int) error {
	if len(logp) != c.k {
		panic(fmt.Sprintf("metrics: %d log-probabilities for %d classes", len(logp), c.k))
	}
	o, err := c.measure(logp, label)
	if err != nil {
		return fmt.Errorf("example %d: %w", c.n, err)
	}
	c.count(o)
	return nil
}

// outcome is what there is to count of one example.
type outcome struct {
	right                  bool
	confidence, nll, brier float64
}

func (c *Classifier) measure(logp []float64, label int) (outcome, error) {
	if label < 0 || label >= c.k {
		return outcome{}, fmt.Errorf("label %d is out of range: the classes are 0 to %d", label, c.k-1)
	}
	top := 0
	var sum, brier float64
	for k, lp := range logp {
		if lp > logp[top] {
			top = k
		}
		p := math.Exp(lp)
		sum += p
		if k == label {
			p -= 1
		}
		brier += p * p
	}
	// Written so that a NaN fails.
	if !(math.Abs(sum-1) <= sumTolerance) {
		return outcome{}, fmt.Errorf("the probabilities sum to %.6g, want 1: are these log-probabilities?", sum)
	}
	return outcome{right: top == label, confidence: math.Exp(logp[top]), nll: -logp[label], brier: brier}, nil
}

func (c *Classifier) count(o outcome) {
	b := &c.bins[binOf(o.confidence, len(c.bins))]
	b.confidence += o.confidence
	if o.right {
		b.right++
	} else {
		c.wrong++
	}
	c.nll += o.nll
	c.brier += o.brier
	c.n++
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

// Result returns the figures over the examples added so far: the zero InDomain
// if there are none. The accumulator may go on counting.
func (c *Classifier) Result() InDomain {
	if c.n == 0 {
		return InDomain{}
	}
	n := float64(c.n)
	var gap float64
	for _, b := range c.bins {
		gap += math.Abs(b.right - b.confidence)
	}
	return InDomain{
		N:     c.n,
		Error: float64(c.wrong) / n,
		NLL:   c.nll / n,
		ECE:   gap / n,
		Brier: c.brier / n,
	}
}
