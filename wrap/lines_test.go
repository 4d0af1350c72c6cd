package wrap_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/internal/approx"
	. "github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/bundle"
	. "github.com/mfgs/mfgs/wrap/calibration"
)

// digitLine returns a digit as a JSON line.
func digitLine(t testing.TB, i int) string {
	t.Helper()
	flat := digitTensor(t, i, i+1).Data.([]float32)
	b, err := json.Marshal(map[string]any{"image": [][][]float32{slices.Collect(slices.Chunk(flat, 8))}})
	if err != nil {
		t.Fatal(err)
	}
	return string(b) + "\n"
}

// answer is what PredictLines yields for a line.
type answer struct {
	Prediction
	err error
}

// answerTo returns the answer that was yielded, with the name of a line that cannot be predicted.
func answerTo(t testing.TB, one Prediction, err error) answer {
	t.Helper()
	record := (*RecordError)(nil)
	if err != nil && !errors.As(err, &record) {
		t.Error(err)
		return answer{}
	}
	if record != nil {
		one.Input, err = record.Input, record.Err
	}
	return answer{one, err}
}

func TestLinesGiveWhatTheirInputsGive(t *testing.T) {
	t.Parallel()
	dir, _ := calibrated(t, calibrate.Full)
	p := opened(t, dir, Options{})
	const n = 300
	want, err := p.Predict(t.Context(), []Tensor{digitTensor(t, 0, n)})
	if err != nil {
		t.Fatal(err)
	}
	bad := map[int]string{0: "", 7: "no object", 8: `{"image":[1,2]}`, 299: `{"image":"x"}`}
	var text strings.Builder
	for i := range n {
		if line, ok := bad[i]; ok {
			text.WriteString(line + "\n")
			continue
		}
		text.WriteString(digitLine(t, i))
	}
	var got []answer
	for one, err := range p.PredictLines(t.Context(), strings.NewReader(text.String())) {
		got = append(got, answerTo(t, one, err))
	}
	if len(got) != n-1 { // the first line is blank
		t.Fatalf("%d answers", len(got))
	}
	for i, a := range got {
		if a.Input != fmt.Sprintf("-[%d]", i) {
			t.Fatalf("answer %d is called %q", i, a.Input)
		}
		if _, broken := bad[i+1]; broken != (a.err != nil) {
			t.Errorf("answer %d: %v", i, a.err)
		}
		if a.err != nil {
			if a.Probabilities != nil || strings.Contains(a.err.Error(), a.Input) {
				t.Errorf("%+v", a)
			}
			continue
		}
		if w := want[i+1]; a.Class != w.Class || a.Label != nil || !approx.Equal(a.Confidence, w.Confidence, 1e-5) ||
			!approx.Equal(a.Leverage, w.Leverage, 1e-4*w.Leverage) {
			t.Errorf("answer %d: %+v, want %+v", i, a, w)
		}
	}
	says(t, got[6].err, "broken JSON")
	says(t, got[7].err, "an array [2] of int64 does not fit the model's input image [N,1,8,8] float32")
}

// A single line is answered before the next comes; waiting lines are answered in order.
func TestLinesAreAnsweredAsTheyCome(t *testing.T) {
	t.Parallel()
	dir, _ := calibrated(t, calibrate.Full)
	p := opened(t, dir, Options{})
	r, w := io.Pipe()
	answers, ended := make(chan answer), make(chan bool)
	go func() {
		for one, err := range p.PredictLines(t.Context(), r) {
			answers <- answerTo(t, one, err)
		}
		close(ended)
	}()
	next := func() answer {
		t.Helper()
		select {
		case a := <-answers:
			return a
		case <-time.After(30 * time.Second):
			t.Fatal("no answer")
		}
		panic("unreachable")
	}
	for i := range 3 {
		if _, err := io.WriteString(w, digitLine(t, i)); err != nil {
			t.Fatal(err)
		}
		if a := next(); a.err != nil || a.Input != fmt.Sprintf("-[%d]", i) {
			t.Fatalf("%+v", a)
		}
	}
	const most = 1000 // far more than a batch
	go func() {
		for range most {
			_, _ = io.WriteString(w, digitLine(t, 5))
		}
		w.Close()
	}()
	for i := range most {
		if a := next(); a.err != nil || a.Input != fmt.Sprintf("-[%d]", 3+i) {
			t.Fatalf("%+v", a)
		}
	}
	<-ended
}

