package main

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/internal/approx"
)

func ptr(v float64) *float64 { return &v }

// of returns a measurement on one network.
func of(seed int, f figures) measurement {
	return measurement{Seed: seed, Networks: []int{seed}, answer: answer{figures: f}}
}

// twoRuns returns a row with two networks.
func twoRuns() row {
	at := func(seed int, err, roc float64) measurement {
		d := map[string]detection{notMNIST: {.9, roc, .8, .7}}
		return of(seed, figures{Error: ptr(err), NLL: ptr(.05), ECE: ptr(.002), OOD: d, OODNLL: d})
	}
	p := place{"1", mnistName, "mf0"}
	return row{place: p, Runs: []measurement{at(0, .01, .96), at(1, .02, .98)}, Paper: paperFigures(p)}
}

func TestPaperJSONHasRunsAndTheirMean(t *testing.T) {
	t.Parallel()
	r := &report{sections: []*section{{Name: "table3", Rows: []row{twoRuns(), {place: place{"3", imagenetName, "Deep E.(5)"}, Note: "not run"}}}}}
	data, err := r.json()
	if err != nil {
		t.Fatal(err)
	}
	var all []map[string]any
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	all = all[2:] // what made it, and the part
	if len(all) != 4 {
		t.Fatalf("%d entries, want two networks, their mean, and one not run:\n%s", len(all), data)
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
	if all[3]["error"] != nil || all[3]["note"] != "not run" {
		t.Errorf("the row that was not run: %v", all[3])
	}
}

func TestTablesShowMeansDeviationsAndThePaper(t *testing.T) {
	t.Parallel()
	one := twoRuns()
	one.row, one.Runs, one.Paper, one.Note = "one", one.Runs[1:], nil, "slow"
	got := render([]row{twoRuns(), one, {place: place{"1", mnistName, "none"}, Note: "no data"}}, inDomain[0],
		detectionColumns(notMNIST, false)[1], detectionColumns(notMNIST, true)[2])
	want := strings.Join([]string{
		"|  | error % | AUROC | AUPR in : out (NLL) |",
		"|---|---:|---:|---:|",
		"| **mf0** | 1.50 ± 0.71 | 97.0 ± 1.4 | 80.0 ± 0.0 : 70.0 ± 0.0 |",
		"| *paper* | *1.7* | *96.9* |  |",
		"| **one** | 2.00 | 98.0 | 80.0 : 70.0 |",
		"| **none** | not run |  |  |",
		"",
		"- one: slow; 1 of the 2 networks",
		"- none: no data",
		"",
	}, "\n")
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestMeanAndStandardDeviation(t *testing.T) {
	t.Parallel()
	tests := []struct {
		of           sample
		mean, stdDev float64
	}{
		{sample{3}, 3, 0},
		{sample{1, 3}, 2, math.Sqrt2},
		{sample{1, 2, 3}, 2, 1},
	}
	for _, test := range tests {
		if m, s := test.of.mean(), test.of.stdDev(); !approx.Equal(m, test.mean, 1e-15) ||
			!approx.Equal(s, test.stdDev, 1e-15) {
			t.Errorf("%v: %v ± %v, want %v ± %v", test.of, m, s, test.mean, test.stdDev)
		}
	}
}

func TestResultsOfIntervals(t *testing.T) {
	t.Parallel()
	roc, err := rocOf(notMNIST), errorOf // within .003, and within .001
	tests := []struct {
		name string
		q    quantity
		i    [2]float64
		want result
	}{
		{"above", roc, [2]float64{.001, .02}, better},
		{"below", roc, [2]float64{-.02, -.001}, worse},
		{"less is better", err, [2]float64{-.02, -.001}, better},
		{"more is worse", err, [2]float64{.001, .02}, worse},
		{"wide", roc, [2]float64{-.001, .02}, unclear},
		{"narrow about 0", roc, [2]float64{-.001, .003}, tie},
		{"sure, and too small to matter", roc, [2]float64{.001, .003}, tie},
	}
	for _, test := range tests {
		if got := test.q.judge(test.i); got != test.want {
			t.Errorf("%s: %v is %q, want %q", test.name, test.i, got, test.want)
		}
	}
}

func TestVerdictsFollowFromAllComparisons(t *testing.T) {
	t.Parallel()
	rows := func(name string, rocs ...float64) row {
		r := row{place: place{"4", mnistName, name}}
		for seed, roc := range rocs {
			d := map[string]detection{notMNIST: {AUROC: roc}}
			r.Runs = append(r.Runs, of(seed, figures{OOD: d, OODNLL: d}))
		}
		return r
	}
	report := &report{sections: []*section{{Rows: []row{
		rows("mf0", .970, .971, .970), rows("MLE", .8, .801, .8), rows("EDL", .98, .981, .98), rows("Dropout", .9, .99, .98),
		rows("T. Scale", .970, .971, .970),
	}}}}
	tests := []struct {
		name    string
		claim   assertion
		rivals  []string
		verdict verdict
		least   string
	}{
		{"beaten", isBetter, []string{"MLE"}, holds, "MLE"},
		{"not beaten", isBetter, []string{"EDL"}, fails, "EDL"},
		{"equalled", isBetter, []string{"T. Scale"}, fails, "T. Scale"},
		{"one of two", isBetter, []string{"MLE", "EDL"}, inPart, "EDL"},
		{"one of two, the other unclear", isBetter, []string{"MLE", "Dropout"}, open, "Dropout"},
		{"unclear", isBetter, []string{"Dropout"}, open, "Dropout"},
		{"equal", isEqual, []string{"T. Scale"}, holds, "T. Scale"},
		{"not equal", isEqual, []string{"T. Scale", "MLE"}, inPart, "MLE"},
		{"no worse", isNotWorse, []string{"T. Scale", "MLE"}, holds, "T. Scale"},
		{"one that was not run", isBetter, []string{"MLE", "RUE"}, holds, "MLE"},
	}
	for _, test := range tests {
		contrasts := inTable("4", mnistName, rocOf(notMNIST), "mf0", test.rivals...)
		q := claim{Text: test.name, assertion: test.claim, contrasts: contrasts}
		got, ok := report.results().judge(q)
		if !ok || got.Verdict != test.verdict || got.least().B != test.least {
			t.Errorf("%s: %q by %+v, want %q, least %s", test.name, got.Verdict, got.Comparisons, test.verdict, test.least)
		}
	}
	none := claim{assertion: isBetter, contrasts: inTable("4", mnistName, rocOf(notMNIST), "mf0", "RUE")}
	if _, ok := report.results().judge(none); ok {
		t.Error("a claim without rows is judged")
	}
}

func TestMeanRowAveragesRunByRun(t *testing.T) {
	t.Parallel()
	one := func(err float64, resamples ...float32) row {
		m := of(3, figures{Error: &err})
		m.Resampled = map[string][]float32{"error": resamples}
		return row{Runs: []measurement{m}}
	}
	got := meanRow(place{"shift", "X", "mf0"}, []row{one(.1, 1, 2), one(.3, 3, 6)})
	if len(got.Runs) != 1 || got.Runs[0].Seed != 3 || !approx.Equal(*got.Runs[0].Error, .2, 1e-15) ||
		!slices.Equal(got.Runs[0].Resampled["error"], []float32{2, 4}) {
		t.Errorf("%+v", got)
	}
}
