package compare

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/cmd/mfgs-paper/internal/methods"
	"github.com/mfgs/mfgs/internal/approx"
	"github.com/mfgs/mfgs/internal/measure"
	"github.com/mfgs/mfgs/internal/source"
	"github.com/mfgs/mfgs/internal/wraptest"
	"github.com/mfgs/mfgs/models"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/wrap/bench"
	"github.com/mfgs/mfgs/wrap/bundle"
	"github.com/mfgs/mfgs/wrap/calibration"
)

// methodFile is a network of testdata/methods, which are for the digits.
func methodFile(name string) string {
	return filepath.Join("..", "..", "..", "..", "testdata", "methods", name)
}

func trajectory() []string {
	var files []string
	for _, n := range []string{"epoch101.onnx", "epoch102.onnx", "epoch103.onnx", "epoch104.onnx"} {
		files = append(files, methodFile(filepath.Join("trajectory", n)))
	}
	return files
}

// everything is an evaluation of the digits by which the methods have what they need.
func everything(t testing.TB, bundle string, methods ...string) Config {
	c := Config{Config: bench.Config{
		Bundle: bundle, Test: wraptest.Digits(t, models.DigitsTest),
		OOD:     []bench.NamedSpec{{Name: "drawings", Spec: wraptest.Digits(t, models.OODTest)}},
		Methods: methods,
	}, With: map[string][]string{}}
	for _, name := range methods {
		switch {
		case name == "ensemble":
			c.With["ensemble"] = []string{wraptest.Digits(t, models.DigitsModel), methodFile("seed1.onnx"), methodFile("seed2.onnx")}
		case name == "jackknife":
			c.With["jackknife"] = []string{methodFile("seed1.onnx"), methodFile("seed2.onnx")}
		case strings.HasSuffix(name, "@swag"):
			c.With["swag"] = trajectory()
		case strings.HasPrefix(name, "bnn-vi"):
			c.With["bnn-vi"] = []string{methodFile("vi.onnx")}
		}
	}
	return c
}

