package main

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/calibrate/approx"
)

func ptr(v float64) *float64 { return &v }

// twoRuns is a row of two networks.
func twoRuns() row {
	at := func(seed int, err, roc float64) measurement {
		d := map[string]detection{notMNIST: {.9, roc, .8, .7}}
		return measurement{seed, answer{figures: figures{Error: ptr(err), NLL: ptr(.05), ECE: ptr(.002), OOD: d,
			OODNLL: d}}}
	}
	p := place{"1", mnistName, "mf0"}
	return row{place: p, runs: []measurement{at(0, .01, .96), at(1, .02, .98)}, paper: paperSays(p)}
}

func TestEntries(t *testing.T) {
	r := &report{sections: []*section{{rows: []row{twoRuns(), {place: place{"3", imagenetName, "Deep E.(5)"}, note: "not made"}}}}}
	document, err := r.json()
	if err != nil {
		t.Fatal(err)
	}
	var all []map[string]any
	if err := json.Unmarshal(document, &all); err != nil {
		t.Fatal(err)
	}
	if len(all) != 4 {
		t.Fatalf("%d entries, want two networks, their mean, and one not made:\n%s", len(all), document)
	}
	for i, want := range []any{0., 1., "mean", nil} {
		if all[i]["seed"] != want {
			t.Errorf("entry %d has the seed %v, want %v", i, all[i]["seed"], want)
		}
		for _, key := range []string{"table", "row", "data", "error", "nll", "ece"} {
			if _, ok := all[i][key]; !ok {
				t.Errorf("entry %d has no %s", i, key)
			}
		}
	}
	mean := all[2]
	if got := mean["ood"].(map[string]any)[notMNIST].(map[string]any)["auroc"].(float64); !approx.Equal(got, .97, 1e-12) {
		t.Errorf("the mean AUROC is %v, want 0.97", got)
	}
	if got := mean["paper"].(map[string]any)["nll"]; got != .05 {
		t.Errorf("the paper's NLL is %v, want 0.05", got)
	}
	if all[3]["error"] != nil || all[3]["note"] != "not made" {
		t.Errorf("the row that is not made: %v", all[3])
	}
}

