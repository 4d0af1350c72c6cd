package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/mfgs/mfgs/calibrate/conformal"
	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/cmd/mfgs/internal/pretrained"
	"github.com/mfgs/mfgs/internal/text"
	"github.com/mfgs/mfgs/models"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/fuse"
	"github.com/mfgs/mfgs/onnx/head"
	"github.com/mfgs/mfgs/onnx/tensor"
	"github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/bundle"
	"github.com/mfgs/mfgs/wrap/export"
)

func TestTable(t *testing.T) {
	t.Parallel()
	wide := table{align: "lr"}
	wide.row(strings.Repeat("a", 60)+strings.Repeat("b", 60), "1")
	var fits strings.Builder
	if err := wide.write(&fits); err != nil || fits.String() != strings.Repeat("a", 38)+"…"+strings.Repeat("b", 38)+"  1\n" {
		t.Errorf("%v, %s", err, fits.String())
	}
	tab := table{align: "lrr"}
	tab.row("", "one", "two")
	tab.row("größer", "1", "2,000.5")
	tab.row("x")
	var b bytes.Buffer
	if err := tab.write(&b); err != nil {
		t.Fatal(err)
	}
	want := "" +
		"        one      two\n" +
		"größer    1  2,000.5\n" +
		"x\n"
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
}

func TestPrintable(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]string{
		"":                            "",
		"größer 猫 \u200c🐈‍⬛ C:\\new":  "größer 猫 \u200c🐈‍⬛ C:\\new",
		"\x1b]0;owned\a\x1b[31mred":   `\x1b]0;owned\a\x1b[31mred`,
		"a\r\n\tb\x00\x7f\u009b2J":    `a\r\n\tb\x00\x7f\u009b2J`,
		"\u202eabc\u2066\u2028\u2029": `\u202eabc\u2066\u2028\u2029`,
		"\xff\x9bé":                   `\xff\x9bé`,
		"\ufffd":                      "\ufffd",
	} {
		got := printable(s)
		if got != want || printable(got) != got {
			t.Errorf("%q: %q, and then %q, want %q", s, got, printable(got), want)
		}
	}
}