// evaluated are the results by name.
func evaluated(t *testing.T, cfg Config) map[string]bench.MethodResult {
	t.Helper()
	e, err := Evaluate(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := json.Marshal(e); err != nil {
		t.Error(err)
	}
	if len(e.Warnings) > 0 {
		t.Errorf("warnings %q", e.Warnings)
	}
	by := map[string]bench.MethodResult{}
	for i, m := range e.Methods {
		if m.Name != cfg.Methods[i] {
			t.Errorf("method %d is %s, want %s", i, m.Name, cfg.Methods[i])
		}
		by[m.Name] = m
	}
	return by
}

func TestEveryMethodOnTheDigits(t *testing.T) {
	t.Parallel()
	dir, _ := wraptest.Calibrated(t, calibrate.Full)
	var names []string
	for i, k := range registry {
		name := k.name
		if name == measure.Served || measure.IsScore(name) && !measure.Plain(name, nil) {
			continue // another name for one of these; scores that need fitting are measured where a bundle serves it
		}
		if k.sampled {
			name += ":40"
		}
		names = append(names, name)
		if covariances := []string{"@fisher", "@sandwich/full", "@hessian/kron", "@swag"}; k == mf0 {
			for _, c := range covariances {
				names = append(names, name+c)
			}
		} else if k.gaussian { // one in turn: they share the code that makes them
			names = append(names, name+covariances[i%len(covariances)])
		}
	}
	by := evaluated(t, everything(t, dir, names...))
	mle := by["mle"]
	for _, name := range names {
		r := by[name]
		if len(r.OOD) != 1 || len(r.OODNLL) != 1 || r.OOD[0].Name != "drawings" || r.OOD[0].N != 300 {
			t.Errorf("%s: out of distribution %+v", name, r.OOD)
			continue
		}
		// No method detects the drawings worse than the network's own softmax, but for two scores of the logits
		// and two trainings.
		least := mle.OOD[0].AUROC - 0.01
		switch name {
		case "energy", "max_logit":
			least -= 0.1
		case "edl", "bnn-vi:40":
			least -= 0.03
		}
		if measure.IsScore(name) {
			if !(r.OOD[0].AUROC > least) || r.InDomain != nil {
				t.Errorf("%s: AUROC %v, in domain %v", name, r.OOD[0].AUROC, r.InDomain)
			}
			continue
		}
		// Temperatures tuned on 300 validation digits do not make these much worse than the
		// network's own probabilities, but that evidence and variational inference learn
		// less from 1,200 digits.
		worse, wrong := 0.02, 0.05
		if name == "edl" || name == "bnn-vi:40" {
			worse, wrong = 0.6, 0.2
		}
		if r.InDomain.N != 297 || !(r.InDomain.NLL < mle.InDomain.NLL+worse) || !(r.InDomain.Error < wrong) {
			t.Errorf("%s: in domain %+v, the network %+v", name, r.InDomain.InDomain, mle.InDomain.InDomain)
		}
		if !(r.OOD[0].AUROC > least) {
			t.Errorf("%s: AUROC %v, the network's own %v", name, r.OOD[0].AUROC, mle.OOD[0].AUROC)
		}
		if own := slices.Contains([]string{"mle", "ts", "matrix", "mf0"}, name); own != (r.Temperatures == nil) {
			t.Errorf("%s: temperatures %v", name, r.Temperatures)
		}
	}
	if a, b := by["mf0"].InDomain.NLL, by["mf0@hessian/kron"].InDomain.NLL; !approx.Equal(a, b, 0.01) {
		t.Errorf("NLL %v with the full and %v with the Kronecker structure", a, b)
	}
	if note := by["dropout:40"].Note; !strings.Contains(note, "on features") {
		t.Errorf("dropout says %q of a network without Dropout", note)
	}
}

func TestTheBundlesOwnCovarianceGivesTheBundlesFigures(t *testing.T) {
	t.Parallel()
	for _, s := range wraptest.Structures {
		dir, _ := wraptest.Calibrated(t, s)
		by := evaluated(t, everything(t, dir, "mf0", "mf0@hessian", "mf1", "ts"))
		own, again := by["mf0"], by["mf0@hessian"]
		if d := own.InDomain.NLL - again.InDomain.NLL; !approx.Equal(d, 0, 2e-4) {
			t.Errorf("%s: NLL %v, from scratch %v", s, own.InDomain.NLL, again.InDomain.NLL)
		}
		if d := own.OOD[0].AUROC - again.OOD[0].AUROC; !approx.Equal(d, 0, 2e-3) {
			t.Errorf("%s: AUROC %v, from scratch %v", s, own.OOD[0].AUROC, again.OOD[0].AUROC)
		}
	}
}

// waiting is a comparison that waits, once it is open, until the test has ended.
type waiting struct {
	*comparison
	opened, ended chan struct{}
}

func (w waiting) Open(ctx context.Context, s *bench.Session, names []string) ([]bench.Comparator, error) {
	all, err := w.comparison.Open(ctx, s, names)
	if err == nil {
		close(w.opened)
		<-w.ended
	}
	return all, errors.Join(err, errEnded)
}

var errEnded = errors.New("the test has ended")

// ready is a comparison that is ready to measure.
func ready(t *testing.T, cfg Config) *comparison {
	t.Helper()
	b := newComparison(cfg)
	if err := b.check(); err != nil {
		t.Fatal(err)
	}
	w := waiting{b, make(chan struct{}), make(chan struct{})}
	cfg.Config.Comparators = w
	result := make(chan error, 1)
	go func() {
		_, err := bench.Evaluate(context.Background(), cfg.Config)
		result <- err
	}()
	select {
	case <-w.opened:
	case err := <-result:
		t.Fatal(err)
	}
	t.Cleanup(func() {
		close(w.ended)
		<-result
	})
	return b
}

// measured are the sets that are measured on, with what they are tuned on.
func (b *comparison) measured() []*bench.Set {
	return append(slices.Clone(b.session.Sets()), b.val, b.ood)
}

// It equals that of a calibration with the covariance.
func TestEachCovarianceHasItsOwnDamping(t *testing.T) {
	t.Parallel()
	dir, report := wraptest.Calibrated(t, calibrate.Kronecker)
	_, full := wraptest.Calibrated(t, calibrate.Full)
	c := wraptest.Config(t, filepath.Join(t.TempDir(), "b"))
	c.Structure, c.Covariance = calibrate.Kronecker, calibrate.Fisher
	fisher := wraptest.MustCalibrate(t, c)
	b := ready(t, everything(t, dir, "mf0@fisher", "mf0@hessian/full"))
	for _, s := range []*bench.Set{b.val, b.ood} {
		if err := b.session.Read(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	for _, of := range []struct {
		key  dampedKey
		want float64
	}{
		{dampedKey{calibrate.Kronecker, calibrate.Hessian}, report.Damping.Epsilon},
		{dampedKey{calibrate.Kronecker, calibrate.Fisher}, fisher.Damping.Epsilon},
		{dampedKey{calibrate.Full, calibrate.Hessian}, full.Damping.Epsilon},
	} {
		_, epsilon, err := b.dampingOf(t.Context(), of.key)
		if err != nil {
			t.Fatal(err)
		}
		if !approx.Relative(epsilon, of.want, 1e-6) {
			t.Errorf("%v has the damping %v, calibration finds %v", of.key, epsilon, of.want)
		}
		if of.want != report.Damping.Epsilon && approx.Relative(of.want, report.Damping.Epsilon, 0.01) {
			t.Errorf("the damping %v of %v is too close to the bundle's, %v, to tell them apart", of.want, of.key, report.Damping.Epsilon)
		}
	}
}

func TestEachSetHasItsOwnDraws(t *testing.T) {
	t.Parallel()
	dir, _ := wraptest.Calibrated(t, calibrate.Kronecker)
	cfg := everything(t, dir, "rue:5")
	held := wraptest.Digits(t, models.DigitsVal)
	cfg.OOD = append(cfg.OOD, bench.NamedSpec{Name: "other", Spec: wraptest.Digits(t, models.OODVal)})
	cfg.Shifts = []bench.NamedSpec{{Name: "first", Spec: held}, {Name: "second", Spec: held}, {Name: "third", Spec: held}}
	b := ready(t, cfg)
	seen := map[uint64]string{}
	for seed := range uint64(3) {
		for _, s := range append(b.measured(), b.train) {
			name := fmt.Sprintf("set %s with seed %d", s.Name(), seed)
			if other, taken := seen[s.Seed(seed)]; taken {
				t.Errorf("%s has the draws of %s", name, other)
			}
			seen[s.Seed(seed)] = name
		}
	}
	if want := 3 * (1 + 3 + 2 + 3); len(seen) != want {
		t.Errorf("%d seeds, want %d", len(seen), want)
	}
}

func TestEachSetHasItsOwnSeedOfANetwork(t *testing.T) {
	t.Parallel()
	dir, _ := wraptest.Calibrated(t, calibrate.Kronecker)
	e := ready(t, everything(t, dir, "mc:5"))
	stop := errors.New("stop")
	seen := map[int]int{} // how many sets have a seed
	predict := e.passes(e.requests[0], 1, func(seed int) (*onnx.Model, error) {
		seen[seed]++
		return nil, stop
	})
	sets := e.measured()
	for _, s := range sets {
		if _, err := predict(t.Context(), s); err != stop {
			t.Fatal(err)
		}
	}
	if len(seen) != len(sets) {
		t.Errorf("%d sets have the seeds %v", len(sets), seen)
	}
}

func TestDropoutChoosesTheRateByValidationNLL(t *testing.T) {
	t.Parallel()
	dir, _ := wraptest.Calibrated(t, calibrate.Kronecker)
	b := ready(t, everything(t, dir, "dropout:5"))
	for _, s := range []*bench.Set{b.val, b.ood} {
		if err := b.session.Read(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	r := b.requests[0]
	best, least, worst := 0.0, math.Inf(1), 0.0
	for _, rate := range dropoutRates {
		b.DropoutRate = rate
		predict, note, err := fitDropout(t.Context(), b, r)
		if err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("on features, rate %g", rate); note != want {
			t.Errorf("note %q, want %q", note, want)
		}
		nll, err := b.validationNLL(t.Context(), predict)
		if err != nil {
			t.Fatal(err)
		}
		if worst = max(worst, nll); nll < least {
			best, least = rate, nll
		}
	}
	b.DropoutRate = 0
	_, note, err := fitDropout(t.Context(), b, r)
	if want := fmt.Sprintf("on features, rate %g", best); err != nil || note != want || !(least < worst) {
		t.Errorf("note %q, want %q (%v); NLL %v to %v", note, want, err, least, worst)
	}
}

func TestLayersAreDampedAsTheBundle(t *testing.T) {
	t.Parallel()
	dir, _ := wraptest.Calibrated(t, calibrate.Kronecker)
	cfg := everything(t, dir, "mf1")
	cfg.Layers = 2
	b := ready(t, cfg)
	if err := b.session.Read(t.Context(), b.train); err != nil {
		t.Fatal(err)
	}
	tail, err := b.openDense()
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		bundle bundle.Damping
		want   calibrate.Damping
	}{
		{bundle.Damping{Rule: "auto", Rho: 0.375, Epsilon: 2}, calibrate.Damping{Relative: 0.375}},
		{bundle.Damping{Rule: "rel:0.5", Rho: 0.5, Epsilon: 2}, calibrate.Damping{Relative: 0.5}},
		{bundle.Damping{Rule: "3", Rho: 0.25, Epsilon: 3}, calibrate.Damping{Absolute: 3}},
	} {
		clear(tail.posteriors)
		b.manifest.Damping = test.bundle
		if _, got, err := b.posteriorOf(t.Context(), tail, calibrate.Hessian); err != nil || got != test.want {
			t.Errorf("%+v: damping %v, want %v (%v)", test.bundle, got, test.want, err)
		}
	}
}

func TestAnEnsembleOfOneNetworkIsTemperatureScaling(t *testing.T) {
	t.Parallel()
	dir, r := wraptest.Calibrated(t, calibrate.Kronecker)
	cfg := everything(t, dir, "ts", "ensemble")
	cfg.With["ensemble"] = []string{cfg.With["ensemble"][0], cfg.With["ensemble"][0]}
	cfg.Shifts = []bench.NamedSpec{{Name: "validation", Spec: wraptest.Digits(t, models.DigitsVal)}}
	e, err := Evaluate(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	ts, ensemble := e.Methods[0], e.Methods[1]
	if a := ensemble.Temperatures.NLL.Act; !approx.Equal(math.Log(a/r.Temperatures.TS), 0, 2e-3) {
		t.Errorf("temperature %v, of temperature scaling %v", a, r.Temperatures.TS)
	}
	for what, d := range map[string]float64{
		"NLL":             ts.InDomain.NLL - ensemble.InDomain.NLL,
		"NLL under shift": ts.Shifts[0].NLL - ensemble.Shifts[0].NLL,
		"error":           ts.InDomain.Error - ensemble.InDomain.Error,
		"AUROC":           ts.OOD[0].AUROC - ensemble.OOD[0].AUROC,
	} {
		if !approx.Equal(d, 0, 1e-5) {
			t.Errorf("%s differs by %v", what, d)
		}
	}
	if ts.Shifts[0].N != 300 || ts.Shifts[0].Name != "validation" {
		t.Errorf("under shift %+v", ts.Shifts[0])
	}
}

func TestTwoLayersGiveNearlyTheFiguresOfOne(t *testing.T) {
	t.Parallel()
	dir, _ := wraptest.Calibrated(t, calibrate.Kronecker)
	names := []string{"mf0", "mf2", "mc:40", "bnn-kfac:40", "mf0@fisher", "ts"}
	one := evaluated(t, everything(t, dir, names...))
	cfg := everything(t, dir, names...)
	cfg.Layers = 2
	two := evaluated(t, cfg)
	for _, name := range names {
		if d := two[name].InDomain.NLL - one[name].InDomain.NLL; !approx.Equal(d, 0, 0.03) {
			t.Errorf("%s: NLL %v over two layers, over one %v", name, two[name].InDomain.NLL, one[name].InDomain.NLL)
		}
		if !(two[name].OOD[0].AUROC > 0.75) {
			t.Errorf("%s: AUROC %v over two layers", name, two[name].OOD[0].AUROC)
		}
		same := name == "ts"
		if got := two[name].OOD[0].AUROC == one[name].OOD[0].AUROC; got != same {
			t.Errorf("%s: AUROC %v over two layers, over one %v", name, two[name].OOD[0].AUROC, one[name].OOD[0].AUROC)
		}
	}
	cfg.Layers = 3
	cfg.Methods = names[:1]
	_, err := Evaluate(t.Context(), cfg)
	wraptest.Says(t, err, "2 dense layers", "not in 3")
}

func TestANetworksOwnDropoutIsActivated(t *testing.T) {
	t.Parallel()
	c := wraptest.Config(t, filepath.Join(t.TempDir(), "b"))
	c.Model = methodFile("dropout.onnx")
	wraptest.MustCalibrate(t, wraptest.Quick(c))
	cfg := everything(t, c.Out, "dropout:60", "mle")
	by := evaluated(t, cfg)
	r := by["dropout:60"]
	if !strings.Contains(r.Note, "1 Dropout node") {
		t.Errorf("note %q", r.Note)
	}
	if !(r.InDomain.NLL < by["mle"].InDomain.NLL+0.02) || !(r.InDomain.Error < 0.09) {
		t.Errorf("%+v, without dropout %+v", r.InDomain.InDomain, by["mle"].InDomain.InDomain)
	}
	if again := evaluated(t, cfg)["dropout:60"]; again.InDomain.InDomain != r.InDomain.InDomain {
		t.Errorf("%+v, then %+v with the same seed", r.InDomain.InDomain, again.InDomain.InDomain)
	}
	cfg.Seed = 1
	if other := evaluated(t, cfg)["dropout:60"]; other.InDomain.InDomain == r.InDomain.InDomain {
		t.Errorf("%+v with another seed too", r.InDomain.InDomain)
	}
	cfg.DropoutRate = 0.9
	if more := evaluated(t, cfg)["dropout:60"]; !(more.InDomain.NLL > r.InDomain.NLL) {
		t.Errorf("NLL %v with nine tenths dropped, %v with a fifth", more.InDomain.NLL, r.InDomain.NLL)
	}
}

func TestDrawsDependOnTheSeedOnly(t *testing.T) {
	t.Parallel()
	dir, _ := wraptest.Calibrated(t, calibrate.Kronecker)
	names := []string{"bnn-vi:5", "mc:5", "bnn-kfac:5", "rue:5", "dropout:5", "bnn-ll-vi:5"}
	cfg := small(t, everything(t, dir, names...))
	cfg.DropoutRate = 0.2
	first := evaluated(t, cfg)
	again := cfg
	again.Shifts = []bench.NamedSpec{{Name: "a part", Spec: strings.Replace(wraptest.Digits(t, models.DigitsTest), "[1500:1797]", "[1500:1600]", 1)}}
	again.Methods = slices.Concat(names[3:], names[:3])
	second := evaluated(t, again)
	cfg.Seed = 1
	other := evaluated(t, cfg)
	for _, name := range names {
		if first[name].InDomain.InDomain != second[name].InDomain.InDomain ||
			first[name].OOD[0].OOD != second[name].OOD[0].OOD {
			t.Errorf("%s: %+v, then %+v with the same seed", name, first[name].InDomain.InDomain, second[name].InDomain.InDomain)
		}
		if first[name].InDomain.InDomain == other[name].InDomain.InDomain {
			t.Errorf("%s: %+v with another seed too", name, first[name].InDomain.InDomain)
		}
	}
}

// All share the temperatures of the first. Methods without randomness appear once.
func TestEachDrawDependsOnItsSeedOnly(t *testing.T) {
	t.Parallel()
	dir, _ := wraptest.Calibrated(t, calibrate.Full)
	random := []string{"bnn-vi:5", "mc:5", "bnn-kfac:5", "rue:5", "dropout:5", "bnn-ll-vi:5", "ensemble-ll:2",
		"jackknife-ll:2", "edl"}
	cfg := small(t, everything(t, dir, append(random, "mf1", "ts")...))
	cfg.Resamples = 20
	cfg.Seed = 7
	alone := evaluated(t, cfg)
	drawn := func(seeds ...uint64) map[string][]bench.MethodResult {
		cfg.Draws = seeds
		e, err := Evaluate(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		by := map[string][]bench.MethodResult{}
		for _, r := range e.Methods {
			if r.Draw != len(by[r.Name]) {
				t.Fatalf("%s: draw %d follows %d others", r.Name, r.Draw, len(by[r.Name]))
			}
			by[r.Name] = append(by[r.Name], r)
		}
		return by
	}
	two, three := drawn(7, 8), drawn(7, 9, 8)
	for _, name := range cfg.Methods {
		want := 1
		if slices.Contains(random, name) {
			want = 2
		}
		if len(two[name]) != want {
			t.Fatalf("%s is there %d times, want %d", name, len(two[name]), want)
		}
		first, last, again := two[name][0], two[name][want-1], three[name][len(three[name])-1]
		for what, pair := range map[string][2]bench.MethodResult{"the first draw and its seed alone": {first, alone[name]},
			"the last draw, after one other and after two": {last, again}} {
			got, want := pair[0], pair[1]
			if got.InDomain.InDomain != want.InDomain.InDomain || got.OOD[0].OOD != want.OOD[0].OOD {
				t.Errorf("%s: %s differ: %+v and %+v", name, what, got.InDomain.InDomain, want.InDomain.InDomain)
			}
		}
		if want == 1 {
			continue
		}
		if *first.Temperatures != *last.Temperatures || first.Note != last.Note { // which has the rate of dropout
			t.Errorf("%s: %+v, %s, of the first draw %+v, %s", name, *last.Temperatures, last.Note,
				*first.Temperatures, first.Note)
		}
		if first.InDomain.InDomain == last.InDomain.InDomain {
			t.Errorf("%s: both draws are %+v", name, last.InDomain.InDomain)
		}
	}
}

// A bundle's stored curvature gives what the training data gives, without reading it. Other training data or
// preprocessing overrides it.
func TestStoredCurvatureReplacesTheTrainingData(t *testing.T) {
	t.Parallel()
	half := strings.Replace(wraptest.Digits(t, models.DigitsTrain), "[0:1200]", "[0:600]", 1)
	if half == wraptest.Digits(t, models.DigitsTrain) {
		t.Fatalf("%s is not as expected", half)
	}
	names := []string{"mf2", "mc:5", "mf2@hessian"}
	for _, of := range []struct {
		structure  calibrate.Structure
		covariance calibrate.Covariance
	}{{calibrate.Full, calibrate.Sandwich}, {calibrate.Kronecker, calibrate.Fisher}} {
		c := wraptest.Config(t, filepath.Join(t.TempDir(), "b"))
		c.Structure, c.Covariance, c.Damping = of.structure, of.covariance, calibrate.Damping{Relative: 1}
		wraptest.MustCalibrate(t, c)
		summed := small(t, everything(t, c.Out, names...))
		c.KeepCurvature, c.Out = true, filepath.Join(t.TempDir(), "kept")
		wraptest.MustCalibrate(t, c)
		kept := small(t, everything(t, c.Out, names...))
		same := func(what string, got, want map[string]bench.MethodResult) {
			t.Helper()
			for _, m := range names {
				got, want := got[m], want[m]
				if got.InDomain.InDomain != want.InDomain.InDomain || got.OOD[0].OOD != want.OOD[0].OOD {
					t.Errorf("%v, %s: %s gives %+v, with the training data %+v", of, what, m, got.InDomain, want.InDomain)
				}
			}
		}
		got := evaluated(t, kept)
		same("stored", got, evaluated(t, summed))
		b := ready(t, kept)
		if b.train != nil {
			t.Errorf("%v: the training data is opened", of)
		}
		summed.Train, kept.Train = half, half
		other := evaluated(t, kept)
		same("half of the data", other, evaluated(t, summed))
		if other["mf2"].InDomain.InDomain == got["mf2"].InDomain.InDomain {
			t.Errorf("%v: half of the training data gives the same", of)
		}
		kept.Train, kept.Preprocess = "", b.manifest.Preprocess
		if kept.Preprocess == nil {
			t.Fatal("the bundle has no preprocessing")
		}
		if b := ready(t, kept); b.train == nil {
			t.Errorf("%v: the curvature is used in spite of other preprocessing", of)
		}
	}
}

// small tunes and measures on a hundred examples of each set, for tests that compare evaluations.
func small(t *testing.T, c Config) Config {
	t.Helper()
	c.Limit = 100
	c.Val = strings.Replace(wraptest.Digits(t, models.DigitsVal), "[1200:1500]", "[1200:1300]", 1)
	c.ValOOD = strings.Replace(wraptest.Digits(t, models.OODVal), "[0:300]", "[0:100]", 1)
	return c
}

func TestFiguresAreThoseAtTheReportedTemperatures(t *testing.T) {
	t.Parallel()
	dir, _ := wraptest.Calibrated(t, calibrate.Kronecker)
	r := evaluated(t, everything(t, dir, "mf0@hessian"))["mf0@hessian"]
	b, err := bundle.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	labels := wraptest.Read(t, wraptest.Digits(t, "digits-labels-idx1-ubyte.gz"))
	z, err := gzip.NewReader(bytes.NewReader(labels))
	if err != nil {
		t.Fatal(err)
	}
	if labels, err = io.ReadAll(z); err != nil {
		t.Fatal(err)
	}
	phi, logits := wraptest.RowsOf(t, wraptest.Digits(t, models.DigitsModel), wraptest.DigitTensor(t, 1500, 1797))
	c := b.Calibration()
	c.Method = calibrate.MF0
	c.NLL = layer.Temperatures{Act: r.Temperatures.NLL.Act, Ens: r.Temperatures.NLL.Ens}
	var nll float64
	for i, logp := range slices.Collect(slices.Chunk(c.Predict(phi, logits, 297).LogP, 10)) {
		nll -= logp[labels[8+1500+i]] / 297
	}
	if !approx.Equal(r.InDomain.NLL, nll, 1e-6) {
		t.Errorf("NLL %v, at the temperatures %+v it is %v", r.InDomain.NLL, *r.Temperatures, nll)
	}
}

func TestAnEvidentialNetworkNamesItsEvidence(t *testing.T) {
	t.Parallel()
	dir, _ := wraptest.Calibrated(t, calibrate.Kronecker)
	cfg := everything(t, dir, "edl")
	cfg.With["edl"] = []string{methodFile("edl.onnx")}
	r := evaluated(t, cfg)["edl"]
	if r.Note != "network, evidence softplus" || !(r.InDomain.Error < 0.09) {
		t.Errorf("%+v %+v", r, r.InDomain.InDomain)
	}
	cfg.Evidence = "exp"
	if r := evaluated(t, cfg)["edl"]; !strings.HasPrefix(r.Note, "network, evidence exp") {
		t.Errorf("note %q", r.Note)
	}
	cfg.With["edl"], cfg.Evidence = []string{methodFile("seed1.onnx")}, ""
	_, err := Evaluate(t.Context(), cfg)
	wraptest.Says(t, err, "seed1.onnx", "mfgs.evidence", "--evidence")
}

func TestMethodsReportMissingInputs(t *testing.T) {
	t.Parallel()
	dir, _ := wraptest.Calibrated(t, calibrate.Kronecker)
	other := filepath.Join("..", "..", "..", "..", "testdata", "onnx", "gemm.onnx")
	mnist := filepath.Join("..", "..", "..", "..", "models", "mnist-mlp", "model.onnx")
	for name, tt := range map[string]struct {
		method string
		change func(*Config)
		words  []string
	}{
		"no ensemble":              {"ensemble", func(c *Config) { c.With["ensemble"] = nil }, []string{`"ensemble"`, "0 files with --with ensemble=FILE", "at least 2"}},
		"one of the jackknife":     {"jackknife", func(c *Config) { c.With["jackknife"] = c.With["jackknife"][:1] }, []string{"1 files with --with jackknife=FILE"}},
		"no checkpoints":           {"mf0@swag", func(c *Config) { c.With["swag"] = nil }, []string{"--with swag=FILE", "at least 2"}},
		"no vi":                    {"bnn-vi", func(c *Config) { c.With["bnn-vi"] = nil }, []string{"--with bnn-vi=FILE"}},
		"vi that draws nothing":    {"bnn-vi", func(c *Config) { c.With["bnn-vi"] = []string{methodFile("seed1.onnx")} }, []string{"seed1.onnx", "draws no random numbers", "RandomNormal"}},
		"a file that is not there": {"ensemble", func(c *Config) { c.With["ensemble"][1] = "nowhere.onnx" }, []string{"method ensemble: nowhere.onnx: no such file"}},
		"another network":          {"ensemble", func(c *Config) { c.With["ensemble"][1] = other }, []string{"gemm.onnx", "want a softmax of 10"}},
		"another network's head":   {"mf0@swag", func(c *Config) { c.With["swag"][0] = mnist }, []string{"model.onnx", "256 features", "128"}},
		"a sandwich of layers":     {"mf0@sandwich", func(c *Config) { c.Layers = 2 }, []string{"sandwich", "hessian or fisher"}},
		"full layers":              {"mc@hessian/full", func(c *Config) { c.Layers = 2 }, []string{"/full"}},
		"layers below none":        {"mf0", func(c *Config) { c.Layers = -1 }, []string{"layers are -1"}},
		"all dropped":              {"dropout", func(c *Config) { c.DropoutRate = 1 }, []string{"dropout rate is 1"}},
		"labels that are lacking":  {"mc", func(c *Config) { c.Val = wraptest.Digits(t, models.OODVal) }, []string{"val", "no labels"}},
		"unlabelled training":      {"rue", func(c *Config) { c.Train = wraptest.Digits(t, models.OODVal) }, []string{"train", "no labels"}},
		"unknown evidence":         {"edl", func(c *Config) { c.Evidence = "tanh" }, []string{`evidence "tanh"`, "relu, softplus or exp"}},
		"an ensemble for nothing":  {"mf0", func(c *Config) { c.With["ensemble"] = []string{"a", "b"} }, []string{"--with ensemble=FILE is for method ensemble", "--methods"}},
		"a vi for nothing":         {"ensemble", func(c *Config) { c.With["bnn-vi"] = []string{"a"} }, []string{"--with bnn-vi=FILE is for method bnn-vi"}},
		"layers for nothing":       {"edl", func(c *Config) { c.Layers = 2 }, []string{"--layers is for one of mf0"}},
		"tuning for nothing":       {"mf0", func(c *Config) { c.Val = c.Test }, []string{"--val is for a method that is tuned"}},
	} {
		cfg := everything(t, dir, tt.method)
		tt.change(&cfg)
		_, err := Evaluate(t.Context(), cfg)
		if err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		wraptest.Says(t, err, tt.words...)
	}
}

// Other data must be given explicitly.
func TestMethodsRequireTheDataOfCalibration(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	images, names := wraptest.Digits(t, "digits-images-idx3-ubyte.gz"), "digits-labels-idx1-ubyte.gz"
	data := wraptest.Read(t, images)
	wraptest.Write(t, dir, "digits-images-idx3-ubyte.gz", data)
	wraptest.Write(t, dir, names, wraptest.Read(t, wraptest.Digits(t, names)))
	c := wraptest.Config(t, filepath.Join(dir, "b"))
	c.Train = filepath.Join(dir, models.DigitsTrain)
	wraptest.MustCalibrate(t, wraptest.Quick(c))
	cfg := everything(t, c.Out, "mf2", "mle")
	evaluated(t, cfg)

	wraptest.Write(t, dir, names, wraptest.Read(t, wraptest.Digits(t, names))[:20])
	_, err := Evaluate(t.Context(), cfg)
	wraptest.Says(t, err, "the calibration data", "with Train")
	cfg.Train = c.Val
	evaluated(t, cfg)
}

// Also if it exceeds the limit on validation data.
func TestMethodsAreFittedToAllTrainingData(t *testing.T) {
	t.Parallel()
	const n = source.MaxTuning + 100
	phi := wraptest.Random(1, n)
	logits, labels := make([]float32, 2*n), make([]int64, n)
	for i, v := range phi {
		logits[2*i], logits[2*i+1] = v, -v
		if v < 0.1 {
			labels[i] = 1
		}
	}
	file := wraptest.Write(t, t.TempDir(), "f.npz", wraptest.NPZ(t, map[string]wraptest.Array{
		"features": {Data: phi, Dims: []int{n, 1}}, "logits": {Data: logits, Dims: []int{n, 2}},
		"labels": {Data: labels, Dims: []int{n}},
	}))
	out := filepath.Join(t.TempDir(), "b")
	wraptest.MustCalibrate(t, calibration.Config{PrecomputedFeatures: true, Train: file, Val: file + "[:300]", Out: out})
	e, err := Evaluate(t.Context(), Config{Config: bench.Config{Bundle: out, Test: file + "[300:600]", Methods: []string{"rue:2"}}})
	if err != nil || e.Methods[0].InDomain == nil {
		t.Errorf("%+v: %v", e, err)
	}
}

// hot is softmax(a/T) with T a tenth above that of temperature scaling.
func TestARaisedTemperatureIsATenthAboveTemperatureScaling(t *testing.T) {
	t.Parallel()
	dir, r := wraptest.Calibrated(t, calibrate.Kronecker)
	by := evaluated(t, everything(t, dir, "ts", "hot"))
	if got := by["hot"].Temperatures.NLL; !approx.Relative(got.Act, 1.1*r.Temperatures.TS, 1e-12) || got.Ens != 1 {
		t.Errorf("temperatures %v, want 1.1 times %v", got, r.Temperatures.TS)
	}
	if by["ts"].InDomain.Error != by["hot"].InDomain.Error || by["ts"].InDomain.NLL == by["hot"].InDomain.NLL {
		t.Errorf("figures %+v, of temperature scaling %+v", by["hot"].InDomain.InDomain, by["ts"].InDomain.InDomain)
	}
}

// What is fitted to noise on features has a lower objective than what is fitted without, and is in its range.
func TestTemperaturesFittedToFeatureNoise(t *testing.T) {
	t.Parallel()
	dir, r := wraptest.Calibrated(t, calibrate.Kronecker)
	by := evaluated(t, everything(t, dir, "noise", "mf0_noise", "mf0", "ts"))
	for name, note := range map[string]string{"noise": "log T = ", "mf0_noise": ""} {
		if got := by[name]; !strings.HasPrefix(got.Note, note) || by[name].InDomain.Error > by["ts"].InDomain.Error+0.01 {
			t.Errorf("%s: note %q, error %v", name, got.Note, got.InDomain.Error)
		}
	}
	b := ready(t, everything(t, dir, "noise", "mf0_noise"))
	for _, r := range b.requests {
		if err := b.prepare(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	f, err := b.featureNoise(false)
	if err != nil {
		t.Fatal(err)
	}
	of := func(s *rows.Batch) calibrate.Predictive {
		variances := b.calibration.Predict(s.Features, s.Logits, s.N).Variance
		p, err := methods.NewMeanField(s.Logits, variances, b.head.Logits)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	val, noisy := of(f.Val), of(f.Noisy)
	objective := func(at layer.Temperatures) float64 {
		v, err := f.Objective(t.Context(), val, noisy, at)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	fitted := objective(by["mf0_noise"].Temperatures.NLL)
	for _, other := range []layer.Temperatures{r.Temperatures.NLL, {Act: r.Temperatures.TS, Ens: 1e9}} {
		if v := objective(other); !(fitted <= v+1e-8) {
			t.Errorf("objective %v at the fitted pair, and %v at %v", fitted, v, other)
		}
	}
}
