package stamp

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestOf(t *testing.T) {
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
		s, err := Of([]string{dir}, more...)
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
		t.Error("it does not depend on what it is told")
	}
	write("x", 2)
	if of(1, 2) == first {
		t.Error("it does not depend on times of change")
	}
	write("xy", 1)
	if of(1, 2) == first {
		t.Error("it does not depend on sizes")
	}
	if _, err := Of([]string{filepath.Join(dir, "none")}); err == nil {
		t.Error("a folder that is missing: no error")
	}
}
