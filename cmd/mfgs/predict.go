package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/mfgs/mfgs/calibrate/conformal"
	"github.com/mfgs/mfgs/featurize"
	"github.com/mfgs/mfgs/featurize/dataset"
	"github.com/mfgs/mfgs/internal/text"
	"github.com/mfgs/mfgs/onnx/head"
	"github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/bundle"
	"github.com/urfave/cli/v2"
)

var predictFormats = []string{"table", "json", "jsonl", "csv", "arrow"}

// mapFormats are those of predict --maps.
var mapFormats = predictFormats[:len(predictFormats)-1]

func (p *program) predict() *cli.Command {
	return &cli.Command{
		Name:      "predict",
		Usage:     "classify inputs, with calibrated confidence and an OOD score",
		UsageText: "mfgs predict --bundle DIR INPUT... [--format table|json|jsonl|csv|arrow]\nmfgs predict --bundle DIR - < LINES",
		Description: `INPUT is an image file or a SPEC. For each input predict prints

  confidence     probability of the predicted class
  OOD score      0 to 1, larger is more out-of-distribution; half of the
                 validation data scores below 1/2
  OOD percentile fraction of the validation data with a lower OOD score
  leverage       distance of the features from the training features; the
                 table leaves it out if the bundle has decisions

If the bundle has decisions, predict also prints abstain (no, or the reason: uncertain, OOD or both) and the
prediction set. A multi-label head predicts the
labels with a probability above 1/2; its confidence is the mean over all labels of max(p, 1 - p). Of a model that
reads text, predict prints the text and the characters whose probability is below 90 % (uncertain); confidence is the
probability that the text is right, and label says whether it is that of the record. Of a model that tags steps it
prints the tags, "-" for steps that do not count, and those below 90 %; confidence is that all are right.
A model that answers for each step of a sequence has a row for each step that counts.

All formats but the table also have the entropy, and ood_pvalue, the conformal p-value of the OOD
score. json is written at the end; other formats are written as predictions arrive. csv omits the lists
of json, except labels and the probabilities of characters.

--format arrow writes an Arrow stream. Its columns are the fields of json, with character_probabilities beside
characters, plus error; missing values are null.
There is one row per record, in order. For a record that cannot be predicted, only input and error are set.
INPUT arrow:- reads a stream of records from standard input.

INPUT - reads JSON lines from standard input, one object of the model's inputs per line, and answers each
line immediately, in order. A line that fails is answered with input and error. With a bundle that was calibrated
with --state, "stream": "NAME" in a line says that its steps follow those of the last line with that name, and
"stream_end": true that it is the last; other lines are whole streams.

--maps DIR is for models that answer for each pixel of a picture. For each picture NAME it writes the predicted
classes to DIR/classes/NAME.png and, as float32 [H,W], DIR/confidence/NAME.npy and DIR/ood_score/NAME.npy. If the
bundle abstains, DIR/answers/NAME.png has the classes with 255, or 65535 of 16 bits for more than 255 classes, for
pixels without an answer. It replaces no file, and runs pictures one by one unless --batch is given. Printed are, for
each picture, the fraction of its pixels that is answered, the means of confidence and OOD score, and the fraction that
is flagged as OOD.

Arrow streams and JSON lines continue after any number of failures, unless --max-bad sets a
limit.`,
		Flags: slices.Concat([]cli.Flag{
			bundleFlag(),
			modelFlag(),
			preprocessFlag("the bundle's"),
			maxBadFlag(),
			choiceFlag("format", outputFlags, "`NAME` "+alternatives(predictFormats)+" [table]", "table", predictFormats),
			&cli.BoolFlag{Name: "json", Category: outputFlags, Usage: "the same as --format json"},
			&cli.StringFlag{Name: "maps", Category: outputFlags, Usage: "`DIR` folder to write a map of each picture to, for a model that answers for each pixel"},
		}, inferenceFlags(allCPUs)),
		Action: p.runPredict,
	}
}

