package attach_test

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/meanfield"
	"github.com/mfgs/mfgs/calibrate/score"
	"github.com/mfgs/mfgs/featurize/ort"
	"github.com/mfgs/mfgs/internal/approx"
	"github.com/mfgs/mfgs/internal/attach"
	"github.com/mfgs/mfgs/internal/eigen"
	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
	"github.com/mfgs/mfgs/internal/onnx/onnxtest"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/fuse"
	"github.com/mfgs/mfgs/onnx/head"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// For the table in docs/evidence/float32.md: -args -random 1000000 -searched 20480.
var (
	randomInputs   = flag.Int("random", 0, "random inputs for each head of the comparison of float32 with float64 [a few hundred]")
	searchedInputs = flag.Int("searched", 0, "adversarial inputs for each head [a few]")
)

// A single is a kind of head, whose float32 form is compared with the float64 form.
type single struct {
	name        string
	link        layer.Link
	k, d        int
	method      fuse.Method
	plain       float64
	affine      bool
	prior       bool
	nonlinear   bool
	ranked      bool
	unequal     float64            // how many times as curved one class is as another; 0 is 10
	temperature layer.Temperatures // for margins
}

var singleKinds = []single{
	{name: "softmax K=2", link: layer.Softmax, k: 2, d: 16},
	{name: "softmax K=10", link: layer.Softmax, k: 10, d: 32, ranked: true},
	{name: "softmax K=10, high temperatures", link: layer.Softmax, k: 10, d: 32, temperature: layer.Temperatures{Act: 300, Ens: 1e-3}},
	{name: "softmax K=10, mf1", link: layer.Softmax, k: 10, d: 32, method: fuse.MF1},
	{name: "softmax K=10, matrix", link: layer.Softmax, k: 10, d: 32, plain: 1, affine: true, prior: true},
	{name: "softmax K=1000", link: layer.Softmax, k: 1000, d: 64},
	{name: "softmax K=1000, unequal variances", link: layer.Softmax, k: 1000, d: 64, unequal: 1e4},
	{name: "softmax K=700, very unequal variances", link: layer.Softmax, k: 700, d: 64, unequal: 1e6},
	{name: "softmax K=300, all variances", link: layer.Softmax, k: 300, d: 32, unequal: 1e9},
	{name: "one logit", link: layer.Sigmoid, k: 1, d: 16},
	{name: "20 labels", link: layer.Sigmoid, k: 20, d: 32},
	{name: "20 labels, matrix", link: layer.Sigmoid, k: 20, d: 32, plain: 1.3, affine: true},
	{name: "one-vs-rest K=10", link: layer.OneVsRest, k: 10, d: 32},
	{name: "scores K=10", link: layer.Softmax, k: 10, d: 10, plain: 1.7, nonlinear: true},
	{name: "scores K=10, matrix", link: layer.Softmax, k: 10, d: 10, plain: 1, affine: true, nonlinear: true, ranked: true},
}

// A twin is a head in both precisions, with what its inputs are like.
type twin struct {
	single
	scores        []*score.Served // ood_score is the first
	both          [2]*ort.Session // float64, float32
	outputs       [2]fuse.Outputs
	mf            *fuse.MeanField
	means, spread []float32 // [C,d] and [d], of features by class
}

// features draws an example of a class, its noise multiplied by a number.
func (w *twin) features(rng *rand.Rand, class int, noise float64) []float32 {
	x := make([]float32, w.d)
	for j := range x {
		x[j] = w.means[class*w.d+j] + float32(noise*rng.NormFloat64())*w.spread[j]
		if !w.nonlinear {
			x[j] = max(x[j], 0)
		}
	}
	return x
}

// classes returns for how many classes there are means of features.
func (w *twin) classes() int { return len(w.means) / w.d }

