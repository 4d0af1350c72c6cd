package main

import (
	"bytes"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
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

// published returns the report in docs, read from paper.json.
func published(t *testing.T) *report {
	t.Helper()
	r, err := readReport(publishedFile(t, "paper.json"), parts)
	if err != nil {
		t.Fatalf("paper.json: %v: run make paper", err)
	}
	r.render()
	return r
}

// It has every part, row, figure and comparison, and names the commit that produced it.
func TestThePublishedReportIsWhole(t *testing.T) {
	t.Parallel()
	r := published(t)
	if !slices.Equal(r.names(), partNames()) {
		t.Errorf("its parts are %v, want %v", r.names(), partNames())
	}
	if commit := regexp.MustCompile(`[0-9a-f]{12}$`); !commit.MatchString(r.code) {
		t.Errorf("it is made by %q, want a commit with nothing changed", r.code)
	}
	l := newLab("", "", "", r.seeds, nil)
	mnist := l.mnist()
	upper, lower := table1Trials()
	rows := r.results()
	for table, trials := range map[string][]trial{
		"1": append(upper, lower...), "2": table2Trials(), "4": append(table4Trials(), lastLayerTrials()...),
		"ukf": ukfTrials(), "short": shortTrials(), "damping": dampingTrials(),
	} {
		for _, trial := range trials {
			of := rows[place{table, mnistName, trial.row}]
			if got, want := len(of.Runs), len(mnist.requests(trial)); got < want || trial.method == "" {
				t.Errorf("table %s, %s: %d runs, want %d at least", table, trial.row, got, want)
			}
			for _, run := range of.Runs {
				ood, ok := run.OOD[notMNIST]
				score := trial.method == "leverage" || trial.method == "studentized"
				if !score && (run.NLL == nil || !(*run.NLL > 0)) || !ok || !(ood.AUROC > 0.4) {
					t.Errorf("table %s, %s: %+v", table, trial.row, run.figures)
				}
			}
		}
	}
	claims := slices.Concat(paperClaims(), ownClaims())
	if len(r.claims) != len(claims) {
		t.Errorf("%d claims, want %d", len(r.claims), len(claims))
	}
	for i, c := range r.claims {
		if len(c.Comparisons) != len(claims[i].contrasts) {
			t.Errorf("%q: %d of %d comparisons", c.Text, len(c.Comparisons), len(claims[i].contrasts))
		}
	}
	text := string(publishedFile(t, "paper.md"))
	for _, missing := range []string{"SVHN", "LSUN", "CIFAR-100", "ImageNet-O"} {
		if !strings.Contains(text, missing) {
			t.Errorf("paper.md does not mention %s", missing)
		}
	}
}

var update = flag.Bool("update", false, "let TestThePublishedReportFollowsFromItsFigures write paper.md and its pictures")

// rendered compares a file in docs with what is rendered from paper.json; with -update it writes the file.
func rendered(t *testing.T, name string, want []byte) {
	t.Helper()
	if bytes.Equal(want, publishedFile(t, name)) {
		return
	}
	if !*update {
		t.Errorf("docs/%s is not rendered from paper.json: go test -run Published -update writes it", name)
	} else if err := os.WriteFile(filepath.Join(docs, name), want, 0o644); err != nil {
		t.Error(err)
	}
}

// All but the heat maps is rendered from paper.json.
func TestThePublishedReportFollowsFromItsFigures(t *testing.T) {
	t.Parallel()
	r := published(t)
	again, err := r.json()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(again, publishedFile(t, "paper.json")) {
		t.Error("paper.json changes when it is read and written")
	}
	rendered(t, "paper.md", r.markdown())
	want := []string{"heatmap-auroc.svg", "heatmap-nll.svg"}
	for _, s := range r.sections {
		for _, p := range s.pictures {
			want = append(want, p.Name)
			rendered(t, "paper/"+p.Name, p.SVG)
		}
	}
	entries, err := os.ReadDir(filepath.Join(docs, "paper"))
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, e := range entries {
		files = append(files, e.Name())
	}
	if slices.Sort(want); !slices.Equal(files, want) {
		t.Errorf("the pictures are %v, want %v", files, want)
	}
	shown := regexp.MustCompile(`\]\((paper/[^)]+\.svg)\)`).FindAllString(string(publishedFile(t, "paper.md")), -1)
	if len(shown) != len(want) {
		t.Errorf("%d pictures are shown, want %d", len(shown), len(want))
	}
	// Comparisons are differences of published rows.
	rows := r.results()
	for _, c := range r.claims {
		if got := c.verdict(); got != c.Verdict && c.Verdict != absent {
			t.Errorf("%q: %s, by its comparisons %s", c.Text, c.Verdict, got)
		}
		for _, of := range c.Comparisons {
			if got := of.quantity.judge(of.Interval); got != of.Result {
				t.Errorf("%q: %s is %s, by its interval %s", c.Text, of.title(), of.Result, got)
			}
			a, b := rows[place{of.Table, of.Data, of.A}], rows[place{of.Table, of.Data, of.B}]
			if of.B == "" || a.networks() != b.networks() {
				continue // on other networks than the rows
			}
			if d := a.over(of.quantity).mean() - b.over(of.quantity).mean(); !(math.Abs(d-of.Difference) < 1e-9) {
				t.Errorf("%q: %s differ by %v, published %v", c.Text, of.title(), d, of.Difference)
			}
		}
	}
}

// Bounds on MNIST and notMNIST, for means over all networks with default settings.
func TestThePublishedFiguresAreWithinTheirBounds(t *testing.T) {
	t.Parallel()
	r := published(t)
	rows := r.results()
	row := rows[place{"4", mnistName, "mf0"}]
	if row.networks() != 10 {
		t.Fatalf("mf0 is of %d networks", row.networks())
	}
	mf0 := row.mean()
	ood := mf0.OOD[notMNIST]
	for _, c := range []struct {
		what     string
		got      float64
		from, to float64
	}{
		{"error", *mf0.Error, 0, 0.0175},
		{"NLL", *mf0.NLL, 0, 0.048},
		{"ECE", *mf0.ECE, 0, 0.005},
		{"accuracy", ood.Accuracy, 0.914, 1},
		{"AUROC", ood.AUROC, 0.970, 1},
		{"AUPR in", ood.AUPRIn, 0.960, 1},
		{"AUPR out", ood.AUPROut, 0.968, 1},
	} {
		if !(c.got >= c.from && c.got <= c.to) {
			t.Errorf("%s %v, want %v to %v", c.what, c.got, c.from, c.to)
		}
	}
	for other, most := range map[string]float64{"mf1": 0.0035, "mf2": 0.003} {
		of := func(name string) float64 { return rows[place{"1", mnistName, name}].mean().OOD[notMNIST].AUROC }
		d := of(other) - of("mf0")
		if !(math.Abs(d) <= most) {
			t.Errorf("the AUROC of %s is %v above that of mf0", other, d)
		}
	}
}

func TestOtherReportsAreRefused(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{}`:                                 "cannot unmarshal",
		`[{"table":"parts","row":"table9"}]`: `unknown part "table9"`,
		`[{"table":"claims","row":"water is wet"}]`:                                                          "unknown claim",
		`[{"table":"ukf","row":"mf0","part":"ukf"}]`:                                                         `unknown part "ukf"`,
		`[{"table":"parts","row":"ukf"},{"part":"ukf","table":"ukf","row":"mf0","data":"MNIST","seed":"x"}]`: "the seed x",
	} {
		if _, err := readReport([]byte(text), parts); err == nil || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
