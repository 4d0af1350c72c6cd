package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/internal/measure"
	"github.com/mfgs/mfgs/internal/text"
	"github.com/mfgs/mfgs/onnx/head"
	"github.com/mfgs/mfgs/wrap/bundle"
	"github.com/mfgs/mfgs/wrap/calibration"
	"github.com/urfave/cli/v2"
)

func (p *program) calibrate() *cli.Command {
	return &cli.Command{
		Name:  "calibrate",
		Usage: "calibrate a trained model, and write a bundle",
		UsageText: `mfgs calibrate --model FILE --train SPEC --val SPEC [--ood SPEC] --out DIR
mfgs calibrate --model FILE --posterior FILE --val SPEC ... --out DIR
mfgs calibrate --train-features SPEC --val-features SPEC ... --out DIR
mfgs calibrate --shard I/N ... --out PART
mfgs calibrate -f JOB.yaml [--out DIR]`,
		Description: `Reads the training data once to compute the curvature of the loss in the last layer's weights,
tunes damping and temperatures on the validation data, and writes a bundle for eval, predict, serve and
export. The network is not retrained. The validation data must not have been used in training. Keep
separate test data for eval.

--posterior takes a posterior that laplace-torch, vbll, SNGP or another program computed, in place of
the curvature: --train is then only for OOD scores, and may be left out. The guide has the names.

-f reads the settings from a file, so that a calibration can be reviewed before it runs. Paths in the
file are relative to its folder. A bundle's own bundle.yaml repeats its calibration, and fails if the
model or the data have changed; its SPECs are relative to the current folder.

--dry-run estimates time and memory.

--shard I/N processes one of N shards of each dataset and writes a part, so that N machines share the
work; merge turns the parts into a bundle. A shard needs only one of --train, --val and --ood.`,
		Flags: first(slices.Concat([]cli.Flag{jobFlag()}, flagsOf(dataSettings()), []cli.Flag{
			&cli.StringFlag{Name: "train-features", Category: dataFlags, Usage: "`SPEC` precomputed features (.npz, Parquet, Arrow or JSON lines) instead of --model and --train: arrays features [N,d], logits [N,K] and, for fisher and sandwich, labels [N]"},
			&cli.StringFlag{Name: "val-features", Category: dataFlags, Usage: "`SPEC` precomputed features instead of --val, with labels; labels [N,K] of 0 and 1 make the head multi-label"},
			&cli.StringFlag{Name: "ood-features", Category: dataFlags, Usage: "`SPEC` precomputed features instead of --ood"},
			preprocessFlag("unit, if all data are images"),
			&cli.StringFlag{Name: "classes", Category: dataFlags, Usage: "`FILE` class names in label order: one per line, a JSON array, or a config.json with id2label [from the model, or the names of the training folders]"},
			&cli.StringFlag{Name: "alphabet", Category: dataFlags, Usage: "`FILE` with --head ctc: the model's symbols in order, one per line, without the blank or with an empty line for it [from the model]"},
			&cli.StringFlag{Name: "shard", Category: dataFlags, Usage: "`I/N` process only this shard of the data, and write a part for merge"},
		}, flagsOf(outputSettings()), []cli.Flag{
			&cli.BoolFlag{Name: "force", Category: outputFlags, Usage: "replace an existing bundle or part, and discard what an interrupted run has read"},
			&cli.BoolFlag{Name: "dry-run", Category: outputFlags, Usage: "estimate examples, time and memory of each stage from a short trial; write nothing"},
			&cli.BoolFlag{Name: "resume", Category: outputFlags, Usage: "continue an interrupted run, if there is one"},
			reportFlag("the validation data"),
			jsonFlag(),
		}, flagsOf(fitSettings()), []cli.Flag{
			&cli.StringFlag{Name: "prior", Category: fitFlags, Usage: "`FILE` correct the probabilities for other class frequencies than those of the validation data: a YAML file with lines of class: frequency; other classes share the rest"},
		}, flagsOf(decisionSettings()), flagsOf(headSettings()), flagsOf(runtimeSettings()),
			[]cli.Flag{runtimePathFlag(runtimeFlags), noInstallFlag()}),
			"model", "train", "val", "ood", "preprocess", "classes", "limit", "file",
			"out", "report", "json", "force", "resume", "dry-run",
			"target-error"),
		Action: func(c *cli.Context) error {
			bar := p.progress()
			config, err := p.calibrateConfig(c, bar)
			if err != nil {
				return err
			}
			defer collectOften()()
			if c.Bool("dry-run") {
				return p.dryRun(c, bar, config)
			}
			if c.IsSet("shard") {
				report, err := calibration.Accumulate(c.Context, config)
				return p.partDone(c, bar, report, err)
			}
			report, err := calibration.Calibrate(c.Context, config)
			if err == nil {
				report.Warnings = append(report.Warnings, calibrationWarning(config, report)...)
				if err := p.reportHeldOut(c, bar, &config, report); err != nil {
					bar.done()
					return err
				}
			}
			return p.bundleDone(c, bar, report, err)
		},
	}
}

