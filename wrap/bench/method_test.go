package bench

import (
	"errors"
	"testing"
)

func TestMethodsThatNoBundleServesAreRefused(t *testing.T) {
	for _, name := range []string{"", "mf3", "MF0", "mc:500", "mf0@fisher", "ts:5"} {
		err := CheckMethods([]string{"mle", name})
		if unknown := (*UnknownMethodError)(nil); !errors.As(err, &unknown) || unknown.Method != name {
			t.Errorf("%q: error %v", name, err)
		}
	}
	says(t, CheckMethods([]string{"mc:500"}), `method "mc:500"`, "no", "mle, ts, matrix, mf0, mf1")
	says(t, CheckMethods([]string{"mf1", "mf0", "mf1"}), `"mf1"`, "twice")
	if err := CheckMethods(Methods()); err != nil {
		t.Error(err)
	}
	if err := CheckMethods(DefaultMethods()); err != nil {
		t.Error(err)
	}
}

func TestEveryMethodIsDescribed(t *testing.T) {
	names := Methods()
	if len(names) < 15 {
		t.Fatalf("only %d methods", len(names))
	}
	for _, n := range names {
		if DescribeMethod(n) == "" {
			t.Errorf("%s is not described", n)
		}
	}
}
