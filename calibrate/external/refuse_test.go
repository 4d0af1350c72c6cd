package external_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/mfgs/mfgs/calibrate/external"
	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/internal/safetensors"
	"github.com/mfgs/mfgs/internal/testerr"
)

func newBatch(rng maker, h layer.Head, n int) *rows.Batch {
	b := &rows.Batch{N: n}
	for range n {
		for range h.Features {
			b.Features = append(b.Features, float32(rng.NormFloat64()))
		}
		label := rng.IntN(h.Logits)
		for k := range h.Logits {
			a := 2 * rng.NormFloat64()
			if k == label {
				a += 3
			}
			b.Logits = append(b.Logits, float32(a))
		}
		b.Labels = append(b.Labels, label)
	}
	return b
}

// What is no posterior of the head is refused, with the tensor, what it should be, and what it is.
func TestAFileThatIsNoPosteriorOfTheHeadIsRefused(t *testing.T) {
	t.Parallel()
	h := layer.Head{Logits: 3, Features: 5, Bias: true, Link: layer.Softmax}
	tensor := func(name string, data any, shape ...int) safetensors.Tensor {
		return safetensors.Tensor{Name: name, Shape: shape, Data: data}
	}
	zeros := func(n int) []float64 { return make([]float64, n) }
	identity := func(n int, scale float64) []float64 {
		m := zeros(n * n)
		for i := range n {
			m[i*n+i] = scale
		}
		return m
	}
	with := func(m []float64, at int, v float64) []float64 {
		m = slices.Clone(m)
		m[at] = v
		return m
	}
	mean, prior := tensor("mean", zeros(18), 18), tensor("prior_precision", []float64{1}, 1)
	factor, indefinite := tensor("H.0.0", identity(3, 1), 3, 3), with(with(identity(5, 1), 1, 2), 5, 2)
	weight, noise := tensor("W_mean", zeros(15), 3, 5), tensor("noise_logdiag", zeros(3), 3)
	for _, c := range []struct {
		name    string
		tensors []safetensors.Tensor
		words   []string
	}{
		{"nothing", nil, []string{"not the tensors of a posterior", "want one of H, H.0.0, W_mean, beta.weight, covariance, precision"}},
		{"names of another program", []safetensors.Tensor{tensor("theta", zeros(3), 3)}, []string{"want one of", `there are ["theta"]`}},
		{"other features", []safetensors.Tensor{tensor("covariance", identity(4, 1), 4, 4)}, []string{`"covariance"`, "[4 4]", "3 logits and 5 features"}},
		{"other classes", []safetensors.Tensor{tensor("covariance", zeros(4*25), 4, 5, 5)}, []string{"[4 5 5]", "[[3 6 6] [3 5 5]]"}},
		{"another vector", []safetensors.Tensor{tensor("precision", zeros(17), 17)}, []string{"[17]", "[[18] [15]]"}},
		{"a weight by columns", []safetensors.Tensor{tensor("covariance", identity(5, 1), 5, 5), tensor("weight", zeros(15), 5, 3)},
			[]string{`"weight"`, "[5 3]", "[[3 5]]"}},
		{"integers", []safetensors.Tensor{tensor("covariance", make([]int64, 18), 18)}, []string{"dtype", "I64, want F64 or F32"}},
		{"NaN", []safetensors.Tensor{tensor("covariance", with(zeros(18), 7, math.NaN()), 18)}, []string{"entry 7", "not a finite number"}},
		{"a negative variance", []safetensors.Tensor{tensor("covariance", with(zeros(18), 7, -1), 18)}, []string{"entry 7 is -1", "want a variance"}},
		{"no precision", []safetensors.Tensor{tensor("precision", with(identity(18, 1)[:18], 1, 0), 18)}, []string{"entry 1 is 0", "want a positive number"}},
		{"not symmetric", []safetensors.Tensor{tensor("covariance", with(identity(5, 1), 1, 0.5), 5, 5)}, []string{"covariance is not symmetric", "[1,0] is 0, and [0,1] is 0.5"}},
		{"a negative diagonal", []safetensors.Tensor{tensor("covariance", identity(6, -1), 3, 2, 6)}, []string{"[3 2 6]"}},
		{"indefinite", []safetensors.Tensor{tensor("covariance", indefinite, 5, 5)}, []string{"not positive semi-definite", "eigenvalue -1"}},
		{"indefinite, full", []safetensors.Tensor{tensor("covariance", with(with(identity(18, 1), 1, 2), 18, 2), 18, 18)}, []string{"covariance is not positive definite"}},
		{"indefinite, of one logit", []safetensors.Tensor{
			tensor("covariance", slices.Concat(identity(5, 1), indefinite, identity(5, 1)), 3, 5, 5),
		}, []string{"covariance[1] is not positive definite"}},
		{"a singular precision", []safetensors.Tensor{tensor("precision", zeros(25), 5, 5)}, []string{"precision is not positive definite", "prior"}},
		{"both", []safetensors.Tensor{tensor("precision", zeros(18), 18), tensor("covariance", zeros(18), 18)}, []string{"covariance and precision: want one"}},
		{"an unknown tensor", []safetensors.Tensor{tensor("covariance", zeros(18), 18), tensor("scale", zeros(1), 1)}, []string{`"scale"`, "unknown beside covariance", "leave it out"}},
		{"no prior", []safetensors.Tensor{mean, tensor("H", zeros(18), 18)}, []string{`"prior_precision": no such tensor`}},
		{"a prior of zero", []safetensors.Tensor{mean, tensor("prior_precision", zeros(1)), tensor("H", zeros(18), 18)}, []string{"prior_precision", "want a positive number"}},
		{"a prior of each layer", []safetensors.Tensor{mean, tensor("prior_precision", zeros(2), 2), tensor("H", zeros(18), 18)}, []string{"[2], want [[] [1] [18]]"}},
		{"a negative curvature", []safetensors.Tensor{mean, prior, tensor("H", with(zeros(18), 3, -1), 18)}, []string{"entry 3 is -1", "curvature"}},
		{"a temperature of zero", []safetensors.Tensor{mean, prior, tensor("temperature", zeros(1)), tensor("H", zeros(18), 18)}, []string{"temperature", "want a positive number"}},
		{"a factor of other classes", []safetensors.Tensor{mean, prior, tensor("H.0.0", identity(5, 1), 5, 5)}, []string{`"H.0.0"`, "[5 5]", "[[3 3]]"}},
		{"no factor of the bias", []safetensors.Tensor{mean, prior, factor, tensor("H.0.1", identity(5, 1), 5, 5)}, []string{`"H.1.0": no such tensor`}},
		{"a t distribution", []safetensors.Tensor{weight, tensor("noise_log_dof", zeros(3), 3)}, []string{"tDiscClassification", "use DiscClassification"}},
		{"variances beyond float64", []safetensors.Tensor{weight, noise, tensor("W_logdiag", with(zeros(15), 2, 800), 3, 5)}, []string{"a variance is +Inf"}},
		{"a factor of too many columns", []safetensors.Tensor{
			weight, noise, tensor("W_logdiag", zeros(15), 3, 5), tensor("W_offdiag", zeros(3*5*7), 3, 5, 7),
		}, []string{`"W_offdiag"`, "[3 5 7]", "[[3 5 5]]"}},
	} {
		f := &file{head: h, tensors: c.tensors}
		_, err := f.read(t)
		if err == nil {
			t.Errorf("%s: no error", c.name)
			continue
		}
		testerr.OneLine(t, err, c.words...)
	}
}