// newTwin makes a head with all scores that suit it, or with those of the names.
func newTwin(t testing.TB, kind single, names ...string) *twin {
	rng := rand.New(rand.NewPCG(71, uint64(kind.k*1000+kind.d)))
	w := &twin{single: kind, means: make([]float32, max(2, kind.k)*kind.d), spread: make([]float32, kind.d)}
	for i := range w.means {
		w.means[i] = float32(2 * math.Abs(rng.NormFloat64()))
		if rng.IntN(3) > 0 {
			w.means[i] *= 0.1
		}
		if kind.nonlinear {
			w.means[i] = float32(rng.NormFloat64() - 6)
		}
	}
	for j := range w.spread {
		w.spread[j] = float32(0.8 / math.Sqrt(1+float64(j)/4))
		if kind.nonlinear {
			w.spread[j] = 1
		}
	}
	if kind.nonlinear {
		for c := range kind.k {
			w.means[c*kind.d+c] = 0
		}
	}
	training, weights := w.training(rng)
	m, h := w.network(t, weights)
	w.mf = w.meanField(rng, training)
	x := w.validation(rng, weights)
	for i := range score.All {
		s := &score.All[i]
		if !s.Suits(h.Head) || len(names) > 0 && !slices.Contains(names, s.Name) {
			continue
		}
		f, err := s.Fit(training)
		if s.Name == "learned" {
			f, err = score.Learn(training, x, w.shifted(rng, weights))
		}
		if errors.Is(err, score.ErrNoFit) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		w.scores = append(w.scores, score.Serve(f, f.Values(x)))
	}
	w.decisions()
	for i := range w.both {
		mf := *w.mf
		mf.Single = i == 1
		if mf.Single && !w.nonlinear {
			mf.Intervals, _ = attach.Single(w.k, cmp.Or(w.unequal, 10))
		}
		for j, s := range w.scores {
			for _, one := range attach.Scores(s, true) {
				if j > 0 {
					one.Name = s.Name + "/" + one.Name
				}
				mf.Scores = append(mf.Scores, one)
			}
		}
		fused, outputs, err := fuse.Append(m, h, &mf)
		if err != nil {
			t.Fatal(err)
		}
		w.both[i], w.outputs[i] = startFused(t, fused, outputs), outputs
		if mf.Single {
			plainOperators(t, kind.name, fused)
		}
	}
	return w
}

// plainOperators checks that a graph has no float64, casts nothing to int64, and has no graphs within it.
func plainOperators(t testing.TB, what string, m *onnx.Model) {
	g := m.Proto().GetGraph()
	for _, n := range g.GetNode() {
		switch n.Op() {
		case "If", "Loop", "Scan":
			t.Errorf("%s: the float32 form has the operator %s", what, n.Op())
		}
		for _, a := range n.GetAttribute() {
			to := tensor.Type(a.GetI())
			if n.Op() == "Cast" && a.GetName() == "to" && (to == tensor.Float64 || to == tensor.Int64) {
				t.Errorf("%s: %s casts to %s", what, n.GetName(), to)
			}
		}
	}
	for _, c := range g.GetInitializer() {
		if tensor.Type(c.GetDataType()) == tensor.Float64 {
			t.Errorf("%s: the constant %s is float64", what, c.GetName())
		}
	}
	for _, o := range m.Outputs() {
		if o.Type == tensor.Float64 {
			t.Errorf("%s: the output %s is float64", what, o.Name)
		}
	}
}

// training draws training data of the classes, and the weights of a linear classifier of them, [d,K].
func (w *twin) training(rng *rand.Rand) (*score.Training, []float64) {
	const n, sample = 4000, 400
	d, k, classes := w.d, w.k, w.classes()
	sums := func() *score.Training {
		s := &score.Training{K: k, D: d, Link: w.link, N: n, Gram: make([]float64, d*d), Sum: make([]float64, d)}
		if w.link != layer.Sigmoid || k == 1 {
			s.ClassSums, s.ClassCounts = make([]float64, classes*d), make([]int, classes)
		}
		return s
	}
	add := func(s *score.Training, class int, x []float64) {
		for i, v := range x {
			s.Sum[i] += v
			for j, u := range x {
				s.Gram[i*d+j] += v * u
			}
			if s.ClassSums != nil {
				s.ClassSums[class*d+i] += v
			}
		}
		if s.ClassSums != nil {
			s.ClassCounts[class]++
		}
	}
	t, directions := sums(), sums()
	for i := range n {
		class := i % classes
		x := w.features(rng, class, 1)
		wide, norm := make([]float64, d), 0.0
		for j, v := range x {
			wide[j] = float64(v)
			norm += wide[j] * wide[j]
		}
		add(t, class, wide)
		for j := range wide {
			wide[j] /= math.Sqrt(norm)
		}
		add(directions, class, wide)
		if i < sample {
			t.Sample.Features = append(t.Sample.Features, x...)
		}
	}
	t.Sample.M = sample
	if t.ClassSums != nil {
		t.Directions = directions
	}
	t.Leverages = func(dst []float64, phi []float32, n int) error {
		for i := range n {
			q := values(&w.mf.Forms, phi[i*d:(i+1)*d])
			dst[i] = q[k] / (1 - min(q[k], 0.9))
		}
		return nil
	}
	if w.nonlinear {
		return t, nil
	}
	t.W, t.B = make([]float64, k*d), make([]float64, k)
	weights := make([]float64, d*k)
	for j := range d {
		mean := t.Sum[j] / n
		for c := range k {
			v := (float64(w.means[(classes-k+c)*d+j]) - mean) * 1.5
			t.W[c*d+j], weights[j*k+c] = float64(float32(v)), float64(float32(v))
		}
	}
	return t, weights
}

