package export

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/featurize/ort"
	"github.com/mfgs/mfgs/internal/approx"
	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
	"github.com/mfgs/mfgs/internal/onnx/onnxtest"
	"github.com/mfgs/mfgs/internal/wraptest"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/tensor"
	"github.com/mfgs/mfgs/wrap"
)

// The exported model of a forest predicts as its bundle, beside its own outputs, and has no outputs or metadata of a
// posterior.
func TestAnExportedForestPredictsAsItsBundle(t *testing.T) {
	t.Parallel()
	const n = 37
	x := wraptest.ForestInputs(4, n)
	c := wraptest.ForestConfig(t, 4, func(f *onnxtest.Forest, m *onnxpb.Model) {
		m.Graph.Node = append(m.Graph.Node, onnxtest.ZipMap("probabilities", "maps", 4))
		m.Graph.Output = []*onnxpb.ValueInfo{onnxpb.TensorInfo("label", tensor.Int64, -1), onnxtest.Maps("maps", tensor.Int64)}
	})
	c.OOD, c.Decisions = "", wraptest.EveryDecision
	mustCalibrate(t, c)
	path := filepath.Join(t.TempDir(), "forest.onnx")
	r, err := Write(t.Context(), c.Out, Options{Out: path})
	if err != nil {
		t.Fatal(err)
	}
	m, err := onnx.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	metadata := m.Metadata()
	for key := range metadata {
		for _, word := range []string{"covariance", "structure", "lambda0", "variance", "temperatures.nll", "temperatures.ood", "leverage"} {
			if strings.Contains(key, word) {
				t.Errorf("metadata have %s", key)
			}
		}
	}
	if metadata["mfgs.head"] != "probabilities" || metadata["mfgs.smoothing"] == "" || metadata["mfgs.ood_score"] != "entropy" {
		t.Errorf("metadata %v", metadata)
	}
	if r.Outputs.Of("logit_variance") != nil || r.Outputs.Of("leverage") != nil {
		t.Errorf("outputs %+v", r.Outputs)
	}
	want, err := opened(t, c.Out, wrap.Options{}).Predict(t.Context(), []wrap.Tensor{x})
	if err != nil {
		t.Fatal(err)
	}
	var names []string // maps cannot be read
	for _, o := range r.Outputs {
		names = append(names, o.Name)
	}
	s, err := ort.NewSession(ort.SessionConfig{Graph: read(t, path), Outputs: names})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	outputs, err := s.Run(t.Context(), []wrap.Tensor{x})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]wrap.Tensor{}
	for i, o := range outputs {
		got[names[i]] = o
	}
	for i, w := range want {
		for k, p := range w.Probabilities {
			if v := float64(got[r.Outputs.Of("probabilities").Name].Data.([]float32)[i*4+k]); !approx.Equal(v, p, 1e-6) {
				t.Fatalf("example %d: p[%d] = %v, want %v", i, k, v, p)
			}
		}
		for name, v := range map[string]float64{"ood_score": w.OODScore, "ood_percentile": *w.OODPercentile, "ood_pvalue": *w.OODPValue} {
			if g := got[r.Outputs.Of(name).Name].Data.([]float64)[i]; !approx.Equal(g, v, 1e-9) {
				t.Fatalf("example %d: %s is %v, want %v", i, name, g, v)
			}
		}
		if got["abstain"].Data.([]bool)[i] != *w.Abstain {
			t.Fatalf("example %d: abstain", i)
		}
	}
	if _, err := Write(t.Context(), c.Out, Options{Out: filepath.Join(t.TempDir(), "mf0.onnx"), Method: "mf0"}); err == nil ||
		!strings.Contains(err.Error(), "needs a linear last layer") {
		t.Errorf("mf0: %v", err)
	}
	// Triton's description has the same outputs.
	triton := t.TempDir()
	if _, err := Write(t.Context(), c.Out, Options{Triton: filepath.Join(triton, "models")}); err != nil {
		t.Fatal(err)
	}
	config := string(read(t, filepath.Join(triton, "models", filepath.Base(c.Out), "config.pbtxt")))
	if strings.Contains(config, "leverage") || strings.Contains(config, "logit_variance") || !strings.Contains(config, "ood_score") {
		t.Errorf("%s", config)
	}
}
