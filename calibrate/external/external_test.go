package external_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/external"
	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/internal/approx"
	"github.com/mfgs/mfgs/internal/safetensors"
)

// A file has a posterior under the names of a program, and its covariance by the program's definition.
type file struct {
	name     string
	head     layer.Head
	metadata map[string]string
	tensors  []safetensors.Tensor
	form     external.Form
	sigma    *mat.Dense // [KD,KD], class by class, the bias last
}

func (f *file) bytes(t testing.TB) []byte {
	var b bytes.Buffer
	if err := safetensors.Encode(&b, f.tensors, f.metadata); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func (f *file) read(t testing.TB) (*external.Posterior, error) {
	data := f.bytes(t)
	return external.Read(bytes.NewReader(data), int64(len(data)), f.head)
}

func (f *file) add(name string, data []float64, shape ...int) {
	f.tensors = append(f.tensors, safetensors.Tensor{Name: name, Shape: shape, Data: data})
}

// maker makes random matrices.
type maker struct{ *rand.Rand }

func (m maker) normal(n int) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = m.NormFloat64()
	}
	return x
}

// definite returns a positive definite matrix.
func (m maker) definite(n int) []float64 {
	x := mat.NewDense(n, n+2, m.normal(n*(n+2)))
	out := mat.NewDense(n, n, nil)
	out.Mul(x, x.T())
	return out.RawMatrix().Data
}

func inverse(n int, x []float64) *mat.Dense {
	out := mat.NewDense(n, n, nil)
	if err := out.Inverse(mat.NewDense(n, n, slices.Clone(x))); err != nil {
		panic(err)
	}
	return out
}

// place is where PyTorch's vector of a layer's weights has one: those of W row by row, then the biases; or these first.
func place(h layer.Head, logit, feature int, first bool) int {
	k, d := h.Logits, h.Features
	switch {
	case first && feature == d:
		return logit
	case first:
		return k + logit*d + feature
	case feature == d:
		return k*d + logit
	}
	return logit*d + feature
}

// byClass orders a covariance of all weights class by class.
func byClass(h layer.Head, sigma mat.Matrix, first bool) *mat.Dense {
	k, d := h.Logits, h.Dim()
	out := mat.NewDense(k*d, k*d, nil)
	for a := range k * d {
		for b := range k * d {
			out.Set(a, b, sigma.At(place(h, a/d, a%d, first), place(h, b/d, b%d, first)))
		}
	}
	return out
}

