package main

import (
	"encoding/json"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/mfgs/mfgs/internal/approx"
	"github.com/mfgs/mfgs/internal/realdata"
	"github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/bench"
	"github.com/mfgs/mfgs/wrap/calibration"
)

// An mnistRun configures a calibration and evaluation on MNIST and notMNIST.
type mnistRun struct {
	model, structure, damping    string
	score                        string // "" is the default
	train, val, ood, test, other string // slices
	cache                        string
	methods                      string // that are evaluated
}

// mnist calibrates and evaluates the paper's network by the command line.
func mnist(t testing.TB, r mnistRun) (*calibration.Report, map[string]bench.MethodResult) {
	t.Helper()
	training := realdata.Dir(t) + "/mnist/train-images-idx3-ubyte.gz"
	notMNIST := realdata.Dir(t) + "/notmnist/notmnist-images-idx3-ubyte.gz"
	bundle := filepath.Join(t.TempDir(), "bundle")
	decode := func(v any, args ...string) {
		t.Helper()
		if r.cache != "" {
			args = append(args, "--features-cache", r.cache)
		}
		code, stdout, stderr := invoke(t.Context(), append(args, "--json")...)
		if code != 0 {
			t.Fatalf("%q: exit code %d: %s", args, code, stderr)
		}
		if err := json.Unmarshal([]byte(stdout), v); err != nil {
			t.Fatal(err)
		}
	}
	var report calibration.Report
	args := []string{"calibrate", "--model", "../../models/mnist-mlp/" + r.model, "--structure", r.structure, "--damping", r.damping, "--out", bundle,
		"--train", training + r.train, "--val", training + r.val, "--ood", notMNIST + r.ood}
	if r.score != "" {
		args = append(args, "--ood-score", r.score)
	}
	decode(&report, args...)
	p, err := wrap.Open(t.Context(), bundle, wrap.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Probe(t.Context()); err != nil || report.Probe.Examples != 4 {
		t.Errorf("the probe %+v: %v", report.Probe, err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	var evaluation bench.Evaluation
	decode(&evaluation, "eval", "--bundle", bundle, "--test", realdata.Dir(t)+"/mnist/t10k-images-idx3-ubyte.gz"+r.test, "--ood", "notmnist="+notMNIST+r.other,
		"--methods", r.methods)
	methods := map[string]bench.MethodResult{}
	for _, m := range evaluation.Methods {
		methods[m.Name] = m
	}
	return &report, methods
}

// TestMNIST runs the main job with the full structure, on part of the data.
func TestMNIST(t *testing.T) {
	t.Parallel()
	realdata.Dir(t)
	report, m := mnist(t, mnistRun{
		model: "model.onnx", structure: "full", damping: "rel:1",
		train: "[0:2000]", val: "[55000:55500]", ood: "[0:500]", test: "[0:1000]", other: "[5000:6000]",
		cache: t.TempDir(), methods: "mle,mf0,leverage",
	})
	if report.Structure != "full" || report.Examples.Train != 2000 || report.Examples.Val != 500 ||
		report.Examples.OOD != 500 {
		t.Errorf("%+v", report)
	}
	mle, mf0, leverage := m["mle"], m["mf0"], m["leverage"]
	if d := mf0.InDomain.Error - mle.InDomain.Error; !approx.Equal(d, 0, 0.002) {
		t.Errorf("the error changed by %.4f", d)
	}
	if mf0.InDomain.NLL > 0.8*mle.InDomain.NLL || mf0.InDomain.ECE > 0.8*mle.InDomain.ECE {
		t.Errorf("NLL %.4f → %.4f, ECE %.4f → %.4f", mle.InDomain.NLL, mf0.InDomain.NLL, mle.InDomain.ECE, mf0.InDomain.ECE)
	}
	if mf0.OOD[0].AUROC < 0.94 || mf0.OOD[0].AUROC < mle.OOD[0].AUROC+0.1 || leverage.OOD[0].AUROC < 0.95 {
		t.Errorf("AUROC %.4f → %.4f, leverage %.4f", mle.OOD[0].AUROC, mf0.OOD[0].AUROC, leverage.OOD[0].AUROC)
	}
}

// fullRun is a run on all data.
func fullRun(model, structure, cache, score string) mnistRun {
	return mnistRun{
		model: model, structure: structure, damping: "auto", score: score,
		train: "[0:55000]", val: "[55000:60000]", ood: "[0:5000]", other: "[5000:]", cache: cache,
		methods: "mle,ts,mf0,leverage",
	}
}

// A publishedRow is a row of docs/paper.json.
type publishedRow struct {
	Table, Row, Data string
	Seed             any
	Error, NLL, ECE  float64
	OOD              map[string]struct{ Accuracy, AUROC float64 }
}

// publishedMNIST returns the rows of table 4 in the report, by name and seed.
func publishedMNIST(t testing.TB) map[string][]publishedRow {
	t.Helper()
	data, err := os.ReadFile("../../docs/paper.json")
	if err != nil {
		t.Fatal(err)
	}
	var all []publishedRow
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	rows := map[string][]publishedRow{}
	for _, r := range all {
		if seed, ok := r.Seed.(float64); ok && r.Table == "4" && r.Data == "MNIST" && int(seed) == len(rows[r.Row]) {
			rows[r.Row] = append(rows[r.Row], r)
		}
	}
	return rows
}

// checkMNIST measures three trainings of the network. It fails if a mean figure misses its bound, or if a figure of mle
// or ts, which do not depend on the posterior, differs from the published one. With score "" all scores are compared,
// which takes most of the time (calibrate-sec) and does not change the other figures.
func checkMNIST(t testing.TB, structure, cache, score string) (means map[string]float64) {
	t.Helper()
	seeds := []string{"model.onnx", "seed1.onnx", "seed2.onnx"}
	means = map[string]float64{}
	published := publishedMNIST(t)
	for i, seed := range seeds {
		report, m := mnist(t, fullRun(seed, structure, cache, score))
		mle, mf0 := m["mle"], m["mf0"]
		for name, row := range map[string]string{"mle": "MLE", "ts": "T. Scale"} {
			want, in, detected := published[row][i], m[name].InDomain, m[name].OOD[0]
			for what, pair := range map[string][2]float64{
				"error": {in.Error, want.Error}, "NLL": {in.NLL, want.NLL}, "ECE": {in.ECE, want.ECE},
				"accuracy": {detected.Accuracy, want.OOD["notmnist"].Accuracy}, "AUROC": {detected.AUROC, want.OOD["notmnist"].AUROC},
			} {
				if !approx.Equal(pair[0], pair[1], 5e-4) {
					t.Errorf("%s, %s: %s %v, published as %v", seed, row, what, pair[0], pair[1])
				}
			}
		}
		figures := map[string]float64{
			"error":         mf0.InDomain.Error,
			"error-change":  math.Abs(mf0.InDomain.Error - mle.InDomain.Error),
			"nll":           mf0.InDomain.NLL,
			"plain-nll":     mle.InDomain.NLL,
			"ece":           mf0.InDomain.ECE,
			"auroc-nll":     mf0.OODNLL[0].AUROC,
			"auroc":         mf0.OOD[0].AUROC,
			"accuracy":      mf0.OOD[0].Accuracy,
			"plain-auroc":   mle.OOD[0].AUROC,
			"leverage":      m["leverage"].OOD[0].AUROC,
			"calibrate-sec": report.Seconds["total"],
		}
		for name, v := range figures {
			means[name] += v / float64(len(seeds))
		}
		for _, name := range slices.Sorted(maps.Keys(figures)) {
			t.Logf("%s %-13s %.4f", seed, name, figures[name])
		}
	}
	least := map[string]float64{"auroc-nll": 0.925, "auroc": 0.966, "accuracy": 0.912, "leverage": 0.98}
	if structure == "kron" {
		least["auroc-nll"] = 0.945
	}
	most := map[string]float64{"error-change": 0.001, "nll": 0.056, "ece": 0.005}
	for name, bound := range least {
		if v := means[name]; !(v >= bound) {
			t.Errorf("mean %s is %.4f, want %g or more", name, v, bound)
		}
	}
	for name, bound := range most {
		if v := means[name]; !(v <= bound) {
			t.Errorf("mean %s is %.4f, want %g or less", name, v, bound)
		}
	}
	return means
}

// TestMNISTFigures checks the Kronecker structure, which is fast; BenchmarkMNIST checks the full one too.
func TestMNISTFigures(t *testing.T) {
	t.Parallel()
	realdata.Dir(t)
	checkMNIST(t, "kron", t.TempDir(), "mf0")
}

// BenchmarkMNIST measures the figures of checkMNIST. -v shows those of each training.
//
//	go test ./cmd/mfgs -run '^$' -bench MNIST -benchtime 1x -v
func BenchmarkMNIST(b *testing.B) {
	realdata.Dir(b)
	cache := b.TempDir()
	for _, structure := range []string{"full", "kron"} {
		b.Run(structure, func(b *testing.B) {
			for b.Loop() {
				for name, v := range checkMNIST(b, structure, cache, "") {
					b.ReportMetric(v, name)
				}
			}
		})
	}
}

// The default score, without out-of-distribution data to tune on, detects letters among digits: docs/paper.md has
// its figures on all networks.
func TestDefaultScoreDetectsNotMNISTUnseen(t *testing.T) {
	t.Parallel()
	if auroc := detectNotMNIST(t, "guarded_margin", "model.onnx"); !(auroc >= 0.993) {
		t.Errorf("AUROC %v, want 0.993", auroc)
	}
}

// The score learned from synthetic out-of-distribution data detects them as well: .994 on all data
// (docs/evidence/synthetic-ood.md).
func TestTheLearnedScoreDetectsNotMNISTUnseen(t *testing.T) {
	t.Parallel()
	if auroc := detectNotMNIST(t, "learned", "seed1.onnx"); !(auroc >= 0.988) {
		t.Errorf("AUROC %v, want 0.988", auroc)
	}
}

// detectNotMNIST returns the AUROC of a score for a network, calibrated without out-of-distribution data.
func detectNotMNIST(t *testing.T, score, model string) float64 {
	t.Helper()
	data := realdata.Dir(t)
	training := data + "/mnist/train-images-idx3-ubyte.gz"
	out := filepath.Join(t.TempDir(), "bundle")
	calibrate := []string{"calibrate", "--model", "../../models/mnist-mlp/" + model, "--train", training + "[0:20000]",
		"--val", training + "[55000:56000]", "--structure", "kron", "--damping", "rel:1", "--out", out}
	if score == "learned" {
		calibrate = append(calibrate, "--ood", "auto", "--ood-score", score)
	}
	if code, _, stderr := invoke(t.Context(), calibrate...); code != 0 {
		t.Fatalf("%q: exit code %d: %s", calibrate, code, stderr)
	}
	code, stdout, stderr := invoke(t.Context(), "eval", "--bundle", out, "--test", data+"/mnist/t10k-images-idx3-ubyte.gz",
		"--ood", "notmnist="+data+"/notmnist/notmnist-images-idx3-ubyte.gz[5000:]", "--methods", "ood_score", "--json")
	if code != 0 {
		t.Fatalf("eval: exit code %d: %s", code, stderr)
	}
	var e bench.Evaluation
	if err := json.Unmarshal([]byte(stdout), &e); err != nil {
		t.Fatal(err)
	}
	m := e.Methods[0]
	if m.Name != score || len(m.OOD) != 1 {
		t.Fatalf("%+v", m)
	}
	t.Logf("AUROC %.4f", m.OOD[0].AUROC)
	return m.OOD[0].AUROC
}
