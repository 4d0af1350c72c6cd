// Mfgs gives a trained ONNX classifier honest uncertainty.
//
// Each verb stands in a file of its own: its words and flags, what it calls in
// package wrap, and the table it prints. What the verbs share is the reading of
// arguments (args.go), help (help.go), flags (flags.go), progress (progress.go),
// terminals (terminal.go) and the writing of tables and JSON (table.go, output.go).
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"syscall"

	_ "github.com/mfgs/mfgs/featurize/dataset/arrow" // Parquet and Arrow
	"github.com/mfgs/mfgs/wrap/calibration"
	"github.com/urfave/cli/v2"
)

func main() {
	limitHeap()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal asks for an orderly end; a second one ends at once.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args, os.Stdin, os.Stdout, os.Stderr))
}

// A program is one run of the command line.
type program struct {
	stdin          io.Reader
	stdout, stderr io.Writer
}

// run is the whole command line: args[0] is the name of the program. It returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	p := &program{stdin, stdout, stderr}
	err := p.run(ctx, args)
	var usage *usageError
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &usage):
		fmt.Fprintln(stderr, complaint(stderr, usage.Error()))
		return exitUsage
	case ctx.Err() != nil:
		said := "interrupted"
		if kept := (*calibration.InterruptedError)(nil); errors.As(err, &kept) {
			said = (&calibration.InterruptedError{Checkpoint: kept.Checkpoint, Err: errors.New(said)}).Error()
		}
		fmt.Fprintln(stderr, complaint(stderr, "mfgs: "+oneLine(said)))
	default:
		fmt.Fprintln(stderr, complaint(stderr, "mfgs: "+oneLine(err.Error())))
	}
	return exitFailed
}

// completeVerb is what the scripts of shells ask by.
const completeVerb = "__complete"

// commands are the verbs in the order of the help.
func (p *program) commands() []*cli.Command {
	return []*cli.Command{
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
	}
}

// run finds the verb and hands it its arguments. Help, version and the order of
// arguments are not left to package cli, which looks for flags only in front of
// positional arguments and prints its own idea of help on standard output.
func (p *program) run(ctx context.Context, args []string) error {
	commands := p.commands()
	for _, c := range commands {
		c.HideHelp = true
		c.OnUsageError = func(c *cli.Context, err error, _ bool) error {
			return usagef(c.Command.Name, "%s", oneDash.ReplaceAllString(err.Error(), "for --"))
		}
	}
	if len(args) < 2 {
		writeOverview(p.stderr, commands)
		return &usageError{text: "mfgs: no verb given"}
	}
	name, rest := args[1], args[2:]
	switch name {
	case "help", "--help", "-help", "-h":
		if len(rest) == 0 {
			return writeOverview(p.stdout, commands)
		}
		name, rest = rest[0], []string{"--help"}
	case "version", "--version", "-version", "-v":
		return p.version(rest)
	case completeVerb:
		return p.completeLine(rest)
	}
	verb := slices.IndexFunc(commands, func(c *cli.Command) bool { return c.Name == name })
	if verb < 0 {
		if strings.HasPrefix(name, "-") {
			return usagef("", "flag %s stands before the verb; flags follow it", name)
		}
		names := make([]string, len(commands))
		for i, c := range commands {
			names[i] = c.Name
		}
		if hint := didYouMean(name, "", append(names, "help", "version")); hint != "" {
			return usagef("", "unknown verb %q%s", name, hint)
		}
		return usagef("", "unknown verb %q: want %s", name, alternatives(names))
	}
	arranged, help, err := arrange(commands[verb], rest)
	if err != nil {
		return err
	}
	if help {
		return writeHelp(p.stdout, commands[verb])
	}
	app := &cli.App{
		Name:                      "mfgs",
		Commands:                  commands,
		Reader:                    p.stdin,
		Writer:                    p.stdout,
		ErrWriter:                 p.stderr,
		HideHelp:                  true,
		HideVersion:               true,
		DisableSliceFlagSeparator: true,
		ExitErrHandler:            func(*cli.Context, error) {}, // by default it exits the process
	}
	return app.RunContext(ctx, append([]string{args[0], name}, arranged...))
}

// oneDash is how the flag package names a flag.
var oneDash = regexp.MustCompile(`for (flag )?-`)
