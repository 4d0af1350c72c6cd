// Package demo calibrates the built-in digits model, tests it, and shows what was gained. It is mfgs demo, and apart
// from it so that make demo need not compile servers and data formats.
package demo

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/metrics"
	"github.com/mfgs/mfgs/featurize/dataset"
	"github.com/mfgs/mfgs/internal/text"
	"github.com/mfgs/mfgs/models"
	"github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/bench"
	"github.com/mfgs/mfgs/wrap/calibration"
)

// Options say how a demonstration runs.
type Options struct {
	Runtime  wrap.Runtime
	Progress func(wrap.Progress) // of its stages; nil is none
	Ready    func()              // called before the results are written; nil is none
}

// Run writes the demonstration to w. Model and data are unpacked to a temporary folder, which is removed at the end.
func Run(ctx context.Context, w io.Writer, o Options) (err error) {
	dir, err := os.MkdirTemp("", "mfgs-demo-")
	if err != nil {
		return err
	}
	defer func() {
		if e := os.RemoveAll(dir); err == nil {
			err = e
		}
	}()
	if err := os.CopyFS(filepath.Join(dir, "digits"), models.DigitsMLP()); err != nil {
		return err
	}
	d := &demonstration{
		Options: o, dir: filepath.Join(dir, "digits"), bundle: filepath.Join(dir, "bundle"), w: w, unicode: speaksUTF8(),
	}
	return d.run(ctx)
}

// A demonstration is one run of the demo.
type demonstration struct {
	Options
	dir, bundle string
	w           io.Writer
	unicode     bool
}

// width is the number of columns of a terminal.
const width = 80

func (d *demonstration) run(ctx context.Context) error {
	fmt.Fprint(d.w, text.Wrap(width, "", "A small network was trained on 1,200 handwritten digits of 8 x 8 pixels. mfgs calibrates it on "+
		"300 other digits and on 300 drawings that are not digits. The test data are 297 more digits and 300 more drawings.")+"\n")
	_, err := calibration.Calibrate(ctx, calibration.Config{
		Model:    d.path(models.DigitsModel),
		Train:    d.path(models.DigitsTrain),
		Val:      d.path(models.DigitsVal),
		OOD:      d.path(models.OODVal),
		Out:      d.bundle,
		Runtime:  d.Runtime,
		Progress: d.Progress,
	})
	if err != nil {
		return err
	}
	evaluation, err := bench.Evaluate(ctx, bench.Config{
		Bundle:   d.bundle,
		Test:     d.path(models.DigitsTest),
		OOD:      []bench.NamedSpec{{Name: "drawings", Spec: d.path(models.OODTest)}},
		Runtime:  d.Runtime,
		Progress: d.Progress,
	})
	if err != nil {
		return err
	}
	if d.Ready != nil {
		d.Ready()
	}
	if err := d.figures(evaluation); err != nil {
		return err
	}
	return d.show(ctx, evaluation)
}

