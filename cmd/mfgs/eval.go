package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/mfgs/mfgs/calibrate/metrics"
	"github.com/mfgs/mfgs/internal/measure"
	"github.com/mfgs/mfgs/internal/text"
	"github.com/mfgs/mfgs/wrap/bench"
	"github.com/mfgs/mfgs/wrap/report"
	"github.com/urfave/cli/v2"
)

func (p *program) eval() *cli.Command {
	return &cli.Command{
		Name:      "eval",
		Usage:     "compare methods on test data",
		UsageText: "mfgs eval --bundle DIR --test SPEC [--ood NAME=SPEC]... [--methods A,B,C]",
		Description: `Measures probabilities on --test and --shift, and OOD scores on --test against --ood, with 95 %
bootstrap intervals, and recommends a method for the probabilities and an OOD score. The test data must not have been used in training or
calibration. The default methods are mle, ts, matrix if the bundle has it, mf0, ood_score (the bundle's OOD score) and
leverage. All methods:

` + describeMethods() + `

Some scores are fitted to training data. If the bundle does not contain the fit, eval reads the training
data of the calibration, or --train. For methods that no bundle can use, such as ensembles, sampling and
posteriors over several layers, see mfgs-paper compare.

For a multi-label head every label of every example counts as one decision. For a bundle of precomputed
features, SPECs are files of the same kind.`,
		Flags: slices.Concat(evalFlags(), inferenceFlags(allCPUs)),
		Action: func(c *cli.Context) error {
			bar := p.progress()
			config, err := p.evalConfig(c, bar)
			if err != nil {
				return err
			}
			evaluation, err := bench.Evaluate(c.Context, config)
			bar.done()
			if err != nil {
				return err
			}
			evaluation.Warnings = append(evaluation.Warnings, evaluationWarning(evaluation)...)
			p.warn(evaluation.Warnings...)
			if c.Bool("json") {
				err = writeJSON(p.stdout, evaluation)
			} else {
				err = writeEvaluation(p.stdout, evaluation)
			}
			// If the page cannot be written, the figures have been printed.
			return cmp.Or(err, writePage(c, evaluation, report.Options{}))
		},
	}
}

func evalFlags() []cli.Flag {
	return []cli.Flag{
		bundleFlag(),
		&cli.StringFlag{Name: "test", Category: dataFlags, Usage: "`SPEC` labelled test data"},
		&cli.StringSliceFlag{Name: "ood", Category: dataFlags, Usage: "`NAME=SPEC` out-of-distribution data (labels are ignored); may be repeated; auto: synthetic images made from the test images"},
		&cli.StringSliceFlag{Name: "shift", Category: dataFlags, Usage: "`NAME=SPEC` labelled data under distribution shift; may be repeated"},
		&cli.BoolFlag{Name: "per-class", Category: methodFlags, Usage: "also measure each class of the test data, or each label"},
		&choice{&cli.StringFlag{Name: "methods", Category: methodFlags, Usage: "`A,B,C` methods to compare [mle,ts,mf0,ood_score,leverage and, if the bundle has it, matrix]"}, bench.Methods()},
		&cli.StringFlag{Name: "train", Category: methodFlags, Usage: "`SPEC` training data for scores that must be fitted [that of the calibration]"},
		countFlag("bins", methodFlags, fmt.Sprintf("`N` bins of ECE, debiased calibration error, class-wise ECE and reliability diagrams [%d; %d with 1,000 or more classes]", metrics.DefaultBins(2), metrics.DefaultBins(1000))),
		&cli.Uint64Flag{Name: "seed", Category: methodFlags, Usage: "`N` random seed [0]"},
		modelFlag(),
		countFlag("limit", dataFlags, "`N` measure at most N examples of each dataset, subsampled evenly [all]"),
		preprocessFlag("the bundle's"),
		maxBadFlag(),
		cacheFlag(),
		reportFlag("the test data"),
		jsonFlag(),
	}
}

// evalConfig reads the flags of eval.
func (p *program) evalConfig(c *cli.Context, bar *progress) (config bench.Config, err error) {
	if err := noArguments(c); err != nil {
		return config, err
	}
	err = cmp.Or(required(c, "bundle", "test"), reportable(c))
	if err != nil {
		return config, err
	}
	config = bench.Config{
		Bundle: c.String("bundle"), Model: c.String("model"), Test: c.String("test"), Limit: c.Int("limit"), Bins: c.Int("bins"),
		Train: c.String("train"), Seed: c.Uint64("seed"), PerClass: c.Bool("per-class"),
		Detailed: c.IsSet("report"),
		MaxBad:   c.Int("max-bad"), Cache: c.String("features-cache"),
		Progress: bar.work,
	}
	if c.IsSet("bins") && config.Bins == 0 {
		return config, usagef(c.Command.Name, "--bins 0: want 1 or more, or leave it out")
	}
	if config.Methods, err = parseMethods(c.String("methods")); err != nil {
		return config, usagef(c.Command.Name, "--methods: %v", err)
	}
	if config.OOD, err = bench.ParseNamedSpecs(c.StringSlice("ood")); err != nil {
		return config, usagef(c.Command.Name, "--ood: %v", err)
	}
	if config.Shifts, err = bench.ParseNamedSpecs(c.StringSlice("shift")); err != nil {
		return config, usagef(c.Command.Name, "--shift: %v", err)
	}
	config.Runtime = p.inference(c, bar)
	if err := checkPaths(c, "bundle", "model"); err != nil {
		return config, err
	}
	config.Preprocess, err = bundlePreprocessing(c)
	return config, err
}

// setNames are the names of special sets in tables.
var setNames = map[string]string{measure.SyntheticSet: "synthetic images"}

