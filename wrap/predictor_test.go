package wrap_test

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	goimage "image"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/internal/approx"
	"github.com/mfgs/mfgs/models"
	"github.com/mfgs/mfgs/onnx"
	. "github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/bench"
	"github.com/mfgs/mfgs/wrap/bundle"
	. "github.com/mfgs/mfgs/wrap/calibration"
)

// oracle computes a prediction from features and logits by the printed formulas, with loops in float64.
func oracle(b *bundle.Bundle, phi, logits []float32) Prediction {
	post := b.Posterior
	var x []float64
	for _, v := range phi {
		x = append(x, float64(v))
	}
	if post.Head.Bias {
		x = append(x, 1)
	}
	d, k := len(x), len(logits)
	s2 := make([]float64, k) // at T_ens = 1
	p, leverage := Prediction{}, 0.0
	if post.Structure == calibrate.Full {
		for i := range x {
			for j := range x {
				leverage += x[i] * post.Leverage[i*d+j] * x[j]
				for c := range s2 {
					s2[c] += x[i] * post.Blocks[c*d*d+i*d+j] * x[j]
				}
			}
		}
	} else {
		for i := range x {
			var u float64
			for j := range x {
				u += post.QA[j*d+i] * x[j]
			}
			leverage += u * u * post.Leverage[i]
			for c := range s2 {
				for j, q := range post.QB[c*k : (c+1)*k] {
					s2[c] += u * u * q * q / (post.LambdaA[i]*post.LambdaB[j] + post.Epsilon)
				}
			}
		}
	}
	mf0 := func(t layer.Temperatures) []float64 {
		e, sum := make([]float64, k), 0.0
		for c := range e {
			scale := math.Sqrt(1 + b.Manifest.MeanField.Lambda0*s2[c]/t.Ens)
			var all float64
			for i := range logits {
				all += math.Exp(-(float64(logits[c]) - float64(logits[i])) / t.Act / scale)
			}
			e[c] = 1 / all
			sum += e[c]
		}
		for c := range e {
			e[c] /= sum
		}
		return e
	}
	p.Probabilities = mf0(servedPair(b))
	p.Confidence = slices.Max(p.Probabilities)
	p.Class = slices.Index(p.Probabilities, p.Confidence)
	for _, q := range p.Probabilities {
		p.Entropy -= q * math.Log(q)
	}
	mean := 0.0
	for _, a := range logits {
		mean += float64(a) / float64(len(logits))
	}
	p.OODScore = studentized(b, float64(slices.Max(logits))-mean, leverage)
	p.OODPercentile, p.Leverage = percentile(b, p.OODScore), leverage
	p.LogitVariance = s2 // at T_ens = 1
	return p
}

// percentile returns the place of an ood_score among the bundle's quantiles.
func percentile(b *bundle.Bundle, score float64) *float64 {
	q := b.Manifest.OODScore.Quantiles
	place := 0.0
	for i := range q[1:] {
		switch {
		case score >= q[i+1]:
			place++
		case score > q[i]:
			place += (score - q[i]) / (q[i+1] - q[i])
		}
	}
	place /= float64(len(q) - 1)
	return &place
}

func TestPredictionsAreThoseOfTheFormulas(t *testing.T) {
	t.Parallel()
	inputs := []Tensor{digitTensor(t, 1400, 1700)} // more than one batch
	for _, s := range structures {
		t.Run(string(s), func(t *testing.T) {
			dir, _ := calibrated(t, s)
			p := opened(t, dir, Options{})
			got, err := p.Predict(t.Context(), inputs)
			if err != nil {
				t.Fatal(err)
			}
			b, err := bundle.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			rows, err := cut(t, dir).Network.Run(t.Context(), inputs)
			if err != nil {
				t.Fatal(err)
			}
			exact, err := p.PredictFeatures(rows.Columns[0], rows.Columns[1])
			if err != nil {
				t.Fatal(err)
			}
			if len(got) != 300 || len(exact) != 300 || rows.N != 300 {
				t.Fatalf("%d and %d predictions", len(got), len(exact))
			}
			for i, one := range got {
				logits := rows.Columns[1][i*10 : (i+1)*10]
				want := oracle(b, rows.Columns[0][i*128:(i+1)*128], logits)
				float64s.Check(t, exact[i], want)
				float32s.Check(t, one, want)
				for c, v := range one.Logits {
					if !approx.Equal(float64(v), float64(logits[c]), 1e-5*(1+math.Abs(float64(logits[c])))) {
						t.Fatalf("logits %v, want %v", one.Logits, logits)
					}
				}
				if sum := total(one.Probabilities); !approx.Equal(sum, 1, 1e-15) {
					t.Fatalf("probabilities add up to 1 %+g", sum-1)
				}
				if one.Label != nil || one.Input != "" || one.ClassName != "" {
					t.Fatalf("example %d: %+v", i, one)
				}
			}
		})
	}
}

