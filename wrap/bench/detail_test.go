package bench

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/conformal"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/internal/approx"
	"github.com/mfgs/mfgs/internal/wraptest"
	"github.com/mfgs/mfgs/models"
	"github.com/mfgs/mfgs/wrap"
)

// firstTest is the position of the first of models.DigitsTest.
const firstTest = 1500

// A report shows the predictor's answers to each example, sorted by hand.
func TestDetailIsWhatIsServed(t *testing.T) {
	dir := t.TempDir() + "/b"
	c := config(t, dir)
	c.Decisions = conformal.Plan{Alpha: 0.05, FalseAlarm: 0.1}
	mustCalibrate(t, quick(c))
	e, err := Evaluate(t.Context(), Config{
		Bundle: dir, Test: digits(t, models.DigitsTest), Methods: []string{"ts"}, Detailed: true,
		OOD: []NamedSpec{{"drawings", digits(t, models.OODTest)}, {"synthetic_ood", wrap.SyntheticOOD}},
	})
	if err != nil {
		t.Fatal(err)
	}
	d := e.Detail
	for _, name := range []string{"mle", d.Probabilities, "studentized"} {
		if !slices.ContainsFunc(e.Methods, func(m MethodResult) bool { return m.Name == name }) {
			t.Errorf("%s is not among the methods", name)
		}
	}
	all, _ := wraptest.Predicted(t, wraptest.Opened(t, dir, wrap.Options{}), digits(t, models.DigitsTest))
	uncertainty := func(i int) float64 { return conformal.Uncertainty(all[i].Probabilities) }
	for _, g := range d.Galleries[:3] {
		if g.Set != "test" || len(g.Examples) == 0 {
			t.Fatalf("gallery %s of %s with %d examples", g.Kind, g.Set, len(g.Examples))
		}
		key := map[Kind]func(i int) float64{
			Uncertain: func(i int) float64 { return -uncertainty(i) }, Wrong: uncertainty,
			MostOOD: func(i int) float64 { return -all[i].OODScore },
		}[g.Kind]
		var order []int
		for i := range all {
			if g.Kind != Wrong || *all[i].Label != all[i].Class {
				order = append(order, i)
			}
		}
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(key(a), key(b)) })
		for j, x := range g.Examples {
			i := x.Position - firstTest
			// The network runs in float32, with other examples beside it.
			if !approx.Equal(key(i), key(order[j]), 1e-5) {
				t.Errorf("%s: place %d has example %d, want %d", g.Kind, j, i, order[j])
			}
			want := all[i]
			if x.Predicted != want.Class || !approx.Equal(x.Confidence, want.Confidence, 1e-5) ||
				!approx.Equal(x.OODScore, want.OODScore, 1e-5) ||
				!approx.Equal(x.OODPercentile, *want.OODPercentile, 1e-3) || x.Label != *want.Label {
				t.Errorf("%s: %+v, want %+v", g.Kind, x, want)
			}
			pixels := x.Input.Inputs[0].Data.([]uint8)
			for p, v := range digitTensor(t, x.Position, x.Position+1).Data.([]float32) {
				if float32(pixels[p])/255 != v {
					t.Fatalf("%s: the picture of %d is another", g.Kind, x.Position)
				}
			}
		}
	}
	if !d.Exif {
		t.Error("pictures are not turned by EXIF, as they are by default")
	}
	for _, g := range d.Galleries[3:] {
		first := g.Examples[0]
		if g.Kind != LeastOOD || len(g.Examples) != galleryExamples || first.Input == nil || first.Label != -1 {
			t.Errorf("gallery %s of %s with %d examples", g.Kind, g.Set, len(g.Examples))
		}
		rising := func(a, b GalleryExample) int { return cmp.Compare(a.OODScore, b.OODScore) }
		if !slices.IsSortedFunc(g.Examples, rising) {
			t.Errorf("%s: not from the lowest OOD score on", g.Set)
		}
	}
	checkCounts(t, d, all)
}

