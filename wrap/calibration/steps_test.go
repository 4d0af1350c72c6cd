package calibration_test

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/internal/approx"
	"github.com/mfgs/mfgs/internal/onnx/onnxtest"
	"github.com/mfgs/mfgs/internal/testerr"
	"github.com/mfgs/mfgs/internal/wraptest"
	"github.com/mfgs/mfgs/onnx/fuse"
	. "github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/bundle"
	. "github.com/mfgs/mfgs/wrap/calibration"
)

// scoresOf returns the logits of a step of the tagger with a linear layer.
func scoresOf(features []float32) []float32 {
	scores := make([]float32, len(features))
	for j := range scores {
		sum := 0.0
		for i, v := range features {
			sum += float64(v) * float64(onnxtest.Weight(i, j))
		}
		scores[j] = float32(sum)
	}
	return scores
}

// A model with logits for each step is calibrated on one labelled step of each example, and answers for all steps that
// count as the formulas do for their features, whether sequences are padded or not.
func TestAModelOfStepsGoesTheWholeWay(t *testing.T) {
	t.Parallel()
	c := wraptest.StepConfig(t, wraptest.StepTagger())
	c.Decisions.Alpha, c.Decisions.TargetError = 0.1, 0.1
	r := mustCalibrate(t, c)
	if r.Head.Steps != 1 || r.Head.Logits != len(wraptest.TagNames) {
		t.Fatalf("head %+v, want 1 axis of steps", r.Head)
	}
	if v := r.Validation; r.Examples.Val != 400 || v.Before.N != 200 {
		t.Errorf("validation %+v, want 400 examples with one step each, half of them for figures", v)
	}
	untagged := func(w string) bool { return strings.Contains(w, "of the steps that count have no label") }
	if !slices.ContainsFunc(r.Warnings, untagged) { // the first and last of each sequence
		t.Errorf("warnings %q, want one of steps without a label", r.Warnings)
	}
	if r.Head.Proof == nil || r.Head.Proof.Difference > 1e-6 {
		t.Errorf("proof %+v, want the model's own probabilities compared", r.Head.Proof)
	}
	p := opened(t, c.Out, Options{})
	for _, steps := range []int{0, 12} {
		all := wraptest.Sequences(44, 100, steps)
		got, _ := predicted(t, p, write(t, t.TempDir(), "new.jsonl", wraptest.JSONSequences(all)))
		var lines []Prediction
		for one, err := range p.PredictLines(t.Context(), strings.NewReader(string(wraptest.JSONSequences(all)))) {
			if err != nil {
				t.Fatal(err)
			}
			lines = append(lines, one)
		}
		checkSteps(t, p, got, all)
		checkSteps(t, p, lines, all)
	}
	if err := p.Probe(t.Context()); err != nil {
		t.Error(err)
	}
}

// checkSteps compares predictions of sequences with the formulas for the features of each step that counts.
func checkSteps(t *testing.T, p *Predictor, got []Prediction, all []wraptest.Sequence) {
	t.Helper()
	k := len(wraptest.TagNames)
	for i, s := range all {
		for at, seen := range s.Mask {
			if seen == 0 {
				continue
			}
			if len(got) == 0 {
				t.Fatalf("sequence %d has no prediction of step %d", i, at)
			}
			one := got[0]
			got = got[1:]
			features := s.Scores[at*k : (at+1)*k]
			want, err := p.PredictFeatures(features, scoresOf(features))
			if err != nil {
				t.Fatal(err)
			}
			wraptest.Float32s.Check(t, one, want[0])
			if one.Step == nil || *one.Step != at || !strings.HasSuffix(one.Input, fmt.Sprintf("[%d]", i)) {
				t.Fatalf("sequence %d: a prediction of %s, step %v, want step %d", i, one.Input, one.Step, at)
			}
			label := slices.Index(wraptest.TagNames, s.Tags[at])
			if (label >= 0) != (one.Label != nil) || label >= 0 && *one.Label != label {
				t.Fatalf("sequence %d, step %d: label %v, want %d", i, at, one.Label, label)
			}
			if one.Abstain == nil || one.PredictionSet == nil {
				t.Fatalf("sequence %d, step %d: no decisions: %+v", i, at, one)
			}
		}
	}
	if len(got) > 0 {
		t.Fatalf("%d predictions too many", len(got))
	}
}