// show draws a few images and summarises the result.
func (d *demonstration) show(ctx context.Context, evaluation *bench.Evaluation) error {
	predictor, err := wrap.Open(ctx, d.bundle, wrap.Options{Runtime: d.Runtime})
	if err != nil {
		return err
	}
	defer predictor.Close()
	digits, err := d.sights(ctx, predictor, models.DigitsTest)
	if err != nil {
		return err
	}
	for i := range digits {
		digits[i].title = fmt.Sprintf("digit %d", *digits[i].Label)
	}
	drawings, err := d.sights(ctx, predictor, models.OODTest)
	if err != nil {
		return err
	}
	for i, s := range drawings {
		drawings[i].title = models.OODNames()[s.position]
	}
	rank(digits, digits)
	rank(drawings, digits)
	fmt.Fprint(d.w, "\n", text.Wrap(width, "", "Below each image: the class and confidence of the network, those of mfgs, "+
		"and the fraction of the test digits with a lower OOD score."))
	// Examples are chosen by what they show, never by their result.
	if err := d.draw("Digits", pick(digits, "digit 1", "digit 4", "digit 8", "digit 9")); err != nil {
		return err
	}
	err = d.draw("Drawings that are not digits", pick(drawings, "letter E", "letter X", "inverted", "scrambled"))
	if err != nil {
		return err
	}

	softmaxIn, mfgsIn := means(digits)
	softmaxOut, mfgsOut := means(drawings)
	plain, selected := method(evaluation, "mle"), method(evaluation, evaluation.Bundle.OODScore.Name)
	_, err = fmt.Fprint(d.w, "\n", text.Wrap(width, "", fmt.Sprintf(
		"The mean confidence of the network is %.0f %% on digits and %.0f %% on drawings, that of mfgs %.0f %% and %.0f %%. "+
			"At a threshold that accepts 95 %% of the digits, the confidence of the network flags %.0f %% of the drawings, and the OOD score of mfgs %.0f %%.",
		100*softmaxIn, 100*softmaxOut, 100*mfgsIn, 100*mfgsOut,
		100*(1-plain.OOD[0].FPR95), 100*(1-selected.OOD[0].FPR95))), afterDemo)
	return err
}

// afterDemo says what to do next.
const afterDemo = `
Next, with your own model and data:

  mfgs inspect model.onnx
  mfgs calibrate --model model.onnx --train TRAIN --val VAL --out my.mfgs
  mfgs eval --bundle my.mfgs --test TEST --ood NAME=OOD --report report.html
`

// method returns the figures of one method.
func method(e *bench.Evaluation, name string) bench.MethodResult {
	return e.Methods[slices.IndexFunc(e.Methods, func(m bench.MethodResult) bool { return m.Name == name })]
}

func (d *demonstration) path(name string) string { return filepath.Join(d.dir, name) }

// figures writes the evaluation as a small table.
func (d *demonstration) figures(e *bench.Evaluation) error {
	const row = "%-24s%6s%8s%7s%10s%8s\n"
	names := map[string]string{"mle": "network (uncalibrated)", "ts": "temperature scaling"}
	label := func(key string) string { return metrics.FigureOf(key).Label }
	var b strings.Builder
	fmt.Fprintf(&b, "%-24s%6s%25s\n", "", "digits", "drawings")
	fmt.Fprintf(&b, row, "", label("error"), label("nll"), label("ece"), label("auroc"), label("fpr95"))
	for _, m := range e.Methods {
		name, ok := names[m.Name]
		if !ok {
			name = "mfgs (" + m.Name + ")"
		}
		var failed, nll, ece string
		if in := m.InDomain; in != nil {
			failed, nll, ece = percent(in.Error), fmt.Sprintf("%.4f", in.NLL), percent(in.ECE)
		}
		fmt.Fprintf(&b, row, name, failed, nll, ece, percent(m.OOD[0].AUROC), percent(m.OOD[0].FPR95))
	}
	b.WriteString(text.Wrap(width, "", fmt.Sprintf(
		"ECE with %d bins. AUROC and FPR95: how well the drawings are detected as out-of-distribution (OOD).", e.Bins)))
	_, err := io.WriteString(d.w, b.String())
	return err
}

// percent writes a fraction in per cent.
func percent(v float64) string { return fmt.Sprintf("%.2f%%", 100*v) }

// A sight is an image of the demo and its prediction.
type sight struct {
	wrap.Prediction
	title    string
	position int       // in the images file
	pixels   [][]uint8 // [h][w]
	own      int       // the class of the plain softmax, and its probability
	softmax  float64
	rank     float64 // fraction of digits with a lower out-of-distribution score
}

