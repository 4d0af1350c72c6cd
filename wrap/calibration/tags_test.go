package calibration_test

import (
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/calibrate/conformal"
	"github.com/mfgs/mfgs/internal/approx"
	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
	"github.com/mfgs/mfgs/internal/onnx/onnxtest"
	"github.com/mfgs/mfgs/internal/testerr"
	"github.com/mfgs/mfgs/internal/wraptest"
	"github.com/mfgs/mfgs/onnx/head"
	"github.com/mfgs/mfgs/onnx/tensor"
	. "github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/bundle"
	. "github.com/mfgs/mfgs/wrap/calibration"
)

// How tags are read is found from the model and its first examples, recorded, and said. The confidence is the
// calibrated probability that all tags are right, whether sequences are padded or not.
func TestATaggerGoesTheWholeWay(t *testing.T) {
	t.Parallel()
	c := wraptest.TagConfig(t, wraptest.Tagger())
	c.Decisions = conformal.Plan{TargetError: 0.1}
	report, said := noticed(t, c)
	b, err := bundle.Open(c.Out)
	if err != nil {
		t.Fatal(err)
	}
	m := b.Manifest
	want := &head.Decoding{
		Of: head.Probabilities, Blank: -1, Alphabet: wraptest.TagNames, Mask: "attention_mask", SkipFirst: 1, SkipLast: 1,
	}
	if !reflect.DeepEqual(m.Head.Decoding, want) || m.Head.Kind != head.Tags || !m.Head.Correctness {
		t.Errorf("head %+v with %+v", m.Head, m.Head.Decoding)
	}
	for _, part := range []string{
		"probabilities of 3 symbols at each step, [N,T,K]; tags are called O, B-X, I-X;", "attention_mask is not 0;",
		"the first 1 and last 1 steps do not count",
	} {
		if !strings.Contains(said, part) {
			t.Errorf("said %q, want %q", said, part)
		}
	}
	p := opened(t, c.Out, Options{})
	for name, steps := range map[string]int{"of their own length": 0, "padded": 12} {
		all := wraptest.Sequences(42, 300, steps)
		got, _ := wraptest.Predicted(t, p, write(t, t.TempDir(), "new.jsonl", wraptest.JSONSequences(all)))
		right, answered, wrong, expected := 0, 0, 0, 0.0
		for i, one := range got {
			same := checkTags(t, one, all[i])
			expected += one.Confidence
			if same != (*one.Label == 1) {
				t.Errorf("%s: label %d of %+v, right %t", name, *one.Label, one.Tags, same)
			}
			if same {
				right++
			}
			if *one.Abstain != (one.Probabilities[0] > report.Decisions.Uncertainty.Threshold) {
				t.Errorf("%+v with the threshold %v", one, report.Decisions.Uncertainty.Threshold)
			}
			if !*one.Abstain {
				answered++
				if !same {
					wrong++
				}
			}
		}
		if n := float64(len(got)); !approx.Equal(expected/n, float64(right)/n, 0.08) || answered < len(got)/3 ||
			wrong > answered/7 || right == len(got) {
			t.Errorf("%s: %d of %d right, %v expected; %d of %d answers wrong", name, right, len(got), expected, wrong, answered)
		}
	}
	if err := p.Probe(t.Context()); err != nil || report.Probe.Examples == 0 {
		t.Errorf("the probe %+v: %v", report.Probe, err)
	}
}

// checkTags checks the tags of a prediction, and reports whether they are right.
func checkTags(t *testing.T, p Prediction, s wraptest.Sequence) (right bool) {
	t.Helper()
	last := 0
	for at, name := range s.Tags {
		if name != "" {
			last = at
		}
	}
	if p.Text != nil || len(p.Tags) != last+1 || p.Tags[0] != nil {
		t.Fatalf("%+v of %q", p.Tags, s.Tags)
	}
	right = true
	for at, tag := range p.Tags[1:] {
		best, k := 0, len(wraptest.TagNames)
		for j, v := range s.Scores[(at+1)*k : (at+2)*k] {
			if v > s.Scores[(at+1)*k+best] {
				best = j
			}
		}
		if tag == nil || tag.Tag != wraptest.TagNames[best] || !(tag.Probability > 1.0/3 && tag.Probability <= 1) {
			t.Fatalf("step %d: %+v, want %s", at+1, tag, wraptest.TagNames[best])
		}
		right = right && tag.Tag == s.Tags[at+1]
	}
	return right
}

// Tags without names have numbers, and a tagger without a mask counts all steps but those at the ends.
func TestATaggerWithoutNamesAndMask(t *testing.T) {
	t.Parallel()
	r := wraptest.Tagger()
	r.Mask = false
	c := wraptest.TagConfig(t, r)
	all := wraptest.Sequences(43, 100, 0)
	for i := range all {
		for at, name := range all[i].Tags {
			for j, other := range wraptest.TagNames {
				if name == other {
					all[i].Tags[at] = string(rune('0' + j))
				}
			}
		}
	}
	c.Classes, c.Val = nil, write(t, t.TempDir(), "val.jsonl", wraptest.JSONSequences(all))
	report, said := noticed(t, c)
	d := report.Head.Decoding
	if d.Mask != "" || !reflect.DeepEqual(d.Alphabet, []string{"0", "1", "2"}) || d.SkipFirst != 1 ||
		!strings.Contains(said, "tags have no names") {
		t.Errorf("%+v, said %q", d, said)
	}
}

