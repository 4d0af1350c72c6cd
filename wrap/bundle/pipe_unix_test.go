//go:build unix

package bundle

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A pipe in the place of a file would keep its reader waiting for ever.
func TestAPipeInABundleIsRefused(t *testing.T) {
	t.Parallel()
	for _, name := range []string{ManifestName, PosteriorName, ModelName, ModelDataName} {
		dir := filepath.Join(t.TempDir(), "b")
		if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "v1-data"))); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, name)
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), name+": not a regular file") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}
