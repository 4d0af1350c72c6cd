package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/mfgs/mfgs/featurize/dataset"
	"github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/bench"
	"github.com/mfgs/mfgs/wrap/bundle"
	"github.com/mfgs/mfgs/wrap/calibration"
	"github.com/mfgs/mfgs/wrap/report"
	"github.com/urfave/cli/v2"
)

// reportFlag is --report.
func reportFlag(about string) cli.Flag {
	return &cli.StringFlag{Name: "report", Category: outputFlags, Usage: "`FILE` also write a report on " + about + ": .html with figures and examples in one file, or .md"}
}

// reportable returns an error if the report could not be written, before any work is done.
func reportable(c *cli.Context) error {
	path := c.String("report")
	if !c.IsSet("report") {
		return nil
	}
	if err := report.Check(path); err != nil {
		return usagef(c.Command.Name, "--report %v", err)
	}
	if parent := filepath.Dir(path); !exists(parent) {
		return fmt.Errorf("--report %s: no such folder: %s: create it, or choose another", path, parent)
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return fmt.Errorf("--report %s: is a folder: want a file name", path)
	}
	return nil
}

// writePage writes the page that --report asks for.
func writePage(c *cli.Context, e *bench.Evaluation, o report.Options) error {
	if !c.IsSet("report") {
		return nil
	}
	if err := report.Write(c.String("report"), e, o); err != nil {
		return fmt.Errorf("--report %w", err)
	}
	return nil
}

// reportableHeldOut returns an error if calibrate makes no bundle, or cannot read the validation data again.
func reportableHeldOut(c *cli.Context, config *calibration.Config) error {
	if !c.IsSet("report") {
		return nil
	}
	for _, name := range []string{"shard", "dry-run"} {
		if c.IsSet(name) {
			return usagef(c.Command.Name, "--report needs a bundle, and --%s writes none", name)
		}
	}
	for _, spec := range []string{config.Val, config.OOD} {
		if dataset.IsStream(spec) {
			return usagef(c.Command.Name, "--report reads the validation data twice, which standard input does not allow: give a file")
		}
	}
	return reportable(c)
}

// reportHeldOut writes a page about the new bundle, on the validation data.
func (p *program) reportHeldOut(
	c *cli.Context, bar *progress, config *calibration.Config, made *calibration.Report,
) error {
	if !c.IsSet("report") {
		return nil
	}
	of := bench.Config{
		Bundle: config.Out, Test: config.Val, InUse: true, Detailed: true, Runtime: config.Runtime, Progress: bar.work,
		MaxBad: config.MaxBad, Cache: config.Cache,
	}
	if config.NoModel {
		of.Model = config.Model
	}
	switch config.OOD {
	case "":
	case wrap.SyntheticOOD:
		of.OOD = []bench.NamedSpec{{Name: string(bundle.SyntheticOOD), Spec: wrap.SyntheticOOD}}
	default:
		of.OOD = []bench.NamedSpec{{Name: "ood", Spec: config.OOD}}
	}
	evaluation, err := bench.Evaluate(c.Context, of)
	if err != nil {
		return fmt.Errorf("the bundle %s is written, but the report is not: %w", config.Out, err)
	}
	evaluation.Warnings = made.Warnings // without the warning that these are the data of the calibration
	return writePage(c, evaluation, report.Options{Tuned: true})
}
