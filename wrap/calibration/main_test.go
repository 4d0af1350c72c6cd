package calibration_test

import (
	"testing"

	"github.com/mfgs/mfgs/internal/wraptest"
)

// helpers are what the test binary does instead of testing, by the variable that
// asks for it, with the variable's value.
var helpers = map[string]func(string){}

func TestMain(m *testing.M) { wraptest.Main(m, helpers) }
