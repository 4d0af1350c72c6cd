package calibration_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/calibrate/score"
	"github.com/mfgs/mfgs/internal/approx"
	. "github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/bundle"
	. "github.com/mfgs/mfgs/wrap/calibration"
	"github.com/mfgs/mfgs/wrap/internal/part"
)

// sameCalibration compares a bundle with that of one pass: the posterior within 1e-12, temperatures
// within 1e-9, both relative; leverages within a tolerance.
func sameCalibration(t testing.TB, what, got, want string, leverage float64) {
	t.Helper()
	m, w := sameNumbers(t, what, got, want, leverage)
	for i, d := range m.Datasets {
		if e := w.Datasets[i]; d.Role != e.Role || d.Spec != e.Spec || d.Count != e.Count || d.Bad != e.Bad {
			t.Errorf("%s: dataset %+v, one pass has %+v", what, d, e)
		}
	}
	if !slices.Equal(m.Warnings, w.Warnings) {
		t.Errorf("%s: warnings %q, one pass has %q", what, m.Warnings, w.Warnings)
	}
}

// sameNumbers compares no more than posterior and temperatures.
func sameNumbers(t testing.TB, what, got, want string, leverage float64) (m, w *bundle.Manifest) {
	t.Helper()
	a, err := bundle.Open(got)
	if err != nil {
		t.Fatal(err)
	}
	b, err := bundle.Open(want)
	if err != nil {
		t.Fatal(err)
	}
	const n = 40
	k := b.Posterior.Head.Logits
	phi := random(7, n*b.Posterior.Head.Features)
	va, vb, la, lb := make([]float64, n*k), make([]float64, n*k), make([]float64, n), make([]float64, n)
	a.Posterior.Both(va, la, phi, n)
	b.Posterior.Both(vb, lb, phi, n)
	for i, v := range va {
		if !approx.Relative(v, vb[i], 1e-12) {
			t.Fatalf("%s: variance %d is %v, one pass has %v", what, i, v, vb[i])
		}
	}
	for i, v := range la {
		if !approx.Relative(v, lb[i], leverage) {
			t.Fatalf("%s: leverage %d is %v, one pass has %v", what, i, v, lb[i])
		}
	}
	m, w = &a.Manifest, &b.Manifest
	for name, pair := range map[string][2]float64{
		"T_act": {m.Temperatures.NLL.Act, w.Temperatures.NLL.Act}, "T_ens": {m.Temperatures.NLL.Ens, w.Temperatures.NLL.Ens},
		"T_act of OOD": {m.Temperatures.OOD.Act, w.Temperatures.OOD.Act},
		"T_ens of OOD": {m.Temperatures.OOD.Ens, w.Temperatures.OOD.Ens},
		"T":            {m.Temperatures.TS, w.Temperatures.TS}, "epsilon": {m.Damping.Epsilon, w.Damping.Epsilon},
		"median variance": {m.MeanField.MedianVariance, w.MeanField.MedianVariance},
	} {
		if !approx.Relative(pair[0], pair[1], 1e-9) {
			t.Errorf("%s: %s is %v, one pass has %v", what, name, pair[0], pair[1])
		}
	}
	return m, w
}

