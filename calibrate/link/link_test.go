package link_test

import (
	"strings"
	"testing"

	"github.com/mfgs/mfgs/calibrate/link"
)

func TestLinksAreKnownByName(t *testing.T) {
	for _, l := range link.All {
		if err := l.Validate(); err != nil {
			t.Error(err)
		}
		if !strings.Contains(link.Names(), string(l)) {
			t.Errorf("%s is not among %s", l, link.Names())
		}
	}
	for _, l := range []link.Link{"", "Softmax", "probit"} {
		if err := l.Validate(); err == nil || !strings.Contains(err.Error(), "softmax, sigmoid or one-vs-rest") {
			t.Errorf("%q: error %v, want the links that there are", l, err)
		}
	}
}
