package files

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// grow opens a growing file, which is there for us.
func grow(t *testing.T, path string) *Growing {
	t.Helper()
	g, err := Grow(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close() })
	return g
}

func TestAGrowingFileGoesOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.partial")
	g := grow(t, path)
	if _, err := g.Write([]byte("one two tor")); err != nil {
		t.Fatal(err)
	}
	g.Close()
	g = grow(t, path)
	if err := g.Cut(8); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Write([]byte("three")); err != nil {
		t.Fatal(err)
	}
	all := make([]byte, g.Size())
	if _, err := g.ReadAt(all, 0); err != nil || string(all) != "one two three" {
		t.Errorf("it holds %q, %v", all, err)
	}
	put(t, filepath.Join(filepath.Dir(path), "x"), "an old one")
	if err := g.Move("x"); err != nil {
		t.Fatal(err)
	}
	g.Close()
	if data, err := os.ReadFile(filepath.Join(filepath.Dir(path), "x")); err != nil || string(data) != "one two three" {
		t.Errorf("it holds %q, %v", data, err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("at its old name: %v", err)
	}
}

func TestOneProcessHasAGrowingFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.partial")
	g := grow(t, path)
	if _, err := Grow(path); !errors.Is(err, ErrInUse) {
		t.Errorf("a second has it: %v", err)
	}
	g.Close()
	grow(t, path)
	if _, err := Grow(t.TempDir()); !errors.As(err, new(*IrregularError)) {
		t.Errorf("a folder: %v", err)
	}
}

func TestOnlyOldUnusedGrowingFilesAreRemoved(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"old.partial", "new.partial", "used.partial", "old.rows"} {
		put(t, path(name), "x")
		if name != "new.partial" {
			if err := os.Chtimes(path(name), time.Time{}, time.Now().Add(-2*time.Hour)); err != nil {
				t.Fatal(err)
			}
		}
	}
	grow(t, path("used.partial"))
	SweepGrowing(dir, "*.partial", time.Hour)
	for name, want := range map[string]bool{"old.partial": false, "new.partial": true, "used.partial": true, "old.rows": true} {
		if _, err := os.Lstat(path(name)); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}
