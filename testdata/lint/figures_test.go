package lint

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/calibrate/metrics"
)

var update = flag.Bool("update", false, "let TestTheFiguresAreDocumented write the tables into docs/methods.md")

// docs/methods.md has the tables of all figures; -update writes them.
func TestTheFiguresAreDocumented(t *testing.T) {
	const file, headline, next = root + "/docs/methods.md", "### All figures\n\n", "`--per-class` adds"
	var b strings.Builder
	head := func(of string) {
		fmt.Fprintf(&b, "%s\n\n| JSON | table | in | better | is |\n|---|---|---|---|---|\n", of)
	}
	row := func(f metrics.Figure) {
		label, better := f.Label, "lower"
		if !f.Column {
			label = ""
		}
		if f.Higher {
			better = "higher"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", f.Key, label, f.Unit, better, f.About)
	}
	head("Of probabilities on labelled data:")
	for _, f := range metrics.LabelledFigures {
		row(f.Figure)
	}
	b.WriteString("\n")
	head("Of a score, on the test set and an out-of-distribution set:")
	for _, f := range metrics.DetectionFigures {
		row(f.Figure)
	}
	b.WriteString("\n")
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(page), headline)
	shown, after, ends := strings.Cut(rest, next)
	if !found || !ends {
		t.Fatalf("%s has no part %q before %q", file, headline, next)
	}
	if shown == b.String() {
		return
	}
	if !*update {
		t.Fatalf("%s shows other figures than there are: write them with -update", file)
	}
	if err := os.WriteFile(file, []byte(before+headline+b.String()+next+after), 0o644); err != nil {
		t.Fatal(err)
	}
}
