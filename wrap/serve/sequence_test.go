package serve_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/mfgs/mfgs/internal/approx"
	"github.com/mfgs/mfgs/internal/onnx/onnxtest"
	"github.com/mfgs/mfgs/internal/wraptest"
	"github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/serve"
)

// chunkBody is a request with a chunk of a stream.
func chunkBody(t testing.TB, x [][]float32, parameters string) string {
	t.Helper()
	data, err := json.Marshal(x)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf(`{"parameters": {%s}, "inputs": [{"name": "x", "datatype": "FP32", "shape": [1, %d, 3], "data": [%s]}]}`,
		parameters, len(x), data)
}

// Sequences in chunks, which clients send at the same time, give what whole streams give.
func TestSequencesContinueWhereTheyEnded(t *testing.T) {
	t.Parallel()
	for name, network := range map[string]onnxtest.Recurrent{"any batch": {Seed: 21}, "a fixed batch": {Seed: 22, Batch: 4}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := wraptest.StreamConfig(t, network)
			wraptest.MustCalibrate(t, c)
			r := start(t, serve.Config{Bundles: []serve.Bundle{{Name: "voice", Dir: c.Out}}})
			p := wraptest.Opened(t, c.Out, wrap.Options{})
			var group sync.WaitGroup
			for i, s := range wraptest.Streams(64, 12) {
				want, err := p.Predict(t.Context(), []wrap.Tensor{wraptest.StreamInput(s)})
				if err != nil {
					t.Fatal(err)
				}
				id := fmt.Sprint(i + 1) // a number, which Triton takes up to 2⁶⁴-1, or a string
				switch i % 3 {
				case 0:
					id = fmt.Sprintf("%q", "s"+id)
				case 1:
					id = fmt.Sprint(math.MaxUint64 - uint64(i))
				}
				group.Go(func() {
					for step := range s.X {
						more := fmt.Sprintf(`"sequence_id": %s, "sequence_start": %t, "sequence_end": %t`, id, step == 0,
							step == len(s.X)-1)
						code, _, body := r.send("POST", "/v2/models/voice/infer", chunkBody(t, s.X[step:step+1], more))
						if code != 200 || !hasProbabilities(body, want[step].Probabilities) {
							t.Errorf("step %d of %s: %d %s, want %v", step, id, code, body, want[step].Probabilities)
						}
					}
					more := fmt.Sprintf(`"sequence_id": %s`, id)
					code, _, body := r.send("POST", "/v2/models/voice/infer", chunkBody(t, s.X[:1], more))
					if code != 400 || !strings.Contains(string(body), "it has not begun or has ended") {
						t.Errorf("after the end of %s: %d %s", id, code, body)
					}
				})
			}
			group.Wait()
		})
	}
}

// hasProbabilities reports whether an answer has the probabilities of a single step.
func hasProbabilities(body []byte, want []float64) bool {
	var got struct {
		Outputs []struct {
			Name string
			Data []float64
		}
	}
	if json.Unmarshal(body, &got) != nil {
		return false
	}
	for _, o := range got.Outputs {
		if o.Name != "probabilities" {
			continue
		}
		for k, v := range want {
			if !approx.Equal(o.Data[k], v, 1e-6) {
				return false
			}
		}
		return len(o.Data) == len(want)
	}
	return false
}

func TestSequencesAreRefused(t *testing.T) {
	t.Parallel()
	c := wraptest.StreamConfig(t, onnxtest.Recurrent{Seed: 23})
	wraptest.MustCalibrate(t, c)
	dir, _ := wraptest.Calibrated(t, "full")
	r := start(t, serve.Config{Bundles: []serve.Bundle{{Name: "voice", Dir: c.Out}, {Name: "digits", Dir: dir}}})
	a, b := [][]float32{{1, -2, 0.5}}, [][]float32{{-1, 0, 2}}
	send := func(x [][]float32, parameters string) (int, []byte) {
		code, _, body := r.send("POST", "/v2/models/voice/infer", chunkBody(t, x, parameters))
		return code, body
	}
	for parameters, want := range map[string]string{
		`"sequence_id": 5`:                                           "has not begun",
		`"sequence_id": 1.5, "sequence_start": true`:                 "want a whole number or a string",
		`"sequence_start": true`:                                     "need a sequence_id",
		fmt.Sprintf(`"sequence_id": "%01025d"`, 0):                   "a string of 1025 bytes, want at most 1024",
		`"sequence_id": 0, "sequence_end": true`:                     "need a sequence_id",
		`"sequence_id": 5, "sequence_start": 1`:                      "want true or false",
		`"sequence_id": 5, "sequence_start": true, "method": "none"`: "none",
	} {
		if code, body := send(a, parameters); code != 400 || !strings.Contains(string(body), want) {
			t.Errorf("%s: %d %s, want %q", parameters, code, body, want)
		}
	}
	two := `{"parameters": {"sequence_id": 6, "sequence_start": true}, "inputs": [
		{"name": "x", "datatype": "FP32", "shape": [2, 1, 3], "data": [1, 2, 3, 4, 5, 6]}]}`
	if code, _, body := r.send("POST", "/v2/models/voice/infer", two); code != 400 || !strings.Contains(string(body), "want 1") {
		t.Errorf("two examples: %d %s", code, body)
	}
	digit := strings.Replace(chunkBody(t, a, `"sequence_id": 7, "sequence_start": true`), `"x"`, `"image"`, 1)
	if code, _, body := r.send("POST", "/v2/models/digits/infer", digit); code != 400 {
		t.Errorf("a model without a state: %d %s", code, body)
	}

	// A chunk that fails leaves the state as it was, and one that starts begins at zero again.
	_, first := send(a, `"sequence_id": 8, "sequence_start": true`)
	if code, _ := send(a, `"sequence_id": 8, "method": "none"`); code != 400 {
		t.Errorf("an unknown method: %d", code)
	}
	_, after := send(b, `"sequence_id": 8`)
	_, again := send(a, `"sequence_id": 8, "sequence_start": true`)
	_, whole := send(append(a, b...), ``)
	if string(first) != string(again) || string(first) == string(after) {
		t.Errorf("begun again: %s, want %s", again, first)
	}
	var last, all struct{ Outputs []struct{ Data []float64 } }
	if json.Unmarshal(after, &last) != nil || json.Unmarshal(whole, &all) != nil {
		t.Fatalf("%s and %s", after, whole)
	}
	for k, v := range last.Outputs[0].Data {
		if !approx.Equal(v, all.Outputs[0].Data[3+k], 1e-6) {
			t.Errorf("after a failure %v, want the end of %v", last.Outputs[0].Data, all.Outputs[0].Data)
		}
	}
}