// Tensors of any number of examples are answered with the axis of the steps, and an override keeps it.
func TestTheOutputsOfStepsHaveTheirAxis(t *testing.T) {
	t.Parallel()
	c := wraptest.StepConfig(t, wraptest.StepTagger())
	c.Decisions.Alpha = 0.1
	mustCalibrate(t, c)
	p := opened(t, c.Out, Options{Runtime: Runtime{Batch: 4}})
	const n, steps = 10, 9
	inputs := wraptest.SequenceInputs(wraptest.Sequences(45, n, steps))
	outputs, err := p.Run(t.Context(), inputs)
	if err != nil {
		t.Fatal(err)
	}
	k := int64(len(wraptest.TagNames))
	if got := outputs[fuse.Probabilities].Shape; !slices.Equal(got, []int64{n, steps, k}) {
		t.Errorf("probabilities %v, want [%d %d %d]", got, n, steps, k)
	}
	for _, o := range []Override{{}, {Method: "mle"}} {
		r, err := p.Apply(outputs, o)
		if err != nil {
			t.Fatal(err)
		}
		infos := p.Outputs(o)
		for i, out := range r.Outputs {
			want := []int64{n, steps}
			if rank := len(infos[i].Shape); rank == 3 {
				want = append(want, k)
			}
			if !slices.Equal(out.Shape, want) || out.Name != infos[i].Name {
				t.Errorf("%+v: output %s %v, want %s %v", o, out.Name, out.Shape, infos[i].Name, want)
			}
		}
		if len(r.Predictions) != n*steps || *r.Predictions[steps+2].Step != 2 {
			t.Fatalf("%d predictions, want one for each of %d steps of %d examples", len(r.Predictions), steps, n)
		}
		if o.Method != "mle" {
			continue
		}
		one := r.Predictions[steps+2]
		sum := 0.0
		for _, v := range one.Logits {
			sum += math.Exp(float64(v))
		}
		for j, v := range one.Logits {
			if want := math.Exp(float64(v)) / sum; !approx.Equal(one.Probabilities[j], want, 1e-6) {
				t.Errorf("probability %d of step 2 is %v, want the network's %v", j, one.Probabilities[j], want)
			}
		}
	}
	if got := p.CountedSteps(inputs, 3, steps); len(got) != int(sumOf(inputs[1].Data.([]int64)[3*steps:4*steps])) {
		t.Errorf("counted steps %v of mask %v", got, inputs[1].Data.([]int64)[3*steps:4*steps])
	}
}

func sumOf(list []int64) (sum int64) {
	for _, v := range list {
		sum += v
	}
	return sum
}

// Whatever the batches, and from the features cache, the same steps are drawn.
func TestStepsAreDrawnByPosition(t *testing.T) {
	t.Parallel()
	c := wraptest.StepConfig(t, wraptest.StepTagger())
	c.Cache = t.TempDir()
	var first *bundle.Bundle
	for _, batch := range []int{1, 7, 7} { // the last from the cache of the one before
		c.Runtime.Batch, c.Out = batch, filepath.Join(t.TempDir(), "b")
		mustCalibrate(t, c)
		b := mustOpen(t, c.Out)
		if first == nil {
			first = b
		}
		got, want := b.Manifest.Validation.Before, first.Manifest.Validation.Before
		if b.Manifest.Temperatures.TS != first.Manifest.Temperatures.TS || got.NLL != want.NLL || got.N != want.N {
			t.Errorf("batches of %d: temperature %v and figures %+v, want %v and %+v", batch, b.Manifest.Temperatures.TS, got,
				first.Manifest.Temperatures.TS, want)
		}
	}
}

