package measure

import (
	"testing"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/link"
)

func TestProbabilitiesAreToldFromLogits(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		rows []float32
		link link.Link
		want bool
	}{
		"probabilities":     {[]float32{0.25, 0.75, 1, 0}, link.Softmax, true},
		"logits":            {[]float32{0.25, 0.75, 2, -1}, link.Softmax, false},
		"sums of something": {[]float32{0.25, 0.75, 0.5, 0.6}, link.Softmax, false},
		"one-vs-rest":       {[]float32{0.25, 0.75, 0.5, 0.6}, link.OneVsRest, false},
		"multi-label":       {[]float32{0.25, 0.75, 0.5, 0.6}, link.Sigmoid, true},
		"labels' logits":    {[]float32{0.25, 0.75, 0.5, 1.6}, link.Sigmoid, false},
		"a negative one":    {[]float32{1.25, -0.25}, link.Softmax, false},
	} {
		if got := LooksLikeProbabilities(tc.rows, calibrate.Head{Logits: 2, Link: tc.link}) != ""; got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
	if LooksLikeProbabilities([]float32{1, 1}, calibrate.Head{Logits: 1, Link: link.Sigmoid}) != "" {
		t.Error("single logits were taken for probabilities")
	}
}
