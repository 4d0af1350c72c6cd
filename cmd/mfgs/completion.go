package main

import (
	"embed"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// shells are the shells with a completion script.
var shells = []string{"bash", "zsh", "fish"}

// scripts call the program with package cli's --generate-bash-completion.
//
//go:embed shells
var scripts embed.FS

func (p *program) completion() *cli.Command {
	return &cli.Command{
		Name:      "completion",
		Usage:     "print the completion script of a shell",
		UsageText: "mfgs completion " + strings.Join(shells, "|"),
		Description: `Completes commands, flags, values of flags, and files. To install it for every new shell:

  bash  in ~/.bashrc: source <(mfgs completion bash)
  zsh   in ~/.zshrc, after compinit: source <(mfgs completion zsh)
        or: mfgs completion zsh > "${fpath[1]}/_mfgs"
  fish  mfgs completion fish > ~/.config/fish/completions/mfgs.fish`,
		BashComplete: func(c *cli.Context) { fmt.Fprintln(c.App.Writer, strings.Join(shells, "\n")) },
		Action: func(c *cli.Context) error {
			shell := c.Args().First()
			if c.NArg() != 1 || !slices.Contains(shells, shell) {
				return usagef(c.Command.Name, "want one shell: %s", alternatives(shells))
			}
			script, err := completionScript(c.App, shell)
			if err == nil {
				_, err = io.WriteString(p.stdout, script)
			}
			return err
		},
	}
}

// completionScript returns the completion script of a shell.
func completionScript(app *cli.App, shell string) (string, error) {
	if shell != "fish" {
		script, err := scripts.ReadFile("shells/mfgs." + shell)
		return string(script), err
	}
	script, err := app.ToFishCompletion()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString(strings.ReplaceAll(script, "`", ""))
	for _, command := range app.Commands {
		for _, f := range command.Flags {
			if choice, ok := f.(*choice); ok {
				fmt.Fprintf(&b, "complete -c mfgs -n '__fish_seen_subcommand_from %s' -l %s -r -a '%s'\n",
					command.Name, choice.Name, strings.Join(choice.values, " "))
			}
		}
	}
	fmt.Fprintf(&b, "complete -c mfgs -n '__fish_seen_subcommand_from completion' -f -a '%s'\n", strings.Join(shells, " "))
	fmt.Fprint(&b, "complete -c mfgs -n '__fish_seen_subcommand_from help' -f -a '")
	for _, command := range app.Commands {
		fmt.Fprint(&b, command.Name, " ")
	}
	b.WriteString("'\n")
	return b.String(), nil
}

// file matches the placeholders of values that are paths.
var file = regexp.MustCompile(`FILE|DIR|PATH|SPEC|REPOSITORY`)

// markFile marks a flag that takes a file, for fish, whose script lists all flags.
func markFile(f cli.Flag) {
	switch f := f.(type) {
	case *cli.StringFlag:
		placeholder, _ := unquote(f.Usage)
		f.TakesFile = file.MatchString(placeholder)
	case *cli.StringSliceFlag:
		placeholder, _ := unquote(f.Usage)
		f.TakesFile = file.MatchString(placeholder)
	}
}

// offer completes the command line of a command: with the values of the last word's flag, else with what package
// cli offers. An incomplete word is among the arguments if it begins with a dash.
func offer(command *cli.Command) cli.BashCompleteFunc {
	flags := cli.DefaultCompleteWithFlags(command)
	return func(c *cli.Context) {
		last := os.Args[len(os.Args)-2]
		name, _, hasValue := cutFlag(last)
		choice, ok := findFlag(command.Flags, name).(*choice)
		if !ok || !strings.HasPrefix(last, "-") {
			flags(c)
			return
		}
		before := ""
		if hasValue {
			before, _, _ = strings.Cut(last, "=")
			before += "="
		}
		for _, value := range choice.values {
			fmt.Fprintln(c.App.Writer, before+value)
		}
	}
}
