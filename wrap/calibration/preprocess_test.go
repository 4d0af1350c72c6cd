package calibration_test

import (
	"bytes"
	"fmt"
	goimage "image"
	"image/png"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/featurize/preprocess"
	"github.com/mfgs/mfgs/internal/approx"
	. "github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/bench"
	"github.com/mfgs/mfgs/wrap/bundle"
	. "github.com/mfgs/mfgs/wrap/calibration"
)

// bgr is what the arrays of bgrPhotos were made by.
var bgr = preprocess.Spec{Color: preprocess.BGR, Scale: 1 / 127.5, Mean: []float64{1}}

// bgrPhotos returns random colour images as PNG files, and as ready arrays [n,3,8,8] in
// BGR from -1 to 1.
func bgrPhotos(t *testing.T, n int) (images []goimage.Image, folder string, arrays []float32) {
	t.Helper()
	folder = t.TempDir()
	rng := rand.New(rand.NewPCG(11, 3))
	arrays = make([]float32, n*3*64)
	for i := range n {
		img := goimage.NewNRGBA(goimage.Rect(0, 0, 8, 8))
		for p := range 64 {
			for c := range 3 {
				v := byte(rng.Uint32())
				img.Pix[p*4+c] = v
				arrays[(i*3+2-c)*64+p] = float32(v)/127.5 - 1
			}
			img.Pix[p*4+3] = 255
		}
		var b bytes.Buffer
		if err := png.Encode(&b, img); err != nil {
			t.Fatal(err)
		}
		write(t, folder, fmt.Sprintf("%03d.png", i), b.Bytes())
		images = append(images, img)
	}
	return images, folder, arrays
}

// Ready arrays do not say how images become them. To take them for RGB from 0 to 1, as
// images get by default, gives other classes in silence.
func TestArraysLeavePreprocessingUnknown(t *testing.T) {
	t.Parallel()
	const n, model = 60, "../../featurize/testdata/conv.onnx"
	images, folder, x := bgrPhotos(t, n)
	ready := Tensor{Shape: []int64{n, 3, 8, 8}, Data: x}
	dir := t.TempDir()
	data := write(t, dir, "data.npz",
		npz(t, map[string]array{"image": arrayOf(x, n, 3, 8, 8), "labels": arrayOf(labelsOf(t, model, n, ready), n)}))
	c := quick(Config{Model: model, Train: data, Val: data, Out: filepath.Join(dir, "b"), Force: true})
	manifest := func() *preprocess.Spec {
		t.Helper()
		b, err := bundle.Open(c.Out)
		if err != nil {
			t.Fatal(err)
		}
		return b.Manifest.Preprocess
	}
	agree := func(p *Predictor) {
		t.Helper()
		want, err := p.Predict(t.Context(), []Tensor{ready})
		if err != nil {
			t.Fatal(err)
		}
		got, err := p.PredictImages(t.Context(), images...)
		if err != nil {
			t.Fatal(err)
		}
		for i := range want {
			if got[i].Class != want[i].Class || !approx.Equal(got[i].Confidence, want[i].Confidence, 1e-5) {
				t.Fatalf("image %d: class %d at %v, as an array %d at %v", i, got[i].Class, got[i].Confidence, want[i].Class, want[i].Confidence)
			}
		}
	}

	r := mustCalibrate(t, c)
	if r.Preprocess == nil || r.Preprocess.Source != bundle.Unknown || r.Preprocess.Spec != nil {
		t.Errorf("preprocessing %+v, want it unknown", r.Preprocess)
	}
	if got := manifest(); got != nil {
		t.Errorf("bundle.yaml says that preprocessing is %+v", got)
	}
	p := opened(t, c.Out, Options{})
	_, err := p.PredictImages(t.Context(), images[0])
	says(t, err, "image 0: 8×8 colour image", "the preprocessing of images for the model is not known", "give Preprocess")
	says(t, predictError(t.Context(), p, folder), "000.png", "give Preprocess")
	_, err = bench.Evaluate(t.Context(),
		bench.Config{Bundle: c.Out, Test: data, OOD: []bench.NamedSpec{{Name: "photos", Spec: folder}}})
	says(t, err, "photos: ", "000.png", "give Preprocess")
	if _, err := bench.Evaluate(t.Context(),
		bench.Config{Bundle: c.Out, Test: data, OOD: []bench.NamedSpec{{Name: "photos", Spec: folder}},
			Preprocess: &bgr}); err != nil {
		t.Error(err)
	}

	agree(opened(t, c.Out, Options{Preprocess: &bgr}))
	c.Preprocess = &bgr
	if r := mustCalibrate(t, c); r.Preprocess.Source != bundle.Given || r.Preprocess.Spec == nil {
		t.Errorf("preprocessing %+v, want what was given", r.Preprocess)
	}
	if got := manifest(); got == nil || got.Color != preprocess.BGR {
		t.Errorf("bundle.yaml says %+v of preprocessing, want what was given", got)
	}
	agree(opened(t, c.Out, Options{}))
}

