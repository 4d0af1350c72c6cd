package bench

import (
	"path/filepath"
	"testing"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/internal/approx"
	"github.com/mfgs/mfgs/internal/source"
	"github.com/mfgs/mfgs/internal/wraptest"
	"github.com/mfgs/mfgs/models"
	"github.com/mfgs/mfgs/wrap/calibration"
)

// A score that the bundle does not serve is fitted to the data of its calibration: its figures are
// those of a bundle that serves it.
func TestScoresThatAreNotServedAreFitted(t *testing.T) {
	names := []string{"react", "ash", "fdbd", "mahalanobis", "relative_mahalanobis", "residual", "vim", "knn"}
	cfg := func(bundle string, methods ...string) Config {
		return Config{Bundle: bundle, Test: digits(t, models.DigitsTest), Methods: methods,
			OOD: []NamedSpec{{"unfamiliar", digits(t, models.UnfamiliarTest)}}}
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
		OOD: []NamedSpec{{"unfamiliar", digits(t, models.UnfamiliarTest)}}, Methods: []string{"knn"}}
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

// Methods are fitted to all training data, also to more of them than examples are held out at most.
func TestMethodsAreFittedToManyExamples(t *testing.T) {
	const n = source.MaxHeldOut + 100
	phi := wraptest.Random(1, n)
	logits, labels := make([]float32, 2*n), make([]int64, n)
	for i, v := range phi {
		logits[2*i], logits[2*i+1] = v, -v
		if v < 0.1 {
			labels[i] = 1
		}
	}
	file := write(t, t.TempDir(), "f.npz", wraptest.NPZ(t, map[string]wraptest.Array{
		"features": {Data: phi, Dims: []int{n, 1}}, "logits": {Data: logits, Dims: []int{n, 2}},
		"labels": {Data: labels, Dims: []int{n}},
	}))
	out := filepath.Join(t.TempDir(), "b")
	mustCalibrate(t, calibration.Config{ReadyMade: true, Train: file, Val: file + "[:300]", Out: out})
	e, err := Evaluate(t.Context(), Config{Bundle: out, Test: file + "[300:600]", Methods: []string{"rue:2"}})
	if err != nil || e.Methods[0].InDomain == nil {
		t.Errorf("%+v: %v", e, err)
	}
}
