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
	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/featurize/dataset"
	"github.com/mfgs/mfgs/internal/approx"
	. "github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/bench"
	"github.com/mfgs/mfgs/wrap/bundle"
	. "github.com/mfgs/mfgs/wrap/calibration"
)

// separate computes by the formulas as they are printed, with loops, σ(μ_k/T_k) of
// each logit under a pair of temperatures, and the logit variances.
func separate(b *bundle.Bundle, pair layer.Temperatures, phi, logits []float32) (p, s2 []float64) {
	post := b.Posterior
	var x []float64
	for _, v := range phi {
		x = append(x, float64(v))
	}
	if post.Head.Bias {
		x = append(x, 1)
	}
	d, k := len(x), len(logits)
	for c, a := range logits {
		var v float64
		for i := range x {
			if post.Structure == calibrate.Full {
				for j := range x {
					v += x[i] * post.Blocks[c*d*d+i*d+j] * x[j]
				}
				continue
			}
			var u float64
			for j := range x {
				u += post.QA[j*d+i] * x[j]
			}
			v += u * u * post.V[i*k+c]
		}
		s2 = append(s2, v)
		p = append(p, 1/(1+math.Exp(-float64(a)/pair.Act/math.Sqrt(1+b.Manifest.MeanField.Lambda0*v/pair.Ens))))
	}
	return p, s2
}