func TestLinesEndWithTheStreamOrItsError(t *testing.T) {
	t.Parallel()
	dir, _ := calibrated(t, calibrate.Full)
	p := opened(t, dir, Options{})
	// last counts the answers, and returns the error that ends the iteration.
	last := func(ctx context.Context, r io.Reader) (n int, last error) {
		for _, err := range p.PredictLines(ctx, r) {
			if last = err; err == nil {
				n++
			}
		}
		return n, last
	}
	if n, err := last(t.Context(), strings.NewReader("\n\n")); n != 0 || err != nil {
		t.Errorf("no lines: %d answers, %v", n, err)
	}

	// With the context, while the source is silent.
	silent, w := io.Pipe()
	defer w.Close()
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	if _, err := last(ctx, silent); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}

	// With an error of the source, once what came before it is answered.
	r, w := io.Pipe()
	broken := errors.New("the line is cut")
	go func() {
		_, _ = io.WriteString(w, digitLine(t, 0))
		w.CloseWithError(broken)
	}()
	if n, err := last(t.Context(), r); !errors.Is(err, broken) || n != 1 {
		t.Errorf("%d answers, then %v", n, err)
	}

	// When the caller breaks, which leaves lines unanswered.
	for one, err := range p.PredictLines(t.Context(), strings.NewReader(strings.Repeat(digitLine(t, 0), 9))) {
		if err != nil || one.Input != "-[0]" {
			t.Errorf("%+v, %v", one, err)
		}
		break
	}
}

// Predictions have the labels of their lines, unless Options.Unlabelled is set. Labels that are not classes are left
// out.
func TestLinesMayHaveLabels(t *testing.T) {
	t.Parallel()
	dir, _ := calibrated(t, calibrate.Kronecker)
	text := ""
	for _, label := range []string{`,"label":7`, "", `,"label":99`, `,"label":0`} {
		text += strings.TrimSuffix(digitLine(t, 0), "}\n") + label + "}\n"
	}
	for _, unlabelled := range []bool{false, true} {
		p := opened(t, dir, Options{Unlabelled: unlabelled})
		want := []int{7, -1, -1, 0}
		if unlabelled {
			want = []int{-1, -1, -1, -1}
		}
		var got []int
		for one, err := range p.PredictLines(t.Context(), strings.NewReader(text)) {
			label := -1
			if err != nil {
				t.Error(err)
			}
			if one.Label != nil {
				label = *one.Label
			}
			got = append(got, label)
		}
		if !slices.Equal(got, want) {
			t.Errorf("unlabelled %t: labels %v, want %v", unlabelled, got, want)
		}
	}

	x := Tensor{Shape: []int64{300, 5}, Data: random(1, 300*5)}
	_, logits := rowsOf(t, multiLabelModel, x)
	folder := t.TempDir()
	file := write(t, folder, "x.npz", npz(t, map[string]array{"x": arrayOf(x.Data, 300, 5), "labels": arrayOf(tossed(logits), 300, 4)}))
	c := Config{Model: multiLabelModel, Train: file + "[:200]", Val: file + "[200:]", Out: filepath.Join(folder, "b"),
		Settings: bundle.Settings{Damping: calibrate.Damping{Relative: 1}}}
	mustCalibrate(t, c)
	p := opened(t, c.Out, Options{})
	name := p.Inputs()[0].Name
	text = fmt.Sprintf("{%q:[1,2,3,4,5],\"labels\":[0,1,1,0]}\n{%[1]q:[1,2,3,4,5]}\n{%[1]q:[1,2,3,4,5],\"labels\":[0,0,0,0]}\n{%[1]q:[1,2,3,4,5],\"labels\":[0,0,2,0]}\n", name)
	var got []string
	for one, err := range p.PredictLines(t.Context(), strings.NewReader(text)) {
		got = append(got, fmt.Sprint(one.Targets, one.Targets == nil, err != nil))
	}
	if want := []string{"[1 2] false false", "[] true false", "[] false false", "[] true true"}; !slices.Equal(got, want) {
		t.Errorf("targets %q, want %q", got, want)
	}
}
