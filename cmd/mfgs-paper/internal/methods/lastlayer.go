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

// FitOptions configures the fit of last layers on features: Adam (Kingma and Ba 2015) on minibatches, reshuffled each
// epoch, with a cosine schedule of the learning rate.
//
// The zero value suits features after a ReLU, both of networks that interpolate their training set and of networks
// with 1,000 classes that do not.
type FitOptions struct {
	Product parallel.Product // nil: Go's own
	// Epochs over the examples. Zero: 10, 30 for variational inference, but at least minSteps steps.
	Epochs int
	Batch  int // examples per step; zero: a hundredth of all, between 32 and 500
	// Rate is the initial learning rate, for weights in units of 1/r, where r is the root mean square of the
	// features. Zero: 0.01.
	Rate float64
	// Start is the standard deviation of the initial logits, for features of length √d r. A larger one makes
	// members more diverse, most of all far from the training examples. Zero: 1/√3, i.e. weights uniform
	// up to 1/(r√d) as PyTorch initialises dense layers; 1 for an evidential layer. On validation digits of
	// models/digits-mlp an ensemble with 6 detected OOD data better, at a larger NLL.
	Start float64
	Seed  uint64
	// Progress, if set, is called with the number of epochs done.
	Progress func(done, total int)
}

// minSteps is the minimal number of steps of a fit: with a rate of 0.01, fewer do not get far. Ten epochs of 50,000
// examples have as many.
const minSteps = 1000

// resolve replaces zeros by defaults for n examples.
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
		o.Epochs = max(defaults.Epochs, (minSteps*o.Batch+n-1)/n)
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

// Independent random streams of one seed.
const (
	streamStart = iota << 32
	streamOrder
	streamNoise
	streamParts
)

// trainer iterates over training examples in minibatches.
type trainer struct {
	FitOptions
	head  layer.Head
	train *rows.Batch
	n     int
	unit  []float64 // [D] unit of the weights in each row of W: 1/r, or 1 for the bias
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

// start draws uniform initial weights of one layer, [K,D], for logits of standard deviation Start. Biases are zero.
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

// batch is a minibatch.
type batch struct {
	examples []int     // indices
	x        []float64 // augmented features, [len(examples),D]
	done     float64   // epochs before this step, fractional
	rate     float64   // learning rate
}

// sweep calls step for each minibatch. The order of examples depends on the stream.
func (t *trainer) sweep(ctx context.Context, stream uint64, progress func(epochs int),
	step func(b *batch) error) error {
	rng := rand.New(rand.NewPCG(t.Seed, streamOrder+stream))
	order := make([]int, t.n)
	for i := range order {
		order[i] = i
	}
	d := t.head.Dim()
	batches := (t.n + t.Batch - 1) / t.Batch // of nearly equal size
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

// descend fits w [D,C], the weights of the C outputs of one layer or more. loss overwrites the outputs of an example
// [C] by the derivatives of its loss, after done epochs. It is called concurrently.
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

// adam is the state of Adam for weights [D,C] with one unit per row.
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

// step updates w. The gradient is multiplied by scale.
func (a *adam) step(w, gradient []float64, scale, rate float64) {
	const beta1, beta2, tiny = 0.9, 0.999, 1e-8 // as in the paper and in every library
	a.steps++
	// Bias corrections of both means.
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

// crossEntropy overwrites logits by the derivatives of -log p_y.
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