func TestAMultiLabelModelGoesTheWholeWay(t *testing.T) {
	t.Parallel()
	const n, k = 600, 4
	x := Tensor{Shape: []int64{n, 5}, Data: random(1, n*5)}
	phi, logits := rowsOf(t, multiLabelModel, x)
	targets := tossed(logits)
	dir := t.TempDir()
	file := write(t, dir, "x.npz", npz(t, map[string]array{"x": arrayOf(x.Data, n, 5), "labels": arrayOf(targets, n, k)}))
	far := random(9, 150*5)
	for i := range far {
		far[i] *= 4
	}
	ood := write(t, dir, "ood.npz", npz(t, map[string]array{"x": arrayOf(far, 150, 5)}))
	classes := []string{"cat", "dog", "bird", "tree"}
	for _, tt := range []struct {
		structure  calibrate.Structure
		covariance calibrate.Covariance
	}{
		{calibrate.Auto, calibrate.Hessian}, {calibrate.Full, calibrate.Sandwich},
		{calibrate.Kronecker, calibrate.Fisher},
	} {
		name := string(tt.structure) + "-" + string(tt.covariance)
		c := Config{Model: multiLabelModel, Train: file + "[:400]", Val: file + "[400:]", OOD: ood,
			Out:     filepath.Join(dir, name),
			Classes: classes,
			Cache:   filepath.Join(dir, "cache"), Settings: bundle.Settings{
				OODScore: "studentized", Structure: tt.structure, Covariance: tt.covariance,
			}}
		r := mustCalibrate(t, c)
		if r.Head.Link != "sigmoid" || r.Head.Logits != k || r.Examples.Val != 200 || r.Validation.After.N != 200 ||
			r.Validation.After.OOD == nil {
			t.Errorf("%s: report %+v", name, r)
		}
		if want := string(tt.structure); tt.structure != calibrate.Auto && r.Structure != want ||
			tt.structure == calibrate.Auto && r.Structure != "full" {
			t.Errorf("%s: structure %s", name, r.Structure)
		}
		// The network is right about these targets: nothing is to be gained.
		v := r.Validation
		if !(v.MF0.NLL <= v.Before.NLL+0.02) || !(v.TS.NLL <= v.Before.NLL+1e-3) {
			t.Errorf("%s: NLL before %v, ts %v, after %v", name, v.Before.NLL, v.TS.NLL, v.After.NLL)
		}

		b, err := bundle.Open(c.Out)
		if err != nil {
			t.Fatal(err)
		}
		if b.Posterior.QB != nil || b.Manifest.Head.Link != layer.Sigmoid {
			t.Errorf("%s: bundle of %+v", name, b.Manifest.Head)
		}
		p := opened(t, c.Out, Options{})
		if p.Head().Classes() != k {
			t.Errorf("%d classes", p.Head().Classes())
		}
		predictions, err := p.Predict(t.Context(), []Tensor{x})
		if err != nil {
			t.Fatal(err)
		}
		var nll float64 // of the validation examples
		for i, one := range predictions {
			near := func(what string, got, want float64) {
				t.Helper()
				if !approx.Equal(got, want, 1e-5*math.Abs(want)+1e-9) { // float32 logits of another batch
					t.Fatalf("%s: example %d: %s is %v, want %v", name, i, what, got, want)
				}
			}
			want, s2 := separate(b, servedPair(b), phi[i*6:(i+1)*6], logits[i*k:(i+1)*k])
			var confidence, entropy, size float64
			var labels []int
			var names []string
			for c, q := range want {
				near("probability", one.Probabilities[c], q)
				near("variance", one.LogitVariance[c], s2[c])
				confidence += math.Max(q, 1-q) / k
				entropy -= q*math.Log(q) + (1-q)*math.Log(1-q)
				if q > 0.5 {
					labels, names = append(labels, c), append(names, classes[c])
				}
				y := float64(targets[i*k+c])
				if i >= 400 {
					nll -= (y*math.Log(q) + (1-y)*math.Log(1-q)) / 200 / k
				}
			}
			for _, a := range logits[i*k : (i+1)*k] {
				size += math.Abs(float64(a)) / k
			}
			near("confidence", one.Confidence, confidence)
			// 1-p of a p near 1 is off by 6e-8, of which log(p/(1-p)) times as much enters.
			if !approx.Equal(one.Entropy, entropy, 1e-5*entropy+4e-6) {
				t.Fatalf("%s: example %d: entropy is %v, want %v", name, i, one.Entropy, entropy)
			}
			near("OOD score", one.OODScore, studentized(b, size, one.Leverage))
			if len(one.Probabilities) != k || one.Label != nil || one.Targets != nil ||
				!slices.Equal(one.Labels, labels) || one.Labels == nil ||
				!slices.Equal(one.LabelNames, names) ||
				one.Class != slices.Index(one.Probabilities, slices.Max(one.Probabilities)) ||
				one.ClassName != classes[one.Class] {
				t.Fatalf("%s: example %d: %+v", name, i, one)
			}
		}
		near := func(what string, got, want float64) {
			t.Helper()
			if !approx.Equal(got, want, 1e-6) {
				t.Errorf("%s: %s %v, want %v", name, what, got, want)
			}
		}
		near("NLL at calibration", r.Validation.After.NLL, nll)
		e, err := bench.Evaluate(t.Context(),
			bench.Config{Bundle: c.Out, Test: c.Val, OOD: []bench.NamedSpec{{Name: "far", Spec: ood}}})
		if err != nil {
			t.Fatal(err)
		}
		if len(e.Methods) != 5 || e.Methods[3].InDomain != nil || e.Methods[2].InDomain.N != 200 {
			t.Fatalf("%s: methods %+v", name, e.Methods)
		}
		near("NLL in evaluation", e.Methods[2].InDomain.NLL, r.Validation.MF0.NLL)
		near("AUROC in evaluation", e.Methods[2].OOD[0].AUROC, r.Validation.MF0.OOD.AUROC)

		fromFile, report := predicted(t, p, file+"[400:]")
		for i, one := range fromFile {
			var want []int
			for c := range k {
				if targets[(400+i)*k+c] == 1 {
					want = append(want, c)
				}
			}
			if !slices.Equal(one.Targets, want) || one.Targets == nil || one.Label != nil ||
				!slices.Equal(one.Labels, predictions[400+i].Labels) {
				t.Errorf("%s: example %d: %+v, want targets %v", name, 400+i, one, want)
			}
		}
		if len(fromFile) != 200 || len(report.Warnings) != 0 {
			t.Errorf("%s: %d predictions, %+v", name, len(fromFile), report)
		}
	}
}

