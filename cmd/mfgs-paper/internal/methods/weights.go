package methods

import (
	"context"
	"fmt"
	"slices"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/internal/parallel"
)

// layers are M last layers, stored in groups of whole layers with about groupColumns outputs, so that their outputs for
// many examples are products of large matrices even if there are few classes.
type layers struct {
	head    layer.Head
	product parallel.Product
	m       int
	weights []float64 // one group after another, each [D, its layers × K]
}

const (
	groupColumns = 512
	blockRows    = 512 // examples of one product
)

// groupSize returns the number of layers in a group; the last may have fewer.
func groupSize(h layer.Head) int { return max(1, groupColumns/h.Logits) }

func newLayers(h layer.Head, product parallel.Product, m int) (*layers, error) {
	if err := h.Validate(); err != nil {
		return nil, err
	}
	if err := checkSoftmax(h); err != nil {
		return nil, err
	}
	if m < 1 {
		return nil, fmt.Errorf("%d last layers, want at least 1", m)
	}
	if bytes := float64(m) * float64(h.Logits) * float64(h.Dim()) * 8; bytes > MaxBytes {
		return nil, fmt.Errorf("%d last layers would take %.1f GB of memory, want at most %.1f: take fewer", m, bytes/1e9, float64(MaxBytes)/1e9)
	}
	return &layers{
		head:    h,
		product: parallel.OrGo(product),
		m:       m,
		weights: make([]float64, m*h.Logits*h.Dim()),
	}, nil
}

// group returns the size and weights of the group that begins with layer first.
func (l *layers) group(first int) (size int, weights []float64) {
	size = min(groupSize(l.head), l.m-first)
	each := l.head.Logits * l.head.Dim()
	return size, l.weights[first*each : (first+size)*each]
}

// set sets the weights of a layer from [K,D], the bias in the last column.
func (l *layers) set(layer int, w []float64) {
	k, d := l.head.Logits, l.head.Dim()
	first := layer - layer%groupSize(l.head)
	size, group := l.group(first)
	for c := range k {
		for j, v := range w[c*d : (c+1)*d] {
			group[j*size*k+(layer-first)*k+c] = v
		}
	}
}

// layer returns the weights of a layer, [K,D].
func (l *layers) layer(layer int) []float64 {
	k, d := l.head.Logits, l.head.Dim()
	first := layer - layer%groupSize(l.head)
	size, group := l.group(first)
	w := make([]float64, k*d)
	for c := range k {
		for j := range d {
			w[c*d+j] = group[j*size*k+(layer-first)*k+c]
		}
	}
	return w
}

// outputs returns the logits of each example by each layer, [n,M,K].
func (l *layers) outputs(ctx context.Context, s *rows.Batch) ([]float32, error) {
	if err := calibrate.CheckBatch(l.head, s, false); err != nil {
		return nil, err
	}
	n, k, d := s.N, l.head.Logits, l.head.Dim()
	if err := checkSize(n, l.m*k, 4); err != nil {
		return nil, err
	}
	out := make([]float32, n*l.m*k)
	x := make([]float64, min(n, blockRows)*d)
	a := make([]float64, min(n, blockRows)*min(l.m, groupSize(l.head))*k)
	for from := 0; from < n; from += blockRows {
		rows := min(blockRows, n-from)
		for r := range rows {
			augment(x[r*d:(r+1)*d], l.head, s.Features, from+r)
		}
		for first := 0; first < l.m; {
			if err := context.Cause(ctx); err != nil {
				return nil, err
			}
			size, weights := l.group(first)
			columns := size * k
			if err := l.product.Multiply(a[:rows*columns], x[:rows*d], weights, rows, d, columns); err != nil {
				return nil, err
			}
			parallel.For(rows, func(begin, end int) {
				for r := begin; r < end; r++ {
					dst := out[((from+r)*l.m+first)*k:]
					for j, v := range a[r*columns : (r+1)*columns] {
						dst[j] = float32(v)
					}
				}
			})
			first += size
		}
	}
	return out, nil
}

// augment writes the features of an example to dst, followed by a 1 if the head has a bias.
func augment(dst []float64, h layer.Head, features []float32, example int) {
	for j, v := range features[example*h.Features : (example+1)*h.Features] {
		dst[j] = float64(v)
	}
	if h.Bias {
		dst[h.Features] = 1
	}
}

// checkWeights returns an error unless w has the size [K,D].
func checkWeights(w []float64, h layer.Head) error {
	if len(w) != h.Logits*h.Dim() {
		return fmt.Errorf("the last layer has %d weights, want %d classes × %d", len(w), h.Logits, h.Dim())
	}
	return nil
}

// WeightSamples are M draws of the deviation of the last layer's weights from the network's, at ensemble temperature 1.
type WeightSamples struct{ layers *layers }

// Predictive prepares a set. Logits deviate from the network's by the product of the features and each draw.
func (w *WeightSamples) Predictive(ctx context.Context, s *rows.Batch) (calibrate.Predictive, error) {
	deviations, err := w.layers.outputs(ctx, s)
	if err != nil {
		return nil, err
	}
	k := w.layers.head.Logits
	return NewSamples(slices.Clone(s.Logits), deviations, s.N, w.layers.m, k)
}

// LastLayers averages the probabilities of M classifiers on the same features.
type LastLayers struct{ layers *layers }

// Predictive prepares a set from its features. There is no T_ens.
func (l *LastLayers) Predictive(ctx context.Context, s *rows.Batch) (calibrate.Predictive, error) {
	members, err := l.layers.outputs(ctx, s)
	if err != nil {
		return nil, err
	}
	k := l.layers.head.Logits
	return NewEnsemble(members, s.N, l.layers.m, k)
}
