//go:build unix

package onnx

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
	"github.com/mfgs/mfgs/internal/onnx/onnxtest"
)

// Opening a named pipe that nobody writes to would wait for ever.
func TestPipesAreRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o644); err != nil {
		t.Fatal(err)
	}
	pb := onnxtest.Network()
	w := pb.Graph.Initializer[0]
	w.RawData, w.DataLocation = nil, proto.Int32(1)
	w.ExternalData = []*onnxpb.Entry{{Key: proto.String("location"), Value: proto.String("fifo")}}
	path := filepath.Join(dir, "model.onnx")
	onnxtest.WriteModel(t, path, pb)
	if err := os.Symlink("fifo", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{fifo, filepath.Join(dir, "link"), path} {
		if _, err := Open(p); err == nil || !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("opening %s: %v", filepath.Base(p), err)
		}
	}
}
