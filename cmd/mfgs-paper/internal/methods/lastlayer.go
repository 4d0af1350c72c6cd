package methods

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/internal/parallel"
)

// FitOptions says how last layers are fitted on features that are ready: by Adam
// (Kingma and Ba 2015) on minibatches, in a new order each epoch, with a rate that falls
// to zero along half a cosine.
//
// The zero value fits features behind a ReLU, of a network that knows its training
// examples by heart as of one with 1,000 classes that does not.
type FitOptions struct {
	Product parallel.Product // nil: Go's own
	// Epochs over the examples. Zero: 10, 30 for variational inference, and of few
	// examples as many as make leastSteps steps.
	Epochs int
	Batch  int // examples of a step; zero: 500, or a hundredth of all where that is less, yet 32
	// Rate is the first, of the weights in units of 1/r, r the root mean square of the
	// features, so that it does not depend on the scale of these. Zero: 0.01.
	Rate float64
	// Start is the standard deviation of the logits of a random start, of features of length √d r.
	// What training examples leave open stays what it was: more makes members differ more, far from
	// the training examples most. Zero: 1/√3, of weights uniform up to 1/(r√d) as PyTorch starts
	// dense layers; 1 for one evidential layer. On digits of models/digits-mlp held out from
	// training, an ensemble from 6 told what is out of distribution better, at a larger NLL.
	Start float64
	Seed  uint64
	// Progress, where set, is told how many of the epochs are done.
	Progress func(done, total int)
}

// leastSteps is how many a fit takes at least: with a rate of 0.01 it has gone no way
// with fewer. Ten epochs of 50,000 examples have as many.
const leastSteps = 1000

// resolve replaces what is zero, for n examples.
func (o FitOptions) resolve(n int, defaults FitOptions) (FitOptions, error) {
	switch {
	case o.Epochs < 0 || o.Batch < 0:
		return o, fmt.Errorf("%d epochs with batches of %d, want positive numbers, or zero for the defaults", o.Epochs, o.Batch)
	case !(o.Rate >= 0) || math.IsInf(o.Rate, 1):
		return o, fmt.Errorf("learning rate %v, want a positive number, or zero for the default", o.Rate)
	case !(o.Start >= 0) || math.IsInf(o.Start, 1):
		return o, fmt.Errorf("start with logits of %v, want a positive number, or zero for the default", o.Start)
	}
	if o.Start == 0 {
		o.Start = defaults.Start
	}
	if o.Batch == 0 {
		o.Batch = max(32, min(500, n/100))
	}
	o.Batch = min(o.Batch, n)
	if o.Epochs == 0 {
		o.Epochs = max(defaults.Epochs, (leastSteps*o.Batch+n-1)/n)
	}
	if o.Rate == 0 {
		o.Rate = 0.01
	}
	if o.Progress == nil {
		o.Progress = func(int, int) {}
	}
	o.Product = parallel.OrGo(o.Product)
	return o, nil
}

// Generators of one seed that must not be alike.
const (
	streamStart = iota << 32
	streamOrder
	streamNoise
	streamParts
)

// trainer goes through training examples in minibatches.
type trainer struct {
	FitOptions
	head  layer.Head
	train *rows.Batch
	n     int
	unit  []float64 // [D] unit of the weights in each row of W: 1/r, of the bias 1
}

func newTrainer(train *rows.Batch, h layer.Head, o, defaults FitOptions) (*trainer, error) {
	if err := h.Validate(); err != nil {
		return nil, err
	}
	if err := checkSoftmax(h); err != nil {
		return nil, err
	}
	if err := calibrate.CheckBatch(h, train, true); err != nil {
		return nil, fmt.Errorf("training data: %w", err)
	}
	t := &trainer{head: h, train: train, n: train.N}
	var err error
	if t.FitOptions, err = o.resolve(t.n, defaults); err != nil {
		return nil, err
	}
	var squares float64
	for _, v := range train.Features {
		squares += float64(v) * float64(v)
	}
	t.unit = make([]float64, h.Dim())
	for j := range t.unit {
		t.unit[j] = 1
		if j < h.Features && squares > 0 {
			t.unit[j] = 1 / math.Sqrt(squares/float64(len(train.Features)))
		}
	}
	return t, nil
}

// start draws weights of one layer, [K,D], uniformly, for logits of standard deviation
// Start and none from the bias.
func (t *trainer) start(layer int) []float64 {
	rng := rand.New(rand.NewPCG(t.Seed, streamStart+uint64(layer)))
	w := make([]float64, t.head.Logits*t.head.Dim())
	bound := t.Start * math.Sqrt(3/float64(t.head.Features))
	for i := range w {
		if j := i % t.head.Dim(); j < t.head.Features {
			w[i] = (2*rng.Float64() - 1) * bound * t.unit[j]
		}
	}
	return w
}