// bundleDone reports a bundle that was written or already exists.
func (p *program) bundleDone(c *cli.Context, bar *progress, report *calibration.Report, err error) error {
	if err != nil {
		return p.notDone(c, bar, err)
	}
	return done(p, c, bar, report, report.Warnings, func(w io.Writer, r *calibration.Report) error {
		return writeReport(w, r, c.Bool("no-model"))
	})
}

// partDone reports a part that was written or already exists.
func (p *program) partDone(c *cli.Context, bar *progress, report *calibration.PartReport, err error) error {
	if err != nil {
		return p.notDone(c, bar, err)
	}
	return done(p, c, bar, report, report.Warnings, writePartReport)
}

// done reports what was written.
func done[R any](
	p *program, c *cli.Context, bar *progress, report R, warnings []string, write func(io.Writer, R) error,
) error {
	bar.done()
	p.warn(warnings...)
	if c.Bool("json") {
		return writeJSON(p.stdout, report)
	}
	return write(p.stdout, report)
}

// notDone returns err, or reports that the output already exists and returns nil.
func (p *program) notDone(c *cli.Context, bar *progress, err error) error {
	bar.done()
	if !errors.As(err, new(*calibration.DoneError)) {
		return err
	}
	if c.Bool("json") {
		return writeJSON(p.stdout, map[string]any{"out": c.String("out"), "nothing_to_do": true})
	}
	fmt.Fprintln(p.stderr, "mfgs:", oneLine(err.Error()))
	return nil
}

// collectOften makes the garbage collector run more often until restore is called: a calibration holds a few large
// matrices, which are cheap to collect and expensive to keep. GOGC overrides it.
func collectOften() (restore func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	percent := debug.SetGCPercent(25)
	return func() { debug.SetGCPercent(percent) }
}

// calibrateConfig reads the flags, and the job for flags that are not given.
func (p *program) calibrateConfig(c *cli.Context, bar *progress) (config calibration.Config, err error) {
	if err := noArguments(c); err != nil {
		return config, err
	}
	job, err := readJob(c)
	if err != nil {
		return config, err
	}
	precomputed, err := precomputed(c)
	if err != nil {
		return config, err
	}
	suffix := ""
	if precomputed {
		suffix = "-features"
	}
	if config.Shard, err = requiredData(c, suffix); err != nil {
		return config, err
	}
	config.Preprocess, config.Classes, config.Expect = job.Config.Preprocess, job.Config.Classes, job.Config.Expect
	config.Alphabet, config.Prior = job.Config.Alphabet, job.Config.Prior
	config.Lambda0, config.Runtime = job.Config.Lambda0, library(c, bar)
	if err := readSettings(c, &config); err != nil {
		return config, err
	}
	if err := cmp.Or(checkPaths(c, "model", "posterior"), reportableHeldOut(c, &config)); err != nil {
		return config, err
	}
	if !c.Bool("dry-run") {
		if err := parentOfOut(c); err != nil {
			return config, err
		}
	}
	config.PrecomputedFeatures, config.Force, config.Resume = precomputed, c.Bool("force"), c.Bool("resume")
	if precomputed {
		config.Train, config.Val, config.OOD = c.String("train-features"), c.String("val-features"), c.String("ood-features")
	}
	config.Progress, config.Notice = bar.work, bar.say
	return config, readFiles(c, &config, bar.say)
}