// Shards give what one pass gives; any order and grouping of the same ones the same bytes, of parts
// and of bundles.
func TestMergedPartsAreOnePass(t *testing.T) {
	t.Parallel()
	file := classified(t, 9000, 6, 4)
	rng := rand.New(rand.NewPCG(3, 3))
	one := calibrate.Damping{Relative: 1}
	for name, c := range map[string]Config{
		"full": {Settings: bundle.Settings{Structure: calibrate.Full}}, // and a score that is chosen among all
		"kron": {Settings: bundle.Settings{Structure: calibrate.Kronecker, Damping: one, OODScore: score.Default}},
		"sandwich, some": {
			Settings: bundle.Settings{
				Structure: calibrate.Kronecker, Covariance: calibrate.Sandwich, Limit: 1000,
				Damping: one, OODScore: score.Default,
			}},
		"fisher, few": {
			Settings: bundle.Settings{
				Structure: calibrate.Full, Covariance: calibrate.Fisher, Limit: 9, Damping: one,
				OODScore: score.Default,
			}},
	} {
		// Neither begins where a block does.
		c.PrecomputedFeatures, c.Train, c.Val, c.OOD = true, file+"[100:7000]", file+"[8400:]", file+"[:100]"
		c.Out = filepath.Join(t.TempDir(), "one")
		mustCalibrate(t, c)
		counts := []int{3}
		if name == "full" {
			counts = []int{1, 3, 16} // of 16, some have no block
		}
		for _, n := range counts {
			what := fmt.Sprintf("%s in %d", name, n)
			all := parts(t, c, n)
			want := merged(t, all...)
			sameCalibration(t, what, want, c.Out, 1e-12)
			if n == 1 {
				sameFiles(t, what, want, c.Out)
				continue
			}
			whole := group(t, all...)
			for range 2 {
				rng.Shuffle(n, func(i, j int) { all[i], all[j] = all[j], all[i] })
				sameFiles(t, what+", shuffled", group(t, all...), whole)
				cut := 1 + rng.IntN(n-1)
				nested := []string{group(t, all[:cut]...), group(t, all[cut:]...)}
				sameFiles(t, what+", grouped", group(t, nested...), whole)
			}
			sameFiles(t, what+", of one group", merged(t, whole), want)
		}
	}
}

// A shard that is run again gives the same bytes: which of the two is merged makes no difference.
func TestAShardThatIsRunAgainIsTheSame(t *testing.T) {
	t.Parallel()
	c := quick(config(t, ""))
	first, again := parts(t, c, 2), parts(t, c, 2)
	for i := range first {
		sameFiles(t, fmt.Sprint("shard ", i+1), again[i], first[i])
	}
}

// The sets may be cut into different numbers of shards, and the model comes from the part that has
// the first of the training data.
func TestSetsMayHaveDifferentNumbersOfShards(t *testing.T) {
	t.Parallel()
	c := quick(config(t, filepath.Join(t.TempDir(), "one")))
	c.KeepCurvature = true
	mustCalibrate(t, c)
	whole := c
	c.KeepCurvature = false
	c.Val, c.OOD = "", ""
	all := parts(t, c, 2)
	c.Train, c.OOD, c.Val = "", whole.OOD, ""
	all = append(all, parts(t, c, 1)...)
	c.OOD, c.Val = "", whole.Val
	all = append(all, parts(t, c, 3)...)
	out := filepath.Join(t.TempDir(), "merged")
	r, err := Merge(t.Context(), MergeConfig{Parts: all, Out: out, KeepCurvature: true})
	if err != nil {
		t.Fatal(err)
	}
	// 300 examples leave much of 128 features to the damping of the leverage, which is small.
	sameCalibration(t, "digits", out, whole.Out, 1e-10)
	model := func(dir string) []byte { return read(t, filepath.Join(dir, bundle.ModelName)) }
	if !bytes.Equal(model(out), model(whole.Out)) {
		t.Error("another model")
	}
	if a, b := list(t, out), list(t, whole.Out); !slices.Equal(a, b) || !slices.Contains(a, bundle.CurvatureName) {
		t.Errorf("files %q, want %q", a, b)
	}
	if r.Model.SHA256 == "" || r.Head.Op == "" || r.Examples.Val == 0 || r.Examples.OOD == 0 {
		t.Errorf("report %+v", r)
	}
	opened(t, out, Options{})
	for i, dir := range all {
		if has := slices.Contains(list(t, dir), part.ModelName); has != (i == 0) {
			t.Errorf("part %d has a model: %t", i, has)
		}
	}
	without := filepath.Join(t.TempDir(), "without")
	if _, err := Merge(t.Context(), MergeConfig{Parts: all, Out: without, NoModel: true}); err != nil {
		t.Fatal(err)
	}
	if slices.Contains(list(t, without), bundle.ModelName) {
		t.Error("the bundle holds a model")
	}
}

