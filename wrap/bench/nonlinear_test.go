package bench_test

import (
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/mfgs/mfgs/internal/approx"
	"github.com/mfgs/mfgs/internal/onnx/onnxtest"
	"github.com/mfgs/mfgs/internal/wraptest"
	"github.com/mfgs/mfgs/onnx/head"
	"github.com/mfgs/mfgs/wrap/bench"
)

// Without a linear layer the methods that need one are left out, and refused if they are asked for.
func TestMethodsSuitTheHead(t *testing.T) {
	t.Parallel()
	c := wraptest.ForestConfig(t, 4, nil)
	r := wraptest.MustCalibrate(t, c)
	evaluate := func(dir string, methods ...string) (*bench.Evaluation, error) {
		return bench.Evaluate(t.Context(), bench.Config{Bundle: dir, Test: c.Val,
			OOD: []bench.NamedSpec{{Name: "far", Spec: c.OOD}}, Methods: methods})
	}
	e, err := evaluate(c.Out)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range e.Methods {
		names = append(names, m.Name)
	}
	want := []string{"mle", "ts", "ood_score"}
	if r.Probabilities.Matrix {
		want = []string{"mle", "ts", "matrix", "ood_score"}
	}
	if i := slices.Index(names, r.OODScore.Name); i >= 0 {
		names[i] = "ood_score"
	}
	if !slices.Equal(names, want) {
		t.Errorf("methods %q, want %q", names, want)
	}
	// They have the figures of calibration, which were of the same data.
	if got := e.Methods[1].InDomain.NLL; !approx.Equal(got, r.Validation.TS.NLL, 1e-6) {
		t.Errorf("temperature scaling has the NLL %v, %v at calibration", got, r.Validation.TS.NLL)
	}
	if got := e.Methods[0].InDomain.NLL; !approx.Equal(got, ownNLL(), 1e-5) {
		t.Errorf("the forest has the NLL %v, want %v", got, ownNLL())
	}
	for _, method := range []string{"mf0", "leverage", "studentized", "guarded_margin", "react", "mahalanobis", "column_knn"} {
		_, err := evaluate(c.Out, "mle", method)
		wraptest.Says(t, err, "method "+method+" needs ")
	}

	// Scores of columns that the bundle does not serve are fitted to its training data.
	c.Head.Features, c.Out, c.OODScore = "x", filepath.Join(t.TempDir(), "columns"), "column_knn"
	served := wraptest.MustCalibrate(t, c)
	if e, err = evaluate(c.Out, "mle", "column_mahalanobis", "column_knn", "mahalanobis", "gen"); err != nil {
		t.Fatal(err)
	}
	for _, m := range e.Methods[1:] {
		if m.InDomain != nil || !(m.OOD[0].AUROC > 0) {
			t.Errorf("%s: %+v", m.Name, m)
		}
	}
	if got, want := e.Methods[2].OOD[0].AUROC, served.OODScore.AUROC; !approx.Equal(got, want, 1e-6) {
		t.Errorf("column_knn has the AUROC %v, %v at calibration", got, want)
	}
	_, err = evaluate(c.Out, "mle", "leverage")
	wraptest.Says(t, err, "method leverage needs a linear last layer")
}

// ownNLL is that of the forest on the validation data of ForestConfig.
func ownNLL() (nll float64) {
	f := onnxtest.NewForest(4)
	x, labels := f.Draw(12, wraptest.ForestVal)
	p := f.Probabilities(x)
	for i, y := range labels {
		var sum float64
		for _, v := range p[i*4 : (i+1)*4] {
			sum += math.Max(v, head.LeastProbability)
		}
		nll -= math.Log(math.Max(p[i*4+int(y)], head.LeastProbability)/sum) / wraptest.ForestVal
	}
	return nll
}
