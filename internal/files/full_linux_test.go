package files

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A disk that is full is noticed at the latest when a file is closed, and the error names
// the file's place.
func TestAFullDiskIsNoticed(t *testing.T) {
	real := syncFile
	syncFile = func(*os.File) error { return nil } // which devices do not know
	defer func() { syncFile = real }()
	dir := t.TempDir()
	for _, size := range []int{1, 3 << 20} {
		d, err := NewDraft(dir)
		if err != nil {
			t.Fatal(err)
		}
		f, err := d.Create("file")
		if err != nil {
			t.Fatal(err)
		}
		f.f.Close()
		if f.f, err = os.OpenFile("/dev/full", os.O_WRONLY, 0); err != nil {
			t.Fatal(err)
		}
		f.w.Reset(f.f)
		_, err = f.Write(make([]byte, size))
		if want := size > 1<<20; (err != nil) != want {
			t.Errorf("%d bytes are written with %v", size, err)
		}
		if e := f.Close(); err == nil {
			err = e
		}
		if want := "write " + filepath.Join(dir, "file") + ": " + syscall.ENOSPC.Error(); err == nil ||
			err.Error() != want {
			t.Errorf("%d bytes: %v, want %s", size, err, want)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}
