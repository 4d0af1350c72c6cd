package head

import (
	"math"
	"slices"
	"strings"

	"github.com/mfgs/mfgs/internal/onnx/graph"
)

// each is the step that does the same to every number.
func each(f func(float64) float64) after {
	return func(y []float64) []float64 {
		for i, x := range y {
			y[i] = f(x)
		}
		return y
	}
}

// The functions below follow what operators do to probabilities.

// toLogs takes logarithms.
func toLogs(p *passage) error {
	p.logarithms, p.after = true, append(p.after, each(math.Log))
	return nil
}

// toProbs takes logarithms back.
func toProbs(p *passage) error {
	p.logarithms, p.after = false, append(p.after, each(math.Exp))
	return nil
}

// normalise divides by the sum over the classes, which is what makes one label of several sigmoids.
func normalise(p *passage) error {
	if p.trail.link == Sigmoid && p.k > 1 {
		p.trail.link = OneVsRest
	}
	if p.trail.link == OneVsRest && len(p.after) == 0 && !p.normalised {
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

// addComplement puts 1−p beside p.
func addComplement(p *passage) error {
	p.after = append(p.after, func(y []float64) []float64 { return []float64{1 - y[0], y[0]} })
	return nil
}

// boundProbs keeps probabilities in a range.
func boundProbs(p *passage) error {
	low, high := math.Inf(-1), math.Inf(1)
	switch x, of := p.In.Besides(p.node); {
	case p.node.GetOpType() == "Clip":
		low, high, _ = p.call.ClipBounds()
	case of != "" && p.node.GetOpType() == "Max":
		low = x
	case of != "":
		high = x
	}
	p.after = append(p.after, each(func(x float64) float64 { return min(max(x, low), high) }))
	return nil
}

// smooth scales and shifts the probabilities of all classes alike, as label smoothing does, or
// gives their logarithms the other sign.
func smooth(p *passage) error {
	if p.trail.link == "" || p.picked {
		return p.unexpected()
	}
	scale, shift, err := p.hop.step.constants(p)
	if err != nil {
		return err
	}
	a, b := 1.0, 0.0
	for _, x := range []struct {
		list []float64
		to   *float64
	}{{scale, &a}, {shift, &b}} {
		if len(x.list) == 0 {
			continue
		}
		if slices.Min(x.list) != slices.Max(x.list) {
			return graph.RefuseAt(p.node, "%s changes the probabilities of classes differently; export the model without it, "+
				"or put the logarithms of its factors into the bias", p.describe(p.node))
		}
		*x.to = x.list[0]
	}
	if !(a != 0) || a < 0 && !p.logarithms {
		return graph.RefuseAt(p.node, "%s turns the probabilities round: the largest becomes the smallest",
			p.describe(p.node))
	}
	p.negated = p.negated != (a < 0)
	p.after = append(p.after, each(func(x float64) float64 { return a*x + b }))
	p.now = p.at
	return nil
}

// column chooses among the classes, which Find takes if the outputs give all of them.
func column(p *passage) error {
	if p.columns != nil || p.picked || !p.selectsClasses() {
		return p.unexpected()
	}
	k := p.classes()
	if p.hop.step.anyOutput { // each output is one class
		i := slices.Index(p.node.GetOutput(), p.out)
		if len(p.node.GetOutput()) != k || i < 0 {
			return p.unexpected()
		}
		p.columns = []int{i}
	} else {
		rows, err := p.chosen(p.trail, p.call, k)
		if err != nil {
			return err
		}
		p.columns = rows
	}
	p.now.class, p.now.merged = noClass, false
	return nil
}

// unexpected refuses what follows probabilities.
func (p *passage) unexpected() error {
	n := p.node
	r := graph.RefuseAt(n, "%s follows %s", p.describe(n), strings.Join(p.tail, ", "))
	switch n.Op() {
	case "ReduceMean", "AveragePool", "GlobalAveragePool":
		r.Reason += ": " + noAverage
	}
	return r
}

// makeLogProbs makes logarithms of probabilities.
func makeLogProbs(p *passage) error {
	p.decided, p.trail.link = true, p.hop.step.link
	return toLogs(p)
}