// network is y = x·w, or without weights a copy of x by which features are known.
func (w *twin) network(t testing.TB, weights []float64) (*onnx.Model, *head.Head) {
	const opset = 17
	g := &onnxpb.Graph{Name: new("network"),
		Input:  []*onnxpb.ValueInfo{onnxpb.TensorInfo("x", tensor.Float32, -1, int64(w.d))},
		Output: []*onnxpb.ValueInfo{onnxpb.TensorInfo("y", tensor.Float32, -1, int64(w.k))}}
	o := head.Options{Link: w.link}
	if w.nonlinear {
		o.Kind, o.Features = head.Scores, "z"
		g.Node = []*onnxpb.Node{onnxtest.Node("Identity", "x", "z"), onnxtest.Node("Identity", "z", "y")}
	} else {
		g.Node = []*onnxpb.Node{onnxtest.Node("MatMul", "x w", "y")}
		g.Initializer = []*onnxpb.Tensor{onnxtest.FloatTensor("w", weights, int64(w.d), int64(w.k))}
	}
	m, err := onnx.Parse("network", onnxtest.Marshal(t, &onnxpb.Model{IrVersion: new(int64(8)), Graph: g,
		OpsetImport: []*onnxpb.OperatorSet{{Version: new(int64(opset))}}}))
	if err != nil {
		t.Fatal(err)
	}
	h, err := head.Find(m, o)
	if err != nil {
		t.Fatal(err)
	}
	return m, h
}

// meanField is a head with the posterior of a Kronecker-factored curvature.
func (w *twin) meanField(rng *rand.Rand, training *score.Training) *fuse.MeanField {
	d, k := w.d, w.k
	mf := &fuse.MeanField{Plain: w.plain, Method: w.method}
	if w.affine {
		h := layer.Head{Logits: k, Link: w.link}
		r := h.AffineRank()
		mf.Affine = &layer.Affine{Scale: make([]float64, k), Offset: make([]float64, k), Left: make([]float64, k*r),
			Right: make([]float64, r*k)}
		for j := range k {
			mf.Affine.Scale[j], mf.Affine.Offset[j] = 0.7+0.1*rng.NormFloat64(), 0.3*rng.NormFloat64()
		}
		for j := range k * r {
			mf.Affine.Left[j], mf.Affine.Right[j] = 0.1*rng.NormFloat64(), 0.1*rng.NormFloat64()
		}
	}
	if w.prior {
		for range k {
			mf.Prior = append(mf.Prior, rng.NormFloat64())
		}
	}
	if w.nonlinear {
		return mf
	}
	mf.Lambda0, mf.NLL = meanfield.Lambda0, layer.Temperatures{Act: 0.9, Ens: 0.4}
	mf.OOD = layer.Temperatures{Act: 1.6, Ens: 0.05}
	if w.temperature.Act > 0 {
		mf.OOD = w.temperature
	}
	mf.Intervals = attach.Intervals(k, 2, cmp.Or(w.unequal, 10))
	q, lambda, err := eigen.Semidefinite(slices.Clone(training.Gram), d, 1)
	if err != nil {
		panic(err)
	}
	var mean float64
	for _, l := range lambda {
		mean += l / float64(d)
	}
	curvature := make([]float64, k) // by class
	for j := range curvature {
		curvature[j] = 0.2 * math.Pow(cmp.Or(w.unequal, 10), -rng.Float64())
	}
	prior, damping := 1e-4*mean, 1e-3*mean
	mf.Forms = layer.Quadratic{Forms: k + 1, Center: make([]float64, d), Projection: q, Offset: make([]float64, d)}
	for _, l := range lambda {
		for _, c := range curvature {
			mf.Forms.Weights = append(mf.Forms.Weights, 1/(max(l, 0)*c+prior))
		}
		mf.Forms.Weights = append(mf.Forms.Weights, 1/(max(l, 0)+damping))
	}
	return mf
}

