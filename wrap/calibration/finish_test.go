package calibration

import (
	"strings"
	"testing"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/metrics"
)

func TestAWarningSaysWhatIsImplausibleAboutTheNetwork(t *testing.T) {
	t.Parallel()
	h := layer.Head{Features: 3, Logits: 10, Link: layer.Softmax} // log 10 = 2.30
	for _, c := range []struct {
		before, scaled metrics.InDomain
		want           string
	}{
		{metrics.InDomain{N: 100, Error: 0.1}, metrics.InDomain{NLL: 0.3}, ""},
		{metrics.InDomain{N: 99, Error: 0.1}, metrics.InDomain{NLL: 0.3}, "99 validation examples"},
		{metrics.InDomain{N: 100}, metrics.InDomain{NLL: 0.3}, "no error"},
		{metrics.InDomain{N: 100, Error: 0.9}, metrics.InDomain{NLL: 2.26}, "no better than guessing"},
		{metrics.InDomain{N: 100, Error: 0.9}, metrics.InDomain{NLL: 2.25}, ""},
	} {
		got := likelihoodWarning(h, c.before.N, false, c.before, c.scaled)
		if got == "" != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%+v, %+v: warning %q, want %q", c.before, c.scaled, got, c.want)
		}
	}
}
