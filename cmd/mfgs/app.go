package main

import (
	"regexp"

	"github.com/urfave/cli/v2"
)

// app returns the verbs, in the order of the help.
func (p *program) app() *cli.App {
	app := &cli.App{
		Name:        "mfgs",
		Usage:       oneLiner,
		UsageText:   "mfgs VERB [flags]",
		Description: reflowed(overview),
		Commands: []*cli.Command{
			p.inspect(),
			p.calibrate(),
			p.merge(),
			p.update(),
			p.eval(),
			p.predict(),
			p.export(),
			p.serve(),
			p.reseal(),
			p.setup(),
			p.doctor(),
			p.completion(),
			p.man(),
			p.demo(),
			p.version(),
			p.help(),
		},
		Reader:                    p.stdin,
		Writer:                    p.stdout,
		ErrWriter:                 p.stderr,
		EnableBashCompletion:      true,
		HideHelp:                  true, // the verb help and arrange replace those of package cli
		HideVersion:               true,
		DisableSliceFlagSeparator: true,
		ExitErrHandler:            func(*cli.Context, error) {}, // the default exits the process
	}
	for _, verb := range app.Commands {
		verb.HideHelp = true
		verb.Description = reflowed(verb.Description)
		for _, f := range verb.Flags {
			markFile(f)
		}
		if verb.BashComplete == nil {
			verb.BashComplete = offer(verb)
		}
		verb.OnUsageError = func(c *cli.Context, err error, _ bool) error {
			return usagef(c.Command.Name, "%s", oneDash.ReplaceAllString(err.Error(), "for --"))
		}
	}
	return app
}

// oneDash matches a flag in the messages of package flag.
var oneDash = regexp.MustCompile(`for (flag )?-`)