func (p *program) runPredict(c *cli.Context) error {
	format, lines, err := predictFormat(c)
	if err != nil {
		return err
	}
	if format == "arrow" && isTerminal(p.stdout) {
		return usagef(c.Command.Name, "--format arrow is binary: redirect standard output to a file or a program")
	}
	bar := p.progress()
	options := wrap.Options{
		Model: c.String("model"), FreeMemory: true, Warn: func(w string) { p.warn(w) },
	}
	options.Runtime = p.inference(c, bar)
	if c.IsSet("maps") && !c.IsSet("batch") {
		options.Runtime.Batch = 1 // what is known of the pixels of a picture takes much more memory than the picture
	}
	if err := checkPaths(c, "bundle", "model"); err != nil {
		return err
	}
	if options.Preprocess, err = bundlePreprocessing(c); err != nil {
		return err
	}
	bar.work(wrap.Progress{Stage: "opening"})
	predictor, err := wrap.Open(c.Context, c.String("bundle"), options)
	bar.done()
	if err != nil {
		return err
	}
	defer predictor.Close()
	mostBad := -1
	if c.IsSet("max-bad") {
		mostBad = c.Int("max-bad")
	}
	switch dir := c.String("maps"); {
	case dir != "":
		return p.predictMaps(c.Context, predictor, c.Args().Slice(), dir, format, c.Int("max-bad"))
	case predictor.HasMaps() && format == "table" && !lines:
		return fmt.Errorf("%w: give --maps DIR for maps as PNG and .npy files, or --format jsonl, csv, json or arrow for a row per pixel", errPixels)
	case format == "arrow":
		return p.predictArrow(c.Context, predictor, c.Args().Slice(), mostBad)
	case !lines:
		return p.predictAll(c.Context, predictor, c.Args().Slice(), format, c.Int("max-bad"))
	}
	return p.predictLines(c.Context, predictor, mostBad)
}

// errPixels is why a model has no table of predictions.
var errPixels = errors.New("the model answers for each pixel of a picture, which a table has no room for")

// predictFormat checks the arguments and returns the output format, and whether lines are read from standard input.
func predictFormat(c *cli.Context) (format string, lines bool, err error) {
	fail := func(format string, args ...any) (string, bool, error) {
		return "", false, usagef(c.Command.Name, format, args...)
	}
	if err := required(c, "bundle"); err != nil {
		return "", false, err
	}
	if !c.Args().Present() {
		return fail("no input: want image files or dataset SPECs")
	}
	format = c.String("format")
	if c.Bool("json") {
		if c.IsSet("format") && format != "json" {
			return fail("--json and --format %s contradict each other", format)
		}
		format = "json"
	}
	lines = slices.Contains(c.Args().Slice(), "-")
	switch {
	case c.IsSet("maps") && (lines || format == "arrow"):
		return fail("--maps prints a line for each picture of files: want no input -, and --format %s", alternatives(mapFormats))
	case lines && c.NArg() > 1:
		return fail("- is standard input: want no other input")
	case lines && format != "jsonl" && (c.IsSet("format") || c.Bool("json")):
		return fail("- is answered in JSON lines: want --format jsonl, got %s", format)
	}
	return format, lines, nil
}

// predictAll writes the predictions of all inputs, one after another. More than maxBad records of an input that
// cannot be read are an error.
func (p *program) predictAll(
	ctx context.Context, predictor *wrap.Predictor, inputs []string, format string, maxBad int,
) error {
	out := newPredictionWriter(
		format, p.stdout, predictor.Classes(), predictor.Head(), predictor.Bundle().Decisions)
	bar := p.progress()
	// Predictions on a terminal are the progress.
	bar.mute = bar.mute || isTerminal(p.stdout)
	defer bar.done()
	for _, input := range inputs {
		folder := ""
		if len(inputs) > 1 { // records of different inputs may have the same name
			folder = folderOf(input)
		}
		var report wrap.DatasetReport
		predicted := func(done int) {
			bar.work(wrap.Progress{Stage: "predicting", Done: done, Total: report.Total, Unit: "examples"})
		}
		bad, err := p.predictInput(predictor.PredictDataset(ctx, input, &report), folder, maxBad, predicted, out)
		if err != nil {
			// Keep what has been written; a JSON document is all or nothing.
			_ = out.flush()
			return err
		}
		bar.done()
		p.warn(report.Warnings...)
		p.warnRecords(bad, report.Ignored)
		out.report(report, bad)
	}
	return out.close()
}

