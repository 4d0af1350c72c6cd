package main

import (
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/mfgs/mfgs/internal/install"
	"github.com/urfave/cli/v2"
)

func (p *program) man() *cli.Command {
	return &cli.Command{
		Name:      "man",
		Usage:     "print the manual page",
		UsageText: "mfgs man",
		Description: `The help of all commands as a manual page. To read it, or to install it for man:

  mfgs man | man -l -
  mfgs man > ~/.local/share/man/man1/mfgs.1`,
		Action: func(c *cli.Context) error {
			if err := noArguments(c); err != nil {
				return err
			}
			page, err := manualPage(c.App, readVersions())
			if err == nil {
				_, err = io.WriteString(p.stdout, page)
			}
			return err
		},
	}
}

// manual is the Markdown template of the manual page, which package cli converts to roff.
const manual = `% "MFGS" "1" "{{.App.Metadata.date}}" "{{.App.Metadata.version}}" "User Commands"
# NAME
mfgs - {{.App.Usage}}

# SYNOPSIS
**mfgs** COMMAND [flags]

# DESCRIPTION
{{.App.Description}}

# DATASETS
{{.App.Metadata.datasets}}

# COMMANDS
{{range .App.VisibleCommands}}
### mfgs {{.Name}}
{{.Usage}}

` + "```\n{{.UsageText}}\n```" + `

{{.Description}}

{{range index $.App.Metadata.flags .Name}}
**--{{index . 0}}**{{with index . 1}} *{{.}}*{{end}}
: {{index . 2}}
{{end}}{{end}}
# ENVIRONMENT
{{range .App.Metadata.environment}}
**{{index . 0}}**
: {{index . 1}}
{{end}}
# EXIT STATUS
**0**
: done

**1**
: failed; standard error gives the reason in one line

**2**
: wrong usage

# SEE ALSO
https://github.com/mfgs/mfgs
`

func init() { cli.MarkdownDocTemplate = manual }

// environment describes the environment variables.
var environment = [][2]string{
	{install.EnvLibrary, "ONNX Runtime library, or its folder"},
	{install.EnvNoInstall, "never install ONNX Runtime, if set to anything but 0 or false"},
	{tokenVariable, "bearer token that requests to mfgs serve must send"},
	{"NO_COLOR", "no colours, if set to anything"},
	{"GOGC, GOMEMLIMIT", "as in every Go program; they override what mfgs chooses"},
}

// manualPage returns the help of all commands in the macros of man(7).
func manualPage(app *cli.App, v versions) (string, error) {
	flags := map[string][][3]string{} // by command: name, placeholder and usage
	app.Metadata = map[string]any{"date": pageDate(v), "version": "mfgs " + v.Version, "environment": environment, "datasets": verbatim(datasets), "flags": flags}
	app.Description = verbatim(app.Description)
	for _, command := range app.Commands {
		command.Description = verbatim(command.Description)
		for _, f := range command.Flags {
			placeholder, usage := unquote(f.(cli.DocGenerationFlag).GetUsage())
			row := [3]string{f.Names()[0], strings.TrimSpace(placeholder), usage}
			flags[command.Name] = append(flags[command.Name], row)
		}
	}
	return app.ToManWithSection(1)
}

// verbatim fences indented paragraphs as Markdown code blocks.
func verbatim(text string) string {
	paragraphs := strings.Split(text, "\n\n")
	for i, paragraph := range paragraphs {
		if strings.HasPrefix(paragraph, "  ") {
			paragraphs[i] = "```\n" + paragraph + "\n```"
		}
	}
	return strings.Join(paragraphs, "\n\n")
}

// pageDate is the date of SOURCE_DATE_EPOCH (reproducible builds), else of the commit, else "".
func pageDate(v versions) string {
	if seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64); err == nil {
		return time.Unix(seconds, 0).UTC().Format(time.DateOnly)
	}
	day, _, _ := strings.Cut(v.Time, "T")
	return day
}