// examplesOf computes what scores need of features.
func (w *twin) examplesOf(features []float32, weights []float64) score.Examples {
	d, k := w.d, w.k
	x := score.Examples{N: len(features) / d, K: k, D: d, Link: w.link, Nonlinear: w.nonlinear, Features: features}
	for i := range x.N {
		phi := features[i*d : (i+1)*d]
		if w.nonlinear {
			x.Logits = append(x.Logits, phi...)
			continue
		}
		q := values(&w.mf.Forms, phi)
		logits, variances := make([]float32, k), make([]float32, k)
		for c := range k {
			var a float64
			for j, v := range phi {
				a += float64(v) * weights[j*k+c]
			}
			logits[c], variances[c] = float32(a), float32(q[c])
		}
		margin := w.margin(logits, variances)
		x.Logits, x.Variance = append(x.Logits, logits...), append(x.Variance, q[:k]...)
		x.Leverage, x.Margin = append(x.Leverage, q[k]), append(x.Margin, margin)
	}
	return x
}

// margin is by the fast way of many classes: as the quantiles of a score it need not be exact.
func (w *twin) margin(logits, variances []float32) float64 {
	if w.k < 100 {
		_, margin := formula(w.link, w.method, logits, variances, w.mf.OOD)
		return margin
	}
	mu, s2 := make([]float64, w.k), make([]float64, w.k)
	for j := range mu {
		mu[j], s2[j] = float64(logits[j])/w.mf.OOD.Act, float64(variances[j])/w.mf.OOD.Ens
	}
	return meanfield.NewWorkspace(w.k, meanfield.Lambda0).MF0(make([]float64, w.k), mu, s2)
}

func (w *twin) validation(rng *rand.Rand, weights []float64) score.Examples {
	var x []float32
	for i := range 600 {
		x = append(x, w.features(rng, i%w.classes(), 1)...)
	}
	return w.examplesOf(x, weights)
}

// shifted are examples with more noise.
func (w *twin) shifted(rng *rand.Rand, weights []float64) score.Examples {
	var x []float32
	for i := range 300 {
		x = append(x, w.features(rng, i%w.classes(), 3)...)
	}
	return w.examplesOf(x, weights)
}

// decisions adds those of the first score.
func (w *twin) decisions() {
	uncertainty, ood := 0.31, w.scores[0].Quantiles[230]
	set := &fuse.Set{Thresholds: []float64{setThreshold}}
	w.mf.Decisions = &fuse.Decisions{Uncertainty: &uncertainty, OOD: &ood, Set: set}
	if w.ranked {
		w.mf.Decisions.Set.Ranked = true
		for c := range w.k {
			w.mf.Decisions.Set.Penalties = append(w.mf.Decisions.Set.Penalties, 0.01*float64(max(0, c-1)))
		}
	}
}

// values are the quadratic forms of an example by their definition.
func values(q *layer.Quadratic, phi []float32) []float64 {
	out, d := make([]float64, q.Forms), len(q.Offset)
	for r := range d {
		z := q.Offset[r]
		for i, v := range phi {
			z += (float64(v) - q.Center[i]) * q.Projection[i*d+r]
		}
		for m := range out {
			out[m] += z * z * q.Weights[r*q.Forms+m]
		}
	}
	return out
}

// lost is by how much the float32 form of an example is off, in units of what is allowed, by what it is of.
type lost map[string]float64

