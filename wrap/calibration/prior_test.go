package calibration_test

import (
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/conformal"
	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/internal/approx"
	. "github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/bundle"
	. "github.com/mfgs/mfgs/wrap/calibration"
)

// With class frequencies the network with its head gives what the formulas give: the probabilities of the bundle
// without them, times the ratio of frequencies.
func TestAPriorIsServed(t *testing.T) {
	t.Parallel()
	const model, n = "../../testdata/onnx/gemm.onnx", 1200
	x := Tensor{Name: "x", Shape: []int64{n, 5}, Data: random(4, n*5)}
	_, logits := rowsOf(t, model, x)
	for _, link := range []layer.Link{layer.Softmax, layer.OneVsRest} {
		dir := t.TempDir()
		file := write(t, dir, "x.npz", npz(t, map[string]array{"x": arrayOf(x.Data, n, 5), "labels": arrayOf(sampled(logits, n), n)}))
		c := Config{Model: model, Train: file + "[:400]", Val: file + "[400:]", Out: filepath.Join(dir, "bundle")}
		c.Head.Link = link
		plain := mustCalibrate(t, c)
		without := opened(t, c.Out, Options{})
		c.Prior, c.Out = map[string]float64{"0": 0.9, "2": 0.01}, filepath.Join(dir, "prior")
		r := mustCalibrate(t, c)
		if r.Probabilities.Method == calibrate.MLE || len(r.ClassFrequencies) != 4 || r.ClassFrequencies[0].Use != 0.9 {
			t.Fatalf("%s: %s, frequencies %+v", link, r.Probabilities.Reason, r.ClassFrequencies)
		}
		if plain.ClassFrequencies != nil {
			t.Errorf("%s: frequencies %+v without a prior", link, plain.ClassFrequencies)
		}
		sum := 0.0
		for _, f := range r.ClassFrequencies {
			sum += f.Use
		}
		if !approx.Equal(sum, 1, 1e-9) {
			t.Errorf("%s: frequencies add up to %v", link, sum)
		}
		p := opened(t, c.Out, Options{})
		equalsTheFormulas(t, p, cut(t, c.Out), []Tensor{x})
		outputs, err := p.Run(t.Context(), []Tensor{x})
		if err != nil {
			t.Fatal(err)
		}
		old, err := without.Run(t.Context(), []Tensor{x})
		if err != nil {
			t.Fatal(err)
		}
		method := Override{Method: string(r.Probabilities.Method)}
		served, err := p.Apply(outputs, method)
		if err != nil {
			t.Fatal(err)
		}
		before, err := without.Apply(old, method)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 50 {
			var norm float64
			want := slices.Clone(before.Predictions[i].Probabilities)
			for k, f := range r.ClassFrequencies {
				want[k] *= f.Use / f.Validation
				norm += want[k]
			}
			for k, v := range served.Predictions[i].Probabilities {
				if !approx.Equal(v, want[k]/norm, 2e-6) {
					t.Fatalf("%s: p[%d] = %v of example %d, want %v", link, k, v, i, want[k]/norm)
				}
			}
		}
		own, err := p.Apply(outputs, Override{Method: "mle"})
		if err != nil {
			t.Fatal(err)
		}
		network, err := without.Apply(old, Override{Method: "mle"})
		if err != nil {
			t.Fatal(err)
		}
		for k, v := range own.Predictions[0].Probabilities {
			if want := network.Predictions[0].Probabilities[k]; !approx.Equal(v, want, 1e-6) {
				t.Errorf("%s: the network's own p[%d] = %v, without a prior %v", link, k, v, want)
			}
		}
	}
}

// drawn is examples of classes that are unit normals around 2e_y, drawn with class frequencies, with the logits of the
// classifier that is exact if all classes are equally frequent.
type drawn struct {
	features, logits []float32
	labels           []int64
}

func draw(seed uint64, n int, frequencies ...float64) (d drawn) {
	rng := rand.New(rand.NewPCG(seed, 1))
	for range n {
		u, y := rng.Float64(), 0
		for y < len(frequencies)-1 && u >= frequencies[y] {
			u -= frequencies[y]
			y++
		}
		for k := range frequencies {
			x := float32(rng.NormFloat64())
			if k == y {
				x += 2
			}
			d.features, d.logits = append(d.features, x), append(d.logits, 2*x)
		}
		d.labels = append(d.labels, int64(y))
	}
	return d
}

