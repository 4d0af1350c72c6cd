// Choice measures the rule by which calibration selects its probabilities: the network's own, those of temperature or
// matrix scaling, or mf0's. It writes docs/evidence/choice.md.
//
//	go run -C testdata -buildvcs=true ./choice -cifar DIR -imagenet DIR
//
// The first DIR is the unpacked data/cifar10/cifar10.tar.gz, with the folders train and test. The second has the
// folders train and val, with the images of data/imagenet/ilsvrc_train_subset.tar and ilsvrc_val.tar in folders named
// by the number of the class. It takes half an hour on two cores.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/featurize/preprocess"
	"github.com/mfgs/mfgs/testdata/internal/trained"
	"github.com/mfgs/mfgs/wrap"
)

// draws is the number of validation sets of each size.
const draws = 16

var sizes = []int{50, 100, 200, 400, 1000, 5000}

// minTest is the minimal number of examples to test a draw on.
const minTest = 300

func main() {
	log.SetFlags(0)
	data := flag.String("data", "../../shared/data", "`DIR` with mnist and models")
	cifar := flag.String("cifar", "", "`DIR` with train/CLASS/*.jpg and test/CLASS/*.jpg of CIFAR-10")
	imagenet := flag.String("imagenet", "", "`DIR` with train/NUMBER/*.JPEG and val/NUMBER/*.JPEG of ImageNet")
	sets := flag.Int("draws", draws, "validation sets of each size")
	out := flag.String("out", "../docs/evidence/choice.md", "the `FILE` to write")
	flag.Parse()
	if err := run(context.Background(), folders{*data, *cifar, *imagenet}, *out, *sets); err != nil {
		log.Fatal("choice: ", err)
	}
}

// folders have the data.
type folders struct{ data, cifar, imagenet string }

// The second network is measured on cats and dogs alone, whose logits it confuses most.
const cat, dog = 3, 5

func networks(f folders) []trained.Network {
	mnist, mnistTraining := trained.MNIST(f.data)
	images, cifarTraining := trained.CIFAR10(f.cifar)
	inFirst := func(file, _ int) bool { return file == 0 }
	model := func(parts ...string) string { return filepath.Join("..", "models", filepath.Join(parts...)) }
	shift := &preprocess.Spec{
		Color: preprocess.RGB, Scale: 1. / 255, Mean: []float64{.485, .456, .406}, Std: []float64{.229, .224, .225},
	}
	imageNet := &preprocess.Spec{
		Color: preprocess.RGB, Scale: 2. / 255, Mean: []float64{1, 1, 1},
		Resize: &preprocess.Resize{Size: 224}, Crop: &preprocess.Crop{Size: 224},
	}
	shifted := filepath.Join(f.data, "models", "cifar10_resnet20.onnx")
	return []trained.Network{
		{
			Name: "digits-mlp", Model: model("digits-mlp", "model.onnx"),
			Files:    []string{model("digits-mlp", "digits-images-idx3-ubyte.gz")},
			Training: func(_, position int) bool { return position < 1200 },
		},
		{Name: "mnist-mlp, seed 0", Model: model("mnist-mlp", "model.onnx"), Files: mnist, Training: mnistTraining},
		{Name: "mnist-mlp, seed 3", Model: model("mnist-mlp", "seed3.onnx"), Files: mnist, Training: mnistTraining},
		{
			Name: "mnist-methods, dropout", Model: model("mnist-methods", "dropout0.onnx"),
			Files: mnist, Training: mnistTraining,
		},
		{Name: "cifar10-resnet20", Model: model("cifar10-resnet20", "model.onnx"), Files: images, Training: cifarTraining},
		{
			Name: "cifar10-resnet20, cats and dogs", Model: model("cifar10-resnet20", "model.onnx"), Files: images,
			Training: cifarTraining, Classes: []int{cat, dog},
		},
		{Name: "a ResNet-20 under shift", Model: shifted, Preprocess: shift, Files: images, Training: inFirst},
		{
			Name: "a ResNet-20 under shift, cats and dogs", Model: shifted, Preprocess: shift, Files: images,
			Training: inFirst, Classes: []int{cat, dog},
		},
		{
			Name:       "a MobileNet-V2, 20 of 1,000 classes",
			Model:      filepath.Join(f.data, "models", "imagenet_mobilenet_v2_1.0_224.onnx"),
			Preprocess: imageNet,
			Files:      []string{filepath.Join(f.imagenet, "train"), filepath.Join(f.imagenet, "val")},
			Training:   inFirst,
		},
	}
}

