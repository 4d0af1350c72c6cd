package calibration_test

import (
	"context"
	"errors"
	"maps"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/calibrate/conformal"
	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/internal/approx"
	"github.com/mfgs/mfgs/internal/onnx/onnxtest"
	"github.com/mfgs/mfgs/internal/wraptest"
	"github.com/mfgs/mfgs/onnx/head"
	. "github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/bundle"
	. "github.com/mfgs/mfgs/wrap/calibration"
)

// noticed calibrates and returns what was said.
func noticed(t *testing.T, c Config) (*Report, string) {
	t.Helper()
	var notices []string
	c.Notice = func(s string) { notices = append(notices, s) }
	return mustCalibrate(t, c), strings.Join(notices, "\n")
}

// How text is read is found from what a network gives, recorded, and said. Its confidence is the calibrated
// probability that the text is right.
func TestARecogniserOfTextGoesTheWholeWay(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(*onnxtest.Recogniser)
		of     head.Kind
	}{
		"probabilities":  {func(*onnxtest.Recogniser) {}, head.Probabilities},
		"scores":         {func(r *onnxtest.Recogniser) { r.Softmax = false }, head.Scores},
		"steps first":    {func(r *onnxtest.Recogniser) { r.StepsFirst = true }, head.Probabilities},
		"old operators":  {func(r *onnxtest.Recogniser) { r.Opset = 11 }, head.Probabilities},
		"batches of one": {func(r *onnxtest.Recogniser) { r.Batch, r.StepsFirst = 1, true }, head.Probabilities},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := wraptest.Recogniser()
			tt.change(&r)
			c := wraptest.LineConfig(t, r)
			c.Decisions = conformal.Plan{TargetError: 0.1}
			report, said := noticed(t, c)
			b, err := bundle.Open(c.Out)
			if err != nil {
				t.Fatal(err)
			}
			m := b.Manifest
			want := &head.Decoding{
				Of: tt.of, StepsFirst: r.StepsFirst, Alphabet: append([]string{""}, wraptest.LineAlphabet...),
			}
			if !reflect.DeepEqual(m.Head.Decoding, want) || m.Head.Kind != head.CTC || !m.Head.Correctness ||
				!slices.Equal(m.Labels, []string{"wrong", "right"}) || m.OODScore.Name != "error_odds" {
				t.Errorf("head %+v with %+v, labels %q, score %s", m.Head, m.Head.Decoding, m.Labels, m.OODScore.Name)
			}
			if !strings.Contains(said, string(tt.of)+" of 5 symbols at each step") || !strings.Contains(said, "the blank is symbol 0") {
				t.Errorf("said %q", said)
			}
			p := opened(t, c.Out, Options{})
			lines := wraptest.Lines(22, 300, 0)
			got, _ := wraptest.Predicted(t, p, write(t, t.TempDir(), "new.jsonl", wraptest.JSONLines(lines)))
			right, answered, wrong, expected := 0, 0, 0, 0.0
			for i, one := range got {
				checkText(t, one)
				if *one.Abstain != (one.Probabilities[0] > report.Decisions.Uncertainty.Threshold) {
					t.Errorf("%+v with the threshold %v", one, report.Decisions.Uncertainty.Threshold)
				}
				same := strings.TrimSpace(*one.Text) == strings.TrimSpace(lines[i].Text)
				expected += one.Confidence
				if same {
					right++
				}
				if !*one.Abstain {
					answered++
					if !same {
						wrong++
					}
				}
			}
			if n := float64(len(got)); !approx.Equal(expected/n, float64(right)/n, 0.08) || answered < len(got)/3 ||
				wrong > answered/7 {
				t.Errorf("%d of %d right, %v expected; %d of %d answers wrong", right, len(got), expected, wrong, answered)
			}
			if err := p.Probe(t.Context()); err != nil || report.Probe.Examples == 0 {
				t.Errorf("the probe %+v: %v", report.Probe, err)
			}
		})
	}
}

// checkText checks what belongs together in the prediction of a text.
func checkText(t *testing.T, p Prediction) {
	t.Helper()
	if p.Text == nil || p.Class != layer.Right || p.ClassName != "right" || p.Confidence != p.Probabilities[1] ||
		len(p.Probabilities) != 2 || !approx.Equal(p.Probabilities[0]+p.Probabilities[1], 1, 1e-15) ||
		p.PredictionSet != nil {
		t.Fatalf("prediction %+v", p)
	}
	text, product := "", 1.0
	for _, c := range p.Characters {
		text += c.Text
		product *= c.Probability
		if !(c.Probability > 0 && c.Probability <= 1) {
			t.Errorf("%q: probability %v", *p.Text, c.Probability)
		}
	}
	if text != *p.Text || p.Characters == nil {
		t.Errorf("characters of %q: %+v", *p.Text, p.Characters)
	}
}

