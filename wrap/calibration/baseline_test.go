package calibration_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/conformal"
	"github.com/mfgs/mfgs/calibrate/drift"
	"github.com/mfgs/mfgs/internal/approx"
	"github.com/mfgs/mfgs/models"
	. "github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/bundle"
	. "github.com/mfgs/mfgs/wrap/calibration"
)

// A reference describes the bundle's own predictions for the validation examples, those that set thresholds
// included: edges are the values of examples at their ranks, and classes are counted.
func TestTheReferenceDescribesThePredictions(t *testing.T) {
	t.Parallel()
	for _, decisions := range []conformal.Plan{{}, {Alpha: 0.1}} {
		c := quick(config(t, filepath.Join(t.TempDir(), "b")))
		c.Decisions = decisions
		mustCalibrate(t, c)
		p := opened(t, c.Out, Options{})
		var confidence, entropy, score []float64
		counts := make([]int, 10)
		predictions, _ := predicted(t, p, digits(t, models.DigitsVal))
		for _, one := range predictions {
			confidence, entropy = append(confidence, one.Confidence), append(entropy, one.Entropy)
			score = append(score, one.OODScore)
			counts[one.Class]++
		}
		r := p.Reference()
		if !slices.Equal(r.Classes, counts) {
			t.Errorf("classes %v, want %v", r.Classes, counts)
		}
		for _, q := range []struct {
			name     string
			examples int
			edges    []float64
			below    []int
			values   []float64
			// What is served is computed in float32.
			tolerance float64
		}{
			{"confidence", r.Confidence.Examples, r.Confidence.Edges, r.Confidence.Below, confidence, 1e-4},
			{"entropy", r.Entropy.Examples, r.Entropy.Edges, r.Entropy.Below, entropy, 1e-4},
			{"ood_score", r.OODScore.Examples, r.OODScore.Edges, r.OODScore.Below, score, 1e-4},
		} {
			slices.Sort(q.values)
			n, k := len(q.values), len(q.edges)
			if q.examples != n || k != 31 || len(q.below) != k {
				t.Fatalf("%s: %d examples, %d edges, want %d and 31", q.name, q.examples, k, n)
			}
			for i, v := range q.edges {
				rank := ((i+1)*n + k) / (k + 1)
				// Values are rounded: what is nearer to an edge than to the step below it is not below it. One
				// or two are so near to the middle that float32 has them on the other side.
				below := 0
				for _, w := range q.values {
					if w < v-drift.Step/2 {
						below++
					}
				}
				want := q.values[rank-1]
				if !approx.Equal(v, want, q.tolerance) || !approx.Equal(float64(q.below[i]), float64(below), 2) {
					t.Errorf("%s: edge %d is %v with %d below it, want %v, number %d, with %d",
						q.name, i, v, q.below[i], want, rank, below)
				}
			}
		}
	}
}

// Many validation examples are subsampled, spread evenly; one gives no reference, and two
// there are two bins.
func TestReferencesOfManyAndOfFew(t *testing.T) {
	t.Parallel()
	file := classified(t, 12_000, 4, 3)
	for _, test := range []struct{ val, examples, edges int }{
		{11_000, 10_000, 31}, {161, 161, 31}, {20, 20, 3}, {2, 2, 1}, {1, 0, 0},
	} {
		c := Config{PrecomputedFeatures: true, Train: file + "[:1000]", Val: file + fmt.Sprintf("[1000:%d]", 1000+test.val),
			Out: filepath.Join(t.TempDir(), "b"), Settings: bundle.Settings{
				Structure: calibrate.Full, Damping: calibrate.Damping{Relative: 1},
			}}
		mustCalibrate(t, c)
		b, err := bundle.Open(c.Out)
		if err != nil {
			t.Fatal(err)
		}
		r := b.Manifest.Reference
		if test.examples == 0 {
			if r != nil {
				t.Errorf("of %d: %+v", test.val, r)
			}
			continue
		}
		if r.Confidence.Examples != test.examples || len(r.Confidence.Edges) != test.edges ||
			len(r.OODScore.Edges) != test.edges || len(r.Classes) != 3 {
			t.Errorf("of %d: %+v, want %d examples and %d edges", test.val, r, test.examples, test.edges)
		}
	}
}

// A multi-label head has one as well, of the sums over its labels.
func TestTheReferenceOfSeveralLabels(t *testing.T) {
	t.Parallel()
	n := 400
	x := random(4, n*3)
	logits := random(5, n*4)
	file := write(t, t.TempDir(), "f.npz", npz(t, map[string]array{
		"features": arrayOf(x, n, 3), "logits": arrayOf(logits, n, 4), "labels": arrayOf(tossed(logits), n, 4),
	}))
	c := Config{PrecomputedFeatures: true, Train: file + "[:200]", Val: file + "[200:]",
		Out: filepath.Join(t.TempDir(), "b"), Settings: bundle.Settings{
			Structure: calibrate.Full, Damping: calibrate.Damping{Relative: 1},
		}}
	mustCalibrate(t, c)
	r := opened(t, c.Out, Options{}).Reference()
	if r == nil || len(r.Classes) != 4 || r.Entropy.Edges[0] <= 0 || r.Entropy.Edges[30] > 4*0.6932 {
		t.Errorf("reference %+v", r)
	}
}