func TestAOneVsRestModelGoesTheWholeWay(t *testing.T) {
	t.Parallel()
	const n, k = 500, 4
	x := Tensor{Shape: []int64{n, 5}, Data: random(1, n*5)}
	phi, logits := rowsOf(t, oneVsRestModel, x)
	rng := rand.New(rand.NewPCG(7, 7))
	labels := make([]int64, n)
	var plain float64 // NLL of the last 200
	for i := range labels {
		var sum float64
		p := make([]float64, k)
		for c, a := range logits[i*k : (i+1)*k] {
			p[c] = 1 / (1 + math.Exp(-float64(a)))
			sum += p[c]
		}
		left := rng.Float64() * sum
		for labels[i] = 0; labels[i] < k-1; labels[i]++ {
			if left -= p[labels[i]]; left < 0 {
				break
			}
		}
		if i >= 300 {
			plain -= math.Log(p[labels[i]]/sum) / 200
		}
	}
	dir := t.TempDir()
	file := write(t, dir, "x.npz", npz(t, map[string]array{"x": arrayOf(x.Data, n, 5), "labels": arrayOf(labels, n)}))
	for _, structure := range structures {
		c := Config{Model: oneVsRestModel, Train: file + "[:300]", Val: file + "[300:]", Out: filepath.Join(dir, string(structure)),
			Settings: bundle.Settings{Structure: structure, Covariance: calibrate.Sandwich, KeepClass: true}}
		r := mustCalibrate(t, c)
		if r.Head.Link != "one-vs-rest" || !approx.Equal(r.Validation.Before.NLL, plain, 1e-5) {
			t.Errorf("%s: NLL before %v, want %v; %+v", structure, r.Validation.Before.NLL, plain, r.Head)
		}
		b, err := bundle.Open(c.Out)
		if err != nil {
			t.Fatal(err)
		}
		predictions, _ := predicted(t, opened(t, c.Out, Options{}), file)
		for i, one := range predictions {
			want, _ := separate(b, servedPair(b), phi[i*5:(i+1)*5], logits[i*k:(i+1)*k])
			var sum float64
			for _, p := range want {
				sum += p
			}
			for c, p := range want {
				if !approx.Equal(one.Probabilities[c], p/sum, 1e-6) {
					t.Fatalf("%s: example %d: probabilities %v, want %v of %v", structure, i, one.Probabilities, want, sum)
				}
			}
			if one.Label == nil || *one.Label != int(labels[i]) || one.Labels != nil || one.Targets != nil ||
				!approx.Equal(one.Confidence, slices.Max(want)/sum, 1e-6) {
				t.Fatalf("%s: example %d: %+v", structure, i, one)
			}
		}
		e, err := bench.Evaluate(t.Context(), bench.Config{Bundle: c.Out, Test: c.Val})
		if err != nil || !approx.Equal(e.Methods[2].InDomain.NLL, r.Validation.MF0.NLL, 1e-9) {
			t.Errorf("%s: %+v, %v", structure, e, err)
		}
	}
}

// readyTargets writes precomputed features of a multi-label head whose logits are
// three times too large where the noise of a feature is.
func readyTargets(t testing.TB, dir, name string, seed uint64, n int, labels func(targets []int64) array) string {
	t.Helper()
	const d, k = 4, 3
	phi := random(seed, n*d)
	rng := rand.New(rand.NewPCG(seed, 8))
	logits, truth := make([]float32, n*k), make([]int64, n*k)
	for i := range n {
		for c := range k {
			var a float64
			for j := range d {
				a += float64(phi[i*d+j]) * math.Cos(float64(3*c+j))
			}
			logits[i*k+c] = float32(3 * a)
			if rng.Float64() < 1/(1+math.Exp(-a)) {
				truth[i*k+c] = 1
			}
		}
	}
	arrays := map[string]array{"features": arrayOf(phi, n, d), "logits": arrayOf(logits, n, k)}
	if labels != nil {
		arrays["labels"] = labels(truth)
	}
	return write(t, dir, name, npz(t, arrays))
}

func asTargets(targets []int64) array { return arrayOf(targets, len(targets)/3, 3) }

// Labels [N,K] of the validation features mean that the head is multi-label.
func TestPrecomputedTargetsMakeAMultiLabelHead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	train, val := readyTargets(t, dir, "train.npz", 11, 700, asTargets), readyTargets(t, dir, "val.npz", 12, 600, asTargets)
	unlabelled := readyTargets(t, dir, "unlabelled.npz", 11, 700, nil)
	r := mustCalibrate(t, Config{
		PrecomputedFeatures: true, Train: train, Val: val, OOD: unlabelled, Out: filepath.Join(dir, "b"),
		Settings: bundle.Settings{Covariance: calibrate.Sandwich},
	})
	if r.Head.Link != "sigmoid" || r.Head.Logits != 3 {
		t.Errorf("head %+v", r.Head)
	}
	if v := r.Validation; !(v.After.NLL < v.Before.NLL-0.1) || !(v.After.ECE < v.Before.ECE/2) {
		t.Errorf("before %+v, after %+v", v.Before, v.After)
	}
	e, err := bench.Evaluate(t.Context(),
		bench.Config{Bundle: filepath.Join(dir, "b"), Test: readyTargets(t, dir, "test.npz", 13, 600, asTargets)})
	if err != nil {
		t.Fatal(err)
	}
	if mle, mf0 := e.Methods[0].InDomain, e.Methods[2].InDomain; !(mf0.NLL < mle.NLL-0.1) || mf0.N != 600 {
		t.Errorf("on new data: mle %+v, mf0 %+v", mle, mf0)
	}
	p := opened(t, filepath.Join(dir, "b"), Options{})
	f, err := dataset.OpenFeatures(val, dataset.Options{MultiLabel: true})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for block, err := range f.Blocks(t.Context(), 10) {
		if err != nil {
			t.Fatal(err)
		}
		if got, err := p.PredictFeatures(block.Features, block.Logits); err != nil || len(got) != 10 ||
			got[0].Labels == nil {
			t.Errorf("%+v, %v", got, err)
		}
		break
	}
	// The Hessian needs no labels of the training set.
	r = mustCalibrate(t, Config{PrecomputedFeatures: true, Train: unlabelled, Val: val, Out: filepath.Join(dir, "c")})
	if r.Head.Link != "sigmoid" || r.Examples.Train != 700 {
		t.Errorf("%+v", r)
	}
}

