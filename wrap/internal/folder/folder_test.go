package folder

import (
	"os"
	"path/filepath"
	"testing"
)

func TestInside(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"in/deep", "beside"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("in", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{
		"in/new": true, "in/deep/new": true, "in/deep": true, "link/new": true, "beside/../in/new": true,
		"in": false, "new": false, "beside/new": false, "in-not": false, "nowhere/new": false,
	} {
		for _, folder := range []string{"in", "link"} {
			if got := Inside(filepath.Join(dir, path), filepath.Join(dir, folder)); got != want {
				t.Errorf("%s in %s: %v", path, folder, got)
			}
		}
	}
}
