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
		Usage:     "combine the parts of calibrate --shard into a bundle",
		UsageText: "mfgs merge PART... --out DIR [--part]",
		ArgsUsage: "PART...",
		Description: `Adds up the parts written by mfgs calibrate --shard I/N, tunes damping and temperatures, and writes
a bundle equal, up to rounding, to that of one run over all of the data. It reads only the parts and does not
run the model; if ONNX Runtime is installed, it makes matrix products faster. Every shard of every dataset must be present exactly once.
The order of the parts does not change the result. Covariance, damping, abstention and prediction sets are
those of the parts unless they are set here; this does not read the data again.

--part writes a part instead of a bundle, and accepts missing shards, so that many parts can be merged in
groups.`,
		Flags: slices.Concat([]cli.Flag{
			&cli.StringFlag{Name: "out", Category: outputFlags, Usage: "`DIR` folder to write: the bundle, or with --part the part"},
			&cli.BoolFlag{Name: "part", Category: outputFlags, Usage: "write a part instead of a bundle"},
			&cli.BoolFlag{Name: "force", Category: outputFlags, Usage: "replace an existing bundle or part"},
			&cli.BoolFlag{Name: "no-model", Category: outputFlags, Usage: "leave the model out of the bundle; eval and predict then need --model"},
			&cli.StringFlag{Name: "model", Category: outputFlags, Usage: "`FILE` the network, if the parts were made with --no-model"},
			keepCurvatureFlag(),
			jsonFlag(),
			choiceFlag("covariance", fitFlags, "`NAME` how the posterior covariance is computed: "+alternatives(covariances)+"; fisher and sandwich need parts made with one of them [that of the parts]", "", covariances),
			&cli.StringFlag{Name: "damping", Category: fitFlags, Usage: "`RULE` as in mfgs calibrate [that of the parts]"},
			threadsFlag(productFlags, "product", allCPUs), runtimePathFlag(productFlags),
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
		return config, usagef(c.Command.Name, "no parts: want the folders that mfgs calibrate --shard wrote")
	case c.Bool("part") && c.Bool("keep-curvature"):
		return config, usagef(c.Command.Name, "--keep-curvature is for bundles: a part always contains the curvature")
	case c.Bool("part") && config.Decisions != (conformal.Plan{}):
		return config, usagef(c.Command.Name, "abstention and prediction sets are set when the bundle is made: leave them out with --part")
	case c.Bool("part") && (c.IsSet("covariance") || c.IsSet("damping")):
		return config, usagef(c.Command.Name, "--covariance and --damping are set when the bundle is made: leave them out with --part")
	case c.Bool("part") && config.Model != "":
		return config, usagef(c.Command.Name, "--model is for bundles: a part has the model of its parts")
	case config.NoModel && config.Model != "":
		return config, usagef(c.Command.Name, "--model and --no-model contradict each other")
	}
	return config, cmp.Or(required(c, "out"), parentOfOut(c))
}
