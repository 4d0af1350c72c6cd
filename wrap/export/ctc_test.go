package export

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/calibrate/conformal"
	"github.com/mfgs/mfgs/internal/approx"
	"github.com/mfgs/mfgs/internal/testerr"
	"github.com/mfgs/mfgs/internal/wraptest"
	"github.com/mfgs/mfgs/wrap"
)

// ONNX Runtime runs a recogniser whose output is declared with another rank than it has, and so the exported model.
func TestAMisstatedOutputIsExported(t *testing.T) {
	t.Parallel()
	reader := wraptest.Recogniser()
	reader.StepsFirst, reader.Misstated = true, true
	c := wraptest.LineConfig(t, reader)
	mustCalibrate(t, c)
	path := filepath.Join(t.TempDir(), "reader.onnx")
	r, err := Write(t.Context(), c.Out, Options{Out: path})
	if err != nil {
		t.Fatal(err)
	}
	got := exported(t, path, wraptest.LineInputs(wraptest.Lines(28, 3, 16)))
	if text := got[r.Outputs.Of("text").Name]; text.Shape[0] != 3 || len(got["steps"].Shape) != 3 {
		t.Errorf("texts %v, and the output %v", text.Shape, got["steps"].Shape)
	}
}

// The exported model of a recogniser gives the texts as strings, and decides by the probability that a text is wrong.
func TestAnExportedRecogniserReadsAsItsBundle(t *testing.T) {
	t.Parallel()
	for _, opset := range []int64{11, 13, 18} {
		t.Run(fmt.Sprint("operator set ", opset), func(t *testing.T) {
			t.Parallel()
			reader := wraptest.Recogniser()
			reader.Opset = opset
			c := wraptest.LineConfig(t, reader)
			c.Decisions = conformal.Plan{TargetError: 0.2, FalseAlarm: 0.2}
			mustCalibrate(t, c)
			path := filepath.Join(t.TempDir(), "reader.onnx")
			r, err := Write(t.Context(), c.Out, Options{Out: path})
			if err != nil {
				t.Fatal(err)
			}
			in := wraptest.LineInputs(wraptest.Lines(27, 100, 16))
			want, err := opened(t, c.Out, wrap.Options{}).Predict(t.Context(), []wrap.Tensor{in})
			if err != nil {
				t.Fatal(err)
			}
			got := exported(t, path, in)
			of := func(key string) wrap.Tensor { return got[r.Outputs.Of(key).Name] }
			text, numbers := of("text"), of("text_probabilities")
			symbols, certainties := text.Data.([]string), numbers.Data.([]float32)
			width, abstained := int(text.Shape[1]), 0
			for i, w := range want {
				read := ""
				for j, s := range symbols[i*width : (i+1)*width] {
					p := float64(certainties[i*width+j])
					switch {
					case j >= len(w.Characters):
						if s != "" || p != 0 {
							t.Errorf("%q goes on with %q, %v", *w.Text, s, p)
						}
					case !approx.Equal(p, w.Characters[j].Probability, 1e-6):
						t.Errorf("%q: p(character %d) = %v, want %v", *w.Text, j, p, w.Characters[j].Probability)
					}
					read += s
				}
				if read != *w.Text {
					t.Errorf("%q, want %q", read, *w.Text)
				}
				for k, p := range w.Probabilities {
					if v := float64(of("probabilities").Data.([]float32)[2*i+k]); !approx.Equal(v, p, 1e-6) {
						t.Errorf("%q: p[%d] = %v, want %v", read, k, v, p)
					}
				}
				if v := of("ood_score").Data.([]float64)[i]; !approx.Equal(v, w.OODScore, 1e-6) {
					t.Errorf("%q: score %v, want %v", read, v, w.OODScore)
				}
				if v := of("abstain").Data.([]bool)[i]; v != *w.Abstain {
					t.Errorf("%q: abstain %t, want %t with %v", read, v, *w.Abstain, w.Probabilities)
				}
				if *w.Abstain {
					abstained++
				}
			}
			if abstained == 0 || abstained == len(want) || r.Outputs.Of("prediction_set") != nil {
				t.Errorf("%d of %d abstain, which tells nothing, or there are sets: %+v", abstained, len(want), r.Outputs)
			}
			if own := got["steps"]; len(own.Shape) != 3 {
				t.Errorf("the model's own output is %v", own.Shape)
			}
		})
	}
}

func TestARecogniserForTriton(t *testing.T) {
	t.Parallel()
	c := wraptest.LineConfig(t, wraptest.Recogniser())
	mustCalibrate(t, c)
	repository := t.TempDir()
	_, err := Write(t.Context(), c.Out, Options{Triton: repository, Name: "reader", Precision: "float32"})
	testerr.OneLine(t, err, `precision "float32"`, "products over all steps")
	if _, err := Write(t.Context(), c.Out, Options{Triton: repository, Name: "reader"}); err != nil {
		t.Fatal(err)
	}
	config := string(read(t, filepath.Join(repository, "reader", "config.pbtxt")))
	for _, want := range []string{`name: "text"`, "TYPE_STRING", `name: "text_probabilities"`} {
		if !strings.Contains(config, want) {
			t.Errorf("no %s in\n%s", want, config)
		}
	}
}