func TestAllWaysToPredictAgree(t *testing.T) {
	t.Parallel()
	dir, _ := calibrated(t, calibrate.Full)
	p := opened(t, dir, Options{})
	x := digitTensor(t, 1500, 1797)
	all, err := p.Predict(t.Context(), []Tensor{x})
	if err != nil {
		t.Fatal(err)
	}

	t.Run("a dataset", func(t *testing.T) {
		predictions, report := predicted(t, p, digits(t, models.DigitsTest))
		for i, one := range predictions {
			if one.Label == nil || !strings.HasSuffix(one.Input, "[1500]") && i == 0 {
				t.Errorf("example %d: %+v", i, one)
			}
			alike(t, one, all[i])
		}
		if len(predictions) != 297 || report.Ignored != nil || report.Warnings != nil {
			t.Errorf("%d predictions, %+v", len(predictions), report)
		}
	})
	t.Run("one by one, of any name", func(t *testing.T) {
		for i := range 20 {
			one, err := p.Predict(t.Context(),
				[]Tensor{{Shape: []int64{1, 1, 8, 8}, Data: x.Data.([]float32)[i*64 : (i+1)*64]}})
			if err != nil {
				t.Fatal(err)
			}
			alike(t, one[0], all[i])
		}
	})
	t.Run("images", func(t *testing.T) {
		var images []goimage.Image
		for i := range 20 {
			img := goimage.NewGray(goimage.Rect(0, 0, 8, 8))
			for j := range img.Pix {
				img.Pix[j] = uint8(x.Data.([]float32)[i*64+j]*255 + .5)
			}
			images = append(images, img)
		}
		got, err := p.PredictImages(t.Context(), images...)
		if err != nil {
			t.Fatal(err)
		}
		for i := range got {
			alike(t, got[i], all[i])
		}
		_, err = p.PredictImages(t.Context())
		says(t, err, "no images")
		_, err = p.PredictImages(t.Context(), goimage.NewGray(goimage.Rect(0, 0, 9, 9)))
		says(t, err, "image 0", "9×9 grey image", "[N,1,8,8]", "give Preprocess")
	})
	t.Run("features", func(t *testing.T) {
		rows, err := cut(t, dir).Network.Run(t.Context(), []Tensor{x})
		if err != nil {
			t.Fatal(err)
		}
		got, err := p.PredictFeatures(rows.Columns[0], rows.Columns[1])
		if err != nil {
			t.Fatal(err)
		}
		want := got[3].Logits[0]
		clear(rows.Columns[1]) // which stay the caller's
		if got[3].Logits[0] != want {
			t.Error("a prediction changes with the caller's slice")
		}
		for i := range got {
			alike(t, got[i], all[i])
		}
	})
	t.Run("batches of three", func(t *testing.T) {
		got, err := opened(t, dir, Options{Runtime: Runtime{Batch: 3, Threads: 1}}).Predict(t.Context(), []Tensor{x})
		if err != nil {
			t.Fatal(err)
		}
		for i := range got {
			alike(t, got[i], all[i])
		}
	})
	t.Run("none", func(t *testing.T) {
		got, err := p.Predict(t.Context(), []Tensor{{Shape: []int64{0, 1, 8, 8}, Data: []float32{}}})
		if err != nil || len(got) != 0 {
			t.Errorf("%v, %v", got, err)
		}
		if got, err = p.PredictFeatures(nil, nil); err != nil || len(got) != 0 {
			t.Errorf("%v, %v", got, err)
		}
	})
	t.Run("a file system", func(t *testing.T) {
		p, err := OpenFS(t.Context(), os.DirFS(dir), Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		got, err := p.Predict(t.Context(), []Tensor{x})
		if err != nil {
			t.Fatal(err)
		}
		for i := range got {
			alike(t, got[i], all[i])
		}
		if p.Bundle().Path != "" || p.Bundle().Damping.Rule != "auto" {
			t.Errorf("bundle %+v", p.Bundle())
		}
	})
	t.Run("eight at a time", func(t *testing.T) {
		var wg sync.WaitGroup
		for g := range 8 {
			wg.Go(func() {
				for i := g; i < 200; i += 8 {
					n := 1 + i%5
					got, err := p.Predict(context.Background(),
						[]Tensor{{Shape: []int64{int64(n), 1, 8, 8}, Data: x.Data.([]float32)[i*64 : (i+n)*64]}})
					if err != nil {
						t.Error(err)
						return
					}
					for j := range got {
						alike(t, got[j], all[i+j])
					}
				}
			})
		}
		wg.Wait()
	})
}

func TestAPredictorDescribesItself(t *testing.T) {
	t.Parallel()
	dir, r := calibrated(t, calibrate.Full)
	p := opened(t, dir, Options{})
	if in := p.Inputs(); len(in) != 1 || in[0].Name != "image" || in[0].String() != "[N,1,8,8] float32" {
		t.Errorf("inputs %v", in)
	}
	if p.Head().Classes() != 10 || p.Classes() != nil {
		t.Errorf("%d classes %q", p.Head().Classes(), p.Classes())
	}
	head := r.Head.Head
	head.Tail = nil
	if !reflect.DeepEqual(p.Head(), head) {
		t.Errorf("head %+v, want %+v", p.Head(), head)
	}
	if want := (BundleInfo{Path: dir, Summary: r.Summary}); !reflect.DeepEqual(p.Bundle(), want) {
		t.Errorf("bundle %+v, want %+v", p.Bundle(), want)
	}
}

func TestPredictRefuses(t *testing.T) {
	t.Parallel()
	dir, _ := calibrated(t, calibrate.Full)
	p := opened(t, dir, Options{})
	nan := digitTensor(t, 0, 5)
	nan.Data.([]float32)[3*64] = float32(math.NaN())
	for _, tt := range []struct {
		name   string
		inputs []Tensor
		words  []string
	}{
		{"nothing", nil, []string{"got 0 inputs, want 1", "image"}},
		{"another shape", []Tensor{{Shape: []int64{2, 1, 8, 9}, Data: make([]float32, 144)}}, []string{"image", "8", "9"}},
		{"another rank", []Tensor{{Shape: []int64{2, 64}, Data: make([]float32, 128)}}, []string{"image", "64"}},
		{"another type", []Tensor{{Shape: []int64{1, 1, 8, 8}, Data: make([]uint8, 64)}}, []string{"image", "float32", "uint8"}},
		{"another name", []Tensor{{Name: "picture", Shape: []int64{1, 1, 8, 8}, Data: make([]float32, 64)}}, []string{"picture", "image"}},
		{"not a number", []Tensor{nan}, []string{"example 3: logit", "NaN"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := p.Predict(t.Context(), tt.inputs)
			says(t, err, tt.words...)
		})
	}
	_, err := p.PredictFeatures(make([]float32, 127), make([]float32, 10))
	says(t, err, "127 features and 10 logits", "128 and 10")
	_, err = p.PredictFeatures(make([]float32, 128), make([]float32, 11))
	says(t, err, "128 features and 11 logits")
	logits := make([]float32, 10)
	logits[4] = float32(math.Inf(1))
	_, err = p.PredictFeatures(make([]float32, 128), logits)
	says(t, err, "example 0: logit 4 is +Inf")

	cause := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if _, err := p.Predict(ctx, []Tensor{digitTensor(t, 0, 300)}); err != cause {
		t.Errorf("cancelled: %v", err)
	}
	if err := predictError(ctx, p, digits(t, models.DigitsTest)); !errors.Is(err, cause) {
		t.Errorf("cancelled: %v", err)
	}
	for one, err := range p.PredictDataset(t.Context(), digits(t, models.DigitsTest), nil) {
		if err != nil || one.Probabilities == nil {
			t.Errorf("%+v, %v", one, err)
		}
		break // which ends the work
	}
	says(t, predictError(t.Context(), p, filepath.Join(t.TempDir(), "nowhere")), "input: ", "nowhere")
	_, err = Open(t.Context(), dir, Options{Runtime: Runtime{Batch: -1}})
	says(t, err, "-1")

	q, err := Open(t.Context(), dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := q.Close(); err != nil {
			t.Error(err)
		}
	}
	_, err = q.Predict(t.Context(), []Tensor{digitTensor(t, 0, 1)})
	says(t, err, "closed")
}

// A record that cannot be read, or whose logits are not finite, has an error in its place. The others are predicted.
func TestRecordErrorsTakeTheirPlaceInADataset(t *testing.T) {
	t.Parallel()
	dir, _ := calibrated(t, calibrate.Kronecker)
	p := opened(t, dir, Options{})
	filled := func(value string) string {
		return fmt.Sprintf("{\"image\":[[%[1]s]]}\n", strings.Repeat(","+"["+strings.Repeat(","+value, 8)[1:]+"]", 8)[1:])
	}
	good, bad, infinite := filled("0.5"), filled(`"x"`), filled("3e38")
	for lines, want := range map[string][]string{
		good + "nonsense\n" + infinite + good: {"", "x.jsonl[1]: ", "x.jsonl[2]: logit 0 is ", ""},
		infinite + bad + good:                 {"x.jsonl[0]: logit 0 is ", "x.jsonl[1]: ", ""},
		bad + bad:                             {"x.jsonl[0]: ", "x.jsonl[1]: ", "no examples"},
	} {
		i := 0
		for one, err := range p.PredictDataset(t.Context(), write(t, t.TempDir(), "x.jsonl", []byte(lines)), nil) {
			switch says := want[i]; {
			case says == "":
				if err != nil || len(one.Probabilities) != 10 {
					t.Errorf("record %d of %q: %v", i, lines, err)
				}
			case err == nil || !strings.Contains(err.Error(), says):
				t.Errorf("record %d of %q: %v, want %q", i, lines, err, says)
			case errors.As(err, new(*RecordError)) == errors.Is(err, ErrNoExamples),
				errors.Is(err, ErrNoExamples) != (says == "no examples"):
				t.Errorf("record %d of %q: %v is of the wrong kind", i, lines, err)
			}
			i++
		}
		if i != len(want) {
			t.Errorf("%d records of %q, want %d", i, lines, len(want))
		}
	}
}

func TestADatasetWithoutExamplesIsErrNoExamples(t *testing.T) {
	t.Parallel()
	dir, _ := calibrated(t, calibrate.Kronecker)
	p := opened(t, dir, Options{})
	for name, content := range map[string][]byte{
		"x.jsonl": []byte("\n"), "x.csv": []byte("\n"), "x-images-idx3": idx(nil, 0, 8, 8),
	} {
		if err := predictError(t.Context(), p, write(t, t.TempDir(), name, content)); !errors.Is(err, ErrNoExamples) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Features that float32 can hold but not square have the highest OOD score, in the graph as from features in float64.
func TestFeaturesBeyondFloat32AreOutOfDistribution(t *testing.T) {
	t.Parallel()
	for _, s := range structures {
		dir, _ := calibrated(t, s)
		p := opened(t, dir, Options{})
		rows, err := cut(t, dir).Network.Run(t.Context(), []Tensor{digitTensor(t, 1400, 1401)})
		if err != nil {
			t.Fatal(err)
		}
		for _, scale := range []float32{1e9, 1e14, 1e20, 1e30, 1e35} {
			input := digitTensor(t, 1400, 1401)
			for i := range input.Data.([]float32) {
				input.Data.([]float32)[i] *= scale
			}
			phi, logits := slices.Clone(rows.Columns[0]), slices.Clone(rows.Columns[1])
			for _, x := range [][]float32{phi, logits} {
				for i := range x {
					x[i] *= scale
				}
			}
			inGraph, err := p.Predict(t.Context(), []Tensor{input})
			if err != nil {
				t.Fatal(err)
			}
			ofFeatures, err := p.PredictFeatures(phi, logits)
			if err != nil {
				t.Fatal(err)
			}
			for _, one := range []Prediction{inGraph[0], ofFeatures[0]} {
				if one.OODScore != 1 || *one.OODPercentile != 1 || !(*one.OODPValue < 0.01) {
					t.Errorf("%s: features of %v have score %v, percentile %v and p-value %v", s, scale, one.OODScore,
						*one.OODPercentile, *one.OODPValue)
				}
			}
		}
	}
}

// Labels that are not the model's do not prevent predictions.
func TestPredictionsDoNotNeedTheModelsLabels(t *testing.T) {
	t.Parallel()
	dir, _ := calibrated(t, calibrate.Kronecker)
	p := opened(t, dir, Options{})
	predictions, report := predicted(t, p, tree(t, []string{"cats", "dogs"}, 3))
	for _, one := range predictions {
		if one.Label != nil || !strings.HasSuffix(one.Input, ".png") {
			t.Errorf("%+v", one)
		}
	}
	if len(predictions) != 6 || len(report.Warnings) != 1 || !strings.Contains(report.Warnings[0], "2 class folders (cats, dogs) for 10 classes") ||
		len(report.Ignored) != 1 {
		t.Errorf("%d predictions, %+v", len(predictions), report)
	}

	// Labels that are not classes are found only while a file is read.
	data := t.TempDir()
	write(t, data, "x-labels-idx1", idx([]byte{1, 10}, 2))
	images := write(t, data, "x-images-idx3", idx(make([]byte, 128), 2, 8, 8))
	predictions, report = predicted(t, p, images)
	again := p.PredictDataset(t.Context(), images, &report)
	for range 2 {
		for range again {
		}
	}
	first, second := predictions[0].Label, predictions[1].Label
	if len(predictions) != 2 || first == nil || *first != 1 || second != nil {
		t.Errorf("predictions %+v", predictions)
	}
	if len(report.Warnings) != 1 || !strings.Contains(report.Warnings[0], "1 of 2 labels are outside [0,10)") {
		t.Errorf("warnings %q", report.Warnings)
	}
	for _, err := range opened(t, dir, Options{}).PredictMaps(t.Context(), images, nil) {
		if !errors.Is(err, ErrNoMaps) {
			t.Errorf("maps of a model without: %v", err)
		}
	}
	predictions, report = predicted(t, opened(t, dir, Options{Unlabelled: true}), images)
	if len(predictions) != 2 || predictions[0].Label != nil || len(report.Warnings) > 0 {
		t.Errorf("%+v, %+v", predictions, report)
	}
}

func TestABundleWithoutItsModelNeedsTheRightOne(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := quick(config(t, filepath.Join(dir, "b")))
	c.NoModel = true
	mustCalibrate(t, c)
	want := []string{bundle.ManifestName, bundle.PosteriorName, bundle.ProbeName}
	if got := list(t, c.Out); !slices.Equal(got, want) {
		t.Errorf("the bundle holds %q", got)
	}
	_, err := Open(t.Context(), c.Out, Options{})
	says(t, err, "has no model", "with Model", "SHA-256")

	p := opened(t, c.Out, Options{Model: c.Model})
	if _, err := p.Predict(t.Context(), []Tensor{digitTensor(t, 0, 3)}); err != nil {
		t.Error(err)
	}
	if e, err := bench.Evaluate(t.Context(),
		bench.Config{Bundle: c.Out, Model: c.Model, Test: digits(t, models.DigitsTest)}); err != nil ||
		e.Model.Path != c.Model {
		t.Errorf("%+v, %v", e, err)
	}

	// The same network, trained a little further.
	data := read(t, c.Model)
	data[len(data)/2] ^= 1
	other := write(t, dir, "other.onnx", data)
	_, err = Open(t.Context(), c.Out, Options{Model: other})
	says(t, err, "other.onnx", "SHA-256", "or calibrate this one")
	_, err = Open(t.Context(), c.Out, Options{Model: "../featurize/testdata/conv.onnx"})
	says(t, err, "conv.onnx", "SHA-256")
	_, err = Open(t.Context(), c.Out, Options{Model: filepath.Join(dir, "nowhere.onnx")})
	says(t, err, "nowhere.onnx")

	// A bundle with a model accepts no other model either.
	full, _ := calibrated(t, calibrate.Full)
	_, err = Open(t.Context(), full, Options{Model: other})
	says(t, err, "other.onnx", "SHA-256")
	opened(t, full, Options{Model: c.Model})
}

func TestABundleWhoseHeadIsNotTheModelsIsRefused(t *testing.T) {
	t.Parallel()
	dir, r := calibrated(t, calibrate.Kronecker)
	_, err := Open(t.Context(), reseal(t, dir, "features: "+r.Head.FeaturesTensor, "features: elsewhere"), Options{})
	says(t, err, "elsewhere")

	// Another model under the bundle's name, with valid hashes.
	model, err := onnx.Open("../featurize/testdata/conv.onnx")
	if err != nil {
		t.Fatal(err)
	}
	b, err := bundle.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	b.Manifest.Model.SHA256 = model.SHA256()
	b.Manifest.Head.FeaturesTensor, b.Manifest.Head.LogitsTensor = "phi", "logits"
	other := filepath.Join(t.TempDir(), "b")
	if err := bundle.Write(other, *b, bundle.WriteOptions{Model: bundle.Copy("../featurize/testdata/conv.onnx")}); err != nil {
		t.Fatal(err)
	}
	_, err = Open(t.Context(), other, Options{})
	says(t, err, "6 features, 4 logits", "128, 10", "give the calibrated model")
}

// inTwo writes a bundle whose model has external data, as models do that are too large for one file. It returns the
// folder, and inputs of the model.
func inTwo(t *testing.T, change func(*bundle.WriteOptions)) (string, Tensor) {
	t.Helper()
	dir := t.TempDir()
	c, x := externalConfig(t, dir)
	c.Out, c.NoModel = filepath.Join(dir, "without"), true
	mustCalibrate(t, c)
	b, err := bundle.Open(c.Out)
	if err != nil {
		t.Fatal(err)
	}
	// The location is another name of the same length.
	graph := read(t, external)
	renamed := bytes.ReplaceAll(graph, []byte("external.onnx.data"), []byte(".//model.onnx.data"))
	if bytes.Equal(graph, renamed) {
		t.Fatal("the fixture has no external data of that name")
	}
	o := bundle.WriteOptions{
		Model:     func(w io.Writer) error { _, err := w.Write(renamed); return err },
		ModelData: bundle.Copy(external + ".data"),
	}
	change(&o)
	own := filepath.Join(dir, "b")
	if err := bundle.Write(own, *b, o); err != nil {
		t.Fatal(err)
	}
	return own, x
}

func TestABundleMayHoldExternalData(t *testing.T) {
	t.Parallel()
	own, x := inTwo(t, func(*bundle.WriteOptions) {})
	predictions := func(p *Predictor) []Prediction {
		t.Helper()
		got, err := p.Predict(t.Context(), []Tensor{x})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	want := predictions(opened(t, own, Options{Model: external}))
	same := func(name string, p *Predictor) {
		t.Helper()
		for i, got := range predictions(p) {
			if !close32(got.Logits, want[i].Logits) || !approx.Equal(got.Confidence, want[i].Confidence, 1e-6) {
				t.Fatalf("%s: prediction %+v, want %+v", name, got, want[i])
			}
		}
	}
	same("its own model", opened(t, own, Options{}))
	same("its own model by name", opened(t, own, Options{Model: filepath.Join(own, bundle.ModelName)}))

	// A file system without a folder cannot give the weights to the runtime.
	_, err := OpenFS(t.Context(), os.DirFS(own), Options{})
	says(t, err, "model.onnx.data", "folder", "Options.Model")
	p, err := OpenFS(t.Context(), os.DirFS(own), Options{Model: external})
	if err != nil {
		t.Fatal(err)
	}
	same("a file system and the model by name", p)
	if err := p.Close(); err != nil {
		t.Error(err)
	}

	// It can be calibrated again in place, and becomes one file if it fits.
	file := filepath.Join(filepath.Dir(own), "x.npz")
	mustCalibrate(t, quick(Config{Model: filepath.Join(own, bundle.ModelName), Train: file, Val: file, Out: own,
		Force: true}))
	if got, want := list(t, own), []string{bundle.ManifestName, bundle.ModelName,
		bundle.PosteriorName, bundle.ProbeName, bundle.ScoresName}; !slices.Equal(got, want) {
		t.Errorf("the bundle holds %q, want %q", got, want)
	}
	same("the gathered model", opened(t, own, Options{}))
}

func TestDamagedExternalDataIsRefused(t *testing.T) {
	t.Parallel()
	own, _ := inTwo(t, func(*bundle.WriteOptions) {})
	path := filepath.Join(own, bundle.ModelDataName)
	data := read(t, path)
	other := slices.Clone(data)
	other[len(other)-1] ^= 1

	_, err := OpenRead(t.Context(), func(context.Context) (*bundle.Bundle, error) {
		b, err := bundle.Open(own)
		write(t, own, bundle.ModelDataName, other)
		return b, err
	}, Options{})
	if !errors.Is(err, bundle.ErrHash) {
		t.Errorf("replaced meanwhile: %v", err)
	}
	for _, model := range []string{"", filepath.Join(own, bundle.ModelName), external} {
		_, err = Open(t.Context(), own, Options{Model: model})
		says(t, err, "model.onnx.data", "damaged")
	}
	// Another bundle does not accept it either.
	whole, _ := inTwo(t, func(*bundle.WriteOptions) {})
	_, err = Open(t.Context(), whole, Options{Model: filepath.Join(own, bundle.ModelName)})
	says(t, err, "model.onnx", "SHA-256", "or calibrate this one")

	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	_, err = Open(t.Context(), own, Options{})
	says(t, err, "model.onnx.data", "missing")
	elsewhere := write(t, t.TempDir(), "data", data)
	if err := os.Symlink(elsewhere, path); err != nil {
		t.Fatal(err)
	}
	_, err = Open(t.Context(), own, Options{})
	says(t, err, "model.onnx.data", "link")
}

// No hash would detect a change of the weights.
func TestWeightsThatTheManifestDoesNotNameAreRefused(t *testing.T) {
	t.Parallel()
	own, _ := inTwo(t, func(o *bundle.WriteOptions) { o.ModelData = nil })
	write(t, own, bundle.ModelDataName, read(t, external+".data"))
	_, err := Open(t.Context(), own, Options{})
	says(t, err, "model.onnx", "weights in other files")

	own, _ = inTwo(t, func(o *bundle.WriteOptions) { o.Model = bundle.Copy(digits(t, models.DigitsModel)) })
	_, err = Open(t.Context(), own, Options{})
	says(t, err, "model.onnx", "no weights in model.onnx.data")

	own, _ = inTwo(t, func(o *bundle.WriteOptions) { o.Model = bundle.Copy(external) })
	other := read(t, external+".data")
	other[0] ^= 1
	write(t, own, "external.onnx.data", other)
	_, err = Open(t.Context(), own, Options{})
	says(t, err, "model.onnx", "in other files than model.onnx.data")
}

func TestADamagedBundleIsRefused(t *testing.T) {
	t.Parallel()
	whole, _ := calibrated(t, calibrate.Kronecker)
	dir := filepath.Join(t.TempDir(), "b")
	if err := os.CopyFS(dir, os.DirFS(whole)); err != nil {
		t.Fatal(err)
	}
	opened(t, dir, Options{})
	for _, name := range list(t, dir) {
		data := read(t, filepath.Join(dir, name))
		for i := range 40 {
			damaged := slices.Clone(data)
			at := i * (len(data) - 1) / 39
			damaged[at] ^= 1 << (i % 8)
			write(t, dir, name, damaged)
			_, err := Open(t.Context(), dir, Options{})
			says(t, err, dir, name)
		}
		write(t, dir, name, data[:len(data)-1])
		_, err := Open(t.Context(), dir, Options{})
		says(t, err, name)
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		_, err = Open(t.Context(), dir, Options{})
		says(t, err, name, "missing")
		write(t, dir, name, data)
	}
	opened(t, dir, Options{})
}

// A model that is replaced after its hash was checked must not be run.
func TestAModelReplacedMeanwhileIsRefused(t *testing.T) {
	t.Parallel()
	whole, _ := calibrated(t, calibrate.Kronecker)
	dir := filepath.Join(t.TempDir(), "b")
	if err := os.CopyFS(dir, os.DirFS(whole)); err != nil {
		t.Fatal(err)
	}
	data := read(t, filepath.Join(dir, bundle.ModelName))
	data[len(data)/2] ^= 1
	for name, read := range map[string]func() (*bundle.Bundle, error){
		"folder":      func() (*bundle.Bundle, error) { return bundle.Open(dir) },
		"file system": func() (*bundle.Bundle, error) { return bundle.OpenFS(os.DirFS(dir)) },
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.CopyFS(t.TempDir(), os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
			original, err := os.ReadFile(filepath.Join(whole, bundle.ModelName))
			if err != nil {
				t.Fatal(err)
			}
			write(t, dir, bundle.ModelName, original)
			_, err = OpenRead(t.Context(), func(context.Context) (*bundle.Bundle, error) {
				b, err := read()
				write(t, dir, bundle.ModelName, data)
				return b, err
			}, Options{})
			if !errors.Is(err, bundle.ErrHash) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// testdata/v1/digits has format 1, which names neither method nor score: mf0 gives both, without percentiles.
func TestABundleOfFormat1Predicts(t *testing.T) {
	t.Parallel()
	p := opened(t, "testdata/v1/digits", Options{})
	predictions, _ := predicted(t, p, digits(t, models.DigitsTest))
	wrong := 0
	for _, one := range predictions {
		if one.Class != *one.Label {
			wrong++
		}
		if one.OODPercentile != nil || !(one.OODScore > 0 && one.OODScore <= 1) {
			t.Fatalf("%+v", one)
		}
	}
	if len(predictions) != 297 || wrong > 12 {
		t.Errorf("%d of %d wrong", wrong, len(predictions))
	}
}

// Bundles that do not say how many examples their quantiles are of give percentiles, and no p-values.
func TestABundleWithoutTheNumberOfItsScoresHasNoPValues(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "digits")
	if err := os.CopyFS(dir, os.DirFS("testdata/digits")); err != nil {
		t.Fatal(err)
	}
	manifest := filepath.Join(dir, "bundle.yaml")
	text, err := os.ReadFile(manifest)
	if err != nil {
		t.Fatal(err)
	}
	older := bytes.Replace(text, []byte("\n  examples: 300\n  quantiles:"), []byte("\n  quantiles:"), 1)
	if bytes.Equal(older, text) {
		t.Fatal("the manifest has no number of examples before the quantiles")
	}
	if err := errors.Join(os.WriteFile(manifest, older, 0o644), bundle.Reseal(dir)); err != nil {
		t.Fatal(err)
	}
	predictions, _ := predicted(t, opened(t, dir, Options{}), digits(t, models.DigitsTest))
	whole, _ := predicted(t, opened(t, "testdata/digits", Options{}), digits(t, models.DigitsTest))
	for i, one := range predictions {
		if one.OODPValue != nil || whole[i].OODPValue == nil {
			t.Fatalf("%s: p-value %v, and %v with the number", one.Input, one.OODPValue, whole[i].OODPValue)
		}
		if one.OODPercentile == nil || *one.OODPercentile != *whole[i].OODPercentile {
			t.Fatalf("%s: another percentile", one.Input)
		}
	}
}

//go:embed testdata/digits
var embedded embed.FS

func TestAnEmbeddedBundleNeedsNoFiles(t *testing.T) {
	t.Parallel()
	sub, err := fs.Sub(embedded, "testdata/digits")
	if err != nil {
		t.Fatal(err)
	}
	p, err := OpenFS(t.Context(), sub, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	predictions, _ := predicted(t, p, digits(t, models.DigitsTest))
	if len(predictions) != 297 {
		t.Errorf("%d predictions", len(predictions))
	}

	_, err = OpenFS(t.Context(), embedded, Options{})
	says(t, err, bundle.ManifestName, "not a bundle")
	_, err = OpenFS(t.Context(), fstest.MapFS{}, Options{})
	says(t, err, bundle.ManifestName, "not a bundle")
	_, err = Open(t.Context(), filepath.Join(t.TempDir(), "none"), Options{})
	says(t, err, "none")
}