// files returns a file of each program and form for a head.
func files(h layer.Head) (list []*file) {
	rng := maker{rand.New(rand.NewPCG(7, 3))}
	k, f, d := h.Logits, h.Features, h.Dim()
	n := k * d
	add := func(name string, form external.Form) *file {
		one := &file{name: name, head: h, form: form, sigma: mat.NewDense(n, n, nil)}
		list = append(list, one)
		return one
	}
	positive := func(n int) []float64 {
		x := rng.normal(n)
		for i := range x {
			x[i] = 0.1 + x[i]*x[i]
		}
		return x
	}

	// laplace-torch: H/(temperature·sigma²) + prior.
	const temperature, noise = 0.7, 1.3
	const factor = 1 / (temperature * noise * noise)
	laplace := func(name string, form external.Form, prior []float64) *file {
		one := add("laplace "+name, form)
		one.add("mean", rng.normal(n), n)
		one.add("prior_precision", prior, len(prior))
		one.add("temperature", []float64{temperature})
		one.add("sigma_noise", []float64{noise}, 1)
		one.add("loss", []float64{3})
		return one
	}
	one := laplace("full", external.Full, positive(n))
	h2 := rng.definite(n)
	one.add("H", h2, n, n)
	precision := mat.NewDense(n, n, slices.Clone(h2))
	precision.Scale(factor, precision)
	for i, v := range one.tensors[1].Data.([]float64) {
		precision.Set(i, i, precision.At(i, i)+v)
	}
	one.sigma = byClass(h, inverse(n, precision.RawMatrix().Data), false)

	one = laplace("diagonal", external.Diagonal, []float64{0.5})
	diagonal := positive(n)
	one.add("H", diagonal, n)
	variances := mat.NewDense(n, n, nil)
	for i, v := range diagonal {
		variances.Set(i, i, 1/(v*factor+0.5))
	}
	one.sigma = byClass(h, variances, false)

	prior := []float64{0.5, 2}[:1+d-f]
	one = laplace("kron", external.Kronecker, prior)
	b, a, c := rng.definite(k), rng.definite(f), rng.definite(k)
	one.add("H.0.0", b, k, k)
	one.add("H.0.1", a, f, f)
	precision = mat.NewDense(n, n, nil)
	for i := range k * f {
		for j := range k * f {
			precision.Set(i, j, factor*b[i/f*k+j/f]*a[i%f*f+j%f])
		}
		precision.Set(i, i, precision.At(i, i)+prior[0])
	}
	if h.Bias {
		one.add("H.1.0", c, k, k)
		for i := range k {
			for j := range k {
				precision.Set(k*f+i, k*f+j, factor*c[i*k+j])
			}
			precision.Set(k*f+i, k*f+i, precision.At(k*f+i, k*f+i)+prior[1])
		}
	}
	one.sigma = byClass(h, inverse(n, precision.RawMatrix().Data), false)

	// vbll: independent logits with noise, which the bias of 0 of a layer without one has too.
	if h.Bias {
		logs, sd, off := rng.normal(k*f), rng.normal(k), rng.normal(k*f*f)
		vbll := func(name string, form external.Form) *file {
			one := add("vbll "+name, form)
			one.add("W_mean", rng.normal(k*f), k, f)
			one.add("noise_mean", make([]float64, k), k)
			one.add("W_logdiag", logs, k, f)
			one.add("noise_logdiag", sd, k)
			for i := range k {
				one.sigma.Set(i*d+f, i*d+f, math.Exp(2*sd[i]))
			}
			return one
		}
		one = vbll("diagonal", external.Diagonal)
		for i := range k * f {
			at := i/f*d + i%f
			one.sigma.Set(at, at, math.Exp(2*logs[i]))
		}
		one = vbll("dense", external.PerLogit)
		one.add("W_offdiag", off, k, f, f)
		for i := range k {
			l := mat.NewDense(f, f, nil)
			for r := range f {
				for c := range r {
					l.Set(r, c, off[i*f*f+r*f+c])
				}
				l.Set(r, r, math.Exp(logs[i*f+r]))
			}
			one.sigma.Slice(i*d, i*d+f, i*d, i*d+f).(*mat.Dense).Mul(l, l.T())
		}
		one = vbll("lowrank", external.PerLogit)
		one.add("W_offdiag", off[:k*f*2], k, f, 2)
		for i := range k {
			l := mat.NewDense(f, 2, off[i*f*2:(i+1)*f*2])
			part := one.sigma.Slice(i*d, i*d+f, i*d, i*d+f).(*mat.Dense)
			part.Mul(l, l.T())
			for r := range f {
				part.Set(r, r, part.At(r, r)+math.Exp(logs[i*f+r]))
			}
		}
	}

	// sngp: a covariance of the features, of every logit; the bias is constant.
	shared := rng.definite(f)
	one = add("sngp covariance", external.Shared)
	one.add("beta.weight", rng.normal(k*f), k, f)
	one.add("covariance", shared, f, f)
	one.add("precision", rng.definite(f), f, f)
	for i := range k {
		one.sigma.Slice(i*d, i*d+f, i*d, i*d+f).(*mat.Dense).Copy(mat.NewDense(f, f, shared))
	}
	two := add("sngp precision", external.Shared)
	two.add("beta.weight", rng.normal(k*f), k, f)
	two.add("precision", inverse(f, shared).RawMatrix().Data, f, f)
	two.sigma = one.sigma

	// Any program: the shape says which form.
	for _, first := range []bool{false, true} {
		for _, name := range []string{"covariance", "precision"} {
			plain := func(form external.Form) *file {
				one := add(fmt.Sprintf("%s %s, bias first: %t", form, name, first), form)
				if first {
					one.metadata = map[string]string{"bias": "first"}
				}
				return one
			}
			take := func(n int, x []float64) *mat.Dense { // the covariance
				if name == "covariance" {
					return mat.NewDense(n, n, x)
				}
				return inverse(n, x)
			}
			row := func(i int) int { // of an augmented feature
				if first && h.Bias {
					return (i + 1) % d
				}
				return i
			}
			one = plain(external.Full)
			x := rng.definite(n)
			one.add(name, x, n, n)
			one.sigma = byClass(h, take(n, x), first && h.Bias)
			one = plain(external.Diagonal)
			v := positive(n)
			one.add(name, v, n)
			variances := mat.NewDense(n, n, nil)
			for i := range v {
				variances.Set(i, i, map[string]float64{"covariance": v[i], "precision": 1 / v[i]}[name])
			}
			one.sigma = byClass(h, variances, first && h.Bias)
			one, x = plain(external.Shared), rng.definite(d)
			one.add(name, x, d, d)
			two = plain(external.PerLogit)
			var all []float64
			for i := range k {
				y := rng.definite(d)
				all = append(all, y...)
				for r := range d {
					for c := range d {
						one.sigma.Set(i*d+r, i*d+c, take(d, x).At(row(r), row(c)))
						two.sigma.Set(i*d+r, i*d+c, take(d, y).At(row(r), row(c)))
					}
				}
			}
			two.add(name, all, k, d, d)
		}
	}
	return list
}

