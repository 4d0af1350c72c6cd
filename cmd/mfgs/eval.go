package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/mfgs/mfgs/wrap"
	"github.com/urfave/cli/v2"
)

func (p *program) eval() *cli.Command {
	return &cli.Command{
		Name:      "eval",
		Usage:     "compare methods on data that nothing was tuned on",
		UsageText: "mfgs eval --bundle DIR --test SPEC [--ood NAME=SPEC]...",
		Description: `Methods are mle, the network's own probabilities; ts, temperature scaling; mf0,
the mean-field Gaussian-softmax; and leverage, which tells unfamiliar inputs but
gives no probabilities. The figures of a multi-label head are over all its decisions,
one for each label of each example. Of a bundle from ready-made features, SPECs are
.npz files of the same kind.`,
		Flags: slices.Concat([]cli.Flag{
			&cli.StringFlag{Name: "bundle", Category: dataFlags, Usage: "`DIR` the folder that calibrate wrote"},
			&cli.StringFlag{Name: "test", Category: dataFlags, Usage: "`SPEC` labelled data"},
			&cli.StringSliceFlag{Name: "ood", Category: dataFlags, Usage: "`NAME=SPEC` data unlike any that the network is for; may be repeated"},
			&cli.StringFlag{Name: "methods", Category: dataFlags, Usage: "`A,B,C` only these of " + alternatives(wrap.Methods()) + " [all]"},
			&cli.StringFlag{Name: "model", Category: dataFlags, Usage: "`FILE` the network, where the bundle holds none"},
			&cli.IntFlag{Name: "limit", Category: dataFlags, Usage: "`N` examples at most of each set, spread evenly [all]"},
			maxBadFlag(),
			&cli.StringFlag{Name: "features-cache", Category: dataFlags, Usage: "`DIR` keeps features, which are used again while model, data and preprocessing are the same"},
			jsonFlag(),
		}, inferenceFlags()),
		Action: func(c *cli.Context) error {
			if err := noArguments(c); err != nil {
				return err
			}
			if err := required(c, "bundle", "test"); err != nil {
				return err
			}
			if err := notNegative(c, "limit", "max-bad"); err != nil {
				return err
			}
			methods, err := parseMethods(c.String("methods"))
			if err != nil {
				return usagef(c.Command.Name, "--methods: %v", err)
			}
			oods, err := parseNamedSpecs(c.StringSlice("ood"))
			if err != nil {
				return usagef(c.Command.Name, "--ood: %v", err)
			}
			bar := p.progress()
			runtime, err := p.inference(c, bar)
			if err != nil {
				return err
			}
			if err := found(c, "bundle", "model"); err != nil {
				return err
			}
			evaluation, err := wrap.Evaluate(c.Context, wrap.EvalConfig{
				Bundle:   c.String("bundle"),
				Model:    c.String("model"),
				Test:     c.String("test"),
				OOD:      oods,
				Methods:  methods,
				Limit:    c.Int("limit"),
				Inputs:   wrap.Inputs{MaxBad: c.Int("max-bad"), Cache: c.String("features-cache")},
				Runtime:  runtime,
				Progress: bar.work,
			})
			bar.done()
			if err != nil {
				return err
			}
			p.warn(evaluation.Warnings...)
			if c.Bool("json") {
				return writeJSON(p.stdout, evaluation)
			}
			return writeEvaluation(p.stdout, evaluation)
		},
	}
}

// writeEvaluation writes methods by metrics, and a block for each
// out-of-distribution set.
func writeEvaluation(w io.Writer, e *wrap.Evaluation) error {
	var b strings.Builder
	var f facts
	f.add("bundle", e.Bundle.Path)
	f.add("posterior", fmt.Sprintf("%s structure, %s covariance", e.Bundle.Structure, e.Bundle.Covariance))
	b.WriteString(f.text())

	in := table{align: "lrrrrr"}
	for _, m := range e.Methods {
		if m.InDomain == nil {
			continue
		}
		if in.rows == nil {
			in.row("test data", "n", "error", "NLL", "ECE", "Brier")
		}
		in.row(m.Name, append([]string{count(m.InDomain.N)}, inDomain(*m.InDomain)...)...)
	}
	if in.rows != nil {
		fmt.Fprintln(&b)
		_ = in.write(&b)
	}

	if len(e.Methods) > 0 {
		for i, set := range e.Methods[0].OOD {
			out := table{align: "lrrrrr"}
			out.row(fmt.Sprintf("told from %s, n = %s", set.Name, count(set.N)), oodHeader...)
			for _, m := range e.Methods {
				oodRows(&out, m.Name, m.OOD[i].OOD, m.OODNLL[i].OOD)
			}
			fmt.Fprintln(&b)
			_ = out.write(&b)
		}
	}
	fmt.Fprintln(&b)
	_ = temperatures(e.Bundle.Temperatures).write(&b)
	writeRecords(&b, e.Bad, e.Ignored)
	_, err := io.WriteString(w, b.String())
	return err
}
