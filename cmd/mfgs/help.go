package main

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/urfave/cli/v2"
)

// oneLiner describes mfgs in a few words.
const oneLiner = "honest uncertainty for any trained ONNX classifier"

const overview = `mfgs gives a trained ONNX classifier honest uncertainty, without retraining it: probabilities that can be
believed, and a score that detects out-of-distribution inputs.

SPEC names a dataset by its path:

  a folder     one sub-folder of PNG or JPEG images a class
  .tar         such folders; images with a label file beside the archive
               (a.tar and a-labels.txt: a path and its label a line); or
               WebDataset's
  IDX, CIFAR binary, .npy, .npz
  .csv, .jsonl, .parquet, .arrow
               the model's inputs by name, or images or their paths, and label

Several files of one format are one dataset: train-{000..127}.tar, part-*.csv. [a:b] behind it takes the
examples a to b, as in 'train.npz[0:900]'. format:path names a format that is not recognised. - or format:- is
standard input: tar, jsonl or arrow. IDX, .csv and .jsonl may be gzipped.

mfgs help VERB explains a verb.`

func (p *program) help() *cli.Command {
	return &cli.Command{
		Name:      "help",
		Usage:     "explain a verb, or list them",
		UsageText: "mfgs help [VERB]",
		BashComplete: func(c *cli.Context) {
			for _, verb := range c.App.Commands {
				fmt.Fprintln(c.App.Writer, verb.Name)
			}
		},
		Action: func(c *cli.Context) error {
			if !c.Args().Present() {
				return cli.ShowAppHelp(c)
			}
			verb, err := findVerb(c.App, c.Args().First())
			if err != nil {
				return err
			}
			return cli.ShowCommandHelp(c, verb.Name)
		},
	}
}

func init() { cli.FlagStringer = flagLines }

// flagLines returns the help of a flag: name and placeholder, then the usage from a fixed column on. The usage has
// the default in brackets, in words, since many defaults are not a value.
func flagLines(f cli.Flag) string {
	const column = 27
	placeholder, usage := unquote(f.(cli.DocGenerationFlag).GetUsage())
	term := "--" + f.Names()[0] + placeholder
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

// reflowed wraps the paragraphs of a description, except indented ones.
func reflowed(description string) string {
	const indent = "   " // of package cli
	paragraphs := strings.Split(description, "\n\n")
	for i, paragraph := range paragraphs {
		if !strings.HasPrefix(paragraph, "  ") {
			paragraphs[i] = strings.ReplaceAll(strings.TrimSpace(wrapText(indent, paragraph)), "\n"+indent, "\n")
		}
	}
	return strings.Join(paragraphs, "\n\n")
}