// file writes the examples, with labels or without.
func (d drawn) file(t *testing.T, labelled bool) string {
	t.Helper()
	n := len(d.labels)
	k := len(d.logits) / n
	all := map[string]array{"features": arrayOf(d.features, n, k), "logits": arrayOf(d.logits, n, k)}
	if labelled {
		all["labels"] = arrayOf(d.labels, n)
	}
	return write(t, t.TempDir(), "f.npz", npz(t, all))
}

// figuresOf returns the NLL of a bundle on examples, and the fraction of labels that its prediction sets miss.
func (d drawn) figuresOf(t *testing.T, dir string) (nll, missed float64) {
	t.Helper()
	got, err := opened(t, dir, Options{}).PredictFeatures(d.features, d.logits)
	if err != nil {
		t.Fatal(err)
	}
	n := float64(len(got))
	for i, one := range got {
		y := int(d.labels[i])
		nll -= math.Log(one.Probabilities[y]) / n
		if !slices.Contains(one.PredictionSet, y) {
			missed += 1 / n
		}
	}
	return nll, missed
}

// An update estimates the class frequencies of unlabelled data, corrects for them, and sets thresholds that hold at
// them. Frequencies that are given do the same, none takes them back, and the numbers of the posterior stay.
func TestAnUpdateChangesClassFrequencies(t *testing.T) {
	t.Parallel()
	equal, use := []float64{0.25, 0.25, 0.25, 0.25}, []float64{0.7, 0.2, 0.05, 0.05}
	test := draw(3, 4000, use...)
	dir := t.TempDir()
	c := Config{
		PrecomputedFeatures: true,
		Train:               draw(1, 600, equal...).file(t, false), Val: draw(2, 3000, equal...).file(t, true),
		Out: filepath.Join(dir, "b"), Classes: []string{"a", "b", "c", "d"}, KeepCurvature: true,
	}
	c.Decisions = conformal.Plan{Alpha: 0.06}
	mustCalibrate(t, c)
	nll, _ := test.figuresOf(t, c.Out)
	exact := filepath.Join(dir, "exact")
	given, err := Update(t.Context(), UpdateConfig{Bundle: c.Out, Prior: map[string]float64{"a": 0.7, "b": 0.2}, Out: exact})
	if err != nil {
		t.Fatal(err)
	}
	f := given.ClassFrequencies
	if len(f) != 4 || f[0].Class != "a" || f[0].Use != 0.7 || !approx.Equal(f[2].Use, 0.05, 0.01) {
		t.Errorf("frequencies %+v", given.ClassFrequencies)
	}
	best, missed := test.figuresOf(t, exact)
	if !(best < nll-0.15) || !approx.Equal(missed, 0.06, 0.02) {
		t.Errorf("NLL %v, before %v; sets miss %v, want 0.06", best, nll, missed)
	}
	if v := given.Validation; v.After.N >= v.Before.N+1 || v.After.N > 1000 || !(v.After.NLL < v.Before.NLL-0.1) {
		t.Errorf("figures %+v are not those in use", v)
	}

	unlabelled := draw(4, 800, use...).file(t, false)
	other := filepath.Join(dir, "estimated")
	r, err := Update(t.Context(), UpdateConfig{Bundle: c.Out, Unlabelled: unlabelled, Out: other})
	if err != nil {
		t.Fatal(err)
	}
	if p := r.PriorEstimate; p == nil || !p.Significant || p.Examples != 800 || len(r.Warnings) > 0 {
		t.Fatalf("estimate %+v, warnings %q", r.PriorEstimate, r.Warnings)
	}
	for k, v := range use {
		p := r.PriorEstimate
		inside := p.Low[k] <= p.Frequencies[k] && p.Frequencies[k] <= p.High[k] && p.High[k]-p.Low[k] < 0.2
		if !approx.Equal(p.Frequencies[k], v, 0.06) || !inside || r.ClassFrequencies[k].Use != p.Frequencies[k] {
			t.Errorf("frequency %v of class %d in %v to %v, want %v", p.Frequencies[k], k, p.Low[k], p.High[k], v)
		}
	}
	if estimated, _ := test.figuresOf(t, other); estimated > best+0.01 {
		t.Errorf("NLL %v with estimated frequencies, %v with the true ones", estimated, best)
	}
	for _, name := range []string{bundle.PosteriorName, bundle.CurvatureName, bundle.SampleName, bundle.ScoresName} {
		if string(read(t, filepath.Join(other, name))) != string(read(t, filepath.Join(c.Out, name))) {
			t.Errorf("%s has changed", name)
		}
	}

	// Data as in validation differ by no more than chance, and take the correction back.
	same := draw(8, 500, equal...).file(t, false)
	if r, err = Update(t.Context(), UpdateConfig{Bundle: other, Unlabelled: same}); err != nil {
		t.Fatal(err)
	}
	if r.PriorEstimate == nil || r.PriorEstimate.Significant || len(r.PriorEstimate.Low) != 4 {
		t.Errorf("estimate %+v", r.PriorEstimate)
	}
	if _, err = Update(t.Context(), UpdateConfig{Bundle: exact, Prior: map[string]float64{}}); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{other, exact} {
		sameNumbers(t, "taken back", dir, c.Out, 1e-12)
		if v, _ := test.figuresOf(t, dir); !approx.Equal(v, nll, 1e-12) {
			t.Errorf("NLL %v, before %v", v, nll)
		}
	}

	// More training data keep the prior.
	if _, err := Update(t.Context(), UpdateConfig{Bundle: exact, Prior: map[string]float64{"3": 0.9}}); err != nil {
		t.Fatal(err)
	}
	r, err = Update(t.Context(), UpdateConfig{Bundle: exact, Train: draw(9, 600, equal...).file(t, false)})
	if err != nil || len(r.ClassFrequencies) != 4 || r.ClassFrequencies[3].Use != 0.9 {
		t.Errorf("frequencies %+v after more training data, error %v", r.ClassFrequencies, err)
	}
	// The bundle's own job repeats its calibration with the prior.
	j, err := ReadJob(filepath.Join(exact, bundle.ManifestName))
	if err == nil && j.Config.Prior["3"] != 0.9 {
		t.Errorf("a job with prior %v", j.Config.Prior)
	}
}