// Records of a dataset are labelled by whether their texts are what is read, as calibrate and eval count them.
func TestLinesOfADatasetAreRightOrWrong(t *testing.T) {
	t.Parallel()
	c := wraptest.LineConfig(t, wraptest.Recogniser())
	mustCalibrate(t, c)
	lines := wraptest.Lines(23, 60, 0)
	lines[3].Text += "é"
	lines[4].Text = " " + lines[4].Text + "  "
	spec := write(t, t.TempDir(), "lines.jsonl", wraptest.JSONLines(lines))
	p := opened(t, c.Out, Options{})
	got, _ := wraptest.Predicted(t, p, spec)
	if len(got) != len(lines) {
		t.Fatalf("%d predictions", len(got))
	}
	kinds := [2]int{}
	for i, one := range got {
		checkText(t, one)
		want := 0
		if strings.TrimSpace(*one.Text) == strings.TrimSpace(lines[i].Text) {
			want = 1
		}
		if one.Label == nil || *one.Label != want {
			t.Errorf("line %d: %q of %q has label %v", i, *one.Text, lines[i].Text, one.Label)
		}
		kinds[want]++
		// A line alone is as in its batch.
		alone, err := p.Predict(t.Context(), []Tensor{wraptest.LineInputs(lines[i : i+1])})
		if err != nil {
			t.Fatal(err)
		}
		if *alone[0].Text != *one.Text || !approx.Equal(alone[0].Confidence, one.Confidence, 1e-6) {
			t.Errorf("line %d: %q with %v, alone %q with %v", i, *one.Text, one.Confidence, *alone[0].Text, alone[0].Confidence)
		}
	}
	if kinds[0] < 3 || kinds[1] < 3 {
		t.Errorf("%v labels, which tell nothing", kinds)
	}
}

