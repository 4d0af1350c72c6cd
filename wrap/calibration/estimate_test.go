package calibration_test

import (
	"math"
	"path/filepath"
	"testing"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/internal/realdata"
	"github.com/mfgs/mfgs/internal/wraptest"
	"github.com/mfgs/mfgs/wrap/bundle"
	"github.com/mfgs/mfgs/wrap/calibration"
)

// estimateFactor is how far the estimated time may be from the real one. Other programs on the machine
// slow the one down or the other, so that the best of some tries counts.
const estimateFactor = 4

func TestEstimateIsNearWhatCalibrationTakes(t *testing.T) {
	full := wraptest.Config(t, "")
	kron := full
	kron.Structure = calibrate.Kronecker
	for _, cfg := range []calibration.Config{full, kron} {
		checkEstimate(t, cfg)
	}
}

func TestEstimateForMNIST(t *testing.T) {
	images := realdata.Dir(t) + "/mnist/train-images-idx3-ubyte.gz"
	checkEstimate(t, calibration.Config{
		Model: "../../models/mnist-mlp/model.onnx", Train: images + "[0:5000]", Val: images + "[55000:57000]",
		Settings: bundle.Settings{Damping: calibrate.Damping{Relative: 1}},
	})
}

// checkEstimate compares an estimate with what it is of.
func checkEstimate(t *testing.T, cfg calibration.Config) {
	t.Helper()
	best := math.Inf(1)
	for try := 0; try < 3 && best > estimateFactor; try++ {
		e, err := calibration.EstimateCalibration(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		cfg := cfg
		cfg.Out = filepath.Join(t.TempDir(), "bundle")
		report := wraptest.MustCalibrate(t, cfg)
		n := report.Examples
		want := map[string]int{"train": n.Train, "val": n.Val, "ood": n.OOD, "tuning": n.Val + n.OOD, "scores": n.Val + n.OOD}
		if scores := e.Stages[len(e.Stages)-1].Stage == "scores"; scores != (cfg.OOD != "" || cfg.OODScore == "") {
			t.Errorf("%+v: are scores counted that are fitted or compared?", e.Stages)
		}
		for _, s := range e.Stages {
			if *s.Examples != want[s.Stage] || s.Bytes < 10<<20 || s.Bytes > e.Bytes {
				t.Errorf("%+v; want %d examples", s, want[s.Stage])
			}
		}
		took := report.Seconds["train"] + report.Seconds["held_out"] + report.Seconds["tuning"]
		t.Logf("%.2f s estimated, %.2f s taken", *e.Seconds, took)
		best = min(best, max(*e.Seconds/took, took / *e.Seconds))
	}
	if best > estimateFactor {
		t.Errorf("the estimate is off by a factor of %.1f, want at most %d", best, estimateFactor)
	}
}

// Of a shard there is no tuning, and its share of the examples.
func TestEstimateOfAShard(t *testing.T) {
	cfg := wraptest.Config(t, "")
	cfg.Val, cfg.OOD, cfg.Shard = "", "", rows.Shard{Index: 2, Count: 2}
	e, err := calibration.EstimateCalibration(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if len(e.Stages) != 1 || e.Stages[0].Stage != "train" || *e.Stages[0].Examples >= 1000 || e.Seconds == nil {
		t.Errorf("%+v", e)
	}
}
