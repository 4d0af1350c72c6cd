package onnx

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
	"github.com/mfgs/mfgs/internal/onnx/onnxtest"
)

// copiesIn sets the folder of copies to one of the test, and the size from which weights are copied to files. It
// returns the files in the folder.
func copiesIn(t *testing.T, small int64) (files func() []string) {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	was := smallCopy
	smallCopy = small
	t.Cleanup(func() { smallCopy = was })
	return func() []string {
		found, err := filepath.Glob(filepath.Join(dir, "*", ".mfgs-*", "new", "*"))
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
}

// A copy can be used when the original files are gone.
func TestACopyIsTheModelWithoutItsFiles(t *testing.T) {
	for name, small := range map[string]func(size int64) int64{
		"in files":                    func(int64) int64 { return -1 },
		"in memory":                   func(int64) int64 { return 1 << 40 },
		"external data alone in file": func(size int64) int64 { return size },
	} {
		t.Run(name, func(t *testing.T) {
			eachFixture(t, func(t *testing.T, path string) {
				original, err := Open(path)
				if err != nil {
					t.Fatal(err)
				}
				want, err := original.Bytes()
				if err != nil {
					t.Fatal(err)
				}
				whole := plain(t, want)
				dir := t.TempDir() // with copies of what can be removed
				for _, f := range original.store.files {
					data, err := os.ReadFile(filepath.Join(original.store.folder, f.name))
					if err != nil {
						t.Fatal(err)
					}
					if err := os.WriteFile(filepath.Join(dir, f.name), data, 0o644); err != nil {
						t.Fatal(err)
					}
				}
				left := copiesIn(t, small(original.store.files[0].size))
				m, err := OpenCopy(filepath.Join(dir, filepath.Base(path)))
				if err != nil {
					t.Fatal(err)
				}
				if err := os.RemoveAll(dir); err != nil {
					t.Fatal(err)
				}
				if got, err := m.Bytes(); err != nil || !bytes.Equal(got, want) {
					t.Errorf("Bytes gives another model (%v)", err)
				}
				if got := followed(t, m); !proto.Equal(got, whole) {
					t.Error("Runnable gives another model")
				}
				f, err := m.File()
				if err != nil {
					t.Fatal(err)
				}
				own, err := io.ReadAll(f)
				f.Close()
				if first, _ := os.ReadFile(path); err != nil || !bytes.Equal(own, first) {
					t.Errorf("File gives something else (%v)", err)
				}
				if m.SHA256() != original.SHA256() || m.Size() != original.Size() ||
					m.SelfContained() != original.SelfContained() {
					t.Error("it is reported as another model")
				}
				for range 2 {
					if err := m.Close(); err != nil || len(left()) > 0 {
						t.Errorf("after Close there is %q (%v)", left(), err)
					}
				}
			})
		})
	}
}

// The weights in memory are bounded for the whole model, for any number of files.
func TestAModelOfManyFilesIsNotHeldInMemory(t *testing.T) {
	const each = 4 << 10
	pb := onnxtest.Network()
	pb.Graph.Initializer = pb.Graph.Initializer[:1]
	dir := t.TempDir()
	for _, name := range []string{"a", "b", "c"} {
		if err := os.WriteFile(filepath.Join(dir, name), make([]byte, each), 0o644); err != nil {
			t.Fatal(err)
		}
		w := &onnxpb.Tensor{Name: proto.String(name), Dims: []int64{each / 4}, DataType: proto.Int32(1)}
		external(w, name, 0, each)
		pb.Graph.Initializer = append(pb.Graph.Initializer, w)
	}
	path := filepath.Join(dir, "model.onnx")
	own := onnxtest.Marshal(t, pb)
	if err := os.WriteFile(path, own, 0o644); err != nil {
		t.Fatal(err)
	}
	for small, files := range map[int]int{
		len(own) + 3*each: 0, len(own) + 3*each - 1: 1, len(own) + each: 2, len(own): 3, len(own) - 1: 4,
	} {
		left := copiesIn(t, int64(small))
		m, err := OpenCopy(path)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(left()); n != files {
			t.Errorf("of %d bytes %d may be in memory, and there are %d files, want %d", len(own)+3*each, small, n, files)
		}
		m.Close()
	}
}

// A broken model leaves no copy, and the error of one that is too large for memory says what would help.
func TestCopiesThatFailLeaveNothing(t *testing.T) {
	dir := t.TempDir()
	junk := filepath.Join(dir, "junk.onnx")
	if err := os.WriteFile(junk, bytes.Repeat([]byte("no model"), 100), 0o644); err != nil {
		t.Fatal(err)
	}
	left := copiesIn(t, 10)
	if _, err := OpenCopy(junk); err == nil || len(left()) > 0 {
		t.Errorf("error %v, and there is %q", err, left())
	}
	if made, _ := os.ReadDir(os.TempDir()); len(made) > 0 {
		t.Error("what is no model was copied")
	}
	t.Setenv("TMPDIR", filepath.Join(dir, "none"))
	_, err := OpenCopy(onnxtest.SparseModel(t, maxFile))
	if err == nil || !strings.Contains(err.Error(), filepath.Join(dir, "none")+": ") ||
		!strings.Contains(err.Error(), "set TMPDIR") {
		t.Errorf("error %v does not say where nothing can be written, and what to do", err)
	}
}

// An ending is a context that ends when it was asked so often.
type ending struct {
	context.Context
	left int
}

func (e *ending) Err() error {
	if e.left--; e.left < 0 {
		return context.Canceled
	}
	return nil
}

func TestCopyingEndsWithItsContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.onnx")
	if err := os.WriteFile(path, onnxtest.Marshal(t, onnxtest.Network()), 0o644); err != nil {
		t.Fatal(err)
	}
	for small, reads := range map[int64]int{0: 2, 1 << 20: 1} { // to a file, and to memory at once
		left := copiesIn(t, small)
		for after := range reads {
			m, err := OpenCopyContext(&ending{t.Context(), after}, path)
			if !errors.Is(err, context.Canceled) || len(left()) > 0 {
				t.Errorf("of a context that ends after %d reads: %v, and there is %q", after, err, left())
			}
			if err == nil {
				m.Close()
			}
		}
		m, err := OpenCopyContext(&ending{t.Context(), 100}, path)
		if err != nil {
			t.Fatal(err)
		}
		m.Close()
	}
}
