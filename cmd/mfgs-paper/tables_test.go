package main

import (
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/wrap/bench"
)

// Every row of the paper is measured or said to be missing.
func TestEveryRowOfThePaperHasItsPlace(t *testing.T) {
	upper, lower := table1Trials()
	trials := map[string][]trial{
		"1 MNIST":            append(upper, lower...),
		"short MNIST":        shortTrials(),
		"2 MNIST":            table2Trials(),
		"3 ImageNet":         imagenetTrials(),
		"4 MNIST":            append(table4Trials(), lastLayerTrials()...),
		"ukf MNIST":          ukfTrials(),
		"cifar10 CIFAR-10":   cifarTrials(),
		"3 CIFAR-100":        nil, // tables without data list the paper's rows
		"cifar100 CIFAR-100": nil,
	}
	for _, p := range printed {
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
			} else if err := bench.CheckMethods([]string{trial.method}); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func TestPrintedNumbers(t *testing.T) {
	if n := len(printed); n != 9+6+11+2+20+9+8 {
		t.Errorf("%d rows", n)
	}
	for _, p := range printed {
		for _, q := range []quantity{errorOf, nllOf, eceOf} {
			if v := q(p.figures); v == nil && p.table != "cifar100" || v != nil && !(*v > 0 && *v < 1.2) {
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
	f := paperSays(place{"1", mnistName, "mf0"})
	if f == nil || *f.Error != .017 || *f.NLL != .05 || *f.ECE != .002 ||
		f.OOD[notMNIST] != (detection{.919, .969, .967, .970}) {
		t.Errorf("mf0 of table 1: %+v", f)
	}
	if f := paperSays(place{"1", mnistName, "mf3"}); f != nil {
		t.Errorf("mf3: %+v", f)
	}
}

// The claims name rows that there are.
func TestClaimsAreOfRows(t *testing.T) {
	upper, lower := table1Trials()
	s := new(section)
	for _, all := range []struct {
		table, data string
		trials      []trial
	}{
		{"1", mnistName, append(upper, lower...)}, {"2", mnistName, table2Trials()},
		{"4", mnistName, append(table4Trials(), lastLayerTrials()...)},
		{"ukf", mnistName, ukfTrials()},
		{"3", imagenetName, imagenetTrials()}, {"cifar10", cifar10Name, cifarTrials()}, {"cifar10", shiftName, cifarTrials()},
	} {
		told := map[string]detection{}
		for _, set := range []string{notMNIST, tinyImageNet, digits, uniformNoise, gaussianNoise} {
			told[set] = detection{AUROC: .9}
		}
		for _, trial := range all.trials {
			r := row{place: place{all.table, all.data, trial.row}}
			if trial.method != "" {
				r.runs = []measurement{
					{trial.requests(&benchmark{}, []int{0})[0].label(),
						answer{figures: figures{Error: ptr(.1), NLL: ptr(.1), ECE: ptr(.1), OOD: told, OODNLL: told}}}}
			}
			s.add(r)
		}
	}
	for _, name := range []string{"MLE", "T. Scale", "Deep E.(5)", "Dropout", "mf0"} {
		s.add(row{place: place{"rotation", acrossName, name}, runs: []measurement{{0, answer{figures: figures{ECE: ptr(.3)}}}}})
	}
	r := &report{sections: []*section{s}}
	claims, comparisons := r.claims(), 0
	for _, c := range claims {
		comparisons += c.comparisons
	}
	if want := 6 + 6 + 4 + 4 + 4 + 1 + 3 + 2 + 7 + 1 + 8 + 4 + 2 + 2 + 2*(4*3+1+1) + 3 + 4; len(claims) != 22 ||
		comparisons != want {
		t.Errorf("%d claims by %d comparisons, want 22 by %d", len(claims), comparisons, want)
	}
}

// A row is made with the damping that its name tells, and stands beside the paper's row of
// its name without that.
func TestRowsHaveTheDampingOfTheirNames(t *testing.T) {
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

// Ensembles of one row share no network, and a row of single networks has one seed each.
func TestEnsemblesAreDisjoint(t *testing.T) {
	tests := []struct {
		of   trial
		want []any
	}{
		{trial{method: "ensemble", joint: 1}, []any{0, 1, 2, 3, 4}},
		{trial{method: "ensemble", joint: 2}, []any{"0-1", "2-3"}},
		{trial{method: "ensemble", joint: 5}, []any{"0-4"}},
		{trial{method: "mf0"}, []any{7, 8}},
		{trial{method: "mf0", first: true}, []any{7}},
		{trial{}, nil},
	}
	for _, test := range tests {
		var got []any
		for _, q := range test.of.requests(&benchmark{}, []int{7, 8}) {
			got = append(got, q.label())
			if q.seed > 8 || q.seed < 7 {
				t.Errorf("%+v borrows the bundle of seed %d", test.of, q.seed)
			}
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%+v: seeds %v, want %v", test.of, got, test.want)
		}
	}
}

// An ensemble is of the files of its seeds, and of one network it is that network.
func TestFilesOfNetworks(t *testing.T) {
	set := newLab("data", "models", t.TempDir(), nil, io.Discard).mnist()
	tests := []struct {
		of   members
		want string
	}{
		{members{0, 3}, "model.onnx seed1.onnx seed2.onnx"},
		{members{8, 10}, "seed8.onnx seed9.onnx"},
		{members{4, 5}, "seed4.onnx seed4.onnx"},
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
