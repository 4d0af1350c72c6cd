package featurize

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/mfgs/mfgs/featurize/ort"
)

// The tests run real networks: ONNX Runtime is installed into the user's cache
// where there is none.
func TestMain(m *testing.M) {
	lib, err := ort.Ensure(context.Background(), ort.SetupConfig{Install: true})
	if err == nil {
		err = ort.Load(lib)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}