// want are the variances of logits that m [K,K] maps, by the definition ∇a Σ ∇aᵀ.
func want(f *file, m []float64, x []float64) (variances []float64) {
	k, d := f.head.Logits, f.head.Dim()
	of := func(weights []float64) (sum float64) { // of the logit Σ_j weights_j a_j
		for a := range k * d {
			for b := range k * d {
				sum += weights[a/d] * x[a%d] * f.sigma.At(a, b) * weights[b/d] * x[b%d]
			}
		}
		return sum
	}
	for i := range k {
		variances = append(variances, of(m[i*k:(i+1)*k]))
	}
	return variances
}

// Variances of all forms are those of the covariance written out, with matrix scaling and without, and leverages those
// of any leverage matrix, as are the quadratic forms that graphs compute.
func TestVariancesAreThoseOfTheCovarianceWrittenOut(t *testing.T) {
	t.Parallel()
	rng := maker{rand.New(rand.NewPCG(1, 2))}
	const tolerance = 1e-10 // rounding of float64 in inverses with a condition number of some thousand
	for _, h := range []layer.Head{
		{Logits: 3, Features: 5, Bias: true, Link: layer.Softmax}, {Logits: 4, Features: 3, Link: layer.Softmax},
		{Logits: 3, Features: 4, Bias: true, Link: layer.Sigmoid},
		{Logits: 1, Features: 4, Bias: true, Link: layer.Sigmoid},
	} {
		k, r := h.Logits, h.AffineRank()
		mapped := &layer.Affine{
			Scale: rng.normal(k), Offset: make([]float64, k), Left: rng.normal(k * r), Right: rng.normal(r * k),
		}
		identity := make([]float64, k*k)
		for i := range k {
			identity[i*k+i] = 1
		}
		for _, f := range files(h) {
			name := fmt.Sprintf("%s %d×%d, %s", h.Link, k, h.Features, f.name)
			p, err := f.read(t)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if p.Form != f.form && k > 1 { // of one logit, full and shared are the same
				t.Errorf("%s: form %s, want %s", name, p.Form, f.form)
			}
			for _, affine := range []*layer.Affine{nil, mapped} {
				m := identity
				if affine != nil {
					m = affine.Matrix()
				}
				post, err := p.Posterior(affine)
				if err != nil {
					t.Fatal(err)
				}
				d := h.Dim()
				post.Leverage = rng.definite(d)
				forms, err := post.Quadratic()
				if err != nil {
					t.Fatal(err)
				}
				phi := make([]float32, h.Features)
				x := []float64{}
				for i := range phi {
					phi[i] = float32(rng.NormFloat64())
					x = append(x, float64(phi[i]))
				}
				if h.Bias {
					x = append(x, 1)
				}
				variances, leverage := make([]float64, k), make([]float64, 1)
				post.Both(variances, leverage, phi, 1)
				row := mat.NewDense(1, d, x)
				own := mat.Inner(row.RowView(0), mat.NewDense(d, d, post.Leverage), row.RowView(0))
				graph := evaluate(forms, phi)
				for i, v := range append(want(f, m, x), own) {
					if got := append(variances, leverage...)[i]; !approx.Relative(got, v, tolerance) {
						t.Errorf("%s, mapped: %t: form %d is %v, want %v", name, affine != nil, i, got, v)
					}
					if !approx.Relative(graph[i], v, tolerance) {
						t.Errorf("%s, mapped: %t: quadratic form %d is %v, want %v", name, affine != nil, i, graph[i], v)
					}
				}
			}
		}
	}
}

