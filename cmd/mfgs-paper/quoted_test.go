package main

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write what is rendered or quoted from paper.json: paper.md, its pictures, and the figures quoted in other pages")

// A placing maps a column's data to a place in paper.json, or to an empty place for a blank cell.
type placing func(data string) place

// A unit is how a page prints a quantity.
type unit struct {
	of     quantity
	scale  float64
	digits int
	suffix string
	blank  bool // print nothing if there is no figure
}

// A quotedColumn is a column for some data. Without a quantity it holds text.
type quotedColumn struct {
	head, data string
	unit
}

// A quotedRow is a row whose first cell begins with first.
type quotedRow struct {
	first string
	at    placing
}

// A quotedTable is the table of a page with these columns.
type quotedTable struct {
	page    string // below the root
	columns []quotedColumn
	rows    []quotedRow
}

// A sentence has a figure of paper.json in place of each #. Lines may break between its words.
type sentence struct {
	page, text string
	unit
	at []place
}

// corrupted is the suffix of corrupted sets: means over all kinds.
const corrupted = ", severity 3"

// methods places a row of the tables of methods.
func methods(row string) placing {
	tables := map[string]string{
		mnistName: "4", mnistName + corrupted: "shift", allRotations: "rotation",
		cifar10Name: "cifar10", cifar10Name + corrupted: "shift", shiftName: "cifar10",
	}
	return func(data string) place { return place{tables[data], data, row} }
}

// only places a row measured on one set; other cells are blank.
func only(table, data, row string) placing {
	return func(of string) place {
		if of != data {
			return place{}
		}
		return place{table, data, row}
	}
}

// Pairs of a network and an OOD set, in the table of scores.
const (
	notMNISTPair     = mnistName + ": " + notMNIST
	tinyImageNetPair = cifar10Name + ": " + tinyImageNet
	digitsPair       = cifar10Name + ": " + digits
	noisePair        = cifar10Name + ": " + uniformNoise
	enlargedPair     = imagenetName + ": cifar10"
)

// What a score was tuned on, in the table of scores.
const (
	onNothing   = ", nothing to tune on"
	onSynthetic = ", stand-ins"
	onExamples  = ", tuned on a part" // of the very set
)

// scored places a row of the table of scores. data is a pair or a network.
func scored(row, tuned string) placing {
	pairs := map[string]string{mnistName: notMNISTPair, cifar10Name: tinyImageNetPair}
	return func(data string) place { return place{"scores", cmp.Or(pairs[data], data) + tuned, row} }
}

// aurocOn is the AUROC on a set, or on the only one that was measured.
func aurocOn(set string, nll bool) quantity {
	q := oodQuantity(set, nll, "ROC", aurocOf)
	q.of = func(f figures) *float64 {
		sets, set := f.OOD, set
		if nll {
			sets = f.OODNLL
		}
		for name := range sets {
			if len(sets) == 1 {
				set = name
			}
		}
		return oodQuantity(set, nll, "ROC", aurocOf).of(f)
	}
	return q
}

var (
	nllPrinted   = unit{of: nllOf, scale: 1, digits: 3, blank: true}
	ecePrinted   = unit{of: eceOf, scale: 100, digits: 2}
	aurocPrinted = unit{of: aurocOn(tinyImageNet, false), scale: 100, digits: 1}
	unseenAUROC  = unit{of: aurocOn("", true), scale: 100, digits: 1}
)

// percent appends a per-cent sign.
func (u unit) percent(blank bool) unit {
	u.suffix, u.blank = " %", blank
	return u
}