// What is allowed: absolute and relative errors of probabilities, these of 1e-6 and more, and errors of percentiles.
// Where validation scores are so close that float32 does not tell them apart, percentiles are those of scores whose
// values have the rounding error scoreError.
const (
	probabilityError = 1e-6
	relativeError    = 1e-4
	percentileError  = 1e-5
	scoreError       = 3e-7 // relative
	pvalueError      = 1e-5 // of the bounded score, further: p-values have a step at each validation example

	// affineLogit is the size of logits up to which this holds of probabilities by matrix scaling. Beyond it errors
	// grow with the logits, as those do that come of rounding the logits themselves.
	affineLogit = 20
)

// differences are scores that subtract quantities of their own, with how many times as much they lose: vim is a
// residual less an energy.
var differences = map[string]float64{"vim": 30}

// size is the largest absolute value.
func size(x []float32) (most float64) {
	for _, v := range x {
		most = max(most, math.Abs(float64(v)))
	}
	return most
}

// setThreshold is that of prediction sets.
const setThreshold = 0.871

// A tally counts the inputs of a comparison, those whose decisions differ, and those whose percentile is off by more
// than percentileError, by score.
type tally struct {
	inputs, decided int
	close           map[string]int
}

func (c *tally) add(o tally) {
	c.inputs, c.decided = c.inputs+o.inputs, c.decided+o.decided
	for name, n := range o.close {
		c.close[name] += n
	}
}

// rounding is the error of a bounded score, if scoreError is that of its value and its own.
func rounding(s *score.Served, ood float64) float64 {
	side := min(ood, 1-ood)
	if s.Similarity || side == 0 { // m/(m-v), or not known
		return scoreError * (ood + ood*math.Abs(1-ood))
	}
	z := math.Copysign(0.5/side-1, ood-0.5)
	return scoreError * (ood + 2*side*side*math.Abs(s.Median/s.Scale+z))
}

// percentile is that of a score, as [score.Served] has it.
func percentile(q []float64, ood float64) float64 {
	i, _ := slices.BinarySearch(q, ood)
	switch i {
	case 0:
		return 0
	case len(q):
		return 1
	}
	return (float64(i-1) + (ood-q[i-1])/(q[i]-q[i-1])) / float64(len(q)-1)
}

