// Decisions counts how often the promises of package conformal are kept on real data, split at random a
// thousand times, and what is left of them when the data shift. It writes the tables of
// docs/decisions.md to standard output.
//
//	go run -C testdata ./decisions --data ../../shared/data --cifar DIR > tables.md
//
// DIR is the unpacked data/cifar10/cifar10.tar.gz, with the folders train and test. About
// a quarter of an hour on two cores, most of it for running the networks.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"iter"
	"log"
	"math"
	"os"
	"path/filepath"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/featurize"
	"github.com/mfgs/mfgs/featurize/dataset"
	"github.com/mfgs/mfgs/featurize/ort"
	"github.com/mfgs/mfgs/internal/install"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/head"
)

func main() {
	log.SetFlags(0)
	data := flag.String("data", "../../shared/data", "`DIR` with mnist")
	cifar := flag.String("cifar", "", "`DIR` with train/CLASS/*.jpg and test/CLASS/*.jpg of CIFAR-10")
	splits := flag.Int("splits", 1000, "random splits of each pool")
	flag.Parse()
	if err := run(context.Background(), *data, *cifar, *splits); err != nil {
		log.Fatal("decisions: ", err)
	}
}

// A network is calibrated with its training data. What it was not trained on is the pool that is split.
type network struct {
	name, model string
	files       []string
	training    func(file, position int) bool // else of the pool
	hard        []int                         // the two classes that it errs most about
	targets     []float64                     // errors among the accepted; under shift the last
}

func networks(data, cifar string) []network {
	mnist := []string{filepath.Join(data, "mnist", "train-images-idx3-ubyte.gz"), filepath.Join(data, "mnist", "t10k-images-idx3-ubyte.gz")}
	return []network{
		{"MNIST", filepath.Join("..", "models", "mnist-mlp", "model.onnx"), mnist,
			func(file, position int) bool { return file == 0 && position < 55_000 }, []int{8, 9}, []float64{0.005, 0.01}},
		// By class, the last 500 of 5,000 training images were held out.
		{"CIFAR-10", filepath.Join("..", "models", "cifar10-resnet20", "model.onnx"), []string{filepath.Join(cifar, "train"), filepath.Join(cifar, "test")},
			func(file, position int) bool { return file == 0 && position%5000 < 4500 }, []int{3, 5}, []float64{0.01, 0.05}},
	}
}

// A pool is what a network gives of examples: logits, labels and the studentized margin, larger for what is
// stranger. Of the shifted pools the i-th example is that of the pool itself, changed.
type pool struct {
	name    string
	n, k    int
	logits  []float32
	labels  []int
	strange []float64
}

func run(ctx context.Context, data, cifar string, splits int) error {
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
	var all []*results
	for _, n := range networks(data, cifar) {
		log.Print(n.name)
		pools, err := n.open(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", n.name, err)
		}
		log.Print("splitting")
		r, err := measure(n, pools, splits)
		if err != nil {
			return fmt.Errorf("%s: %w", n.name, err)
		}
		all = append(all, r)
	}
	return tables(os.Stdout, all)
}

// open runs the network over its data: the pool, and the pool under each shift.
func (n network) open(ctx context.Context) ([]*pool, error) {
	model, err := onnx.Open(n.model)
	if err != nil {
		return nil, err
	}
	found, err := head.Find(model, head.Options{})
	if err != nil {
		return nil, err
	}
	e, err := featurize.New(featurize.Config{Model: model, Head: found})
	if err != nil {
		return nil, err
	}
	defer e.Close()
	h := found.Head
	product, err := featurize.NewProduct(0)
	if err != nil {
		return nil, err
	}
	sums, err := calibrate.NewSums(calibrate.CurvatureConfig{Head: h, Structure: calibrate.Kronecker, Product: product})
	if err != nil {
		return nil, err
	}
	batches := map[string]*rows.Batch{"": {}}
	training := func(yield func(*rows.Batch, error) bool) {
		at := 0
		for i, file := range n.files {
			for one, err := range examples(ctx, e, file, h.Classes()) {
				if err != nil {
					yield(nil, err)
					return
				}
				if !n.training(i, one.Positions[0]) {
					batches[""].Append(one)
					continue
				}
				one.Positions = []int{at}
				at++
				if !yield(one, nil) {
					return
				}
			}
		}
	}
	for block, err := range rows.InBlocks(training) {
		if err == nil {
			err = sums.AddBlock(block)
		}
		if err != nil {
			return nil, err
		}
	}
	curvature, err := sums.Finish()
	if err != nil {
		return nil, err
	}
	// The leverage is that of the training data: the temperatures, which are of the pool, are not used.
	f, err := calibrate.Fit(ctx, curvature, batches[""].Slice(0, 500), nil, calibrate.FitOptions{})
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "decisions")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	names := []string{""}
	for _, s := range shifts {
		file, err := s.write(ctx, dir, n)
		if err != nil {
			return nil, err
		}
		names = append(names, s.name)
		batches[s.name] = &rows.Batch{}
		for one, err := range examples(ctx, e, file, h.Classes()) {
			if err != nil {
				return nil, err
			}
			batches[s.name].Append(one)
		}
	}
	var pools []*pool
	for _, name := range names {
		b := batches[name]
		p := &pool{name: name, n: b.N, k: h.Logits, logits: b.Logits, labels: b.Labels, strange: make([]float64, b.N)}
		f.Posterior.Leverages(p.strange, b.Features, b.N)
		for i, leverage := range p.strange {
			p.strange[i] = -margin(p.of(i)) / math.Sqrt(leverage)
		}
		pools = append(pools, p)
	}
	return pools, nil
}

// examples runs a network over a file, one example after the other.
func examples(ctx context.Context, e *featurize.Network, file string, classes int) iter.Seq2[*rows.Batch, error] {
	return func(yield func(*rows.Batch, error) bool) {
		ds, err := dataset.Open(ctx, file, dataset.Options{Classes: classes})
		if err != nil {
			yield(nil, err)
			return
		}
		defer ds.Close()
		for b, err := range e.Rows(ctx, ds, featurize.StreamConfig{}) {
			if err != nil {
				yield(nil, err)
				return
			}
			for j := range b.N {
				if !yield(b.Slice(j, j+1), nil) {
					return
				}
			}
		}
	}
}

func (p *pool) of(i int) []float32 { return p.logits[i*p.k : (i+1)*p.k] }

// margin is max a - mean a.
func margin(a []float32) float64 {
	most, sum := math.Inf(-1), 0.0
	for _, v := range a {
		most = max(most, float64(v))
		sum += float64(v)
	}
	return most - sum/float64(len(a))
}
