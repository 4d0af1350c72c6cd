//go:build unix

package files

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"
)

// within fails if f, which may wait for ever, is not done soon.
func within(t *testing.T, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("it waits for another process")
	}
}

func TestOnlyRegularFilesAreOpened(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	if err := syscall.Mkfifo(path("pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("pipe", path("link")); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir) // the names of sockets are short
	l, err := net.Listen("unix", "socket")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for name, want := range map[string]string{"pipe": "a pipe", "link": "a pipe", "socket": "a socket", ".": "a folder",
		"/dev/null": "a device"} {
		p := name
		if !filepath.IsAbs(p) {
			p = path(name)
		}
		within(t, func() {
			_, err := Open(p)
			var irregular *IrregularError
			if !errors.As(err, &irregular) || !strings.Contains(err.Error(), "not a regular file but "+want) {
				t.Errorf("Open(%s): %v", name, err)
			}
			if _, err := Read(p, 9); !errors.As(err, &irregular) {
				t.Errorf("Read(%s): %v", name, err)
			}
		})
	}
	// A file may be replaced after the first look.
	for _, name := range []string{"pipe", "link"} {
		within(t, func() {
			var irregular *IrregularError
			if _, err := openNow(path(name), os.O_RDONLY); !errors.As(err, &irregular) {
				t.Errorf("openNow(%s): %v", name, err)
			}
		})
	}
	within(t, func() {
		var irregular *IrregularError
		if _, err := fs.ReadFile(DirFS(dir), "pipe"); !errors.As(err, &irregular) {
			t.Errorf("in a file system: %v", err)
		}
	})
}

func TestDirFSIsAFileSystem(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, "a", "b"), "x")
	put(t, filepath.Join(dir, "c"), "y")
	if err := fstest.TestFS(DirFS(dir), "a/b", "c"); err != nil {
		t.Error(err)
	}
}

func TestPermissionsFollowTheUmask(t *testing.T) {
	for _, test := range []struct {
		umask        int
		file, folder fs.FileMode
	}{{0, 0o644, 0o755}, {0o022, 0o644, 0o755}, {0o077, 0o600, 0o700}} {
		before := syscall.Umask(test.umask)
		dir := t.TempDir()
		d, err := NewDraft(dir)
		if err != nil {
			t.Fatal(err)
		}
		err = errors.Join(d.Put("folder/1/file", text("x")), d.MoveNew("folder"),
			Write(filepath.Join(dir, "file"), text("x")))
		if err != nil {
			t.Error(err)
		}
		for name, want := range map[string]fs.FileMode{
			"file": test.file, "folder": test.folder, "folder/1": test.folder, "folder/1/file": test.file,
			filepath.Base(d.path): test.folder,
		} {
			if s, err := os.Stat(filepath.Join(dir, name)); err != nil || s.Mode().Perm() != want {
				t.Errorf("umask %03o: %s has %v, %v, want %v", test.umask, name, s.Mode(), err, want)
			}
		}
		syscall.Umask(before)
		d.Close()
	}
}

// Files that others may have put into the folder for temporary files are not written to.
func TestScratchIsPrivate(t *testing.T) {
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	d, err := NewScratch()
	if err != nil {
		t.Fatal(err)
	}
	own := filepath.Dir(filepath.Dir(d.Path("")))
	if s, err := os.Stat(own); err != nil || s.Mode().Perm() != 0o700 || filepath.Dir(own) != temporary {
		t.Errorf("%s: %v, %v", own, s.Mode(), err)
	}
	if err := os.WriteFile(d.Path("x"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(own); len(left) > 0 {
		t.Errorf("there is %v", left)
	}
	for name, spoil := range map[string]func() error{
		"open to others": func() error { return os.Mkdir(own, 0o777) },
		"a link":         func() error { return os.Symlink(t.TempDir(), own) },
		"a file":         func() error { return os.WriteFile(own, nil, 0o600) },
	} {
		if err := os.RemoveAll(own); err != nil {
			t.Fatal(err)
		}
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		if name == "open to others" { // whatever the umask
			os.Chmod(own, 0o777)
		}
		if d, err := NewScratch(); err == nil || !strings.Contains(err.Error(), "TMPDIR") {
			t.Errorf("%s: %v", name, err)
			d.Close()
		}
	}
	if os.Getuid() == 0 {
		if err := errors.Join(os.RemoveAll(own), os.Mkdir(own, 0o700), os.Chown(own, 12345, 12345)); err != nil {
			t.Fatal(err)
		}
		if _, err := NewScratch(); err == nil {
			t.Error("a folder of another user is written to")
		}
	}
}