// A loss is the excess NLL of each choice on test examples over the best of all methods, all fitted on one draw of
// validation data.
type loss struct {
	network string
	chosen  calibrate.Method
	least   float64            // NLL of the best method
	of      map[string]float64 // by method, and "rule"
}

func run(ctx context.Context, in folders, out string, draws int) error {
	if in.cifar == "" {
		return trained.ErrNoCIFAR
	}
	if in.imagenet == "" {
		return errors.New("--imagenet is missing: want the folder with ImageNet's folders train and val")
	}
	if err := (&wrap.Runtime{}).Load(ctx); err != nil {
		return err
	}
	losses, changes := map[int][]loss{}, []correction{}
	for _, n := range networks(in) {
		log.Print(n.Name)
		opened, err := n.Open(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", n.Name, err)
		}
		opened.Close()
		curvature, pool := opened.Curvature, opened.Pool
		for _, size := range sizes {
			if pool.N-size < minTest {
				continue
			}
			for draw := range draws {
				rng := rand.New(rand.NewPCG(uint64(draw), uint64(size)))
				order := rng.Perm(pool.N)
				l, err := lossOf(ctx, curvature, pool.Pick(order[:size]), pool.Pick(order[size:]))
				if err != nil {
					return fmt.Errorf("%s: draw %d of %d: %w", n.Name, draw, size, err)
				}
				l.network = n.Name
				losses[size] = append(losses[size], l)
			}
		}
		for draw := range draws {
			of, err := correct(ctx, curvature, pool, draw)
			if err != nil {
				return fmt.Errorf("%s: draw %d of class frequencies: %w", n.Name, draw, err)
			}
			for _, x := range of {
				x.network = n.Name
				changes = append(changes, x)
			}
		}
	}
	return writePage(out, networks(in), losses, changes)
}

// lossOf fits on validation examples and measures on test examples.
func lossOf(ctx context.Context, curvature *calibrate.Curvature, val, test *rows.Batch) (loss, error) {
	rule, err := calibrate.Fit(ctx, curvature, val, nil, calibrate.FitOptions{})
	if err != nil {
		return loss{}, err
	}
	without := rule
	if rule.Choice.Matrix {
		if without, err = calibrate.Fit(ctx, curvature, val, nil, calibrate.FitOptions{KeepClass: true}); err != nil {
			return loss{}, err
		}
	}
	matrix := without.Calibration
	posterior := *matrix.Posterior
	fitted, err := calibrate.FitMatrix(ctx, curvature.Head(), val, rule.TS)
	if err != nil {
		return loss{}, err
	}
	posterior.Affine = fitted.Affine
	matrix.Posterior = &posterior
	l := loss{chosen: rule.Method, of: map[string]float64{}}
	for name, c := range map[string]struct {
		calibrate.Calibration
		calibrate.Method
	}{
		"rule": {rule.Calibration, rule.Method}, "mle": {without.Calibration, calibrate.MLE},
		"ts": {without.Calibration, calibrate.TS}, "mf0": {without.Calibration, calibrate.MF0},
		"matrix": {matrix, calibrate.Matrix},
	} {
		l.of[name] = nll(&c.Calibration, c.Method, test)
	}
	l.least = slices.Min(slices.Collect(maps.Values(l.of)))
	for m := range l.of {
		l.of[m] -= l.least
	}
	return l, nil
}

// nll is the mean -log p of the labels.
func nll(c *calibrate.Calibration, m calibrate.Method, test *rows.Batch) float64 {
	h := c.Posterior.Head
	var logp []float64
	if m == calibrate.MF0 {
		of := *c
		of.Method = m
		logp = of.Predict(test.Features, test.Logits, test.N).LogP
	} else {
		logp, _ = c.Plain(m, test.Logits, test.N)
	}
	var sum float64
	for i, y := range test.Labels {
		sum -= logp[i*h.Probabilities()+y] / float64(len(test.Labels))
	}
	return sum
}