func TestTargetsThatAreRefused(t *testing.T) {
	t.Parallel()
	const n, k = 60, 4
	x, dir := random(1, n*5), t.TempDir()
	good := make([]int64, n*k)
	for i := range good {
		good[i] = int64(i*i/3) % 2
	}
	file := func(name string, labels array) string {
		return write(t, dir, name+".npz", npz(t, map[string]array{"x": arrayOf(x, n, 5), "labels": labels}))
	}
	fine := file("fine", arrayOf(good, n, k))
	two := slices.Clone(good)
	two[7*k+2] = 2
	floats := func(v float64) []float32 {
		f := make([]float32, n*k)
		for i, y := range good {
			f[i] = float32(y)
		}
		f[9*k+1] = float32(v)
		return f
	}
	write(t, dir, "digits-labels-idx1", idx(make([]byte, 5), 5))
	bad := []struct {
		name, spec string
		words      []string
	}{
		{"one class per example", file("single", arrayOf(make([]int64, n), n)), []string{"single.npz", "labels", "0 or 1 for each of the head's 4 labels"}},
		{"too few", file("few", arrayOf(good[:n*3], n, 3)), []string{"few.npz", "[60 3]", "4 labels"}},
		{"a two", file("two", arrayOf(two, n, k)), []string{"two.npz", "label 2 of example 7 is 2", "0 or 1"}},
		{"not a number", file("nan", arrayOf(floats(math.NaN()), n, k)), []string{"nan.npz", "label 9"}},
		{"a half", file("half", arrayOf(floats(0.5), n, k)), []string{"half.npz", "label 9"}},
		{"classes beside images", write(t, dir, "digits-images-idx3", idx(make([]byte, 25), 5, 1, 5)), []string{"one class per example", "4 labels"}},
	}
	out := filepath.Join(t.TempDir(), "b")
	c := quick(Config{Model: multiLabelModel, Train: fine, Val: fine, Out: out})
	for _, tt := range bad {
		t.Run(tt.name, func(t *testing.T) {
			wrong := c
			wrong.Val = tt.spec
			_, err := Calibrate(t.Context(), wrong)
			says(t, err, append([]string{"val: "}, tt.words...)...)
			wrong = c
			wrong.Train, wrong.Covariance = tt.spec, calibrate.Sandwich
			_, err = Calibrate(t.Context(), wrong)
			says(t, err, append([]string{"train: "}, tt.words...)...)
			if _, err := os.Stat(out); err == nil {
				t.Error("there is a bundle")
			}
		})
	}
	unlabelled := write(t, dir, "unlabelled.npz", npz(t, map[string]array{"x": arrayOf(x, n, 5)}))
	wrong := c
	wrong.Val = unlabelled
	_, err := Calibrate(t.Context(), wrong)
	says(t, err, "val: ", "no labels")
	wrong = c
	wrong.Train, wrong.Covariance = unlabelled, calibrate.Fisher
	_, err = Calibrate(t.Context(), wrong)
	says(t, err, "train: ", "no labels", "fisher")
	wrong = c
	wrong.Classes = []string{"no", "yes"}
	_, err = Calibrate(t.Context(), wrong)
	says(t, err, "2 class names", "4 classes")

	mustCalibrate(t, c)
	for _, tt := range bad {
		_, err := bench.Evaluate(t.Context(), bench.Config{Bundle: out, Test: tt.spec})
		says(t, err, append([]string{"test: "}, tt.words...)...)
	}
	_, err = bench.Evaluate(t.Context(), bench.Config{Bundle: out, Test: unlabelled})
	says(t, err, "test: ", "no labels")

	// Labels that mean nothing to the model are not needed to predict; those that
	// are broken are an error.
	p := opened(t, out, Options{})
	predictions, report := predicted(t, p, bad[0].spec)
	for _, one := range predictions {
		if one.Targets != nil || one.Label != nil {
			t.Errorf("%+v", one)
		}
	}
	if len(predictions) != n || len(report.Warnings) != 1 || !strings.Contains(report.Warnings[0], "predicted without labels") {
		t.Errorf("%d predictions, %+v", len(predictions), report)
	}
	says(t, predictError(t.Context(), p, bad[2].spec), "label 2 of example 7 is 2")

	// Targets are nothing for a head whose classes exclude each other.
	single := quick(Config{Model: oneVsRestModel, Train: fine, Val: fine, Out: out + "2"})
	_, err = Calibrate(t.Context(), single)
	says(t, err, "train: ", "[60 4]", "one label")

	// Precomputed features; those for validation have targets.
	ready := readyTargets(t, dir, "ready.npz", 1, 60, asTargets)
	for name, tt := range map[string]struct {
		train, val string
		words      []string
	}{
		"training labels of another kind": {readyTargets(t, dir, "a.npz", 1, 60, func([]int64) array { return arrayOf(make([]int64, 60), 60) }), ready,
			[]string{"train: ", "0 or 1"}},
		"validation labels of another kind": {ready, readyTargets(t, dir, "b.npz", 1, 60, func([]int64) array { return arrayOf(make([]int64, 60), 60) }),
			[]string{"train: ", "one label"}},
		"targets of too few logits": {ready, readyTargets(t, dir, "c.npz", 1, 60, func(y []int64) array { return arrayOf(y[:120], 60, 2) }),
			[]string{"train: ", "labels"}},
		"a target of two": {ready, readyTargets(t, dir, "d.npz", 1, 60, func(y []int64) array { y[31] = 2; return asTargets(y) }),
			[]string{"val: ", "label 1 of example 10 is 2"}},
	} {
		_, err := Calibrate(t.Context(), Config{PrecomputedFeatures: true, Train: tt.train, Val: tt.val, Out: out + "3"})
		if says(t, err, tt.words...); t.Failed() {
			t.Errorf("that was %s", name)
		}
	}
}

