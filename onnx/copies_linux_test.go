package onnx

import (
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/mfgs/mfgs/internal/onnx/onnxtest"
)

// If the disk fills up during a copy, the whole model is held in memory, and the space is freed.
func TestACopyThatDoesNotFitOnTheDiskIsHeldInMemory(t *testing.T) {
	path := filepath.Join(onnxtest.Fixtures, "torch_large.onnx")
	plain, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	left := copiesIn(t, -1)
	signal.Ignore(syscall.SIGXFSZ)
	defer signal.Reset(syscall.SIGXFSZ)
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &was); err != nil {
		t.Fatal(err)
	}
	limited := was
	limited.Cur = uint64(plain.Size() / 2)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limited); err != nil {
		t.Fatal(err)
	}
	m, err := OpenCopy(path)
	if e := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &was); e != nil {
		t.Fatal(e)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if m.SHA256() != plain.SHA256() || m.Size() != plain.Size() || m.store.files[0].data == nil || len(left()) > 0 {
		t.Errorf("%d bytes with %s, want %d with %s; in files there is %q", m.Size(), m.SHA256(), plain.Size(), plain.SHA256(), left())
	}
}