func checkCounts(t *testing.T, d *Detail, all []wrap.Prediction) {
	t.Helper()
	if strings.Join(d.Scores.Sets, " ") != "test drawings synthetic_ood" || d.Scores.N[0] != len(all) || d.Scores.N[2] != len(all) {
		t.Errorf("scores of %v, %v examples", d.Scores.Sets, d.Scores.N)
	}
	for b, n := range d.Scores.Counts[0] {
		want := 0
		for _, p := range all {
			above := p.OODScore >= d.Scores.Edges[b]-1e-6 || b == 0
			below := p.OODScore < d.Scores.Edges[b+1]+1e-6 || b == scoreBins-1
			if above && below {
				want++
			}
		}
		if n > want { // those at an edge are counted with both bins
			t.Errorf("bin %d has %d scores, want at most %d", b, n, want)
		}
	}
	sizes := map[int]int{}
	for _, p := range all {
		sizes[len(p.PredictionSet)]++
	}
	total := 0
	for size, n := range d.Sizes[0].Sizes {
		total += n
		if !approx.Equal(float64(n), float64(sizes[size]), 1) { // one may be at the threshold
			t.Errorf("%d sets of %d classes, want %d", n, size, sizes[size])
		}
	}
	if total != len(all) || d.Sizes[0].Set != "test" || len(d.Sizes) != 3 {
		t.Errorf("sizes %+v of %d examples", d.Sizes, len(all))
	}
	total = 0
	for _, n := range d.Scores.Counts[0] {
		total += n
	}
	if total != len(all) {
		t.Errorf("%d scores of %d examples", total, len(all))
	}
	for _, method := range []string{"mle", d.Probabilities} {
		n := 0
		for _, b := range d.Curves[method].Bins {
			n += b.N
			if b.N > 0 && !(b.Interval[0] <= b.Accuracy && b.Accuracy <= b.Interval[1]) {
				t.Errorf("%s: accuracy %v outside of %v", method, b.Accuracy, b.Interval)
			}
		}
		c, classes := d.Curves[method], len(d.Classes[method])
		if n != len(all) || len(c.Risk) == 0 || len(c.ROC) != 2 || classes != 10 {
			t.Errorf("%s: %d examples in bins, curves %d and %d, %d classes", method, n, len(c.Risk), len(c.ROC), classes)
		}
	}
}

// The first among equals stay, and what has no key is not chosen.
func TestChoosingKeepsTheFirst(t *testing.T) {
	c := &galleryPicker{}
	batch := &rows.Batch{N: 40, Features: make([]float32, 40), Logits: make([]float32, 40), From: "x"}
	for i := range batch.N {
		batch.Positions = append(batch.Positions, i)
	}
	for i := range batch.N {
		key := float64(i % 3)
		if i%5 == 0 {
			key = math.NaN()
		}
		c.offer(key, batch, i)
	}
	var got []int
	for _, x := range c.list {
		got = append(got, x.row.Positions[0])
	}
	want := []int{2, 8, 11, 14, 17, 23, 26, 29, 32, 38, 1, 4}
	if !slices.Equal(got, want) {
		t.Errorf("chosen %v, want %v", got, want)
	}
}

// Without decisions sets are tried on the test set: thresholds of one half cover the other.
func TestSetsAreMeasuredWithoutDecisions(t *testing.T) {
	dir, _ := calibrated(t, calibrate.Kronecker)
	of := func(spec string) *SetTrial {
		e, err := Evaluate(t.Context(), Config{Bundle: dir, Test: spec, Detailed: true})
		if err != nil {
			t.Fatal(err)
		}
		return e.Detail.Trial
	}
	trial := of(digits(t, models.DigitsTest))
	if trial == nil || trial.Held != 149 || trial.Realised.N != 148 || trial.Alpha != trialAlpha {
		t.Fatalf("%+v", trial)
	}
	// A coverage of 0.9 of 148 examples, by thresholds of 149, has a standard error of 0.035.
	if covered := *trial.Realised.Covered; !approx.Equal(covered, 0.9, 4*0.035) {
		t.Errorf("%v of the labels are covered", covered)
	}
	n, classes := 0, 0
	for size, examples := range trial.Sizes {
		n, classes = n+examples, classes+size*examples
	}
	if n != 148 || !approx.Equal(float64(classes)/148, *trial.Realised.SetSize, 1e-12) {
		t.Errorf("sizes %v, mean %v", trial.Sizes, *trial.Realised.SetSize)
	}
	if trial := of(strings.Replace(digits(t, models.DigitsTest), "[1500:1797]", "[1500:1510]", 1)); trial != nil {
		t.Errorf("of ten examples: %+v", trial)
	}
}
