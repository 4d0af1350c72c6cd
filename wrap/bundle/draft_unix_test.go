//go:build unix

package bundle

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestABundleIsWritableByItsOwnerOnly(t *testing.T) {
	before := syscall.Umask(0)
	defer syscall.Umask(before)
	dir := filepath.Join(t.TempDir(), "b")
	if err := Write(dir, full(), withData()); err != nil {
		t.Fatal(err)
	}
	check := func() {
		t.Helper()
		if err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
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
	check()
	if err := Reseal(dir); err != nil {
		t.Fatal(err)
	}
	check()
}

// draftOfKilled makes what a process leaves that is killed in the middle of writing.
func draftOfKilled(t *testing.T, parent string) {
	t.Helper()
	draft := filepath.Join(parent, ".mfgs-0123456789abcdef.tmp")
	host, err := os.Hostname()
	err = errors.Join(err, os.MkdirAll(filepath.Join(draft, "new", "b"), 0o755))
	err = errors.Join(err, os.WriteFile(filepath.Join(draft, "lock"), []byte(host), 0o644))
	if err = errors.Join(err, os.WriteFile(filepath.Join(draft, "new", "b", ModelName), make([]byte, 1000),
		0o644)); err != nil {
		t.Fatal(err)
	}
}

func TestDraftsOfKilledProcessesAreRemoved(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "b")
	draftOfKilled(t, parent)
	// One that lives keeps its own.
	slow := filepath.Join(parent, "slow")
	o := withFiles()
	o.Model = func(w io.Writer) error {
		draftOfKilled(t, parent)
		if err := Write(dir, kron(), WriteOptions{}); err != nil {
			t.Error(err)
		}
		_, err := io.WriteString(w, "model")
		return err
	}
	if err := Write(slow, full(), o); err != nil {
		t.Fatal(err)
	}
	wantFiles(t, parent, "b", "slow")
	if _, err := Open(slow); err != nil {
		t.Error(err)
	}
	draftOfKilled(t, dir)
	if err := Reseal(dir); err != nil {
		t.Fatal(err)
	}
	wantFiles(t, dir, ManifestName, PosteriorName)
	// It does not prevent another bundle either.
	draftOfKilled(t, dir)
	if err := Write(dir, kron(), WriteOptions{Force: true}); err != nil {
		t.Fatal(err)
	}
	wantFiles(t, dir, ManifestName, PosteriorName)
}

// Other programs have a bundle.yaml too.
func TestForceDoesNotReplaceFoldersOfOtherPrograms(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "b")
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, ManifestName)
	if err := os.WriteFile(path, []byte("applications:\n  mysql: {}\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{Write(dir, full(), WriteOptions{Force: true}), CheckTarget(dir, true)} {
		if err == nil || !strings.Contains(err.Error(), "is not replaced: its bundle.yaml is not from a bundle") {
			t.Errorf("error %v", err)
		}
	}
	if data, err := os.ReadFile(path); err != nil || !strings.HasPrefix(string(data), "applications") {
		t.Errorf("it holds %q, %v", data, err)
	}
	// A broken bundle is a bundle too.
	dir = written(t, full(), WriteOptions{})
	if err := os.Truncate(filepath.Join(dir, ManifestName), 100); err != nil {
		t.Fatal(err)
	}
	if err := Write(dir, kron(), WriteOptions{Force: true}); err != nil {
		t.Error(err)
	}
}
