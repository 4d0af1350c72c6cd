package wrap_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/meanfield"
	"github.com/mfgs/mfgs/calibrate/metrics"
	"github.com/mfgs/mfgs/featurize"
	"github.com/mfgs/mfgs/internal/attach"
	"github.com/mfgs/mfgs/internal/realdata"
	"github.com/mfgs/mfgs/internal/source"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/head"
	"github.com/mfgs/mfgs/onnx/tensor"
	. "github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/bench"
	"github.com/mfgs/mfgs/wrap/bundle"
	. "github.com/mfgs/mfgs/wrap/calibration"
)

// One session, used by several goroutines, gives the same results for the same inputs.
func TestConcurrentPredictionsAreTheSame(t *testing.T) {
	t.Parallel()
	x := digitTensor(t, 1500, 1797).Data.([]float32)
	input := func(n int) []Tensor { return []Tensor{{Shape: []int64{int64(n), 1, 8, 8}, Data: x[:n*64]}} }
	for _, s := range structures {
		dir, _ := calibrated(t, s)
		p := opened(t, dir, Options{Runtime: Runtime{Batch: 64}})
		sizes := []int{1, 7, 64, 150}
		want := map[int][]Prediction{}
		for _, n := range sizes {
			var err error
			if want[n], err = p.Predict(t.Context(), input(n)); err != nil {
				t.Fatal(err)
			}
		}
		var wg sync.WaitGroup
		for g := range 12 {
			wg.Go(func() {
				for i := range 20 {
					n := sizes[(g+i)%len(sizes)]
					got, err := p.Predict(context.Background(), input(n))
					if err != nil {
						t.Error(err)
						return
					}
					if !reflect.DeepEqual(got, want[n]) {
						t.Errorf("%s: predictions of %d examples differ", s, n)
						return
					}
				}
			})
		}
		wg.Wait()
	}
}

// another makes a bundle for another model with the same input, number of features and classes.
func another(t *testing.T, dir, model string) string {
	t.Helper()
	b, err := bundle.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	m, err := onnx.Open(model)
	if err != nil {
		t.Fatal(err)
	}
	h, err := head.Find(m, head.Options{})
	if err != nil {
		t.Fatal(err)
	}
	b.Manifest.Model.SHA256 = m.SHA256()
	b.Manifest.Head.FeaturesTensor, b.Manifest.Head.LogitsTensor = h.FeaturesTensor, h.LogitsTensor
	other := filepath.Join(t.TempDir(), "b")
	if err := bundle.Write(other, *b, bundle.WriteOptions{Model: bundle.Copy(model)}); err != nil {
		t.Fatal(err)
	}
	return other
}

func TestACancelledPredictionEndsSoonAndHarmsNoOther(t *testing.T) {
	gone := errors.New("gone")
	cancelled := func(p *Predictor, inputs []Tensor) {
		t.Helper()
		ctx, cancel := context.WithCancelCause(t.Context())
		at := make(chan time.Time, 1)
		time.AfterFunc(50*time.Millisecond, func() { at <- time.Now(); cancel(gone) })
		if _, err := p.Predict(ctx, inputs); err != gone {
			t.Fatalf("error %v, want the cause", err)
		}
		if late := time.Since(<-at); late > 2*time.Second { // a tenth of one, on an idle machine
			t.Errorf("ended %v after it was cancelled", late)
		}
	}

	// Within one batch: a network that loops for seconds.
	const models = "../featurize/testdata/"
	x := Tensor{Shape: []int64{200, 6}, Data: random(1, 1200)}
	dir := t.TempDir()
	file := write(t, dir, "x.npz", npz(t,
		map[string]array{"x": arrayOf(x.Data, 200, 6), "labels": arrayOf(labelsOf(t, models+"default.onnx", 200, x), 200)}))
	c := quick(Config{Model: models + "default.onnx", Train: file, Val: file, Out: filepath.Join(dir, "b")})
	mustCalibrate(t, c)
	slow := opened(t, another(t, c.Out, models+"slow.onnx"), Options{})
	for range 3 {
		cancelled(slow, []Tensor{{Shape: []int64{1, 6}, Data: random(1, 6)}})
	}

	// Between batches.
	bundle, _ := calibrated(t, structures[0])
	p := opened(t, bundle, Options{})
	few := []Tensor{digitTensor(t, 1500, 1510)}
	want, err := p.Predict(t.Context(), few)
	if err != nil {
		t.Fatal(err)
	}
	const many = 500_000 // take far longer than 50 ms
	for range 3 {
		cancelled(p, []Tensor{{Shape: []int64{many, 1, 8, 8}, Data: make([]float32, many*64)}})
		got, err := p.Predict(t.Context(), few)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("afterwards %+v, %v, want %+v", got, err, want)
		}
	}
}