// What an update of class frequencies says and records is true: where they come from, which validation data it used,
// which warnings remain, and that thresholds need data on which nothing was tuned.
func TestAnUpdateOfFrequenciesRecordsWhatItUsed(t *testing.T) {
	t.Parallel()
	equal, use := []float64{0.25, 0.25, 0.25, 0.25}, []float64{0.7, 0.1, 0.1, 0.1}
	dir := t.TempDir()
	c := Config{
		PrecomputedFeatures: true,
		Train:               draw(1, 600, equal...).file(t, false), Val: draw(2, 90, equal...).file(t, true),
		Out: filepath.Join(dir, "b"), KeepCurvature: true,
	}
	few := mustCalibrate(t, c).Warnings
	if len(few) != 1 {
		t.Fatalf("warnings %q", few)
	}
	decided := UpdateConfig{Bundle: c.Out, Prior: map[string]float64{}, Decisions: conformal.Plan{Alpha: 0.1}}
	_, err := Update(t.Context(), decided)
	says(t, err, "all of its validation data was used for tuning")
	val := draw(3, 2000, equal...).file(t, true)
	unlabelled := draw(4, 800, use...).file(t, false)
	r, err := Update(t.Context(), UpdateConfig{
		Bundle: c.Out, Unlabelled: unlabelled, Val: val, Decisions: conformal.Plan{Alpha: 0.1},
	})
	if err != nil {
		t.Fatal(err)
	}
	b, err := bundle.Open(c.Out)
	if err != nil {
		t.Fatal(err)
	}
	m := b.Manifest
	for _, d := range m.Datasets {
		if d.Role == bundle.Val && (d.Spec != val || d.Count != 2000) {
			t.Errorf("validation data %+v", d)
		}
	}
	if e := m.PriorEstimate; e == nil || e.Spec != unlabelled || e.Examples != 800 || !m.Decisions.InUse {
		t.Errorf("estimate %+v, decisions %+v", e, m.Decisions)
	}
	if !slices.Contains(m.Warnings, few[0]) {
		t.Errorf("warnings %q, want those of the bundle, %q", m.Warnings, few)
	}
	if _, err := ReadJob(filepath.Join(c.Out, bundle.ManifestName)); err == nil || !strings.Contains(err.Error(), "were estimated") {
		t.Errorf("a job of estimated frequencies: error %v", err)
	}

	// It is still an estimate after more training data; other validation data is not needed again.
	more, err := Update(t.Context(), UpdateConfig{Bundle: c.Out, Train: draw(9, 600, equal...).file(t, false)})
	if err != nil {
		t.Fatal(err)
	}
	e := more.PriorEstimate
	if e == nil || e.Spec != unlabelled || more.ClassFrequencies[0].Use != r.ClassFrequencies[0].Use {
		t.Errorf("estimate %+v, frequencies %+v, want %+v", e, more.ClassFrequencies, r.ClassFrequencies)
	}
	same, err := Update(t.Context(), UpdateConfig{Bundle: c.Out, Unlabelled: val})
	if err != nil || len(same.Warnings) == 0 || !strings.Contains(same.Warnings[0], "is the val data of the bundle") {
		t.Errorf("error %v, warnings %q", err, same.Warnings)
	}
}

