package featurize

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/mfgs/mfgs/featurize/ort"
)

// The tests run real networks: ONNX Runtime is installed into the user's cache
// where there is none. The test binary doubles as the program that runs into a
// full disk.
func TestMain(m *testing.M) {
	lib, err := ort.Ensure(context.Background(), ort.SetupConfig{Install: true})
	if err == nil {
		err = ort.Load(lib)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if dir := os.Getenv(fullDiskEnv); dir != "" {
		streamOnFullDisk(dir)
		return
	}
	os.Exit(m.Run())
}
