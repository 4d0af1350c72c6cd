package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/mfgs/mfgs/cmd/mfgs/internal/doctor"
	"github.com/mfgs/mfgs/featurize/ort"
	"github.com/mfgs/mfgs/wrap"
	"github.com/urfave/cli/v2"
)

func (p *program) doctor() *cli.Command {
	return &cli.Command{
		Name:      "doctor",
		Usage:     "check the installation, and print fixes",
		UsageText: "mfgs doctor [--bundle DIR]",
		Description: `Checks ONNX Runtime and its providers, the cache folder, memory, CPUs and, with --bundle, a bundle.
Installs nothing. Prints ok, warn or fail for each check, with a fix for each warning and failure. The exit status is 1 if a check fails.`,
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
	bar := p.progress()
	bar.work(wrap.Progress{Stage: "checking"})
	checks := doctor.Examine(c.Context, doctor.Config{Library: c.String("runtime"), Provider: c.String("provider"),
		Bundle: c.String("bundle"), Model: c.String("model")})
	bar.done()
	if c.Bool("json") {
		err = writeJSON(p.stdout, map[string]any{"checks": checks})
	} else {
		err = writeChecks(p.stdout, checks)
	}
	return cmp.Or(err, doctor.Failed(checks))
}

// writeChecks writes each check, with its fix in a line of its own.
func writeChecks(w io.Writer, checks []doctor.Check) error {
	colours := map[doctor.Status]colour{doctor.OK: green, doctor.Warn: yellow, doctor.Fail: red}
	var b strings.Builder
	for _, c := range checks {
		prefix := fmt.Sprintf("%-4s  %-12s  ", c.Status, c.Name)
		text := strings.TrimPrefix(wrapText(prefix, c.Found), string(c.Status))
		b.WriteString(painted(w, colours[c.Status], string(c.Status)) + text)
		if c.Fix != "" {
			fmt.Fprintf(&b, "%*sfix: %s\n", len(prefix), "", c.Fix)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
