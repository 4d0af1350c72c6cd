package calibration_test

import (
	"encoding/json"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/score"
	"github.com/mfgs/mfgs/featurize"
	"github.com/mfgs/mfgs/internal/approx"
	"github.com/mfgs/mfgs/internal/attach"
	"github.com/mfgs/mfgs/internal/wraptest"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/head"
	. "github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/bundle"
	. "github.com/mfgs/mfgs/wrap/calibration"
)

// fixture is a model of testdata/onnx that has a head, and what it is fed.
type fixture struct {
	File    string
	Options head.Options
	Refused string
	Head    struct{ Op, Features, Logits, Link string }
	Inputs  map[string]struct {
		Type  string
		Shape []int64
	}
}

// fixtures lists those of which a head can be calibrated: of those whose heads differ only in what
// comes behind the logits, which is cut off, one.
func fixtures(t *testing.T) []fixture {
	t.Helper()
	const root = "../../testdata/onnx"
	var all []fixture
	for _, folder := range []string{".", "operators", "functions"} {
		var list []fixture
		if err := json.Unmarshal(read(t, filepath.Join(root, folder, "golden.json")), &list); err != nil {
			t.Fatal(err)
		}
		for _, g := range list {
			if g.File = filepath.Join(root, g.File); folder == "functions" {
				g.File = filepath.Join(root, folder, filepath.Base(g.File))
			}
			again := slices.ContainsFunc(all,
				func(o fixture) bool { return o.Head == g.Head && o.Options == g.Options })
			if g.Refused == "" && (folder != "operators" || !again) {
				all = append(all, g)
			}
		}
	}
	if len(all) < 100 {
		t.Fatalf("only %d fixtures", len(all))
	}
	return all
}

// random returns n random examples as the model's inputs, times a scale.
func (g *fixture) random(seed uint64, names []string, n int, scale float32) []Tensor {
	var inputs []Tensor
	for _, name := range names {
		in := g.Inputs[name]
		shape, size := []int64{int64(n)}, n
		for _, d := range in.Shape[1:] {
			shape, size = append(shape, d), size*int(d)
		}
		x := random(seed, size)
		for i := range x {
			x[i] *= scale
		}
		var data any = x
		if in.Type == "int64" {
			whole := make([]int64, size)
			for i := range x {
				whole[i] = int64(3 * x[i])
			}
			data = whole
		}
		inputs = append(inputs, Tensor{Name: name, Shape: shape, Data: data})
	}
	return inputs
}

// Whatever way a model writes its last layer, it is calibrated, reopened, and predicts with the
// network's own logits; and what the fused network predicts is what the formulas in float64 make of
// the features and logits of the cut one.
func TestEveryKindOfHeadGoesTheWholeWay(t *testing.T) {
	t.Parallel()
	const n = 60
	for _, g := range fixtures(t) {
		t.Run(strings.TrimPrefix(g.File, "../../testdata/onnx/"), func(t *testing.T) {
			t.Parallel()
			m, err := onnx.Open(g.File)
			if err != nil {
				t.Fatal(err)
			}
			h, err := head.Find(m, g.Options)
			if err != nil {
				t.Fatal(err)
			}
			net, err := attach.OpenCut(m, h, featurize.Config{})
			if err != nil {
				t.Fatal(err)
			}
			defer net.Close()
			inputs := g.random(3, net.InputNames(), n, 1)
			rows, err := net.Network.Run(t.Context(), inputs)
			if err != nil {
				t.Fatal(err)
			}
			k := h.Logits
			train := arrays(inputs)
			if h.MultiLabel() {
				train["labels"] = arrayOf(tossed(rows.Columns[1]), n, k)
			} else if h.Steps > 0 {
				shape := append([]int{n}, ints(rows.Steps[0])...)
				train["labels"] = arrayOf(everyStep(sampled(rows.Columns[1], n), shape), shape...)
			} else {
				train["labels"] = arrayOf(sampled(rows.Columns[1], n), n)
			}
			dir := t.TempDir()
			file := write(t, dir, "data.npz", npz(t, train))
			far := write(t, dir, "far.npz", npz(t, arrays(g.random(4, net.InputNames(), n, 3))))
			each := structures
			if strings.Contains(filepath.ToSlash(g.File), "/operators/") {
				each = []calibrate.Structure{calibrate.Kronecker} // the structure does not depend on the operator
			}
			for _, s := range each {
				c := Config{Model: g.File, Train: file + "[:40]", Val: file + "[40:]",
					Out: filepath.Join(dir, string(s)), Settings: bundle.Settings{
						Head: g.Options, Structure: s, Damping: calibrate.Damping{Relative: 1},
					}}
				if s == calibrate.Kronecker {
					c.OOD = far // a second pair of temperatures
				}
				if len(each) == 1 {
					c.OODScore = score.Default // nor does the selected score
				}
				r := mustCalibrate(t, c)
				if string(r.Head.Link) != string(h.Link) || r.Head.Approximation != h.Approximation ||
					(r.Head.Approximation != "") != slices.ContainsFunc(r.Warnings,
						func(w string) bool { return strings.Contains(w, "approximat") }) {
					t.Errorf("head %+v, warnings %q", r.Head, r.Warnings)
				}
				p, oracle := opened(t, c.Out, Options{}), cut(t, c.Out)
				predictions, _ := predicted(t, p, file)
				predictions = wraptest.FirstSteps(predictions)
				for i, p := range predictions {
					for j, got := range p.Logits {
						// The range of the features decides how a layer of whole numbers is scaled,
						// and they come in other batches.
						if want := float64(rows.Columns[1][i*k+j]); !approx.Equal(float64(got), want,
							1e-5*(1+math.Abs(want))) && !strings.Contains(g.File, "dynamic") && h.Op != "ConvInteger" &&
							!strings.HasSuffix(g.File, "/dequantized.onnx") {
							t.Fatalf("example %d: logits %v, want %v", i, p.Logits, rows.Columns[1][i*k:(i+1)*k])
						}
					}
					if sum := total(p.Probabilities); h.Link != layer.Sigmoid && !approx.Equal(sum, 1, 1e-15) {
						t.Fatalf("example %d: probabilities sum to 1 %+g", i, sum-1)
					}
				}
				if len(predictions) != n {
					t.Errorf("%d predictions", len(predictions))
				}
				equalsTheFormulas(t, p, oracle, inputs)
				if err := p.Probe(t.Context()); err != nil || r.Probe.Examples != bundle.MaxProbeExamples {
					t.Errorf("the probe %+v: %v", r.Probe, err)
				}
			}
		})
	}
}

// everyStep gives all steps of an example its label; shape is that of the labels.
func everyStep(labels []int64, shape []int) (all []int64) {
	each := 1
	for _, d := range shape[1:] {
		each *= d
	}
	for _, y := range labels {
		all = append(all, slices.Repeat([]int64{y}, each)...)
	}
	return all
}

func ints(x []int64) (all []int) {
	for _, v := range x {
		all = append(all, int(v))
	}
	return all
}
