package layer_test

import (
	"testing"

	"github.com/mfgs/mfgs/calibrate/layer"
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