// predictInput writes the predictions of one input, and returns the messages of records that cannot be read.
func (p *program) predictInput(
	predictions iter.Seq2[wrap.Prediction, error], folder string, maxBad int, predicted func(int), out predictionWriter,
) (messages []string, err error) {
	var bad []string
	done := 0
	for prediction, err := range predictions {
		if record := (*wrap.RecordError)(nil); errors.As(err, &record) {
			if bad = append(bad, record.Error()); len(bad) > maxBad {
				return nil, fmt.Errorf("input: %w", &featurize.TooManyBadError{Allowed: maxBad, Bad: bad})
			}
			messages = append(messages, "input: "+record.Error())
			continue
		}
		if err != nil {
			return nil, err
		}
		done++
		prediction.Input = filepath.Join(folder, prediction.Input)
		predicted(done + len(bad))
		if err := out.write(prediction); err != nil {
			return nil, fmt.Errorf("input: %w", err)
		}
	}
	return messages, nil
}

// predictLines answers each JSON line of standard input with one on standard output, before it waits for the
// next. More than mostBad failures end it; -1 is no limit.
func (p *program) predictLines(ctx context.Context, predictor *wrap.Predictor, mostBad int) error {
	var line bytes.Buffer
	lines := jsonText{p.stdout}
	out := json.NewEncoder(lines) // writes each line at once
	out.SetEscapeHTML(false)
	total, bad := 0, 0
	for prediction, err := range predictor.PredictLines(ctx, p.stdin) {
		total++
		record := (*wrap.RecordError)(nil)
		switch {
		case errors.As(err, &record):
			bad++
			message := oneLine(record.Err.Error())
			if err := out.Encode(badLine{record.Input, message}); err != nil {
				return err
			}
			if mostBad >= 0 && bad > mostBad {
				return fmt.Errorf("%s: %s: %s failed, --max-bad allows %d", record.Input, message, text.Plural(bad, "line"), mostBad)
			}
		case err != nil:
			return err
		default:
			if err := writePrediction(lines, &line, &prediction); err != nil {
				return err
			}
		}
	}
	if bad > 0 {
		p.warn(fmt.Sprintf("%s of %s failed", text.Count(bad), text.Plural(total, "line")))
	}
	return nil
}

// A badLine is the answer to a line that cannot be predicted.
type badLine struct {
	Input string `json:"input"`
	Error string `json:"error"`
}

// folderOf returns the folder that record names are relative to: the input itself, or the folder of its file.
func folderOf(input string) string {
	spec, err := dataset.ParseSpec(input)
	switch {
	case err != nil:
		return ""
	case isDir(spec.Path):
		return spec.Path
	}
	return filepath.Dir(spec.Path)
}

func isDir(path string) bool {
	s, err := os.Stat(path)
	return err == nil && s.IsDir()
}

// A predictionWriter writes predictions in one format.
type predictionWriter interface {
	write(wrap.Prediction) error
	// report takes what was passed over in an input, and the messages of its records that cannot be read.
	report(passedOver wrap.DatasetReport, bad []string)
	// flush writes what has been kept back, but for what only close may write.
	flush() error
	// close ends the output.
	close() error
}

// newPredictionWriter returns the writer of a format for a head. classes are the names in label order, or nil.
func newPredictionWriter(
	format string, w io.Writer, classes []string, h bundle.Head, decisions *conformal.Decisions,
) predictionWriter {
	b := bufio.NewWriter(w)
	switch format {
	case "json":
		return &jsonPredictions{w: w, doc: predictionDocument{
			Predictions: []wrap.Prediction{}, Bad: []string{}, Ignored: []string{}, Warnings: []string{},
		}}
	case "jsonl":
		return &jsonLines{unreported: unreported{b}}
	case "csv":
		return &csvPredictions{w: csv.NewWriter(w), head: h, decisions: decisions}
	}
	return &tablePredictions{unreported: unreported{b}, classes: classes, head: h, decisions: decisions}
}

// unreported is embedded by formats that have only predictions and are buffered.
type unreported struct{ *bufio.Writer }

func (u unreported) report(wrap.DatasetReport, []string) {}
func (u unreported) flush() error                        { return u.Flush() }
func (u unreported) close() error                        { return u.Flush() }

type predictionDocument struct {
	Predictions []wrap.Prediction `json:"predictions"`
	Bad         []string          `json:"bad_records"`
	Ignored     []string          `json:"ignored"`
	Warnings    []string          `json:"warnings"`
}