// Names of classes, tensors and examples in files cannot break the lines of a table or control the terminal.
func TestNoNameReachesTheTerminalRaw(t *testing.T) {
	t.Parallel()
	const evil = "put\x1b[31m\r\u009b2J\n\u202e\xff"
	tensor := onnx.ValueInfo{Name: evil, Type: tensor.Float32, Shape: []onnx.Dim{{Value: -1, Param: evil}}}
	class := []string{evil, evil}
	label := 1
	table := func(multi bool, p wrap.Prediction) func(io.Writer) error {
		return func(w io.Writer) error {
			out := newPredictionWriter("table", w, class, headOf(multi), nil)
			if err := out.write(p); err != nil {
				return err
			}
			return out.close()
		}
	}
	model := &onnx.Info{Path: evil, Producer: evil, Inputs: []onnx.ValueInfo{tensor},
		Outputs: []onnx.ValueInfo{tensor}}
	exported := &export.Report{
		Bundle: evil, Model: model, File: evil, Files: []export.WrittenFile{{Path: evil}},
		Inputs: []onnx.ValueInfo{tensor}, OwnOutputs: []onnx.ValueInfo{tensor},
		Outputs: fuse.Outputs{{Key: "probabilities", ValueInfo: tensor}, {Key: "logits", ValueInfo: tensor}, {Key: "logit_variance", ValueInfo: tensor},
			{Key: "ood_score", ValueInfo: tensor}, {Key: "leverage", ValueInfo: tensor}},
	}
	served := *exported
	served.Triton = &export.TritonModel{Repository: evil, Name: evil}
	served.OwnOutputs = nil
	for name, c := range map[string]struct {
		lines int
		write func(io.Writer) error
	}{
		"predictions": {2, table(false, wrap.Prediction{Input: evil, Class: 0, Label: &label})},
		"label lists": {2, table(true,
			wrap.Prediction{Input: evil, Labels: []int{0, 1}, Targets: []int{1}})},
		"inspection": {0, func(w io.Writer) error {
			return writeInspection(w, &inspection{
				Inspection: &wrap.Inspection{Model: *model, Evidence: []string{evil},
					Head: &head.Head{Op: evil, Node: evil, FeaturesTensor: evil, LogitsTensor: evil,
						Tail: []string{evil}}},
				Preprocessing: &pretrained.Suggestion{Preprocess: evil, Reason: evil}, Classes: evil, Next: evil,
				beside: &pretrained.Folder{Tokenizer: evil},
			})
		}},
		"export": {0, func(w io.Writer) error { return writeExport(w, exported) }},
		"served": {0, func(w io.Writer) error { return writeExport(w, &served) }},
		"CSV": {0, func(w io.Writer) error {
			out := newPredictionWriter("csv", w, class, headOf(false), nil)
			return errors.Join(out.write(wrap.Prediction{Input: evil, ClassName: evil}),
				out.close())
		}},
		"JSON lines": {1, func(w io.Writer) error {
			out := newPredictionWriter("jsonl", w, class, headOf(false), nil)
			return errors.Join(out.write(wrap.Prediction{Input: evil, ClassName: evil}),
				out.close())
		}},
		"JSON":      {0, func(w io.Writer) error { return writeJSON(w, map[string]string{evil: evil}) }},
		"warnings":  {0, func(w io.Writer) error { (&program{stderr: w}).warn(evil); return nil }},
		"records":   {0, func(w io.Writer) error { (&program{stderr: w}).warnRecords(class, class); return nil }},
		"an error":  {1, func(w io.Writer) error { _, err := io.WriteString(w, oneLine(evil)+"\n"); return err }},
		"bad usage": {2, func(w io.Writer) error { _, err := fmt.Fprintln(w, usagef("eval", "%s", evil)); return err }},
	} {
		var b bytes.Buffer
		if err := c.write(&b); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
		if c.lines > 0 && len(lines) != c.lines || !strings.Contains(b.String(), `put\`) {
			t.Errorf("%s: %d lines, want %d with the name:\n%s", name, len(lines), c.lines, printable(b.String()))
		}
		for _, line := range lines {
			if printable(line) != line {
				t.Errorf("%s: raw: %q", name, line)
			}
		}
	}
}

func TestNumbersForPeople(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ got, want string }{
		{percent(0.01234), "1.23%"}, {percent(1), "100.00%"}, {percent(0), "0.00%"},
		{text.Count(0), "0"}, {text.Count(999), "999"}, {text.Count(1000), "1,000"}, {text.Count(1234567), "1,234,567"}, {text.Count(-1234), "-1,234"},
		{number(1234567), "1.235e+06"}, {number(0.5), "0.5"}, {nats(0.04861), "0.0486"},
		{seconds(0.04), "0.0"}, {seconds(9.94), "9.9"}, {seconds(9.96), "10"}, {seconds(61.4), "61"},
		{text.Plural(1, "file"), "1 file"}, {text.Plural(1200, "file"), "1,200 files"}, {text.Plural(2, "class"), "2 classes"},
		{oneLine("a\r\nb\n"), "a; b"}, {fmt.Sprint(len(oneLine(strings.Repeat("x", 400000)))), "2002"},
		{csvText("one\ntwo, \"three\""), "one\ntwo, \"three\""}, {csvText("a\n\x1b[2J"), `a\n\x1b[2J`},
		{alternatives([]string{"a"}), "a"}, {alternatives([]string{"a", "b"}), "a or b"}, {alternatives([]string{"a", "b", "c"}), "a, b or c"},
		{wrapText("- ", strings.Repeat("12345678 ", 10)), "- " + strings.TrimSuffix(strings.Repeat("12345678 ", 8), " ") + "\n  12345678 12345678\n"},
		{wrapText("  ", strings.Repeat("x", 100)), "  " + strings.Repeat("x", 100) + "\n"},
	} {
		if test.got != test.want {
			t.Errorf("%q, want %q", test.got, test.want)
		}
	}
}

func TestJSONHasNoNaN(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	if err := writeJSON(&b, map[string]any{"good": 1, "bad": math.NaN()}); err == nil || b.Len() > 0 {
		t.Errorf("%v, written %q", err, b.String())
	}
	if err := writeJSON(&b, map[string]string{"path": "a&b<c>"}); err != nil || b.String() != "{\n  \"path\": \"a&b<c>\"\n}\n" {
		t.Errorf("%v, written %q", err, b.String())
	}
}

func TestReportFits80Columns(t *testing.T) {
	t.Parallel()
	dir := digits(t)
	out := filepath.Join(t.TempDir(), "b")
	for _, args := range [][]string{
		{"calibrate", "--model", dir + models.DigitsModel, "--train", dir + models.DigitsTrain, "--val", dir + models.DigitsVal, "--ood", dir +
			models.OODVal, "--out", out, "--false-alarm", "0.05", "--target-error", "0.05", "--alpha", "0.05"},
		{"eval", "--bundle", out, "--per-class", "--test", dir + models.DigitsTest, "--shift", strings.Repeat("long", 30) + "=" + dir +
			models.DigitsVal, "--ood", "drawings=" + dir + models.OODTest},
		{"predict", "--bundle", out, dir + models.DigitsTest},
		{"inspect", dir + models.DigitsModel},
		{"demo"},
	} {
		code, stdout, stderr := invoke(t.Context(), args...)
		if code != 0 {
			t.Fatalf("%q: exit code %d: %s", args, code, stderr)
		}
		for line := range strings.Lines(stdout) {
			// Paths may be longer.
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 &&
				!strings.Contains(line, filepath.Dir(out)) && !strings.Contains(line, dir) {
				t.Errorf("%s: %d columns: %s", args[0], n, line)
			}
		}
	}
}

// Predictions with long names, labels, abstention and prediction sets fit, in the first rows and after them.
func TestPredictionTablesFit80Columns(t *testing.T) {
	t.Parallel()
	classes := []string{"airplane", "sulphur-crested cockatoo, Kakatoe galerita", "cat", "a very long name of a class", "e", "f"}
	label, share, yes := 1, 0.999, true
	decisions := &conformal.Decisions{
		Plan: conformal.Plan{FalseAlarm: 0.05, Alpha: 0.05}, OOD: &conformal.Rule{}, Set: &conformal.Sets{},
	}
	for _, multi := range []bool{false, true} {
		for _, d := range []*conformal.Decisions{nil, decisions} {
			var b bytes.Buffer
			w := newPredictionWriter("table", &b, classes, headOf(multi), d)
			for i := range rowsKept + 2 {
				p := wrap.Prediction{Input: "a.png", Class: 4, Labels: []int{4}, Confidence: 1, OODPercentile: &share,
					Leverage: 1e-7, PredictionSet: []int{4}, Abstain: new(bool)}
				if i%rowsKept == 1 || i > rowsKept {
					p.Input, p.Class, p.Label = strings.Repeat("folder/", 9)+"image.png", 3, &label
					p.Labels, p.Targets = []int{0, 1, 2, 3, 4}, []int{1, 3}
					p.PredictionSet = []int{0, 1, 2, 3, 4, 5, 6, 7, 8}
					p.Abstain, p.AbstainReason = &yes, "uncertain and out-of-distribution"
				}
				if err := w.write(p); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.close(); err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(b.String()) {
				if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
					t.Errorf("multi-label %t, decisions %t: %d columns: %s", multi, d != nil, n, line)
				}
			}
			if d != nil && (!strings.Contains(b.String(), "  both  ") || !strings.Contains(b.String(), " +6\n")) {
				t.Errorf("multi-label %t: no reason or set in\n%s", multi, b.String())
			}
		}
	}
}

// A wide table does not wait for its end, and a later, wider cell is not cut.
func TestPredictionsAreWrittenAsTheyCome(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	w := newPredictionWriter("table", &b, nil, headOf(false), nil)
	for i := range rowsKept + 1 {
		if i == rowsKept && b.Len() == 0 {
			// The first rows have filled the buffer of 4 kB.
			t.Error("nothing was written after the rows that decide the widths")
		}
		p := wrap.Prediction{Input: strings.Repeat("x", 22), Confidence: 0.5}
		if i == rowsKept {
			p.Class = 1234567
		}
		if err := w.write(p); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "\n"+strings.Repeat("x", 22)+"  1234567  ") {
		t.Error("the last, wider class was not written whole")
	}
	if got := strings.Count(b.String(), "\n"); got != rowsKept+2 {
		t.Errorf("%d lines, want %d and a header", got, rowsKept+1)
	}
}

func TestLongNamesKeepTheirEnd(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"short.png":                               "short.png",
		strings.Repeat("x", 22):                   strings.Repeat("x", 22),
		"é" + strings.Repeat("x", 21):             "é" + strings.Repeat("x", 21),
		"gone" + strings.Repeat("x", 17) + "[17]": "…" + strings.Repeat("x", 17) + "[17]",
	} {
		if got := shortenFront(name, mostName); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

func TestNoPredictionsAreStillADocument(t *testing.T) {
	t.Parallel()
	for _, multi := range []bool{false, true} {
		header := slices.Concat(csvHeader, csvScores)
		if multi {
			header = slices.Concat(csvLabelsHeader, csvScores)
		}
		for format, want := range map[string]string{
			"json":  `{"predictions":[],"bad_records":[],"ignored":[],"warnings":[]}` + "\n",
			"jsonl": "",
			"csv":   strings.Join(header, ",") + "\n",
			"table": "",
		} {
			var b bytes.Buffer
			err := newPredictionWriter(format, &b, nil, headOf(multi), nil).close()
			if err != nil || b.String() != want {
				t.Errorf("%s: %v, written %q, want %q", format, err, b.String(), want)
			}
		}
	}
}

// Lists of labels are written into one cell.
func TestLabelsInCells(t *testing.T) {
	t.Parallel()
	names, share, rest := []string{"cat", "dog", "a bird of some kind", "3"}, 0.125, 0.875
	predictions := []wrap.Prediction{
		{Input: "a", Labels: []int{0, 1}, LabelNames: []string{"cat", "dog"}, Targets: []int{}, Confidence: 0.75, Entropy: 0.5,
			OODScore: 0.25, OODPercentile: &share, OODPValue: &rest, Leverage: 12},
		{Input: "b", Labels: []int{0, 2, 3}, LabelNames: []string{"cat", names[2], "3"}, Confidence: 0.5},
		{Input: "c", Labels: []int{}, LabelNames: []string{}, Targets: []int{2, 3}, Confidence: 1},
	}
	for format, want := range map[string]string{
		"csv": "input,targets,labels,label_names,confidence,entropy,ood_score,ood_percentile,ood_pvalue,leverage\n" +
			"a,,0 1,cat;dog,0.75,0.5,0.25,0.125,0.875,12\n" +
			"b,,0 2 3,cat;a bird of some kind;3,0.5,0,0,,,0\n" +
			"c,2 3,,,1,0,0,,,0\n",
		"table": "" +
			"input  targets           labels        confidence  OOD score  OOD %ile  leverage\n" +
			"a      none              0 cat, 1 dog      75.00%     0.2500    12.50%     12.00\n" +
			"b      -                 0 cat +2          50.00%     0.0000         -     0.000\n" +
			"c      2 a bird of … +1  none             100.00%     0.0000         -     0.000\n",
	} {
		var b bytes.Buffer
		w := newPredictionWriter(format, &b, names, headOf(true), nil)
		for _, p := range predictions {
			if err := w.write(p); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.close(); err != nil || b.String() != want {
			t.Errorf("%s: %v, written\n%swant\n%s", format, err, b.String(), want)
		}
	}
}

var errPipe = errors.New("the pipe is broken")

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errPipe }

func TestOutputThatCannotBeWrittenIsAFailure(t *testing.T) {
	t.Parallel()
	dir := digits(t)
	var stderr bytes.Buffer
	for _, args := range [][]string{
		{"inspect", dir + models.DigitsModel},
		{"inspect", dir + models.DigitsModel, "--json"},
		{"--help"}, {"inspect", "--help"}, {"--version"},
	} {
		stderr.Reset()
		if code := run(t.Context(), append([]string{"mfgs"}, args...), nil, brokenPipe{}, &stderr); code != exitFailed ||
			stderr.String() != "mfgs: "+errPipe.Error()+"\n" {
			t.Errorf("%q: exit code %d, %q", args, code, stderr.String())
		}
	}
}

func TestInterruption(t *testing.T) {
	t.Parallel()
	dir := digits(t)
	out := filepath.Join(t.TempDir(), "b")
	calibrate := []string{"calibrate", "--model", dir + models.DigitsModel, "--train", dir + models.DigitsTrain, "--val", dir + models.DigitsVal, "--out", out}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	code, stdout, stderr := invoke(ctx, calibrate...)
	if code != exitFailed || stdout != "" || stderr != "mfgs: interrupted\n" {
		t.Errorf("exit code %d, %q, %q", code, stdout, stderr)
	}
	entries, err := os.ReadDir(filepath.Dir(out))
	if err != nil || len(entries) > 0 {
		t.Errorf("%v left behind, %v", entries, err)
	}

	if code, _, stderr := invoke(t.Context(), calibrate...); code != 0 {
		t.Fatal(stderr)
	}
	// Interrupted by the first output.
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	var errs bytes.Buffer
	args := []string{"mfgs", "predict", "--bundle", out, "--format", "jsonl"}
	for range 40 {
		args = append(args, dir+models.DigitsTrain)
	}
	code = run(ctx, args, nil, cancelling{cancel}, &errs)
	if code != exitFailed || errs.String() != "mfgs: interrupted\n" {
		t.Errorf("exit code %d, %q", code, errs.String())
	}
}

// cancelling cancels at the first Write.
type cancelling struct{ cancel func() }

func (c cancelling) Write(p []byte) (int, error) {
	c.cancel()
	return len(p), nil
}

// If standard error is not a terminal, a short run writes nothing, and a long one a plain line after 10 s, 20 s, 40 s
// and then every minute.
func TestProgressOffTerminalsIsPlainLinesNowAndThen(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	at := time.Unix(1e9, 0)
	bar := newProgress(&b, !isTerminal(&b), func() time.Time { return at })
	for range 99 {
		at = at.Add(100 * time.Millisecond)
		bar.work(wrap.Progress{Stage: "train", Done: 1, Total: 60_000, Unit: "examples"})
	}
	bar.done()
	if b.Len() > 0 {
		t.Fatalf("%q was written within 10 s", b.String())
	}
	bar = newProgress(&b, !isTerminal(&b), func() time.Time { return at })
	bar.work(wrap.Progress{Stage: "train", Total: 60_000, Unit: "examples"})
	for second := range 200 {
		if second == 150 { // another stage, of unknown length
			bar.done()
		}
		at = at.Add(time.Second)
		r := wrap.Progress{Stage: "train", Done: 100 * (second + 1), Total: 60_000, Unit: "examples"}
		if second >= 150 {
			r = wrap.Progress{Stage: "predicting", Done: 7 * second, Unit: "examples"}
		}
		bar.work(r)
	}
	bar.done()
	const want = `mfgs: progress: train: 1,000 of 60,000 examples (1%), about 9m50s left
mfgs: progress: train: 2,000 of 60,000 examples (3%), about 9m40s left
mfgs: progress: train: 4,000 of 60,000 examples (6%), about 9m20s left
mfgs: progress: train: 8,000 of 60,000 examples (13%), about 8m40s left
mfgs: progress: train: 14,000 of 60,000 examples (23%), about 7m40s left
mfgs: progress: predicting: 1,393 examples
`
	if b.String() != want {
		t.Errorf("wrote\n%swant\n%s", b.String(), want)
	}
}

// A stage that reports nothing for a second is shown all the same.
func TestASilentStageIsShown(t *testing.T) {
	t.Parallel()
	for _, plain := range []bool{true, false} {
		var b bytes.Buffer
		at := time.Unix(1e9, 0)
		bar := newProgress(&b, plain, func() time.Time { return at })
		at = at.Add(firstLine)
		silent := make(chan struct{})
		bar.work(wrap.Progress{Stage: "reading"})
		time.AfterFunc(1500*time.Millisecond, func() { close(silent) })
		<-silent
		bar.done()
		if !strings.Contains(b.String(), "reading") {
			t.Errorf("plain %t: wrote %q", plain, b.String())
		}
	}
}

func TestProgressIsWipedInTheEnd(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	bar := newProgress(&b, false, time.Now)
	bar.work(wrap.Progress{Stage: "train", Done: 1, Total: 4, Unit: "examples"})
	if !strings.Contains(b.String(), "train  25%") {
		t.Errorf("%q shows nothing", b.String())
	}
	bar.work(wrap.Progress{Stage: "train", Done: 4, Total: 4, Unit: "examples"})
	if !strings.HasSuffix(b.String(), "\033[2K\r") {
		t.Errorf("%q is not wiped after its stage", b.String())
	}
	// Of unknown length, and interrupted.
	bar.work(wrap.Progress{Stage: "predicting", Done: 7, Unit: "examples"})
	bar.done()
	if !strings.HasSuffix(b.String(), "\033[2K\r") || !strings.Contains(b.String(), "predicting") {
		t.Errorf("%q is not wiped when interrupted", b.String())
	}
	n := b.Len()
	bar.done()
	if b.Len() != n {
		t.Error("wiped twice")
	}
}

// digits unpacks models/digits-mlp and returns the folder with a trailing slash.
func digits(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "digits")
	if err := os.CopyFS(dir, models.DigitsMLP()); err != nil {
		t.Fatal(err)
	}
	return dir + string(filepath.Separator)
}

// Every number is in the column of its name, in all formats.
func TestNumbersOfPredictionsStandUnderTheirNames(t *testing.T) {
	t.Parallel()
	label, share, rest := 2, 0.125, 0.875
	p := wrap.Prediction{
		Input: "x.png", Label: &label, Class: 1, ClassName: "dog", Confidence: 0.625, Entropy: 1.5,
		OODScore: 0.25, OODPercentile: &share, OODPValue: &rest, Leverage: 8,
		Probabilities: []float64{0.25, 0.625, 0.125}, Labels: []int{1}, LabelNames: []string{"dog"}, Targets: []int{0, 2},
	}
	for _, test := range []struct {
		format string
		multi  bool
		want   string
	}{
		{"csv", false, "input,label,class,class_name,confidence,entropy,ood_score,ood_percentile,ood_pvalue,leverage\nx.png,2,1,dog,0.625,1.5,0.25,0.125,0.875,8\n"},
		{"csv", true, "input,targets,labels,label_names,confidence,entropy,ood_score,ood_percentile,ood_pvalue,leverage\nx.png,0 2,1,dog,0.625,1.5,0.25,0.125,0.875,8\n"},
		{"table", false, "input label class confidence OOD score OOD %ile leverage x.png 2 owl 1 dog 62.50% 0.2500 12.50% 8.000 "},
		{"table", true, "input targets labels confidence OOD score OOD %ile leverage x.png 0 cat, 2 owl 1 dog 62.50% 0.2500 12.50% 8.000 "},
	} {
		var b bytes.Buffer
		w := newPredictionWriter(test.format, &b, []string{"cat", "dog", "owl"}, headOf(test.multi), nil)
		if err := errors.Join(w.write(p), w.close()); err != nil {
			t.Fatal(err)
		}
		got := b.String()
		if test.format == "table" {
			got = strings.Join(strings.Fields(got), " ") + " "
		}
		if got != test.want {
			t.Errorf("%s, multi-label %t: got\n%swant\n%s", test.format, test.multi, got, test.want)
		}
	}
}

// The remaining time of a stage does not depend on earlier stages.
func TestProgressOfALaterStageTellsItsOwnTime(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	at := time.Unix(1e9, 0)
	bar := newProgress(&b, true, func() time.Time { return at })
	bar.work(wrap.Progress{Stage: "train", Total: 10, Unit: "examples"})
	at = at.Add(time.Hour)
	bar.work(wrap.Progress{Stage: "val", Total: 100, Unit: "examples"})
	at = at.Add(time.Minute)
	bar.work(wrap.Progress{Stage: "val", Done: 50, Total: 100, Unit: "examples"})
	if want := "val: 50 of 100 examples (50%), about 1m0s left\n"; !strings.HasSuffix(b.String(), want) {
		t.Errorf("wrote\n%swant it to end with %s", b.String(), want)
	}
}

// An estimated time has few digits, and is 0 only if it is exactly 0.
func TestEstimatedTimes(t *testing.T) {
	t.Parallel()
	for seconds, want := range map[float64]string{
		0: "0s", 0.004: "<0.1s", 0.06: "0.1s", 0.7: "0.7s", 9.94: "9.9s", 17.2: "17s", 60: "1m", 100: "1m40s", 3599.6: "1h",
		3600: "1h", 4830: "1h21m", 36000: "10h", 360029: "100h",
	} {
		if got := about(&seconds); got != want {
			t.Errorf("%v seconds: %s, want %s", seconds, got, want)
		}
	}
	if got := about(nil); got != "unknown" {
		t.Errorf("%s", got)
	}
}

// headOf is a head of three classes, or of three labels that do not exclude each other.
func headOf(multi bool) bundle.Head {
	h := bundle.Head{Head: layer.Head{Features: 2, Logits: 3, Link: layer.Softmax}}
	if multi {
		h.Link = layer.Sigmoid
	}
	return h
}
