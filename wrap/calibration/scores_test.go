package calibration_test

import (
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/score"
	"github.com/mfgs/mfgs/internal/approx"
	. "github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/bundle"
	. "github.com/mfgs/mfgs/wrap/calibration"
)

// fitted are the scores that learn from training data, each in a calibration of the digits.
var fitted = []string{"react", "ash", "fdbd", "mahalanobis", "relative_mahalanobis", "residual", "vim", "knn"}

// The graph computes the same scores as the formulas in float64.
func TestFittedScoresAreUsedForPredictions(t *testing.T) {
	t.Parallel()
	const n = 297
	for _, name := range fitted {
		c := quick(config(t, filepath.Join(t.TempDir(), "b")))
		c.OODScore = name
		r := mustCalibrate(t, c)
		if r.OODScore.Name != name || !r.OODScore.Requested {
			t.Errorf("%s: report %+v", name, r.OODScore)
		}
		x := digitTensor(t, 1500, 1500+n)
		got, err := opened(t, c.Out, Options{}).Predict(t.Context(), []Tensor{x})
		if err != nil {
			t.Fatal(err)
		}
		phi, logits := rowsOf(t, c.Model, x)
		want := servedBy(t, c.Out).Predict(phi, logits, n)
		for i, p := range got {
			if !approx.Relative(p.OODScore, want.OODScore[i], 1e-6) {
				t.Errorf("%s: example %d has %v, want %v", name, i, p.OODScore, want.OODScore[i])
			}
		}
	}
}

// servedBy is the calibration in a bundle.
func servedBy(t testing.TB, dir string) *calibrate.Calibration {
	t.Helper()
	b, err := bundle.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return b.Calibration()
}

// sameScores compares the scores that two bundles give of random examples.
func sameScores(t testing.TB, what, got, want string) {
	t.Helper()
	a, b := servedBy(t, got), servedBy(t, want)
	const n = 50
	h := a.Posterior.Head
	phi, logits := random(11, n*h.Features), random(12, n*h.Logits)
	p, q := a.Predict(phi, logits, n), b.Predict(phi, logits, n)
	for i, v := range p.OODScore {
		if a.Served().Name != b.Served().Name || !approx.Relative(v, q.OODScore[i], 1e-8) {
			t.Fatalf("%s: %s of example %d is %v, want %s of %v", what, a.Served().Name, i, v, b.Served().Name, q.OODScore[i])
		}
	}
}

// Shards give what one pass gives, and in any order the same bytes.
func TestMergedPartsFitTheScoreOfOnePass(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"knn", "vim", "relative_mahalanobis"} {
		c := quick(config(t, filepath.Join(t.TempDir(), "one")))
		c.OODScore = name
		mustCalibrate(t, c)
		one := c.Out
		all := parts(t, c, 3)
		want := merged(t, all...)
		sameScores(t, name, want, one)
		rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		sameFiles(t, name, merged(t, group(t, all[:2]...), all[2]), want)
	}
}

// An update fits the score to all data, of which the bundle keeps sums and a sample.
func TestAnUpdateFitsTheScoreToAllData(t *testing.T) {
	t.Parallel()
	file := classified(t, 4000, 6, 4)
	for _, name := range []string{"knn", "mahalanobis"} {
		dir := t.TempDir()
		c := Config{PrecomputedFeatures: true, Train: file + "[:3000]", Val: file + "[3000:]",
			KeepCurvature: true, Out: filepath.Join(dir, "one"),
			Settings: bundle.Settings{
				Structure: calibrate.Kronecker, OODScore: name, Damping: calibrate.Damping{Relative: 1},
			}}
		mustCalibrate(t, c)
		one := c.Out
		c.Train, c.Out = file+"[:1024]", filepath.Join(dir, "b")
		mustCalibrate(t, c)
		if _, err := Update(t.Context(), UpdateConfig{Bundle: c.Out, Train: file + "[1024:3000]"}); err != nil {
			t.Fatal(err)
		}
		sameScores(t, name, c.Out, one)
	}
}

// A score that needs what there is not is refused by its name, and with the reason.
func TestScoresThatCannotBeFittedAreRefused(t *testing.T) {
	t.Parallel()
	file := classified(t, 1500, 6, 4)
	ready := Config{PrecomputedFeatures: true, Train: file + "[:1000]", Val: file + "[1000:]",
		Settings: bundle.Settings{
			Structure: calibrate.Kronecker, Damping: calibrate.Damping{Relative: 1},
		}}
	for _, name := range fitted {
		ready.OODScore, ready.Out = name, filepath.Join(t.TempDir(), "b")
		_, err := Calibrate(t.Context(), ready)
		if name == "knn" || name == "mahalanobis" || name == "relative_mahalanobis" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		says(t, err, "score "+name+": cannot be fitted: it needs the weights of the last layer")
	}

	// The weights are in the model, which a part may have, or be given.
	c := quick(config(t, ""))
	c.OODScore, c.NoModel = "vim", true
	all := parts(t, c, 2)
	cfg := MergeConfig{Parts: all, Out: filepath.Join(t.TempDir(), "b")}
	_, err := Merge(t.Context(), cfg)
	says(t, err, "score vim: cannot be fitted: it needs the weights of the last layer")
	cfg.Model = c.Model
	if _, err := Merge(t.Context(), cfg); err != nil {
		t.Error(err)
	}
	if got := servedBy(t, cfg.Out).Served().Name; got != "vim" {
		t.Errorf("%s is served", got)
	}
}

// With out-of-distribution data all scores compete that can be fitted, but for the baselines.
func TestFittedScoresTakePartInTheSelection(t *testing.T) {
	t.Parallel()
	c := quick(config(t, filepath.Join(t.TempDir(), "b")))
	c.OODScore = ""
	r := mustCalibrate(t, c)
	tried := map[string]bool{}
	for _, s := range r.Validation.Scores {
		tried[s.Name] = true
	}
	for _, name := range fitted {
		if s, _ := score.Find(name); tried[name] == s.Baseline || !s.NeedsFitting() {
			t.Errorf("%s, a baseline: %v, among %v", name, s.Baseline, tried)
		}
	}
}