// Sequences of different lengths are predicted without padding, and equal the formulas on the features of the cut
// network.
func TestRaggedSequencesArePredicted(t *testing.T) {
	t.Parallel()
	const n = 150
	rng := rand.New(rand.NewPCG(2, 3))
	var lines strings.Builder
	for i := range n {
		length := 1 + rng.IntN(9)
		ids, mask := make([]string, length), make([]string, length)
		for j := range ids {
			ids[j], mask[j] = fmt.Sprint(rng.IntN(20)), "1"
		}
		fmt.Fprintf(&lines, "{\"ids\":[%s],\"mask\":[%s],\"label\":%d}\n", strings.Join(ids, ","), strings.Join(mask, ","), i%4)
	}
	dir := t.TempDir()
	file := write(t, dir, "x.jsonl", []byte(lines.String()))
	for _, s := range structures {
		c := quick(Config{Model: "../featurize/testdata/sequence.onnx", Train: file, Val: file, Out: filepath.Join(dir, string(s))})
		c.Structure = s
		mustCalibrate(t, c)
		p, oracle := opened(t, c.Out, Options{}), cut(t, c.Out)
		opener := &source.Opener{Network: oracle.Network, Notes: &source.Notes{}}
		set, err := opener.Open(t.Context(), "input", file, 4, true)
		if err != nil {
			t.Fatal(err)
		}
		defer set.Close()
		var want []Prediction
		for b, err := range set.Batches(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			some, err := oracle.Formulas.PredictFeatures(b.Features, b.Logits)
			if err != nil {
				t.Fatal(err)
			}
			for i := range some {
				some[i].Input, some[i].Label = b.Name(i), &b.Labels[i]
			}
			want = append(want, some...)
		}
		predictions, _ := predicted(t, p, file)
		for i, got := range predictions {
			float32s.Check(t, got, want[i])
			if got.Input != want[i].Input || *got.Label != *want[i].Label {
				t.Errorf("example %d is %s of label %d, want %s of %d", i, got.Input, *got.Label, want[i].Input, *want[i].Label)
			}
		}
		if len(predictions) != n {
			t.Errorf("%d predictions", len(predictions))
		}
	}
}

// A model with a fixed batch takes any number of examples.
func TestAFixedBatchIsFilledUp(t *testing.T) {
	t.Parallel()
	const n = 50
	x := Tensor{Shape: []int64{n, 3, 8, 8}, Data: random(1, n*192)}
	dir := t.TempDir()
	file := write(t, dir, "x.npz", npz(t, map[string]array{"image": arrayOf(x.Data, n, 3, 8, 8), "labels": arrayOf(labelsOf(t, "../featurize/testdata/conv.onnx", n, x), n)}))
	c := quick(Config{Model: "../featurize/testdata/conv.onnx", Train: file, Val: file, Out: filepath.Join(dir, "b")})
	mustCalibrate(t, c)
	want, err := opened(t, c.Out, Options{}).Predict(t.Context(), []Tensor{x})
	if err != nil {
		t.Fatal(err)
	}
	p := opened(t, another(t, c.Out, "../featurize/testdata/batch4.onnx"), Options{})
	for _, n := range []int{0, 1, 3, 4, 5, 37, 50} {
		got, err := p.Predict(t.Context(),
			[]Tensor{{Shape: []int64{int64(n), 3, 8, 8}, Data: x.Data.([]float32)[:n*192]}})
		if err != nil || len(got) != n {
			t.Fatalf("%d predictions of %d examples, %v", len(got), n, err)
		}
		for i := range got {
			alike(t, got[i], want[i])
		}
	}
}

