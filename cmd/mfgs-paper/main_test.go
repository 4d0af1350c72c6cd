package main

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/models"
	"github.com/mfgs/mfgs/wrap/bench"
)

func invoke(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	var out, err bytes.Buffer
	code = run(ctx, args, &out, &err)
	return code, out.String(), err.String()
}

func TestReportCommandLines(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		args []string
		code int
		says string // on standard error, or on standard output if it succeeds
	}{
		{"help", []string{"report", "--help"}, exitDone, "--data DIR"},
		{"no command", nil, exitUsage, "want compare or report"},
		{"commands", []string{"--help"}, exitDone, "mfgs-paper COMMAND"},
		{"unknown command", []string{"reports"}, exitUsage, `unknown command "reports"`},
		{"no data", []string{"report"}, exitUsage, "--data is required"},
		{"unknown flag", []string{"report", "--dada", "x"}, exitUsage, "dada"},
		{"positional", []string{"report", "--data", "x", "y"}, exitUsage, `unexpected argument "y"`},
		{"unknown part", []string{"report", "--data", "x", "--only", "table1,table9"}, exitUsage, `unknown part "table9": want some of table1, short`},
		{"part twice", []string{"report", "--data", "x", "--only", "ukf,ukf"}, exitUsage, `"ukf" is listed twice`},
		{"no seed", []string{"report", "--data", "x", "--seeds", "0,one"}, exitUsage, `seed "one"`},
		{"negative seed", []string{"report", "--data", "x", "--seeds", "-1"}, exitUsage, `seed "-1"`},
		{"seed twice", []string{"report", "--data", "x", "--seeds", "1,1"}, exitUsage, "1 is listed twice"},
		{"no folder", []string{"report", "--data", filepath.Join(t.TempDir(), "none")}, exitFailed, "no such folder"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			code, stdout, stderr := invoke(t.Context(), test.args...)
			printed := stderr
			if test.code == exitDone {
				printed = stdout
			}
			if code != test.code || !strings.Contains(printed, test.says) {
				t.Errorf("%q: exit code %d, stdout %q, stderr %q; want %d and %q", test.args, code, stdout, stderr, test.code, test.says)
			}
		})
	}
}

func TestPartsComeInTheirOrder(t *testing.T) {
	t.Parallel()
	chosen, err := parseParts("rotation,table1")
	if err != nil {
		t.Fatal(err)
	}
	if len(chosen) != 2 || chosen[0].name != "table1" || chosen[1].name != "rotation" {
		t.Errorf("got %v", chosen)
	}
	if all, err := parseParts(""); err != nil || len(all) != len(parts) {
		t.Errorf("no list gives %d parts, %v", len(all), err)
	}
}

func TestAMissingNetworkNamesItsTrainingScript(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	code, _, stderr := invoke(t.Context(), "report", "--data", dir, "--models", "../../models", "--seeds", "77", "--only", "ukf", "--out", filepath.Join(dir, "out"))
	if code != exitFailed || !strings.Contains(stderr, "seed77.onnx: no such network") || !strings.Contains(stderr, "train.py") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	if of, err := os.ReadDir(filepath.Join(dir, "out")); err != nil || len(of) != 0 {
		t.Errorf("%v, error %v: want no report", of, err)
	}
}

func TestAnUnwritableOutFailsAtOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, stderr := invoke(t.Context(), "report", "--data", dir, "--only", "ukf", "--out", filepath.Join(file, "out"))
	if code != exitFailed || !strings.HasPrefix(stderr, "mfgs-paper: --out: ") {
		t.Errorf("exit code %d: %q", code, stderr)
	}
}

func TestAnInterruptedRunWritesNoReport(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	dir := t.TempDir()
	code, _, stderr := invoke(ctx, "report", "--data", "../../models", "--models", "../../models", "--only", "heatmap", "--out", filepath.Join(dir, "out"), "--scratch", filepath.Join(dir, "scratch"))
	if code != exitFailed || !strings.HasSuffix(stderr, "mfgs-paper: interrupted\n") {
		t.Errorf("exit code %d: %q", code, stderr)
	}
	if of, err := os.ReadDir(filepath.Join(dir, "out")); err != nil || len(of) != 0 {
		t.Errorf("%v, error %v: want no report", of, err)
	}
}

// digitsLab returns a lab that uses the small digits as MNIST.
func digitsLab(t *testing.T) *lab {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "digits")
	if err := os.CopyFS(dir, models.DigitsMLP()); err != nil {
		t.Fatal(err)
	}
	l := newLab(dir, dir, t.TempDir(), []int{0}, io.Discard)
	l.sets[mnistName] = &benchmark{
		name:    mnistName,
		train:   filepath.Join(dir, models.DigitsTrain),
		val:     filepath.Join(dir, models.DigitsVal),
		valOOD:  filepath.Join(dir, models.OODVal),
		test:    filepath.Join(dir, models.DigitsTest),
		ood:     []bench.NamedSpec{{Name: notMNIST, Spec: filepath.Join(dir, models.OODTest)}},
		seeds:   []int{0},
		trained: map[string]int{short: 1, dropoutKind: 1, evidentialKind: 1, variationalKind: 1},
		network: func(string, int) string { return filepath.Join(dir, models.DigitsModel) },
		files: func(method string, _ request) map[string][]string {
			if method == "ensemble" {
				return map[string][]string{
					"ensemble": []string{filepath.Join(dir, models.DigitsModel), filepath.Join(dir, models.DigitsModel)}}
			}
			return nil
		},
	}
	return l
}

