package bench

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/meanfield"
	"github.com/mfgs/mfgs/internal/approx"
	"github.com/mfgs/mfgs/models"
	"github.com/mfgs/mfgs/wrap/bundle"
)

// again are comparators that give the network's own probabilities again, so many times each.
type again struct {
	names   []string
	draws   int
	refuse  error
	skip    bool // leaves a set out
	session *Session
	train   *Set
}

func (a *again) Takes(name string) bool { return slices.Contains(a.names, name) }

func (a *again) Check([]string) error { return a.refuse }

func (a *again) Open(ctx context.Context, s *Session, names []string) (all []Comparator, err error) {
	a.session = s
	if a.train, err = s.Open(ctx, bundle.Train, ""); err != nil {
		return nil, err
	}
	for _, name := range names {
		for draw := range a.draws {
			all = append(all, Comparator{name, draw, a.measure})
		}
	}
	return all, nil
}

func (a *again) measure(_ context.Context, add func(*Set, Predictions) error) (Outcome, error) {
	for _, s := range a.session.Sets()[:len(a.session.Sets())-map[bool]int{true: 1}[a.skip]] {
		logp, margin := calibrate.Plain(a.session.Calibration().Posterior.Head, s.Data().Logits, s.Data().N, 1)
		for i, m := range margin {
			margin[i] = -m
		}
		if err := add(s, Predictions{LogP: logp, OOD: margin, NLL: margin}); err != nil {
			return Outcome{}, err
		}
	}
	return Outcome{Note: "again", Seconds: map[string]float64{"test": 1}}, nil
}

