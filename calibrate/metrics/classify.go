package metrics

import (
	"errors"
	"fmt"
	"math"

	"github.com/mfgs/mfgs/calibrate/layer"
)

// InDomain is the accuracy and calibration of probabilities on labelled examples.
type InDomain struct {
	N     int     `yaml:"examples" json:"n"`  // examples
	Error float64 `yaml:"error" json:"error"` // fraction whose most probable class is not the label
	NLL   float64 `yaml:"nll" json:"nll"`     // mean −log p(label), nats
	ECE   float64 `yaml:"ece" json:"ece"`     // expected calibration error of the top class, see [Classifier]
	Brier float64 `yaml:"brier" json:"brier"` // mean Σ_k (p_k − y_k)², in [0, 2]
}

// Implausible reports whether the figures of a network's own probabilities suggest wrong labels, class order or inputs:
// at most chance accuracy, up to three standard errors, or an error above ½ with a calibration error above 0.3. With
// fewer than 20 examples it is false.
func (m InDomain) Implausible(classes int) bool {
	const enough, often, excess = 20, 0.5, 0.3
	if m.N < enough || classes < 2 {
		return false
	}
	chance := 1 / float64(classes)
	byChance := chance + 3*math.Sqrt(chance*(1-chance)/float64(m.N))
	return 1-m.Error <= byChance || m.Error > often && m.ECE > excess
}

// sumTolerance is how far from 1 the probabilities of one example may sum. A softmax in float32 over 21,841
// classes stays within 1e-4; logits passed by mistake as log-probabilities are far off.
const sumTolerance = 1e-3

// DefaultBins is the number of bins of the ECE for k classes: 10, and 15 from 1000 classes on, as in the
// literature on ImageNet (Guo et al., "On Calibration of Modern Neural Networks", 2017).
func DefaultBins(k int) int {
	if k >= 1000 {
		return 15
	}
	return 10
}

// Classify measures n examples at once. logp is row-major [n,k], natural logarithms of the class probabilities;
// labels has n entries in [0,k); bins is the number of ECE bins, 0 for [DefaultBins]. See [Classifier] for the
// definitions. A head with one logit has k = 2.
//
// It panics if len(logp) != len(labels)*k, k < 2 or bins < 0. The error names the first example whose row or
// label is bad, or says that there are no examples.
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

// Classifier measures examples one by one. It keeps 64 bytes of each, not its probabilities, for
// [Classifier.Selective] and [Resample].
//
//   - The predicted class is the most probable one, the first of several; but see [NewCorrectness].
//   - NLL is the mean of −logp[label]: exact where the probability would underflow, and +Inf only where
//     logp[label] is −Inf.
//   - ECE is the ℓ1 calibration error of the confidence max p over equal-width
//     bins (l, u]: Σ_b (n_b/n) |accuracy_b − mean confidence_b|.
//   - Brier is the mean over examples of Σ_k (p_k − [k = label])².
type Classifier struct {
	k       int
	answer  int // the class that is always predicted, or -1 for the most probable
	each    int // decisions per example: 1, for multi-label heads one per label
	n       int // decisions
	wrong   int
	nll     float64
	brier   float64
	bins    []bin
	classes []classCounts
	kept    exampleStats
	p       []float64 // of one example
	one     [1]outcome
}

// NewClassifier returns an empty accumulator for k classes. bins is the number of ECE bins, 0 for [DefaultBins].
// It panics if k < 2 or bins < 0.
func NewClassifier(k, bins int) *Classifier {
	if k < 2 || bins < 0 {
		panic(fmt.Sprintf("metrics: classifier of %d classes and %d bins", k, bins))
	}
	if bins == 0 {
		bins = DefaultBins(k)
	}
	return &Classifier{
		k: k, answer: -1, each: 1, bins: make([]bin, bins), classes: newClasses(k, bins), p: make([]float64, k),
	}
}

// NewCorrectness returns an accumulator for the probabilities that answers are wrong and right, two classes of which
// the second is always predicted: see [layer.Head]. Confidence is its probability.
func NewCorrectness(bins int) *Classifier {
	c := NewClassifier(2, bins)
	c.answer = layer.Right
	return c
}

// Add counts one example with the natural logarithms of its k class probabilities, −Inf for a probability of 0,
// and its label. It panics if len(logp) != k. After an error the example is not counted.
func (c *Classifier) Add(logp []float64, label int) error {
	if len(logp) != c.k {
		panic(fmt.Sprintf("metrics: %d log-probabilities for %d classes", len(logp), c.k))
	}
	o, err := c.measure(logp, label)
	if err != nil {
		return fmt.Errorf("example %d: %w", c.n, err)
	}
	for k, p := range c.p {
		c.classes[k].count(p, k == label)
	}
	c.classes[label].labelled(!o.right)
	c.one[0] = o
	c.count(c.one[:])
	return nil
}

// measure returns what to count, and leaves the probabilities in c.p.
func (c *Classifier) measure(logp []float64, label int) (outcome, error) {
	if label < 0 || label >= c.k {
		return outcome{}, fmt.Errorf("label %d is out of range: the classes are 0 to %d", label, c.k-1)
	}
	top := 0
	var sum, brier float64
	for k, lp := range logp {
		if k == c.answer || c.answer < 0 && lp > logp[top] {
			top = k
		}
		p := math.Exp(lp)
		c.p[k] = p
		sum += p
		if k == label {
			p -= 1
		}
		brier += p * p
	}
	// NaN fails.
	if !(math.Abs(sum-1) <= sumTolerance) {
		return outcome{}, fmt.Errorf("the probabilities sum to %.6g, want 1: are these log-probabilities?", sum)
	}
	var uncertainty float64
	for k, p := range c.p {
		if k != top {
			uncertainty += p
		}
	}
	return outcome{top == label, c.p[top], uncertainty, -logp[label], brier}, nil
}

// count counts the decisions of one example.
func (c *Classifier) count(example []outcome) {
	for _, o := range example {
		b := &c.bins[binOf(o.confidence, len(c.bins))]
		b.add(o.confidence, o.right)
		if !o.right {
			c.wrong++
		}
		c.nll += o.nll
		c.brier += o.brier
		c.n++
	}
	c.kept.add(example, len(c.bins))
}

// Result returns the figures over the examples added so far, zero if there are none.
func (c *Classifier) Result() InDomain {
	if c.n == 0 {
		return InDomain{}
	}
	n := float64(c.n)
	return InDomain{
		N:     c.n / c.each,
		Error: float64(c.wrong) / n,
		NLL:   c.nll / n,
		ECE:   ece(c.bins, n),
		Brier: c.brier / n,
	}
}