// A model that no part holds is put into the bundle from its file, which must be the right one.
func TestABundleTakesTheModelOfPartsWithoutOne(t *testing.T) {
	t.Parallel()
	inTwo, _ := externalConfig(t, t.TempDir())
	for name, c := range map[string]Config{"one file": quick(config(t, "")), "weights in another": inTwo} {
		with := merged(t, parts(t, c, 2)...)
		c.NoModel = true
		all := parts(t, c, 2)
		into := filepath.Join(t.TempDir(), "bundle")
		if _, err := Merge(t.Context(), MergeConfig{Parts: all, Out: into, Model: c.Model}); err != nil {
			t.Fatal(name, err)
		}
		sameFiles(t, name, into, with)
		refused := func(change func(*MergeConfig), words ...string) {
			t.Helper()
			m := MergeConfig{Parts: all, Out: into + "-not", Model: c.Model}
			change(&m)
			_, err := Merge(t.Context(), m)
			says(t, err, words...)
		}
		refused(func(m *MergeConfig) { m.Model = "../../featurize/testdata/conv.onnx" }, "conv.onnx", "SHA-256", "give that one")
		refused(func(m *MergeConfig) { m.Model = "nowhere.onnx" }, "nowhere.onnx")
		refused(func(m *MergeConfig) { m.NoModel = true }, "Model and NoModel exclude each other")
		_, err := MergeParts(t.Context(), MergeConfig{Parts: all, Out: into + "-part", Model: c.Model})
		says(t, err, "leave the model out")
	}
	file := classified(t, 3000, 3, 3)
	made := parts(t, Config{
		PrecomputedFeatures: true, Train: file + "[:2000]", Val: file + "[2000:]",
		Settings: bundle.Settings{Damping: calibrate.Damping{Relative: 1}},
	}, 1)
	_, err := Merge(t.Context(), MergeConfig{Parts: made, Out: filepath.Join(t.TempDir(), "b"), Model: "any.onnx"})
	says(t, err, "any.onnx", "precomputed features")
}