func TestImplausibleMultiLabelFiguresGiveAWarning(t *testing.T) {
	t.Parallel()
	const n, k = 300, 4
	x := random(1, n*5)
	_, logits := rowsOf(t, multiLabelModel, Tensor{Shape: []int64{n, 5}, Data: x})
	right := tossed(logits)
	wrong := make([]int64, len(right))
	for i, y := range right {
		wrong[i] = 1 - y
	}
	dir := t.TempDir()
	for name, tc := range map[string]struct {
		targets []int64
		want    bool
	}{"right": {right, false}, "wrong": {wrong, true}} {
		file := write(t, dir, name+".npz", npz(t, map[string]array{"x": arrayOf(x, n, 5), "labels": arrayOf(tc.targets, n, k)}))
		r := mustCalibrate(t, quick(Config{Model: multiLabelModel, Train: file, Val: file,
			Out: filepath.Join(dir, name)}))
		if got := strings.Contains(strings.Join(r.Warnings, "; "), "no better than guessing on the validation data (NLL"); got != tc.want {
			t.Errorf("%s: warnings %q", name, r.Warnings)
		}
	}
	// Probabilities in the place of logits.
	p := make([]float32, len(logits))
	for i, a := range logits {
		p[i] = float32(1 / (1 + math.Exp(-float64(a))))
	}
	file := write(t, dir, "p.npz", npz(t, map[string]array{"features": arrayOf(x, n, 5), "logits": arrayOf(p, n, k), "labels": arrayOf(right, n, k)}))
	r := mustCalibrate(t, Config{PrecomputedFeatures: true, Train: file, Val: file, Out: filepath.Join(dir, "p"),
		Settings: bundle.Settings{Damping: calibrate.Damping{Relative: 1}}})
	if !strings.Contains(strings.Join(r.Warnings, "; "), "val: all logits lie in [0,1], like probabilities: give the logits, before the sigmoid") {
		t.Errorf("warnings %q", r.Warnings)
	}
}
