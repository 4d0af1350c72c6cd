package part

import (
	"math"
	"slices"
	"testing"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/rows"
)

// Repeats are counted exactly while they are few, and estimated beyond.
func TestRepeatsAreCounted(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		n, different int
		want         float64
		tolerance    float64
	}{
		"none":                 {1000, 1000, 0, 0},
		"one":                  {1001, 1000, 1. / 1001, 1e-12},
		"half":                 {2000, 1000, 0.5, 0},
		"all":                  {1000, 1, 0.999, 0},
		"none of very many":    {5 * mostHashes, 5 * mostHashes, 0, 0},
		"a third of very many": {3 * mostHashes, 2 * mostHashes, 1. / 3, 0.01},
	} {
		var r repeats
		row := make([]float32, 3)
		for i := range tc.n {
			k := i % tc.different
			row[0], row[1], row[2] = float32(k%1000), float32(k/1000), 7
			r.add(row)
		}
		if got := r.fraction(); !(got >= tc.want-tc.tolerance && got <= tc.want+tc.tolerance) {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
		if len(r.times) > mostHashes {
			t.Errorf("%s: %d hashes are kept, want at most %d", name, len(r.times), mostHashes)
		}
	}
}

// Zero and negative zero are equal.
func TestNegativeZeroRepeatsZero(t *testing.T) {
	t.Parallel()
	var r repeats
	r.add([]float32{0, 1})
	r.add([]float32{float32(math.Copysign(0, -1)), 1})
	r.add([]float32{1, 1})
	if got := r.fraction(); got != 1./3 {
		t.Errorf("%v of three repeat another, want a third", got)
	}
}

func TestCountsHaveLabelsAndPredictions(t *testing.T) {
	t.Parallel()
	check := func(name string, h layer.Head, b *rows.Batch, labelled int, labels, predicted []int) {
		t.Helper()
		s := NewCounts(h)
		s.Add(h, b)
		s.Add(h, b)
		if s.Examples != 2*b.N || s.Labelled != labelled || !slices.Equal(s.Labels, labels) ||
			!slices.Equal(s.Predicted, predicted) {
			t.Errorf("%s: %d examples, labels %v of %d, predicted %v; want %v of %d and %v", name, s.Examples, s.Labels, s.Labelled, s.Predicted, labels, labelled, predicted)
		}
	}
	two := rows.Batch{N: 3, Features: make([]float32, 3), Logits: []float32{0, 2, 3, 1, -1, -2}}
	with := func(b rows.Batch, labels []int, targets []uint8) *rows.Batch {
		b.Labels, b.Targets = labels, targets
		return &b
	}
	check("two classes", layer.Head{Logits: 2, Features: 1, Link: layer.Softmax},
		with(two, []int{1, -1, 1}, nil), 4, []int{0, 4}, []int{4, 2})
	check("no labels", layer.Head{Logits: 2, Features: 1, Link: layer.Softmax},
		with(two, []int{}, nil), 0, []int{0, 0}, []int{4, 2})
	check("labels", layer.Head{Logits: 2, Features: 1, Link: layer.Sigmoid},
		with(two, nil, []uint8{1, 0, 1, 1, 0, 0}), 6, []int{4, 2}, []int{2, 4})
	one := rows.Batch{N: 3, Features: make([]float32, 3), Logits: []float32{1, -2, 3}}
	check("one logit", layer.Head{Logits: 1, Features: 1, Link: layer.Sigmoid},
		with(one, []int{0, 0, 1}, nil), 6, []int{4, 2}, []int{2, 4})
}
