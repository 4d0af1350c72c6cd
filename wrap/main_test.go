package wrap_test

import (
	"testing"

	"github.com/mfgs/mfgs/internal/wraptest"
)

// helpers are what the test binary runs instead of tests, by the environment variable that asks for it.
var helpers = map[string]func(string){}

func TestMain(m *testing.M) { wraptest.Main(m, helpers) }
