package measure

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/metrics"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/internal/approx"
)

// The set of each figure is resampled, and no other: an interval is the one of a bootstrap of that
// set alone, up to the draws.
func TestSetsAreResampledIndependently(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 3))
	h := layer.Head{Logits: 2, Link: layer.Softmax}
	tally := New("mle", h, 0, 1, []string{"far", "near"})
	sizes := map[SetID]int{{Test, 0}: 200, {Shift, 0}: 50, {OOD, 0}: 90, {OOD, 1}: 30}
	losses, scores := map[SetID][]float64{}, map[SetID][]float64{}
	for part, n := range sizes {
		for range n {
			p := 0.5 + rng.Float64()/2
			score := rng.NormFloat64() + float64(part.Role)
			s := Scores{LogP: []float64{math.Log(1 - p), math.Log(p)}, OOD: []float64{score}}
			label := rng.IntN(2)
			if err := tally.Add(part, s, &rows.Batch{Labels: []int{label}, Logits: []float32{0, 0}}); err != nil {
				t.Fatal(err)
			}
			losses[part] = append(losses[part], -s.LogP[label])
			scores[part] = append(scores[part], s.OOD...)
		}
	}
	resampled, err := Resample(t.Context(), []*Tally{tally}, metrics.ResampleOptions{Resamples: Resamples, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	f, err := tally.Figures()
	if err != nil {
		t.Fatal(err)
	}
	resampled.Add(0, &f)
	// A method has the same draws when it is measured alone.
	o := metrics.ResampleOptions{Resamples: Resamples, Seed: 1}
	compared, err := Resample(t.Context(), []*Tally{tally}, o, Compared()...)
	if err != nil {
		t.Fatal(err)
	}
	for part, name := range map[SetID]string{{Test, 0}: "nll", {OOD, 0}: "auroc", {OOD, 1}: "auroc"} {
		got, want := compared.of(place{0, part, false}), resampled.of(place{0, part, false})
		if !reflect.DeepEqual(got, map[string]metrics.Series{name: want[name]}) {
			t.Errorf("%v: compared by %v, want %s alone, %v", part, got, name, want[name])
		}
	}
	// The ends of two intervals of 1,000 draws differ by some tenth of a standard deviation, a
	// quarter of the half.
	check := func(what string, got metrics.Interval, sizes []int, stat func([][]int) float64) {
		t.Helper()
		want := bootstrap(sizes, stat)
		for i := range want {
			if !approx.Equal(got[i], want[i], (want[1]-want[0])/8) {
				t.Errorf("%s: %v, want about %v", what, got, want)
			}
		}
	}
	mean := func(x []float64) func([][]int) float64 {
		return func(draw [][]int) (sum float64) {
			for _, i := range draw[0] {
				sum += x[i] / float64(len(x))
			}
			return sum
		}
	}
	for part, in := range map[SetID]metrics.Labelled{{Test, 0}: *f.InDomain, {Shift, 0}: f.Shifts[0]} {
		check("NLL", in.Intervals["nll"], []int{sizes[part]}, mean(losses[part]))
	}
	for i, result := range f.OOD {
		part := SetID{OOD, i}
		check("AUROC", result.Intervals["auroc"], []int{200, sizes[part]}, func(draw [][]int) float64 {
			var in, out []float64
			for _, i := range draw[0] {
				in = append(in, scores[SetID{}][i])
			}
			for _, i := range draw[1] {
				out = append(out, scores[part][i])
			}
			v, err := metrics.AUROC(in, out, nil)
			if err != nil {
				t.Fatal(err)
			}
			return v
		})
	}
}

// bootstrap is the percentile interval by 1,000 resamples that are written out.
func bootstrap(sizes []int, stat func([][]int) float64) metrics.Interval {
	rng := rand.New(rand.NewPCG(9, 0))
	values := make([]float64, 1000)
	for r := range values {
		draw := make([][]int, len(sizes))
		for i, n := range sizes {
			for range n {
				draw[i] = append(draw[i], rng.IntN(n))
			}
		}
		values[r] = stat(draw)
	}
	slices.Sort(values)
	return metrics.Interval{metrics.Quantile(values, 0.025), metrics.Quantile(values, 0.975)}
}

// Sets under shift are drawn with the first of their size, be it the test set; sets out of
// distribution each by itself. The test set is drawn first.
func TestSetsUnderShiftShareTheirDraws(t *testing.T) {
	t.Parallel()
	h := layer.Head{Logits: 2, Link: layer.Softmax}
	tally := New("mle", h, 0, 5, []string{"far", "near"})
	for part, n := range map[SetID]int{
		{Test, 0}: 6, {Shift, 0}: 4, {Shift, 1}: 6, {Shift, 2}: 4, {Shift, 3}: 5, {Shift, 4}: 6,
		{OOD, 0}: 6, {OOD, 1}: 4,
	} {
		for range n {
			s := Scores{LogP: []float64{-math.Ln2, -math.Ln2}, OOD: []float64{1}}
			if err := tally.Add(part, s, &rows.Batch{Labels: []int{0}, Logits: []float32{0, 0}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	got := samplesOf([]*Tally{tally})
	want := samples{sizes: []int{6, 4, 5, 6, 4}, shifts: []int{1, 0, 1, 2, 0}, out: []int{3, 4}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("samples %+v, want %+v", got, want)
	}
}

// Scores alone are resampled where no method has probabilities, and a set under shift has no
// figures then.
func TestScoresAloneAreResampled(t *testing.T) {
	t.Parallel()
	h := layer.Head{Logits: 2, Link: layer.Softmax}
	tally := New("leverage", h, 0, 1, []string{"far"})
	for i, part := range []SetID{{Test, 0}, {Test, 0}, {OOD, 0}, {OOD, 0}} {
		if err := tally.Add(part, Scores{OOD: []float64{float64(i % 3)}}, &rows.Batch{Labels: []int{0}}); err != nil {
			t.Fatal(err)
		}
	}
	resampled, err := Resample(t.Context(), []*Tally{tally}, metrics.ResampleOptions{Resamples: Resamples})
	if err != nil {
		t.Fatal(err)
	}
	f, err := tally.Figures()
	if err != nil {
		t.Fatal(err)
	}
	if resampled.Add(0, &f); f.InDomain != nil || f.Shifts != nil || len(f.OOD[0].Intervals) == 0 {
		t.Errorf("figures %+v", f)
	}
}
