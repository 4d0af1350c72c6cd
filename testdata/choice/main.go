// Choice measures the rule by which calibration chooses whose probabilities are served:
// the network's own, temperature scaling's or mf0's. It writes the tables of
// docs/choice.md to standard output.
//
//	go run -C testdata ./choice --data ../../shared/data --cifar DIR > tables.md
//
// DIR is the unpacked data/cifar10/cifar10.tar.gz, with the folders train and test. About
// half an hour on two cores.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"iter"
	"log"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/featurize"
	"github.com/mfgs/mfgs/featurize/dataset"
	"github.com/mfgs/mfgs/featurize/ort"
	"github.com/mfgs/mfgs/featurize/preprocess"
	"github.com/mfgs/mfgs/internal/install"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/head"
)

var sizes = []int{50, 100, 200, 400, 1000, 5000}

// leastFresh is how many examples must be left to measure a draw on.
const leastFresh = 300

func main() {
	log.SetFlags(0)
	data := flag.String("data", "../../shared/data", "`DIR` with mnist and models")
	cifar := flag.String("cifar", "", "`DIR` with train/CLASS/*.jpg and test/CLASS/*.jpg of CIFAR-10")
	draws := flag.Int("draws", 50, "held-out sets drawn of each size")
	flag.Parse()
	if err := run(context.Background(), *data, *cifar, *draws); err != nil {
		log.Fatal("choice: ", err)
	}
}

// A network is calibrated with examples of its training data, and draws its held-out sets
// from a pool of examples that it was not trained on.
type network struct {
	name, model string
	preprocess  *preprocess.Spec
	files       []string
	training    func(file, position int) bool // else of the pool
}

func networks(data, cifar string) []network {
	mnist := []string{filepath.Join(data, "mnist", "train-images-idx3-ubyte.gz"), filepath.Join(data, "mnist", "t10k-images-idx3-ubyte.gz")}
	mnistTraining := func(file, position int) bool { return file == 0 && position < 55_000 }
	digits := []string{filepath.Join("..", "models", "digits-mlp", "digits-images-idx3-ubyte.gz")}
	images := []string{filepath.Join(cifar, "train"), filepath.Join(cifar, "test")}
	shift := &preprocess.Spec{Color: preprocess.RGB, Scale: 1. / 255, Mean: []float64{.485, .456, .406}, Std: []float64{.229, .224, .225}}
	return []network{
		{"digits-mlp", filepath.Join("..", "models", "digits-mlp", "model.onnx"), nil, digits,
			func(_, position int) bool { return position < 1200 }},
		{"mnist-mlp, seed 0", filepath.Join("..", "models", "mnist-mlp", "model.onnx"), nil, mnist, mnistTraining},
		{"mnist-mlp, seed 3", filepath.Join("..", "models", "mnist-mlp", "seed3.onnx"), nil, mnist, mnistTraining},
		{"mnist-methods, dropout", filepath.Join("..", "models", "mnist-methods", "dropout0.onnx"), nil, mnist, mnistTraining},
		// By class, the last 500 of 5,000 training images were held out.
		{"cifar10-resnet20", filepath.Join("..", "models", "cifar10-resnet20", "model.onnx"), nil, images,
			func(file, position int) bool { return file == 0 && position%5000 < 4500 }},
		{"a ResNet-20 under shift", filepath.Join(data, "models", "cifar10_resnet20.onnx"), shift, images,
			func(file, _ int) bool { return file == 0 }},
	}
}

// A loss is by how much a draw's NLL on fresh examples is above the least of the three,
// each as fitted on that draw, for each choice there is.
type loss struct {
	network string
	chosen  calibrate.Method
	of      map[string]float64 // "rule", or a method
}

