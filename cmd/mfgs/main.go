// Mfgs gives a trained ONNX classifier calibrated uncertainty.
//
// Each command has a file with its flags, the call into package wrap, and the table it prints. The commands share
// arguments (args.go), help (help.go), flags (flags.go, settings.go), error messages (advice.go), progress
// (progress.go), terminals (terminal.go), and tables and JSON (table.go, output.go).
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	_ "github.com/mfgs/mfgs/featurize/dataset/arrow" // Parquet and Arrow
	"github.com/mfgs/mfgs/wrap/calibration"
)

func main() {
	limitHeap()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal cancels ctx; the second one ends the process.
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
		fmt.Fprintln(stderr, redPrefix(stderr, usage.Error()))
		return exitUsage
	case ctx.Err() != nil:
		interrupted := errors.New("interrupted")
		if kept := (*calibration.InterruptedError)(nil); errors.As(err, &kept) {
			interrupted = &calibration.InterruptedError{Checkpoint: kept.Checkpoint, Err: interrupted}
		}
		fmt.Fprintln(stderr, redPrefix(stderr, "mfgs: "+oneLine(interrupted.Error())))
	default:
		fmt.Fprintln(stderr, redPrefix(stderr, "mfgs: "+oneLine(err.Error())))
	}
	return exitFailed
}

// synonyms are flags that stand in place of a command.
var synonyms = map[string]string{
	"--help": "help", "-help": "help", "-h": "help",
	"--version": "version", "-version": "version", "-v": "version",
}

// run arranges the arguments for package cli and runs the command.
func (p *program) run(ctx context.Context, args []string) error {
	app := p.app()
	out := &stickyWriter{w: app.Writer}
	app.Writer = out
	runApp := func(args ...string) error { return cmp.Or(app.RunContext(ctx, args), out.err) }
	if len(args) < 2 {
		app.Writer = p.stderr
		return cmp.Or(runApp(args[0], "help"), error(&usageError{text: "mfgs: no command given"}))
	}
	if args[len(args)-1] == "--generate-bash-completion" {
		return runApp(args...)
	}
	command, err := findCommand(app, cmp.Or(synonyms[args[1]], args[1]))
	if err != nil {
		return err
	}
	arranged, help, err := arrange(command, args[2:])
	if err != nil {
		return err
	}
	if help {
		return runApp(args[0], "help", command.Name)
	}
	return runApp(append([]string{args[0], command.Name}, arranged...)...)
}

// stickyWriter keeps the first write error, which package cli drops when it prints help.
type stickyWriter struct {
	w   io.Writer
	err error
}

func (s *stickyWriter) Write(b []byte) (int, error) {
	n, err := s.w.Write(b)
	s.err = cmp.Or(s.err, err)
	return n, err
}
