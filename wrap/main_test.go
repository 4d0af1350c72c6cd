package wrap

import (
	"context"
	"fmt"
	"os"
	"testing"
)

// helpers are what the test binary does instead of testing, by the variable that
// asks for it, with the variable's value.
var helpers = map[string]func(string){}

// The tests run real networks: ONNX Runtime is installed into the user's cache
// where there is none.
func TestMain(m *testing.M) {
	r := Runtime{Setup: Setup{Install: true}}
	if err := r.load(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for name, help := range helpers {
		if v := os.Getenv(name); v != "" {
			help(v)
			return
		}
	}
	code := m.Run()
	os.RemoveAll(shared.dir)
	os.Exit(code)
}
