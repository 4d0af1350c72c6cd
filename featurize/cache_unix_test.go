//go:build unix

package featurize

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/mfgs/mfgs/featurize/dataset"
)

// A pipe in the place of the rows kept a run waiting for ever.
func TestAPipeInTheCacheIsNoRows(t *testing.T) {
	t.Parallel()
	e, err := newExtractor("grey", Config{})
	if err != nil {
		t.Fatal(err)
	}
	ds := openData(t, labelled(t, t.TempDir(), 20), dataset.Options{})
	dir := filepath.Join(t.TempDir(), "cache")
	before := syscall.Umask(0)
	defer syscall.Umask(before)
	c := StreamConfig{Cache: &Cache{Dir: dir}}
	want, _ := stream(t, e, ds, c)
	names := entries(t, dir)
	if len(names) != 1 {
		t.Fatalf("the cache holds %q", names)
	}
	path := filepath.Join(dir, names[0])
	for p, mode := range map[string]os.FileMode{path: 0o644, dir: 0o755} {
		if s, err := os.Stat(p); err != nil || s.Mode().Perm() != mode {
			t.Errorf("under umask 0 %s has %v, %v, want %v", p, s.Mode(), err, mode)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		got := &collected{}
		if stats, err := pass(t.Context(), e.Rows, ds, c, collect(got)); err != nil || stats.Cached {
			t.Errorf("%+v, %v", stats, err)
		}
		equal(t, got, want)
	}()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("it waits for somebody to write to the pipe")
	}
	if s, err := os.Lstat(path); err != nil || !s.Mode().IsRegular() {
		t.Errorf("in its place is %v, %v", s.Mode(), err)
	}
}

// The file of a killed run is as large as the file that it was to write.
func TestTheNextRunClearsTheCacheOfKilledOnes(t *testing.T) {
	t.Parallel()
	e, err := newExtractor("grey", Config{})
	if err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{"new data": labelled(t, t.TempDir(), 20), "old data": aged(t, 20)} {
		t.Run(name, func(t *testing.T) { clearsKilled(t, e, openData(t, path, dataset.Options{})) })
	}
}

func clearsKilled(t *testing.T, e *Network, ds *dataset.Dataset) {
	dir := t.TempDir()
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	killed := filepath.Join(dir, ".mfgs-0123456789abcdef.tmp")
	if err := os.MkdirAll(filepath.Join(killed, "new"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, killed, "lock", []byte(host))
	write(t, filepath.Join(killed, "new"), "x.rows", make([]byte, 1000))
	stream(t, e, ds, StreamConfig{Cache: &Cache{Dir: dir}})
	if names := entries(t, dir); len(names) != 1 || filepath.Ext(names[0]) != ".rows" {
		t.Errorf("the cache holds %q", names)
	}
}