// compare runs both forms on features [N,d], and returns what each example has lost. Decisions that differ count or,
// where no threshold is near, are an error.
func (w *twin) compare(t *testing.T, x []float32, count *tally) []lost {
	n := len(x) / w.d
	var out [2]map[string]tensor.Tensor
	for i, s := range w.both {
		all, err := s.Run(t.Context(), []tensor.Tensor{{Name: "x", Shape: []int64{int64(n), int64(w.d)}, Data: x}})
		if err != nil {
			t.Fatal(err)
		}
		out[i] = map[string]tensor.Tensor{}
		for j, o := range w.outputs[i] {
			out[i][o.Key] = all[j]
		}
	}
	all := make([]lost, n)
	for i := range all {
		all[i] = lost{}
	}
	want, got := out[0]["probabilities"].Data.([]float32), out[1]["probabilities"].Data.([]float32)
	c := len(want) / n
	logits := out[0]["logits"].Data.([]float32)
	for i, v := range want {
		e := all[i/c]
		difference := math.Abs(float64(v) - float64(got[i]))
		if w.affine {
			difference /= max(1, size(logits[i/c*w.k:(i/c+1)*w.k])/affineLogit)
		}
		e.add("p", difference/probabilityError)
		if v >= 1e-6 {
			e.add("relative p", difference/float64(v)/relativeError)
		}
	}
	first := func(j int) string {
		if j == 0 {
			return ""
		}
		return w.scores[j].Name + "/"
	}
	near := make([]bool, n) // to the threshold of the score
	for j, s := range w.scores {
		of := func(i int, key string) []float64 { return numbersOf(out[i][first(j)+key]) }
		wide, narrow := of(0, attach.OODPercentile), of(1, attach.OODPercentile)
		scores, singles := of(0, attach.OODScore), of(1, attach.OODScore)
		pvalues := of(1, attach.OODPValue)
		for i, v := range wide {
			e := all[i]
			low, high, got := v, v, narrow[i]
			if v < 1 || scores[i] < 1 { // else not known, or beyond all
				by := rounding(s, scores[i])
				low = min(v, percentile(s.Quantiles, scores[i]-by))
				high = max(v, percentile(s.Quantiles, scores[i]+by))
			}
			e.add(s.Name, max(0, low-got, got-high)/percentileError/cmp.Or(differences[s.Name], 1))
			if !(math.Abs(v-got) <= percentileError) {
				count.close[s.Name]++
			}
			by := rounding(s, scores[i]) + pvalueError
			least, most := s.PValue(scores[i]+by)-1e-7, s.PValue(scores[i]-by)+1e-7
			if !(pvalues[i] >= least && pvalues[i] <= most) {
				e.add("p-value of "+s.Name, math.Inf(1))
			}
			e.add("score "+s.Name, math.Abs(scores[i]-singles[i])/scores[i]/1e-6)
			if j == 0 {
				near[i] = math.Abs(scores[i]-*w.mf.Decisions.OOD) < 2e-6
			}
		}
	}
	for i := range n {
		p := want[i*c : (i+1)*c]
		differs := out[0]["abstain"].Data.([]bool)[i] != out[1]["abstain"].Data.([]bool)[i]
		if differs && !near[i] && !approx.Equal(w.uncertainty(p), *w.mf.Decisions.Uncertainty, probabilityError) {
			t.Errorf("%s: abstain differs for uncertainty %v and ood_score %v", w.name, w.uncertainty(p), out[0]["ood_score"].Data.([]float64)[i])
		}
		sets, singles := out[0]["prediction_set"].Data.([]bool), out[1]["prediction_set"].Data.([]bool)
		for j := range c {
			if sets[i*c+j] != singles[i*c+j] {
				differs = true
				if low, high := w.setScore(p, j); low > setThreshold || high < setThreshold {
					t.Errorf("%s: prediction_set differs for class %d of p = %v", w.name, j, p)
				}
			}
		}
		if differs {
			count.decided++
		}
	}
	count.inputs += n
	return all
}

// setScore bounds the score of a class in a prediction set, if probabilities may be off by probabilityError.
func (w *twin) setScore(p []float32, j int) (low, high float64) {
	if !w.ranked {
		return 1 - float64(p[j]) - probabilityError, 1 - float64(p[j]) + probabilityError
	}
	penalties := w.mf.Decisions.Set.Penalties
	least, most := 0, 0 // classes before it
	for i, v := range p {
		if i == j {
			continue
		}
		d := float64(v) - float64(p[j])
		if d >= -2*probabilityError {
			high += float64(v) + probabilityError
			most++
		}
		if d > 2*probabilityError {
			low += float64(v) - probabilityError
			least++
		}
	}
	return low + penalties[least], high + penalties[most]
}

func (w *twin) uncertainty(p []float32) (u float64) {
	if w.link == layer.Sigmoid && w.k > 1 {
		for _, v := range p {
			u += math.Min(float64(v), 1-float64(v)) / float64(len(p))
		}
		return u
	}
	top := slices.Index(p, slices.Max(p))
	for i, v := range p {
		if i != top {
			u += float64(v)
		}
	}
	return u
}

// add keeps the largest, and NaN.
func (l lost) add(name string, v float64) {
	if !(v <= l[name]) {
		l[name] = v
	}
}

// drawn draws an input: of a class, with other noise, between classes, of another size, with large and with missing
// features, noise, or nothing.
func (w *twin) drawn(rng *rand.Rand) []float32 {
	x := w.features(rng, rng.IntN(w.classes()), []float64{0.3, 1, 1, 1, 3}[rng.IntN(5)])
	switch rng.IntN(8) {
	case 0:
		y, s := w.features(rng, rng.IntN(w.classes()), 1), rng.Float32()
		for j := range x {
			x[j] += s * (y[j] - x[j])
		}
	case 1:
		s := float32(math.Pow(10, 4*rng.Float64()-2))
		for j := range x {
			x[j] *= s
		}
	case 2:
		x[rng.IntN(w.d)] *= float32(math.Pow(10, 3*rng.Float64()))
	case 3:
		for j := range x {
			if rng.IntN(2) == 0 {
				x[j] = 0
			}
		}
	case 4:
		for j := range x {
			x[j] = float32(rng.NormFloat64() * 3)
		}
	case 5:
		if rng.IntN(8) == 0 {
			clear(x)
		}
	}
	return x
}