func TestReportOnDigits(t *testing.T) {
	t.Parallel()
	l := digitsLab(t)
	chosen, err := parseParts("ukf,cifar100,heatmap,rotation")
	if err != nil {
		t.Fatal(err)
	}
	r, err := l.make(t.Context(), chosen)
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "docs")
	if err := r.write(out); err != nil {
		t.Fatal(err)
	}

	text, err := os.ReadFile(filepath.Join(out, "paper.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"# Reproducing the paper", "## The unscented Kalman filter", "| **mf0, eps = 1** |", "*96.91*", "| mf0 has a higher AUROC on notMNIST than the unscented filter | appendix B, table 8 |", "## All comparisons", "--only ukf,cifar100,heatmap,rotation",
		"](paper/heatmap-nll.svg)", "](paper/rotation.svg)",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("paper.md lacks %q", want)
		}
	}
	if strings.Contains(string(text), "Table 1") {
		t.Error("paper.md has a part that was not asked for")
	}
	for _, name := range []string{"heatmap-nll.svg", "heatmap-auroc.svg", "rotation.svg"} {
		svg, err := os.ReadFile(filepath.Join(out, "paper", name))
		if err != nil {
			t.Fatal(err)
		}
		wellFormed(t, name, svg)
	}

	data, err := os.ReadFile(filepath.Join(out, "paper.json"))
	if err != nil {
		t.Fatal(err)
	}
	var document []struct {
		Table, Row, Data, Code string
		Seed                   any
		Error, NLL, ECE        *float64
		OOD                    map[string]detection
		OODNLL                 map[string]detection `json:"ood_nll"`
	}
	if err := json.Unmarshal(data, &document); err != nil {
		t.Fatal(err)
	}
	if len(document) == 0 || document[0].Code == "" {
		t.Error("paper.json does not say what code made it")
	}
	seeds := []any{}
	for _, e := range document {
		if e.Table == "ukf" && e.Row == "mf0" {
			seeds = append(seeds, e.Seed)
			// The figures are the library's.
			set := l.sets[mnistName]
			direct, err := bench.Evaluate(t.Context(), bench.Config{
				Bundle: l.bundlePath(subject{set: set}), Test: set.test, OOD: set.ood, Methods: []string{"mf0"},
			})
			if err != nil {
				t.Fatal(err)
			}
			want, ood := direct.Methods[0].InDomain, direct.Methods[0].OOD[0]
			if e.NLL == nil || *e.NLL != want.NLL || *e.Error != want.Error || *e.ECE != want.ECE ||
				e.OOD[notMNIST] != (detection{ood.Accuracy, ood.AUROC, ood.AUPRIn, ood.AUPROut}) ||
				e.OODNLL[notMNIST].AUROC != direct.Methods[0].OODNLL[0].AUROC {
				t.Errorf("mf0: %+v, want %+v and %+v", e, *want, ood)
			}
		}
		if e.Table == "rotation" && e.Data == allRotations && e.Row == "mf0" && e.ECE == nil {
			t.Errorf("mf0 under rotation: %+v", e)
		}
		if e.Table == "cifar100" && (e.Seed != nil || e.Error != nil) {
			t.Errorf("a row that cannot be made has %+v", e)
		}
	}
	if !slices.Equal(seeds, []any{0.}) {
		t.Errorf("mf0 has the seeds %v", seeds)
	}
	again, err := readReport(data, parts)
	if err != nil {
		t.Fatal(err)
	}
	again.all = r.all
	again.render()
	if !bytes.Equal(again.markdown(), text) {
		t.Error("paper.md is not what paper.json makes")
	}
	names, err := filepath.Glob(filepath.Join(out, ".*"))
	if err != nil || len(names) > 0 {
		t.Errorf("temporary files are left: %v %v", names, err)
	}
}

func wellFormed(t *testing.T, name string, svg []byte) {
	t.Helper()
	d := xml.NewDecoder(bytes.NewReader(svg))
	elements := 0
	for {
		token, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if start, ok := token.(xml.StartElement); ok {
			if elements++; elements == 1 && start.Name.Local != "svg" {
				t.Errorf("%s begins with <%s>", name, start.Name.Local)
			}
		}
	}
	if elements < 10 {
		t.Errorf("%s has %d elements", name, elements)
	}
	for _, bad := range []string{"NaN", "Inf"} {
		if bytes.Contains(svg, []byte(bad)) {
			t.Errorf("%s holds %s", name, bad)
		}
	}
}