// A mask of truth values says which steps count as one of integers does.
func TestATaggerWithAMaskOfTruthValues(t *testing.T) {
	t.Parallel()
	c := wraptest.TagConfig(t, wraptest.Tagger())
	m := wraptest.Tagger().Model()
	m.Graph.Input[1] = onnxpb.TensorInfo("attention_mask", tensor.Bool, -1, -1)
	onnxtest.WriteModel(t, c.Model, m)
	masks := regexp.MustCompile(`"attention_mask":\[[01,]+`)
	data := func(all []wraptest.Sequence) string {
		return write(t, t.TempDir(), "x.jsonl", masks.ReplaceAllFunc(wraptest.JSONSequences(all), func(b []byte) []byte {
			return []byte(strings.NewReplacer("0", "false", "1", "true").Replace(string(b)))
		}))
	}
	c.Val = data(wraptest.Sequences(45, 200, 12))
	report := mustCalibrate(t, c)
	if d := report.Head.Decoding; d.Mask != "attention_mask" || d.SkipFirst != 1 || d.SkipLast != 1 {
		t.Errorf("%+v", d)
	}
	all := wraptest.Sequences(46, 20, 12)
	got, _ := wraptest.Predicted(t, opened(t, c.Out, Options{}), data(all))
	for i, one := range got {
		if right := checkTags(t, one, all[i]); right != (*one.Label == 1) {
			t.Errorf("label %d of %+v, right %t", *one.Label, one.Tags, right)
		}
	}
}

func TestLabelsThatAreNoTagsAreRefused(t *testing.T) {
	t.Parallel()
	one := func(labels string) []byte {
		return []byte(`{"line":[[1,2,3],[1,2,3]],"attention_mask":[1,1],"labels":` + labels + "}\n")
	}
	for name, tt := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"too few":        {func(c *Config) { c.Val = write(t, t.TempDir(), "v.jsonl", one(`["O"]`)) }, "1 tags for 2 steps"},
		"another tag":    {func(c *Config) { c.Val = write(t, t.TempDir(), "v.jsonl", one(`["O","Y"]`)) }, `tag 1 is "Y", want one of the model's 3`},
		"another number": {func(c *Config) { c.Val = write(t, t.TempDir(), "v.jsonl", one(`[3,0]`)) }, `tag 0 is "3"`},
		"no tag":         {func(c *Config) { c.Val = write(t, t.TempDir(), "v.jsonl", one("[-1,-100]")) }, "no step has a tag"},
		"one class":      {func(c *Config) { c.Val = write(t, t.TempDir(), "v.jsonl", one("1")) }, "want a list with a tag for each step"},
		"other names":    {func(c *Config) { c.Classes = []string{"a", "b"} }, "2 names of tags for a model of 3 tags"},
		"an alphabet":    {func(c *Config) { c.Alphabet = []string{"a", "b", "c"} }, "Alphabet is for Kind ctc"},
		"sets":           {func(c *Config) { c.Decisions.Alpha = 0.1 }, "is for prediction sets"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := wraptest.TagConfig(t, wraptest.Tagger())
			tt.change(&c)
			_, err := Calibrate(t.Context(), c)
			testerr.OneLine(t, err, tt.want)
		})
	}
}

// Sequences are tagged whatever their labels are; those that do not suit the tags are ignored, with a warning.
func TestTagsOfSequencesWithOtherLabels(t *testing.T) {
	t.Parallel()
	c := wraptest.TagConfig(t, wraptest.Tagger())
	mustCalibrate(t, c)
	all := wraptest.Sequences(44, 4, 0)
	all[1].Tags[1] = "Y"
	for i := range all[2].Tags {
		all[2].Tags[i] = ""
	}
	lines := append(wraptest.JSONSequences(all),
		`{"line":[[1,2,3],[1,2,3],[1,2,3]],"attention_mask":[1,1,1],"labels":["O"]}`...)
	got, report := wraptest.Predicted(t, opened(t, c.Out, Options{}), write(t, t.TempDir(), "new.jsonl", lines))
	for i, one := range got {
		if labelled := one.Label != nil; labelled != (i == 0 || i == 3) || len(one.Tags) == 0 {
			t.Errorf("%d: label %v of %v", i, one.Label, one.Tags)
		}
	}
	if len(got) != 5 || len(report.Warnings) != 1 || !strings.Contains(report.Warnings[0], "3 of 5 labels") {
		t.Errorf("%d predictions, warnings %q", len(got), report.Warnings)
	}
}

// Options that do not suit an answer that is right or wrong are refused before data are read.
func TestSetsOfTagsAreRefusedFirst(t *testing.T) {
	t.Parallel()
	c := wraptest.TagConfig(t, wraptest.Tagger())
	c.Decisions.Alpha = 0.1
	c.Val = write(t, t.TempDir(), "v.jsonl", []byte("no JSON\n"))
	_, err := Calibrate(t.Context(), c)
	testerr.OneLine(t, err, "Alpha is for prediction sets")
}
