package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestTheFingerprintChangesWithFilesAndArguments(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	write := func(text string, at int64) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, time.Unix(at, 0), time.Unix(at, 0)); err != nil {
			t.Fatal(err)
		}
	}
	of := func(more ...any) string {
		t.Helper()
		s, err := fingerprint([]string{dir}, more...)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	write("x", 1)
	first := of(1, 2)
	if len(first) != 16 || of(1, 2) != first {
		t.Errorf("%q, and then %q", first, of(1, 2))
	}
	if of(1) == first {
		t.Error("it does not depend on the arguments")
	}
	write("x", 2)
	if of(1, 2) == first {
		t.Error("it does not depend on times of change")
	}
	write("xy", 1)
	if of(1, 2) == first {
		t.Error("it does not depend on sizes")
	}
	if _, err := fingerprint([]string{filepath.Join(dir, "none")}); err == nil {
		t.Error("a folder that is missing: no error")
	}
}

func TestTheFingerprintFollowsLinks(t *testing.T) {
	t.Parallel()
	dir, links := t.TempDir(), t.TempDir()
	path := filepath.Join(dir, "data", "a")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{"root": dir, "file": path, "folder": filepath.Dir(path)} {
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		within := filepath.Join(links, name)
		if err := os.MkdirAll(within, 0o700); err != nil {
			t.Fatal(err)
		}
		link := filepath.Join(within, "link")
		if err := os.Symlink(to, link); err != nil {
			t.Fatal(err)
		}
		asked := within
		if name == "root" {
			asked = link
		}
		before, err := fingerprint([]string{asked})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("longer"), 0o600); err != nil {
			t.Fatal(err)
		}
		if after, err := fingerprint([]string{asked}); err != nil || after == before {
			t.Errorf("%s: %q and then %q, error %v", name, before, after, err)
		}
	}
	nowhere := filepath.Join(links, "nowhere")
	if err := os.MkdirAll(nowhere, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(dir, "none"), filepath.Join(nowhere, "link")); err != nil {
		t.Fatal(err)
	}
	if _, err := fingerprint([]string{nowhere}); err != nil {
		t.Errorf("a link that leads nowhere: %v", err)
	}
	if _, err := fingerprint([]string{filepath.Join(nowhere, "link")}); err == nil {
		t.Error("such a link for a folder: no error")
	}
	circle := filepath.Join(links, "circle")
	if err := os.MkdirAll(circle, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(circle, filepath.Join(circle, "again")); err != nil {
		t.Fatal(err)
	}
	if _, err := fingerprint([]string{circle}); err == nil {
		t.Error("links in a circle: no error")
	}
}