// changed draws a neighbour of an input.
func (w *twin) changed(rng *rand.Rand, x []float32) []float32 {
	y := slices.Clone(x)
	size := float32(math.Pow(10, -7*rng.Float64()))
	switch rng.IntN(5) {
	case 0:
		for j := range y {
			y[j] *= 1 + size*(2*rng.Float32()-1)
		}
	case 1:
		s := 1 + size*(2*rng.Float32()-1)
		for j := range y {
			y[j] *= s
		}
	case 2:
		y[rng.IntN(w.d)] = 0
	case 3:
		z := w.drawn(rng)
		for j := range y {
			y[j] += size * (z[j] - y[j])
		}
	default:
		for range 1 + rng.IntN(3) {
			y[rng.IntN(w.d)] += size * float32(3*rng.NormFloat64())
		}
	}
	for j, v := range y {
		y[j] = min(max(v, -1e3), 1e3)
	}
	return y
}

// A search compares batches of inputs, and takes steps from a batch to the next.
const batch, steps = 64, 16

// search returns the worst that it finds of each loss: on random inputs, and from the worst of some by steps to the
// worst of its neighbours.
func (w *twin) search(t *testing.T, seed uint64, random, searched int) (worst, found lost, count tally) {

	rng := rand.New(rand.NewPCG(seed, 3))
	worst, found, count.close = lost{}, lost{}, map[string]int{}
	inputs := map[string][]float32{}
	of := func(n int, draw func(i int) []float32) ([][]float32, []lost) {
		var rows [][]float32
		var x []float32
		for i := range n {
			rows = append(rows, draw(i))
			x = append(x, rows[i]...)
		}
		return rows, w.compare(t, x, &count)
	}
	// With many classes a batch takes a gigabyte.
	for n := range slices.Chunk(make([]struct{}, random), max(batch/2, min(8*batch, 80*batch/w.k))) {
		rows, all := of(len(n), func(int) []float32 { return w.drawn(rng) })
		for i, l := range all {
			for name, v := range l {
				if !(v <= worst[name]) {
					inputs[name] = rows[i]
				}
				worst.add(name, v)
			}
		}
	}
	names := []string{"p", "relative p"}
	for _, s := range w.scores {
		names = append(names, s.Name)
	}
	for i := range (searched + batch*steps - 1) / (batch * steps) {
		name := names[(int(seed)+4*i)%len(names)]
		at, value := inputs[name], worst[name]
		if i >= len(names) || at == nil {
			at, value = w.drawn(rng), 0
		}
		for range steps {
			rows, all := of(batch, func(j int) []float32 {
				if j == 0 {
					return w.drawn(rng)
				}
				return w.changed(rng, at)
			})
			for j, l := range all {
				for name, v := range l {
					found.add(name, v)
				}
				if l[name] > value {
					at, value = rows[j], l[name]
				}
			}
		}
	}
	return worst, found, count
}

// The float32 form gives what the float64 form gives, on random inputs and on the worst that a search finds:
// probabilities to 1e-6, and to 1e-4 of their size from 1e-6 on, and percentiles to 1e-5.
func TestTheSingleFormIsTheDoubleForm(t *testing.T) {
	t.Parallel()
	for _, kind := range singleKinds {
		random, searched, parts := 64, batch*steps, 1
		switch {
		case *randomInputs > 0:
			random, searched, parts = *randomInputs, *searchedInputs, 4
		case kind.unequal > 0:
			continue
		case kind.k > 100:
			random, searched = 64, 0
		}
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			w := newTwin(t, kind)
			w.refusesAbsurd(t)
			worst, found, count := lost{}, lost{}, tally{close: map[string]int{}}
			var one sync.Mutex
			var all sync.WaitGroup
			for part := range parts {
				all.Go(func() {
					a, b, n := w.search(t, uint64(part), random/parts, searched/parts)
					one.Lock()
					defer one.Unlock()
					count.add(n)
					for name, v := range a {
						worst.add(name, v)
					}
					for name, v := range b {
						found.add(name, v)
					}
				})
			}
			all.Wait()
			var report strings.Builder
			names := maps.Clone(worst)
			maps.Copy(names, found)
			for _, name := range slices.Sorted(maps.Keys(names)) {
				fmt.Fprintf(&report, "\n%-28s %8.3f random %8.3f searched", name, worst[name], found[name])
				if strings.HasPrefix(name, "score ") {
					continue
				}
				if !(worst[name] <= 1) || !(found[name] <= 1) {
					t.Errorf("%s: %s is off by %.3g times what is allowed, and %.3g times on inputs that were searched for", kind.name, name, worst[name], found[name])
				}
			}
			t.Logf("%s: of %d inputs %d have other decisions, and some percentiles off by more than %v: %v%s",
				kind.name, count.inputs, count.decided, percentileError, count.close, report.String())
		})
	}
}