// changesLine says for how many test examples the bundle's probabilities predict another class than the network, "" for
// none.
func changesLine(e *bench.Evaluation) string {
	for _, m := range e.Methods {
		if m.Name == string(e.Bundle.Probabilities.Method) && m.InDomain != nil && m.InDomain.ClassChanges > 0 {
			return fmt.Sprintf("not the network's for %s of the test data", text.Plural(m.InDomain.ClassChanges, "example"))
		}
	}
	return ""
}

// writeEvaluation writes which methods to use, and a table of all methods for each set.
// writeTags writes how far the tags of sequences are from the right ones.
func writeTags(b *strings.Builder, list []bench.TagResult) {
	if len(list) == 0 {
		return
	}
	t := &table{align: "lrrrrr"}
	t.row("sequences", "n", "right", "steps", "accuracy", "F1")
	for _, r := range list {
		f1 := "-"
		if r.F1 != nil {
			f1 = percent(*r.F1)
		}
		t.row(r.Set, text.Count(r.N), percent(r.Exact), text.Count(r.Steps), percent(r.Accuracy), f1)
	}
	b.WriteString("\n")
	_ = t.write(b)
	b.WriteString("\nright: without a wrong tag. F1: of spans such as B-PER I-PER, as by seqeval.\n")
}

// writeTexts writes how far texts are from the right ones.
func writeTexts(b *strings.Builder, list []bench.TextResult) {
	if len(list) == 0 {
		return
	}
	t := &table{align: "lrrrr"}
	t.row("texts", "n", "right", "CER", "WER")
	for _, r := range list {
		t.row(r.Set, text.Count(r.N), percent(r.Exact), percent(r.CER), percent(r.WER))
	}
	b.WriteString("\n")
	_ = t.write(b)
	b.WriteString("\nCER and WER: edits of characters per character, and of words per word, of the\nright texts.\n")
}

func writeEvaluation(w io.Writer, e *bench.Evaluation) error {
	var b strings.Builder
	b.WriteString(evaluationAnswer(e) + "\n")
	var f facts
	f.add("bundle", e.Bundle.Path)
	if e.Bundle.Structure != "" {
		f.add("posterior", e.Bundle.PosteriorLine())
	}
	f.add("probabilities", e.Bundle.Probabilities.Reason)
	if n := len(e.Bundle.ClassFrequencies); n > 0 {
		f.add("class frequencies", "corrected for those in use")
	}
	if line := changesLine(e); line != "" {
		f.add("predicted class", line)
	}
	b.WriteString(f.text())

	var in *table
	for _, m := range e.Methods {
		if m.InDomain == nil {
			continue
		}
		if in == nil {
			in = labelledTable()
			fmt.Fprintf(&b, "\ntest data (n = %s)\n", text.Count(m.InDomain.N))
		}
		labelledRows(in, m.Name, *m.InDomain)
	}
	if in != nil {
		_ = in.write(&b)
	}
	writeTexts(&b, e.Texts)
	writeTags(&b, e.Tags)
	writeShifts(&b, e)
	if len(e.Methods) > 0 {
		for i, set := range e.Methods[0].OOD {
			out := detectionTable()
			for _, m := range e.Methods {
				sureDetectionRows(out, m.Name, m.OOD[i].DetectionResult, m.OODNLL[i].DetectionResult)
			}
			b.WriteString("\n" + setTitle("OOD detection: ", cmp.Or(setNames[set.Name], set.Name), set.N))
			_ = out.write(&b)
		}
	}
	writeRealised(&b, e.Bundle.Decisions, e.Decisions)
	fmt.Fprintf(&b, "\n%s", boundsLegend(e))
	for _, m := range e.Methods {
		if m.InDomain != nil && m.InDomain.Classes != nil {
			fmt.Fprintln(&b)
			_ = classTable(m.Name, m.InDomain.Classes).write(&b)
		}
	}
	fmt.Fprintln(&b)
	tuned := temperatures(e.Bundle.Temperatures)
	for _, m := range e.Methods {
		if t := m.Temperatures; t != nil {
			tuned.row(m.Name+", for NLL", number(t.NLL.Act), number(t.NLL.Ens))
			tuned.row(m.Name+", for OOD detection", number(t.OOD.Act), number(t.OOD.Ens))
		}
	}
	_ = tuned.write(&b)
	for _, m := range e.Methods {
		if m.Note != "" {
			fmt.Fprintf(&b, "\n%s", wrapText(m.Name+": ", printable(m.Note)))
		}
	}
	writeRecords(&b, e.Bad, e.Ignored)
	_, err := io.WriteString(w, b.String())
	return err
}

// writeShifts writes the figures of each shifted set.
func writeShifts(b *strings.Builder, e *bench.Evaluation) {
	first := slices.IndexFunc(e.Methods, func(m bench.MethodResult) bool { return m.Shifts != nil })
	if first < 0 {
		return
	}
	for i, set := range e.Methods[first].Shifts {
		shifted := labelledTable()
		for _, m := range e.Methods {
			if len(m.Shifts) > 0 {
				labelledRows(shifted, m.Name, m.Shifts[i].Labelled)
			}
		}
		b.WriteString("\n" + setTitle("under shift: ", set.Name, set.N))
		_ = shifted.write(b)
	}
}

// describeMethods lists the values of --methods.
func describeMethods() string {
	var b strings.Builder
	for _, name := range bench.Methods() {
		b.WriteString(text.Wrap(textWidth-helpIndent, fmt.Sprintf("  %-20s ", name), bench.DescribeMethod(name)))
	}
	return strings.TrimSuffix(b.String(), "\n")
}