// readFiles reads class names and preprocessing, from their flags or from the folder of the model.
func readFiles(c *cli.Context, config *calibration.Config, say func(string)) error {
	folder, err := modelFolder(config.Model)
	if err != nil {
		return err
	}
	if folder != nil {
		config.Model = folder.Model
	}
	if file := c.String("classes"); file != "" {
		if config.Classes, err = readClasses(file); err != nil {
			return err
		}
	}
	if file := c.String("alphabet"); file != "" {
		data, err := readSideFile(file)
		if err != nil {
			return err
		}
		config.Alphabet = head.ParseAlphabet(string(data))
	}
	if arg := c.String("preprocess"); arg != "" {
		if config.Preprocess, err = readPreprocessing(arg, config.Model); err != nil {
			return err
		}
	}
	if file := c.String("prior"); file != "" {
		if config.Prior, err = readPrior(file); err != nil {
			return err
		}
	}
	if folder != nil {
		return applyFolder(folder, config, say)
	}
	return nil
}

// requiredData checks that data and output are given, and returns the shard. A shard needs only one of the sets.
func requiredData(c *cli.Context, suffix string) (shard rows.Shard, err error) {
	sets := []string{"train" + suffix, "val" + suffix}
	if c.IsSet("head") && !c.IsSet("features") || c.IsSet("posterior") { // nothing need be accumulated
		sets = sets[1:]
	}
	if text := c.String("shard"); c.IsSet("shard") {
		if shard, err = rows.ParseShard(text); err != nil {
			return shard, usagef(c.Command.Name, "%v", err)
		}
		if c.Bool("keep-curvature") {
			return shard, usagef(c.Command.Name, "--keep-curvature is for bundles: a part always contains the curvature: give the flag to merge")
		}
		sets = nil
		if !c.IsSet("train"+suffix) && !c.IsSet("val"+suffix) && !c.IsSet("ood"+suffix) {
			return shard, usagef(c.Command.Name, "no data: give --train%s, --val%s or --ood%s", suffix, suffix, suffix)
		}
	}
	names := sets
	if !c.Bool("dry-run") {
		names = append(names, "out")
	}
	if suffix == "" {
		names = append([]string{"model"}, names...)
	}
	return shard, required(c, names...)
}

// parentOfOut returns an error if the parent folder of --out does not exist.
func parentOfOut(c *cli.Context) error {
	if parent := filepath.Dir(filepath.Clean(c.String("out"))); !exists(parent) {
		return fmt.Errorf("--out %s: no such folder: %s: create it, or choose another", c.String("out"), parent)
	}
	return nil
}

// precomputed reports whether precomputed features are given instead of a model. Both together are an error.
func precomputed(c *cli.Context) (bool, error) {
	if !c.IsSet("train-features") && !c.IsSet("val-features") && !c.IsSet("ood-features") {
		return false, nil
	}
	for _, name := range []string{"model", "train", "val", "ood", "preprocess", "features-cache", "no-model", "no-probe",
		"head", "fix", "features", "logits", "output", "approximate", "batch", "threads", "provider", "runtime"} {
		if c.IsSet(name) {
			return false, usagef(c.Command.Name, "--%s needs a model, and precomputed features have none: leave it out", name)
		}
	}
	return true, nil
}

