package methods

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/meanfield"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/internal/approx"
	"github.com/mfgs/mfgs/internal/parallel"
)

var background = context.Background()

func softmaxHead(k, d int, bias bool) layer.Head {
	return layer.Head{Logits: k, Features: d, Bias: bias, Link: layer.Softmax}
}

// clouds are n labelled examples of K overlapping classes, around points that far from
// the origin, with random logits.
func clouds(n, d, k int, distance float64, seed uint64) *rows.Batch {
	rng := rand.New(rand.NewPCG(seed, 7))
	centers := normals(rng, k*d, distance)
	s := &rows.Batch{N: n, Features: normals(rng, n*d, 1), Logits: normals(rng, n*k, 2)}
	for i := range n {
		y := rng.IntN(k)
		s.Labels = append(s.Labels, y)
		for j := range d {
			s.Features[i*d+j] += centers[y*d+j]
		}
	}
	return s
}

// naiveLogits returns the logits of one example under weights [K,D].
func naiveLogits(w []float64, h layer.Head, phi []float32) []float64 {
	a := make([]float64, h.Logits)
	for c := range a {
		row := w[c*h.Dim() : (c+1)*h.Dim()]
		for j, v := range phi {
			a[c] += row[j] * float64(v)
		}
		if h.Bias {
			a[c] += row[h.Features]
		}
	}
	return a
}

func TestLayersAreStoredInGroups(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		k, d, m, n int
		bias       bool
	}{
		{2, 1, 1, 1, false},
		{3, 4, 400, 5, true}, // three groups, the last smaller
		{10, 3, 51, 515, true},
		{10, 3, 102, 2, false},
		{600, 2, 3, 7, true}, // more classes than a group has columns
	} {
		h := softmaxHead(c.k, c.d, c.bias)
		rng := rand.New(rand.NewPCG(3, 3))
		l, err := newLayers(h, nil, c.m)
		if err != nil {
			t.Fatal(err)
		}
		weights := make([][]float64, c.m)
		for m := range weights {
			weights[m] = make([]float64, c.k*h.Dim())
			for i := range weights[m] {
				weights[m][i] = rng.NormFloat64()
			}
			l.set(m, weights[m])
		}
		for m, want := range weights {
			if !slices.Equal(l.layer(m), want) {
				t.Fatalf("%+v: layer %d is not what was set", c, m)
			}
		}
		s := clouds(c.n, c.d, c.k, 1, 1)
		got, err := l.outputs(background, s)
		if err != nil {
			t.Fatal(err)
		}
		for i := range c.n {
			for m, w := range weights {
				for j, want := range naiveLogits(w, h, s.Features[i*c.d:(i+1)*c.d]) {
					if v := got[(i*c.m+m)*c.k+j]; v != float32(want) && !approx.Equal(float64(v), want,
						1e-6*(1+math.Abs(want))) {
						t.Fatalf("%+v: example %d, layer %d, logit %d is %v, want %v", c, i, m, j, v, want)
					}
				}
			}
		}
	}
}

func TestPredictivesFollowTheDefinitions(t *testing.T) {
	t.Parallel()
	h := softmaxHead(3, 2, true)
	s := clouds(4, 2, 3, 1, 2)
	l, err := newLayers(h, nil, 2)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for m := range 2 {
		w := make([]float64, 9)
		for i := range w {
			w[i] = rng.NormFloat64()
		}
		l.set(m, w)
	}
	at := layer.Temperatures{Act: 1.7, Ens: 0.6}
	for _, of := range []struct {
		name string
		p    func(context.Context, *rows.Batch) (calibrate.Predictive, error)
		a    func(own float64, sampled float64) float64
	}{
		{"samples", (&WeightSamples{l}).Predictive,
			func(own, sampled float64) float64 { return own/at.Act + sampled/math.Sqrt(at.Ens) }},
		{"ensemble", (&LastLayers{l}).Predictive, func(_, sampled float64) float64 { return sampled / at.Act }},
	} {
		p, err := of.p(background, s)
		if err != nil {
			t.Fatal(err)
		}
		logp, predict := make([]float64, 3), p.Predictor()
		for i := range 4 {
			want := make([]float64, 3)
			for m := range 2 {
				a := naiveLogits(l.layer(m), h, s.Features[i*2:i*2+2])
				for c := range a {
					a[c] = of.a(float64(s.Logits[i*3+c]), a[c])
				}
				for c, v := range naiveSoftmax(a) {
					want[c] += v / 2
				}
			}
			rest := meanfield.OneMinusMax(predict(logp, i, at), len(logp))
			wantProbabilities(t, fmt.Sprintf("%s, example %d", of.name, i), logp, rest, want, 1e-6)
		}
	}
}

