package main

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/urfave/cli/v2"
)

// tool is a command with a flag of each kind.
func tool() *cli.Command {
	return &cli.Command{Name: "tool", Flags: []cli.Flag{
		&cli.StringFlag{Name: "word"},
		&cli.IntFlag{Name: "number"},
		&cli.BoolFlag{Name: "yes"},
		&cli.StringSliceFlag{Name: "many"},
	}}
}

// parsed runs arguments through arrange and package cli, as run does.
func parsed(t *testing.T, args []string) (many, positional []string, word string, number int, yes bool) {
	t.Helper()
	command := tool()
	arranged, help, err := arrange(command, args)
	if err != nil || help {
		t.Fatalf("arrange(%q): help %v, %v", args, help, err)
	}
	ran := false
	command.HideHelp = true
	command.Action = func(c *cli.Context) error {
		ran = true
		many, positional = c.StringSlice("many"), c.Args().Slice()
		word, number, yes = c.String("word"), c.Int("number"), c.Bool("yes")
		return nil
	}
	app := &cli.App{Commands: []*cli.Command{command}, Writer: io.Discard, ErrWriter: io.Discard, HideHelp: true,
		DisableSliceFlagSeparator: true, ExitErrHandler: func(*cli.Context, error) {}}
	if err := app.Run(append([]string{"mfgs", "tool"}, arranged...)); err != nil || !ran {
		t.Fatalf("%q: ran %v, %v", arranged, ran, err)
	}
	return many, positional, word, number, yes
}

func TestFlagsStandAnywhereAndCommasSplitNothing(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"--word", "w", "--number", "3", "--yes", "--many", "a,b", "--many=c=d", "x", "y z"},
		{"x", "--word", "w", "y z", "--number", "3", "--many", "a,b", "--many=c=d", "--yes"},
		{"x", "y z", "-many", "a,b", "-word=w", "--number=3", "--yes=true", "--many", "c=d"},
		{"--many", "a,b", "--many", "c=d", "--word", "w", "--yes", "--number=3", "--", "x", "y z"},
	} {
		many, positional, word, number, yes := parsed(t, args)
		if !slices.Equal(many, []string{"a,b", "c=d"}) || !slices.Equal(positional, []string{"x", "y z"}) ||
			word != "w" || number != 3 || !yes {
			t.Errorf("%q: many %q, positional %q, word %q, number %d, yes %v", args, many, positional, word, number, yes)
		}
	}
}

func TestPositionalArgumentsMayLookLikeFlagsOrVerbs(t *testing.T) {
	t.Parallel()
	// help and tool are words that package cli knows; after -- they are plain arguments.
	_, positional, word, number, _ := parsed(t, []string{"help", "--number", "-4", "tool", "-", "--word", "-x", "--", "--yes", "--"})
	if want := []string{"help", "tool", "-", "--yes", "--"}; !slices.Equal(positional, want) {
		t.Errorf("positional %q, want %q", positional, want)
	}
	if word != "-x" || number != -4 {
		t.Errorf("word %q, number %d", word, number)
	}
}

func TestMalformedArgumentsAreRefused(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"--wurd", "w"}, "unknown flag --wurd"},
		{[]string{"-x"}, "unknown flag --x"},
		{[]string{"--=w"}, "unknown flag --"},
		{[]string{"--word", "a", "--word=b"}, "--word is given twice"},
		{[]string{"--yes", "--yes"}, "--yes is given twice"},
		{[]string{"--word"}, "--word needs a value"},
		{[]string{"--word", "--many", "a"}, "--word needs a value, and --many is a flag"},
		{[]string{"--word", "--many=a"}, "--word needs a value, and --many=a is a flag"},
	} {
		_, _, err := arrange(tool(), test.args)
		var usage *usageError
		if !errors.As(err, &usage) || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "`mfgs tool --help`") {
			t.Errorf("%q: %v, want %q and a hint", test.args, err, test.want)
		}
	}
}

// No argument is lost or invented: what arrange accepts reaches the command.
func FuzzArrange(f *testing.F) {
	for _, seed := range []string{
		"--word w x --yes y --many a,b", "--many=a --many=b -- --yes", "- -- -", "--number 3 help", "x\n--word=\n-many=,",
	} {
		f.Add(strings.ReplaceAll(seed, " ", "\n"))
	}
	f.Fuzz(func(t *testing.T, joined string) {
		args := strings.Split(joined, "\n")
		arranged, help, err := arrange(tool(), args)
		if err != nil || help {
			return
		}
		end := slices.Index(arranged, "--")
		if end < 0 {
			t.Fatalf("%q: no -- in %q", args, arranged)
		}
		for _, flag := range arranged[:end] {
			name, _, ok := cutFlag(flag)
			if !ok || findFlag(tool().Flags, name) == nil || !strings.HasPrefix(flag, "--") {
				t.Fatalf("%q: %q before --", args, flag)
			}
		}
		used := len(arranged) - end - 1
		for _, positional := range arranged[end+1:] {
			if !slices.Contains(args, positional) {
				t.Fatalf("%q: %q was made up", args, positional)
			}
		}
		if used > len(args) || used+2*end+1 < len(args) {
			t.Fatalf("%q became %q", args, arranged)
		}
	})
}

func TestHelpExplainsEveryFlagIn80Columns(t *testing.T) {
	t.Parallel()
	for _, c := range new(program).app().Commands {
		code, stdout, stderr := invoke(context.Background(), c.Name, "--help")
		if code != 0 || stderr != "" {
			t.Fatalf("%s: exit code %d, %s", c.Name, code, stderr)
		}
		for line := range strings.Lines(stdout) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
				t.Errorf("%s: %d columns: %s", c.Name, n, line)
			}
		}
		for _, f := range c.Flags {
			if !strings.Contains(stdout, "   --"+f.Names()[0]) && !strings.Contains(stdout, ", --"+f.Names()[0]) {
				t.Errorf("%s: no word on --%s", c.Name, f.Names()[0])
			}
			placeholder, text := unquote(f.(cli.DocGenerationFlag).GetUsage())
			if _, isBool := f.(*cli.BoolFlag); text == "" || isBool != (placeholder == "") || strings.Contains(text, "`") {
				t.Errorf("%s: --%s%s is described as %q", c.Name, f.Names()[0], placeholder, text)
			}
		}
		if _, overview, _ := invoke(context.Background(), "--help"); !strings.Contains(overview, "\n     "+c.Name+" ") {
			t.Errorf("%s is not in the overview", c.Name)
		}
	}
}
