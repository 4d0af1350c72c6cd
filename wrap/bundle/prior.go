package bundle

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/internal/option"
	"github.com/mfgs/mfgs/internal/text"
)

// ResolvePrior returns the class frequencies in use that [Settings.Prior] asks for, [C], nil if there are none. Classes
// that it does not name share the rest in the proportions of ClassFrequencies. No frequency is below 1e-9, so that no
// class is impossible.
func (m *Manifest) ResolvePrior() ([]float64, error) {
	if m.Settings == nil || m.Settings.Prior == nil {
		return nil, nil
	}
	return resolvePrior(m.Settings.Prior, m.Labels, m.ClassFrequencies)
}

// CheckPrior reports why Prior cannot be resolved for a head's classes, whose names labels may be empty.
func (s *Settings) CheckPrior(h layer.Head, labels []string) error {
	if s.Prior == nil {
		return nil
	}
	if h.MultiLabel() {
		return option.Errorf("%s is for classes that exclude each other, and the head is multi-label: leave it out", option.Prior)
	}
	uniform := make([]float64, h.Classes())
	for c := range uniform {
		uniform[c] = 1 / float64(len(uniform))
	}
	_, err := resolvePrior(s.Prior, labels, uniform)
	return err
}

const leastPrior = 1e-9

func resolvePrior(named map[string]float64, labels []string, frequencies []float64) ([]float64, error) {
	prior := make([]float64, len(frequencies))
	for c := range prior {
		prior[c] = math.NaN()
	}
	sum := 0.0
	for _, name := range slices.Sorted(maps.Keys(named)) {
		c, err := classOf(name, labels, len(prior))
		if err != nil {
			return nil, err
		}
		if !math.IsNaN(prior[c]) {
			return nil, option.Errorf("%s has class %d twice, by name and by index", option.Prior, c)
		}
		prior[c] = named[name]
		sum += named[name]
	}
	rest := 0.0
	for c, v := range prior {
		if math.IsNaN(v) {
			rest += frequencies[c]
		}
	}
	const rounding = 1e-3
	if rest == 0 && math.Abs(sum-1) > rounding {
		return nil, option.Errorf("%s: the frequencies of all classes add up to %.6g, want 1", option.Prior, sum)
	}
	for c, v := range prior {
		if math.IsNaN(v) {
			v = max(0, 1-sum) * frequencies[c] / rest
		}
		prior[c] = max(v, leastPrior)
	}
	return prior, nil
}

// classOf returns the class that a name, or an index if no class has that name, stands for.
func classOf(name string, labels []string, classes int) (int, error) {
	c := slices.Index(labels, name)
	if c < 0 {
		i, err := strconv.Atoi(name)
		if err != nil || i < 0 || i >= classes {
			hint := fmt.Sprintf("want an index from 0 to %d", classes-1)
			if near := text.Nearest(name, labels); near != nil {
				hint = "did you mean " + near[0] + "?"
			} else if len(labels) > 0 {
				hint = "want a class name, or " + hint[len("want "):]
			}
			return 0, option.Errorf("%s: there is no class %.70q: %s", option.Prior, name, hint)
		}
		return i, nil
	}
	if slices.Contains(labels[c+1:], name) {
		return 0, option.Errorf("%s: several classes have the name %.70q: give the index", option.Prior, name)
	}
	return c, nil
}

// PriorName returns what a class is called in [Settings.Prior]: its name, or its index if it has none of its own.
func (m *Manifest) PriorName(class int) string {
	index := strconv.Itoa(class)
	if class >= len(m.Labels) {
		return index
	}
	if c, err := classOf(m.Labels[class], m.Labels, len(m.Labels)); err != nil || c != class {
		return index
	}
	return m.Labels[class]
}

// validatePrior reports frequencies that are wrong for any classes.
func validatePrior(prior map[string]float64) error {
	sum := 0.0
	for _, name := range slices.Sorted(maps.Keys(prior)) {
		v := prior[name]
		if !(v >= 0 && v <= 1) {
			return option.Errorf("%s: class %.70q has the frequency %v, want 0 to 1", option.Prior, name, v)
		}
		sum += v
	}
	if prior != nil && len(prior) == 0 {
		return option.Errorf("%s names no class", option.Prior)
	}
	if sum > 1+1e-3 {
		return option.Errorf("%s: the frequencies add up to %.6g, want at most 1", option.Prior, sum)
	}
	return nil
}

// prior checks class_frequencies, and that settings.prior can be resolved.
func (c *checks) prior(m *Manifest) {
	if f := m.ClassFrequencies; f != nil {
		c.that(!m.Head.MultiLabel(), "class_frequencies is for classes that exclude each other, and the head is multi-label")
		c.that(len(f) == m.Head.Classes(), "class_frequencies has %d numbers for %d classes", len(f), m.Head.Classes())
		for _, v := range f {
			c.that(v > 0 && v <= 1, "class_frequencies has %v, want more than 0 and at most 1", v)
		}
	}
	if m.Settings == nil || m.Settings.Prior == nil {
		return
	}
	c.that(m.ClassFrequencies != nil, "settings.prior needs class_frequencies")
	c.that(m.Probabilities != nil && m.Probabilities.Method != calibrate.MLE, "probabilities.method is mle, and settings.prior corrects only the other methods")
	if c.err == nil {
		_, err := m.ResolvePrior()
		c.nested("settings", err)
	}
}
