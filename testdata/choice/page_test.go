package main

import (
	"os"
	"slices"
	"testing"

	"github.com/mfgs/mfgs/testdata/internal/evidence"
)

// The published page has the text of this tool.
func TestThePageIsCurrent(t *testing.T) {
	published, err := os.ReadFile("../../docs/evidence/choice.md")
	if err != nil {
		t.Fatal(err)
	}
	want := evidence.Frame(evidence.Page(title, command, text(networks(folders{}), nil, nil)))
	if got := evidence.Frame(string(published)); !slices.Equal(got, want) {
		t.Errorf("docs/evidence/choice.md has\n%q\nwant\n%q", got, want)
	}
}