var quotedTables = []quotedTable{
	{"README.md", []quotedColumn{
		{"error", mnistName, unit{of: errorOf, scale: 100, digits: 2}.percent(true)},
		{"NLL", mnistName, nllPrinted},
		{"ECE", mnistName, ecePrinted.percent(true)},
		{"letters told from digits: AUROC", mnistName, aurocPrinted.percent(false)},
		{"Tiny-ImageNet from CIFAR-10", cifar10Name, aurocPrinted.percent(false)},
	}, []quotedRow{
		{"the network's softmax", methods("MLE")},
		{"temperature scaling", methods("T. Scale")},
		{"mf0, full", methods("mf0")},
		{"mf0, Kronecker", only("1", mnistName, "mf0, kron")},
		{"leverage", methods("leverage")},
		{"**studentized margin**", methods("studentized")},
		{"what `calibrate` chooses", scored("chosen", onExamples)},
	}},
	{"docs/choosing.md", []quotedColumn{
		{"MNIST", mnistName, ecePrinted},
		{"MNIST, corrupted", mnistName + corrupted, ecePrinted},
		{"MNIST, rotated", allRotations, ecePrinted},
		{"CIFAR-10", cifar10Name, ecePrinted},
		{"CIFAR-10, corrupted", cifar10Name + corrupted, ecePrinted},
		{"CIFAR-10, other encoding", shiftName, ecePrinted},
	}, []quotedRow{
		{"the network itself", methods("MLE")},
		{"temperature scaling", methods("T. Scale")},
		{"mf0", methods("mf0")},
	}},
	{"docs/choosing.md", []quotedColumn{
		{"MNIST: notMNIST (near)", notMNISTPair, aurocPrinted},
		{"CIFAR-10: Tiny-ImageNet (near)", tinyImageNetPair, aurocPrinted},
		{"ImageNet: CIFAR-10 (far)", enlargedPair, aurocPrinted},
		{"CIFAR-10: MNIST (far)", digitsPair, aurocPrinted},
		{"CIFAR-10: uniform noise", noisePair, aurocPrinted},
	}, []quotedRow{
		{"the network itself", scored("mle", onNothing)},
		{"`mf0`", scored("mf0", onNothing)},
		{"**`studentized`**", scored("studentized", onNothing)},
		{"`leverage`", scored("leverage", onNothing)},
		{"`energy`", scored("energy", onNothing)},
		{"`vim`", scored("vim", onNothing)},
		{"`knn`", scored("knn", onNothing)},
		{"`learned`", scored("learned", onSynthetic)},
		{"what `--ood` chooses", scored("chosen", onExamples)},
	}},
	{"docs/choosing.md", []quotedColumn{
		{"NLL", mnistName, nllPrinted},
		{"AUROC, tuned", mnistName, aurocPrinted},
		{"AUROC, not tuned", mnistName, unseenAUROC},
		{"costs", "", unit{}},
	}, []quotedRow{
		{"temperature scaling", methods("T. Scale")},
		{"mf0", methods("mf0")},
		{"sampling, 500 draws", only("1", mnistName, "M=500")},
		{"deep ensemble of 5", methods("Deep E.(5)")},
		{"dropout", methods("Dropout")},
		{"variational network", methods("BNN(VI)")},
		{"mf0 of all three layers", only("2", mnistName, "mf0, all three layers")},
	}},
}

var sentences = []sentence{
	{"docs/choosing.md", "the AUROC of full structure is #, that of Kronecker factors #", aurocPrinted,
		[]place{{"1", mnistName, "mf0"}, {"1", mnistName, "mf0, kron"}}},
	{"docs/choosing.md", "Chosen on held-out data the sandwich has # and the Hessian #", aurocPrinted,
		[]place{{"1", mnistName, "H^-1JH^-1"}, {"1", mnistName, "mf0"}}},
	{"docs/choosing.md", "on networks that do not interpolate, the sandwich has # and the Hessian #", aurocPrinted,
		[]place{{"short", mnistName, "H^-1JH^-1, eps = 1"}, {"short", mnistName, "mf0, eps = 1"}}},
}

// publishedMeans returns the report's figures, averaged over runs.
func publishedMeans(t *testing.T) map[place]figures {
	t.Helper()
	means := map[place]figures{}
	for at, r := range published(t).results() {
		if len(r.Runs) > 0 {
			means[at] = r.mean()
		}
	}
	return means
}

