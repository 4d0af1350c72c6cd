package main

import (
	"cmp"
	"slices"

	"github.com/mfgs/mfgs/wrap/calibration"
	"github.com/urfave/cli/v2"
)

func (p *program) update() *cli.Command {
	return &cli.Command{
		Name:      "update",
		Usage:     "add training data to a bundle, and tune it again",
		UsageText: "mfgs update --bundle DIR --train SPEC [--out DIR]",
		Description: `Reads more training data for a bundle that was made with --keep-curvature, adds
its curvature to the bundle's, and tunes damping and temperatures again: the
bundle that calibrate would make of the old and the new data together. The old
data is not read. The bundle is replaced as a whole, or with --out another is
written.

Data that the bundle has is refused: the same content as was given before, wherever
it lies, and a slice of a file or folder of which some was given and which is as it
was. Examples in a copy that is cut differently, or on a stream, are not found.

Held-out data is that of the bundle, if it is the same still, or what is given.
Decisions are the bundle's, or those asked for here.
For a bundle of ready-made features the SPECs are such files.`,
		Flags: slices.Concat([]cli.Flag{
			&cli.StringFlag{Name: "bundle", Category: dataFlags, Usage: "`DIR` the bundle"},
			&cli.StringFlag{Name: "train", Category: dataFlags, Usage: "`SPEC` training data that it does not have"},
			&cli.StringFlag{Name: "val", Category: dataFlags, Usage: "`SPEC` labelled data held out from training [that of the bundle]"},
			&cli.StringFlag{Name: "ood", Category: dataFlags, Usage: "`SPEC` data unlike any that the network is for [that of the bundle]"},
			&cli.StringFlag{Name: "model", Category: dataFlags, Usage: "`FILE` the network, where the bundle does not hold it"},
			maxBadFlag(),
			cacheFlag(),
			&cli.StringFlag{Name: "out", Category: outputFlags, Usage: "`DIR` folder of a bundle to write [the bundle is replaced]"},
			&cli.BoolFlag{Name: "force", Category: outputFlags, Usage: "replace a bundle that is at --out"},
			jsonFlag(),
		}, flagsOf(decisionSettings()), inferenceFlags()),
		Action: func(c *cli.Context) error {
			bar := p.progress()
			config, err := p.updateConfig(c, bar)
			if err != nil {
				return err
			}
			defer collectOften()()
			report, err := calibration.Update(c.Context, config)
			return p.bundleDone(c, bar, report, err)
		},
	}
}

func (p *program) updateConfig(c *cli.Context, bar *progress) (calibration.UpdateConfig, error) {
	of := calibration.Config{Runtime: library(c, bar)}
	if err := cmp.Or(noArguments(c), required(c, "bundle", "train"), readSettings(c, &of), checkPaths(c, "model")); err != nil {
		return calibration.UpdateConfig{}, err
	}
	if of.Out != "" {
		if err := parentOfOut(c); err != nil {
			return calibration.UpdateConfig{}, err
		}
	}
	return calibration.UpdateConfig{
		Bundle: c.String("bundle"), Train: of.Train, Val: of.Val, OOD: of.OOD, Decisions: of.Decisions,
		Out: of.Out, Force: c.Bool("force"), Model: of.Model, MaxBad: of.MaxBad, Cache: of.Cache, Runtime: of.Runtime,
		Progress: bar.work,
	}, nil
}
