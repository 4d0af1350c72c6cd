package fuse_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/mfgs/mfgs/featurize/ort"
	"github.com/mfgs/mfgs/internal/install"
)

// Fused graphs run in a real ONNX Runtime, which is installed if it is missing.
func TestMain(m *testing.M) {
	lib, err := install.Ensure(context.Background(), install.Config{Install: true})
	if err == nil {
		err = ort.Load(lib)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}
