package bench_test

import (
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/internal/approx"
	"github.com/mfgs/mfgs/internal/measure"
	"github.com/mfgs/mfgs/internal/wraptest"
	"github.com/mfgs/mfgs/models"
	"github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/bench"
)

func TestEvaluateRefuses(t *testing.T) {
	t.Parallel()
	dir, _ := wraptest.Calibrated(t, calibrate.Kronecker)
	large := t.TempDir()
	wraptest.Write(t, large, "0001.png", wraptest.Photo(t, 1, 28))
	for _, tt := range []struct {
		name  string
		edit  func(c *bench.Config)
		words []string
	}{
		{"no test data", func(c *bench.Config) { c.Test = "" }, []string{"test data"}},
		{"no bundle", func(c *bench.Config) { c.Bundle = large }, []string{large, "not a bundle"}},
		{"unknown method", func(c *bench.Config) { c.Methods = []string{"mf0", "magic"} }, []string{"magic", "mf0"}},
		{"a method twice", func(c *bench.Config) { c.Methods = []string{"mf0", "mf0"} }, []string{"twice"}},
		{"a name twice", func(c *bench.Config) { c.OOD = []bench.NamedSpec{{Name: "a", Spec: c.Test}, {Name: "a", Spec: c.Test}} },
			[]string{`"a"`, "NAME=SPEC"}},
		{"no labels", func(c *bench.Config) { c.Test = wraptest.Digits(t, models.OODTest) }, []string{"test: ", "no labels"}},
		{"images of another size", func(c *bench.Config) { c.OOD = []bench.NamedSpec{{Name: "letters", Spec: large}} }, []string{"letters: 0001.png", "28×28"}},
		{"another model", func(c *bench.Config) { c.Model = "../../featurize/testdata/conv.onnx" }, []string{"conv.onnx", "SHA-256"}},
		{"negative limit", func(c *bench.Config) { c.Limit = -1 }, []string{"Limit is -1"}},
		{"negative bins", func(c *bench.Config) { c.Bins = -1 }, []string{"Bins is -1, want 1 to 1000"}},
		{"too many bins", func(c *bench.Config) { c.Bins = 1001 }, []string{"Bins is 1001, want 1 to 1000"}},
		{"negative batch", func(c *bench.Config) { c.Runtime.Batch = -1 }, []string{"Batch -1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := bench.Config{Bundle: dir, Test: wraptest.Digits(t, models.DigitsTest)}
			tt.edit(&c)
			_, err := bench.Evaluate(t.Context(), c)
			wraptest.Says(t, err, tt.words...)
		})
	}
}

func TestEvaluateTakesAPart(t *testing.T) {
	t.Parallel()
	dir, _ := wraptest.Calibrated(t, calibrate.Kronecker)
	last := map[string]wrap.Progress{}
	e, err := bench.Evaluate(t.Context(), bench.Config{
		Bundle: dir, Test: wraptest.Digits(t, models.DigitsTest),
		OOD:     []bench.NamedSpec{{Name: "letters", Spec: wraptest.Digits(t, models.OODTest)}},
		Methods: []string{"leverage", "mle"}, Limit: 50, Progress: func(p wrap.Progress) { last[p.Stage] = p },
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(e.Methods) != 2 || e.Methods[0].Name != "leverage" || e.Methods[1].InDomain.N != 50 || e.Methods[1].OOD[0].N != 50 {
		t.Errorf("%+v", e.Methods)
	}
	if p := last["intervals"]; p.Done != measure.Resamples || p.Total != p.Done || p.Unit != "resamples" {
		t.Errorf("progress of the intervals ends at %+v", p)
	}
	for _, stage := range []string{"test", "letters"} {
		if p := last[stage]; p.Done != 50 || p.Total != 50 || p.Unit != "examples" {
			t.Errorf("progress of %s ends at %+v", stage, p)
		}
	}
}

// All binned figures have the bins that are asked for. With one, the ECE is the difference between mean confidence and
// accuracy.
func TestBinsAreThoseAskedFor(t *testing.T) {
	t.Parallel()
	dir, _ := wraptest.Calibrated(t, calibrate.Kronecker)
	classwise := map[int]float64{}
	for asked, bins := range map[int]int{0: 10, 1: 1, 40: 40} {
		e, err := bench.Evaluate(t.Context(), bench.Config{
			Bundle: dir, Test: wraptest.Digits(t, models.DigitsTest), Methods: []string{"mle"}, Bins: asked,
			Resamples: 10, Detailed: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		drawn, in := e.Detail.Curves["mle"].Bins, e.Methods[0].InDomain
		if e.Bins != bins || len(drawn) != bins {
			t.Fatalf("%d bins asked for, %d said and %d drawn", asked, e.Bins, len(drawn))
		}
		ece := 0.0
		for _, b := range drawn {
			if b.N > 0 {
				ece += float64(b.N) / float64(in.N) * math.Abs(b.Confidence-b.Accuracy)
			}
		}
		if !approx.Equal(in.ECE, ece, 1e-12) { // rounding of 297 sums
			t.Errorf("%d bins: ECE %v, want %v", bins, in.ECE, ece)
		}
		classwise[bins] = in.ClasswiseECE
	}
	if classwise[1] >= classwise[10] || classwise[10] >= classwise[40] {
		t.Errorf("class-wise ECE %v does not grow with the bins", classwise)
	}
}

func TestEvaluationOnCalibrationDataGivesAWarning(t *testing.T) {
	t.Parallel()
	dir, _ := wraptest.Calibrated(t, calibrate.Kronecker)
	warnings := func(test, ood string) []string {
		t.Helper()
		e, err := bench.Evaluate(t.Context(), bench.Config{
			Bundle: dir, Test: wraptest.Digits(t, test), Methods: []string{"mle"},
			OOD: []bench.NamedSpec{{Name: "drawings", Spec: wraptest.Digits(t, ood)}},
		})
		if err != nil {
			t.Fatal(err)
		}
		return e.Warnings
	}
	if got := warnings(models.DigitsTest, models.OODTest); len(got) > 0 {
		t.Errorf("warnings %q", got)
	}
	got := warnings(models.DigitsVal, models.OODVal)
	if len(got) != 2 || !strings.HasPrefix(got[0], "test: this data was used as val") || !strings.HasPrefix(got[1], "drawings: this data was used as ood") {
		t.Errorf("warnings %q", got)
	}
	if got := warnings(models.DigitsTrain, models.OODTest); len(got) != 1 || !strings.HasPrefix(got[0], "test: this data was used as train") {
		t.Errorf("warnings %q", got)
	}
}

func TestAnEvaluationGoesOnWithoutACacheThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	dir, _ := wraptest.Calibrated(t, calibrate.Kronecker)
	c := bench.Config{
		Bundle: dir, Test: wraptest.Digits(t, models.DigitsTest), Methods: []string{"mle"}, Resamples: 1,
		OOD: []bench.NamedSpec{{Name: "letters", Spec: wraptest.Digits(t, models.OODTest)}},
	}
	want, err := bench.Evaluate(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	c.Cache = wraptest.Write(t, t.TempDir(), "file", []byte("not a folder"))
	got, err := bench.Evaluate(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	more := got.Warnings[len(want.Warnings):]
	if len(more) != 1 || !strings.Contains(more[0], "features cache: ") || !strings.Contains(more[0], c.Cache) {
		t.Errorf("warnings: %q", got.Warnings)
	}
	if got.Warnings = want.Warnings; !reflect.DeepEqual(got, want) {
		t.Errorf("figures %+v, want %+v", got, want)
	}
}
