package main

import (
	"testing"

	"github.com/mfgs/mfgs/internal/option"
	"github.com/urfave/cli/v2"
)

func TestEveryOptionThatErrorsNameHasAFlag(t *testing.T) {
	t.Parallel()
	var flags []cli.Flag
	for _, command := range new(program).app().Commands {
		flags = append(flags, command.Flags...)
	}
	for _, name := range option.All {
		if name == option.ValOOD { // of mfgs-paper compare
			continue
		}
		if flag := flagOf(name); findFlag(flags, flag[2:]) == nil {
			t.Errorf("%s: no command has the flag %s", name, flag)
		}
	}
}