// jsonPredictions keeps everything until close, so that an error leaves no half document.
type jsonPredictions struct {
	w   io.Writer
	doc predictionDocument
}

func (j *jsonPredictions) write(p wrap.Prediction) error {
	j.doc.Predictions = append(j.doc.Predictions, p)
	return nil
}

func (j *jsonPredictions) report(r wrap.DatasetReport, bad []string) {
	j.doc.Bad = append(j.doc.Bad, bad...)
	j.doc.Ignored = append(j.doc.Ignored, r.Ignored...)
	j.doc.Warnings = append(j.doc.Warnings, r.Warnings...)
}

func (j *jsonPredictions) flush() error { return nil }
func (j *jsonPredictions) close() error { return writeLongJSON(j.w, j.doc) }

type jsonLines struct {
	unreported
	line bytes.Buffer
}

func (j *jsonLines) write(p wrap.Prediction) error {
	return writePrediction(jsonText{j.Writer}, &j.line, &p)
}

// writePrediction writes a line in one Write; line is a scratch buffer.
func writePrediction(w io.Writer, line *bytes.Buffer, p *wrap.Prediction) error {
	line.Reset()
	if err := p.EncodeJSON(line); err != nil {
		return err
	}
	line.WriteByte('\n')
	_, err := w.Write(line.Bytes())
	return err
}

type csvPredictions struct {
	unreported
	w         *csv.Writer
	head      bundle.Head
	decisions *conformal.Decisions
	started   bool
}

var (
	csvHeader = []string{"input", "label", "class", "class_name", "confidence", "entropy"}
	// csvLabelsHeader is for multi-label heads. Lists of numbers are separated by blanks, lists of names by
	// semicolons.
	csvLabelsHeader = []string{"input", "targets", "labels", "label_names", "confidence", "entropy"}
	// csvTextHeader is for models that read text, and csvTagsHeader for those that tag steps. Probabilities and tags
	// are separated by blanks; "-" is for steps that do not count.
	csvTextHeader = []string{"input", "label", "text", "character_probabilities", "confidence", "entropy"}
	csvTagsHeader = []string{"input", "label", "tags", "tag_probabilities", "confidence", "entropy"}
)

func (c *csvPredictions) write(p wrap.Prediction) error {
	if err := c.begin(); err != nil {
		return err
	}
	record := []string{p.Input, "", strconv.Itoa(p.Class), p.ClassName}
	switch {
	case c.head.MultiLabel():
		record = []string{p.Input, numbers(p.Targets), numbers(p.Labels), strings.Join(p.LabelNames, ";")}
	case p.Label != nil:
		record[1] = strconv.Itoa(*p.Label)
	}
	if p.Text != nil {
		of := func(c wrap.Character) string { return full(c.Probability) }
		record[2], record[3] = *p.Text, strings.Join(charactersOf(&p, of), " ")
	}
	if p.Tags != nil {
		record[2], _ = p.Answer()
		record[3] = strings.Join(tagsOf(&p, func(t wrap.Tag) string { return full(t.Probability) }, noLabel), " ")
	}
	for i, s := range record {
		record[i] = csvText(s)
	}
	if p.Step != nil {
		record = slices.Insert(record, stepColumn, strconv.Itoa(*p.Step))
	}
	percentile, pvalue := "", ""
	if p.OODPercentile != nil {
		percentile = full(*p.OODPercentile)
	}
	if p.OODPValue != nil {
		pvalue = full(*p.OODPValue)
	}
	record = append(record, full(p.Confidence), full(p.Entropy), full(p.OODScore), percentile, pvalue)
	if !c.head.Nonlinear {
		record = append(record, full(p.Leverage))
	}
	for _, column := range decisionColumns(c.decisions) {
		switch column {
		case "abstain":
			record = append(record, abstains(&p))
		case "abstain_reason":
			record = append(record, p.AbstainReason)
		case "prediction_set":
			record = append(record, numbers(p.PredictionSet))
		case "prediction_set_names":
			record = append(record, csvText(strings.Join(p.PredictionSetNames, ";")))
		}
	}
	return c.w.Write(record)
}