// batch is what one step of descent sees.
type batch struct {
	examples []int     // their numbers
	x        []float64 // augmented features, [len(examples),D]
	done     float64   // epochs before this step, with the part of this one
	rate     float64   // that of this step
}

// sweep calls step for one minibatch after another. Orders of other streams differ.
func (t *trainer) sweep(ctx context.Context, stream uint64, progress func(epochs int),
	step func(b *batch) error) error {
	rng := rand.New(rand.NewPCG(t.Seed, streamOrder+stream))
	order := make([]int, t.n)
	for i := range order {
		order[i] = i
	}
	d := t.head.Dim()
	batches := (t.n + t.Batch - 1) / t.Batch // as equal as can be
	b := &batch{}
	x := make([]float64, t.Batch*d)
	for epoch := range t.Epochs {
		rng.Shuffle(t.n, func(i, j int) { order[i], order[j] = order[j], order[i] })
		for i := range batches {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			b.examples = order[i*t.n/batches : (i+1)*t.n/batches]
			b.x = x[:len(b.examples)*d]
			parallel.For(len(b.examples), func(first, last int) {
				for r := first; r < last; r++ {
					augment(b.x[r*d:(r+1)*d], t.head, t.train.Features, b.examples[r])
				}
			})
			b.done = float64(epoch) + float64(i)/float64(batches)
			b.rate = t.Rate * 0.5 * (1 + math.Cos(math.Pi*b.done/float64(t.Epochs)))
			if err := step(b); err != nil {
				return err
			}
		}
		progress(epoch + 1)
	}
	return nil
}

// descend fits w [D,C], the C outputs of one layer or more: loss turns the outputs of an example
// [C] into the derivatives of its loss, done epochs after the start. It is called concurrently.
func (t *trainer) descend(ctx context.Context, w []float64, stream uint64, progress func(epochs int),
	loss func(z []float64, example int, done float64)) error {
	d := t.head.Dim()
	columns := len(w) / d
	z := make([]float64, t.Batch*columns)
	gradient := make([]float64, len(w))
	rule := newAdam(t.unit, columns)
	return t.sweep(ctx, stream, progress, func(b *batch) error {
		rows := len(b.examples)
		z := z[:rows*columns]
		if err := t.Product.Multiply(z, b.x, w, rows, d, columns); err != nil {
			return err
		}
		parallel.For(rows, func(first, last int) {
			for r := first; r < last; r++ {
				loss(z[r*columns:(r+1)*columns], b.examples[r], b.done)
			}
		})
		clear(gradient)
		if err := t.Product.AddTransposedProduct(gradient, b.x, z, rows, d, columns); err != nil {
			return err
		}
		rule.step(w, gradient, 1/float64(rows), b.rate)
		return nil
	})
}

// adam is the state of Adam for weights [D,C] whose rows have units of their own.
type adam struct {
	unit    []float64
	columns int
	mean    []float64 // of gradients
	square  []float64 // of their squares
	steps   int
}

func newAdam(unit []float64, columns int) *adam {
	n := len(unit) * columns
	return &adam{unit: unit, columns: columns, mean: make([]float64, n), square: make([]float64, n)}
}

// step moves w along the gradient, which is to be scaled.
func (a *adam) step(w, gradient []float64, scale, rate float64) {
	const beta1, beta2, tiny = 0.9, 0.999, 1e-8 // those of the paper and of every library
	a.steps++
	// The corrections of both means for their start at zero, in one.
	correct1 := 1 - math.Pow(beta1, float64(a.steps))
	correct2 := 1 - math.Pow(beta2, float64(a.steps))
	parallel.For(len(a.unit), func(first, last int) {
		for row := first; row < last; row++ {
			at := row * a.columns
			move := rate * a.unit[row] / correct1
			for i := at; i < at+a.columns; i++ {
				g := scale * gradient[i]
				a.mean[i] += (1 - beta1) * (g - a.mean[i])
				a.square[i] += (1 - beta2) * (g*g - a.square[i])
				w[i] -= move * a.mean[i] / (math.Sqrt(a.square[i]/correct2) + tiny)
			}
		}
	})
}

// crossEntropy turns logits into the derivatives of -log p_y.
func crossEntropy(z []float64, y int) {
	top := z[0]
	for _, v := range z[1:] {
		top = max(top, v)
	}
	norm := 1 / exponentials(z, top)
	for c := range z {
		z[c] *= norm
	}
	z[y]--
}
