package bench

import (
	"path/filepath"
	"testing"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/internal/approx"
	"github.com/mfgs/mfgs/models"
)

// A score that is not the bundle's own is fitted to the data of its calibration: it has the figures of a bundle with
// that score.
func TestScoresThatAreNotServedAreFitted(t *testing.T) {
	names := []string{"react", "ash", "fdbd", "mahalanobis", "relative_mahalanobis", "residual", "vim", "knn"}
	cfg := func(bundle string, methods ...string) Config {
		return Config{Bundle: bundle, Test: digits(t, models.DigitsTest), Methods: methods,
			OOD: []NamedSpec{{"drawings", digits(t, models.OODTest)}}}
	}
	dir, _ := calibrated(t, calibrate.Kronecker)
	by := evaluated(t, cfg(dir, append([]string{"leverage"}, names...)...))
	for _, name := range names {
		got := by[name]
		if got.InDomain != nil || got.Seconds["fit"] <= 0 {
			t.Errorf("%s: %+v", name, got)
		}
		if got.OOD[0].AUROC < 0.75 {
			t.Errorf("%s: AUROC %v", name, got.OOD[0].AUROC)
		}
	}
	c := config(t, filepath.Join(t.TempDir(), "b"))
	c.Structure, c.OODScore = calibrate.Kronecker, "vim"
	mustCalibrate(t, c)
	served := evaluated(t, cfg(c.Out, "vim"))["vim"]
	if want := served.OOD[0].AUROC; !approx.Relative(by["vim"].OOD[0].AUROC, want, 1e-6) || served.Seconds != nil {
		t.Errorf("vim has AUROC %v, served %v", by["vim"].OOD[0].AUROC, want)
	}
}

// Training data that is given takes the place of the calibration's; without a score that is fitted it
// would not be used.
func TestScoresAreFittedToTheDataGiven(t *testing.T) {
	dir, _ := calibrated(t, calibrate.Kronecker)
	cfg := Config{Bundle: dir, Test: digits(t, models.DigitsTest), Train: digits(t, models.DigitsVal),
		OOD: []NamedSpec{{"drawings", digits(t, models.OODTest)}}, Methods: []string{"knn"}}
	few := evaluated(t, cfg)["knn"].OOD[0].AUROC
	cfg.Train = ""
	if all := evaluated(t, cfg)["knn"].OOD[0].AUROC; few == all {
		t.Errorf("AUROC %v, whatever the training data", all)
	}
	cfg.Train, cfg.Methods = digits(t, models.DigitsVal), []string{"leverage"}
	if _, err := Evaluate(t.Context(), cfg); err == nil {
		t.Error("training data that nothing is fitted to was taken")
	}
}