// Images beside arrays are refused before any work is done.
func TestImagesBesideArraysNeedPreprocessing(t *testing.T) {
	t.Parallel()
	const n, model = 40, "../../featurize/testdata/conv.onnx"
	_, folder, x := bgrPhotos(t, n)
	dir := t.TempDir()
	data := write(t, dir, "data.npz", npz(t, map[string]array{"image": arrayOf(x, n, 3, 8, 8), "labels": arrayOf(make([]int64, n), n)}))
	for name, tc := range map[string]struct {
		change func(*Config)
		says   []string
	}{
		"train": {func(c *Config) { c.Train = folder }, []string{"train: " + folder + " has images", "val: " + data + " preprocessed arrays"}},
		"ood":   {func(c *Config) { c.OOD = folder }, []string{"ood: " + folder + " has images", "train: " + data + " preprocessed arrays"}},
	} {
		c := quick(Config{Model: model, Train: data, Val: data, Out: filepath.Join(dir, "b"), Force: true})
		c.Progress = func(p Progress) {
			if p.Stage != "opening" {
				t.Errorf("%s: %s began", name, p.Stage)
			}
		}
		tc.change(&c)
		_, err := Calibrate(t.Context(), c)
		says(t, err, append(tc.says, "give Preprocess")...)
		c.Preprocess, c.Progress = &bgr, nil
		mustCalibrate(t, c)
	}
}

// The assumed preprocessing of images is reported, and recorded.
func TestTheDefaultPreprocessingIsRecorded(t *testing.T) {
	t.Parallel()
	dir, r := calibrated(t, calibrate.Kronecker)
	if r.Preprocess == nil || r.Preprocess.Source != bundle.Assumed ||
		!approx.Equal(r.Preprocess.Spec.Scale, 1./255, 1e-12) {
		t.Errorf("preprocessing %+v, want x/255, assumed", r.Preprocess)
	}
	if !strings.Contains(string(read(t, filepath.Join(dir, bundle.ManifestName))), "\npreprocess:\n") {
		t.Error("bundle.yaml says nothing of preprocessing")
	}
	// Ready arrays stay as they are.
	x := digitTensor(t, 0, 1)
	p := opened(t, dir, Options{})
	file := write(t, t.TempDir(), "x.npz", npz(t, map[string]array{"image": arrayOf(x.Data, 1, 1, 8, 8)}))
	want, err := p.Predict(t.Context(), []Tensor{x})
	if err != nil {
		t.Fatal(err)
	}
	predictions, _ := predicted(t, p, file)
	for _, got := range predictions {
		if !approx.Equal(got.Confidence, want[0].Confidence, 1e-6) {
			t.Errorf("confidence %v, want %v", got.Confidence, want[0].Confidence)
		}
	}
}
