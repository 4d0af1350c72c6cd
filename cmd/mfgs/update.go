package main

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mfgs/mfgs/wrap/calibration"
	"github.com/urfave/cli/v2"
)

func (p *program) update() *cli.Command {
	return &cli.Command{
		Name:  "update",
		Usage: "add training data to a bundle, or change its class frequencies",
		UsageText: `mfgs update --bundle DIR --train SPEC [--out DIR]
mfgs update --bundle DIR --prior FILE|SPEC [--out DIR]`,
		Description: `--train adds the curvature of more training data to a bundle that was made with --keep-curvature, and tunes
damping and temperatures again. The result is the bundle that calibrate would make from the old and the new
data together, but the old data is not read. The bundle is replaced, unless --out is given.

Data that the bundle already contains is refused: the same content under any path, and slices that
overlap in an unchanged file or folder. Duplicates in a copy that is cut differently, or in a stream, are not
detected.

The validation data and OOD data are those of the bundle, which must be unchanged, unless they are given
here. Abstention and prediction sets are those of the bundle unless they are set here. For a bundle of
precomputed features, SPECs are files of the same kind.

--prior alone corrects the probabilities for the frequencies of the classes in use, where these are not those
of the validation data, and sets the thresholds of abstention and prediction sets for them. It assumes that
the examples of a class are the same in both. Of unlabelled data it estimates the frequencies, and prints 95 %
intervals.`,
		Flags: slices.Concat([]cli.Flag{
			&cli.StringFlag{Name: "bundle", Category: dataFlags, Usage: "`DIR` bundle to update"},
			&cli.StringFlag{Name: "train", Category: dataFlags, Usage: "`SPEC` additional training data"},
			&cli.StringFlag{Name: "prior", Category: dataFlags, Usage: "`FILE|SPEC` class frequencies in use: a YAML file with lines of class: frequency, where other classes share the rest; unlabelled data in use; or none"},
			&cli.StringFlag{Name: "val", Category: dataFlags, Usage: "`SPEC` labelled validation data, not used in training [that of the bundle]"},
			&cli.StringFlag{Name: "ood", Category: dataFlags, Usage: "`SPEC` out-of-distribution data (labels are ignored) [that of the bundle]"},
			&cli.StringFlag{Name: "model", Category: dataFlags, Usage: "`FILE` the network, if the bundle does not contain it"},
			maxBadFlag(),
			cacheFlag(),
			&cli.StringFlag{Name: "out", Category: outputFlags, Usage: "`DIR` folder of a new bundle [the bundle is replaced]"},
			&cli.BoolFlag{Name: "force", Category: outputFlags, Usage: "replace an existing bundle at --out"},
			jsonFlag(),
		}, flagsOf(decisionSettings()), inferenceFlags(allCPUs)),
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
	if err := cmp.Or(noArguments(c), required(c, "bundle"), readSettings(c, &of), checkPaths(c, "model")); err != nil {
		return calibration.UpdateConfig{}, err
	}
	if of.Out != "" {
		if err := parentOfOut(c); err != nil {
			return calibration.UpdateConfig{}, err
		}
	}
	config := calibration.UpdateConfig{
		Bundle: c.String("bundle"), Train: of.Train, Val: of.Val, OOD: of.OOD, Decisions: of.Decisions,
		Out: of.Out, Force: c.Bool("force"), Model: of.Model, MaxBad: of.MaxBad, Cache: of.Cache, Runtime: of.Runtime,
		Progress: bar.work,
	}
	switch prior := c.String("prior"); {
	case prior == "" && of.Train == "":
		return config, usagef(c.Command.Name, "--train and --prior are missing: give one of them")
	case prior == "none":
		config.Prior = map[string]float64{}
	case slices.Contains([]string{".yaml", ".yml"}, strings.ToLower(filepath.Ext(prior))):
		var err error
		config.Prior, err = readPrior(prior)
		return config, err
	default:
		config.Unlabelled = prior
	}
	return config, nil
}