// absurd are inputs that must be out-of-distribution: with NaN, an infinity or the largest number in one place or all.
func (w *twin) absurd() (x []float32, n int) {
	rng := rand.New(rand.NewPCG(7, 7))
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat32, -math.MaxFloat32} {
		for _, places := range []int{1, w.d} {
			row := w.drawn(rng)
			for j := range places {
				row[j] = float32(v)
			}
			x, n = append(x, row...), n+1
		}
	}
	return x, n
}

// Features that are not finite, or as large as float32 goes, are beyond all validation data, for every score.
func (w *twin) refusesAbsurd(t *testing.T) {
	x, n := w.absurd()
	out, err := w.both[1].Run(t.Context(), []tensor.Tensor{{Name: "x", Shape: []int64{int64(n), int64(w.d)}, Data: x}})
	if err != nil {
		t.Fatal(err)
	}
	for j, o := range w.outputs[1] {
		beyond := float32(1)
		switch key := o.Key[strings.LastIndex(o.Key, "/")+1:]; key {
		case attach.OODPValue:
			beyond = 1. / 601
		case attach.OODScore, attach.OODPercentile:
		default:
			continue
		}
		for i, v := range out[j].Data.([]float32) {
			if !approx.Equal(float64(v), float64(beyond), 1e-7) {
				t.Errorf("%s: %s of %v is %v, want %v", w.name, o.Key, x[i*w.d:i*w.d+2], v, beyond)
			}
		}
	}
	at := slices.IndexFunc(w.outputs[1], func(o fuse.Output) bool { return o.Key == "abstain" })
	for i, abstain := range out[at].Data.([]bool) {
		if !abstain {
			t.Errorf("%s: an answer for %v", w.name, x[i*w.d:i*w.d+2])
		}
	}
}

// Both forms run in turn, on batches like the training data, with the default score: ratio is the time of float32 over
// that of float64.
func BenchmarkSingleForm(b *testing.B) {
	for _, kind := range singleKinds {
		if kind.unequal > 0 || kind.temperature.Act > 0 {
			continue
		}
		b.Run(kind.name, func(b *testing.B) {
			name := "guarded_margin"
			if kind.nonlinear {
				name = "mahalanobis"
			}
			w := newTwin(b, kind, name)
			for _, n := range []int{1, 64} {
				b.Run(fmt.Sprintf("batch=%d", n), func(b *testing.B) {
					rng := rand.New(rand.NewPCG(1, 1))
					var x []float32
					for range n {
						x = append(x, w.features(rng, rng.IntN(w.classes()), 1)...)
					}
					in := []tensor.Tensor{{Name: "x", Shape: []int64{int64(n), int64(w.d)}, Data: x}}
					var took [2]time.Duration
					for b.Loop() {
						for i, s := range w.both {
							start := time.Now()
							if _, err := s.Run(b.Context(), in); err != nil {
								b.Fatal(err)
							}
							took[i] += time.Since(start)
						}
					}
					b.ReportMetric(float64(took[0].Microseconds())/float64(b.N), "µs/float64")
					b.ReportMetric(float64(took[1].Microseconds())/float64(b.N), "µs/float32")
					b.ReportMetric(float64(took[1])/float64(took[0]), "ratio")
				})
			}
		})
	}
}
