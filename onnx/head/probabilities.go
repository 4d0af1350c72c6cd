package head

import (
	"math"
	"strings"

	"github.com/mfgs/mfgs/internal/onnx/graph"
)

// each applies f to every number.
func each(f func(float64) float64) after {
	return func(y []float64) []float64 {
		for i, x := range y {
			y[i] = f(x)
		}
		return y
	}
}

// The functions below are the probs functions of the table steps.

// toProbs turns log-probabilities into probabilities.
func toProbs(p *passage) error {
	p.logarithms, p.after = false, append(p.after, each(math.Exp))
	return nil
}

// toLogs turns probabilities into log-probabilities.
func toLogs(p *passage) error {
	p.logarithms, p.after = true, append(p.after, each(math.Log))
	return nil
}

// normalise divides by the sum over the classes. Normalised sigmoids are one-vs-rest.
func normalise(p *passage) error {
	if p.k > 1 {
		p.trail.link = p.trail.link.Normalise()
	}
	if p.trail.link.Normalised() && len(p.after) == 0 && !p.normalised {
		p.normalised = true
		return nil
	}
	p.after = append(p.after, func(y []float64) []float64 {
		sum := 0.0
		for _, x := range y {
			sum += x
		}
		return each(func(x float64) float64 { return x / sum })(y)
	})
	return nil
}

// addComplement turns p into [1−p, p].
func addComplement(p *passage) error {
	p.after = append(p.after, func(y []float64) []float64 { return []float64{1 - y[0], y[0]} })
	return nil
}

// column selects classes. Find accepts that if the outputs together hold all classes.
func column(p *passage) error {
	if p.columns != nil || p.picked || !p.selectsClasses() {
		return p.unexpected()
	}
	k := p.classes()
	rows, err := p.chosen(p.trail, p.call, k)
	if err != nil {
		return err
	}
	p.columns = rows
	p.now.class, p.now.merged = noClass, false
	return nil
}

// ofOne passes a mean over axes of length 1, which changes no number. One over the examples leaves another first axis.
func ofOne(p *passage) error {
	before, known := width(&p.at.Value)
	after, alsoKnown := width(&p.now.Value)
	if known && alsoKnown && before == after && p.at.Dims[0] == p.now.Dims[0] {
		return move(p)
	}
	if s := &p.spread; p.k == 1 && p.logits == "" && s.name != "" && s.mayBeOne() && p.at.Dims != nil && !known {
		// Silero's detector averages the steps of a window, of which there is one. Of more the runtime gives rows of
		// another width than is declared, which fails.
		p.trail.logits, p.trail.found, p.trail.averaged = s.name, s.at.Value, true
		return move(p)
	}
	return column(p)
}

// unexpected refuses an operator after the probabilities.
func (p *passage) unexpected() error {
	n := p.node
	r := graph.RefuseAt(n, "%s follows %s", p.describe(n), strings.Join(p.tail, ", "))
	switch n.Op() {
	case "ReduceMean", "GlobalAveragePool":
		r.Reason += ": " + noAverage
	}
	return r
}

// makeLogProbs turns logits into log-probabilities.
func makeLogProbs(p *passage) error {
	p.pastLogits, p.trail.link = true, p.hop.step.link
	p.logarithms, p.after = true, append(p.after, each(math.Log))
	return nil
}