// Sets that hold for each class are set on all examples of the class, not on those that remain at its frequency in use.
func TestClassConditionalSetsUseAllExamplesOfAClass(t *testing.T) {
	t.Parallel()
	equal := []float64{0.5, 0.5}
	c := Config{
		PrecomputedFeatures: true,
		Train:               draw(1, 600, equal...).file(t, false), Val: draw(2, 1000, equal...).file(t, true),
		Out: filepath.Join(t.TempDir(), "b"),
	}
	c.Prior = map[string]float64{"1": 0.001}
	c.Decisions = conformal.Plan{Alpha: 0.1, ClassConditional: true, FalseAlarm: 0.1}
	r := mustCalibrate(t, c)
	d := r.Decisions
	if d.Set == nil || len(d.Set.Thresholds) != 2 || d.Set.Examples != 500 || d.Examples > 300 || !d.InUse {
		t.Errorf("decisions %+v", d)
	}
	// The rare class is missing from the sample, and the report says so.
	if !slices.ContainsFunc(r.Warnings, func(w string) bool { return strings.Contains(w, "no example of 1 class that 0.1 %") }) {
		t.Errorf("warnings %q", r.Warnings)
	}
	c.Out = filepath.Join(t.TempDir(), "only")
	c.Decisions = conformal.Plan{Alpha: 0.1, ClassConditional: true}
	if d := mustCalibrate(t, c).Decisions; d.Examples != 500 || d.Set.Examples != 500 {
		t.Errorf("decisions %+v", d)
	}
}

// A class without validation examples may be named: the sample in use keeps what there is of the others, with and
// without thresholds.
func TestAClassWithoutExamplesLeavesASample(t *testing.T) {
	t.Parallel()
	frequencies := make([]float64, 6)
	for c := range 5 {
		frequencies[c] = 0.2
	}
	for _, plan := range []conformal.Plan{{}, {Alpha: 0.1}} {
		c := Config{
			PrecomputedFeatures: true,
			Train:               draw(1, 600, frequencies...).file(t, false),
			Val:                 draw(2, 800, frequencies...).file(t, true), Out: filepath.Join(t.TempDir(), "b"),
		}
		c.Decisions, c.Prior = plan, map[string]float64{"5": 0.5}
		r := mustCalibrate(t, c)
		want := 800
		if plan.Alpha > 0 {
			want = 400
		}
		if n := r.Validation.After.N; n < want*9/10 {
			t.Errorf("%+v: %d of %d examples in the sample", plan, n, want)
		}
	}
}

// A class that is named at its own frequency changes nothing, however many classes have no validation examples.
func TestTheSameFrequenciesChangeNothing(t *testing.T) {
	t.Parallel()
	frequencies := make([]float64, 60)
	for c := range 3 {
		frequencies[c] = 1. / 3
	}
	test := draw(3, 200, frequencies...)
	c := Config{
		PrecomputedFeatures: true,
		Train:               draw(1, 600, frequencies...).file(t, false),
		Val:                 draw(2, 400, frequencies...).file(t, true), Out: filepath.Join(t.TempDir(), "b"),
	}
	mustCalibrate(t, c)
	b, err := bundle.Open(c.Out)
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, f := range b.Manifest.ClassFrequencies {
		sum += f
	}
	if !approx.Equal(sum, 1, 1e-12) {
		t.Errorf("class frequencies add up to %v", sum)
	}
	before, _ := test.figuresOf(t, c.Out)
	same := map[string]float64{"1": b.Manifest.ClassFrequencies[1]}
	r, err := Update(t.Context(), UpdateConfig{Bundle: c.Out, Prior: same})
	if err != nil {
		t.Fatal(err)
	}
	// The network itself may have been selected, which is not corrected: temperature scaling takes its place.
	if after, _ := test.figuresOf(t, c.Out); !approx.Equal(after, before, 2e-3) || r.Validation.After.N != 400 {
		t.Errorf("NLL %v, before %v, of %d validation examples", after, before, r.Validation.After.N)
	}
}

