package main

import (
	"cmp"
	"slices"

	"github.com/mfgs/mfgs/calibrate/conformal"
	"github.com/mfgs/mfgs/wrap/calibration"
	"github.com/urfave/cli/v2"
)

func (p *program) merge() *cli.Command {
	return &cli.Command{
		Name:      "merge",
		Usage:     "make a bundle of the parts that calibrate --shard wrote",
		UsageText: "mfgs merge PART... --out DIR [--part]",
		ArgsUsage: "PART...",
		Description: `Adds up what the runs of mfgs calibrate --shard I/N have read, tunes damping and
temperatures, and writes the bundle that one run over all of the data would have
written. It runs no model and reads no data but the parts; ONNX Runtime, where there
is one, multiplies matrices. Each shard of each set must be there once; the same
parts in any order give the same bytes. Covariance, damping and decisions are those
of the parts or those asked for here, for which the data is not read again.

With --part it writes a part instead, in which some shards may be missing still:
many parts are merged in groups, and these with each other.`,
		Flags: slices.Concat([]cli.Flag{
			&cli.StringFlag{Name: "out", Category: outputFlags, Usage: "`DIR` folder of the bundle to write, or with --part of the part"},
			&cli.BoolFlag{Name: "part", Category: outputFlags, Usage: "write a part, not a bundle"},
			&cli.BoolFlag{Name: "force", Category: outputFlags, Usage: "replace a bundle or part that is there"},
			&cli.BoolFlag{Name: "no-model", Category: outputFlags, Usage: "leave the model out; eval and predict then want --model"},
			&cli.StringFlag{Name: "model", Category: outputFlags, Usage: "`FILE` of the model, for a bundle of parts made with --no-model"},
			keepCurvatureFlag(),
			jsonFlag(),
			choiceFlag("covariance", fitFlags, "`NAME` "+alternatives(covariances)+"; the last two want parts made for one of them [that of the parts]", "", covariances),
			&cli.StringFlag{Name: "damping", Category: fitFlags, Usage: "`RULE` as of mfgs calibrate [that of the parts]"},
			threadsFlag(productFlags, "product"), runtimePathFlag(productFlags),
		}, flagsOf(decisionSettings())),
		Action: func(c *cli.Context) error {
			config, err := p.mergeConfig(c)
			if err != nil {
				return err
			}
			bar := p.progress()
			config.Progress = bar.work
			defer collectOften()()
			if c.Bool("part") {
				report, err := calibration.MergeParts(c.Context, config)
				return p.partDone(c, bar, report, err)
			}
			report, err := calibration.Merge(c.Context, config)
			return p.bundleDone(c, bar, report, err)
		},
	}
}

func (p *program) mergeConfig(c *cli.Context) (calibration.MergeConfig, error) {
	var of calibration.Config
	if err := readSettings(c, &of); err != nil {
		return calibration.MergeConfig{}, err
	}
	config := calibration.MergeConfig{
		Parts: c.Args().Slice(), Out: of.Out, Force: c.Bool("force"), NoModel: of.NoModel, Model: of.Model,
		KeepCurvature: of.KeepCurvature, Covariance: of.Covariance, Decisions: of.Decisions, Runtime: of.Runtime,
	}
	if c.IsSet("damping") {
		config.Damping = &of.Damping
	}
	config.Runtime.Library = c.String("runtime")
	switch {
	case len(config.Parts) == 0:
		return config, usagef(c.Command.Name, "no parts given: want the folders that mfgs calibrate --shard wrote")
	case c.Bool("part") && c.Bool("keep-curvature"):
		return config, usagef(c.Command.Name, "--keep-curvature is for a bundle: a part has the curvature in any case")
	case c.Bool("part") && config.Decisions != (conformal.Plan{}):
		return config, usagef(c.Command.Name, "decisions are for a bundle: a part has those of the parts that it was made of")
	case c.Bool("part") && (c.IsSet("covariance") || c.IsSet("damping")):
		return config, usagef(c.Command.Name, "--covariance and --damping are for a bundle: a part has those that it was made for")
	case c.Bool("part") && config.Model != "":
		return config, usagef(c.Command.Name, "--model is for a bundle: a part has the model of those that it was made of")
	case config.NoModel && config.Model != "":
		return config, usagef(c.Command.Name, "--model and --no-model contradict each other")
	}
	return config, cmp.Or(required(c, "out"), parentOfOut(c))
}
