package main

import (
	"github.com/mfgs/mfgs/internal/demo"
	"github.com/urfave/cli/v2"
)

func (p *program) demo() *cli.Command {
	return &cli.Command{
		Name:      "demo",
		Usage:     "calibrate and evaluate a small built-in model",
		UsageText: "mfgs demo",
		Description: `Calibrates a small network for handwritten digits, and tests it on digits and on drawings that are not
digits. Model and data are built in. They are unpacked to a temporary folder, which is removed at the end.`,
		Flags: []cli.Flag{runtimePathFlag(runtimeFlags), noInstallFlag()},
		Action: func(c *cli.Context) error {
			if err := noArguments(c); err != nil {
				return err
			}
			bar := p.progress()
			defer bar.done()
			options := demo.Options{Runtime: library(c, bar), Progress: bar.work, Ready: bar.done}
			return demo.Run(c.Context, p.stdout, options)
		},
	}
}