// Another covariance and damping of the same parts are what a calibration with these gives, and a bundle that
// keeps its curvature goes on from there.
func TestAMergeCanChangeCovarianceDampingAndDecisions(t *testing.T) {
	t.Parallel()
	file := classified(t, 3000, 6, 4)
	c := Config{PrecomputedFeatures: true, Train: file + "[:2000]", Val: file + "[2000:2300]", OOD: file + "[2800:]",
		Settings: bundle.Settings{OODScore: score.Default}}
	tenth := calibrate.Damping{Relative: 0.1}
	for _, structure := range []calibrate.Structure{calibrate.Full, calibrate.Kronecker} {
		c.Structure, c.Covariance, c.Damping = structure, calibrate.Fisher, calibrate.Damping{}
		both := parts(t, c, 2)
		c.Covariance = calibrate.Hessian
		hessian := parts(t, c, 1)
		c.Damping = calibrate.Damping{Absolute: 5}
		damped := parts(t, c, 1)
		for _, m := range []MergeConfig{
			{Parts: both, Covariance: calibrate.Sandwich, Damping: &calibrate.Damping{Absolute: 1}},
			{Parts: both, KeepCurvature: true, Covariance: calibrate.Hessian, Damping: &tenth},
			{Parts: both, Covariance: calibrate.Hessian},
			{Parts: both, Damping: &calibrate.Damping{Relative: 3}},
			{Parts: hessian, KeepCurvature: true, Damping: &calibrate.Damping{Absolute: 2}},
			{Parts: damped, Damping: &calibrate.Damping{}},
		} {
			m.Out, m.Force = filepath.Join(t.TempDir(), "merged"), true
			report, err := Merge(t.Context(), m)
			if err != nil {
				t.Fatal(err)
			}
			one := c
			one.Covariance, one.Damping = calibrate.Covariance(report.Covariance), calibrate.Damping{}
			if m.Damping != nil {
				one.Damping = *m.Damping
			}
			one.Out = filepath.Join(t.TempDir(), "one")
			if m.Covariance != "" && m.Covariance != one.Covariance {
				t.Errorf("asked for %s, made %s", m.Covariance, one.Covariance)
			}
			mustCalibrate(t, one)
			what := fmt.Sprintf("%s, %s, damping %v", structure, report.Covariance, one.Damping)
			sameCalibration(t, what, m.Out, one.Out, 1e-12)
			if !m.KeepCurvature {
				continue
			}
			u := UpdateConfig{Bundle: m.Out, Train: file + "[2000:2100]", Out: filepath.Join(t.TempDir(), "updated")}
			if _, err := Update(t.Context(), u); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
		for words, m := range map[string]MergeConfig{
			"without the Fisher matrix, which fisher needs": {Covariance: calibrate.Fisher},
			"laplace": {Covariance: "laplace"},
			"-1":      {Damping: &calibrate.Damping{Absolute: -1}},
		} {
			m.Parts, m.Out = hessian, filepath.Join(t.TempDir(), "b")
			_, err := Merge(t.Context(), m)
			says(t, err, words)
		}
		for _, m := range []MergeConfig{{Covariance: calibrate.Hessian}, {Damping: &calibrate.Damping{Absolute: 1}}} {
			m.Parts, m.Out = hessian, filepath.Join(t.TempDir(), "part")
			_, err := MergeParts(t.Context(), m)
			says(t, err, "others are for bundles")
		}
	}
}

// What does not belong together is named, and nothing is left behind.
func TestPartsThatDoNotMakeOneCalibration(t *testing.T) {
	t.Parallel()
	file := classified(t, 3000, 3, 3)
	base := Config{
		PrecomputedFeatures: true, Train: file + "[:2000]", Val: file + "[2000:]",
		Settings: bundle.Settings{Structure: calibrate.Kronecker, Damping: calibrate.Damping{Relative: 1}},
	}
	all := parts(t, base, 2)
	other := func(change func(*Config)) string {
		c := base
		change(&c)
		return parts(t, c, 2)[1]
	}
	onlyTrain := base
	onlyTrain.Val = ""
	copied := filepath.Join(t.TempDir(), "copied")
	if err := os.CopyFS(copied, os.DirFS(all[1])); err != nil {
		t.Fatal(err)
	}
	digits := config(t, "")
	digits.Structure, digits.Damping = base.Structure, base.Damping
	for name, tc := range map[string]struct {
		parts []string
		want  []string
	}{
		"missing":        {all[:1], []string{"shard 2 of 2 of train is missing"}},
		"twice":          {append(all, copied), []string{"shard 2 of 2 of train is in both", all[1], copied}},
		"a folder twice": {append(all, all[1]+"/."), []string{"is given twice", all[1]}},
		"no validation":  {parts(t, onlyTrain, 2), []string{"no part has val data"}},
		"covariance":     {[]string{all[0], other(func(c *Config) { c.Covariance = calibrate.Fisher })}, []string{"covariance is hessian in the first and fisher in the second", all[0]}},
		"structure":      {[]string{all[0], other(func(c *Config) { c.Structure = calibrate.Full })}, []string{"structure is kron in the first and full"}},
		"damping":        {[]string{all[0], other(func(c *Config) { c.Damping.Relative = 2 })}, []string{"damping is rel:1 in the first and rel:2"}},
		"lambda0":        {[]string{all[0], other(func(c *Config) { c.Lambda0 = 1 })}, []string{"lambda0 is 0.30"}},
		"limit":          {[]string{all[0], other(func(c *Config) { c.Limit = 7 })}, []string{"limit is 0 in the first and 7"}},
		"max bad":        {[]string{all[0], other(func(c *Config) { c.MaxBad = 7 })}, []string{"max_bad is 0 in the first and 7"}},
		"classes":        {[]string{all[0], other(func(c *Config) { c.Classes = []string{"a", "b", "c"} })}, []string{"classes is nothing in the first and [a b c]"}},
		"link":           {[]string{all[0], other(func(c *Config) { c.Head.Link = "one-vs-rest" })}, []string{"head.link is softmax in the first and one-vs-rest"}},
		"data":           {[]string{all[0], other(func(c *Config) { c.Train = file + "[:1999]" })}, []string{"train spec is", "[:2000] in the first and", "[:1999] in the second"}},
		"another model":  {[]string{all[0], parts(t, digits, 2)[1]}, []string{"model is nothing in the first"}},
		"other division": {[]string{all[0], parts(t, base, 3)[1]}, []string{"train shards is 2 in the first and 3 in the second"}},
		"no part":        {[]string{all[0], t.TempDir()}, []string{"it has no part.yaml"}},
		"nothing":        {[]string{all[0], "nowhere"}, []string{"nowhere: no such folder: want a part"}},
		"none":           {nil, []string{"no parts"}},
	} {
		parent := t.TempDir()
		_, err := Merge(t.Context(), MergeConfig{Parts: tc.parts, Out: filepath.Join(parent, "out")})
		if err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		for _, w := range tc.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: error %q does not say %q", name, err, w)
			}
		}
		if left := list(t, parent); len(left) > 0 {
			t.Errorf("%s: %q is left", name, left)
		}
	}
	base.Shard, base.Out = rows.Shard{Index: 1, Count: 2}, "x"
	if _, err := Calibrate(t.Context(), base); err == nil {
		t.Error("a shard was calibrated")
	}
}