func TestRender(t *testing.T) {
	one := twoRuns()
	one.row, one.runs, one.paper, one.note = "one", one.runs[1:], nil, "slow"
	got := render([]row{twoRuns(), one, {place: place{"1", mnistName, "none"}, note: "no data"}}, inDomain[0],
		detecting(notMNIST, false)[1], detecting(notMNIST, true)[2])
	want := strings.Join([]string{
		"|  | error % | ROC | nll PR in : out |",
		"|---|---:|---:|---:|",
		"| **mf0** | 1.50 ± 0.71 | 97.0 ± 1.4 | 80.0 ± 0.0 : 70.0 ± 0.0 |",
		"| *the paper* | *1.7* | *96.9* |  |",
		"| **one** | 2.00 | 98.0 | 80.0 : 70.0 |",
		"| **none** | not made |  |  |",
		"",
		"- one: slow; of the network of seed 1 alone",
		"- none: no data",
		"",
	}, "\n")
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestSpread(t *testing.T) {
	tests := []struct {
		of           sample
		mean, spread float64
	}{
		{sample{3}, 3, 0},
		{sample{1, 3}, 2, math.Sqrt2},
		{sample{1, 2, 3}, 2, 1},
	}
	for _, test := range tests {
		if m, s := test.of.mean(), test.of.spread(); !approx.Equal(m, test.mean, 1e-15) ||
			!approx.Equal(s, test.spread, 1e-15) {
			t.Errorf("%v: %v ± %v, want %v ± %v", test.of, m, s, test.mean, test.spread)
		}
	}
}

func TestCompare(t *testing.T) {
	tests := []struct {
		name   string
		a, b   sample
		higher bool
		want   verdict
	}{
		{"better everywhere", sample{.97, .98, .96}, sample{.95, .97, .94}, true, holds},
		{"worse everywhere", sample{.95, .97, .94}, sample{.97, .98, .96}, true, fails},
		{"better but for one", sample{.97, .98, .93}, sample{.95, .95, .94}, true, open},
		{"no difference", sample{.97, .97, .97}, sample{.97, .971, .969}, true, fails},
		{"less is better", sample{.01, .02}, sample{.05, .06}, false, holds},
		{"better on average, not in one", sample{.99, .99, .9501}, sample{.95, .95, .9502}, true, open},
		{"nothing", nil, nil, true, open},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := compare(test.a, test.b, test.higher, .003); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// Rows are compared by the networks that both have.
func TestPair(t *testing.T) {
	of := func(runs ...measurement) row { return row{runs: runs} }
	at := func(seed any, err float64) measurement {
		return measurement{seed, answer{figures: figures{Error: &err}}}
	}
	all := of(at(0, .1), at(1, .2), at(2, .3))
	tests := []struct {
		name    string
		b       row
		of, and sample
	}{
		{"all", of(at(0, .4), at(1, .5), at(2, .6)), sample{.1, .2, .3}, sample{.4, .5, .6}},
		{"one", of(at(1, .5)), sample{.2}, sample{.5}},
		{"together", of(at("0-4", .5)), sample{.1, .2, .3}, sample{.5, .5, .5}},
		{"another", of(at(7, .5)), nil, nil},
		{"none", of(), nil, nil},
		{"without the quantity", of(measurement{0, answer{}}), nil, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if a, b := pair(all, test.b, errorOf); !slices.Equal(a, test.of) || !slices.Equal(b, test.and) {
				t.Errorf("got %v and %v, want %v and %v", a, b, test.of, test.and)
			}
		})
	}
}

func TestSummary(t *testing.T) {
	r := &report{sections: []*section{
		{claims: []claim{{text: "water is wet", verdict: holds, evidence: "wet", comparisons: 3},
			{text: "fire is cold", verdict: fails, but: "not so: in the middle", evidence: "hot"}}}}}
	want := "Claims of the paper that can be tried here: 2, by 3 comparisons. Borne out in full: 1; not, or not in full: 1; undecided: 0. " +
		"**Borne out:** water is wet. **Not borne out:** fire is cold (not so: in the middle)."
	if got := r.summary(); got != want {
		t.Errorf("got %q", got)
	}
	if got := r.listClaims(); !strings.Contains(got, "- **fire is cold: does not hold.** hot. (not so: in the middle)") {
		t.Errorf("got %q", got)
	}
}

// Of three rivals one is beaten, one is not, and one is beaten by some networks only.
func TestJudge(t *testing.T) {
	rows := func(name string, rocs ...float64) row {
		r := row{place: place{"4", mnistName, name}}
		for seed, roc := range rocs {
			d := map[string]detection{notMNIST: {AUROC: roc}}
			r.runs = append(r.runs, measurement{seed, answer{figures: figures{OOD: d, OODNLL: d}}})
		}
		return r
	}
	report := &report{sections: []*section{{rows: []row{
		rows("mf0", .97, .96), rows("MLE", .8, .7), rows("EDL", .98, .99), rows("Dropout", .9, .961),
	}}}}
	roc := detecting(notMNIST, false)[1]
	against := func(names ...string) []contest {
		var contests []contest
		for _, name := range names {
			contests = append(contests, contest{"4", mnistName, "mf0", name, roc, ""})
		}
		return contests
	}
	tests := []struct {
		name     string
		rivals   []string
		verdict  verdict
		but      string
		evidence string
		held     int
	}{
		{"beaten", []string{"MLE"}, holds, "", "ROC: mf0 96.5 ± 0.7, MLE 75.0 ± 7.1", 1},
		{"not beaten", []string{"EDL"}, fails, "", "ROC: mf0 96.5 ± 0.7, EDL 98.5 ± 0.7", 1},
		{"some networks", []string{"MLE", "Dropout"}, open, "undecided: Dropout", "ROC: mf0 96.5 ± 0.7, MLE 75.0 ± 7.1, Dropout 93.0 ± 4.3", 2},
		{"all", []string{"MLE", "EDL", "Dropout", "RUE"}, fails, "not so: EDL; undecided: Dropout", "ROC: mf0 96.5 ± 0.7, MLE 75.0 ± 7.1, EDL 98.5 ± 0.7, Dropout 93.0 ± 4.3", 3},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := report.results().better("mf0 wins", .003, against(test.rivals...)...)
			if len(got) != 1 || got[0] != (claim{"mf0 wins", test.verdict, test.but, test.evidence, test.held}) {
				t.Errorf("got %+v", got)
			}
		})
	}
	if got := report.results().better("mf0 wins", .003, against("RUE")...); got != nil {
		t.Errorf("a contest that was not held gives %+v", got)
	}
	if got := report.results().same("alike", .2, against("EDL", "Dropout")...); got[0].verdict != holds {
		t.Errorf("within the resolution: %+v", got)
	}
	if got := report.results().same("alike", .015, against("EDL", "Dropout")...); got[0].verdict != fails {
		t.Errorf("beyond the resolution: %+v", got)
	}
}

func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	for _, content := range []string{"one", "two"} {
		if err := writeFile(path, []byte(content)); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != content {
			t.Errorf("got %q, %v", got, err)
		}
	}
	if err := writeFile(filepath.Join(dir, "none", "a"), nil); err == nil {
		t.Error("no error where there is no folder")
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("%d files are left, %v", len(entries), err)
	}
}
