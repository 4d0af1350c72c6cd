package main

import (
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
)

// If a command with an offered value fails, it fails for another reason.
func TestOfferedValuesAreAccepted(t *testing.T) {
	t.Parallel()
	tried := 0
	for _, c := range new(program).app().Commands {
		for _, f := range c.Flags {
			choice, ok := f.(*choice)
			if !ok {
				continue
			}
			for _, word := range choice.values {
				code, _, stderr := invoke(t.Context(), c.Name, "--"+choice.Name+"="+word, "--")
				done := code == exitDone && c.Name != "doctor" // which wants nothing else
				if done || strings.Contains(stderr, word+`"`) || strings.Contains(stderr, "--"+choice.Name+" "+word) {
					t.Errorf("mfgs %s --%s=%s: exit code %d, %s", c.Name, choice.Name, word, code, stderr)
				}
				tried++
			}
		}
	}
	if tried < 80 {
		t.Errorf("%d values tried, want 80 at least", tried)
	}
}

func TestManualExplainsEveryFlag(t *testing.T) {
	t.Parallel()
	code, page, stderr := invoke(t.Context(), "man")
	if code != exitDone || stderr != "" {
		t.Fatalf("exit code %d, %s", code, stderr)
	}
	for _, c := range new(program).app().Commands {
		_, entry, ok := strings.Cut(page, "\n.SS mfgs "+c.Name+"\n")
		entry, _, _ = strings.Cut(entry, "\n.S")
		if !ok {
			t.Errorf("nothing on mfgs %s", c.Name)
		}
		for _, f := range c.Flags {
			if !strings.Contains(entry, "\n.TP\n\\fB--"+f.Names()[0]+"\\fP") {
				t.Errorf("mfgs %s: nothing on --%s", c.Name, f.Names()[0])
			}
		}
	}
}

// Fish knows the values of flags, and completes files for flags that take them.
func TestFishKnowsFlags(t *testing.T) {
	t.Parallel()
	code, script, stderr := invoke(t.Context(), "completion", "fish")
	if code != exitDone || stderr != "" {
		t.Fatalf("exit code %d, %s", code, stderr)
	}
	for _, c := range new(program).app().Commands {
		for _, f := range c.Flags {
			about := " '__fish_seen_subcommand_from " + c.Name + "' "
			switch f := f.(type) {
			case *choice:
				if want := about + "-l " + f.Name + " -r -a '" + strings.Join(f.values, " ") + "'\n"; !strings.Contains(script, want) {
					t.Errorf("no line %q", want)
				}
			case *cli.StringFlag:
				if f.TakesFile == strings.Contains(script, about+"-f -l "+f.Name+" ") {
					t.Errorf("mfgs %s --%s: takes a file: %v", c.Name, f.Name, f.TakesFile)
				}
			}
		}
	}
}
