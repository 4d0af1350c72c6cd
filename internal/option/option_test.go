package option_test

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"github.com/mfgs/mfgs/internal/option"
)

func TestAnErrorNamesFieldsToProgramsAndFlagsToPeople(t *testing.T) {
	t.Parallel()
	exists := option.Errorf("%s: %w: use %s to replace it", "b", fs.ErrExist, option.Force)
	nested := fmt.Errorf("calibrate: %w", option.Errorf("%w, or choose another %s", exists, option.Out))
	flag := func(n option.Name) string { return "the flag for " + string(n) }
	for _, test := range []struct {
		err         error
		plain, text string
	}{
		{errors.New("Force"), "Force", "Force"},
		{exists, "b: file already exists: use Force to replace it", "b: file already exists: use the flag for Force to replace it"},
		{nested, "calibrate: b: file already exists: use Force to replace it, or choose another Out",
			"calibrate: b: file already exists: use the flag for Force to replace it, or choose another the flag for Out"},
	} {
		if got := test.err.Error(); got != test.plain {
			t.Errorf("%q, want %q", got, test.plain)
		}
		if got := option.Text(test.err, flag); got != test.text {
			t.Errorf("%q, want %q", got, test.text)
		}
	}
	if !errors.Is(nested, fs.ErrExist) {
		t.Error("what an error wraps is not found")
	}
}

func TestAnOptionIsFoundByItsFlag(t *testing.T) {
	t.Parallel()
	for _, n := range option.All {
		if got := option.Of(n.Kebab()); got != n {
			t.Errorf("the option of the flag %s is %s, want %s", n.Kebab(), got, n)
		}
	}
}
