package text

import (
	"testing"
)

func TestCountsAreInGroupsOfThreeDigits(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", -1: "-1", -999: "-999", -1000: "-1,000",
		1234567: "1,234,567", -1234567: "-1,234,567"} {
		if got := Count(n); got != want {
			t.Errorf("%d is %s, want %s", n, got, want)
		}
	}
}

func TestNounsAgreeWithTheirNumber(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		n          int
		noun, want string
	}{{1, "file", "1 file"}, {0, "file", "0 files"}, {2, "class", "2 classes"}, {1, "class", "1 class"}, {2000, "example", "2,000 examples"}} {
		if got := Plural(c.n, c.noun); got != c.want {
			t.Errorf("%d %s is %q, want %q", c.n, c.noun, got, c.want)
		}
	}
}