// full writes a number with all digits.
func full(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// csvText keeps line breaks and tabs, which CSV quotes, and escapes what could control a terminal.
func csvText(s string) string {
	pieces := strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\t' })
	for _, piece := range pieces {
		if printable(piece) != piece {
			return printable(s)
		}
	}
	return s
}

func numbers(list []int) string {
	var b strings.Builder
	for i, v := range list {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(strconv.Itoa(v))
	}
	return b.String()
}

func (c *csvPredictions) begin() error {
	if c.started {
		return nil
	}
	c.started = true
	header := csvHeader
	if c.head.MultiLabel() {
		header = csvLabelsHeader
	}
	switch c.head.Kind {
	case head.CTC:
		header = csvTextHeader
	case head.Tags:
		header = csvTagsHeader
	}
	if c.head.Steps > 0 {
		header = slices.Insert(slices.Clone(header), stepColumn, "step")
	}
	scores := csvScores
	if c.head.Nonlinear {
		scores = scores[:len(scores)-1] // leverage
	}
	return c.w.Write(slices.Concat(header, scores, decisionColumns(c.decisions)))
}

func (c *csvPredictions) flush() error {
	c.w.Flush()
	return c.w.Error()
}

func (c *csvPredictions) close() error {
	if err := c.begin(); err != nil {
		return err
	}
	return c.flush()
}

// tablePredictions writes rows as they come. The first rows set the column widths, which fit textWidth. A later row
// with wider cells is not aligned.
type tablePredictions struct {
	unreported
	classes    []string
	head       bundle.Head
	decisions  *conformal.Decisions
	kept       [][]fitted
	unlabelled bool  // none of the rows kept has a label: the table has no column of labels
	widths     []int // nil until the header is written
}

// fitted is a cell that can be shortened to fit into n columns. A short nil keeps it as it is.
type fitted struct {
	text  string
	short func(n int) string
}

const (
	rowsKept   = 64 // rows that set the column widths
	stepColumn = 1  // the column of steps, in front of labels or targets, if there are steps
	noLabel    = "-"
)

var (
	predictionHeader = []string{"input", "label", "class", "confidence"}
	labelsHeader     = []string{"input", "targets", "labels", "confidence"}
	textHeader       = []string{"input", "label", "text", "uncertain", "confidence"}
	tagsHeader       = []string{"input", "label", "tags", "uncertain", "confidence"}
	textAlign        = "llllrrl"
	csvScores        = []string{"ood_score", "ood_percentile", "ood_pvalue", "leverage"}
	scoreHeader      = []string{"ood_score", "ood_percentile", "leverage"} // the p-value is in other formats
	predictionAlign  = "lllr" + strings.Repeat("r", len(scoreHeader)) + "ll"
	decisionAlign    = "lllrrrll"
)

// shortReasons are the reasons for abstaining, in a table.
var shortReasons = map[string]string{
	"": "no", "uncertain": "uncertain", "out-of-distribution": "OOD", "uncertain and out-of-distribution": "both",
}

func (t *tablePredictions) write(p wrap.Prediction) error {
	name := printable(p.Input)
	row := []fitted{{shortenFront(name, mostName), func(n int) string { return shortenFront(name, min(n, mostName)) }}}
	label := func(i int) {
		class := t.class(i)
		row = append(row, fitted{class, func(n int) string { return shortenEnd(class, n) }})
	}
	list := func(labels []int) {
		short := func(n int) string { return t.shortList(labels, n) }
		row = append(row, fitted{t.list(labels, mostList, t.class), short})
	}
	fixed := func(cells ...string) {
		for _, c := range cells {
			row = append(row, fitted{text: c})
		}
	}
	if p.Step != nil {
		fixed(strconv.Itoa(*p.Step))
	}
	switch {
	case t.head.MultiLabel() && p.Targets != nil:
		list(p.Targets)
	case !t.head.MultiLabel() && p.Label != nil:
		label(*p.Label)
	default:
		fixed(noLabel)
	}
	switch {
	case t.head.MultiLabel():
		list(p.Labels)
	case t.head.Correctness:
		answer, _ := p.Answer()
		text := printable(answer)
		row = append(row, fitted{text, func(n int) string { return shortenEnd(text, n) }})
		marks := uncertain(&p)
		short := func(n int) string { return shortenEnd(marks, min(n, mostList)) }
		row = append(row, fitted{short(mostList), short})
	default:
		label(p.Class)
	}
	percentile := "-"
	if p.OODPercentile != nil {
		percentile = percent(*p.OODPercentile)
	}
	fixed(percent(p.Confidence))
	if !t.head.Correctness {
		fixed(fmt.Sprintf("%.4f", p.OODScore))
	}
	fixed(percentile)
	columns := decisionColumns(t.decisions)
	if t.hasLeverage() {
		fixed(fmt.Sprintf("%#.4g", p.Leverage))
	}
	for _, column := range columns {
		switch column {
		case "abstain":
			fixed(cmp.Or(shortReasons[p.AbstainReason], p.AbstainReason))
		case "prediction_set": // numbers alone: names are in the other columns, or in other formats
			fixed(t.list(p.PredictionSet, mostSet, strconv.Itoa))
		}
	}
	if t.widths != nil {
		if t.unlabelled {
			row = slices.Delete(row, t.labelColumn(), t.labelColumn()+1)
		}
		return t.line(row)
	}
	t.kept = append(t.kept, row)
	if len(t.kept) < rowsKept {
		return nil
	}
	return t.begin()
}

// The largest widths of the names of inputs, whose ends differ, of lists of labels, and of sets.
const (
	mostName = 22
	mostList = 20
	mostSet  = 12
)

// certain is the probability below which a character is listed as uncertain.
const certain = 0.9

// tagsOf returns what of says of each tag, none for steps that do not count; nil if there are no tags.
func tagsOf[T any](p *wrap.Prediction, of func(wrap.Tag) T, none T) []T {
	if p.Tags == nil {
		return nil
	}
	list := make([]T, len(p.Tags))
	for i, t := range p.Tags {
		if list[i] = none; t != nil {
			list[i] = of(*t)
		}
	}
	return list
}

// uncertain lists the characters of a text, or the steps of tags, that are uncertain, with their probabilities.
func uncertain(p *wrap.Prediction) string {
	var list []string
	for i, t := range p.Tags {
		if t != nil && t.Probability < certain {
			list = append(list, fmt.Sprintf("%d %s %.0f%%", i, printable(t.Tag), 100*t.Probability))
		}
	}
	for _, c := range p.Characters {
		if c.Probability < certain {
			list = append(list, fmt.Sprintf("%s %.0f%%", strings.ReplaceAll(printable(c.Text), " ", "␣"), 100*c.Probability))
		}
	}
	if list == nil {
		return "none"
	}
	return strings.Join(list, ", ")
}

// charactersOf returns what of says of each character of a text, nil if there is no text.
func charactersOf[T any](p *wrap.Prediction, of func(wrap.Character) T) []T {
	if p.Text == nil {
		return nil
	}
	list := make([]T, len(p.Characters))
	for i, c := range p.Characters {
		list[i] = of(c)
	}
	return list
}

// class writes the number of a class and its name, if that is different.
func (t *tablePredictions) class(i int) string {
	s := strconv.Itoa(i)
	if i < len(t.classes) && t.classes[i] != s {
		s += " " + printable(t.classes[i])
	}
	return s
}

// list writes as many labels of a list as fit into a cell of n columns, and at least one.
func (t *tablePredictions) list(labels []int, n int, name func(int) string) string {
	if len(labels) == 0 {
		return "none"
	}
	text := name(labels[0])
	for i, l := range labels[1:] {
		longer := text + ", " + name(l)
		rest := len(labels) - i - 2
		more := ""
		if rest > 0 {
			more = fmt.Sprintf(" +%d", rest)
		}
		if utf8.RuneCountInString(longer+more) > n {
			return text + fmt.Sprintf(" +%d", rest+1)
		}
		text = longer
	}
	return text
}

// headerWords shortens the names of fields.
var headerWords = strings.NewReplacer("ood", "OOD", "percentile", "%ile", "prediction_set", "set", "_", " ")

// shortList is list, and shortens the first label if it does not fit.
func (t *tablePredictions) shortList(labels []int, n int) string {
	text := t.list(labels, n, t.class)
	if utf8.RuneCountInString(text) <= n {
		return text
	}
	more := ""
	if len(labels) > 1 {
		more = fmt.Sprintf(" +%d", len(labels)-1)
	}
	return shortenEnd(t.class(labels[0]), max(n-len(more), 2)) + more
}

// hasLeverage reports whether there is a column of leverages: with decisions there is no room, and without a linear
// layer there are none.
func (t *tablePredictions) hasLeverage() bool {
	return len(decisionColumns(t.decisions)) == 0 && !t.head.Nonlinear
}

// labelColumn is the column of labels or targets.
func (t *tablePredictions) labelColumn() int {
	if t.head.Steps > 0 {
		return stepColumn + 1
	}
	return stepColumn
}

// header is the first row.
func (t *tablePredictions) header() (header []string) {
	header = predictionHeader
	if t.head.MultiLabel() {
		header = labelsHeader
	}
	switch t.head.Kind {
	case head.CTC:
		header = textHeader
	case head.Tags:
		header = tagsHeader
	}
	scores := scoreHeader
	if t.head.Correctness { // the score says the same as the confidence
		scores = scores[1:]
	}
	if t.head.Steps > 0 {
		header = slices.Insert(slices.Clone(header), stepColumn, "step")
	}
	if header = slices.Concat(header, scores); !t.hasLeverage() {
		header = header[:len(header)-1]
	}
	for _, column := range decisionColumns(t.decisions) {
		if column == "abstain" || column == "prediction_set" { // further columns would repeat them
			header = append(header, column)
		}
	}
	for i, name := range header {
		header[i] = headerWords.Replace(name)
	}
	return header
}

// begin writes the header and the rows kept.
func (t *tablePredictions) begin() error {
	if t.widths != nil {
		return nil
	}
	t.unlabelled = !slices.ContainsFunc(t.kept, func(row []fitted) bool { return row[t.labelColumn()].text != noLabel })
	var header []fitted
	for _, name := range t.header() {
		header = append(header, fitted{text: name})
	}
	rows := append([][]fitted{header}, t.kept...)
	if t.unlabelled {
		for i, row := range rows {
			rows[i] = slices.Delete(row, t.labelColumn(), t.labelColumn()+1)
		}
	}
	header = rows[0]
	widths, least, shortens := make([]int, len(header)), make([]int, len(header)), make([]bool, len(header))
	for _, row := range rows {
		for i, cell := range row {
			n := utf8.RuneCountInString(cell.text)
			widths[i] = max(widths[i], n)
			if cell.short == nil {
				least[i] = max(least[i], n)
			}
			shortens[i] = shortens[i] || cell.short != nil
		}
	}
	t.widths, t.kept = fitWidths(widths, least, shortens), nil
	for _, row := range rows {
		if err := t.line(row); err != nil {
			return err
		}
	}
	return nil
}

// fitWidths narrows the widest columns that shorten, but not below their least width, until the row fits textWidth.
func fitWidths(widths, least []int, shortens []bool) []int {
	total := -2
	for _, n := range widths {
		total += n + 2
	}
	for ; total > textWidth; total-- {
		widest := -1
		for i, n := range widths {
			if shortens[i] && n > least[i] && (widest < 0 || n > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		widths[widest]--
	}
	return widths
}

// line writes a row in the widths of the table, or wider where that fits.
func (t *tablePredictions) line(row []fitted) error {
	widths, shortens := slices.Clone(t.widths), make([]bool, len(row))
	for i, cell := range row {
		widths[i] = max(widths[i], utf8.RuneCountInString(cell.text))
		shortens[i] = cell.short != nil
	}
	widths = fitWidths(widths, make([]int, len(row)), shortens)
	cells := make([]string, len(row))
	for i, cell := range row {
		cells[i] = cell.text
		if cell.short != nil {
			cells[i] = cell.short(widths[i])
		}
	}
	align := predictionAlign
	if t.head.Correctness {
		align = textAlign
	} else if !t.hasLeverage() {
		align = decisionAlign
	}
	if t.head.Steps > 0 {
		align = align[:stepColumn] + "r" + align[stepColumn:]
	}
	if at := t.labelColumn(); t.unlabelled {
		align = align[:at] + align[at+1:]
	}
	_, err := t.WriteString(formatRow(align, widths, cells))
	return err
}

func (t *tablePredictions) flush() error {
	if len(t.kept) == 0 && t.widths == nil {
		return nil
	}
	if err := t.begin(); err != nil {
		return err
	}
	return t.Flush()
}

func (t *tablePredictions) close() error { return t.flush() }
