package calibration_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/internal/approx"
	. "github.com/mfgs/mfgs/wrap/calibration"
)

// namedConfig is a calibration of a model of 5 inputs whose logits are named by hand.
func namedConfig(t *testing.T, model, logits string) Config {
	t.Helper()
	const n = 60
	x := random(1, n*5)
	labels := make([]int64, n)
	for i := range labels {
		labels[i] = int64(i % 4)
	}
	in := map[string]array{"x": arrayOf(x, n, 5), "labels": arrayOf(labels, n)}
	file := write(t, t.TempDir(), "data.npz", npz(t, in))
	c := quick(Config{Model: model, Train: file + "[:40]", Val: file + "[40:]", Out: filepath.Join(t.TempDir(), "b")})
	c.Head.Logits = logits
	return c
}

// The output of a MatMul whose bias an Add behind it adds looks like logits, and is not:
// calibrated with it, the network would be another one.
func TestLogitsNamedInFrontOfTheBiasAreRefused(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ model, logits, output string }{
		"probabilities": {"../../testdata/onnx/keras.onnx", "sequential/dense_1/MatMul:0", "y"},
		"logits":        {"../../testdata/onnx/matmul_add.onnx", "m", "y"},
	} {
		c := namedConfig(t, tc.model, tc.logits)
		_, err := Calibrate(t.Context(), c)
		if err == nil {
			t.Errorf("%s: calibrated without the bias", name)
			continue
		}
		says(t, err, "computed from the logits", tc.logits, `the model's output "`+tc.output+`"`, "they differ by 0.", "want at most", "with Logits", "bias")
		if list(t, filepath.Dir(c.Out)) != nil {
			t.Errorf("%s: something was written", name)
		}
	}
}

// What is right is proven, and what cannot be compared gives a warning.
func TestNamedHeadsAreChecked(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		model, logits, output, proof, warning string
	}{
		"behind the bias":  {model: "../../testdata/onnx/keras.onnx", logits: "sequential/dense_1/BiasAdd:0", proof: "y"},
		"by its output":    {model: "../../testdata/onnx/keras.onnx", output: "y", proof: "y"},
		"found":            {model: "../../testdata/onnx/keras.onnx", proof: "y"},
		"an output itself": {model: "../../testdata/onnx/matmul_add.onnx", logits: "y"},
		"nothing else":     {model: "../../testdata/onnx/named.onnx", logits: "z", warning: `no output to compare its logits "z" with`},
	} {
		c := namedConfig(t, tc.model, tc.logits)
		c.Head.Output = tc.output
		r := mustCalibrate(t, c)
		if got := r.Head.Proof; (got == nil) != (tc.proof == "") || got != nil &&
			(got.Output != tc.proof || got.Examples != 40 || !(got.Difference <= 1e-6)) {
			t.Errorf("%s: proof %+v, want that of %q", name, got, tc.proof)
		}
		i := slices.IndexFunc(r.Warnings, func(w string) bool { return strings.Contains(w, "the head was given") })
		if (i >= 0) != (tc.warning != "") || i >= 0 && !strings.Contains(r.Warnings[i], tc.warning) {
			t.Errorf("%s: warnings %q, want %q", name, r.Warnings, tc.warning)
		}
	}
}

// Each of the model's own outputs has values of its own.
func TestModelOutputsHaveTheirOwnValues(t *testing.T) {
	t.Parallel()
	const k = 4
	logits, owns := ModelOutputs(t, namedConfig(t, "../../testdata/onnx/tail_label_and_probabilities.onnx", ""))
	n := len(logits) / k
	kinds := map[bool]int{}
	for _, o := range owns {
		kinds[o.Integer]++
		if o.Integer {
			for i, v := range o.Values {
				if row := logits[i*k : (i+1)*k]; len(o.Values) != n || int(v) != slices.Index(row, slices.Max(row)) {
					t.Errorf("%s: class %v of example %d, whose logits are %v", o.Name, v, i, row)
				}
			}
			continue
		}
		for row := range slices.Chunk(o.Values, k) {
			var sum float64
			for _, v := range row {
				sum += float64(v)
			}
			if len(o.Values) != n*k || !approx.Equal(sum, 1, 1e-5) {
				t.Errorf("%s: %d values, probabilities %v", o.Name, len(o.Values), row)
			}
		}
	}
	if kinds[true] != 1 || kinds[false] != 1 {
		t.Errorf("%d outputs of classes and %d of probabilities, want one each", kinds[true], kinds[false])
	}
}