// preparations is all that can be asked of this half of the package, on small data.
var preparations = map[string]func(ctx context.Context, product parallel.Product) (any, error){
	"ensemble": func(ctx context.Context, product parallel.Product) (any, error) {
		l, err := FitEnsemble(ctx, clouds(70, 3, 4, 1, 1), softmaxHead(4, 3, true), 140, FitOptions{Epochs: 2,
			Product: product})
		return predicted(ctx, l, err)
	},
	"jackknife": func(ctx context.Context, product parallel.Product) (any, error) {
		l, err := FitJackknife(ctx, clouds(70, 3, 4, 1, 1), softmaxHead(4, 3, true), 0, 9, FitOptions{Epochs: 2,
			Product: product})
		return predicted(ctx, l, err)
	},
	"dropout": func(ctx context.Context, product parallel.Product) (any, error) {
		l, err := NewDropout(ctx, make([]float64, 16), softmaxHead(4, 3, true), product, 0.5, 7, 3)
		return predicted(ctx, l, err)
	},
	"bootstrap": func(ctx context.Context, product parallel.Product) (any, error) {
		w, err := NewBootstrap(ctx, clouds(70, 3, 4, 1, 1), softmaxHead(4, 3, true), identity{}, product, 9, 3)
		if err != nil {
			return nil, err
		}
		return w.Predictive(ctx, clouds(5, 3, 4, 1, 1))
	},
	"posterior": func(ctx context.Context, product parallel.Product) (any, error) {
		w, err := NewWeightSamples(ctx, kroneckerPosterior(clouds(70, 3, 4, 1, 1), softmaxHead(4, 3, true)), product, 9,
			3)
		if err != nil {
			return nil, err
		}
		return w.Predictive(ctx, clouds(5, 3, 4, 1, 1))
	},
	"variational": func(ctx context.Context, product parallel.Product) (any, error) {
		w := make([]float64, 16)
		w[0] = 1
		v, err := FitVariational(ctx, clouds(70, 3, 4, 1, 1), softmaxHead(4, 3, true), w,
			VariationalOptions{FitOptions: FitOptions{Epochs: 2, Product: product}})
		if err != nil {
			return nil, err
		}
		return v.Predictive(ctx, clouds(5, 3, 4, 1, 1), 6, 2)
	},
	"evidential": func(ctx context.Context, product parallel.Product) (any, error) {
		e, err := FitEvidential(ctx, clouds(70, 3, 4, 1, 1), softmaxHead(4, 3, true),
			EvidentialOptions{FitOptions: FitOptions{Epochs: 2, Product: product}})
		if err != nil {
			return nil, err
		}
		return e.Predictive(ctx, clouds(5, 3, 4, 1, 1))
	},
}

func predicted(ctx context.Context, l *LastLayers, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return l.Predictive(ctx, clouds(5, 3, 4, 1, 1))
}

// identity is a Solver.
type identity struct{}

func (identity) SolveTo(dst, g []float64, m int) error { copy(dst, g); return nil }

func TestPreparationEndsWithItsContext(t *testing.T) {
	t.Parallel()
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(background)
	cancel(why)
	for name, prepare := range preparations {
		if _, err := prepare(ctx, nil); !errors.Is(err, why) {
			t.Errorf("%s: error %v, want %v", name, err, why)
		}
	}
}

// limitedProduct fails from a call on.
type limitedProduct struct {
	parallel.Product
	left int
}

var errProduct = errors.New("no product")

func (p *limitedProduct) Multiply(c, a, b []float64, rows, n, m int) error {
	if p.left--; p.left < 0 {
		return errProduct
	}
	return p.Product.Multiply(c, a, b, rows, n, m)
}

func (p *limitedProduct) AddTransposedProduct(c, a, b []float64, rows, m, n int) error {
	if p.left--; p.left < 0 {
		return errProduct
	}
	return p.Product.AddTransposedProduct(c, a, b, rows, m, n)
}

// Each product of each preparation fails in turn.
func TestPreparationReturnsTheProductsErrors(t *testing.T) {
	t.Parallel()
	for name, prepare := range preparations {
		products := 0
		for ; ; products++ {
			_, err := prepare(background, &limitedProduct{parallel.OrGo(nil), products})
			if err == nil {
				break
			}
			if !errors.Is(err, errProduct) {
				t.Fatalf("%s: error %v, want %v", name, err, errProduct)
			}
		}
		if products == 0 {
			t.Errorf("%s used no product", name)
		}
	}
}

