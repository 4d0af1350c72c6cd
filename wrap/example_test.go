package wrap_test

import (
	"context"
	"embed"
	"fmt"
	"image"
	"image/color"
	"io/fs"
	"log"
	"os"
	"path/filepath"

	"github.com/mfgs/mfgs/models"
	"github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/bench"
	"github.com/mfgs/mfgs/wrap/calibration"
	"github.com/mfgs/mfgs/wrap/export"
)

// The bundle was made in the folder models/digits-mlp by
//
//	mfgs calibrate --model model.onnx --structure kron --out ../../wrap/testdata/digits \
//		--train 'digits-images-idx3-ubyte.gz[0:1200]' --val 'digits-images-idx3-ubyte.gz[1200:1500]' \
//		--ood 'drawings-images-idx3-ubyte.gz[0:300]'
//
//go:embed testdata/digits
var bundles embed.FS

// A program may embed a bundle, including the network.
func ExampleOpenFS() {
	digits, err := fs.Sub(bundles, "testdata/digits")
	if err != nil {
		log.Fatal(err)
	}
	p, err := wrap.OpenFS(context.Background(), digits, wrap.Options{
		Runtime: wrap.Runtime{Install: true}, // ONNX Runtime, on first use
	})
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	predictions, err := p.PredictImages(context.Background(), three(), frame())
	if err != nil {
		log.Fatal(err)
	}
	for _, one := range predictions {
		fmt.Printf("class %d, confidence %.1f\n", one.Class, one.Confidence)
	}
	// Output:
	// class 3, confidence 1.0
	// class 5, confidence 0.9
}

// Open a bundle once, and use it for all predictions. A gradient and a frame are not digits: their confidence does
// not show it, their percentile does.
func ExampleOpen() {
	bundle, ctx := "testdata/digits", context.Background()
	images := []image.Image{three(), gradient(), frame()}
	err := func() error {
		p, err := wrap.Open(ctx, bundle, wrap.Options{})
		if err != nil {
			return err
		}
		defer p.Close()
		predictions, err := p.PredictImages(ctx, images...)
		if err != nil {
			return err
		}
		for _, one := range predictions {
			ood := one.OODPercentile != nil && *one.OODPercentile > 0.99 // higher than 99 % of the validation data
			abstain := ood || one.Abstain != nil && *one.Abstain         // by the bundle's thresholds
			fmt.Printf("class %d, confidence %.1f, abstain: %t\n", one.Class, one.Confidence, abstain)
		}
		return nil
	}()
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// class 3, confidence 1.0, abstain: false
	// class 2, confidence 0.8, abstain: true
	// class 5, confidence 0.9, abstain: true
}

func three() image.Image {
	return draw("  +##+  ", "  #++#  ", "    +#  ", "   +#+  ", "    +#+ ", "     +# ", "  #+ +# ", "  +##+  ")
}

func frame() image.Image {
	return draw("########", "#      #", "#      #", "#      #", "#      #", "#      #", "#      #", "########")
}

// gradient is the image of docs/tutorials/go.md that shows no digit.
func gradient() image.Image {
	img := image.NewGray(image.Rect(0, 0, 8, 8))
	for i := range img.Pix {
		img.Pix[i] = uint8(4 * i)
	}
	return img
}

// draw makes an image of lines of text.
func draw(lines ...string) image.Image {
	ink := map[rune]uint8{' ': 0, '+': 127, '#': 255}
	img := image.NewGray(image.Rect(0, 0, 8, 8))
	for y, line := range lines {
		for x, c := range line {
			img.SetGray(x, y, color.Gray{Y: ink[c]})
		}
	}
	return img
}

// An export is one file: the network, with its calibration as further operators.
func Example_export() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	report, err := export.Write(context.Background(), "testdata/digits", export.Options{Out: filepath.Join(dir, "digits.onnx")})
	if err != nil {
		log.Fatal(err)
	}
	for _, in := range report.Inputs {
		fmt.Println("takes", in.Name, in)
	}
	for _, out := range report.Outputs.Infos() {
		fmt.Println("gives", out.Name, out)
	}
	// Output:
	// takes image [N,1,8,8] float32
	// gives probabilities [N,10] float32
	// gives logits [N,10] float32
	// gives logit_variance [N,10] float32
	// gives ood_score [N] float64
	// gives ood_percentile [N] float64
	// gives ood_pvalue [N] float64
	// gives leverage [N] float32
}

// From start to end: calibrate a network, compare methods on test data, and predict.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.CopyFS(dir, models.DigitsMLP()); err != nil {
		log.Fatal(err)
	}
	path := func(name string) string { return filepath.Join(dir, name) }
	runtime := wrap.Runtime{Install: true}

	_, err = calibration.Calibrate(ctx, calibration.Config{
		Model:   path(models.DigitsModel),
		Train:   path(models.DigitsTrain), // the training data
		Val:     path(models.DigitsVal),   // validation data
		OOD:     path(models.OODVal),      // out of distribution; optional
		Out:     path("bundle"),
		Runtime: runtime,
	})
	if err != nil {
		log.Fatal(err)
	}

	evaluation, err := bench.Evaluate(ctx, bench.Config{
		Bundle:  path("bundle"),
		Test:    path(models.DigitsTest),
		OOD:     []bench.NamedSpec{{Name: "drawings", Spec: path(models.OODTest)}},
		Methods: []string{"mle", "mf0"},
		Runtime: runtime,
	})
	if err != nil {
		log.Fatal(err)
	}
	before, after := evaluation.Methods[0], evaluation.Methods[1]
	fmt.Println("likelihood better:", after.InDomain.NLL < before.InDomain.NLL)
	fmt.Println("drawings detected better:", after.OOD[0].AUROC > before.OOD[0].AUROC)

	p, err := wrap.Open(ctx, path("bundle"), wrap.Options{Runtime: runtime})
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()
	fmt.Println("takes", p.Inputs()[0], "for", p.Head().Classes(), "classes")
	right := 0
	for one, err := range p.PredictDataset(ctx, path(models.DigitsTest), nil) {
		if err != nil {
			log.Fatal(err)
		}
		if one.Class == *one.Label {
			right++
		}
	}
	fmt.Println("most are right:", right > 280)
	// Output:
	// likelihood better: true
	// drawings detected better: true
	// takes [N,1,8,8] float32 for 10 classes
	// most are right: true
}