// evaluate computes quadratic forms as their documentation says.
func evaluate(q *layer.Quadratic, phi []float32) []float64 {
	width := len(q.Offset)
	z := slices.Clone(q.Offset)
	for i, v := range phi {
		for r := range width {
			z[r] += (float64(v) - q.Center[i]) * q.Projection[i*width+r]
		}
	}
	out := make([]float64, q.Forms)
	for m := range out {
		if q.Weights == nil {
			for _, v := range z[m*width/q.Forms : (m+1)*width/q.Forms] {
				out[m] += v * v
			}
			continue
		}
		for r, v := range z {
			out[m] += v * v * q.Weights[r*q.Forms+m]
		}
	}
	return out
}

// A posterior is fitted like one from a curvature: temperatures are tuned, and leverages are those of the features.
func TestAPosteriorIsFittedLikeOneFromACurvature(t *testing.T) {
	t.Parallel()
	h := layer.Head{Logits: 3, Features: 5, Bias: true, Link: layer.Softmax}
	rng := maker{rand.New(rand.NewPCG(5, 5))}
	val, train := newBatch(rng, h, 400), newBatch(rng, h, 600)
	c, err := calibrate.NewCurvature(calibrate.CurvatureConfig{Head: h, Structure: calibrate.Full}, train)
	if err != nil {
		t.Fatal(err)
	}
	own, err := calibrate.Fit(t.Context(), c, val, nil, calibrate.FitOptions{Damping: calibrate.Damping{Relative: 1}})
	if err != nil {
		t.Fatal(err)
	}
	want := make([]float64, val.N)
	own.Posterior.Leverages(want, val.Features, val.N)
	for _, f := range files(h) {
		p, err := f.read(t)
		if err != nil {
			t.Fatal(err)
		}
		fitted, err := calibrate.FitExternal(t.Context(), p, c, val, nil, calibrate.FitOptions{})
		if err != nil {
			t.Errorf("%s: %v", f.name, err)
			continue
		}
		post := fitted.Posterior
		if post.Covariance != calibrate.External || post.Epsilon != 0 || fitted.Candidates != nil {
			t.Errorf("%s: covariance %s, epsilon %v, %d dampings, want external and none", f.name, post.Covariance, post.Epsilon, len(fitted.Candidates))
		}
		got := make([]float64, val.N)
		post.Leverages(got, val.Features, val.N)
		for i, v := range want {
			if !approx.Relative(got[i], v, 1e-10) {
				t.Fatalf("%s: leverage %v, want %v", f.name, got[i], v)
			}
		}
		if fitted.NLL.Ens <= 0 || fitted.Score.Name != "studentized" {
			t.Errorf("%s: T_ens %v and the score %s, want a temperature and studentized", f.name, fitted.NLL.Ens, fitted.Score.Name)
		}
	}
}
