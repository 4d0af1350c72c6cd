package layer_test

import (
	"strings"
	"testing"

	"github.com/mfgs/mfgs/calibrate/layer"
)

func TestLinksAreKnownByName(t *testing.T) {
	t.Parallel()
	for _, l := range layer.All {
		if err := l.Validate(); err != nil {
			t.Error(err)
		}
		if !strings.Contains(layer.Names(), string(l)) {
			t.Errorf("%s is not among %s", l, layer.Names())
		}
	}
	for _, l := range []layer.Link{"", "Softmax", "probit"} {
		if err := l.Validate(); err == nil || !strings.Contains(err.Error(), "softmax, sigmoid or one-vs-rest") {
			t.Errorf("%q: error %v, want the links that there are", l, err)
		}
	}
}
