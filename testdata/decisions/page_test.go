package main

import (
	"os"
	"slices"
	"testing"

	"github.com/mfgs/mfgs/testdata/internal/evidence"
)

// The published page has the text of this tool.
func TestThePageIsCurrent(t *testing.T) {
	published, err := os.ReadFile("../../docs/evidence/decisions.md")
	if err != nil {
		t.Fatal(err)
	}
	var all []*results
	for _, n := range networks("", "") {
		all = append(all, &results{
			network: n, pools: []*pool{{n: 15_000}}, fresh: 11_000,
			figure: map[string][]float64{"coverage  error": make([]float64, 1000)},
		})
	}
	want := evidence.Frame(evidence.Page(title, command, text(all)))
	if got := evidence.Frame(string(published)); !slices.Equal(got, want) {
		t.Errorf("docs/evidence/decisions.md has\n%q\nwant\n%q", got, want)
	}
}
