// Package layer describes the last layer of a classifier: its shape and its link, the function that turns
// logits into probabilities. The packages that read graphs and those that compute share these types.
//
// To add a link: its row in links and, if it normalises, its case in [LogWeights]; its derivatives and
// log-probabilities in calibrate/link.go, after a formula in package meanfield.
package layer

import (
	"fmt"
	"slices"
	"strings"
)

// Link is the function that turns logits into probabilities.
type Link string

const (
	// Softmax is for K ≥ 2 mutually exclusive classes.
	Softmax Link = "softmax"
	// Sigmoid with one logit is for two classes, with probabilities [1-p, p]; with K ≥ 2 logits it is for
	// multi-label classification.
	Sigmoid Link = "sigmoid"
	// OneVsRest is for K ≥ 2 mutually exclusive classes with a sigmoid each. The K probabilities are
	// normalised to sum to 1.
	OneVsRest Link = "one-vs-rest"
)

type row struct {
	Link
	operators  []string // of ONNX, which compute it or its logarithm, before values are divided by their sum
	separate   bool     // see [Link.Separate]
	normalised bool     // values are divided by their sum
}

// links lists the links. Of those that apply a function to each logit, one may leave its values as they are
// and another divide them by their sum over the classes.
var links = []row{
	{Softmax, []string{"Softmax", "LogSoftmax"}, false, false},
	{Sigmoid, []string{"Sigmoid"}, true, false},
	{OneVsRest, []string{"Sigmoid"}, true, true},
}

// All lists the links.
var All = func() (all []Link) {
	for _, l := range links {
		all = append(all, l.Link)
	}
	return all
}()

// Validate reports a link that is not in [All].
func (l Link) Validate() error {
	if slices.Contains(All, l) {
		return nil
	}
	return fmt.Errorf("link %q, want %s", string(l), Names())
}

// Separate reports whether every logit was trained by a binary likelihood of its own. The second derivatives
// between the weights of two logits are then zero, and mf0 divides each logit by its own T_k only.
func (l Link) Separate() bool {
	return slices.ContainsFunc(links, func(x row) bool { return x.Link == l && x.separate })
}

// Normalised reports whether the link computes a value for each logit by itself and divides these by their
// sum. [LogWeights] returns the logarithms of the values.
func (l Link) Normalised() bool {
	return slices.ContainsFunc(links, func(x row) bool { return x.Link == l && x.normalised })
}

// Normalise returns the link that divides the values of l by their sum, or l if there is none or l does so
// itself.
func (l Link) Normalise() Link {
	for _, of := range links {
		for _, x := range links {
			if of.Link == l && x.normalised && slices.Equal(of.operators, x.operators) {
				return x.Link
			}
		}
	}
	return l
}

// ByOperator maps the names of ONNX operators to the links that they compute: Sigmoid to [Sigmoid].
func ByOperator() map[string]Link {
	of := map[string]Link{}
	for _, l := range slices.Backward(links) {
		for _, op := range l.operators {
			of[op] = l.Link
		}
	}
	return of
}

// Names lists the links for messages.
func Names() string {
	names := make([]string, len(All))
	for i, l := range All {
		names[i] = string(l)
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// Arithmetic computes element by element, with numbers or in a graph: formulas written in it are the same for
// both. V is a value, such as a slice of float64 or the name of a tensor.
type Arithmetic[V any] interface {
	Number(x float64) V
	Add(x, y V) V
	Sub(x, y V) V
	Mul(x, y V) V
	Neg(x V) V
	Abs(x V) V
	Expm1(x V) V // exp x - 1, for x up to ½
	Log1p(x V) V // log(1+x), for x from -½ on
}

// LogWeights returns for each logit y the logarithm, up to a constant, of what its probability is proportional
// to under a [Link.Normalised] link. For [Softmax] that is the logit itself.
func LogWeights[V any](a Arithmetic[V], l Link, y V) V {
	switch l {
	case Softmax:
		return y
	case OneVsRest:
		return logSigmoid(a, y)
	}
	panic("layer: the link " + string(l) + " does not normalise")
}

// logSigmoid returns log 2σ(y), which is -log(1 + (exp(-y)-1)/2) for y ≥ 0, and y + log 2σ(-y) below. Near y = 0 it
// is y/2, with all its digits.
func logSigmoid[V any](a Arithmetic[V], y V) V {
	half, size := a.Number(0.5), a.Abs(y)
	negative := a.Mul(a.Sub(y, size), half) // min(y, 0)
	return a.Sub(negative, a.Log1p(a.Mul(a.Expm1(a.Neg(size)), half)))
}
