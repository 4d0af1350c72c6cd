package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/mfgs/mfgs/calibrate/conformal"
	"github.com/mfgs/mfgs/calibrate/score"
	"github.com/mfgs/mfgs/cmd/mfgs/internal/complete"
	"github.com/mfgs/mfgs/featurize/dataset"
	"github.com/mfgs/mfgs/featurize/ort"
	"github.com/mfgs/mfgs/featurize/preprocess"
	"github.com/mfgs/mfgs/onnx/head"
	"github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/bench"
	"github.com/mfgs/mfgs/wrap/export"
	"github.com/urfave/cli/v2"
)

func (p *program) completion() *cli.Command {
	return &cli.Command{
		Name:      "completion",
		Usage:     "print a script by which a shell completes command lines",
		UsageText: "mfgs completion " + strings.Join(complete.Shells, "|"),
		Description: `The shell then knows verbs, flags, the values of flags that have few, and files where
files are wanted. To have it in every new shell:

  bash   mfgs completion bash > ~/.local/share/bash-completion/completions/mfgs
         or in ~/.bashrc: source <(mfgs completion bash)
  zsh    mfgs completion zsh > "${fpath[1]}/_mfgs"
         or in ~/.zshrc, behind compinit: source <(mfgs completion zsh)
  fish   mfgs completion fish > ~/.config/fish/completions/mfgs.fish`,
		Action: func(c *cli.Context) error {
			shell := c.Args().First()
			if c.NArg() != 1 || !slices.Contains(complete.Shells, shell) {
				return usagef(c.Command.Name, "want one shell, %s", alternatives(complete.Shells))
			}
			_, err := io.WriteString(p.stdout, complete.Script(shell))
			return err
		},
	}
}

// completeLine says how a command line may go on; words[0] is the verb.
func (p *program) completeLine(words []string) error {
	_, err := complete.Line(completable(p.commands()), words).WriteTo(p.stdout)
	return err
}

// completable is what completion knows of the verbs.
func completable(commands []*cli.Command) []complete.Verb {
	verbs := make([]complete.Verb, len(commands), len(commands)+1)
	help := complete.Verb{Name: "help", About: "explain a verb", Arguments: &complete.Value{}}
	for i, c := range commands {
		verbs[i] = complete.Verb{Name: c.Name, About: c.Usage, Arguments: argumentsOf(c.Name)}
		for _, f := range c.Flags {
			verbs[i].Flags = append(verbs[i].Flags, completableFlag(c.Name, f))
		}
		help.Arguments.Words = append(help.Arguments.Words, c.Name)
	}
	return append(verbs, help)
}

func completableFlag(verb string, f cli.Flag) complete.Flag {
	placeholder, usage := unquote(f.(cli.DocGenerationFlag).GetUsage())
	_, isSwitch := f.(*cli.BoolFlag)
	_, many := f.(*cli.StringSliceFlag)
	name := f.Names()[0]
	return complete.Flag{Name: name, About: usage, Switch: isSwitch, Many: many,
		Value: valueOf(verb, name, strings.TrimSpace(placeholder))}
}

// placeholders say by the name that help has for a value which paths it may be.
var placeholders = map[string]complete.Value{
	"FILE":        {Paths: complete.Files},
	"FILE.onnx":   {Paths: complete.Files},
	"FILE|PRESET": {Paths: complete.Files},
	"FILE|DIR":    {Paths: complete.Files},
	"NPZ":         {Paths: complete.Files},
	"PATH":        {Paths: complete.Files},
	"SPEC":        {Paths: complete.Files},
	"NAME=SPEC":   {Paths: complete.Files, Named: true},
	"NAME=FILE":   {Paths: complete.Files, Named: true},
	"DIR":         {Paths: complete.Folders},
	"[NAME=]DIR":  {Paths: complete.Folders, Named: true},
	"REPOSITORY":  {Paths: complete.Folders},
}

// valueOf is what a flag of a verb takes.
func valueOf(verb, flag, placeholder string) complete.Value {
	v := placeholders[placeholder]
	if strings.HasSuffix(placeholder, "SPEC") {
		v.Formats = dataset.Formats()
	}
	switch flag {
	case "covariance":
		v.Words = texts(covariances)
	case "structure":
		v.Words = texts(structures)
	case "damping":
		v.Words = []string{"auto"}
	case "ood-score":
		v.Words = score.Names()
	case "sets":
		v.Words = texts(conformal.Scores)
	case "link":
		v.Words = texts([]head.Link{head.Softmax, head.Sigmoid, head.OneVsRest})
	case "approximate":
		v.Words = texts([]head.Approximation{head.IgnoreRelu})
	case "provider":
		v.Words = ort.Providers()
	case "preprocess":
		v.Words = preprocess.Presets
	case "format":
		v.Words = predictFormats
	case "method":
		v.Words = export.Methods()
	case "methods":
		v.Words, v.List = bench.Methods(), true
	case "http", "grpc", "admin":
		v.Words = []string{"none"}
	case "ood":
		if verb != "update" {
			v.Words = []string{wrap.StandIns}
		}
	}
	return v
}

// argumentsOf is what stands behind a verb without a flag, nil for nothing.
func argumentsOf(verb string) *complete.Value {
	switch verb {
	case "inspect":
		return &complete.Value{Paths: complete.Files}
	case "predict":
		return &complete.Value{Paths: complete.Files, Formats: dataset.Formats()}
	case "merge", "reseal":
		return &complete.Value{Paths: complete.Folders}
	case "completion":
		return &complete.Value{Words: complete.Shells}
	}
	return nil
}

func texts[S ~string](names []S) []string {
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = fmt.Sprint(name)
	}
	return out
}