// What was computed from a run's outputs is what Predict gives, also under an override, whose threshold is of the
// probability to be wrong, and not of that of the less probable class.
func TestAThresholdOfARequestIsOfTheAnswer(t *testing.T) {
	t.Parallel()
	c := wraptest.LineConfig(t, wraptest.Recogniser())
	mustCalibrate(t, c)
	p := opened(t, c.Out, Options{})
	in := []Tensor{wraptest.LineInputs(wraptest.Lines(24, 100, 16))}
	outputs, err := p.Run(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	infos := p.Outputs(Override{})
	if len(outputs) != len(infos) || outputs[len(outputs)-2].Name != "text" {
		t.Fatalf("outputs %+v", infos)
	}
	most, unlikely := 0.6, 0
	got, err := p.Apply(outputs, Override{MaxUncertainty: &most})
	if err != nil {
		t.Fatal(err)
	}
	want, err := p.Predict(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	for i, one := range got.Predictions {
		if one.Abstain == nil || *one.Abstain != (one.Probabilities[0] > most) {
			t.Errorf("%+v with the threshold %v", one, most)
		}
		if one.Probabilities[0] > most {
			unlikely++
		}
		one.Abstain, one.AbstainReason = nil, ""
		if !reflect.DeepEqual(one, want[i]) {
			t.Errorf("%+v, want %+v", one, want[i])
		}
	}
	if unlikely == 0 {
		t.Error("all texts are probably right, which tells nothing")
	}
	// With other probabilities the texts are the same.
	other, err := p.Apply(outputs, Override{Method: "mle"})
	if err != nil {
		t.Fatal(err)
	}
	for i, one := range other.Predictions {
		if *one.Text != *want[i].Text || one.Class != layer.Right {
			t.Errorf("%+v, want the text of %+v", one, want[i])
		}
	}
}

func TestPartsOfARecogniserAreOneRun(t *testing.T) {
	t.Parallel()
	c := wraptest.LineConfig(t, wraptest.Recogniser())
	c.Val, c.KeepClass = write(t, filepath.Dir(c.Out), "more.jsonl", wraptest.JSONLines(wraptest.Lines(25, 1040, 0))), true
	mustCalibrate(t, c)
	sameFiles(t, "one part", merged(t, parts(t, c, 1)...), c.Out)
	partsAreOneRun(t, c)
	// The parts of another alphabet are of another calibration.
	last := parts(t, c, 3)[2]
	c.Alphabet = []string{"a", "b", "c", " "}
	mixed := []string{last, parts(t, c, 3)[1]}
	_, err := Merge(t.Context(), MergeConfig{Parts: mixed, Out: filepath.Join(t.TempDir(), "b")})
	says(t, err)
}

func TestAnInterruptedRecogniserContinues(t *testing.T) {
	t.Cleanup(CheckpointEvery(0)) // after the parallel cases
	for _, stage := range []string{"val", "tuning"} {
		t.Run(stage, func(t *testing.T) {
			t.Parallel()
			c := wraptest.LineConfig(t, wraptest.Recogniser())
			age(t, filepath.Dir(c.Out))
			c.Cache = filepath.Join(t.TempDir(), "cache")
			mustCalibrate(t, c)
			want := folder(t, c.Out)
			c.Out = filepath.Join(t.TempDir(), "cached")
			mustCalibrate(t, c)
			sameFolder(t, "from a cache", folder(t, c.Out), want)
			c.Cache, c.Out, c.Resume = "", filepath.Join(t.TempDir(), "b"), true
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			stop := errors.New("stop")
			c.Progress = func(p Progress) {
				if p.Stage == stage {
					cancel(stop)
				}
			}
			if _, err := Calibrate(ctx, c); !errors.Is(err, stop) {
				t.Fatal(err)
			}
			c.Progress = nil
			mustCalibrate(t, c)
			sameFolder(t, "resumed", folder(t, c.Out), want)
		})
	}
}

func sameFolder(t *testing.T, what string, got, want map[string]string) {
	t.Helper()
	if !maps.Equal(got, want) {
		t.Errorf("%s: other files than those of one run", what)
	}
}

// A bundle is a job that repeats the calibration, with the alphabet or the names of the tags.
func TestABundleThatDecodesIsAJob(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]Config{
		"text": wraptest.LineConfig(t, wraptest.Recogniser()), "tags": wraptest.TagConfig(t, wraptest.Tagger()),
	} {
		mustCalibrate(t, c)
		j, err := ReadJob(filepath.Join(c.Out, bundle.ManifestName))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		again := j.Config
		again.Out = filepath.Join(t.TempDir(), "again")
		mustCalibrate(t, again)
		sameFolder(t, name, folder(t, again.Out), folder(t, c.Out))
	}
}

// An update keeps how text is read, and changes what the probabilities are.
func TestAnUpdateOfARecogniser(t *testing.T) {
	t.Parallel()
	c := wraptest.LineConfig(t, wraptest.Recogniser())
	mustCalibrate(t, c)
	out := filepath.Join(t.TempDir(), "updated")
	prior := map[string]float64{"right": 0.5}
	if _, err := Update(t.Context(), UpdateConfig{Bundle: c.Out, Prior: prior, Out: out}); err != nil {
		t.Fatal(err)
	}
	in := []Tensor{wraptest.LineInputs(wraptest.Lines(26, 40, 16))}
	before, err := opened(t, c.Out, Options{}).Predict(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	after, err := opened(t, out, Options{}).Predict(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	lower := 0
	for i := range after {
		if *after[i].Text != *before[i].Text {
			t.Errorf("%q, before %q", *after[i].Text, *before[i].Text)
		}
		if after[i].Confidence < before[i].Confidence {
			lower++
		}
	}
	if lower < len(after)*9/10 {
		t.Errorf("%d of %d confidences are lower where fewer texts are right", lower, len(after))
	}
}

func TestRecognisersThatAreRefused(t *testing.T) {
	t.Parallel()
	forest := func(c *Config) { c.Model = wraptest.ForestConfig(t, 4, nil).Model }
	for name, tt := range map[string]struct {
		change func(*Config)
		want   []string
	}{
		"no alphabet":       {func(c *Config) { c.Alphabet = nil }, []string{"does not say what its 5 symbols are", "give Alphabet", "4 without the blank"}},
		"a short alphabet":  {func(c *Config) { c.Alphabet = c.Alphabet[:2] }, []string{"Alphabet has 2 symbols, want the model's 5, or 4 without the blank"}},
		"no blank":          {func(c *Config) { c.Alphabet = append([]string{"-"}, c.Alphabet...) }, []string{"none is the blank", "leave its line empty"}},
		"several blanks":    {func(c *Config) { c.Alphabet = []string{"", "a", "", "b", " "} }, []string{"several empty symbols"}},
		"class names":       {func(c *Config) { c.Classes = []string{"a", "b"} }, []string{"class names are for classes", "Alphabet"}},
		"sets":              {func(c *Config) { c.Decisions.Alpha = 0.1 }, []string{"Alpha is for prediction sets", "leave it out"}},
		"another score":     {func(c *Config) { c.OODScore = "entropy" }, []string{"entropy is of classes", "error_odds"}},
		"features":          {func(c *Config) { c.Head.Features, c.Train = "line", c.Val }, []string{"Kind ctc takes no features"}},
		"a link":            {func(c *Config) { c.Head.Link = layer.Sigmoid }, []string{"Link is for classes"}},
		"rows":              {forest, []string{"want [N,T,K] or [T,N,K]"}},
		"an alphabet alone": {func(c *Config) { forest(c); c.Head.Kind = head.None }, []string{"Alphabet is for Kind ctc"}},
		"labels of classes": {func(c *Config) {
			c.Val = write(t, t.TempDir(), "v.jsonl", []byte("{\"line\":[[1,2,3,4,5]],\"label\":1}\n"))
		}, []string{"want a text"}},
		"lines of one step": {func(c *Config) {
			c.Val = write(t, t.TempDir(), "v.jsonl", []byte("{\"line\":[[1,2,3,4,5]],\"label\":\"a\"}\n"))
		}, []string{"all examples have one step"}},
		"a symbol too long": {func(c *Config) { c.Alphabet = []string{strings.Repeat("x", 65), "b", "c", " "} }, []string{"at most 64 bytes"}},
		"fixed batches": {func(c *Config) {
			r := wraptest.Recogniser()
			r.Batch = 4
			onnxtest.WriteModel(t, c.Model, r.Model())
		}, []string{"the model takes batches of 4", "export it with an open batch, or one of 1"}},
		"old operators": {func(c *Config) {
			r := wraptest.Recogniser()
			r.Opset = 10
			onnxtest.WriteModel(t, c.Model, r.Model())
		}, []string{"needs operator set 11, and the model has 10"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := wraptest.LineConfig(t, wraptest.Recogniser())
			tt.change(&c)
			_, err := Calibrate(t.Context(), c)
			says(t, err, tt.want...)
		})
	}
}

// PaddleOCR's exports have their dictionary in the metadata, without the blank and the space.
func TestTheAlphabetOfTheMetadataIsTaken(t *testing.T) {
	t.Parallel()
	for name, character := range map[string]string{"without a space": "a\nb\né", "with a space": "a\nb\né\n "} {
		r := wraptest.Recogniser()
		r.Character = character
		c := wraptest.LineConfig(t, r)
		c.Alphabet = nil
		_, said := noticed(t, c)
		if added := strings.Contains(said, "is taken as a space"); added != (name == "without a space") {
			t.Errorf("%s: said %q", name, said)
		}
		b, err := bundle.Open(c.Out)
		if err != nil {
			t.Fatal(err)
		}
		if d := b.Manifest.Head.Decoding; d.Blank != 0 || !slices.Equal(d.Alphabet, []string{"", "a", "b", "é", " "}) {
			t.Errorf("%s: %+v", name, d)
		}
	}
}

// The calibrated probability of a text with p(text) near 0 or 1 is a number.
func TestTextsThatAreNearlyImpossible(t *testing.T) {
	t.Parallel()
	c := wraptest.LineConfig(t, wraptest.Recogniser())
	mustCalibrate(t, c)
	flat := wraptest.Line{Scores: make([]float32, 300*5)}
	sharp := wraptest.Line{Scores: make([]float32, 300*5)}
	for at := 0; at < len(sharp.Scores); at += 5 {
		flat.Scores[at+at/5%5], sharp.Scores[at+1+at/5%2] = 0.01, 200
	}
	in := []Tensor{wraptest.LineInputs([]wraptest.Line{flat, sharp})}
	got, err := opened(t, c.Out, Options{}).Predict(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	for i, one := range got {
		checkText(t, one)
		if math.IsNaN(one.OODScore) || len(one.Characters) < 200 || (one.Confidence > 0.5) != (i == 1) {
			t.Errorf("line %d of %d characters: confidence %v, score %v", i, len(one.Characters), one.Confidence, one.OODScore)
		}
	}
}
