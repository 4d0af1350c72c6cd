package wrap

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/calibrate"
)

func TestFiguresThatSpeakOfAMistakeAreWarnedOf(t *testing.T) {
	const n = 300
	x := random(1, n*5)
	model := "../testdata/onnx/external.onnx"
	right := labelsOf(t, model, n, Tensor{Shape: []int64{n, 5}, Data: x})
	classes := slices.Max(right) + 1
	shifted := slices.Clone(right)
	for i, y := range shifted {
		shifted[i] = (y + 1) % classes
	}
	dir := t.TempDir()
	set := func(name string, labels []int64, n int) string {
		return write(t, dir, name, npz(t, map[string]array{"x": {x[:n*5], []int{n, 5}}, "labels": {labels[:n], []int{n}}}))
	}
	train := set("train.npz", right, n)
	for name, tc := range map[string]struct {
		val  string
		want string // "" for no warning of this kind
	}{
		"labels shifted by one": {set("shifted.npz", shifted, n), "no better than guessing"},
		"few examples":          {set("few.npz", right, 30), "30 held-out examples say little"},
		"as it should be":       {set("val.npz", right, 250), ""},
	} {
		c := quick(Config{Model: model, Train: train, Val: tc.val, Out: filepath.Join(dir, "b"), Force: true})
		warnings := strings.Join(mustCalibrate(t, c).Warnings, "; ")
		for _, doubt := range []string{"no better than guessing", "held-out examples say little"} {
			if strings.Contains(warnings, doubt) != (tc.want != "" && strings.Contains(tc.want, doubt)) {
				t.Errorf("%s: warnings %q, want %q", name, warnings, tc.want)
			}
		}
	}
}

func TestProbabilitiesAreToldFromLogits(t *testing.T) {
	for name, tc := range map[string]struct {
		rows []float32
		link calibrate.Link
		want bool
	}{
		"probabilities":     {[]float32{0.25, 0.75, 1, 0}, calibrate.Softmax, true},
		"logits":            {[]float32{0.25, 0.75, 2, -1}, calibrate.Softmax, false},
		"sums of something": {[]float32{0.25, 0.75, 0.5, 0.6}, calibrate.Softmax, false},
		"one-vs-rest":       {[]float32{0.25, 0.75, 0.5, 0.6}, calibrate.OneVsRest, false},
		"multi-label":       {[]float32{0.25, 0.75, 0.5, 0.6}, calibrate.Sigmoid, true},
		"labels' logits":    {[]float32{0.25, 0.75, 0.5, 1.6}, calibrate.Sigmoid, false},
		"a negative one":    {[]float32{1.25, -0.25}, calibrate.Softmax, false},
	} {
		if got := probabilitiesIn(tc.rows, calibrate.Head{Logits: 2, Link: tc.link}) != ""; got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
	if probabilitiesIn([]float32{1, 1}, calibrate.Head{Logits: 1, Link: calibrate.Sigmoid}) != "" {
		t.Error("single logits were taken for probabilities")
	}
}
