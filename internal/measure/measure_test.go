package measure

import (
	"testing"

	"github.com/mfgs/mfgs/calibrate"
)

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
		if got := ProbabilitiesIn(tc.rows, calibrate.Head{Logits: 2, Link: tc.link}) != ""; got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
	if ProbabilitiesIn([]float32{1, 1}, calibrate.Head{Logits: 1, Link: calibrate.Sigmoid}) != "" {
		t.Error("single logits were taken for probabilities")
	}
}
