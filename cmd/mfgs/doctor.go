package main

import (
	"cmp"
	"io"

	"github.com/mfgs/mfgs/cmd/mfgs/internal/doctor"
	"github.com/mfgs/mfgs/featurize/ort"
	"github.com/urfave/cli/v2"
)

func (p *program) doctor() *cli.Command {
	return &cli.Command{
		Name:      "doctor",
		Usage:     "check the installation, and print fixes",
		UsageText: "mfgs doctor [--bundle DIR]",
		Description: `Checks ONNX Runtime and its providers, the cache folder, memory, CPUs and, with --bundle, a bundle.
Installs nothing. Each line says ok, warn or fail, and how to fix it. The exit status is 1 if a check fails.`,
		Flags: []cli.Flag{
			choiceFlag("provider", runtimeFlags, "`NAME` execution provider that must work: "+alternatives(ort.Providers())+" [cpu]", ort.CPU, ort.Providers()),
			runtimePathFlag(runtimeFlags), bundleFlag(), modelFlag(), jsonFlag(),
		},
		Action: p.runDoctor,
	}
}

func (p *program) runDoctor(c *cli.Context) error {
	err := cmp.Or(noArguments(c), checkPaths(c, "bundle", "model"))
	if err != nil {
		return err
	}
	checks := doctor.Examine(c.Context, doctor.Config{Library: c.String("runtime"), Provider: c.String("provider"),
		Bundle: c.String("bundle"), Model: c.String("model")})
	if c.Bool("json") {
		err = writeJSON(p.stdout, map[string]any{"checks": checks})
	} else {
		colours := map[doctor.Status]colour{doctor.OK: green, doctor.Warn: yellow, doctor.Fail: red}
		_, err = io.WriteString(p.stdout, doctor.Lines(checks, func(s doctor.Status) string {
			return painted(p.stdout, colours[s], string(s))
		}))
	}
	return cmp.Or(err, doctor.Failed(checks))
}
