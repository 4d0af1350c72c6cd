package export

import (
	"path/filepath"
	"testing"

	"github.com/mfgs/mfgs/calibrate/conformal"
	"github.com/mfgs/mfgs/internal/approx"
	"github.com/mfgs/mfgs/internal/wraptest"
	"github.com/mfgs/mfgs/wrap"
)

// The exported model of a tagger gives the tags as strings, and decides by the probability that any is wrong.
func TestAnExportedTaggerTagsAsItsBundle(t *testing.T) {
	t.Parallel()
	c := wraptest.TagConfig(t, wraptest.Tagger())
	c.Decisions = conformal.Plan{TargetError: 0.2}
	mustCalibrate(t, c)
	path := filepath.Join(t.TempDir(), "tagger.onnx")
	r, err := Write(t.Context(), c.Out, Options{Out: path})
	if err != nil {
		t.Fatal(err)
	}
	in := wraptest.SequenceInputs(wraptest.Sequences(44, 100, 10))
	want, err := opened(t, c.Out, wrap.Options{}).Predict(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	got := exported(t, path, in...)
	of := func(key string) wrap.Tensor { return got[r.Outputs.Of(key).Name] }
	tags, numbers := of("tags"), of("tag_probabilities")
	width, abstained := int(tags.Shape[1]), 0
	for i, w := range want {
		for j := range width {
			name, p := "", 0.0
			if j < len(w.Tags) && w.Tags[j] != nil {
				name, p = w.Tags[j].Tag, w.Tags[j].Probability
			}
			at := i*width + j
			if tags.Data.([]string)[at] != name || !approx.Equal(float64(numbers.Data.([]float32)[at]), p, 1e-6) {
				t.Errorf("step %d: %q %v, want %q %v", j, tags.Data.([]string)[at], numbers.Data.([]float32)[at], name, p)
			}
		}
		for k, p := range w.Probabilities {
			if v := float64(of("probabilities").Data.([]float32)[2*i+k]); !approx.Equal(v, p, 1e-6) {
				t.Errorf("p[%d] = %v, want %v", k, v, p)
			}
		}
		if v := of("abstain").Data.([]bool)[i]; v != *w.Abstain {
			t.Errorf("abstain %t, want %t with %v", v, *w.Abstain, w.Probabilities)
		}
		if *w.Abstain {
			abstained++
		}
	}
	if width != 10 || abstained == 0 || abstained == len(want) {
		t.Errorf("%d steps; %d of %d abstain, which tells nothing", width, abstained, len(want))
	}
}