// A quoting compares a page with the report and corrects it.
type quoting struct {
	means          map[place]figures
	missing, wrong []string
}

// figure formats a figure, "?" if the report has none.
func (q *quoting) figure(p place, u unit) string {
	if p == (place{}) {
		return ""
	}
	f, ok := q.means[p]
	if ok {
		if v := u.of.of(f); v != nil {
			return fmt.Sprintf("%.*f%s", u.digits, u.scale**v, u.suffix)
		} else if u.blank {
			return ""
		}
	}
	q.missing = append(q.missing, fmt.Sprintf("paper.json lacks table %s, %s, %s, or its figure: run the part that makes it",
		p.table, p.data, p.row))
	return "?"
}

func (q *quoting) compare(where, got, want string) {
	if got != want && want != "?" {
		q.wrong = append(q.wrong, fmt.Sprintf("%s has %q, the report %q", where, got, want))
	}
}

// cells splits a line of a table.
func cells(line string) []string {
	all := strings.Split(strings.Trim(line, "|"), "|")
	for i := range all {
		all[i] = strings.TrimSpace(all[i])
	}
	return all
}

// table returns the lines with a table's figures corrected, and the line at which it begins.
func (q *quoting) table(lines []string, t quotedTable) ([]string, int, error) {
	head := []string{""}
	for _, c := range t.columns {
		head = append(head, c.head)
	}
	begin := slices.IndexFunc(lines, func(l string) bool {
		return strings.HasPrefix(l, "|") && slices.Equal(cells(l), head)
	})
	if begin < 0 || begin+2+len(t.rows) > len(lines) {
		return nil, 0, fmt.Errorf("%s has no table of %q", t.page, head)
	}
	lines = slices.Clone(lines)
	for i, r := range t.rows {
		at := begin + 2 + i
		row := cells(lines[at])
		if len(row) != len(head) || !strings.HasPrefix(row[0], r.first) {
			return nil, 0, fmt.Errorf("%s: the row %q is to have %d cells and to begin with %q",
				t.page, lines[at], len(head), r.first)
		}
		for j, c := range t.columns {
			if c.of.of == nil {
				continue
			}
			got, bold := row[j+1], strings.HasPrefix(row[j+1], "**")
			want := q.figure(r.at(c.data), c.unit)
			q.compare(fmt.Sprintf("%s: %s, %s", t.page, r.first, c.head), strings.Trim(got, "*"), want)
			if row[j+1] = want; bold {
				row[j+1] = "**" + want + "**"
			}
		}
		lines[at] = "|"
		for _, cell := range row {
			lines[at] += strings.TrimRight(" "+cell, " ") + " |"
		}
	}
	if at := begin + 2 + len(t.rows); at < len(lines) && strings.HasPrefix(lines[at], "|") {
		return nil, 0, fmt.Errorf("%s: the row %q is not declared", t.page, lines[at])
	}
	return lines, begin, nil
}

// sentence returns the text with a sentence's figures corrected.
func (q *quoting) sentence(text string, s sentence) (string, error) {
	words := strings.Fields(regexp.QuoteMeta(s.text))
	pattern := regexp.MustCompile(strings.ReplaceAll(strings.Join(words, `\s+`), "#", `(\d*\.\d+|\?)`))
	all := pattern.FindAllStringSubmatchIndex(text, -1)
	if len(all) != 1 || pattern.NumSubexp() != len(s.at) {
		return "", fmt.Errorf("%s has %d sentences %q with %d figures, want one with %d",
			s.page, len(all), s.text, pattern.NumSubexp(), len(s.at))
	}
	for i, p := range slices.Backward(s.at) { // from the end, so that positions stay
		from, to := all[0][2*i+2], all[0][2*i+3]
		want := q.figure(p, s.unit)
		q.compare(fmt.Sprintf("%s: figure %d of %q", s.page, i+1, s.text), text[from:to], want)
		text = text[:from] + want + text[to:]
	}
	return text, nil
}

