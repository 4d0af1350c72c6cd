package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/cmd/mfgs-paper/internal/corrupt"
)

// docs is where the report is published.
const docs = "../../docs"

func publishedFile(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(docs, name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func publishedEntries(t *testing.T) []entry {
	t.Helper()
	var all []entry
	if err := json.Unmarshal(publishedFile(t, "paper.json"), &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// published reads the report's rows by table, data, row and seed.
func published(t *testing.T) map[string]entry {
	t.Helper()
	rows := map[string]entry{}
	for _, e := range publishedEntries(t) {
		name := key(e.Table, e.Data, e.Row, e.Seed)
		if _, twice := rows[name]; twice {
			t.Errorf("%s is there twice", name)
		}
		rows[name] = e
	}
	return rows
}

func key(table, data, row string, seed any) string {
	return fmt.Sprint(table, "|", data, "|", row, "|", seed)
}

// awaited are the tables, and "claims", in which the published report is behind the program: the
// run that makes it anew empties the list.
var awaited = []string{"4", "short", "claims"}

// due reports what is missing of a part of the published report, or that nothing is any more.
func due(t *testing.T, part string, missing []string) {
	t.Helper()
	switch {
	case !slices.Contains(awaited, part):
		for _, m := range missing {
			t.Error(m)
		}
	case missing == nil:
		t.Errorf("%s is as the program makes it: it is no longer awaited", part)
	}
}

// The published report has every row that the program makes, and numbers in each.
func TestThePublishedReportIsWhole(t *testing.T) {
	rows := published(t)
	sampling, covariances := table1Trials()
	seeds := []int{0, 1, 2}
	for table, trials := range map[string][]trial{
		"1": append(sampling, covariances...), "2": table2Trials(), "4": append(table4Trials(), lastLayerTrials()...),
		"ukf": ukfTrials(), "short": shortTrials(),
	} {
		var missing []string
		for _, trial := range trials {
			for _, q := range trial.requests(&benchmark{}, seeds) {
				name := key(table, mnistName, trial.row, q.label())
				e, ok := rows[name]
				if !ok {
					missing = append(missing, name+" is missing")
					continue
				}
				told, ok := e.OOD[notMNIST]
				if trial.method != "leverage" && (e.NLL == nil || !(*e.NLL > 0)) || !ok || !(told.AUROC > 0.4) {
					t.Errorf("%s: %+v", name, e.figures)
				}
			}
		}
		due(t, table, missing)
	}
	text := publishedFile(t, "paper.md")
	pictures := regexp.MustCompile(`\]\((paper/[^)]+\.svg)\)`).FindAllStringSubmatch(string(text), -1)
	want := 3
	if strings.Contains(string(text), "## "+shiftTitle+"\n") {
		want += 6
	}
	if len(pictures) != want {
		t.Errorf("%d pictures, want %d: two heat maps, the rotation, and where there are corrupted images six of them", len(pictures), want)
	}
	for _, p := range pictures {
		if _, err := os.Stat(filepath.Join(docs, p[1])); err != nil {
			t.Error(err)
		}
	}
	for _, missing := range []string{"SVHN", "LSUN", "CIFAR-100", "ImageNet-O"} {
		if !strings.Contains(string(text), missing) {
			t.Errorf("nothing is said of %s", missing)
		}
	}
}

// Of the figures of single networks that are published, the program makes the means,
// tables and claims that are published.
func TestThePublishedReportFollowsFromItsFigures(t *testing.T) {
	s := &section{}
	for _, e := range publishedEntries(t) {
		at := place{e.Table, e.Data, e.Row}
		if n := len(s.rows); n == 0 || s.rows[n-1].place != at {
			s.add(row{place: at, paper: e.Paper, note: e.Note})
		}
		seed := e.Seed
		if v, ok := seed.(float64); ok {
			seed = int(v)
		}
		if seed != nil && seed != "mean" {
			r := &s.rows[len(s.rows)-1]
			r.runs = append(r.runs, measurement{seed, answer{figures: e.figures, damping: e.Damping}})
		}
	}
	r := &report{sections: []*section{s}}
	again, err := r.json()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(again, publishedFile(t, "paper.json")) {
		t.Error("paper.json is not what its own rows make")
	}

	text := string(publishedFile(t, "paper.md"))
	found := r.results()
	upper, lower := table1Trials()
	for _, of := range []struct {
		table  string
		trials []trial
	}{{"1", upper}, {"1", lower}, {"2", table2Trials()}, {"4", table4Trials()}, {"4", lastLayerTrials()},
		{"short", shortTrials()}, {"ukf", ukfTrials()}} {
		var rows []row
		var missing []string
		for _, trial := range of.trials {
			row := found[place{of.table, mnistName, trial.row}]
			if want := trial.beside(of.table, mnistName); !reflect.DeepEqual(row.paper, want) {
				missing = append(missing, fmt.Sprintf("table %s, %s: beside it stands %+v, want %+v", of.table, trial.row, row.paper, want))
			}
			rows = append(rows, row)
		}
		if table := render(rows, mnistColumns()...); !strings.Contains(text, table) {
			missing = append(missing, fmt.Sprintf("table %s is not that of the published figures, which is\n%s", of.table, table))
		}
		due(t, of.table, missing)
		if dampings := chosenDampings(append(slices.Clone(rows), found[place{"1", mnistName, "J^-1"}],
			found[place{"1", mnistName, "H^-1JH^-1"}])); of.table == "1" && len(rows) == len(upper) &&
			!strings.Contains(text, dampings) {
			t.Errorf("the dampings are not those published: %s", dampings)
		}
	}
	var turned [][]row
	for _, trial := range rotationTrials() {
		var rows []row
		for _, degrees := range turns() {
			rows = append(rows, found[place{"rotation", fmt.Sprintf("%s rotated by %d", mnistName, degrees), trial.row}])
		}
		turned = append(turned, rows)
	}
	if svg := drawRotation(rotationTrials(), turned); !bytes.Equal(svg, publishedFile(t, "paper/rotation.svg")) {
		t.Error("rotation.svg is not that of the published figures")
	}
	for set, others := range map[string]bool{mnistName: true, cifar10Name: false} {
		trials := shiftTrials(others)
		rows := make([][]row, len(trials))
		for i, trial := range trials {
			for severity := range corrupt.Severities + 1 {
				rows[i] = append(rows[i], found[shiftPlace(set, severity, trial)])
			}
		}
		if len(rows[0][0].runs) == 0 { // not published
			continue
		}
		for i := range shiftPictures {
			if p := drawShift(set, trials, rows, i); !bytes.Equal(p.svg, publishedFile(t, "paper/"+p.name)) {
				t.Errorf("%s is not that of the published figures", p.name)
			}
		}
	}
	claims := strings.SplitAfter(r.listClaims(), "\n")
	if len(claims) < 20 {
		t.Errorf("%d lines of claims", len(claims))
	}
	var missing []string
	for _, line := range claims {
		if !strings.Contains(text, line) {
			missing = append(missing, "not published: "+line)
		}
	}
	due(t, "claims", missing)
}

// What mfgs promises on MNIST and notMNIST, as means of three seeds with its default damping.
func TestThePublishedFiguresKeepThePromises(t *testing.T) {
	rows := published(t)
	mf0, ok := rows[key("1", mnistName, "mf0", "mean")]
	if !ok {
		t.Fatal("no mean of mf0 over the seeds")
	}
	told := mf0.OOD[notMNIST]
	for _, c := range []struct {
		what     string
		got      float64
		from, to float64
	}{
		{"error", *mf0.Error, 0, 0.0175},
		{"NLL", *mf0.NLL, 0, 0.056},
		{"ECE", *mf0.ECE, 0, 0.005},
		{"accuracy", told.Accuracy, 0.914, 1},
		{"AUROC", told.AUROC, 0.967, 1},
		{"AUPR in", told.AUPRIn, 0.960, 1},
		{"AUPR out", told.AUPROut, 0.968, 1},
	} {
		if !(c.got >= c.from && c.got <= c.to) {
			t.Errorf("%s %v, want %v to %v", c.what, c.got, c.from, c.to)
		}
	}
	// mf1 is 0.0032 below mf0, and neither differs from it at ε = 1.
	for other, most := range map[string]float64{"mf1": 0.0035, "mf2": 0.003, "mf1, eps = 1": 0.0005, "mf2, eps = 1": 0.0005} {
		told := told
		if strings.HasSuffix(other, "eps = 1") {
			told = rows[key("1", mnistName, "mf0, eps = 1", "mean")].OOD[notMNIST]
		}
		if d := rows[key("1", mnistName, other, "mean")].OOD[notMNIST].AUROC - told.AUROC; !(math.Abs(d) <= most) {
			t.Errorf("the AUROC of %s is %v above that of mf0", other, d)
		}
	}
}
