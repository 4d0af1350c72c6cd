package calibration

import (
	"strings"
	"testing"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/wrap/internal/part"
)

// checkWarning checks that a warning is one line that holds all of the words, and that
// there is none where there are no words.
func checkWarning(t *testing.T, name, got string, want ...string) {
	t.Helper()
	if (got == "") != (len(want) == 0) || strings.Contains(got, "\n") || len(got) > 400 {
		t.Errorf("%s: warning %q, want %q", name, got, want)
	}
	for _, w := range want {
		if !strings.Contains(got, w) {
			t.Errorf("%s: the warning %q does not say %q", name, got, w)
		}
	}
}

// counts are of n examples, of class or label k so many.
func counts(n int, of ...int) *part.Counts {
	return &part.Counts{Examples: n, Labelled: n, Labels: of, Predicted: of}
}

func unlabelled(n int, predicted ...int) *part.Counts {
	return &part.Counts{Examples: n, Labels: make([]int, len(predicted)), Predicted: predicted}
}

func TestClassesWithoutExamplesGiveAWarning(t *testing.T) {
	t.Parallel()
	head := func(k int) layer.Head { return layer.Head{Logits: k, Link: layer.Softmax} }
	multi := layer.Head{Logits: 3, Link: layer.Sigmoid}
	two := layer.Head{Logits: 1, Link: layer.Sigmoid}
	many := func(present int) []int {
		of := make([]int, 1000)
		for k := range present {
			of[k] = 5
		}
		return of
	}
	names := []string{"cat", "dog", "eel", "fox"}
	for name, tc := range map[string]struct {
		val   *part.Counts
		head  layer.Head
		names []string
		want  []string
	}{
		"all there":                {counts(300, 100, 1, 199), head(3), nil, nil},
		"one missing":              {counts(300, 100, 0, 200), head(3), nil, []string{"val: class 1 has no example among 300 validation examples", "sorted by class"}},
		"one missing, named":       {counts(300, 100, 0, 100, 100), head(4), names, []string{`class 1 ("dog") has no example`}},
		"two missing":              {counts(300, 100, 0, 200, 0), head(4), names, []string{`classes 1 ("dog"), 3 ("fox") have no example`}},
		"few of many classes":      {counts(3100, many(620)...), head(1000), nil, []string{"val: 380 of 1000 classes have no example among 3100", "sorted by class"}},
		"few, as chance has it":    {counts(1000, many(630)...), head(1000), nil, []string{"370 of 1000 classes", "give more examples"}},
		"a single class":           {counts(300, 0, 300, 0), head(3), names, []string{`all 300 validation examples are of class 1 ("dog")`, "sorted by class"}},
		"a single one of two":      {counts(300, 300, 0), two, nil, []string{"all 300 validation examples are of class 0"}},
		"labels":                   {counts(300, 10, 3, 299), multi, nil, nil},
		"a label of none":          {counts(300, 10, 0, 300), multi, names, []string{`label 1 ("dog") holds for none of 300 validation examples`}},
		"a name of the outlandish": {counts(300, 100, 0, 200), head(3), []string{"a", "b\x1b[2J\n", "c"}, []string{`class 1 ("b\x1b[2J\n")`}},
	} {
		checkWarning(t, name, absentValidation(tc.val, tc.head, tc.names), tc.want...)
	}

	balanced := counts(500, 100, 100, 100, 100, 100)
	for name, tc := range map[string]struct {
		train, val *part.Counts
		head       layer.Head
		want       []string
	}{
		"all there":                   {counts(1000, 990, 4, 2, 2, 2), balanced, head(5), nil},
		"the first of a sorted file":  {counts(1000, 500, 500, 0, 0, 0), balanced, head(5), []string{"train: classes 2, 3, 4 have no example among 1000 training examples", "sorted by class", "use a limit"}},
		"most missing":                {counts(1000, 1000, 0, 0, 0, 0), balanced, head(5), []string{"4 of 5 classes"}},
		"few of many, by chance":      {counts(1000, many(640)...), counts(5000, many(1000)...), head(1000), []string{"360 of 1000 classes", "give more examples"}},
		"unlabelled, all found":       {unlabelled(1000, 210, 190, 200, 195, 205), balanced, head(5), nil},
		"unlabelled, long-tailed":     {unlabelled(10000, 9000, 800, 150, 40, 10), counts(500, 450, 40, 8, 2, 0), head(5), nil},
		"unlabelled, sorted":          {unlabelled(1000, 497, 499, 1, 2, 1), balanced, head(5), []string{"the network predicts almost none of classes 2, 3, 4 among 1000 training examples", "use a limit"}},
		"unlabelled, never predicted": {unlabelled(1000, 250, 250, 250, 250, 0), counts(500, 125, 125, 125, 125, 0), head(5), nil},
		"unlabelled, too few to tell": {unlabelled(50, 10, 10, 20, 10, 0), balanced, head(5), nil},
		"labels":                      {counts(300, 10, 0, 300), counts(300, 10, 3, 200), multi, []string{"label 1 holds for none of 300 training examples"}},
	} {
		checkWarning(t, name, absentTrain(tc.train, tc.val, tc.head, nil), tc.want...)
	}
}

func TestTinyTrainingSetsGiveAWarning(t *testing.T) {
	t.Parallel()
	checkWarning(t, "one", fewTraining(counts(1)), "a single example")
	checkWarning(t, "three", fewTraining(counts(3)), "3 examples")
	checkWarning(t, "ten", fewTraining(counts(10)))
}

func TestScoresBelowChanceGiveAWarning(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		scores []detection
		n, m   int
		want   []string
	}{
		"all well":            {[]detection{{"ood_score", 0.8}, {"leverage", 0.7}}, 1000, 1000, nil},
		"leverage":            {[]detection{{"ood_score", 0.79}, {"leverage", 0.43}}, 1000, 1000, []string{"leverage (AUROC 0.43)", "ood_score has 0.79", "1000 OOD"}},
		"both":                {[]detection{{"ood_score", 0.3}, {"leverage", 0.2}}, 1000, 1000, []string{"ood_score (AUROC 0.30), leverage (AUROC 0.20)", "check that it is out-of-distribution data"}},
		"no more than chance": {[]detection{{"ood_score", 0.79}, {"leverage", 0.47}}, 100, 100, nil},
	} {
		checkWarning(t, name, belowChance(tc.scores, tc.n, tc.m), tc.want...)
	}
}

func TestRepeatedExamplesGiveAWarning(t *testing.T) {
	t.Parallel()
	h := layer.Head{Logits: 1, Features: 1, Link: layer.Sigmoid}
	of := func(n, copies int) *part.Counts {
		b := &rows.Batch{N: n, Features: make([]float32, n), Logits: make([]float32, n)}
		for i := range n {
			b.Features[i] = float32(max(copies, i))
		}
		c := part.NewCounts(h)
		c.Add(h, b)
		return c
	}
	checkWarning(t, "some", repeated("val", of(1000, 150)))
	checkWarning(t, "many", repeated("val", of(1000, 500)), "val: 500 of 1000 examples have the same features as another")
	checkWarning(t, "a handful", repeated("train", of(4, 3)))
}
