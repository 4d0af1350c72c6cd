package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/models"
	"github.com/mfgs/mfgs/wrap/bench"
	"github.com/mfgs/mfgs/wrap/bundle"
	"github.com/mfgs/mfgs/wrap/calibration"
)

func TestCompareRefusesCommandLines(t *testing.T) {
	t.Parallel()
	of := func(args ...string) []string {
		return append([]string{"compare", "--bundle", "b", "--test", "t"}, args...)
	}
	for name, test := range map[string]struct {
		args []string
		code int
		says string
	}{
		"help":          {[]string{"compare", "--help"}, exitDone, "bnn-kfac"},
		"no bundle":     {[]string{"compare", "--test", "t"}, exitUsage, "--bundle is required"},
		"no test data":  {[]string{"compare", "--bundle", "b"}, exitUsage, "--test is required"},
		"a method":      {of("--methods", "mf0,magic"), exitUsage, `method "magic": unknown`},
		"files":         {of("--with", "ensemble"), exitUsage, "--with: ensemble: want NAME=FILE"},
		"draws":         {of("--draws", "1,x"), exitUsage, `--draws: seed "x"`},
		"no layers":     {of("--layers", "0"), exitUsage, "--layers is 0, want at least 1"},
		"preprocessing": {of("--preprocess", "nowhere.yaml"), exitFailed, "nowhere.yaml"},
		"not a bundle":  {of(), exitFailed, "b"},
		"no networks":   {of("--methods", "ensemble"), exitFailed, "0 files with --with ensemble=FILE, want at least 2"},
	} {
		code, stdout, stderr := invoke(t.Context(), test.args...)
		if printed := stdout + stderr; code != test.code || !strings.Contains(printed, test.says) {
			t.Errorf("%s: exit code %d, %q; want %d and %q", name, code, printed, test.code, test.says)
		}
	}
}

// calibratedDigits makes a folder with the digits and their bundle b.
func calibratedDigits(t *testing.T) (dir string) {
	dir = t.TempDir()
	if err := os.CopyFS(dir, models.DigitsMLP()); err != nil {
		t.Fatal(err)
	}
	if _, err := calibration.Calibrate(t.Context(), calibration.Config{
		Model: filepath.Join(dir, models.DigitsModel), Out: filepath.Join(dir, "b"),
		Train: filepath.Join(dir, models.DigitsTrain), Val: filepath.Join(dir, models.DigitsVal),
		Settings: bundle.Settings{Structure: calibrate.Kronecker, Damping: calibrate.Damping{Relative: 1}},
	}); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestCompareMeasuresAPaperMethodOnABundle(t *testing.T) {
	t.Parallel()
	dir := calibratedDigits(t)
	args := []string{"compare", "--bundle", filepath.Join(dir, "b"), "--test", filepath.Join(dir, models.DigitsTest), "--methods", "mle,mc:5",
		"--ood", "drawings=" + filepath.Join(dir, models.OODTest), "--draws", "3,4",
		"--shift", "again=" + filepath.Join(dir, models.DigitsVal)}
	code, stdout, stderr := invoke(t.Context(), args...)
	if code != exitDone || !strings.Contains(stderr, "warning: again: this data was used as val") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	for _, line := range []string{"| test | n | error | NLL |", "| mc:5 | 297 | ", "| again | n |", "| test vs drawings | n | accuracy | AUROC |", "- recommended score: "} {
		if !strings.Contains(stdout, line) {
			t.Errorf("%q is not in\n%s", line, stdout)
		}
	}
	code, stdout, _ = invoke(t.Context(), append(args, "--json")...)
	var e bench.Evaluation
	if err := json.Unmarshal([]byte(stdout), &e); err != nil || code != exitDone {
		t.Fatalf("exit code %d: %v", code, err)
	}
	if len(e.Methods) != 3 || e.Methods[1].Draw != 0 || e.Methods[2].Draw != 1 || e.Methods[2].Temperatures == nil {
		t.Errorf("methods %+v", e.Methods)
	}
}

func TestCompareTakesPathsFromTheWorkingFolder(t *testing.T) {
	dir := calibratedDigits(t)
	compare := func(in string) string {
		code, stdout, stderr := invoke(t.Context(), "compare", "--bundle", filepath.Join(in, "b"),
			"--test", filepath.Join(in, models.DigitsTest), "--ood", "drawings="+filepath.Join(in, models.OODTest),
			"--methods", "mle,ensemble",
			"--with", "ensemble="+filepath.Join(in, models.DigitsModel),
			"--with", "ensemble="+filepath.Join(in, "b", "model.onnx"))
		if code != exitDone {
			t.Errorf("in %s: exit code %d: %s", in, code, stderr)
		}
		return stdout
	}
	want := compare(dir)
	t.Chdir(dir)
	for _, in := range []string{"", filepath.Join("..", filepath.Base(dir))} {
		if got := compare(in); got != want {
			t.Errorf("in %q:\n%s\nwant\n%s", in, got, want)
		}
	}
}