// sights predicts the images of one of the demo's datasets.
func (d *demonstration) sights(ctx context.Context, predictor *wrap.Predictor, name string) ([]sight, error) {
	images, err := dataset.Open(ctx, d.path(name), dataset.Options{})
	if err != nil {
		return nil, err
	}
	defer images.Close()
	var all []sight
	for e, err := range images.Examples(ctx) {
		if err != nil {
			return nil, err
		}
		array := e.Inputs[0]
		gray, width := array.Data.([]uint8), array.Shape[len(array.Shape)-1]
		all = append(all, sight{position: e.Index, pixels: slices.Collect(slices.Chunk(gray, width))})
	}
	i := 0
	for p, err := range predictor.PredictDataset(ctx, d.path(name), nil) {
		if err != nil {
			return nil, err
		}
		k := len(p.Logits)
		logp, _ := calibrate.Plain(layer.Head{Logits: k, Link: layer.Softmax}, p.Logits, 1, 1)
		all[i].Prediction = p
		all[i].softmax = math.Exp(slices.Max(logp))
		all[i].own = slices.Index(logp, slices.Max(logp))
		i++
	}
	return all, nil
}

// rank sets the rank of each sight among the scores of others.
func rank(sights, others []sight) {
	scores := make([]float64, len(others))
	for i, s := range others {
		scores[i] = s.OODScore
	}
	slices.Sort(scores)
	for i := range sights {
		less, _ := slices.BinarySearch(scores, sights[i].OODScore)
		sights[i].rank = float64(less) / float64(len(scores))
	}
}

// pick returns the first sight whose title has each prefix.
func pick(from []sight, titles ...string) []sight {
	var picked []sight
	for _, title := range titles {
		if i := slices.IndexFunc(from, func(s sight) bool { return strings.HasPrefix(s.title, title) }); i >= 0 {
			picked = append(picked, from[i])
		}
	}
	return picked
}

// means returns the mean confidences.
func means(sights []sight) (softmax, mfgs float64) {
	n := float64(len(sights))
	for _, s := range sights {
		softmax += s.softmax / n
		mfgs += s.Confidence / n
	}
	return softmax, mfgs
}

// Inks are the grey levels of a drawing, the lightest first.
var (
	unicodeInk = []string{"  ", "░░", "▒▒", "▓▓", "██"}
	asciiInk   = []string{"  ", "..", "++", "%%", "@@"}
)

// draw writes images side by side, with their predictions below.
func (d *demonstration) draw(title string, sights []sight) error {
	ink := asciiInk
	if d.unicode {
		ink = unicodeInk
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s\n", title)
	line := func(term string, of func(sight) string) {
		row := pad(term, 10)
		for _, s := range sights {
			row += pad(of(s), 18)
		}
		b.WriteString(strings.TrimRight(row, " ") + "\n")
	}
	line("", func(s sight) string { return s.title })
	for y := range sights[0].pixels {
		line("", func(s sight) string {
			var b strings.Builder
			for _, v := range s.pixels[y] {
				b.WriteString(ink[(int(v)*(len(ink)-1)+127)/255])
			}
			return b.String()
		})
	}
	line("network", func(s sight) string { return fmt.Sprintf("%d  %s", s.own, percent(s.softmax)) })
	line("mfgs", func(s sight) string { return fmt.Sprintf("%d  %s", s.Class, percent(s.Confidence)) })
	line("OOD %ile", func(s sight) string { return fmt.Sprintf("%.0f%%", 100*s.rank) })
	_, err := io.WriteString(d.w, b.String())
	return err
}

// pad appends blanks to a text of fewer columns.
func pad(s string, columns int) string {
	return s + strings.Repeat(" ", max(0, columns-utf8.RuneCountInString(s)))
}

// speaksUTF8 reports whether the locale asks for UTF-8.
func speaksUTF8() bool {
	if runtime.GOOS == "windows" {
		return true // the console is written to in UTF-16
	}
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := strings.ToUpper(os.Getenv(name)); v != "" {
			return strings.Contains(v, "UTF-8") || strings.Contains(v, "UTF8")
		}
	}
	return false
}
