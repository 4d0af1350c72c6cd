package head

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
	"github.com/mfgs/mfgs/internal/onnx/onnxtest"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// Models of every version are read from operator set 7 on, those to come too: what they mean is up
// to the runtime. What is written has IR version 4 at least, in which weights need not be inputs.
func TestVersions(t *testing.T) {
	t.Parallel()
	for opset := int64(7); opset <= 40; opset++ {
		for _, ir := range []int64{3, 8, 10, 13, 14, 99} {
			pb := onnxtest.Network()
			pb.IrVersion, pb.OpsetImport[0].Version = &ir, &opset
			if ir < 4 { // weights are inputs too
				pb.Graph.Input = append(pb.Graph.Input, onnxpb.TensorInfo("w", tensor.Float32, 16, 32))
			}
			m, err := onnx.Parse("model", onnxtest.Marshal(t, pb))
			if err != nil {
				t.Fatalf("operator set %d, IR version %d: %v", opset, ir, err)
			}
			h, err := Find(m, Options{})
			if err != nil {
				t.Fatalf("operator set %d, IR version %d: %v", opset, ir, err)
			}
			c, err := Cut(m, h)
			if err != nil {
				t.Fatal(err)
			}
			if c.Opset() != opset || c.IRVersion() != max(4, ir) || len(c.Inputs()) != 1 {
				t.Errorf("operator set %d and IR version %d became %d and %d", opset, ir, c.Opset(), c.IRVersion())
			}
		}
	}
}

func TestChangedFileIsRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "model.onnx")
	onnxtest.WriteModel(t, path, onnxtest.Network())
	m, err := onnx.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	h, err := Find(m, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := h.Weights(); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 100); err != nil {
		t.Fatal(err)
	}
	_, _, runnable := m.Runnable()
	_, bytes := m.Bytes()
	_, _, weights := h.Weights()
	files, err := m.Files("copy.onnx")
	if err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{"Runnable": runnable, "Bytes": bytes, "Weights": weights,
		"Files": files[0].Write(io.Discard)} {
		if err == nil || !strings.Contains(err.Error(), "has changed") {
			t.Errorf("%s: %v, want that the file has changed", name, err)
		}
	}
}

func BenchmarkOpen(b *testing.B) {
	const size = 128 << 20
	path := onnxtest.SparseModel(b, size)
	b.SetBytes(size)
	b.ReportAllocs()
	for b.Loop() {
		m, err := onnx.Open(path)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := Find(m, Options{}); err != nil {
			b.Fatal(err)
		}
	}
}
