package measure

import (
	"testing"

	"github.com/mfgs/mfgs/calibrate/layer"
)

func TestProbabilitiesAreDistinguishedFromLogits(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		rows []float32
		link layer.Link
		want bool
	}{
		"probabilities":     {[]float32{0.25, 0.75, 1, 0}, layer.Softmax, true},
		"logits":            {[]float32{0.25, 0.75, 2, -1}, layer.Softmax, false},
		"sums of something": {[]float32{0.25, 0.75, 0.5, 0.6}, layer.Softmax, false},
		"one-vs-rest":       {[]float32{0.25, 0.75, 0.5, 0.6}, layer.OneVsRest, false},
		"multi-label":       {[]float32{0.25, 0.75, 0.5, 0.6}, layer.Sigmoid, true},
		"labels' logits":    {[]float32{0.25, 0.75, 0.5, 1.6}, layer.Sigmoid, false},
		"a negative one":    {[]float32{1.25, -0.25}, layer.Softmax, false},
	} {
		if got := LooksLikeProbabilities(tc.rows, layer.Head{Logits: 2, Link: tc.link}) != ""; got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
	if LooksLikeProbabilities([]float32{1, 1}, layer.Head{Logits: 1, Link: layer.Sigmoid}) != "" {
		t.Error("single logits were taken for probabilities")
	}
}
