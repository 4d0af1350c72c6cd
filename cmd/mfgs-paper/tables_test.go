package main

import (
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/cmd/mfgs-paper/internal/compare"
	"github.com/mfgs/mfgs/cmd/mfgs-paper/internal/corrupt"
)

func TestEveryRowOfThePaperHasItsPlace(t *testing.T) {
	t.Parallel()
	upper, lower := table1Trials()
	trials := map[string][]trial{
		"1 MNIST":            append(upper, lower...),
		"short MNIST":        shortTrials(),
		"2 MNIST":            table2Trials(),
		"3 ImageNet":         imagenetTrials(),
		"4 MNIST":            append(table4Trials(), lastLayerTrials()...),
		"damping MNIST":      dampingTrials(),
		"duplicates MNIST":   duplicatesTrials(),
		"ukf MNIST":          ukfTrials(),
		"cifar10 CIFAR-10":   cifarTrials(),
		"3 CIFAR-100":        nil, // tables without data list the paper's rows
		"cifar100 CIFAR-100": nil,
	}
	for _, p := range paperTable {
		all, ok := trials[p.table+" "+p.data]
		if !ok {
			t.Errorf("no trials for table %s on %s", p.table, p.data)
		}
		if all == nil {
			continue
		}
		if !slices.ContainsFunc(all, func(t trial) bool { return t.row == p.row || t.paper == p.row }) {
			t.Errorf("table %s on %s: nothing stands beside the paper's row %s", p.table, p.data, p.row)
		}
	}
	for name, all := range trials {
		seen := map[string]bool{}
		for _, trial := range all {
			if seen[trial.row] {
				t.Errorf("%s: two rows are called %s", name, trial.row)
			}
			seen[trial.row] = true
			for _, r := range trial.row {
				if r > 126 {
					t.Errorf("%s: the name %s is not ASCII", name, trial.row)
				}
			}
			if trial.method == "" {
				if trial.note == "" {
					t.Errorf("%s: row %s is not made, and nothing says why", name, trial.row)
				}
			} else if err := compare.CheckMethods([]string{trial.method}); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func TestThePapersFiguresArePlausible(t *testing.T) {
	t.Parallel()
	for _, p := range paperTable {
		for _, q := range []quantity{errorOf, nllOf, eceOf} {
			if v := q.of(p.figures); v == nil && p.table != "cifar100" || v != nil && !(*v > 0 && *v < 1.2) {
				t.Errorf("%v: %v", p.place, p.figures)
			}
		}
		for set, d := range p.OOD {
			for _, v := range []float64{d.Accuracy, d.AUROC, d.AUPRIn, d.AUPROut} {
				if !(v > .2 && v < 1) {
					t.Errorf("%v, %s: %v", p.place, set, d)
				}
			}
		}
	}
	f := paperFigures(place{"1", mnistName, "mf0"})
	if f == nil || *f.Error != .017 || *f.NLL != .05 || *f.ECE != .002 ||
		f.OOD[notMNIST] != (detection{.919, .969, .967, .970}) {
		t.Errorf("mf0 of table 1: %+v", f)
	}
	if f := paperFigures(place{"1", mnistName, "mf3"}); f != nil {
		t.Errorf("mf3: %+v", f)
	}
}

// Every contrast of every claim names rows, sets and quantities that exist.
func TestEveryContrastHasItsRows(t *testing.T) {
	t.Parallel()
	s := new(section)
	ood := map[string]detection{}
	for _, set := range append([]string{notMNIST, deduplicated}, cifarSets...) {
		ood[set] = detection{AUROC: .9}
	}
	runs := func(r row) row {
		more := map[string]float64{}
		for _, c := range paperClaims() {
			for _, of := range c.contrasts {
				if of.table == heatMapRow.table {
					more[strings.TrimSuffix(of.q.key, ", above that of 0.01")] = 1
				}
			}
		}
		for seed := range 2 {
			f := figures{
				Error: ptr(.1), NLL: ptr(.1), ECE: ptr(.1), DebiasedCE: ptr(.1), AURC: ptr(.1),
				OOD: ood, OODNLL: ood, More: more,
			}
			r.Runs = append(r.Runs, of(seed, f))
		}
		return r
	}
	upper, lower := table1Trials()
	for _, all := range []struct {
		table, data string
		trials      []trial
	}{
		{"1", mnistName, append(upper, lower...)}, {"2", mnistName, table2Trials()}, {"short", mnistName, shortTrials()},
		{"4", mnistName, table4Trials()}, {"ukf", mnistName, ukfTrials()}, {"damping", mnistName, dampingTrials()},
		{"duplicates", mnistName, duplicatesTrials()},
		{"3", imagenetName, imagenetTrials()}, {"cifar10", cifar10Name, cifarTrials()}, {"cifar10", shiftName, shiftedNetworkTrials()},
		{"rotation", allRotations, rotationTrials()}, {"heatmap", mnistName, []trial{{row: heatMapRow.row, method: "mf0"}}},
	} {
		for _, trial := range all.trials {
			if trial.method != "" {
				s.add(runs(row{place: place{all.table, all.data, trial.row}}))
			}
		}
	}
	for _, set := range shiftedSets {
		for _, trial := range set.trials {
			for severity := range corrupt.Severities + 1 {
				s.add(runs(row{place: shiftPlace(set.name, severity, trial.row)}))
			}
		}
	}
	for _, c := range confidenceSets {
		for _, data := range c.data() {
			for _, trial := range confidenceTrials(c.kind) {
				s.add(runs(row{place: c.place(data, trial.row)}))
			}
		}
	}
	r := &report{sections: []*section{s}}
	r.judge()
	all := slices.Concat(paperClaims(), ownClaims())
	if len(r.claims) != len(all) || len(paperClaims()) < 30 {
		t.Errorf("%d claims are judged, want %d", len(r.claims), len(all))
	}
	texts := map[string]bool{}
	for i, c := range r.claims {
		if texts[c.Text] {
			t.Errorf("%q is claimed twice", c.Text)
		}
		texts[c.Text] = true
		if len(c.Comparisons) != len(all[i].contrasts) {
			t.Errorf("%q: %d of %d contrasts are estimated", c.Text, len(c.Comparisons), len(all[i].contrasts))
		}
	}
}

// A row with a damping in its name is compared with the paper's row without it.
func TestRowsHaveTheDampingOfTheirNames(t *testing.T) {
	t.Parallel()
	upper, lower := table1Trials()
	for _, trial := range slices.Concat(upper, lower, table2Trials(), table4Trials(), ukfTrials(), shortTrials()) {
		name, paper := strings.CutSuffix(trial.row, ", eps = 1")
		want := calibrate.Damping{}
		if paper {
			want.Absolute = 1
		}
		if trial.damping != want || paper && trial.paper != name {
			t.Errorf("%s: damping %v, want %v; beside the paper's %s", trial.row, trial.damping, want, trial.paper)
		}
	}
}

// Ensembles of one size use all networks equally often, and a row of single networks has one seed each.
func TestRequestsAndDrawsOfTrials(t *testing.T) {
	t.Parallel()
	set := &benchmark{seeds: []int{0, 1, 2, 3, 4}, trained: map[string]int{short: 2, evidentialKind: 1}}
	tests := []struct {
		of   trial
		want []any
	}{
		{trial{method: "ensemble", ensembleSize: 1}, []any{0, 1, 2, 3, 4}},
		{trial{method: "ensemble", ensembleSize: 2}, []any{"0,1", "1,2", "2,3", "3,4", "4,0"}},
		{trial{method: "ensemble", ensembleSize: 5}, []any{"0,1,2,3,4"}},
		{trial{method: "ensemble", ensembleSize: 9}, nil},
		{trial{method: "mf0"}, []any{0, 1, 2, 3, 4}},
		{trial{method: "mf0", maxNetworks: someNetworks}, []any{0, 1, 2}},
		{trial{method: "mf0", network: short}, []any{0, 1}},
		{trial{method: "edl", evaluated: evidentialKind}, []any{0}},
		{trial{}, nil},
	}
	for _, test := range tests {
		var got []any
		for _, q := range set.requests(test.of) {
			got = append(got, q.label())
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%+v: seeds %v, want %v", test.of, got, test.want)
		}
	}
	for _, test := range []struct {
		of   trial
		want []int // by network
	}{
		{trial{}, []int{2, 2, 2, 2, 2}}, {trial{maxNetworks: someNetworks}, []int{4, 3, 3}},
		{trial{network: short}, []int{5, 5}}, {trial{evaluated: evidentialKind}, []int{10}},
		{trial{oneDraw: true}, []int{1, 1, 1, 1, 1}},
	} {
		test.of.method = "mc:20"
		var got []int
		for i := range set.requests(test.of) {
			got = append(got, set.draws(test.of, i))
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%+v: %d draws a network, want %d", test.of, got, test.want)
		}
	}
	if got := set.draws(trial{method: "mf0", maxNetworks: 1}, 0); got != 1 {
		t.Errorf("what draws nothing is drawn %d times", got)
	}
	many := &benchmark{seeds: []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}}
	if got := many.draws(trial{method: "mc:20"}, 11); got != 1 {
		t.Errorf("the last of twelve networks draws %d times", got)
	}
}

func TestEnsemblesUseTheFilesOfTheirSeeds(t *testing.T) {
	t.Parallel()
	set := newLab("data", "models", t.TempDir(), nil, io.Discard).mnist()
	tests := []struct {
		of   members
		want string
	}{
		{members{0, 3, 10}, "model.onnx seed1.onnx seed2.onnx"},
		{members{9, 2, 10}, "seed9.onnx model.onnx"},
		{members{4, 1, 10}, "seed4.onnx seed4.onnx"},
	}
	for _, test := range tests {
		var got []string
		for _, path := range set.files("ensemble", request{members: test.of})["ensemble"] {
			got = append(got, filepath.Base(path))
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%v: %v, want %s", test.of, got, test.want)
		}
	}
	if got := set.network(short, 2); got != filepath.Join("models", "mnist-mlp", "short2.onnx") {
		t.Errorf("the network of kind %s is %s", short, got)
	}
}
