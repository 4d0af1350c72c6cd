package metrics

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/mfgs/mfgs/internal/approx"
)

// tolerance allows for the order of summation over at most a hundred terms of
// size 1, and for the twelve decimals to which golden.json rounds log p.
const tolerance = 1e-11

func wantClose(t *testing.T, what string, got, want float64) {
	t.Helper()
	if !approx.Equal(got, want, tolerance) {
		t.Errorf("%s = %.17g, want %.17g", what, got, want)
	}
}

// golden.json is made by testdata/golden.py.
func TestFiguresOfScikitLearn(t *testing.T) {
	t.Parallel()
	var golden struct {
		Classification []struct {
			K, Bins   int
			LogP      []float64
			Labels    []int
			Error     float64
			NLL       float64
			ECE       float64
			Brier     float64
			HalfBrier *float64 `json:"half_brier"`
		}
		Detection []struct {
			In, Out  []float64
			Accuracy float64
			AUROC    float64
			AUPRIn   float64 `json:"aupr_in"`
			AUPROut  float64 `json:"aupr_out"`
			FPR95    float64
		}
		Selective []struct {
			Uncertainty []float64
			Wrong       []bool
			AURC        float64
		}
		Quantiles []struct{ X, Q, Want []float64 }
	}
	data, err := os.ReadFile("testdata/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &golden); err != nil {
		t.Fatal(err)
	}
	if len(golden.Classification) == 0 || len(golden.Detection) == 0 || len(golden.Selective) == 0 ||
		len(golden.Quantiles) == 0 {
		t.Fatal("testdata/golden.json lacks a section")
	}

	for _, g := range golden.Classification {
		got, err := Classify(g.LogP, g.K, g.Labels, g.Bins)
		if err != nil {
			t.Fatal(err)
		}
		if got.N != len(g.Labels) {
			t.Errorf("N = %d, want %d", got.N, len(g.Labels))
		}
		wantClose(t, "Error", got.Error, g.Error)
		wantClose(t, "NLL", got.NLL, g.NLL)
		wantClose(t, "ECE", got.ECE, g.ECE)
		wantClose(t, "Brier", got.Brier, g.Brier)
		if g.HalfBrier != nil {
			wantClose(t, "Brier of two classes", got.Brier, 2**g.HalfBrier)
		}
	}
	for _, g := range golden.Detection {
		got, err := Detect(g.In, g.Out)
		if err != nil {
			t.Fatal(err)
		}
		if got.N != len(g.Out) {
			t.Errorf("N = %d, want %d", got.N, len(g.Out))
		}
		wantClose(t, "Accuracy", got.Accuracy, g.Accuracy)
		wantClose(t, "AUROC", got.AUROC, g.AUROC)
		wantClose(t, "AUPRIn", got.AUPRIn, g.AUPRIn)
		wantClose(t, "AUPROut", got.AUPROut, g.AUPROut)
		wantClose(t, "FPR95", got.FPR95, g.FPR95)
	}
	for _, g := range golden.Selective {
		wantClose(t, "AURC", aurc(g.Uncertainty, g.Wrong), g.AURC)
	}
	for _, g := range golden.Quantiles {
		for i, q := range g.Q {
			wantClose(t, "quantile", Quantile(g.X, q), g.Want[i])
		}
	}
}