func TestQuotedFiguresAreThoseOfTheReport(t *testing.T) {
	t.Parallel()
	figure := regexp.MustCompile(`\d*\.\d+`)
	q := &quoting{means: publishedMeans(t)}
	for _, page := range []string{"README.md", "docs/choosing.md"} {
		file := filepath.Join("../..", filepath.FromSlash(page))
		old, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(string(old), "\n")
		declared := map[int]bool{} // tables, by their first lines
		for _, of := range quotedTables {
			if of.page != page {
				continue
			}
			made, begin, err := q.table(lines, of)
			if err != nil {
				t.Fatal(err)
			}
			lines, declared[begin] = made, true
		}
		begin := 0
		for i, l := range lines {
			if !strings.HasPrefix(l, "|") {
				begin = i + 1
			} else if !declared[begin] && figure.MatchString(l) {
				t.Errorf("%s: a figure is in a table that is not declared: %s", page, l)
			}
		}
		text := strings.Join(lines, "\n")
		for _, s := range sentences {
			if s.page != page {
				continue
			}
			if text, err = q.sentence(text, s); err != nil {
				t.Fatal(err)
			}
		}
		if *update && text != string(old) {
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	if !*update {
		for _, w := range q.wrong {
			t.Error(w)
		}
	}
	for _, m := range q.missing {
		t.Error(m)
	}
}

func TestQuotingFindsWrongAndMissingFigures(t *testing.T) {
	t.Parallel()
	half := .5
	at := place{"4", "set", "row"}
	one := map[place]figures{at: {Error: &half}}
	u := unit{of: errorOf, scale: 100, digits: 1}
	table := quotedTable{"page",
		[]quotedColumn{{"error", "set", u}, {"why", "", unit{}}}, []quotedRow{{"row", only("4", "set", "row")}}}
	for _, c := range []struct {
		name, row, want string
		means           map[place]figures
		wrong, missing  int
	}{
		{"right", "| row | 50.0 | words |", "| row | 50.0 | words |", one, 0, 0},
		{"bold", "| row, of all | **50.1** | |", "| row, of all | **50.0** | |", one, 1, 0},
		{"not measured then", "| row | ? |  |", "| row | 50.0 | |", one, 1, 0},
		{"no row", "| row | 50.0 | words |", "| row | ? | words |", nil, 0, 1},
		{"no figure", "| row | 50.0 | words |", "| row | ? | words |", map[place]figures{at: {}}, 0, 1},
	} {
		q := &quoting{means: c.means}
		lines, _, err := q.table([]string{"text", "", "| | error | why |", "|---|---|---|", c.row, ""}, table)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if lines[4] != c.want || len(q.wrong) != c.wrong || len(q.missing) != c.missing {
			t.Errorf("%s: %q, wrong %q, missing %q", c.name, lines[4], q.wrong, q.missing)
		}
		text, err := q.sentence("It is 50.0\nof 49.9.", sentence{"page", "is # of #.", u, []place{at, at}})
		want := strings.ReplaceAll("It is 50.0 of 50.0.", "50.0", strings.Trim(cells(c.want)[1], "*"))
		if strings.Join(strings.Fields(text), " ") != want || err != nil {
			t.Errorf("%s: %q, want %q: %v", c.name, text, want, err)
		}
	}
	q := &quoting{}
	for _, lines := range [][]string{
		{"| | NLL | why |", "|---|---|---|", "| row | 1 | |"},
		{"| | error | why |", "|---|---|---|", "| other | 1 | |"},
		{"| | error | why |", "|---|---|---|", "| row | 1 | |", "| more | 1 | |"},
	} {
		if _, _, err := q.table(lines, table); err == nil {
			t.Errorf("%q is taken for the table", lines)
		}
	}
	for _, text := range []string{"nothing", "is 1.0 of 2.0. It is 1.0 of 2.0."} {
		if _, err := q.sentence(text, sentence{"page", "is # of #.", u, []place{at, at}}); err == nil {
			t.Errorf("%q is taken for the sentence", text)
		}
	}
}
