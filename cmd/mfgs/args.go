package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// Exit codes.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

// A usageError is a command line that cannot be meant.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

// usagef returns a usageError of a verb, "" for none, that points to its help.
func usagef(verb, format string, args ...any) error {
	name := "mfgs"
	if verb != "" {
		name += " " + verb
	}
	return &usageError{fmt.Sprintf("%s: %s\nrun `%s --help` for usage", name, oneLine(fmt.Sprintf(format, args...)), name)}
}

// findVerb returns the verb of a name, or the error that names those there are.
func findVerb(app *cli.App, name string) (*cli.Command, error) {
	if verb := app.Command(name); verb != nil {
		return verb, nil
	}
	if strings.HasPrefix(name, "-") {
		return nil, usagef("", "flag %s stands before the verb; flags follow it", name)
	}
	names := make([]string, len(app.Commands))
	for i, verb := range app.Commands {
		names[i] = verb.Name
	}
	if hint := didYouMean(name, "", names); hint != "" {
		return nil, usagef("", "unknown verb %q%s", name, hint)
	}
	return nil, usagef("", "unknown verb %q: want %s", name, alternatives(names))
}

// movedFlags are those that eval had once, with what mfgs-paper compare has in their place, "" for the same.
var movedFlags = map[string]string{
	"layers": "", "val": "", "val-ood": "", "with": "", "evidence": "", "dropout-rate": "", "draws": "",
	"checkpoint": "--with swag=FILE", "ensemble": "--with ensemble=FILE", "jackknife": "--with jackknife=FILE",
	"vi": "--with bnn-vi=FILE", "edl": "--with edl=FILE",
}

// arrange brings the arguments of a verb into the only order that package cli
// reads: flags as --name=value, then "--", then the positional arguments. It
// refuses what the flag package would take without a word: a flag that swallows
// the next one as its value, and a second value for a flag that holds one.
func arrange(verb *cli.Command, args []string) (arranged []string, help bool, err error) {
	var positional []string
	given := map[string]bool{}
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg == "--" {
			positional = append(positional, args[i+1:]...)
			break
		}
		if arg == "-" || !strings.HasPrefix(arg, "-") {
			positional = append(positional, arg)
			continue
		}
		name, value, hasValue := cutFlag(arg)
		if name == "help" || name == "h" {
			return nil, true, nil
		}
		f := findFlag(verb.Flags, name)
		if f == nil {
			if of, moved := movedFlags[name]; moved && verb.Name == "eval" {
				return nil, false, usagef(verb.Name, "unknown flag --%s: mfgs-paper compare has %s, for the methods that no bundle serves",
					name, cmp.Or(of, "it"))
			}
			hint := didYouMean(name, "--", flagNames(verb.Flags))
			return nil, false, usagef(verb.Name, "unknown flag --%s%s", name, hint)
		}
		if _, repeatable := f.(*cli.StringSliceFlag); given[f.Names()[0]] && !repeatable {
			return nil, false, usagef(verb.Name, "--%s is given twice", name)
		}
		given[f.Names()[0]] = true
		if _, isBool := f.(*cli.BoolFlag); isBool && !hasValue {
			value, hasValue = "true", true
		}
		if !hasValue {
			if i++; i == len(args) {
				return nil, false, usagef(verb.Name, "--%s wants a value", name)
			}
			value = args[i]
			if next, _, _ := cutFlag(value); strings.HasPrefix(value, "-") && findFlag(verb.Flags, next) != nil {
				return nil, false, usagef(verb.Name, "--%s wants a value, and %s is a flag (--%s=%s if it is meant)", name, value, name, value)
			}
		}
		arranged = append(arranged, "--"+name+"="+value)
	}
	return append(append(arranged, "--"), positional...), false, nil
}

// cutFlag takes -name, --name, -name=value or --name=value apart.
func cutFlag(arg string) (name, value string, hasValue bool) {
	arg = strings.TrimPrefix(strings.TrimPrefix(arg, "-"), "-")
	return strings.Cut(arg, "=")
}

func findFlag(flags []cli.Flag, name string) cli.Flag {
	for _, f := range flags {
		if slices.Contains(f.Names(), name) {
			return f
		}
	}
	return nil
}

// required refuses a command line in which one of the flags has no value.
func required(c *cli.Context, names ...string) error {
	var missing []string
	for _, name := range names {
		if c.String(name) == "" {
			missing = append(missing, "--"+name)
		}
	}
	if missing == nil {
		return nil
	}
	return usagef(c.Command.Name, "missing %s", strings.Join(missing, ", "))
}

// noArguments refuses positional arguments.
func noArguments(c *cli.Context) error {
	if c.Args().Present() {
		return usagef(c.Command.Name, "unexpected argument %q", c.Args().First())
	}
	return nil
}

// notNegative refuses negative numbers.
func notNegative(c *cli.Context, names ...string) error {
	for _, name := range names {
		if v := c.Int(name); v < 0 {
			return usagef(c.Command.Name, "--%s %d is negative", name, v)
		}
	}
	return nil
}

// oneOf refuses a flag's value that is none of those it can have.
func oneOf[S ~string](c *cli.Context, name string, want []S) error {
	if v := S(c.String(name)); !slices.Contains(want, v) {
		return usagef(c.Command.Name, "--%s %q: want %s", name, v, alternatives(want))
	}
	return nil
}
