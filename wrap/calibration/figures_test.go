package calibration_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/mfgs/mfgs/wrap"
	. "github.com/mfgs/mfgs/wrap/calibration"
)

func TestImplausibleFiguresGiveAWarning(t *testing.T) {
	t.Parallel()
	const n = 300
	x := random(1, n*5)
	model := "../../testdata/onnx/external.onnx"
	right := labelsOf(t, model, n, Tensor{Shape: []int64{n, 5}, Data: x})
	classes := slices.Max(right) + 1
	shifted := slices.Clone(right)
	for i, y := range shifted {
		shifted[i] = (y + 1) % classes
	}
	dir := t.TempDir()
	set := func(name string, labels []int64, n int) string {
		return write(t, dir, name, npz(t, map[string]array{"x": arrayOf(x[:n*5], n, 5), "labels": arrayOf(labels[:n], n)}))
	}
	train := set("train.npz", right, n)
	for name, tc := range map[string]struct {
		val  string
		want string // "" for no warning of this kind
	}{
		"labels shifted by one": {set("shifted.npz", shifted, n), "no better than guessing"},
		"few examples":          {set("few.npz", right, 30), "30 validation examples are too few"},
		"as it should be":       {set("val.npz", right, 250), ""},
	} {
		c := quick(Config{Model: model, Train: train, Val: tc.val, Out: filepath.Join(dir, "b"), Force: true})
		warnings := strings.Join(mustCalibrate(t, c).Warnings, "; ")
		for _, warning := range []string{"no better than guessing", "validation examples are too few"} {
			if strings.Contains(warnings, warning) != (tc.want != "" && strings.Contains(tc.want, warning)) {
				t.Errorf("%s: warnings %q, want %q", name, warnings, tc.want)
			}
		}
	}
}