// Headers that lie about large matrices are refused before memory is allocated for them.
func TestSizesAreBounded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		head  layer.Head
		name  string
		shape []int
		words []string
	}{
		{layer.Head{Logits: 100, Features: 100, Link: layer.Softmax}, "covariance", []int{10000, 10000}, []string{"order 10000", "at most 8192"}},
		{layer.Head{Logits: 2, Features: 20000, Link: layer.Softmax}, "covariance", []int{20000, 20000}, []string{"order 20000", "at most 16384"}},
		{layer.Head{Logits: 2, Features: 10000, Link: layer.Softmax}, "precision", []int{10000, 10000}, []string{"order 10000", "at most 8192"}},
		{layer.Head{Logits: 1000, Features: 1000, Link: layer.Softmax}, "covariance", []int{1000, 1000, 1000}, []string{"1000 matrices", "1e+09 entries", "at most 268435456"}},
	} {
		n := int64(8)
		for _, d := range c.shape {
			n *= int64(d)
		}
		r := &hollow{header: header(c.name, c.shape, n)}
		size := int64(len(r.header)) + n
		_, err := external.Read(r, size, c.head)
		testerr.OneLine(t, err, c.words...)
		if r.read > 1<<20 {
			t.Errorf("%v: %d bytes were read", c.shape, r.read)
		}
	}
}

// A network with other weights than the file's mean is another network.
func TestWeightsOfAnotherNetworkAreRefused(t *testing.T) {
	t.Parallel()
	h := layer.Head{Logits: 3, Features: 5, Bias: true, Link: layer.Softmax}
	rng := maker{rand.New(rand.NewPCG(1, 9))}
	w, b := rng.normal(15), rng.normal(3)
	single := func(x []float64) (out []float32) {
		for _, v := range x {
			out = append(out, float32(v))
		}
		return out
	}
	f := &file{head: h, tensors: []safetensors.Tensor{{Name: "covariance", Shape: []int{18}, Data: make([]float64, 18)},
		{Name: "weight", Shape: []int{3, 5}, Data: w}, {Name: "bias", Shape: []int{3}, Data: single(b)}}}
	p, err := f.read(t)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.CheckWeights(single(w), single(b)); err != nil || !p.HasWeights() {
		t.Errorf("%v, weights: %t", err, p.HasWeights())
	}
	other := single(w)
	other[7] += 0.1
	testerr.OneLine(t, p.CheckWeights(other, single(b)), "weight of logit 1 and feature 2", "export the network")
	testerr.OneLine(t, p.CheckWeights(single(w), nil), "bias of logit 0", "here and 0 in the model's last layer")

	mean := append(slices.Clone(w), b...)
	f = &file{head: h, tensors: []safetensors.Tensor{{Name: "mean", Shape: []int{18}, Data: mean},
		{Name: "prior_precision", Data: []float64{1}}, {Name: "H", Shape: []int{18}, Data: make([]float64, 18)}}}
	if p, err = f.read(t); err != nil {
		t.Fatal(err)
	}
	if err := p.CheckWeights(single(w), single(b)); err != nil {
		t.Error(err)
	}
}

// Any bytes give a posterior with variances that are finite and not negative, or an error.
func FuzzRead(f *testing.F) {
	h := layer.Head{Logits: 2, Features: 3, Bias: true, Link: layer.Softmax}
	for _, one := range files(h) {
		f.Add(one.bytes(f))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := external.Read(bytes.NewReader(data), int64(len(data)), h)
		if err != nil {
			return
		}
		post, err := p.Posterior(nil)
		if err != nil {
			t.Fatal(err)
		}
		variances := make([]float64, 2)
		post.Variances(variances, []float32{1, -2, 0.5}, 1)
		for _, v := range variances {
			if !(v >= 0) {
				t.Errorf("a variance is %v", v)
			}
		}
		_ = p.CheckWeights(make([]float32, 6), make([]float32, 2))
	})
}
