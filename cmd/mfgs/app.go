package main

import (
	"regexp"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// app returns the commands, in the order of the help.
func (p *program) app() *cli.App {
	app := &cli.App{
		Name:        "mfgs",
		Usage:       oneLiner,
		UsageText:   "mfgs COMMAND [flags]",
		Description: reflowed(overview),
		Commands: slices.Concat(
			inGroup(startGroup, p.demo(), p.inspect(), p.calibrate(), p.eval()),
			inGroup(useGroup, p.predict(), p.serve(), p.export()),
			inGroup(scaleGroup, p.merge(), p.update(), p.reseal()),
			inGroup(installGroup, p.setup(), p.doctor(), p.version(), p.completion(), p.man(), p.help()),
		),
		Reader:                    p.stdin,
		Writer:                    p.stdout,
		ErrWriter:                 p.stderr,
		EnableBashCompletion:      true,
		HideHelp:                  true, // the command help and arrange replace those of package cli
		HideVersion:               true,
		DisableSliceFlagSeparator: true,
		ExitErrHandler:            func(*cli.Context, error) {}, // the default exits the process
	}
	for _, command := range app.Commands {
		command.HideHelp = true
		if strings.Contains(command.UsageText, "SPEC") || strings.Contains(command.Description, "SPEC") {
			command.Description += "\n\nA SPEC names a dataset: see mfgs help."
		}
		command.Description = reflowed(command.Description)
		for _, f := range command.Flags {
			markFile(f)
		}
		if command.BashComplete == nil {
			command.BashComplete = offer(command)
		}
		command.OnUsageError = func(c *cli.Context, err error, _ bool) error {
			return usagef(c.Command.Name, "%s", oneDash.ReplaceAllString(err.Error(), "for --"))
		}
	}
	return app
}

// inGroup sets the group of commands in the overview.
func inGroup(name string, commands ...*cli.Command) []*cli.Command {
	for _, c := range commands {
		c.Category = name
	}
	return commands
}

// oneDash matches a flag in the messages of package flag.
var oneDash = regexp.MustCompile(`for (flag )?-`)
