package main

import (
	"fmt"

	"github.com/mfgs/mfgs/wrap/bundle"
	"github.com/urfave/cli/v2"
)

func (p *program) reseal() *cli.Command {
	return &cli.Command{
		Name:      "reseal",
		Usage:     "update the checksum of a manifest edited by hand",
		UsageText: "mfgs reseal DIR",
		Description: `Checks the bundle in DIR as every command does, and rewrites the checksum in the last line of its
bundle.yaml. An inconsistent bundle is refused and not changed.`,
		Action: func(c *cli.Context) error {
			if c.NArg() != 1 {
				return usagef(c.Command.Name, "want one bundle folder, got %d arguments", c.NArg())
			}
			dir := c.Args().First()
			if err := bundle.Reseal(dir); err != nil {
				return err
			}
			_, err := fmt.Fprintln(p.stdout, "resealed", printable(dir))
			return err
		},
	}
}
