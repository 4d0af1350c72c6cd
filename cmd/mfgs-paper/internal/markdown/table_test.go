package markdown

import "testing"

func TestTables(t *testing.T) {
	numbers := NewTable("row", "NLL", "ROC")
	numbers.Row("mf0", ".05", "97.1")
	if got, want := numbers.String(), "| row | NLL | ROC |\n|---|---:|---:|\n| mf0 | .05 | 97.1 |\n"; got != want {
		t.Errorf("numbers:\n%swant\n%s", got, want)
	}
	words := NewList("claim", "verdict")
	words.Row("mf0 is best", "*holds*")
	if got, want := words.String(), "| claim | verdict |\n|---|---|\n| mf0 is best | *holds* |\n"; got != want {
		t.Errorf("words:\n%swant\n%s", got, want)
	}
	if got := NewTable("alone").String(); got != "| alone |\n|---|\n" {
		t.Errorf("one column: %s", got)
	}
}
