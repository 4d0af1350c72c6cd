package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/bench"
	"github.com/mfgs/mfgs/wrap/bundle"
	"github.com/mfgs/mfgs/wrap/report"
	"github.com/urfave/cli/v2"
)

func (p *program) eval() *cli.Command {
	return &cli.Command{
		Name:      "eval",
		Usage:     "compare methods on data that nothing was tuned on",
		UsageText: "mfgs eval --bundle DIR --test SPEC [--ood NAME=SPEC]... [--methods A,B,C]",
		Description: `Without --methods these are mle, ts, mf0, ood_score, which is the score that the bundle serves,
and leverage, for which the bundle
has all that is needed. The others are tuned on the held-out data of the calibration, or on
--val and --val-ood, and some are fitted to its training data, or to --train:

` + describeMethods() + `

A method is NAME[:M][@COVARIANCE[/STRUCTURE]]: mc:500 draws 500 samples, mf0@sandwich/kron has the covariance H⁻¹JH⁻¹ in the Kronecker structure. Covariances are hessian, fisher,
sandwich and swag, of the checkpoints in --with swag=FILE; structures full and kron.

The figures of a multi-label head are over all its decisions, one for each label of
each example. Of a bundle from ready-made features, SPECs are .npz files of the same
kind.`,
		Flags: slices.Concat(evalFlags(), inferenceFlags()),
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
			evaluation.Warnings = append(evaluation.Warnings, evaluationWarning(config, evaluation)...)
			p.warn(evaluation.Warnings...)
			if c.Bool("json") {
				err = writeJSON(p.stdout, evaluation)
			} else {
				err = writeEvaluation(p.stdout, evaluation)
			}
			// A disk that is full by now takes the page, and not the figures.
			return cmp.Or(err, writePage(c, evaluation, report.Options{}))
		},
	}
}

func evalFlags() []cli.Flag {
	flags := []cli.Flag{
		bundleFlag(),
		&cli.StringFlag{Name: "test", Category: dataFlags, Usage: "`SPEC` labelled data"},
		&cli.StringSliceFlag{Name: "ood", Category: dataFlags, Usage: "`NAME=SPEC` data unlike any that the network is for; may be repeated. auto: stand-ins, made of the test images"},
		&cli.StringSliceFlag{Name: "shift", Category: dataFlags, Usage: "`NAME=SPEC` more labelled data, unlike the training data; may be repeated"},
		&cli.BoolFlag{Name: "per-class", Category: methodFlags, Usage: "measure each class of the test data as well, or each label"},
		&choice{&cli.StringFlag{Name: "methods", Category: methodFlags, Usage: "`A,B,C` only these [mle,ts,mf0,ood_score,leverage]"}, bench.Methods()},
		countFlag("layers", methodFlags, "`N` dense layers that mf0, mf1, mf2, ukf, mc and bnn-kfac are over, the last first [1]"),
		&cli.StringFlag{Name: "train", Category: methodFlags, Usage: "`SPEC` what methods are fitted to [as calibrate]"},
		&cli.StringFlag{Name: "val", Category: methodFlags, Usage: "`SPEC` held-out labelled data to tune on [as calibrate]"},
		&cli.StringFlag{Name: "val-ood", Category: methodFlags, Usage: "`SPEC` held-out data unlike any that the network is for [as calibrate]"},
		&cli.StringSliceFlag{Name: "with", Category: methodFlags, Usage: "`NAME=FILE` another network, for method NAME or for swag; repeated for each"},
		&choice{&cli.StringFlag{Name: "evidence", Category: methodFlags, Usage: "`NAME` relu, softplus or exp: what makes evidence of the logits of edl [as the file says]"},
			[]string{"relu", "softplus", "exp"}},
		&cli.Float64Flag{Name: "dropout-rate", Category: methodFlags, Usage: "`P` what part dropout leaves out [the network's own, else chosen]"},
		&cli.Uint64Flag{Name: "seed", Category: methodFlags, Usage: "`N` of all that is random [0]"},
		modelFlag(),
		countFlag("limit", dataFlags, "`N` examples at most of each set that is measured on, spread evenly [all]"),
		preprocessFlag("the bundle's"),
		maxBadFlag(),
		cacheFlag(),
		reportFlag("the evaluation"),
		jsonFlag(),
	}
	for _, f := range bench.FileKinds() {
		if f.Flag != "" {
			usage := "`FILE` the same as --with " + f.Name + "=FILE"
			if f.Most == 1 {
				flags = append(flags, &cli.StringFlag{Name: f.Flag, Category: methodFlags, Usage: usage})
			} else {
				flags = append(flags, &cli.StringSliceFlag{Name: f.Flag, Category: methodFlags, Usage: usage})
			}
		}
	}
	return flags
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
		Bundle: c.String("bundle"), Model: c.String("model"), Test: c.String("test"), Limit: c.Int("limit"),
		Train: c.String("train"), Val: c.String("val"), ValOOD: c.String("val-ood"),
		Layers: c.Int("layers"), Seed: c.Uint64("seed"), PerClass: c.Bool("per-class"),
		Detailed: c.IsSet("report"),
		Evidence: c.String("evidence"), DropoutRate: c.Float64("dropout-rate"),
		MaxBad: c.Int("max-bad"), Cache: c.String("features-cache"),
		Progress: bar.work,
	}
	if config.Methods, err = parseMethods(c.String("methods")); err != nil {
		return config, usagef(c.Command.Name, "--methods: %v", err)
	}
	if config.OOD, err = parseNamedSpecs(c.StringSlice("ood")); err != nil {
		return config, usagef(c.Command.Name, "--ood: %v", err)
	}
	for i := range config.OOD {
		if s := &config.OOD[i]; s.Spec == wrap.StandIns {
			s.Name = string(bundle.StandIns)
		}
	}
	if config.Shifts, err = parseNamedSpecs(c.StringSlice("shift")); err != nil {
		return config, usagef(c.Command.Name, "--shift: %v", err)
	}
	if config.With, err = parseWith(c); err != nil {
		return config, err
	}
	config.Runtime = p.inference(c, bar)
	if err := found(c, "bundle", "model"); err != nil {
		return config, err
	}
	config.Preprocess, err = bundlePreprocessing(c)
	return config, err
}

