package layer_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/internal/approx"
)

// slowAffine is scale∘z + left·right·z + offset of the logits z, or of z = log(softmax(a) + ε), as it is written down.
func slowAffine(f *layer.Affine, logits []float32) []float64 {
	k := len(logits)
	z, p, sum := make([]float64, k), make([]float64, k), 0.0
	for j, a := range logits {
		z[j], p[j] = float64(a), math.Exp(float64(a))
		sum += p[j]
	}
	if f == nil {
		return z
	}
	for j := range p {
		if f.Smoothing > 0 {
			z[j] = math.Log(p[j]/sum + f.Smoothing)
		}
	}
	if f.Scale == nil {
		return z
	}
	out := make([]float64, k)
	r := len(f.Left) / k
	for i := range k {
		out[i] = f.Scale[i]*z[i] + f.Offset[i]
		for j := range k {
			for l := range r {
				out[i] += f.Left[i*r+l] * f.Right[l*k+j] * z[j]
			}
		}
	}
	return out
}

func randoms(rng *rand.Rand, n int) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = rng.NormFloat64()
	}
	return x
}

// A map is its formula with a smoothing and without, of any of its parts, and leaves the logits that it is given.
func TestAnAffineMapIsItsFormula(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 1))
	for _, k := range []int{1, 2, 3, 10} {
		diagonal := layer.Affine{Scale: randoms(rng, k), Offset: randoms(rng, k)}
		dense := diagonal
		dense.Left, dense.Right = randoms(rng, 2*k), randoms(rng, 2*k)
		for name, f := range map[string]layer.Affine{"none": {}, "diagonal": diagonal, "of rank 2": dense} {
			for _, f.Smoothing = range []float64{0, 1e-5, 0.03, 1} {
				for range 20 {
					logits := make([]float32, k)
					for j := range logits {
						logits[j] = float32(5 * rng.NormFloat64())
					}
					got, before := make([]float64, k), append([]float32(nil), logits...)
					f.To(got, logits)
					for j, want := range slowAffine(&f, before) {
						if !approx.Equal(got[j], want, 1e-13*(10+math.Abs(want))) || logits[j] != before[j] {
							t.Fatalf("%s with smoothing %v: %v of %v, want %v", name, f.Smoothing, got, before, want)
						}
					}
				}
			}
		}
	}
	got := make([]float64, 2)
	if (*layer.Affine)(nil).To(got, []float32{1, -2}); got[0] != 1 || got[1] != -2 {
		t.Errorf("no map gives %v", got)
	}
}

// Logits as far apart as float32 can hold are smoothed to log ε and log(1+ε).
func TestSmoothingOfFarLogits(t *testing.T) {
	t.Parallel()
	const epsilon = 1e-3
	f := layer.Affine{Smoothing: epsilon}
	got := make([]float64, 3)
	for _, logits := range [][]float32{{-1e30, 3e38, -3e38}, {-104, 0, -104}, {-800, 0, -1000}} {
		f.To(got, logits)
		for j, want := range []float64{math.Log(epsilon), math.Log1p(epsilon), math.Log(epsilon)} {
			if !approx.Equal(got[j], want, 1e-14*math.Abs(want)+1e-16) {
				t.Errorf("%v of %v, want %v", got[j], logits, want)
			}
		}
	}
}

// Smoothing does not change which logit is the largest.
func TestSmoothingKeepsTheOrder(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(2, 2))
	for _, f := range []layer.Affine{{Smoothing: 1e-5}, {Smoothing: 1}} {
		for range 100 {
			logits, got := make([]float32, 5), make([]float64, 5)
			for j := range logits {
				logits[j] = float32(6 * rng.NormFloat64())
			}
			f.To(got, logits)
			for i := range got {
				for j := range got {
					if logits[i] > logits[j] && got[i] < got[j] {
						t.Fatalf("%v of %v", got, logits)
					}
				}
			}
		}
	}
}

func TestInvalidMapsAreRefused(t *testing.T) {
	t.Parallel()
	soft := layer.Head{Logits: 3, Link: layer.Softmax, Nonlinear: true}
	labels := layer.Head{Logits: 3, Link: layer.Sigmoid, Nonlinear: true}
	r := soft.AffineRank()
	whole := func(h layer.Head, change func(*layer.Affine)) *layer.Affine {
		f := &layer.Affine{Scale: make([]float64, 3), Offset: make([]float64, 3),
			Left:  make([]float64, 3*h.AffineRank()),
			Right: make([]float64, 3*h.AffineRank())}
		change(f)
		return f
	}
	for name, tt := range map[string]struct {
		h    layer.Head
		f    *layer.Affine
		want string // "": valid
	}{
		"nothing":                 {soft, &layer.Affine{}, ""},
		"the largest smoothing":   {soft, &layer.Affine{Smoothing: layer.MaxSmoothing}, ""},
		"a map":                   {soft, whole(soft, func(f *layer.Affine) {}), ""},
		"a map of smoothed":       {soft, whole(soft, func(f *layer.Affine) { f.Smoothing = 0.5 }), ""},
		"a map of labels":         {labels, whole(labels, func(f *layer.Affine) {}), ""},
		"negative smoothing":      {soft, &layer.Affine{Smoothing: -1e-9}, "smoothing is -1e-09"},
		"too large":               {soft, &layer.Affine{Smoothing: 1.01}, "smoothing is 1.01"},
		"not a number":            {soft, &layer.Affine{Smoothing: math.NaN()}, "smoothing is NaN"},
		"infinite":                {soft, &layer.Affine{Smoothing: math.Inf(1)}, "smoothing is +Inf"},
		"smoothing of labels":     {labels, &layer.Affine{Smoothing: 0.1}, "with the link sigmoid"},
		"a smoothing that is bad": {soft, whole(soft, func(f *layer.Affine) { f.Smoothing = 2 }), "smoothing is 2"},
		"a scale less":            {soft, whole(soft, func(f *layer.Affine) { f.Scale = f.Scale[1:] }), "2 scales"},
		"no offsets":              {soft, whole(soft, func(f *layer.Affine) { f.Offset = nil }), "0 offsets"},
		"no matrices":             {soft, whole(soft, func(f *layer.Affine) { f.Left, f.Right = nil, nil }), "matrices of 0 and 0"},
		"an offset alone":         {soft, &layer.Affine{Smoothing: 0.1, Offset: make([]float64, 3)}, "0 scales"},
	} {
		err := tt.f.Validate(tt.h)
		if (err == nil) != (tt.want == "") || err != nil &&
			(!strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
	if r < 1 {
		t.Errorf("rank %d", r)
	}
}

// A head is nonlinear or has a bias, and without a layer may have no features.
func TestInvalidHeadsAreRefused(t *testing.T) {
	t.Parallel()
	for want, h := range map[string]layer.Head{
		"":                                     {Logits: 2, Link: layer.Softmax, Nonlinear: true},
		"head has 0 features, want at least 1": {Logits: 2, Link: layer.Softmax},
		"head has -1 features":                 {Logits: 2, Features: -1, Link: layer.Softmax, Nonlinear: true},
		"a bias and no linear layer":           {Logits: 2, Link: layer.Softmax, Bias: true, Nonlinear: true},
		"1 logits":                             {Logits: 1, Link: layer.Softmax, Nonlinear: true},
	} {
		err := h.Validate()
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", h, err, want)
		}
	}
}
