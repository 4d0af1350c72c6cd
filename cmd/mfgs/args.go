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

// A usageError reports a wrong command line: exit code 2.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

// usagef returns a usageError that points to the help of a command; "" is mfgs itself.
func usagef(command, format string, args ...any) error {
	name := "mfgs"
	if command != "" {
		name += " " + command
	}
	return &usageError{fmt.Sprintf("%s: %s\nrun `%s --help` for usage", name, oneLine(fmt.Sprintf(format, args...)), name)}
}

// findCommand returns a command by name, or an error that lists the commands.
func findCommand(app *cli.App, name string) (*cli.Command, error) {
	if command := app.Command(name); command != nil {
		return command, nil
	}
	if strings.HasPrefix(name, "-") {
		return nil, usagef("", "flag %s is before the command: flags go after it", name)
	}
	names := make([]string, len(app.Commands))
	for i, command := range app.Commands {
		names[i] = command.Name
	}
	if hint := didYouMean(name, "", names); hint != "" {
		return nil, usagef("", "unknown command %q%s", name, hint)
	}
	return nil, usagef("", "unknown command %q: want %s", name, alternatives(names))
}

// movedFlags are flags that eval no longer has, with their replacement in mfgs-paper compare; "" if it has the same.
var movedFlags = map[string]string{
	"layers": "", "val": "", "val-ood": "", "with": "", "evidence": "", "dropout-rate": "", "draws": "",
	"checkpoint": "--with swag=FILE", "ensemble": "--with ensemble=FILE", "jackknife": "--with jackknife=FILE",
	"vi": "--with bnn-vi=FILE", "edl": "--with edl=FILE",
}

// arrange puts the arguments of a command into the only order that package cli reads: flags as --name=value,
// then "--", then the positional arguments. It refuses two things that package flag accepts silently:
// a flag that takes the next flag as its value, and a flag given twice.
func arrange(command *cli.Command, args []string) (arranged []string, help bool, err error) {
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
		f := findFlag(command.Flags, name)
		if f == nil {
			if of, moved := movedFlags[name]; moved && command.Name == "eval" {
				return nil, false, usagef(command.Name, "unknown flag --%s: mfgs-paper compare has %s, for methods that no bundle can use",
					name, cmp.Or(of, "it"))
			}
			hint := didYouMean(name, "--", flagNames(command.Flags))
			return nil, false, usagef(command.Name, "unknown flag --%s%s", name, hint)
		}
		if _, repeatable := f.(*cli.StringSliceFlag); given[f.Names()[0]] && !repeatable {
			return nil, false, usagef(command.Name, "--%s is given twice", name)
		}
		given[f.Names()[0]] = true
		if _, isBool := f.(*cli.BoolFlag); isBool && !hasValue {
			value, hasValue = "true", true
		}
		if !hasValue {
			if i++; i == len(args) {
				return nil, false, usagef(command.Name, "--%s needs a value", name)
			}
			value = args[i]
			if next, _, _ := cutFlag(value); strings.HasPrefix(value, "-") && findFlag(command.Flags, next) != nil {
				return nil, false, usagef(command.Name, "--%s needs a value, and %s is a flag: write --%s=%s if you mean it", name, value, name, value)
			}
		}
		arranged = append(arranged, "--"+name+"="+value)
	}
	return append(append(arranged, "--"), positional...), false, nil
}

// cutFlag splits -name, --name, -name=value or --name=value.
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

// required returns an error if any of the flags has no value.
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

// noArguments returns an error if there are positional arguments.
func noArguments(c *cli.Context) error {
	if c.Args().Present() {
		return usagef(c.Command.Name, "unexpected argument %q", c.Args().First())
	}
	return nil
}

// notNegative returns an error if any of the flags is negative.
func notNegative(c *cli.Context, names ...string) error {
	for _, name := range names {
		if v := c.Int(name); v < 0 {
			return usagef(c.Command.Name, "--%s %d is negative", name, v)
		}
	}
	return nil
}

// oneOf returns an error if the value of a flag is not in want.
func oneOf[S ~string](c *cli.Context, name string, want []S) error {
	if v := S(c.String(name)); !slices.Contains(want, v) {
		return usagef(c.Command.Name, "--%s %q: want %s", name, v, alternatives(want))
	}
	return nil
}
