package layer_test

import (
	"testing"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/internal/testerr"
)

func TestSizesOfAHeadFollowFromItsLogitsAndLink(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		link                                       layer.Link
		logits, classes, probabilities, categories int
		multiLabel                                 bool
	}{
		{layer.Softmax, 5, 5, 5, 5, false},
		{layer.OneVsRest, 5, 5, 5, 5, false},
		{layer.Sigmoid, 1, 2, 2, 2, false},
		{layer.Sigmoid, 5, 5, 10, 2, true},
	} {
		h := layer.Head{Features: 3, Logits: c.logits, Link: c.link}
		if h.Classes() != c.classes || h.Probabilities() != c.probabilities || h.Categories() != c.categories ||
			h.MultiLabel() != c.multiLabel {
			t.Errorf("%s of %d logits: %d classes, %d probabilities, %d categories, multi-label %v, want %+v",
				c.link, c.logits, h.Classes(), h.Probabilities(), h.Categories(), h.MultiLabel(), c)
		}
	}
}

// An answer that is right or wrong stands, however improbable; a class is the most probable one.
func TestAnAnswerStands(t *testing.T) {
	t.Parallel()
	classes := layer.Head{Logits: 2, Link: layer.Softmax, Nonlinear: true}
	answers := classes
	answers.Correctness = true
	for _, p := range [][]float64{{0.9, 0.1}, {0.5, 0.5}, {0.2, 0.8}, {1, 0}} {
		logits, best := []float32{float32(p[0]), float32(p[1])}, 0
		if p[1] > p[0] {
			best = 1
		}
		if classes.Answer(p) != best || classes.Predicted(logits) != best {
			t.Errorf("of classes with %v: %d and %d, want %d", p, classes.Answer(p), classes.Predicted(logits), best)
		}
		if answers.Answer(p) != layer.Right || answers.Predicted(logits) != layer.Right {
			t.Errorf("of answers with %v: %d and %d", p, answers.Answer(p), answers.Predicted(logits))
		}
	}
}

func TestHeadsOfCorrectnessAreOfTwoClasses(t *testing.T) {
	t.Parallel()
	good := layer.Head{Logits: 2, Link: layer.Softmax, Nonlinear: true, Correctness: true}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*layer.Head){
		"a linear layer": func(h *layer.Head) { h.Nonlinear, h.Features = false, 3 },
		"three classes":  func(h *layer.Head) { h.Logits = 3 },
		"labels":         func(h *layer.Head) { h.Link = layer.Sigmoid },
		"one logit":      func(h *layer.Head) { h.Link, h.Logits = layer.Sigmoid, 1 },
		"one-vs-rest":    func(h *layer.Head) { h.Link = layer.OneVsRest },
	} {
		t.Run(name, func(t *testing.T) {
			bad := good
			change(&bad)
			testerr.OneLine(t, bad.Validate(), "correctness", "want softmax, 2 and true")
		})
	}
}
