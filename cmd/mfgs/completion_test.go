package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
)

// free are the names that help has for values of which there are too many to list.
var free = []string{"TENSOR", "I/N", "N", "E", "C", "F", "P", "A", "HOST:PORT", "TIME", "MIB", "URL"}

// What a flag takes is known for every flag, so that none that comes later is forgotten.
func TestEveryFlagIsCompletable(t *testing.T) {
	for _, c := range new(program).commands() {
		for _, f := range c.Flags {
			if _, isSwitch := f.(*cli.BoolFlag); isSwitch {
				continue
			}
			name := f.Names()[0]
			placeholder, _ := unquote(f.(cli.DocGenerationFlag).GetUsage())
			placeholder = strings.TrimSpace(placeholder)
			v := valueOf(c.Name, name, placeholder)
			known := len(v.Words) > 0 || v.Paths != "" || slices.Contains(free, placeholder) || c.Name == "export" && name == "name"
			if placeholder == "" || !known {
				t.Errorf("mfgs %s --%s %s: completion knows no values, no paths, and that name is not in the list", c.Name, name, placeholder)
			}
		}
	}
}

// What is listed is what verbs accept: of each value the complaint, if any, is of something else.
func TestListedValuesAreAccepted(t *testing.T) {
	tried := 0
	for _, c := range new(program).commands() {
		for _, f := range c.Flags {
			name := f.Names()[0]
			placeholder, _ := unquote(f.(cli.DocGenerationFlag).GetUsage())
			for _, word := range valueOf(c.Name, name, strings.TrimSpace(placeholder)).Words {
				if slices.Contains([]string{"http", "grpc", "admin", "evidence", "with"}, name) {
					continue // checked when much else is there
				}
				code, _, stderr := invoke(t.Context(), c.Name, "--"+name+"="+word, "--")
				done := code == exitDone && c.Name != "doctor" // which wants nothing else
				if done || strings.Contains(stderr, word+`"`) || strings.Contains(stderr, "--"+name+" "+word) {
					t.Errorf("mfgs %s --%s=%s: exit code %d, %s", c.Name, name, word, code, stderr)
				}
				tried++
			}
		}
	}
	if tried < 100 {
		t.Errorf("%d values tried, want 100 at least", tried)
	}
}

func TestManualExplainsEveryFlag(t *testing.T) {
	code, page, stderr := invoke(t.Context(), "man")
	if code != exitDone || stderr != "" {
		t.Fatalf("exit code %d, %s", code, stderr)
	}
	for _, c := range new(program).commands() {
		_, entry, ok := strings.Cut(page, "\n.SS \"mfgs "+c.Name+"\"\n")
		entry, _, _ = strings.Cut(entry, "\n.S")
		if !ok {
			t.Errorf("nothing on mfgs %s", c.Name)
		}
		for _, f := range c.Flags {
			if term := `\fB\-\-` + strings.ReplaceAll(f.Names()[0], "-", `\-`) + `\fR`; !strings.Contains(entry, "\n.TP\n"+term) {
				t.Errorf("mfgs %s: nothing on --%s", c.Name, f.Names()[0])
			}
		}
	}
}
