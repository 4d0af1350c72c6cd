package calibration

import (
	"strings"
	"testing"

	"github.com/mfgs/mfgs/wrap/bundle"
	"github.com/mfgs/mfgs/wrap/internal/part"
)

// Another model and other data than those expected are refused; where nothing is expected, none.
func TestExpectedModelsAndData(t *testing.T) {
	t.Parallel()
	fingerprint, other := strings.Repeat("0", 64), strings.Repeat("f", 64)
	data := &part.Part{Manifest: part.Manifest{Sets: []part.Set{
		{Role: bundle.Train, Spec: "x.npz", Shards: []part.Shard{{Fingerprint: fingerprint}}},
		{Role: bundle.Val, Spec: "y.npz", Shards: []part.Shard{{Fingerprint: fingerprint}}},
	}}}
	for name, test := range map[string]struct {
		expect Expect
		model  string // in the error; "" if it is taken
		data   string
	}{
		"nothing expected": {Expect{}, "", ""},
		"the same": {
			Expect{Model: fingerprint, Data: map[bundle.Role]string{bundle.Train: fingerprint, bundle.OOD: other}}, "", "",
		},
		"others": {Expect{Model: other, Data: map[bundle.Role]string{bundle.Val: other}}, "m.onnx: its SHA-256", "val: y.npz: its fingerprint"},
	} {
		says := func(what string, err error, want string) {
			if err == nil && want != "" || err != nil && (want == "" || !strings.Contains(err.Error(), want)) {
				t.Errorf("%s, %s: error %v, want %q", name, what, err, want)
			}
		}
		says("model", test.expect.checkModel("m.onnx", fingerprint), test.model)
		says("data", test.expect.checkData(data), test.data)
	}
}