// writeReport writes the report of a calibration: what was gained, what to do next, and tables.
func writeReport(w io.Writer, r *calibration.Report, noModel bool) error {
	var b strings.Builder
	b.WriteString(wrapText("", printable(calibrationAnswer(r))))
	fmt.Fprintf(&b, "Next: %s\n\n", printable(afterCalibration(r, noModel)))
	var f facts
	f.add("bundle", r.Bundle)
	if r.Model != nil && r.Model.Path != "" {
		f.add("model", r.Model.Path)
	}
	f.add("head", headline(r.Head))
	if p := r.Head.Proof; p != nil {
		within := math.Pow(10, math.Ceil(math.Log10(max(p.Difference, 1e-6))))
		f.add("head check", fmt.Sprintf("matches the model's own %s within %.0e on %s", p.Output, within, text.Plural(p.Examples, "example")))
	}
	if r.Preprocess != nil {
		if line := preprocessLine(r.Preprocess); line != "" {
			f.add("images", line)
		}
	}
	if !r.Head.Nonlinear {
		f.add("posterior", r.PosteriorLine())
		if r.External == nil {
			f.add("damping", dampingLine(r.Damping))
		}
	}
	f.add("probabilities", r.Probabilities.Reason)
	if line := classLine(&r.Validation); line != "" {
		f.add("predicted class", line)
	}
	f.add("OOD score", r.OODScore.Reason)
	f.add("examples", exampleLine(r.Examples, r.Head.Steps > 0))
	f.add("self-test", probeLine(r.Probe))
	f.add("time", secondsLine(r.Seconds))
	b.WriteString(f.text())

	methods := tuned(&r.Validation)
	data := "validation data"
	if corrected(r) {
		data += " as in use"
	}
	fmt.Fprintf(&b, "\n%s (n = %s, ECE with %d bins)\n", data, text.Count(r.Validation.Before.N), measure.DefaultBins(r.Head.Head.Head))
	in := table{align: "lrrrr"}
	in.row("", inDomainLabels()...)
	for _, m := range methods {
		in.row(m.name, inDomain(m.InDomain)...)
	}
	_ = in.write(&b)

	if r.Validation.After.OOD != nil {
		fmt.Fprintf(&b, "\nOOD detection (n = %s)\n", text.Count(r.Examples.OOD))
		out := detectionTable()
		for _, m := range methods {
			detectionRows(out, m.name, *m.OOD, *m.OODNLL)
		}
		// Of all scores only the selected one, its rival, the default (the first), and the leverage; mf0 has its rows
		// above.
		shown := []string{r.OODScore.Name, r.OODScore.Rival, "leverage"}
		for i, s := range r.Validation.Scores {
			if s.Name != "mf0" && (i == 0 || slices.Contains(shown, s.Name)) {
				out.row(methodName(s.Name), detection(s.OOD)...)
			}
		}
		_ = out.write(&b)
	}
	writeFrequencies(&b, r)
	if s := r.Recommendation.Score; s != nil && !s.Served {
		fmt.Fprintf(&b, "\n%s", wrapText("recommended score  ", printable(s.Sentence)))
	}
	writeSynthetic(&b, r)
	fmt.Fprintln(&b)
	_ = temperatures(r.Temperatures).write(&b)
	writeDecisions(&b, r.Decisions)
	writeRecords(&b, r.Bad, r.Ignored)
	_, err := io.WriteString(w, b.String())
	return err
}

// writeSynthetic writes how well scores detect synthetic OOD images, if there are any.
func writeSynthetic(b *strings.Builder, r *calibration.Report) {
	if r.Validation.SyntheticOOD == nil {
		return
	}
	fmt.Fprintf(b, "\nOOD detection: synthetic images (n = %s)\n", text.Count(r.Examples.SyntheticOOD))
	out := detectionTable()
	for i, s := range r.Validation.SyntheticOOD {
		name := methodName(s.Name)
		if s.Name == "learned" {
			name += ", from these"
		} else if i > 0 && s.Name != r.OODScore.Name && s.Name != "leverage" {
			continue
		}
		out.row(name, detection(s.OOD)...)
	}
	_ = out.write(b)
}

// eachStep says that a head has logits for each step.
func eachStep(steps int) string {
	if steps > 0 {
		return ", for each step"
	}
	return ""
}

func headline(h calibration.HeadInfo) string {
	s := fmt.Sprintf("%s features", text.Count(h.Features))
	if h.Bias {
		s += " and bias"
	}
	if h.Nonlinear && h.Features == 0 {
		s = kindLine(h.Kind)
	} else if h.Nonlinear {
		s = kindLine(h.Kind) + ", with " + s
	}
	if d := h.Decoding; d != nil && d.Tags() {
		s = fmt.Sprintf("%s for each step, %s", text.Plural(len(d.Alphabet), "tag"), d.Of)
	} else if d != nil {
		s = fmt.Sprintf("text by CTC, %s, %s of each step", text.Plural(len(d.Alphabet), "symbol"), d.Of)
	} else {
		s += fmt.Sprintf(", %s, %s", classes(h.Logits, h.Link), h.Link)
	}
	s += eachStep(h.Steps)
	if h.Op != "" {
		s = h.Op + ", " + s
	}
	return s
}

