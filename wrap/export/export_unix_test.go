//go:build unix

package export

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/mfgs/mfgs/calibrate"
)

func TestAnExportIsWritableByItsOwnerOnlyAndClearsAway(t *testing.T) {
	dir, _ := calibrated(t, calibrate.Kronecker)
	out := t.TempDir()
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	before := syscall.Umask(0)
	defer syscall.Umask(before)
	for _, o := range []Options{{Out: filepath.Join(out, "m.onnx")}, {Triton: filepath.Join(out, "models"), Name: "m"}} {
		folder := filepath.Dir(o.Out)
		if o.Out == "" {
			folder = o.Triton
		}
		// The files that a killed export left.
		write(t, folder, ".mfgs-0123456789abcdef.tmp/lock", []byte(host))
		write(t, folder, ".mfgs-0123456789abcdef.tmp/new/m.onnx", make([]byte, 1000))
		if _, err := Write(t.Context(), dir, o); err != nil {
			t.Fatal(err)
		}
		if got := list(t, folder); slices.Contains(got, ".mfgs-0123456789abcdef.tmp") {
			t.Errorf("files left: %q", got)
		}
	}
	for _, at := range []string{"m.onnx", "models/m"} {
		if err := filepath.WalkDir(filepath.Join(out, at), func(path string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			want := fs.FileMode(0o644)
			if e.IsDir() {
				want = 0o755
			}
			if s, err := e.Info(); err != nil || s.Mode().Perm() != want {
				t.Errorf("%s has %v, %v, want %v", path, s.Mode(), err, want)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
}
