package head_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/internal/realdata"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/head"
)

// Real models from other exporters, which are too large for this repository.
func TestRealModels(t *testing.T) {
	t.Parallel()
	data := realdata.Dir(t)
	for name, want := range map[string]string{
		"cifar10_resnet20":               "Gemm /Flatten_output_0 → logits, 64 × 10, bias true, softmax",
		"cifar10_resnet56":               "Gemm /Flatten_output_0 → logits, 64 × 10, bias true, softmax",
		"imagenet_mobilenet_v1_0.25_128": "Gemm features → logits, 256 × 1000, bias true, softmax",
		"imagenet_mobilenet_v2_1.0_224":  "Gemm features → logits, 1280 × 1000, bias true, softmax",
		"mnist_cntk_opset8":              "MatMul Pooling160_Output_0_reshape0 → Plus214_Output_0, 256 × 10, bias true, softmax",
		"imagenet_squeezenet_fp16":       `Relu "conv10_2" stands between the linear layer Conv "conv10_1" and "softmaxout_1"`,
	} {
		t.Run(name, func(t *testing.T) {
			m, err := onnx.Open(filepath.Join(data, "models", name+".onnx"))
			if err != nil {
				t.Fatal(err)
			}
			h, err := head.Find(m, head.Options{})
			if err != nil {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("refused with %q, want %q", err, want)
				}
				return
			}
			got := fmt.Sprintf("%s %s → %s, %d × %d, bias %v, %s", h.Op, h.FeaturesTensor, h.LogitsTensor, h.Features, h.Logits,
				h.Bias, h.Link)
			if got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			c, err := head.Cut(m, h)
			if err != nil {
				t.Fatal(err)
			}
			graph, folder, err := c.Runnable()
			if err != nil {
				t.Fatal(err)
			}
			if info, err := os.Stat(filepath.Join(folder, name+".onnx")); err != nil ||
				int64(len(graph)) > info.Size()/5 {
				t.Errorf("%d bytes of graph for a file of %v bytes: weights were taken along (%v)", len(graph),
					info.Size(), err)
			}
			if w, b, err := h.Weights(); err != nil || len(w) != h.Features*h.Logits || len(b) != h.Logits {
				t.Errorf("%d weights, %d biases, error %v", len(w), len(b), err)
			}
		})
	}
}
