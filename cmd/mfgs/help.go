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

// oneLiner is what mfgs is in a few words.
const oneLiner = "honest uncertainty for any trained ONNX classifier"

const overview = `mfgs gives a trained ONNX classifier honest uncertainty, without retraining it:
probabilities that can be believed, and a score that tells inputs unlike
anything it was trained on.

usage: mfgs VERB [flags]

`

const specHelp = `
SPEC names a dataset by its path:
  a folder     one sub-folder of PNG or JPEG images a class
  .tar         such folders; images with a label file beside the archive (a.tar
               and a-labels.txt: a path and its label a line); or WebDataset's
  IDX, CIFAR binary, .npy, .npz
  .csv, .jsonl, .parquet, .arrow
               the model's inputs by name, or images or their paths, and label
Several files of one format are one dataset: train-{000..127}.tar, part-*.csv.
[a:b] behind it takes the examples a to b, as in 'train.npz[0:900]'.
format:path names a format that is not recognised. - or format:- is standard
input: tar, jsonl or arrow. IDX, .csv and .jsonl may be gzipped.
`

// writeOverview lists the verbs.
func writeOverview(w io.Writer, commands []*cli.Command) error {
	var b strings.Builder
	b.WriteString(overview)
	for _, c := range commands {
		entry(&b, c.Name, c.Usage, 14)
	}
	b.WriteString(specHelp)
	b.WriteString("\nRun `mfgs VERB --help` for the flags of a verb, `mfgs --version` for the version.\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// writeHelp explains one verb. Flags stand in the order of the verb's file, by category.
func writeHelp(w io.Writer, c *cli.Command) error {
	var b strings.Builder
	fmt.Fprintf(&b, "mfgs %s: %s\n\nusage: %s\n", c.Name, c.Usage, strings.ReplaceAll(c.UsageText, "\n", "\n       "))
	for paragraph := range strings.SplitSeq(c.Description, "\n\n") {
		switch {
		case strings.HasPrefix(paragraph, "  "): // a list, laid out already
			b.WriteString("\n" + strings.TrimSuffix(paragraph, "\n") + "\n")
		case paragraph != "":
			b.WriteString("\n" + wrapText("", paragraph))
		}
	}
	for _, group := range byCategory(c.Flags) {
		fmt.Fprintf(&b, "\n%s:\n", group.title)
		for _, f := range group.flags {
			placeholder, usage := unquote(f.(cli.DocGenerationFlag).GetUsage())
			entry(&b, "--"+f.Names()[0]+placeholder, usage, 26)
		}
	}
	if strings.Contains(c.UsageText, "SPEC") {
		b.WriteString(specHelp)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// A flagGroup is flags below a heading.
type flagGroup struct {
	title string
	flags []cli.Flag
}

// byCategory puts flags of a category together, in the order of the first of each.
func byCategory(flags []cli.Flag) (groups []flagGroup) {
	for _, f := range flags {
		title := cmp.Or(f.(cli.CategorizableFlag).GetCategory(), "flags")
		at := slices.IndexFunc(groups, func(g flagGroup) bool { return g.title == title })
		if at < 0 {
			at = len(groups)
			groups = append(groups, flagGroup{title: title})
		}
		groups[at].flags = append(groups[at].flags, f)
	}
	return groups
}

// unquote takes the `NAME` of a flag's value off its description.
func unquote(usage string) (placeholder, text string) {
	name, text, ok := strings.Cut(strings.TrimPrefix(usage, "`"), "` ")
	if !ok {
		return "", usage
	}
	return " " + name, text
}

// entry writes a term and its description, which starts at a column and wraps.
func entry(b *strings.Builder, term, text string, column int) {
	term = "  " + term
	if utf8.RuneCountInString(term)+2 > column {
		b.WriteString(term + "\n")
		term = ""
	}
	b.WriteString(wrapText(term+strings.Repeat(" ", column-utf8.RuneCountInString(term)), text))
}