// Predictions of comparators give the same figures as those of the bundle, in the order of the names. A comparator
// may take a name of Methods.
func TestComparatorsAreMeasuredAsTheBundle(t *testing.T) {
	dir, _ := calibrated(t, calibrate.Kronecker)
	a := &again{names: []string{"again", "mf0"}, draws: 2}
	e, err := Evaluate(t.Context(), Config{
		Bundle: dir, Test: digits(t, models.DigitsTest), Methods: []string{"again", "mle", "mf0"}, Comparators: a,
		OOD:    []NamedSpec{{"drawings", digits(t, models.OODTest)}},
		Shifts: []NamedSpec{{"validation", digits(t, models.DigitsVal)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for i, m := range e.Methods {
		names = append(names, m.Name)
		mle := e.Methods[2]
		if m.InDomain.InDomain != mle.InDomain.InDomain || m.Shifts[0].InDomain != mle.Shifts[0].InDomain ||
			m.OOD[0].OOD != mle.OOD[0].OOD {
			t.Errorf("%s: %+v, the network %+v", m.Name, m, mle)
		}
		if want := map[int]int{1: 1, 4: 1}[i]; m.Draw != want || (m.Note == "again") != (i != 2) {
			t.Errorf("%d: draw %d, want %d; note %q", i, m.Draw, want, m.Note)
		}
	}
	if got := strings.Join(names, " "); got != "again again mle mf0 mf0" {
		t.Errorf("methods %s", got)
	}
	if a.train.Name() != "train" || a.train.Data() != nil || a.session.Sets()[1].Shifted() != true {
		t.Errorf("the training data is %s with %v", a.train.Name(), a.train.Data())
	}
}

func TestComparatorsThatFail(t *testing.T) {
	dir, _ := calibrated(t, calibrate.Kronecker)
	refused := errors.New("refused")
	for name, c := range map[string]struct {
		comparators again
		words       []string
	}{
		"refused":   {again{names: []string{"again"}, draws: 1, refuse: refused}, []string{"refused"}},
		"not all":   {again{names: []string{"again"}, draws: 1, skip: true}, []string{"method again", "did not measure all sets"}},
		"not taken": {again{draws: 1}, []string{`"again"`, "no"}},
	} {
		_, err := Evaluate(t.Context(), Config{
			Bundle: dir, Test: digits(t, models.DigitsTest), Methods: []string{"again"}, Comparators: &c.comparators,
		})
		if err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		says(t, err, c.words...)
	}
}

// Data used both for fitting and for measuring are reported.
func TestSharedDataAreReported(t *testing.T) {
	dir, _ := calibrated(t, calibrate.Kronecker)
	e, err := Evaluate(t.Context(), Config{
		Bundle: dir, Test: digits(t, models.DigitsTest), OOD: []NamedSpec{{"drawings", digits(t, models.OODTest)}},
		Methods: []string{"again"}, Comparators: opening{&again{names: []string{"again"}, draws: 1},
			digits(t, strings.Replace(models.DigitsTest, "[1500:1797]", "[1700:1797]", 1))},
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(e.Warnings) != 1 || !strings.Contains(e.Warnings[0], "test and val share") || !strings.Contains(e.Warnings[0], "[1700:1797]") {
		t.Errorf("warnings %q", e.Warnings)
	}
}

// opening opens other validation data.
type opening struct {
	*again
	spec string
}

func (o opening) Open(ctx context.Context, s *Session, names []string) ([]Comparator, error) {
	if _, err := s.Open(ctx, bundle.Val, o.spec); err != nil {
		return nil, err
	}
	return o.again.Open(ctx, s, names)
}

// mf1 is measured as an exported model gives it: at the bundle's own temperatures.
func TestMF1IsOfTheBundlesTemperatures(t *testing.T) {
	dir, r := calibrated(t, calibrate.Kronecker)
	e, err := Evaluate(t.Context(), Config{Bundle: dir, Test: digits(t, models.DigitsTest), Methods: []string{"mf1", "mf0"}})
	if err != nil {
		t.Fatal(err)
	}
	b, err := bundle.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(read(t, digits(t, "digits-labels-idx1-ubyte.gz"))))
	if err != nil {
		t.Fatal(err)
	}
	labels, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	phi, logits := rowsOf(t, digits(t, models.DigitsModel), digitTensor(t, 1500, 1797))
	s2, nll := make([]float64, 297*10), 0.0
	b.Posterior.Variances(s2, phi, 297)
	for i := range 297 {
		mu, logp := make([]float64, 10), make([]float64, 10)
		for k := range mu {
			mu[k] = float64(logits[i*10+k]) / r.Temperatures.NLL.Act
			s2[i*10+k] /= r.Temperatures.NLL.Ens
		}
		meanfield.MF1(logp, mu, s2[i*10:(i+1)*10], meanfield.Lambda0)
		nll -= logp[labels[8+1500+i]] / 297
	}
	mf1, mf0 := e.Methods[0], e.Methods[1]
	if !approx.Equal(mf1.InDomain.NLL, nll, 1e-6) || mf1.Temperatures != nil ||
		approx.Equal(mf1.InDomain.NLL, mf0.InDomain.NLL, 1e-9) {
		t.Errorf("NLL %v, want %v; of mf0 %v", mf1.InDomain.NLL, nll, mf0.InDomain.NLL)
	}
}

func TestMF1IsOfFewClasses(t *testing.T) {
	b := &bench{requests: []*request{{name: "mf1"}}, head: layer.Head{Logits: 1000, Link: layer.Softmax}}
	says(t, b.checkPairwise(), "mf1", "1000 classes", "want at most 256")
	b.requests[0].taken = true
	if err := b.checkPairwise(); err != nil {
		t.Error(err)
	}
}

// Data for fitting must be those of the calibration, unless other data are named.
func TestFittingWantsTheDataOfCalibration(t *testing.T) {
	dir := t.TempDir()
	images, names := digits(t, "digits-images-idx3-ubyte.gz"), "digits-labels-idx1-ubyte.gz"
	write(t, dir, "digits-images-idx3-ubyte.gz", read(t, images))
	write(t, dir, names, read(t, digits(t, names)))
	c := config(t, filepath.Join(dir, "b"))
	c.Train = filepath.Join(dir, models.DigitsTrain)
	mustCalibrate(t, quick(c))
	cfg := Config{Bundle: c.Out, Test: digits(t, models.DigitsTest), Methods: []string{"knn", "mle"},
		OOD: []NamedSpec{{"drawings", digits(t, models.OODTest)}}}
	if _, err := Evaluate(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	write(t, dir, names, read(t, digits(t, names))[:20])
	_, err := Evaluate(t.Context(), cfg)
	says(t, err, "the calibration data", "with Train")
	cfg.Train = c.Val
	if _, err := Evaluate(t.Context(), cfg); err != nil {
		t.Error(err)
	}
}
