// Choice measures the rule by which calibration selects its probabilities: the network's own, temperature scaling's or
// mf0's. It writes docs/evidence/choice.md.
//
//	go run -C testdata -buildvcs=true ./choice -cifar DIR
//
// DIR is the unpacked data/cifar10/cifar10.tar.gz, with the folders train and test. It takes
// half an hour on two cores.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"math"
	"math/rand/v2"
	"path/filepath"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/featurize/preprocess"
	"github.com/mfgs/mfgs/testdata/internal/trained"
	"github.com/mfgs/mfgs/wrap"
)

var sizes = []int{50, 100, 200, 400, 1000, 5000}

// minTest is the minimal number of examples to test a draw on.
const minTest = 300

func main() {
	log.SetFlags(0)
	data := flag.String("data", "../../shared/data", "`DIR` with mnist and models")
	cifar := flag.String("cifar", "", "`DIR` with train/CLASS/*.jpg and test/CLASS/*.jpg of CIFAR-10")
	draws := flag.Int("draws", 50, "validation sets of each size")
	out := flag.String("out", "../docs/evidence/choice.md", "the `FILE` to write")
	flag.Parse()
	if err := run(context.Background(), *data, *cifar, *out, *draws); err != nil {
		log.Fatal("choice: ", err)
	}
}

func networks(data, cifar string) []trained.Network {
	mnist, mnistTraining := trained.MNIST(data)
	images, cifarTraining := trained.CIFAR10(cifar)
	model := func(parts ...string) string { return filepath.Join("..", "models", filepath.Join(parts...)) }
	shift := &preprocess.Spec{
		Color: preprocess.RGB, Scale: 1. / 255, Mean: []float64{.485, .456, .406}, Std: []float64{.229, .224, .225},
	}
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
			Name: "a ResNet-20 under shift", Model: filepath.Join(data, "models", "cifar10_resnet20.onnx"),
			Preprocess: shift, Files: images, Training: func(file, _ int) bool { return file == 0 },
		},
	}
}

// A loss is the excess NLL of each choice on test examples over the best of the three methods, all fitted on one
// draw of validation data.
type loss struct {
	network string
	chosen  calibrate.Method
	of      map[string]float64 // by method, and "rule"
}

func run(ctx context.Context, data, cifar, out string, draws int) error {
	if cifar == "" {
		return trained.ErrNoCIFAR
	}
	if err := (&wrap.Runtime{}).Load(ctx); err != nil {
		return err
	}
	losses := map[int][]loss{}
	for _, n := range networks(data, cifar) {
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
				l, err := measure(ctx, curvature, pool.Pick(order[:size]), pool.Pick(order[size:]))
				if err != nil {
					return fmt.Errorf("%s: draw %d of %d: %w", n.Name, draw, size, err)
				}
				l.network = n.Name
				losses[size] = append(losses[size], l)
			}
		}
	}
	return writePage(out, networks(data, cifar), losses)
}

// measure fits on validation examples and measures on test examples.
func measure(ctx context.Context, curvature *calibrate.Curvature, val, test *rows.Batch) (loss, error) {
	f, err := calibrate.Fit(ctx, curvature, val, nil, calibrate.FitOptions{})
	if err != nil {
		return loss{}, err
	}
	h := curvature.Head()
	l := loss{chosen: f.Method, of: map[string]float64{}}
	least := math.Inf(1)
	for _, m := range []calibrate.Method{calibrate.MLE, calibrate.TS, calibrate.MF0} {
		c := f.Calibration
		c.Method = m
		logp := c.Predict(test.Features, test.Logits, test.N).LogP
		var nll float64
		for i, y := range test.Labels {
			nll -= logp[i*h.Probabilities()+y] / float64(len(test.Labels))
		}
		l.of[string(m)], least = nll, math.Min(least, nll)
	}
	l.of["rule"] = l.of[string(f.Method)]
	for m := range l.of {
		l.of[m] -= least
	}
	return l, nil
}
