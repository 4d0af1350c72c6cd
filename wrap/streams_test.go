package wrap_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/internal/approx"
	"github.com/mfgs/mfgs/internal/onnx/onnxtest"
	"github.com/mfgs/mfgs/internal/wraptest"
	. "github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/bundle"
)

// streamed returns the predictor of a recurrent network.
func streamed(t testing.TB, r onnxtest.Recurrent) *Predictor {
	t.Helper()
	c := wraptest.StreamConfig(t, r)
	report := mustCalibrate(t, c)
	if report.Head.State != wraptest.StreamStates || report.Head.Steps != 1 {
		t.Fatalf("states %q and %d axes of steps", report.Head.State, report.Head.Steps)
	}
	if p := report.Head.Proof; p == nil || p.Output != "y" || p.Examples == 0 {
		t.Errorf("the logits were not compared with the output y: %+v", p)
	}
	b, err := bundle.Open(c.Out)
	if err != nil || b.Manifest.Head.State != wraptest.StreamStates {
		t.Fatalf("states %q, %v", b.Manifest.Head.State, err)
	}
	return opened(t, c.Out, Options{})
}

// chunk is a line with a part of a stream.
func chunk(t testing.TB, x [][]float32, more string) string {
	t.Helper()
	b, err := json.Marshal(map[string]any{"x": x})
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(string(b), "}") + more + "}\n"
}

// Lines that continue streams, with lines of other streams between them, give what whole streams give.
func TestAStreamInChunksIsTheWholeStream(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]onnxtest.Recurrent{
		"any batch": {Seed: 7}, "a fixed batch": {Seed: 8, Batch: 2}, "a float16 state": {Seed: 7, Half: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := streamed(t, r)
			all := wraptest.Streams(63, 20)
			var text strings.Builder
			type place struct{ stream, step int }
			var places []place
			for step := range 9 {
				for i, s := range all {
					if step < len(s.X) {
						more := fmt.Sprintf(`, "stream": "%d", "stream_end": %t`, i, step == len(s.X)-1)
						text.WriteString(chunk(t, s.X[step:step+1], more))
						places = append(places, place{i, step})
					}
				}
			}
			want := make([][]Prediction, len(all))
			for i, s := range all {
				var err error
				if want[i], err = p.Predict(t.Context(), []Tensor{wraptest.StreamInput(s)}); err != nil {
					t.Fatal(err)
				}
			}
			n := 0
			for one, err := range p.PredictLines(t.Context(), strings.NewReader(text.String())) {
				if err != nil {
					t.Fatal(err)
				}
				at := places[n]
				for k, v := range want[at.stream][at.step].Probabilities {
					if !approx.Equal(one.Probabilities[k], v, 1e-6) {
						t.Fatalf("step %d of stream %d: %v, want %v", at.step, at.stream, one.Probabilities,
							want[at.stream][at.step].Probabilities)
					}
				}
				n++
			}
			if n != len(places) {
				t.Errorf("%d answers for %d lines", n, len(places))
			}
		})
	}
}

// The bound on the memory of open streams counts what their states hold, which of a fixed batch is that of all of it.
func TestTheMemoryOfStatesIsCounted(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]onnxtest.Recurrent{
		"any batch": {Seed: 10}, "a fixed batch": {Seed: 11, Batch: 8}, "a float16 state": {Seed: 12, Half: true},
	} {
		p := streamed(t, r)
		most, bytes := p.MaxStreams()
		want := max(1, r.Batch) * (1 + 2) * onnxtest.RecurrentHidden * 4
		if most != 1<<16 || bytes != int64(most*want) {
			t.Errorf("%s: at most %d streams with %d bytes, want %d bytes for each", name, most, bytes, want)
		}
		_, state, err := p.RunFrom(t.Context(), []Tensor{wraptest.StreamInput(wraptest.Streams(65, 1)[0])}, nil)
		if err != nil {
			t.Fatal(err)
		}
		held := 0
		for _, s := range state {
			held += 4 * cap(s.Data.([]float32))
		}
		if held*most != int(bytes) {
			t.Errorf("%s: a state holds %d bytes, and %d were counted", name, held, int(bytes)/most)
		}
	}
}

// A stream that has ended begins at zero again, a line without a name is a whole stream, and one that fails leaves the
// state as it was.
func TestStreamsEndAndFailApart(t *testing.T) {
	t.Parallel()
	p := streamed(t, onnxtest.Recurrent{Seed: 9})
	a, b := [][]float32{{1, -2, 0.5}}, [][]float32{{-1, 0, 2}}
	text := chunk(t, a, `, "stream": "s"`) + // 0
		`{"x": [[1, null, 2]], "stream": "s"}` + "\n" + // 1: its logits are no numbers, and neither is its state
		chunk(t, b, `, "stream": "s", "stream_end": true`) + // 2: after a
		chunk(t, b, `, "stream": "s"`) + // 3: at zero
		chunk(t, b, ``) + // 4: at zero
		chunk(t, append(a, b...), ``) + // 5, 6
		chunk(t, b, `, "stream": 7`) + chunk(t, b, `, "stream_end": "yes"`) + // 7, 8: fail
		chunk(t, b, `, "stream": ""`) + chunk(t, b, `, "stream_end": true`) + // 9, 10: fail
		chunk(t, [][]float32{{1, 2}}, `, "stream": "t"`) + // 11: fails
		chunk(t, b, fmt.Sprintf(`, "stream": "%01025d"`, 0)) // 12: fails
	var got []answer
	for one, err := range p.PredictLines(t.Context(), strings.NewReader(text)) {
		got = append(got, answerTo(t, one, err))
	}
	if len(got) != 13 {
		t.Fatalf("%d answers: %+v", len(got), got)
	}
	says(t, got[1].err, "logit 0 is NaN")
	says(t, got[7].err, "stream: want a string")
	says(t, got[8].err, "stream_end: want true in the last line of a stream")
	says(t, got[9].err, "stream: the name is empty")
	says(t, got[10].err, "stream_end: the line names no stream")
	says(t, got[11].err, "does not fit the model's input")
	says(t, got[12].err, "stream: the name has 1025 bytes, want at most 1024")
	for _, same := range [][2]int{{0, 5}, {2, 6}, {3, 4}} {
		x, y := got[same[0]].Probabilities, got[same[1]].Probabilities
		for k := range x {
			if !approx.Equal(x[k], y[k], 1e-6) {
				t.Errorf("answers %d and %d: %v and %v", same[0], same[1], x, y)
			}
		}
	}
	if approx.Equal(got[2].Probabilities[0], got[3].Probabilities[0], 1e-4) {
		t.Error("the state makes no difference")
	}
}