func run(ctx context.Context, data, cifar string, draws int) error {
	if cifar == "" {
		return errors.New("--cifar is missing: want the folder with CIFAR-10's folders train and test")
	}
	lib, err := install.Ensure(ctx, install.Config{})
	if err != nil {
		return err
	}
	if err := ort.Load(lib); err != nil {
		return err
	}
	losses := map[int][]loss{}
	for _, n := range networks(data, cifar) {
		log.Print(n.name)
		curvature, pool, err := n.open(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", n.name, err)
		}
		for _, size := range sizes {
			if pool.N-size < leastFresh {
				continue
			}
			for draw := range draws {
				rng := rand.New(rand.NewPCG(uint64(draw), uint64(size)))
				order := rng.Perm(pool.N)
				l, err := measure(ctx, curvature, pool.Pick(order[:size]), pool.Pick(order[size:]))
				if err != nil {
					return fmt.Errorf("%s: draw %d of %d: %w", n.name, draw, size, err)
				}
				l.network = n.name
				losses[size] = append(losses[size], l)
			}
		}
	}
	tables(os.Stdout, networks(data, cifar), losses)
	return nil
}

// open runs the network over its data.
func (n network) open(ctx context.Context) (*calibrate.Curvature, *rows.Batch, error) {
	model, err := onnx.Open(n.model)
	if err != nil {
		return nil, nil, err
	}
	found, err := head.Find(model, head.Options{})
	if err != nil {
		return nil, nil, err
	}
	e, err := featurize.New(featurize.Config{Model: model, Head: found, Preprocess: n.preprocess})
	if err != nil {
		return nil, nil, err
	}
	defer e.Close()
	h := found.Head
	product, err := featurize.NewProduct(0)
	if err != nil {
		return nil, nil, err
	}
	// Kronecker factors, whose damping costs next to nothing to change: there are a
	// thousand fits to each network.
	sums, err := calibrate.NewSums(calibrate.CurvatureConfig{Head: h, Structure: calibrate.Kronecker, Product: product})
	if err != nil {
		return nil, nil, err
	}
	pool := &rows.Batch{}
	training := func(yield func(*rows.Batch, error) bool) {
		at := 0
		for one, err := range n.examples(ctx, e, h.Classes()) {
			if err != nil {
				yield(nil, err)
				return
			}
			if !one.training {
				pool.Append(one.Batch)
				continue
			}
			one.Positions = []int{at}
			at++
			if !yield(one.Batch, nil) {
				return
			}
		}
	}
	for block, err := range rows.InBlocks(training) {
		if err == nil {
			err = sums.AddBlock(block)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	curvature, err := sums.Finish()
	return curvature, pool, err
}

// example is one of a network's examples.
type example struct {
	*rows.Batch
	training bool
}

// examples runs a network over all of its files, one example after the other.
func (n *network) examples(ctx context.Context, e *featurize.Network, classes int) iter.Seq2[example, error] {
	return func(yield func(example, error) bool) {
		for i, file := range n.files {
			ds, err := dataset.Open(ctx, file, dataset.Options{Classes: classes})
			if err != nil {
				yield(example{}, err)
				return
			}
			defer ds.Close()
			for b, err := range e.Rows(ctx, ds, featurize.StreamConfig{}) {
				if err != nil {
					yield(example{}, err)
					return
				}
				for j, position := range b.Positions {
					if !yield(example{b.Slice(j, j+1), n.training(i, position)}, nil) {
						return
					}
				}
			}
		}
	}
}

// measure fits on a held-out set and measures on fresh examples.
func measure(ctx context.Context, curvature *calibrate.Curvature, val, fresh *rows.Batch) (loss, error) {
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
		logp := c.Predict(fresh.Features, fresh.Logits, fresh.N).LogP
		var nll float64
		for i, y := range fresh.Labels {
			nll -= logp[i*h.Probabilities()+y] / float64(len(fresh.Labels))
		}
		l.of[string(m)], least = nll, math.Min(least, nll)
	}
	l.of["rule"] = l.of[string(f.Method)]
	for m := range l.of {
		l.of[m] -= least
	}
	return l, nil
}
