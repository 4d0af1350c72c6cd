package featurize

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/mfgs/mfgs/featurize/ort"
	"github.com/mfgs/mfgs/internal/install"
)

// helpers are what the test binary does instead of testing, by the variable that
// asks for it, with the variable's value.
var helpers = map[string]func(string){}

// The tests run real networks: ONNX Runtime is installed into the user's cache if it is missing.
func TestMain(m *testing.M) {
	lib, err := install.Ensure(context.Background(), install.Config{Install: true})
	if err == nil {
		err = ort.Load(lib)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for name, help := range helpers {
		if v := os.Getenv(name); v != "" {
			help(v)
			return
		}
	}
	os.Exit(m.Run())
}
