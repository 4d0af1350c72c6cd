package onnxlayers_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/mfgs/mfgs/cmd/mfgs-paper/internal/onnxlayers"
	"github.com/mfgs/mfgs/featurize"
	"github.com/mfgs/mfgs/internal/approx"
	"github.com/mfgs/mfgs/internal/wraptest"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/head"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// stochastic runs a fixture with its two Dropout nodes switched on.
func stochastic(t *testing.T, name string, ratio float64, seed int) *featurize.Network {
	t.Helper()
	m, err := onnx.Open(filepath.Join("../../../../testdata/onnx/dropout", name+".onnx"))
	if err != nil {
		t.Fatal(err)
	}
	on, n, err := onnxlayers.Stochastic(m, ratio, seed)
	if err != nil {
		t.Fatal(err)
	}
	if n != 2 {
		t.Fatalf("%d nodes switched on, want 2", n)
	}
	w, err := featurize.New(featurize.Config{Model: on, Batch: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

const dropped = 4096 // numbers that a fixture drops from

// drop runs one row of x = value.
func drop(t *testing.T, w *featurize.Network, value float32) (a, b []float32) {
	t.Helper()
	x := slices.Repeat([]float32{value}, dropped)
	r, err := w.Run(t.Context(), []tensor.Tensor{{Shape: []int64{1, dropped}, Data: x}})
	if err != nil {
		t.Fatal(err)
	}
	return r.Columns[0], r.Columns[1]
}

// share returns how many of the numbers are kept, each of which must be scaled; the others must be
// 0.
func share(t *testing.T, x []float32, p float64) float64 {
	t.Helper()
	kept := 0
	for i, v := range x {
		if v == 0 {
			continue
		}
		if want := 1 / (1 - p); !approx.Equal(float64(v), want, 1e-3*want) { // half precision
			t.Fatalf("number %d is %v, want 0 or %v", i, v, want)
		}
		kept++
	}
	return float64(kept) / float64(len(x))
}

// holds compares a share of dropped numbers with a probability, within 4.5 standard errors: one of
// 10⁵ tests errs.
func holds(t *testing.T, what string, got, p float64) {
	t.Helper()
	if se := math.Sqrt(p * (1 - p) / dropped); !approx.Equal(got, p, 4.5*se) {
		t.Errorf("%s: share %.4f, want %.4f ± %.4f", what, got, p, se)
	}
}

// both returns the share of places at which neither is 0.
func both(a, b []float32) float64 {
	n := 0
	for i := range a {
		if a[i] != 0 && b[i] != 0 {
			n++
		}
	}
	return float64(n) / float64(len(a))
}

// Masks are independent of each other and between runs, and repeat in a new session.
func TestActiveDropoutDrops(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		fixture  string
		ratio, p float64
	}{
		{"opset7", 0, 0.25}, {"opset10", 0, 0.25}, {"opset12", 0, 0.5}, {"opset13", 0, 0.25}, {"opset22", 0, 0.25}, {"training", 0, 0.25},
		{"half", 0, 0.5}, {"double", 0, 0.25}, {"constant", 0, 0.25}, {"opset7", 0.1, 0.1}, {"opset13", 0.8, 0.8}, {"training", 0.1, 0.1},
	} {
		t.Run(fmt.Sprintf("%s/%v", tt.fixture, tt.ratio), func(t *testing.T) {
			value := float32(1)
			if tt.fixture == "constant" {
				value = 0
			}
			keep := 1 - tt.p
			w := stochastic(t, tt.fixture, tt.ratio, 3)
			a, b := drop(t, w, value)
			holds(t, "kept", share(t, a, tt.p), keep)
			holds(t, "kept by the other", share(t, b, tt.p), keep)
			holds(t, "kept by both", both(a, b), keep*keep)
			a2, b2 := drop(t, w, value)
			holds(t, "kept in both runs", both(a, a2), keep*keep)
			holds(t, "kept by the one, then by the other", both(a, b2), keep*keep)
			if tt.fixture != "constant" {
				if a, _ := drop(t, w, 0); slices.ContainsFunc(a, func(x float32) bool { return x != 0 }) {
					t.Error("something has come of zeros")
				}
			}
			again := stochastic(t, tt.fixture, tt.ratio, 3)
			for i, want := range [][2][]float32{{a, b}, {a2, b2}} {
				if x, y := drop(t, again, value); !slices.Equal(x, want[0]) || !slices.Equal(y, want[1]) {
					t.Errorf("run %d with the same seed has dropped others", i)
				}
			}
			other, _ := drop(t, stochastic(t, tt.fixture, tt.ratio, 4), value)
			holds(t, "kept with both seeds", both(a, other), keep*keep)
		})
	}
}

// Its logits differ between runs.
func TestAStochasticNetworkHasItsHead(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"mlp_dropout_opset9", "mlp_dropout_opset13"} {
		t.Run(name, func(t *testing.T) {
			m, err := onnx.Open(filepath.Join("../../../../testdata/onnx/dense", name+".onnx"))
			if err != nil {
				t.Fatal(err)
			}
			if random := onnxlayers.Random(m); len(random) > 0 {
				t.Errorf("at random: %q, want nothing", random)
			}
			on, n, err := onnxlayers.Stochastic(m, 0, 1)
			if err != nil || n != 2 {
				t.Fatalf("%d nodes switched on, error %v", n, err)
			}
			if random := onnxlayers.Random(on); len(random) != 2 {
				t.Errorf("at random: %q, want two nodes", random)
			}
			logits := func(m *onnx.Model) func() []float32 {
				h, err := head.Find(m, head.Options{})
				if err != nil {
					t.Fatal(err)
				}
				e, err := featurize.New(featurize.Config{Model: m, Head: h})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { e.Close() })
				x := wraptest.Random(5, 3*5)
				return func() []float32 {
					rows, err := e.Run(t.Context(), []tensor.Tensor{{Shape: []int64{3, 5}, Data: x}})
					if err != nil {
						t.Fatal(err)
					}
					return slices.Clone(rows.Columns[1])
				}
			}
			still, moving := logits(m), logits(on)
			if !slices.Equal(still(), still()) {
				t.Error("the model itself gives another result")
			}
			if slices.Equal(moving(), moving()) {
				t.Error("switched on it gives the same result twice")
			}
		})
	}
}