// A bundle without decisions needs no validation data to be corrected, but has no reference then.
func TestAPriorWithoutValidationData(t *testing.T) {
	t.Parallel()
	equal, use := []float64{0.25, 0.25, 0.25, 0.25}, []float64{0.1, 0.1, 0.1, 0.7}
	dir := t.TempDir()
	val := draw(2, 1000, equal...).file(t, true)
	c := Config{
		PrecomputedFeatures: true, Train: draw(1, 600, equal...).file(t, false), Val: val, Out: filepath.Join(dir, "b"),
	}
	mustCalibrate(t, c)
	d := c
	d.Decisions, d.Out = conformal.Plan{Alpha: 0.1}, filepath.Join(dir, "decided")
	mustCalibrate(t, d)
	if err := os.Remove(val); err != nil {
		t.Fatal(err)
	}
	unlabelled := draw(4, 500, use...).file(t, false)
	r, err := Update(t.Context(), UpdateConfig{Bundle: c.Out, Unlabelled: unlabelled, Out: filepath.Join(dir, "c")})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Warnings) != 1 || !approx.Equal(r.ClassFrequencies[3].Use, 0.7, 0.07) {
		t.Errorf("warnings %q, frequencies %+v", r.Warnings, r.ClassFrequencies)
	}
	b, err := bundle.Open(filepath.Join(dir, "c"))
	if err != nil || b.Manifest.Reference != nil {
		t.Errorf("error %v, or a reference", err)
	}
	_, err = Update(t.Context(), UpdateConfig{Bundle: d.Out, Unlabelled: unlabelled})
	says(t, err, "validation data defaults to that of the bundle")
}

// Other data than those of other frequencies are warned of.
func TestMoreThanFrequenciesDiffers(t *testing.T) {
	t.Parallel()
	equal := []float64{0.25, 0.25, 0.25, 0.25}
	c := Config{
		PrecomputedFeatures: true,
		Train:               draw(1, 600, equal...).file(t, false), Val: draw(2, 1000, equal...).file(t, true),
		Out: filepath.Join(t.TempDir(), "b"),
	}
	mustCalibrate(t, c)
	other := draw(5, 1000, 0.7, 0.1, 0.1, 0.1)
	for i := range other.logits {
		other.logits[i] *= 2
	}
	r, err := Update(t.Context(), UpdateConfig{Bundle: c.Out, Unlabelled: other.file(t, false)})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "more than the frequencies differ") {
		t.Errorf("warnings %q", r.Warnings)
	}
}

func TestFrequenciesThatCannotBe(t *testing.T) {
	t.Parallel()
	equal := []float64{0.25, 0.25, 0.25, 0.25}
	data := draw(1, 400, equal...)
	c := Config{
		PrecomputedFeatures: true, Train: data.file(t, false), Val: data.file(t, true), Classes: []string{"a", "b", "c", "a"},
		Out: filepath.Join(t.TempDir(), "b"),
	}
	mustCalibrate(t, c)
	for what, prior := range map[string]map[string]float64{
		`there is no class "e"`:                  {"e": 0.1},
		"several classes have the name":          {"a": 0.1},
		"has class 1 twice":                      {"b": 0.1, "1": 0.1},
		"add up to 1.2":                          {"b": 0.6, "c": 0.6},
		"the frequencies of all classes add up":  {"0": 0.1, "1": 0.1, "2": 0.1, "3": 0.1},
		`class "b" has the frequency -0.1`:       {"b": -0.1},
		`class "b" has the frequency NaN`:        {"b": math.NaN()},
		"class frequencies are given and to be ": {"b": 0.1},
	} {
		u := UpdateConfig{Bundle: c.Out, Prior: prior}
		if strings.HasPrefix(what, "class frequencies are given") {
			u.Unlabelled = c.Train
		}
		_, err := Update(t.Context(), u)
		says(t, err, what)
	}
	for what, change := range map[string]func(*Config){
		"exclude each other": func(c *Config) { c.KeepClass = true },
		"there is no class":  func(c *Config) { c.Prior = map[string]float64{"nobody": 0.5} },
		"names no class":     func(c *Config) { c.Prior = map[string]float64{} },
	} {
		c.Force, c.Prior, c.KeepClass = true, map[string]float64{"b": 0.5}, false
		change(&c)
		_, err := Calibrate(t.Context(), c)
		says(t, err, what)
	}
	few := draw(1, 300, 0.97, 0.01, 0.01, 0.01)
	c.Val, c.KeepClass, c.Prior = few.file(t, true), false, map[string]float64{"b": 0.97}
	_, err := Calibrate(t.Context(), c)
	says(t, err, "validation examples remain")
}