// kindLine says what the logits of a head without a linear layer are.
func kindLine(k head.Kind) string {
	switch k {
	case head.Linear, head.None:
		return "no linear layer"
	case head.LogProbabilities, head.Scores:
		return string(k) + ", no linear layer"
	}
	return "logarithms of " + string(k) + ", no linear layer"
}

// classes says how many classes a head of k logits has.
func classes(k int, by layer.Link) string {
	switch {
	case by != layer.Sigmoid:
		return text.Plural(k, "class")
	case k == 1:
		return "1 logit of two classes"
	}
	return text.Plural(k, "independent label")
}

// preprocessLine describes the preprocessing in one line, "" if there is none.
func preprocessLine(p *bundle.Preprocessing) string {
	if p.Spec == nil {
		return ""
	}
	line := p.Spec.Summary()
	if p.Source == bundle.Assumed {
		line += " (default, no --preprocess)"
	}
	return line
}

// dampingLine describes the damping; rho is in units of the mean eigenvalue.
func dampingLine(d bundle.Damping) string {
	s := fmt.Sprintf("%s: rho %s, epsilon %s", d.Rule, number(d.Rho), number(d.Epsilon))
	if len(d.Candidates) > 1 {
		tried := make([]string, len(d.Candidates))
		for i, c := range d.Candidates {
			tried[i] = number(c.Rho)
		}
		s += fmt.Sprintf(" (tried rho %s)", strings.Join(tried, ", "))
	}
	return s
}

func probeLine(i calibration.ProbeInfo) string {
	if i.Examples == 0 {
		return "none: " + i.Reason
	}
	return text.Plural(i.Examples, "validation input") + " stored, to test the bundle when it is loaded"
}

func exampleLine(e calibration.Examples, steps bool) string {
	s := "validation " + text.Count(e.Val)
	if e.Train > 0 {
		s = fmt.Sprintf("train %s, %s", text.Count(e.Train), s)
	}
	if e.OOD > 0 {
		s += ", OOD " + text.Count(e.OOD)
	}
	if e.SyntheticOOD > 0 {
		s += ", synthetic OOD " + text.Count(e.SyntheticOOD)
	}
	if e.Bad > 0 {
		s += ", skipped " + text.Count(e.Bad)
	}
	if steps {
		s += "; one step of each"
	}
	return s
}

// namedFigures are the figures of a method.
type namedFigures struct {
	name string
	bundle.Figures
}

// tuned are the methods that a calibration compared.
func tuned(v *calibration.Validation) []namedFigures {
	list := []namedFigures{{methodName("mle"), v.Before}, {methodName("ts"), v.TS}}
	if v.Matrix != nil {
		list = append(list, namedFigures{methodName("matrix"), *v.Matrix})
	}
	if v.MF0 != nil {
		list = append(list, namedFigures{methodName("mf0"), *v.MF0})
	}
	return list
}

// classLine says how many predicted classes are not the network's, "" for none.
func classLine(v *calibration.Validation) string {
	if v.ClassChanges == 0 {
		return ""
	}
	return fmt.Sprintf("not the network's for %s of the validation data (error %s, the network's %s)",
		text.Plural(v.ClassChanges, "example"), percent(v.After.Error), percent(v.Before.Error))
}

// corrected reports whether the probabilities are corrected for class frequencies in use. Figures are then of a sample
// of the validation data with these frequencies.
func corrected(r *calibration.Report) bool {
	return r.ClassFrequencies != nil && (r.PriorEstimate == nil || r.PriorEstimate.Significant)
}