func TestPreparationDependsOnTheSeedNotTheProcessors(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for name, prepare := range preparations {
		var first []float64
		for _, procs := range []int{1, 3} {
			runtime.GOMAXPROCS(procs)
			p, err := prepare(background, nil)
			if err != nil {
				t.Fatal(err)
			}
			var all []float64
			predict, logp := p.(calibrate.Predictive).Predictor(), make([]float64, 4)
			for i := range p.(calibrate.Predictive).Len() {
				predict(logp, i, layer.Temperatures{Act: 1, Ens: 1})
				all = append(all, logp...)
			}
			if first == nil {
				first = all
			} else if !slices.Equal(first, all) {
				t.Errorf("%s: other results with %d processors", name, procs)
			}
		}
	}
}

func TestLastLayersRefuseBadInputs(t *testing.T) {
	t.Parallel()
	s, h := clouds(20, 2, 3, 1, 1), softmaxHead(3, 2, true)
	sigmoids := h
	sigmoids.Link = layer.OneVsRest
	unlabelled := &rows.Batch{N: s.N, Features: s.Features, Logits: s.Logits}
	w := []float64{1, 2, 3, 4, 5, 6, 7, 8, 9}
	for _, c := range []struct {
		want string
		do   func() error
	}{
		{"softmax", func() error { _, err := FitEnsemble(background, s, sigmoids, 2, FitOptions{}); return err }},
		{"softmax", func() error { _, err := NewDropout(background, w, sigmoids, nil, 0.1, 2, 1); return err }},
		{"0 last layers", func() error { _, err := FitEnsemble(background, s, h, 0, FitOptions{}); return err }},
		{"GB", func() error { _, err := FitEnsemble(background, s, h, 1<<40, FitOptions{}); return err }},
		{"training data", func() error { _, err := FitEnsemble(background, unlabelled, h, 2, FitOptions{}); return err }},
		{"training data", func() error { _, err := FitEnsemble(background, nil, h, 2, FitOptions{}); return err }},
		{"-1 epochs", func() error { _, err := FitEnsemble(background, s, h, 2, FitOptions{Epochs: -1}); return err }},
		{"learning rate", func() error { _, err := FitEnsemble(background, s, h, 2, FitOptions{Rate: math.NaN()}); return err }},
		{"leave out 20 of 20", func() error { _, err := FitJackknife(background, s, h, 2, 20, FitOptions{}); return err }},
		{"leave out 1 of 0", func() error { _, err := FitJackknife(background, nil, h, 2, 0, FitOptions{}); return err }},
		{"-1 last layers", func() error { _, err := FitJackknife(background, s, h, -1, 2, FitOptions{}); return err }},
		{"fewer", func() error { _, err := FitJackknife(background, s, h, 1<<40, 2, FitOptions{}); return err }},
		{"dropout rate 1", func() error { _, err := NewDropout(background, w, h, nil, 1, 2, 1); return err }},
		{"dropout rate NaN", func() error { _, err := NewDropout(background, w, h, nil, math.NaN(), 2, 1); return err }},
		{"8 weights", func() error { _, err := NewDropout(background, w[:8], h, nil, 0.1, 2, 1); return err }},
		{"8 weights", func() error { _, err := FitVariational(background, s, h, w[:8], VariationalOptions{}); return err }},
		{"prior", func() error {
			_, err := FitVariational(background, s, h, make([]float64, 9), VariationalOptions{})
			return err
		}},
		{"prior", func() error { _, err := FitVariational(background, s, h, w, VariationalOptions{Prior: -1}); return err }},
		{"training data", func() error { _, err := NewBootstrap(background, unlabelled, h, identity{}, nil, 2, 1); return err }},
		{"0 last layers", func() error { _, err := NewBootstrap(background, s, h, identity{}, nil, 0, 1); return err }},
		{"evidence \"tanh\"", func() error {
			_, err := FitEvidential(background, s, h, EvidentialOptions{Evidence: "tanh"})
			return err
		}},
		{"annealing", func() error { _, err := FitEvidential(background, s, h, EvidentialOptions{Annealing: -1}); return err }},
		{"evidence \"\"", func() error { _, err := NewEvidential(s.Logits, 3, ""); return err }},
		{"7 logits", func() error { _, err := NewEvidential(s.Logits[:7], 3, ReLU); return err }},
		{"logit 1 is NaN", func() error { _, err := NewEvidential([]float32{0, float32(math.NaN())}, 2, ReLU); return err }},
	} {
		if err := c.do(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want one with %q", err, c.want)
		}
	}
}
