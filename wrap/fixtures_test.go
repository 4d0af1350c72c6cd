package wrap

import (
	"encoding/json"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/onnx"
)

// Whatever way a model writes its last layer, it is calibrated, reopened, and predicts with the network's own logits.
func TestEveryKindOfHeadGoesTheWholeWay(t *testing.T) {
	const fixtures, n = "../testdata/onnx", 60
	for _, folder := range []string{".", "operators"} {
		var list []struct {
			File    string
			Options onnx.HeadOptions
			Refused string
			Inputs  map[string]struct {
				Type  string
				Shape []int64
			}
		}
		if err := json.Unmarshal(read(t, filepath.Join(fixtures, folder, "golden.json")), &list); err != nil {
			t.Fatal(err)
		}
		for _, g := range list {
			// A batch that is fixed has tests of its own.
			if g.Refused != "" || strings.Contains(g.File, "fixed_batch") {
				continue
			}
			t.Run(g.File, func(t *testing.T) {
				t.Parallel()
				model := filepath.Join(fixtures, g.File)
				m, err := onnx.Open(model)
				if err != nil {
					t.Fatal(err)
				}
				h, err := onnx.FindHead(m, g.Options)
				if err != nil {
					t.Fatal(err)
				}
				net, err := openNetwork(m, h, nil, Runtime{})
				if err != nil {
					t.Fatal(err)
				}
				defer net.close()
				arrays := map[string]array{}
				var inputs []Tensor
				for _, name := range net.extractor.InputNames() {
					in := g.Inputs[name]
					shape, size := []int64{n}, n
					dims := []int{n}
					for _, d := range in.Shape[1:] {
						shape, dims, size = append(shape, d), append(dims, int(d)), size*int(d)
					}
					var data any = random(3, size)
					if in.Type == "int64" {
						whole := make([]int64, size)
						for i, x := range data.([]float32) {
							whole[i] = int64(3 * x)
						}
						data = whole
					}
					arrays[name] = array{data, dims}
					inputs = append(inputs, Tensor{Name: name, Shape: shape, Data: data})
				}
				rows, err := net.extractor.Run(t.Context(), inputs)
				if err != nil {
					t.Fatal(err)
				}
				k := h.Classes
				if headOf(h).MultiLabel() {
					arrays["labels"] = array{tossed(rows.Logits), []int{n, k}}
				} else {
					arrays["labels"] = array{sampled(rows.Logits, n), []int{n}}
				}
				dir := t.TempDir()
				file := write(t, dir, "data.npz", npz(t, arrays))
				c := Config{Model: model, Head: g.Options, Train: file + "[:40]", Val: file + "[40:]", Out: filepath.Join(dir, "bundle"), Damping: calibrate.Damping{Relative: 1}}
				r := mustCalibrate(t, c)
				if r.Head.Link != string(h.Link) || r.Head.Approximation != string(h.Approximation) || (r.Head.Approximation != "") != slices.ContainsFunc(r.Warnings, func(w string) bool { return strings.Contains(w, "approximat") }) {
					t.Errorf("head %+v, warnings %q", r.Head, r.Warnings)
				}
				i := 0
				_, err = opened(t, c.Out, Options{}).PredictDataset(t.Context(), file, func(p Prediction) error {
					for j, got := range p.Logits {
						// The range of the features decides how a layer of whole numbers is scaled, and they come in other batches.
						if want := float64(rows.Logits[i*k+j]); math.Abs(float64(got)-want) > 1e-5*(1+math.Abs(want)) && !strings.Contains(g.File, "dynamic") && h.Op != "ConvInteger" && g.File != "dequantized.onnx" {
							t.Fatalf("example %d: logits %v, want %v", i, p.Logits, rows.Logits[i*k:(i+1)*k])
						}
					}
					if sum := total(p.Probabilities); h.Link != onnx.Sigmoid && math.Abs(sum-1) > 1e-5 {
						t.Fatalf("example %d: probabilities sum to %v", i, sum)
					}
					i++
					return nil
				})
				if err != nil || i != n {
					t.Errorf("%d predictions: %v", i, err)
				}
			})
		}
	}
}

func total(p []float64) (sum float64) {
	for _, x := range p {
		sum += x
	}
	return sum
}
