package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
)

// A usageError reports an invalid command line.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

// parseFlags parses the flags of a command, and refuses positional arguments. --help prints the flags.
func parseFlags(f *flag.FlagSet, args []string, stdout io.Writer, needed string) error {
	f.SetOutput(io.Discard) // run prints errors
	err := f.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprintf(stdout, "usage: %s %s [flags]\n", f.Name(), needed)
		f.SetOutput(stdout)
		f.PrintDefaults()
		return err
	case err != nil:
		return &usageError{err.Error()}
	case f.NArg() > 0:
		return &usageError{fmt.Sprintf("unexpected argument %q: there are only flags", f.Arg(0))}
	}
	return nil
}
