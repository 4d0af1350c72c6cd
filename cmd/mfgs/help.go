package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/urfave/cli/v2"
)

// oneLiner describes mfgs in a few words.
const oneLiner = "calibrated uncertainty for any trained ONNX classifier"

const overview = `Adds calibrated uncertainty to a trained ONNX classifier without retraining it: calibrated probabilities,
and a score that detects out-of-distribution (OOD) inputs. mfgs help COMMAND explains a command.`

const datasets = `SPEC names a dataset by its path:

  folder       one sub-folder of PNG or JPEG images per class
  .tar         such folders; images with a label file next to the archive
               (a.tar and a-labels.txt, one path and label per line);
               or WebDataset
  IDX, CIFAR binary, .npy, .npz
  .csv, .jsonl, .parquet, .arrow
               one column per model input, or a column of images
               or paths of images; and label

Several files of one format are one dataset: train-{000..127}.tar, part-*.csv. [a:b] after the path selects
examples: 'train.npz[0:900]' is the first 900. format:path names the format if it is not recognised. - or
format:- is standard input: tar, jsonl or arrow. IDX, .csv and .jsonl may be gzipped.`

func (p *program) help() *cli.Command {
	return &cli.Command{
		Name:      "help",
		Usage:     "explain a command, or list all commands",
		UsageText: "mfgs help [COMMAND]",
		BashComplete: func(c *cli.Context) {
			for _, command := range c.App.Commands {
				fmt.Fprintln(c.App.Writer, command.Name)
			}
		},
		Action: func(c *cli.Context) error {
			if !c.Args().Present() {
				return cli.ShowAppHelp(c)
			}
			command, err := findCommand(c.App, c.Args().First())
			if err != nil {
				return err
			}
			return cli.ShowCommandHelp(c, command.Name)
		},
	}
}

// Groups of commands in the overview.
const (
	startGroup   = "start"
	useGroup     = "use a bundle"
	scaleGroup   = "large data and maintenance"
	installGroup = "installation and help"
)

// A group has a heading in the help.
type group[T any] struct {
	Name string
	List []T
}

// grouped groups a list by name, in the order in which the names first occur.
func grouped[T any](list []T, name func(T) string) (groups []group[T]) {
	for _, v := range list {
		i := slices.IndexFunc(groups, func(g group[T]) bool { return g.Name == name(v) })
		if i < 0 {
			i, groups = len(groups), append(groups, group[T]{Name: name(v)})
		}
		groups[i].List = append(groups[i].List, v)
	}
	return groups
}

// The templates are those of package cli, except that commands and flags keep the order in which they are listed here.
const (
	appHelp = `NAME:
   {{template "helpNameTemplate" .}}

USAGE:
   {{.UsageText}}

DESCRIPTION:
   {{template "descriptionTemplate" .}}

COMMANDS:
{{range commandGroups .}}   {{.Name}}
{{range .List}}     {{printf "%-12s" .Name}}{{.Usage}}
{{end}}
{{end}}DATASETS:
   {{wrap datasets 3}}
`
	commandHelp = `NAME:
   {{template "helpNameTemplate" .}}

USAGE:
   {{template "usageTemplate" .}}

DESCRIPTION:
   {{template "descriptionTemplate" .}}
{{with flagGroups .}}
OPTIONS:
{{range .}}   {{.Name}}

{{range .List}}   {{.}}
{{end}}
{{end}}{{end}}`
)

func init() {
	cli.FlagStringer = flagLines
	cli.AppHelpTemplate, cli.CommandHelpTemplate = appHelp, commandHelp
	cli.HelpPrinter = func(w io.Writer, template string, data any) {
		cli.HelpPrinterCustom(w, template, data, map[string]any{
			"datasets": func() string { return reflowed(datasets) },
			"commandGroups": func(app *cli.App) []group[*cli.Command] {
				return grouped(app.Commands, func(c *cli.Command) string { return c.Category })
			},
			"flagGroups": func(c *cli.Command) []group[cli.Flag] {
				return grouped(c.Flags, func(f cli.Flag) string { return f.(cli.CategorizableFlag).GetCategory() })
			},
		})
	}
}

// first moves the flags with these names to the front.
func first(flags []cli.Flag, names ...string) []cli.Flag {
	rank := func(f cli.Flag) int {
		if i := slices.Index(names, f.Names()[0]); i >= 0 {
			return i
		}
		return len(names)
	}
	slices.SortStableFunc(flags, func(a, b cli.Flag) int { return cmp.Compare(rank(a), rank(b)) })
	return flags
}

// flagLines returns the help of a flag: name and placeholder, then the usage from a fixed column on. The usage has
// the default in brackets, in words, since many defaults are not a value.
func flagLines(f cli.Flag) string {
	const column = 27
	placeholder, usage := unquote(f.(cli.DocGenerationFlag).GetUsage())
	term := "--" + f.Names()[0] + placeholder
	for _, short := range f.Names()[1:] {
		term = "-" + short + ", " + term
	}
	lines := wrapText(strings.Repeat(" ", column), usage)
	if n := utf8.RuneCountInString(term); n+5 <= column { // it fits into the first line
		lines = term + lines[n+3:]
	} else {
		lines = term + "\n" + lines
	}
	return strings.TrimSuffix(lines, "\n")
}

// unquote splits the `NAME` of a flag's value off its usage.
func unquote(usage string) (placeholder, text string) {
	name, text, ok := strings.Cut(strings.TrimPrefix(usage, "`"), "` ")
	if !ok {
		return "", usage
	}
	return " " + name, text
}

// helpIndent is the indentation of texts in package cli.
const helpIndent = 3

// reflowed wraps the paragraphs of a description, except indented ones.
func reflowed(description string) string {
	indent := strings.Repeat(" ", helpIndent)
	paragraphs := strings.Split(description, "\n\n")
	for i, paragraph := range paragraphs {
		if !strings.HasPrefix(paragraph, "  ") {
			paragraphs[i] = strings.ReplaceAll(strings.TrimSpace(wrapText(indent, paragraph)), "\n"+indent, "\n")
		}
	}
	return strings.Join(paragraphs, "\n\n")
}