func mustOpen(t *testing.T, dir string) *bundle.Bundle {
	t.Helper()
	b, err := bundle.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Labels that do not fit the steps are an error that says so.
func TestStepsWithoutTheirLabels(t *testing.T) {
	t.Parallel()
	const line = `{"line":[[1,2,3],[1,2,3]],"attention_mask":[1,1],"labels":%s}` + "\n"
	for labels, want := range map[string]string{
		`[1]`:           "1 labels for 2 steps: give one for each, and -100 for a step without one",
		`[1,2,0]`:       "3 labels for 2 steps",
		`[1,3]`:         "step 1: label 3 is outside [0,3)",
		`[1,"X"]`:       `step 1: label "X" is not one of the 3 class names`,
		`[null,-100]`:   "no step has a label",
		`1`:             "want a list with a label for each step",
		`[[1,2],[1,0]]`: "labels [2 2] for steps [2]",
		`[0.5,1]`:       "want a list of names or whole numbers",
	} {
		c := wraptest.StepConfig(t, wraptest.StepTagger())
		c.Val = write(t, t.TempDir(), "val.jsonl", []byte(strings.Repeat(fmt.Sprintf(line, labels), 3)))
		_, err := Calibrate(t.Context(), c)
		testerr.OneLine(t, err, want)
	}
}

// A record with labels of another number of steps is skipped like one that cannot be read, of steps with a posterior
// and of tags as a whole.
func TestRecordsWithWrongLabelsAreSkipped(t *testing.T) {
	t.Parallel()
	wrong := []int{0, 7, 8, 200, 399}
	for name, config := range map[string]func(testing.TB, onnxtest.Recogniser) Config{
		"steps": wraptest.StepConfig, "tags": wraptest.TagConfig,
	} {
		model := wraptest.Tagger()
		model.Layer = name == "steps"
		lines := strings.SplitAfter(string(wraptest.JSONSequences(wraptest.Sequences(41, 400, 0))), "\n")
		temperature := func(line func(string) string, most int) (float64, []string, error) {
			c := config(t, model)
			c.MaxBad = most
			val := slices.Clone(lines)
			for _, i := range wrong {
				val[i] = line(val[i])
			}
			c.Val = write(t, t.TempDir(), "val.jsonl", []byte(strings.Join(val, "")))
			r, err := Calibrate(t.Context(), c)
			if err != nil {
				return 0, nil, err
			}
			m := mustOpen(t, c.Out).Manifest
			return m.Temperatures.TS, r.Bad, nil
		}
		misfit := func(line string) string { return strings.Replace(line, `"labels":[`, `"labels":["O",`, 1) }
		unreadable := func(line string) string { return strings.Replace(line, `"line":[`, `"line":["x",`, 1) }
		want, _, err := temperature(unreadable, len(wrong))
		if err != nil {
			t.Fatal(name, err)
		}
		got, skipped, err := temperature(misfit, len(wrong))
		if err != nil || got != want || len(skipped) != len(wrong) {
			t.Errorf("%s: temperature %v and %q skipped, %v, want %v and %d", name, got, skipped, err, want, len(wrong))
		}
		_, _, err = temperature(misfit, len(wrong)-1)
		testerr.OneLine(t, err, "val.jsonl[399]", "5 unreadable records, MaxBad allows 4")
	}
}

// A model that brings the steps in front of the examples is refused.
func TestStepsInFrontOfTheExamples(t *testing.T) {
	t.Parallel()
	r := wraptest.StepTagger()
	r.StepsFirst = true
	_, err := Calibrate(t.Context(), wraptest.StepConfig(t, r))
	testerr.OneLine(t, err, `Transpose "Transpose_out" mixes the steps of [?,?,3]`)
}
