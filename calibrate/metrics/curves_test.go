package metrics

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/mfgs/mfgs/internal/approx"
)

// A bin contains what the definition of the ECE puts into it, and the ECE depends on nothing else.
func TestBinsAreThoseOfTheECE(t *testing.T) {
	t.Parallel()
	const n, k, bins = 300, 4, 10
	rng := rand.New(rand.NewPCG(21, 1))
	logp, labels := randomRows(rng, n, k)
	c := classified(t, logp, k, labels, bins)
	var gap float64
	empty := 0
	for b, got := range c.Bins() {
		var of, right, confidence float64
		for i, y := range labels {
			row := logp[i*k : (i+1)*k]
			top := slices.Max(row)
			if p := math.Exp(top); p > float64(b)/bins && p <= float64(b+1)/bins {
				of++
				confidence += p
				if row[y] == top {
					right++
				}
			}
		}
		if of == 0 {
			empty++
			if got != (Bin{}) {
				t.Errorf("empty bin %d: %+v", b, got)
			}
			continue
		}
		if float64(got.N) != of || float64(got.Right) != right {
			t.Errorf("bin %d: %d of %d right, want %v of %v", b, got.Right, got.N, right, of)
		}
		wantClose(t, "confidence of a bin", got.Confidence, confidence/of)
		wantClose(t, "accuracy of a bin", got.Accuracy, right/of)
		gap += of / n * math.Abs(right/of-confidence/of)
	}
	if empty == 0 || empty == bins {
		t.Errorf("%d of %d bins are empty: want some", empty, bins)
	}
	wantClose(t, "ECE", c.Result().ECE, gap)
}

// keptRisk is the expected error among the kept examples of least uncertainty: a tie gives each of its
// examples the same chance.
func keptRisk(uncertainty, loss []float64, kept int) float64 {
	var risk float64
	for i, d := range uncertainty {
		var lower, same float64
		for _, e := range uncertainty {
			if e < d {
				lower++
			} else if e == d {
				same++
			}
		}
		chance := min(max((float64(kept)-lower)/same, 0), 1)
		risk += chance * loss[i]
	}
	return risk / float64(kept)
}

func TestRiskCoverageIsItsDefinition(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(22, 1))
	for range 60 {
		n := 1 + rng.IntN(60)
		c := NewClassifier(2, 0)
		var uncertainty, loss []float64
		for range n {
			p := 0.5 + float64(1+rng.IntN(8))/20 // with ties
			label := rng.IntN(2)
			if err := c.Add(pairs(p), label); err != nil {
				t.Fatal(err)
			}
			uncertainty, loss = append(uncertainty, 1-p), append(loss, float64(1-label))
		}
		copy(uncertainty, c.kept.uncertainty) // to the last digit: ties are ties
		most := 1 + rng.IntN(80)
		points := c.RiskCoverage(most)
		if len(points) != min(n, most) || points[len(points)-1].X != 1 {
			t.Fatalf("%d points of %d examples, at most %d; the last is %+v", len(points), n, most, points[len(points)-1])
		}
		area := 0.0
		for _, p := range points {
			kept := int(math.Round(p.X * float64(n)))
			wantClose(t, "risk", p.Y, keptRisk(uncertainty, loss, kept))
			area += p.Y / float64(n)
		}
		if len(points) == n {
			wantClose(t, "area", area, c.Selective().AURC)
		}
		wantClose(t, "risk of all", points[len(points)-1].Y, c.Result().Error)
	}
	if got := NewClassifier(2, 0).RiskCoverage(10); len(got) != 0 {
		t.Errorf("of no examples: %v", got)
	}
}

// Every corner is that of a threshold, and the area under all of them is the AUROC.
func TestROCIsItsDefinition(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(23, 1))
	share := func(scores []float64, above float64) (part float64) {
		for _, s := range scores {
			if s > above {
				part += 1 / float64(len(scores))
			}
		}
		return part
	}
	for range 100 {
		levels := []float64{1, 4, 1e9}[rng.IntN(3)]
		in := scores(rng, 1+rng.IntN(50), 0, levels)
		out := scores(rng, 1+rng.IntN(50), 2*rng.Float64(), levels)
		all, err := ROC(in, out, 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		if first, last := all[0], all[len(all)-1]; !approx.Equal(first.X+first.Y, 0, 1e-12) || last != (Point{1, 1}) {
			t.Fatalf("from %+v to %+v", first, last)
		}
		thresholds := slices.Concat(in, out)
		slices.Sort(thresholds)
		thresholds = slices.Compact(thresholds)
		if len(all) != len(thresholds)+1 {
			t.Fatalf("%d corners for %d thresholds", len(all), len(thresholds))
		}
		for i, threshold := range thresholds {
			p := all[len(thresholds)-1-i]
			wantClose(t, "flagged in distribution", p.X, share(in, threshold))
			wantClose(t, "flagged out of distribution", p.Y, share(out, threshold))
		}
		area := func(points []Point) (a float64) {
			for i := 1; i < len(points); i++ {
				a += (points[i].X - points[i-1].X) * (points[i].Y + points[i-1].Y) / 2
			}
			return a
		}
		wantClose(t, "area", area(all), detect(t, in, out).AUROC)
		few, err := ROC(in, out, 20)
		if err != nil {
			t.Fatal(err)
		}
		if len(few) > 22 || !approx.Equal(area(few), area(all), 0.1) {
			t.Errorf("%d points with area %v, all have %v", len(few), area(few), area(all))
		}
	}
	if _, err := ROC(nil, []float64{1}, 10); err == nil {
		t.Error("no error without examples")
	}
}