// Bad records count over all parts.
func TestBadRecordsOfAllPartsCount(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var lines bytes.Buffer
	for i := range 1024 {
		switch i {
		case 5, 700:
			fmt.Fprintln(&lines, `{"x": "broken"`)
		default:
			fmt.Fprintf(&lines, `{"image": [[%s]], "label": %d}`+"\n", strings.TrimSuffix(strings.Repeat("[0.5,0,0,0,0,0,1,0],", 8), ","), i%10)
		}
	}
	c := quick(config(t, ""))
	c.Train = write(t, dir, "x.jsonl", lines.Bytes())
	c.Limit, c.Val, c.OOD = 0, c.Train, ""
	for allowed, want := range []string{"", "the parts skipped 2 unreadable records in total, MaxBad allows 1", ""} {
		if allowed == 0 {
			continue // refused by each part
		}
		c.MaxBad = allowed
		all := parts(t, c, 2)
		out := filepath.Join(t.TempDir(), "b")
		r, err := Merge(t.Context(), MergeConfig{Parts: all, Out: out})
		if want != "" {
			says(t, err, want)
			continue
		}
		if err != nil || len(r.Bad) != 4 || r.Examples.Bad != 4 || r.Examples.Train != 1022 {
			t.Errorf("%d bad records of %d examples: %v", len(r.Bad), r.Examples.Train, err)
		}
	}
}

// A part that is there stays, unless it may be replaced.
func TestPartsReplaceNothingElse(t *testing.T) {
	t.Parallel()
	file := classified(t, 1200, 3, 3)
	c := Config{
		PrecomputedFeatures: true, Train: file, Val: file,
		Settings: bundle.Settings{Structure: calibrate.Kronecker},
	}
	c.Shard, c.Out = rows.Shard{Index: 1, Count: 1}, filepath.Join(t.TempDir(), "p")
	accumulate := func() error {
		_, err := Accumulate(t.Context(), c)
		return err
	}
	if err := accumulate(); err != nil {
		t.Fatal(err)
	}
	says(t, accumulate(), "file already exists", "use Force")
	c.Force = true
	if err := accumulate(); err != nil {
		t.Error(err)
	}
	note := filepath.Join(c.Out, "note")
	if err := os.WriteFile(note, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	says(t, accumulate(), "note, which is not a file of a part of a calibration")
	_, err := Merge(t.Context(), MergeConfig{Parts: []string{c.Out}, Out: c.Out, Force: true})
	says(t, err, "not a file of a bundle")
}

// What is merged is not written into a part, whose files would then be others.
func TestNothingIsMergedIntoAPart(t *testing.T) {
	t.Parallel()
	file := classified(t, 1500, 4, 3)
	c := Config{PrecomputedFeatures: true, Train: file + "[:1000]", Val: file + "[1000:]",
		Settings: bundle.Settings{
			Structure: calibrate.Full,
		}}
	all := parts(t, c, 2)
	out := filepath.Join(all[1], "b")
	_, err := Merge(t.Context(), MergeConfig{Parts: all, Out: out})
	says(t, err, out+" would be inside the part "+all[1])
	if _, err := os.Lstat(out); err == nil {
		t.Error("it is there")
	}
}

// Nothing is written among the data, which later shards would find there.
func TestNoPartIsWrittenAmongTheData(t *testing.T) {
	t.Parallel()
	_, images, _ := bgrPhotos(t, 20)
	before := list(t, images)
	c := Config{Model: "../../featurize/testdata/conv.onnx", Train: images, Shard: rows.Shard{Index: 1, Count: 2}}
	c.Out = filepath.Join(images, "part")
	_, err := Accumulate(t.Context(), c)
	says(t, err, "train: "+c.Out+" would be inside "+images, "choose another folder")
	if left := list(t, images); !slices.Equal(left, before) {
		t.Errorf("%q is left", left)
	}
}