// The fused score, with variances in float32, detects OOD data as well as the formulas.
func TestFusedScoresDetectNotMNIST(t *testing.T) {
	t.Parallel()
	data := realdata.Dir(t)
	train, test, other := data+"/mnist/train-images-idx3-ubyte.gz", data+"/mnist/t10k-images-idx3-ubyte.gz[:3000]", data+"/notmnist/notmnist-images-idx3-ubyte.gz"
	dir := t.TempDir()
	// Networks that interpolate their training set, so that the Hessian is nearly zero.
	for _, of := range []struct {
		model, score string
		structure    calibrate.Structure
	}{
		{"model.onnx", "mf0", calibrate.Full},
		{"seed1.onnx", "studentized", calibrate.Kronecker},
	} {
		c := quick(Config{
			Model: "../models/mnist-mlp/" + of.model, Train: train + "[0:2000]", Val: train + "[55000:55500]", OOD: other + "[0:500]",
			Out: filepath.Join(dir, of.model), Cache: filepath.Join(dir, "cache"),
		})
		c.Structure, c.Limit, c.OODScore = of.structure, 0, of.score
		mustCalibrate(t, c)
		e, err := bench.Evaluate(t.Context(),
			bench.Config{Bundle: c.Out, Test: test, OOD: []bench.NamedSpec{{Name: "notmnist", Spec: other + "[5000:8000]"}},
				Methods: []string{of.score, "leverage"}, MaxBad: c.MaxBad, Cache: c.Cache, Preprocess: c.Preprocess})
		if err != nil {
			t.Fatal(err)
		}
		p := opened(t, c.Out, Options{Unlabelled: true})
		scores := func(spec string) (score, leverage []float64) {
			predictions, _ := predicted(t, p, spec)
			for _, one := range predictions {
				score, leverage = append(score, one.OODScore), append(leverage, one.Leverage)
			}
			return score, leverage
		}
		in, inLeverage := scores(test)
		out, outLeverage := scores(other + "[5000:8000]")
		for i, pair := range [][2][]float64{{in, out}, {inLeverage, outLeverage}} {
			got, err := metrics.Detect(pair[0], pair[1])
			if err != nil {
				t.Fatal(err)
			}
			want := e.Methods[i].OOD[0].AUROC
			if !(got.AUROC > 0.8) || !(got.AUROC-want < 1e-4) || !(want-got.AUROC < 1e-4) {
				t.Errorf("%s: %s has AUROC %v, want %v", of.model, e.Methods[i].Name, got.AUROC, want)
			}
			t.Logf("%s: %s has AUROC %.6f, in 64 bits %+.1e", of.model, e.Methods[i].Name, got.AUROC, want-got.AUROC)
		}
	}
}

// The posterior is read again for PredictFeatures, and must be what it was.
func TestFeaturesNeedTheBundleAsItWasOpened(t *testing.T) {
	t.Parallel()
	whole, _ := calibrated(t, structures[0])
	dir := filepath.Join(t.TempDir(), "b")
	copied := func(from string) {
		t.Helper()
		if err := errors.Join(os.RemoveAll(dir), os.CopyFS(dir, os.DirFS(from))); err != nil {
			t.Fatal(err)
		}
	}
	copied(whole)
	phi, logits := random(1, 3*128), random(2, 3*10)
	kept, early := opened(t, dir, Options{}), opened(t, dir, Options{})
	if kept.HoldsPosterior() {
		t.Error("the posterior stays in memory")
	}
	want, err := early.PredictFeatures(phi, logits)
	if err != nil {
		t.Fatal(err)
	}

	other, _ := calibrated(t, structures[1])
	copied(other)
	_, err = kept.PredictFeatures(phi, logits)
	says(t, err, dir, "has changed since it was opened")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	_, err = kept.PredictFeatures(phi, logits)
	says(t, err, dir, "want a bundle")
	if _, err := kept.Predict(t.Context(), []Tensor{digitTensor(t, 0, 3)}); err != nil {
		t.Errorf("without the bundle: %v", err)
	}

	copied(whole)
	for _, p := range []*Predictor{early, kept} {
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				if got, err := p.PredictFeatures(phi, logits); err != nil || !reflect.DeepEqual(got, want) {
					t.Errorf("%+v, %v, want %+v", got, err, want)
				}
			})
		}
		wg.Wait()
	}
}

