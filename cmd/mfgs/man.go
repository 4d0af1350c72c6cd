package main

import (
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/mfgs/mfgs/cmd/mfgs/internal/roff"
	"github.com/mfgs/mfgs/internal/install"
	"github.com/urfave/cli/v2"
)

func (p *program) man() *cli.Command {
	return &cli.Command{
		Name:      "man",
		Usage:     "print the manual page",
		UsageText: "mfgs man",
		Description: `What mfgs help says of all verbs, as a manual page. To read it, and to have it where
man looks:

  mfgs man | man -l -
  mfgs man > ~/.local/share/man/man1/mfgs.1`,
		Action: func(c *cli.Context) error {
			if err := noArguments(c); err != nil {
				return err
			}
			_, err := manualPage(p.commands(), readVersions()).WriteTo(p.stdout)
			return err
		},
	}
}

// environment is what variables do.
var environment = [][2]string{
	{install.EnvLibrary, "ONNX Runtime's library, or its folder"},
	{install.EnvNoInstall, "set to anything but 0 or false, never install ONNX Runtime"},
	{tokenVariable, "the bearer token that requests to mfgs serve must have"},
	{"NO_COLOR", "set to anything, no colours"},
	{"GOGC", "as for every Go program: it replaces what calibrate and serve choose"},
}

// manualPage is the help of all verbs.
func manualPage(commands []*cli.Command, v versions) *roff.Page {
	page := new(roff.Page)
	page.Title("mfgs", pageDate(v), "mfgs "+v.Version, "User Commands")
	page.Section("Name")
	page.Text("mfgs - " + oneLiner)
	page.Section("Synopsis")
	page.Text("mfgs VERB [flags]")
	page.Section("Description")
	about, _, _ := strings.Cut(overview, "\n\n")
	page.Text(about)
	page.Section("Commands")
	for _, c := range commands {
		manualEntry(page, c)
	}
	page.Section("Datasets")
	spec, formats, _ := strings.Cut(strings.TrimSpace(specHelp), "\n")
	page.Text(spec)
	page.Lines(formats)
	page.Section("Environment")
	for _, e := range environment {
		page.Term(e[0], "", e[1])
	}
	page.Section("Exit status")
	page.Term("0", "", "done")
	page.Term("1", "", "failed; standard error says why in one line")
	page.Term("2", "", "wrong usage")
	page.Section("See also")
	page.Text("https://github.com/mfgs/mfgs")
	return page
}

// manualEntry is the help of a verb.
func manualEntry(page *roff.Page, c *cli.Command) {
	page.Subsection("mfgs " + c.Name)
	page.Text(c.Usage)
	page.Lines(c.UsageText)
	for paragraph := range strings.SplitSeq(c.Description, "\n\n") {
		switch {
		case strings.HasPrefix(paragraph, "  "): // a list, laid out already
			page.Lines(paragraph)
		case paragraph != "":
			page.Paragraph(paragraph)
		}
	}
	for _, group := range byCategory(c.Flags) {
		page.Paragraph(group.title + ":")
		for _, f := range group.flags {
			placeholder, usage := unquote(f.(cli.DocGenerationFlag).GetUsage())
			page.Term("--"+f.Names()[0], strings.TrimSpace(placeholder), usage)
		}
	}
}

// pageDate is that of SOURCE_DATE_EPOCH, by which builds are repeated, or of the commit, else "".
func pageDate(v versions) string {
	if seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64); err == nil {
		return time.Unix(seconds, 0).UTC().Format(time.DateOnly)
	}
	day, _, _ := strings.Cut(v.Time, "T")
	return day
}