// parseWith reads --with NAME=FILE, and the flags that each kind of files has of its own.
func parseWith(c *cli.Context) (map[string][]string, error) {
	with := map[string][]string{}
	var kinds []string
	for _, f := range bench.FileKinds() {
		kinds = append(kinds, f.Name)
	}
	for _, arg := range c.StringSlice("with") {
		name, file, ok := strings.Cut(arg, "=")
		if !ok || name == "" || file == "" {
			return nil, usagef(c.Command.Name, "--with %s: want NAME=FILE", arg)
		}
		if !slices.Contains(kinds, name) {
			return nil, usagef(c.Command.Name, "--with %s: no method takes files named %q, want one of %s", arg, name, strings.Join(kinds, ", "))
		}
		with[name] = append(with[name], file)
	}
	for _, f := range bench.FileKinds() {
		if f.Flag != "" {
			given := c.StringSlice(f.Flag)
			if one := c.String(f.Flag); f.Most == 1 && one != "" {
				given = []string{one}
			}
			with[f.Name] = append(with[f.Name], given...)
		}
	}
	return with, nil
}

// writeEvaluation writes methods by metrics, and a block for each out-of-distribution set.
func writeEvaluation(w io.Writer, e *bench.Evaluation) error {
	var b strings.Builder
	var f facts
	f.add("bundle", e.Bundle.Path)
	f.add("posterior", fmt.Sprintf("%s structure, %s covariance", e.Bundle.Structure, e.Bundle.Covariance))
	f.add("probabilities", e.Bundle.Probabilities.Reason)
	b.WriteString(f.text())

	in := table{align: "lrrrrrrr"}
	for _, m := range e.Methods {
		if m.InDomain == nil {
			continue
		}
		if in.rows == nil {
			in.row("test data", labelledHeader...)
		}
		labelledRows(&in, m.Name, *m.InDomain)
	}
	if in.rows != nil {
		fmt.Fprintln(&b)
		_ = in.write(&b)
	}
	if first := slices.IndexFunc(e.Methods, func(m bench.MethodResult) bool { return m.Shifts != nil }); first >= 0 {
		for i, set := range e.Methods[first].Shifts {
			shifted := table{align: "lrrrrrrr"}
			shifted.row(set.Name, labelledHeader...)
			for _, m := range e.Methods {
				if len(m.Shifts) > 0 {
					labelledRows(&shifted, m.Name, m.Shifts[i].Labelled)
				}
			}
			fmt.Fprintln(&b)
			_ = shifted.write(&b)
		}
	}

	if len(e.Methods) > 0 {
		for i, set := range e.Methods[0].OOD {
			out := table{align: "lrrrrr"}
			out.row(fmt.Sprintf("told from %s, n = %s", set.Name, count(set.N)), oodHeader...)
			for _, m := range e.Methods {
				toldRows(&out, m.Name, m.OOD[i].Told, m.OODNLL[i].Told)
			}
			fmt.Fprintln(&b)
			_ = out.write(&b)
		}
	}
	writeRealised(&b, e.Bundle.Decisions, e.Decisions)
	fmt.Fprintf(&b, "\n%s", boundsLegend(e.Bootstrap))
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
			tuned.row(m.Name+", for the likelihood", number(t.NLL.Act), number(t.NLL.Ens))
			tuned.row(m.Name+", for out-of-distribution", number(t.OOD.Act), number(t.OOD.Ens))
		}
	}
	_ = tuned.write(&b)
	for _, m := range e.Methods {
		if m.Note != "" {
			fmt.Fprintf(&b, "\n%s: %s\n", m.Name, m.Note)
		}
	}
	writeRecords(&b, e.Bad, e.Ignored)
	b.WriteString("\n" + recommendation(e.Recommendation, e.Bootstrap))
	_, err := io.WriteString(w, b.String())
	return err
}

// describeMethods lists what --methods may hold.
func describeMethods() string {
	var b strings.Builder
	for _, name := range bench.Methods() {
		fmt.Fprintf(&b, "  %-20s %s\n", name, bench.DescribeMethod(name))
	}
	return strings.TrimSuffix(b.String(), "\n")
}