// Networks trained by others, with ten classes and a thousand, on noise.
func TestFusedPredictionsOfRealNetworks(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(realdata.Dir(t), "models")
	for name, structures := range map[string][]calibrate.Structure{
		"cifar10_resnet20.onnx":               {calibrate.Full, calibrate.Kronecker},
		"mnist_cntk_opset8.onnx":              {calibrate.Full, calibrate.Kronecker},
		"imagenet_mobilenet_v1_0.25_128.onnx": {calibrate.Kronecker},
		"imagenet_squeezenet_fp16.onnx":       {calibrate.Kronecker},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const n = 60
			model := filepath.Join(folder, name)
			m, err := onnx.Open(model)
			if err != nil {
				t.Fatal(err)
			}
			var o head.Options
			if strings.Contains(name, "squeezenet") {
				o.Approximate = "relu"
			}
			h, err := head.Find(m, o)
			if err != nil {
				t.Fatal(err)
			}
			net, err := attach.OpenCut(m, h, featurize.Config{})
			if err != nil {
				t.Fatal(err)
			}
			defer net.Close()
			in := net.Inputs()[0]
			x := Tensor{Name: in.Name, Shape: []int64{n}}
			for _, d := range in.Shape[1:] {
				x.Shape = append(x.Shape, d.Value)
			}
			numbers := random(1, n*net.InputWidths()[0])
			x.Data = numbers
			train := arrays([]Tensor{x})
			if in.Type == tensor.Float16 {
				half := make(tensor.Float16Bits, len(numbers))
				for i := range half {
					half[i] = 0x3800 | uint16(i*i%1021) // from ½ to 1
					numbers[i] = 0.5 + float32(half[i]&0x3ff)/2048
				}
				x.Data = half
			}
			rows, err := net.Network.Run(t.Context(), []Tensor{x})
			if err != nil {
				t.Fatal(err)
			}
			train["labels"] = arrayOf(sampled(rows.Columns[1], n), n)
			dir := t.TempDir()
			file := write(t, dir, "x.npz", npz(t, train))
			for _, s := range structures {
				c := quick(Config{Model: model, Train: file + "[:40]", Val: file + "[40:]",
					Out: filepath.Join(dir, string(s)), Settings: bundle.Settings{Head: o}})
				c.Structure = s
				mustCalibrate(t, c)
				p, oracle := opened(t, c.Out, Options{}), cut(t, c.Out)
				equalsTheFormulas(t, p, oracle, []Tensor{x})
			}
		})
	}
}

// No two digits have the same score, however tuning sharpens or flattens probabilities. In float32, 1 - max p would
// be exactly zero for many, or one of a few numbers for all.
func TestScoresOfDigitsDoNotTie(t *testing.T) {
	t.Parallel()
	const n = 297
	c := config(t, filepath.Join(t.TempDir(), "b"))
	c.Structure, c.OODScore = calibrate.Kronecker, "mf0"
	dir := mustCalibrate(t, c).Bundle
	x := digitTensor(t, 1500, 1500+n)
	for _, c := range []struct {
		name     string
		act, ens float64
	}{{"hard", 0.02, 1e9}, {"soft", 20, 1e-12}} {
		pair := regexp.MustCompile(`(?m)^  ood: \{act: [^,]*, ens: [^,]*,`).FindString(string(read(t, filepath.Join(dir, bundle.ManifestName))))
		edited := reseal(t, dir, pair, fmt.Sprintf("  ood: {act: %v, ens: %v,", c.act, c.ens))
		p := opened(t, edited, Options{})
		predictions, err := p.Predict(t.Context(), []Tensor{x})
		if err != nil {
			t.Fatal(err)
		}
		formulas, err := p.Formulas()
		if err != nil {
			t.Fatal(err)
		}
		if want := (layer.Temperatures{Act: c.act, Ens: c.ens}); formulas.OOD != want {
			t.Fatalf("temperatures %v, want %v", formulas.OOD, want)
		}
		scores, rests := map[float64]bool{}, map[float32]bool{}
		for _, one := range predictions {
			scores[one.OODScore] = true
			g := formulas.Score.Median/one.OODScore - formulas.Score.Median
			rests[float32(meanfield.OneMinusMax(g, 10))] = true
		}
		if len(scores) < n || len(rests) > n*3/4 {
			t.Errorf("%s: %d scores of %d digits, and %d of 1 - max p in float32: want all, and ties", c.name, len(scores), n, len(rests))
		}
	}
}