// writeFrequencies lists the classes whose frequencies in use differ most from those of the validation data.
func writeFrequencies(b *strings.Builder, r *calibration.Report) {
	e, f := r.PriorEstimate, r.ClassFrequencies
	if f == nil {
		return
	}
	title := "class frequencies in use, as given"
	if e != nil {
		title = fmt.Sprintf("class frequencies in use, estimated from %s unlabelled examples", text.Count(e.Examples))
	}
	if !corrected(r) {
		title += "\nnot corrected, since they do not differ significantly"
	}
	fmt.Fprintf(b, "\n%s\n", title)
	const most = 10
	t := table{align: "lrrr"}
	head := []string{"validation data", "in use"}
	if e != nil {
		head = append(head, "95 % interval")
	}
	t.row("class", head...)
	for _, c := range bundle.ByChange(f)[:min(most, len(f))] {
		row := []string{percent(f[c].Validation), percent(f[c].Use)}
		if e != nil {
			row = append(row, percent(e.Low[c])+" to "+percent(e.High[c]))
		}
		t.row(printable(f[c].Class), row...)
	}
	_ = t.write(b)
	if n := len(f) - most; n > 0 {
		fmt.Fprintf(b, "and %s whose frequencies change less\n", text.Plural(n, "other class"))
	}
}

// secondsLine lists the seconds of each stage, longest first.
func secondsLine(by map[string]float64) string {
	stages := slices.SortedFunc(maps.Keys(by), func(a, b string) int {
		return cmp.Or(cmp.Compare(by[b], by[a]), cmp.Compare(a, b))
	})
	var parts []string
	for _, stage := range stages {
		if by[stage] < 0.05 {
			break
		}
		part := strings.ReplaceAll(stage, "_", " ") + " " + seconds(by[stage])
		switch stage {
		case "total", "curvature":
			continue
		case "train":
			// This includes the curvature.
			part += fmt.Sprintf(" (curvature %s)", seconds(by["curvature"]))
		}
		parts = append(parts, part)
	}
	if parts == nil {
		return seconds(by["total"]) + " s"
	}
	return seconds(by["total"]) + " s: " + strings.Join(parts, ", ")
}

// temperatures formats the tuned temperatures.
func temperatures(t bundle.TemperatureInfo) *table {
	tab := &table{align: "lrr"}
	if nonlinear := t.NLL == (layer.Temperatures{}); nonlinear {
		tab.row("temperatures", "", "")
	} else {
		tab.row("temperatures", "activation", "ensemble")
		tab.row("mf0, for NLL", number(t.NLL.Act), number(t.NLL.Ens))
		if t.OODTuned {
			tab.row("mf0, for OOD detection", number(t.OOD.Act), number(t.OOD.Ens))
		} else {
			tab.row("mf0, for OOD detection", "the same", "")
		}
	}
	tab.row("temperature scaling, for NLL", number(t.TS), "")
	if t.TSOOD != 0 {
		tab.row("temperature scaling, for OOD detection", number(t.TSOOD), "")
	}
	if t.Smoothing != 0 {
		tab.row("smoothing, added to each probability before", number(t.Smoothing), "")
	}
	return tab
}

// writeRecords lists skipped records and ignored files.
func writeRecords(b *strings.Builder, bad, ignored []string) {
	const most = 10
	for _, list := range []struct {
		title, noun string
		lines       []string
	}{{"skipped", "record", bad}, {"ignored", "file", ignored}} {
		if len(list.lines) == 0 {
			continue
		}
		fmt.Fprintf(b, "\n%s\n", list.title)
		for i, line := range list.lines {
			if i == most {
				fmt.Fprintf(b, "  and %s more\n", text.Plural(len(list.lines)-most, list.noun))
				break
			}
			fmt.Fprintf(b, "  %s\n", oneLine(line))
		}
	}
}

// writePartReport writes the report of a part as tables.
func writePartReport(w io.Writer, r *calibration.PartReport) error {
	var b strings.Builder
	var f facts
	f.add("part", r.Part)
	if r.Model != nil && r.Model.Path != "" {
		f.add("model", r.Model.Path)
	}
	f.add("head", headline(r.Head))
	for _, s := range r.Sets {
		shards := strings.Join(s.Shards, ", ")
		if n := len(s.Shards); n > 5 {
			shards = fmt.Sprintf("%s … %s (%d shards)", s.Shards[0], s.Shards[n-1], n)
		}
		f.add(s.Role, "shard "+shards)
	}
	f.add("examples", exampleLine(r.Examples, r.Head.Steps > 0))
	if r.Probe != nil {
		f.add("self-test", probeLine(*r.Probe))
	}
	f.add("time", secondsLine(r.Seconds))
	b.WriteString(f.text())
	writeRecords(&b, r.Bad, r.Ignored)
	_, err := io.WriteString(w, b.String())
	return err
}
