package main

import "testing"

func TestMarkdownTablesAlignNumbers(t *testing.T) {
	t.Parallel()
	numbers := numberTable("row", "NLL", "ROC")
	numbers.row("mf0", ".05", "97.1")
	if got, want := numbers.String(), "| row | NLL | ROC |\n|---|---:|---:|\n| mf0 | .05 | 97.1 |\n"; got != want {
		t.Errorf("numbers:\n%swant\n%s", got, want)
	}
	words := textTable("claim", "verdict")
	words.row("mf0 is best", "*holds*")
	if got, want := words.String(), "| claim | verdict |\n|---|---|\n| mf0 is best | *holds* |\n"; got != want {
		t.Errorf("words:\n%swant\n%s", got, want)
	}
	if got := numberTable("alone").String(); got != "| alone |\n|---|\n" {
		t.Errorf("one column: %s", got)
	}
}
