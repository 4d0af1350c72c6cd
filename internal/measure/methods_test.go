package measure_test

import (
	"testing"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/metrics"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/calibrate/score"
	"github.com/mfgs/mfgs/internal/measure"
)

func TestPlainMethodsNeedNoTrainingData(t *testing.T) {
	t.Parallel()
	knn, _ := score.Find("knn")
	serving := &calibrate.Calibration{Score: &score.Served{Fitted: score.Fitted{Score: knn}}}
	for _, c := range []struct {
		name string
		of   *calibrate.Calibration
		want bool
	}{
		{"mle", nil, true},
		{measure.Served, nil, true},
		{"energy", nil, true},
		{"knn", nil, false}, // is fitted to training data
		{"knn", serving, true},
		{"mahalanobis", serving, false},
		{"none", serving, false},
	} {
		if got := measure.Plain(c.name, c.of); got != c.want {
			t.Errorf("%s is plain: %v, want %v", c.name, got, c.want)
		}
	}
}

// Methods are computed together, and each is measured with its own score.
func TestEachMethodIsMeasuredWithItsOwnScore(t *testing.T) {
	t.Parallel()
	h := layer.Head{Features: 2, Logits: 2, Link: layer.Softmax}
	c := &calibrate.Calibration{
		Posterior: &calibrate.Posterior{Head: h, Structure: calibrate.Full, Covariance: calibrate.Hessian, Epsilon: 1,
			Blocks: []float64{1, 0, 0, 1, 1, 0, 0, 1}, Leverage: []float64{1, 0, 0, 1}},
		NLL: layer.Temperatures{Act: 1, Ens: 1}, OOD: layer.Temperatures{Act: 1, Ens: 1}, TS: 1,
	}
	// The logits are the features. Energy, largest logit and leverage order these examples differently.
	test := []float32{2, 0, 0, 3, 1, 1.5, 4, 3.5}
	ood := []float32{0.5, 0, 5, 5, -3, -4, 2.5, -2.5}
	for _, names := range [][]string{
		{"mle", "energy", "max_logit", "leverage", measure.Served},
		{"energy", "mf0", "max_logit", "leverage", measure.Served},
	} {
		var tallies []*measure.Tally
		for _, n := range names {
			tallies = append(tallies, measure.New(n, h, 0, 0, []string{"ood"}))
		}
		for part, x := range map[measure.SetID][]float32{{Role: measure.Test}: test, {Role: measure.OOD}: ood} {
			b := &rows.Batch{N: 4, Features: x, Logits: x, Labels: []int{0, 1, 1, 0}}
			if err := measure.AddPlain(tallies, c, nil, part, b); err != nil {
				t.Fatal(err)
			}
		}
		for i, n := range names {
			if n == "mle" || n == "mf0" {
				continue
			}
			f, err := tallies[i].Figures()
			if err != nil {
				t.Fatal(n, err)
			}
			s := &c.Served().Fitted
			if found, is := score.Find(n); is {
				s = &score.Fitted{Score: found}
			}
			of := func(x []float32) []float64 { return c.Scores([]*score.Fitted{s}, x, x, 4)[0] }
			want, err := metrics.Detect(of(test), of(ood))
			if err != nil || f.OOD[0].OOD != want {
				t.Errorf("%s among %v: %+v, want %+v, %v", n, names, f.OOD[0].OOD, want, err)
			}
		}
	}
}
