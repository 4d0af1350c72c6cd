// Package realdata finds the real data sets and models that some tests want, which are too large and
// not ours to ship.
package realdata

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// Required is the environment variable that has tests fail which would be skipped for want of data.
// make test sets it where the data is: no test of a wrong path passes as one without data.
const Required = "MFGS_REAL_DATA_REQUIRED"

const module = "github.com/mfgs/mfgs"

// Dir returns ../shared/data, seen from the module's root, as an absolute path. Without it the test is
// skipped. What the folder lacks, tests fail for.
func Dir(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		// Modules below the main one have their own.
		if b, err := os.ReadFile(filepath.Join(dir, "go.mod")); err == nil && bytes.HasPrefix(b, []byte("module "+module+"\n")) {
			break
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("no go.mod of " + module + " above the package")
		}
		dir = filepath.Dir(dir)
	}
	data := filepath.Join(dir, "..", "shared", "data")
	_, err = os.Stat(data)
	switch {
	case err == nil:
	case errors.Is(err, fs.ErrNotExist) && os.Getenv(Required) == "":
		t.Skipf("NOT RUN: this test wants real data, and there is no %s", data)
	default:
		t.Fatalf("real data is required: %v", err)
	}
	return data
}
