// Package trained runs networks over data sets that contain their training data. The training examples give the
// curvature; the others, the pool, are for tuning and testing.
package trained

import (
	"context"
	"errors"
	"iter"
	"path/filepath"
	"slices"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/featurize"
	"github.com/mfgs/mfgs/featurize/dataset"
	"github.com/mfgs/mfgs/featurize/preprocess"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/head"
)

// A Network is a model with its data.
type Network struct {
	Name, Model string
	Preprocess  *preprocess.Spec
	Files       []string                      // SPECs
	Training    func(file, position int) bool // whether it was trained on an example
	// Classes are the only ones of the last layer that are kept, with their examples; nil for all.
	Classes []int
}

// MNIST returns the files of MNIST below the folder data, and what the networks of models were trained on.
func MNIST(data string) (files []string, training func(file, position int) bool) {
	dir := filepath.Join(data, "mnist")
	files = []string{filepath.Join(dir, "train-images-idx3-ubyte.gz"), filepath.Join(dir, "t10k-images-idx3-ubyte.gz")}
	return files, func(file, position int) bool { return file == 0 && position < 55_000 }
}

// CIFAR10 returns the folders of CIFAR-10's images, and what models/cifar10-resnet20 was trained on: of each
// class, all but the last 500 of 5,000 training images.
func CIFAR10(dir string) (files []string, training func(file, position int) bool) {
	files = []string{filepath.Join(dir, "train"), filepath.Join(dir, "test")}
	return files, func(file, position int) bool { return file == 0 && position%5000 < 4500 }
}

// ErrNoCIFAR is returned by tools whose flag --cifar is missing.
var ErrNoCIFAR = errors.New("--cifar is missing: want the folder with CIFAR-10's folders train and test")

// An Open network has run over its data.
type Open struct {
	Head      layer.Head
	Curvature *calibrate.Curvature // of the training examples, with Kronecker factors
	Pool      *rows.Batch          // the other examples

	network *featurize.Network
	classes int // of the network
}

// Close ends the network's session.
func (o *Open) Close() { o.network.Close() }

// Open runs the network over its data, with ONNX Runtime loaded. The curvature has Kronecker factors, whose damping
// is cheap to change.
func (n Network) Open(ctx context.Context) (o *Open, err error) {
	model, err := onnx.Open(n.Model)
	if err != nil {
		return nil, err
	}
	found, err := head.Find(model, head.Options{})
	if err != nil {
		return nil, err
	}
	o = &Open{
		Head: found.Head, classes: found.Classes(),
		Pool: &rows.Batch{},
	}
	if n.Classes != nil {
		o.Head.Logits = len(n.Classes)
	}
	o.network, err = featurize.New(featurize.Config{Model: model, Head: found, Preprocess: n.Preprocess})
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			o.Close()
		}
	}()
	product, err := featurize.NewProduct(0)
	if err != nil {
		return nil, err
	}
	sums, err := calibrate.NewSums(
		calibrate.CurvatureConfig{Head: o.Head, Structure: calibrate.Kronecker, Product: product})
	if err != nil {
		return nil, err
	}
	for block, err := range rows.InBlocks(o.training(ctx, n)) {
		if err == nil {
			err = sums.AddBlock(block)
		}
		if err != nil {
			return nil, err
		}
	}
	o.Curvature, err = sums.Finish()
	return o, err
}

// training yields the training examples one by one, and adds the others to the pool.
func (o *Open) training(ctx context.Context, n Network) iter.Seq2[*rows.Batch, error] {
	return func(yield func(*rows.Batch, error) bool) {
		at := 0
		for i, file := range n.Files {
			for one, err := range o.Examples(ctx, file) {
				if err != nil {
					yield(nil, err)
					return
				}
				training := n.Training(i, one.Positions[0])
				if n.Classes != nil && !restrict(one, n.Classes) {
					continue
				}
				if !training {
					o.Pool.Append(one)
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
}

// restrict keeps the logits of some classes, and reports whether the example's label is one of them.
func restrict(one *rows.Batch, classes []int) bool {
	label := slices.Index(classes, one.Labels[0])
	kept := make([]float32, len(classes))
	for i, c := range classes {
		kept[i] = one.Logits[c]
	}
	one.Logits, one.Labels = kept, []int{label}
	return label >= 0
}

// Examples runs the network over a file and yields its examples one by one.
func (o *Open) Examples(ctx context.Context, file string) iter.Seq2[*rows.Batch, error] {
	return func(yield func(*rows.Batch, error) bool) {
		ds, err := dataset.Open(ctx, file, dataset.Options{Classes: o.classes})
		if err != nil {
			yield(nil, err)
			return
		}
		defer ds.Close()
		for b, err := range o.network.Rows(ctx, ds, featurize.StreamConfig{}) {
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
