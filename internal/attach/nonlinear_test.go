package attach_test

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/internal/approx"
	"github.com/mfgs/mfgs/internal/wraptest"
	"github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/bundle"
)

// edited writes a bundle again with other numbers.
func edited(t *testing.T, dir string, change func(*bundle.Bundle)) string {
	t.Helper()
	b, err := bundle.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	model := wraptest.Read(t, filepath.Join(dir, bundle.ModelName))
	b.Probe = nil
	change(b)
	out := filepath.Join(t.TempDir(), "edited")
	err = bundle.Write(out, *b, bundle.WriteOptions{Model: func(w io.Writer) error {
		_, err := io.Copy(w, bytes.NewReader(model))
		return err
	}})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// methods set the probabilities of a bundle without a linear layer.
var methods = map[string]func(*bundle.Bundle){
	"mle": func(b *bundle.Bundle) {
		b.Manifest.Probabilities.Method, b.Manifest.Probabilities.Matrix, b.Posterior.Affine = calibrate.MLE, false, nil
		b.Manifest.Temperatures.Smoothing = 0
	},
	"ts": func(b *bundle.Bundle) {
		b.Manifest.Probabilities.Method, b.Manifest.Probabilities.Matrix, b.Posterior.Affine = calibrate.TS, false, nil
		b.Manifest.Temperatures.TS, b.Manifest.Temperatures.Smoothing = 1.7, 0
	},
	"ts, smoothed": func(b *bundle.Bundle) {
		b.Manifest.Probabilities.Method, b.Manifest.Probabilities.Matrix, b.Posterior.Affine = calibrate.TS, false, nil
		b.Manifest.Temperatures.TS, b.Manifest.Temperatures.Smoothing = 0.6, 0.03
	},
	"matrix": func(b *bundle.Bundle) { matrix(b, 0) },
	"matrix of smoothed": func(b *bundle.Bundle) {
		matrix(b, 0.01)
	},
}

func matrix(b *bundle.Bundle, smoothing float64) {
	h := b.Posterior.Head
	b.Manifest.Probabilities.Method, b.Manifest.Probabilities.Matrix = calibrate.Matrix, true
	b.Manifest.Probabilities.MatrixGain, b.Manifest.Probabilities.MatrixNeeded = 1, 0.5
	before := b.Manifest.Validation.Before
	b.Manifest.Validation.Matrix = &before
	f := &layer.Affine{Smoothing: smoothing}
	number := func(i int) float64 { return math.Sin(float64(3*i + 1)) }
	for i := range h.Logits {
		f.Scale, f.Offset = append(f.Scale, 0.7+0.2*number(i)), append(f.Offset, number(i+50)/3)
	}
	for i := range h.Logits * h.AffineRank() {
		f.Left, f.Right = append(f.Left, 0.2*number(i+100)), append(f.Right, 0.3*number(i+200))
	}
	b.Posterior.Affine, b.Manifest.Temperatures.Smoothing = f, smoothing
}

// sameAsGo compares what the fused network predicts, with all that a bundle has, with the formulas in float64.
func sameAsGo(t *testing.T, dir string, x wrap.Tensor) {
	t.Helper()
	p, oracle := wraptest.Opened(t, dir, wrap.Options{}), wraptest.Cut(t, dir)
	for _, o := range p.Outputs(wrap.Override{}) {
		if o.Name == "logit_variance" || o.Name == "leverage" {
			t.Errorf("there is an output %s", o.Name)
		}
	}
	got, err := p.Predict(t.Context(), []wrap.Tensor{x})
	if err != nil {
		t.Fatal(err)
	}
	rows, err := oracle.Network.Run(t.Context(), []wrap.Tensor{x})
	if err != nil {
		t.Fatal(err)
	}
	of := rows.Rows()
	want, err := oracle.Formulas.PredictFeatures(of.Features, of.Logits)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != len(want) || len(want) != int(x.Shape[0]) {
		t.Fatalf("%d and %d predictions", len(got), len(want))
	}
	near := func(i int, what string, got, want float64) {
		t.Helper()
		if !approx.Equal(got, want, 1e-6) {
			t.Fatalf("example %d with the logits %v: %s is %v, want %v", i, of.Logits[i*len(of.Logits)/of.N:(i+1)*len(of.Logits)/of.N], what, got, want)
		}
	}
	share := func(i int, what string, got, want *float64) {
		t.Helper()
		if got == nil || want == nil {
			t.Fatalf("example %d: %s is %v, want %v", i, what, got, want)
		}
		if !approx.Equal(*got, *want, 1e-6) {
			t.Fatalf("example %d: %s is %v, want %v", i, what, *got, *want)
		}
	}
	for i, w := range want {
		g := got[i]
		if g.LogitVariance != nil || g.Leverage != 0 || w.LogitVariance != nil || w.Leverage != 0 {
			t.Fatalf("example %d: there are variances: %+v, %+v", i, g, w)
		}
		if !slices.Equal(g.Logits, w.Logits) || g.Class != w.Class {
			t.Fatalf("example %d: %+v, want %+v", i, g, w)
		}
		for c := range w.Probabilities {
			near(i, fmt.Sprintf("p[%d]", c), g.Probabilities[c], w.Probabilities[c])
		}
		near(i, "the OOD score", g.OODScore, w.OODScore)
		share(i, "the percentile", g.OODPercentile, w.OODPercentile)
		share(i, "the p-value", g.OODPValue, w.OODPValue)
		if (g.Abstain == nil) != (w.Abstain == nil) || g.Abstain != nil && *g.Abstain != *w.Abstain ||
			g.AbstainReason != w.AbstainReason || !slices.Equal(g.PredictionSet, w.PredictionSet) {
			t.Fatalf("example %d: decisions of %+v, want %+v", i, g, w)
		}
	}
}

// Whatever probabilities and score a bundle of a model without a linear layer has, its fused network computes what Go
// does, and has no variances.
func TestAFusedForestEqualsTheFormulas(t *testing.T) {
	t.Parallel()
	for _, classes := range []int{2, 4} {
		x := wraptest.ForestInputs(classes, 60)
		for i := range 20 { // missing values
			x.Data.([]float32)[i*i%240] = float32(math.NaN())
		}
		for _, score := range []string{"entropy", "gen", "max_logit", "energy", "column_mahalanobis", "column_knn", "mahalanobis"} {
			c := wraptest.ForestConfig(t, classes, nil)
			c.OODScore, c.Decisions, c.OOD = score, wraptest.EveryDecision, ""
			if slices.Contains([]string{"column_mahalanobis", "column_knn", "mahalanobis"}, score) {
				c.Head.Features = "x"
			}
			if classes == 2 && score != "entropy" && score != "column_mahalanobis" {
				continue // they do not depend on the number of classes
			}
			wraptest.MustCalibrate(t, c)
			list := slices.Sorted(maps.Keys(methods))
			if score != "entropy" && score != "column_mahalanobis" {
				list = list[:1]
			}
			for _, method := range list {
				t.Run(fmt.Sprintf("%d/%s/%s", classes, score, method), func(t *testing.T) {
					sameAsGo(t, edited(t, c.Out, methods[method]), x)
				})
			}
		}
	}
}

// So does one that is corrected for the frequencies of classes in use, and one that is of labels or one against the
// rest.
func TestAFusedForestWithAPriorOrAnotherLinkEqualsTheFormulas(t *testing.T) {
	t.Parallel()
	x := wraptest.ForestInputs(4, 60)
	c := wraptest.ForestConfig(t, 4, nil)
	c.Prior, c.OOD = map[string]float64{"0": 0.7, "2": 0.05}, ""
	wraptest.MustCalibrate(t, c)
	for _, method := range slices.Sorted(maps.Keys(methods)) {
		if method == "mle" {
			continue // only the others are corrected
		}
		t.Run(method, func(t *testing.T) { sameAsGo(t, edited(t, c.Out, methods[method]), x) })
	}
	for _, link := range []layer.Link{layer.OneVsRest, layer.Sigmoid} {
		c := wraptest.ForestConfig(t, 4, nil)
		c.Head.Link, c.OOD = link, ""
		if link == layer.Sigmoid {
			c.Val = targets(t, filepath.Dir(c.Out))
		}
		wraptest.MustCalibrate(t, c)
		t.Run(string(link), func(t *testing.T) { sameAsGo(t, c.Out, x) })
	}
}

// targets writes validation data with targets of four labels.
func targets(t *testing.T, dir string) string {
	t.Helper()
	x := wraptest.ForestInputs(4, 200)
	var y []int64
	for i, v := range wraptest.Random(5, 800) {
		if y = append(y, 0); v > float32(i%4)/2 {
			y[i] = 1
		}
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	return wraptest.Write(t, dir, "targets.npz", wraptest.NPZ(t, map[string]wraptest.Array{
		"x": wraptest.ArrayOf(x.Data, 200, 4), "labels": wraptest.ArrayOf(y, 200, 4)}))
}