// drawingEnv is the seed, or "none", with which the test binary, started once more, runs the
// network that draws its weights.
const drawingEnv = "ONNXLAYERS_TEST_DRAWING"

func TestMain(m *testing.M) { wraptest.Main(m, map[string]func(string){drawingEnv: printDrawn}) }

const drawingRuns = 3

// drawn returns the logits of five examples in each run of a new session, batches of two at a time.
func drawn(seed string) (runs [drawingRuns][]float32, err error) {
	m, err := onnx.Open("../../../../testdata/methods/vi.onnx")
	if err != nil {
		return runs, err
	}
	if seed != "none" {
		n, err := strconv.Atoi(seed)
		if err != nil {
			return runs, err
		}
		if m, err = onnxlayers.Seeded(m, n); err != nil {
			return runs, err
		}
	}
	w, err := featurize.New(featurize.Config{Model: m, Batch: 2})
	if err != nil {
		return runs, err
	}
	defer w.Close()
	x := wraptest.Random(5, 5*64)
	for i := range runs {
		r, err := w.Run(context.Background(), []tensor.Tensor{{Shape: []int64{5, 1, 8, 8}, Data: x}})
		if err != nil {
			return runs, err
		}
		runs[i] = r.Columns[0]
	}
	return runs, nil
}

func printDrawn(seed string) {
	runs, err := drawn(seed)
	if err != nil {
		panic(err)
	}
	fmt.Print(runs)
}

// In a new session of this and of another process, but not in another run of a session. Without a seed, ONNX
// Runtime takes one from the clock, once per process.
func TestASeededNetworkRepeatsItself(t *testing.T) {
	t.Parallel()
	here := func(seed string) (runs [drawingRuns][]float32) {
		t.Helper()
		runs, err := drawn(seed)
		if err != nil {
			t.Fatal(err)
		}
		return runs
	}
	elsewhere := func(seed string) string {
		t.Helper()
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), drawingEnv+"="+seed)
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	first, again, other := here("3"), here("3"), here("4")
	for i := range drawingRuns {
		if !slices.Equal(first[i], again[i]) {
			t.Errorf("run %d with the same seed gives other logits", i)
		}
		if slices.Equal(first[i], other[i]) {
			t.Errorf("run %d with another seed gives the same logits", i)
		}
		for j := range i {
			if slices.Equal(first[i], first[j]) {
				t.Errorf("runs %d and %d give the same logits", j, i)
			}
		}
	}
	if got, want := elsewhere("3"), fmt.Sprint(first); got != want {
		t.Errorf("another process gives\n%s\nwant\n%s", got, want)
	}
	if one, two := elsewhere("none"), elsewhere("none"); one == two {
		t.Error("two processes give the same without a seed, so that seeds show nothing")
	}
}
