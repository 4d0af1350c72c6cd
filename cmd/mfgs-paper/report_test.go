package main

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func ptr(v float64) *float64 { return &v }

// twoRuns is a row of two networks.
func twoRuns() row {
	at := func(seed int, err, roc float64) measurement {
		d := map[string]detection{notMNIST: {.9, roc, .8, .7}}
		return measurement{seed, answer{figures: figures{Error: ptr(err), NLL: ptr(.05), ECE: ptr(.002), OOD: d, OODNLL: d}}}
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
	if got := mean["ood"].(map[string]any)[notMNIST].(map[string]any)["auroc"].(float64); math.Abs(got-.97) > 1e-12 {
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
	got := render([]row{twoRuns(), {place: place{"1", mnistName, "none"}, note: "no data"}}, inDomain[0], detecting(notMNIST, false)[1], detecting(notMNIST, true)[2])
	want := strings.Join([]string{
		"|  | error % | ROC | nll PR in : out |",
		"|---|---:|---:|---:|",
		"| **mf0** | 1.50 ± 0.71 | 97.0 ± 1.4 | 80.0 ± 0.0 : 70.0 ± 0.0 |",
		"| *the paper* | *1.7* | *96.9* |  |",
		"| **none** | not made |  |  |",
		"",
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
		if m, s := test.of.mean(), test.of.spread(); math.Abs(m-test.mean) > 1e-15 || math.Abs(s-test.spread) > 1e-15 {
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
		{"one for all", sample{.97, .98}, sample{.95}, true, holds},
		{"nothing", nil, sample{.95}, true, open},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := compare(test.a, test.b, test.higher, .003); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestSummary(t *testing.T) {
	r := &report{sections: []*section{{claims: []claim{{"water is wet", holds, "wet"}, {"fire is cold", fails, "hot"}}}}}
	want := "Of 2 claims of the paper that can be tried here, 1 hold, 1 do not, and 0 cannot be told. **These hold**: water is wet. **These do not hold**: fire is cold."
	if got := summary(r); got != want {
		t.Errorf("got %q", got)
	}
	if got := listClaims(r); !strings.Contains(got, "| fire is cold | does not hold | hot |") {
		t.Errorf("got %q", got)
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
