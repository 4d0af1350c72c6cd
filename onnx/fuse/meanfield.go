package fuse

import (
	"math"
	"slices"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// Absurdly large squares of features, variances and logits are clipped to these numbers: in float32 they would be
// infinite, and the scores NaN. Such an example is far out of distribution: its T are as large as its logits.
const (
	mostSquare = 1e28
	mostForm   = 1e37
	mostLogit  = 1e14
)

// forms returns the variances of the logits, [N,K], and the leverage, [N,1]. The variances are in units of the T_ens
// of the pair NLL: at T_ens = 1 they may be beyond float32, for logits in unusual units.
func (f *fuser) forms(phi string) (variance, leverage string) {
	q := &f.mf.Forms
	d, terms, forms := int64(len(q.Center)), int64(len(q.Offset)), int64(q.Forms)
	constant := f.float
	if q.Double {
		constant = f.double
		phi = f.cast(phi, tensor.Float64)
	}
	if !zero(q.Center) {
		phi = f.binary("Sub", phi, constant("center", q.Center, d))
	}
	projection, offset := q.Projection, q.Offset
	if q.Weights == nil {
		// Each column belongs to one form, whose scale is multiplied into it.
		scale := make([]float64, terms)
		for r := range scale {
			scale[r] = math.Sqrt(f.formScale(int64(r) / (terms / forms)))
		}
		projection, offset = scaled(projection, scale), scaled(offset, scale)
	}
	z := f.op("Gemm", []string{phi, constant("projection", projection, d, terms), constant("offset", offset, terms)})
	if q.Weights == nil {
		// Sum over the last axis of [N,M,R/M].
		sums := f.sumSquares(f.reshape(z, 0, forms, terms/forms), 2, false)
		if q.Double {
			sums = f.cast(sums, tensor.Float32)
		}
		sums = f.clip(sums, 0, mostForm)
		return f.slice(sums, 1, 0, f.k), f.slice(sums, 1, f.k, f.k+1)
	}
	u := f.binary("Mul", z, z)
	if q.Double {
		u = f.cast(u, tensor.Float32)
	}
	u = f.clip(u, 0, mostSquare)
	if q.Reduction != nil {
		inner := int64(len(q.Reduction)) / terms
		u, terms = f.binary("MatMul", u, f.float("reduction", q.Reduction, terms, inner)), inner
	}
	variances, leverages := make([]float64, 0, terms*f.k), make([]float64, 0, terms)
	for r := range terms {
		row := q.Weights[r*forms : (r+1)*forms]
		for _, v := range row[:f.k] {
			variances = append(variances, v*f.formScale(0))
		}
		leverages = append(leverages, row[f.k])
	}
	return f.clip(f.binary("MatMul", u, f.float("variances", variances, terms, f.k)), 0, mostForm),
		f.binary("MatMul", u, f.float("leverages", leverages, terms, 1))
}

// variances converts the variances from forms to those at T_ens = 1.
func (f *fuser) variances(variance, output string) {
	own := f.binary("Mul", f.widened(variance), f.reals("unit", []float64{f.mf.NLL.Ens}))
	f.as(output, func() string { return f.clip(f.narrowed(own), 0, mostForm) })
}

// formScale is the factor of a form: 1 for the leverage, and 1/unit for variances.
func (f *fuser) formScale(m int64) float64 {
	if m == f.k {
		return 1
	}
	return 1 / f.mf.NLL.Ens
}

// scaled multiplies the columns of a row-major matrix.
func scaled(x, columns []float64) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = v * columns[i%len(columns)]
	}
	return out
}

func zero(x []float64) bool {
	for _, v := range x {
		if v != 0 {
			return false
		}
	}
	return true
}

// pairs returns the distinct pairs of temperatures: that of probabilities, if they need one, and last that of
// margins, if these are wanted.
func (f *fuser) pairs() (pairs []layer.Temperatures) {
	if f.mf.Plain == 0 {
		pairs = append(pairs, f.mf.NLL)
	}
	if f.mf.margins() && !slices.Contains(pairs, f.mf.OOD) {
		pairs = append(pairs, f.mf.OOD)
	}
	return pairs
}

// probabilities computes the output probabilities from logits and their variances from forms, both [N,K], and
// returns the margin of 1 - max p under the pair OOD, [N,1], or "" if there is none. Margins must differ even if
// probabilities are nearly equal, or all but one nearly 0: so numbers are logarithms, and no difference is formed of
// numbers that are nearly equal and already rounded.
func (f *fuser) probabilities(logits, variance, output string) (margin string) {
	pairs := f.pairs()
	p := int64(len(pairs))
	act, ens := make([]float64, p), make([]float64, p)
	for i, t := range pairs {
		act[i] = 1 / t.Act
		ens[i] = f.mf.Lambda0 * (f.mf.NLL.Ens / t.Ens)
	}
	logits = f.mapped(f.clip(logits, -mostLogit, mostLogit))
	if f.mf.Plain > 0 {
		y := f.binary("Mul", logits, f.number(1/f.mf.Plain))
		if f.link == layer.Sigmoid {
			f.outputSigmoids(y, output)
		} else {
			f.outputSoftmax(f.logWeights(y), output)
		}
	}
	if p == 0 {
		return ""
	}
	variance = f.widened(variance)
	// λ₀s² and μ of every pair, [N,P,K].
	spread := f.binary("Mul", f.reshape(variance, 0, 1, f.k), f.reals("lambda", ens, p, 1))
	if f.mf.Single {
		spread = f.clip(spread, 0, mostForm)
	}
	mu := f.binary("Mul", f.reshape(logits, 0, 1, f.k), f.reals("inverse_act", act, p, 1))
	switch {
	case f.link.Separate():
		return f.separate(f.binary("Div", mu, f.temperatures(spread)), output)
	case f.mf.Method == MF1:
		return f.normalised(f.mf1(mu, spread), output)
	}
	return f.normalised(f.mf0(mu, f.temperatures(spread)), output)
}

// belowTop subtracts the largest of each row, [N,K]. The softmax is invariant to it.
func (f *fuser) belowTop(logits string) (below, top string) {
	top = f.reduce("ReduceMax", logits, 1, true)
	return f.binary("Sub", logits, top), top
}

// mapped maps logits, [N,K] of float32, to those of probabilities, of real. With Softmax the largest is 0.
//
// A map z = M(a + c) + b of a constant c for all classes differs between classes by the row sums of M. With Softmax
// only differences between them count, so that logits which are all large do not take digits from the image.
func (f *fuser) mapped(logits string) string {
	a := f.mf.Affine
	var top string
	if f.link == layer.Softmax {
		logits, top = f.belowTop(f.widened(logits))
	} else {
		logits = f.widened(logits)
	}
	if a == nil {
		return logits
	}
	if a.Smoothing > 0 {
		e := f.unary("Exp", logits)
		p := f.binary("Div", e, f.sum(e, 1, f.k, true))
		logits, top = f.unary("Log", f.binary("Add", p, f.number(a.Smoothing))), ""
	}
	if a.Scale != nil {
		logits = f.image(logits, top)
	}
	if f.link == layer.Softmax {
		logits, _ = f.belowTop(logits)
	}
	return logits
}

// image returns the affine image of logits, [N,K], of those above them by top, [N,1], unless it is "".
func (f *fuser) image(logits, top string) string {
	a, k, r := f.mf.Affine, f.k, int64(f.mf.Affine.Rank())
	rest := f.reals("offset", a.Offset, k)
	if r > 0 {
		along := f.binary("MatMul", logits, f.reals("right", transposed(a.Right, r, k), k, r))
		rest = f.binary("Add", f.binary("MatMul", along, f.reals("left", transposed(a.Left, k, r), r, k)), rest)
	}
	// The largest term is added last: each sum with it is rounded by as much as it is large.
	image := func() string { return f.binary("Add", rest, f.binary("Mul", logits, f.reals("scale", a.Scale, k))) }
	if top == "" {
		return image()
	}
	sums := slices.Clone(a.Scale) // of rows, less their mean
	for l := range r {
		var all float64
		for _, v := range a.Right[l*k : (l+1)*k] {
			all += v
		}
		for j := range k {
			sums[j] += a.Left[j*r+l] * all
		}
	}
	var mean float64
	for _, v := range sums {
		mean += v / float64(k)
	}
	for j := range sums {
		sums[j] -= mean
	}
	rest = f.binary("Add", rest, f.binary("Mul", top, f.reals("row_sums", sums, k)))
	return image()
}

func transposed(x []float64, rows, columns int64) []float64 {
	out := make([]float64, 0, len(x))
	for c := range columns {
		for r := range rows {
			out = append(out, x[r*columns+c])
		}
	}
	return out
}

// temperatures returns T = √(1+λ₀s²).
func (f *fuser) temperatures(spread string) string {
	return f.unary("Sqrt", f.binary("Add", spread, f.number(1)))
}

// pair selects a pair from [N,P,n]: [N,n].
func (f *fuser) pair(x string, i, n int64) string {
	if len(f.pairs()) > 1 {
		x = f.slice(x, 1, i, i+1)
	}
	return f.reshape(x, 0, n)
}

// scored selects the last pair from [N,P,K], that of the margin: [N,K].
func (f *fuser) scored(x string) string { return f.pair(x, int64(len(f.pairs()))-1, f.k) }

// output casts probabilities, [N,C], the output of the last node, to their output.
func (f *fuser) output(p, output string) {
	f.as(output, func() string { return f.narrowed(p) })
}

// outputSoftmax outputs the softmax of logarithms [N,K].
func (f *fuser) outputSoftmax(l, output string) {
	if f.mf.Prior != nil {
		l = f.binary("Add", l, f.reals("prior", f.mf.Prior, f.k))
	}
	if !f.mf.Single {
		f.output(f.op("Softmax", []string{l}, onnxpb.IntAttribute("axis", 1)), output)
		return
	}
	// Engines differ in what their Softmax rounds.
	e := f.unary("Exp", f.binary("Sub", l, f.reduce("ReduceMax", l, 1, true)))
	f.output(f.binary("Div", e, f.sum(e, 1, f.k, true)), output)
}

// outputSigmoids outputs the sigmoids of logits y, [N,K].
//
// With e = exp(-|y|), σ(y) = exp(min(y,0))/(1+e), without cancellation. The runtime's Sigmoid is constant beyond 18.
func (f *fuser) outputSigmoids(y, output string) {
	if p := f.mf.Prior; p != nil { // of the two classes of a single logit
		y = f.binary("Add", y, f.number(p[1]-p[0]))
	}
	one := f.binary("Add", f.unary("Exp", f.unary("Neg", f.unary("Abs", y))), f.number(1))
	sigmoid := func(y string) string { return f.binary("Div", f.unary("Exp", f.negative(y)), one) }
	if f.k > 1 {
		f.output(sigmoid(y), output)
		return
	}
	no, yes := sigmoid(f.unary("Neg", y)), sigmoid(y)
	f.output(f.op("Concat", []string{no, yes}, onnxpb.IntAttribute("axis", 1)), output)
}

// negative returns min(y,0).
func (f *fuser) negative(y string) string {
	return f.binary("Mul", f.binary("Sub", y, f.unary("Abs", y)), f.number(0.5))
}

// logWeights returns the logarithms of what probabilities are proportional to under the link.
func (f *fuser) logWeights(y string) string { return layer.LogWeights(&Terms{f: f}, f.link, y) }

// normalised outputs the softmax of logarithms [N,P,K], and returns the margin.
func (f *fuser) normalised(logp, output string) (margin string) {
	if f.mf.Plain == 0 {
		f.outputSoftmax(f.pair(logp, 0, f.k), output)
	}
	if !f.mf.margins() {
		return ""
	}

	// The margin is m - log mean exp(m-x_k) over all classes except the most probable, with x_k = max l - l_k and m
	// the least of them. Of several that tie for the maximum, all but one are included, with x = 0. The logarithm is
	// log(1 - lack/sum), where lack is the sum of 1 - exp(m-x_k).
	l := f.scored(logp)
	x := f.binary("Sub", f.reduce("ReduceMax", l, 1, true), l)
	smaller := f.compared("Greater", x, f.number(0))
	others := f.binary("Sub", f.number(float64(f.k-1)), f.reduce("ReduceSum", smaller, 1, true))
	// Move the excluded class so far that its exponential is zero.
	const far = 1e36
	apart := f.binary("Add", x, f.binary("Mul", f.not(smaller), f.number(far)))
	single := f.compared("Less", others, f.number(0.5))
	least := f.binary("Mul", f.reduce("ReduceMin", apart, 1, true), single)
	y := f.binary("Sub", least, apart)
	sum := f.binary("Add", f.sum(f.unary("Exp", y), 1, f.k, true), others)
	return f.above(least, f.binary("Mul", smaller, f.expm1(y)), sum)
}

// above returns m + log(1 + Σ -y / sum), [N,1], for terms y ≤ 0, [N,K].
func (f *fuser) above(m, y, sum string) string {
	lack := f.unary("Neg", f.sum(y, 1, f.k, true))
	return f.binary("Add", m, f.log1p(f.binary("Div", lack, sum)))
}

// sum returns the sums over n numbers of the last axis. In float32 many equal numbers are added in blocks: each
// addition to a sum that is larger by far would round the same way.
func (f *fuser) sum(x string, axis, n int64, keep bool) string {
	const few = 64
	if !f.mf.Single || n <= few {
		return f.reduce("ReduceSum", x, axis, keep)
	}
	length := int64(math.Sqrt(float64(n))) // of a block
	for l := length; l > length/2; l-- {
		if n%l == 0 {
			length = l
			break
		}
	}
	whole, rest := n-n%length, ""
	if whole < n {
		rest = f.reduce("ReduceSum", f.slice(x, axis, whole, n), axis, keep)
		x = f.slice(x, axis, 0, whole)
	}
	blocks := f.reshape(x, append(make([]int64, axis), whole/length, length)...)
	all := f.reduce("ReduceSum", f.reduce("ReduceSum", blocks, axis+1, false), axis, keep)
	if rest != "" {
		all = f.binary("Add", all, rest)
	}
	return all
}

// not is 1 - x of a comparison's result.
func (f *fuser) not(x string) string { return f.binary("Sub", f.number(1), x) }

// either returns x where near is 1, and other where it is 0. Both must be finite.
func (f *fuser) either(near, x, other string) string {
	return f.binary("Add", f.binary("Mul", near, x), f.binary("Mul", f.not(near), other))
}

// polynomial returns c₀ + c₁z + c₂z² + …, of scalars or of tensors that broadcast with z.
func (f *fuser) polynomial(z string, c []string) string {
	last := len(c) - 1
	sum := c[last]
	for _, v := range slices.Backward(c[:last]) {
		sum = f.binary("Add", f.binary("Mul", sum, z), v)
	}
	return sum
}

// series returns how many terms series have that are used up to ½ in float32. In float64 they are used up to shallow:
// a difference from 1 that is larger has lost a few of its bits, and every term is an operator that small models wait
// for.
func (f *fuser) series(single, double int) int {
	if f.mf.Single {
		return single
	}
	return double
}

// shallow bounds what is computed from series.
func (f *fuser) shallow() float64 {
	if f.mf.Single {
		return 1. / 2
	}
	return 1. / 512
}

// expm1 returns exp x - 1 for x up to ½: near zero its Taylor polynomial.
func (f *fuser) expm1(x string) string {
	c := make([]string, f.series(8, 5)) // 1/n!, of x^(n-1): the first left out is 2^-8/9!, or 2^-45/6!
	for i, v := 0, 1.0; i < len(c); i++ {
		v /= float64(i + 1)
		c[i] = f.number(v)
	}
	near := f.compared("Less", f.unary("Abs", x), f.number(f.shallow()))
	z := f.binary("Mul", x, near)
	return f.either(near, f.binary("Mul", z, f.polynomial(z, c)), f.binary("Sub", f.unary("Exp", x), f.number(1)))
}

// log1p returns log(1+x) for x from -½ on. With s = x/(2+x) it is 2 atanh s = 2s(1 + s²/3 + s⁴/5 + …), for s up to 1/9,
// or as much less as shallow is. This takes no logarithm of numbers near 1, which many runtimes have to an absolute
// error only.
func (f *fuser) log1p(x string) string {
	c := make([]string, f.series(5, 3)) // the first left out is 3^-20/11, or 2^-66/7
	for i := range c {
		c[i] = f.number(2 / float64(2*i+1))
	}
	s := f.binary("Div", x, f.binary("Add", x, f.number(2)))
	near := f.compared("Less", f.unary("Abs", s), f.number(f.shallow()*2/9))
	z := f.binary("Mul", s, near)
	series := f.binary("Mul", z, f.polynomial(f.binary("Mul", z, z), c))
	return f.either(near, series, f.unary("Log", f.binary("Add", x, f.number(1))))
}

// separate outputs the sigmoids of y = μ/T, [N,P,K], and returns the margin.
func (f *fuser) separate(y, output string) (margin string) {
	if f.link.Normalised() {
		return f.normalised(f.logWeights(y), output)
	}
	if f.mf.Plain == 0 {
		f.outputSigmoids(f.pair(y, 0, f.k), output)
	}
	if !f.mf.margins() {
		return ""
	}
	// With x = |y|, m the least of them and w = 1/(1+exp(-x)) the margin is m + log(Σ w / Σ w exp(m-x)).
	x := f.unary("Abs", f.scored(y))
	w := f.unary("Reciprocal", f.binary("Add", f.unary("Exp", f.unary("Neg", x)), f.number(1)))
	least := f.reduce("ReduceMin", x, 1, true)
	d := f.binary("Sub", least, x)
	sum := f.sum(f.binary("Mul", w, f.unary("Exp", d)), 1, f.k, true)
	return f.above(least, f.binary("Mul", w, f.expm1(d)), sum)
}

// mf1 returns log(K ẽ_k) = -log mean_i exp((μ_i-μ_k)/√(1+λ₀s²_k+λ₀s²_i)), [N,P,K]. The term i = k
// is exp(0) in the paper as here.
func (f *fuser) mf1(mu, spread string) string {
	column := func(x string) string { return f.reshape(x, 0, 0, f.k, 1) }
	row := func(x string) string { return f.reshape(x, 0, 0, 1, f.k) }
	t := f.temperatures(f.binary("Add", column(spread), row(spread)))
	x := f.binary("Div", f.binary("Sub", row(mu), column(mu)), t)
	top := f.reduce("ReduceMax", x, 3, true)
	mean := func(y string) string {
		return f.binary("Div", f.sum(y, 3, f.k, true), f.number(float64(f.k)))
	}
	direct := f.binary("Add", f.unary("Log", mean(f.unary("Exp", f.binary("Sub", x, top)))), top)
	// A mean near 1 is that of exp(x) - 1 plus 1.
	small := f.compared("Less", top, f.number(0.5))
	above := mean(f.expm1(f.extreme("Min", x, f.number(0.5), 4)))
	near := f.binary("Mul", small, f.compared("Greater", above, f.number(-0.5)))
	close := f.log1p(f.binary("Mul", near, above))
	return f.unary("Neg", f.reshape(f.either(near, close, direct), 0, 0, f.k))
}

// mf0 returns μ_k/T_k - F(1/T_k), [N,P,K], log(K ẽ_k) up to a constant for all classes, with F(b) = log mean_i
// exp(bμ_i), for μ ≤ 0 with a largest of zero.
//
// F is as small as bμ, so that the difference is accurate at high temperatures. With enough classes F is computed at
// m Chebyshev nodes of t = log T over the example's interval, and interpolated at the T_k. In exact arithmetic the
// error, for any logits, is about |F|/log K times 200 log K ρ^-m/(ρ-1) with ρ = x + √(1+x²), x =
// 1.9 atan(π/log(K-1)) / log(T_max/T_min): see meanfield.Nodes, which chooses m.
//
// The constant is F at the node where it is largest. It is subtracted from the other values before they are
// interpolated, so that rounding is relative to the differences between classes, and in a part of an interval to those
// in that part.
func (f *fuser) mf0(mu, t string) string {
	of, intervals := f.logits(mu), f.mf.Intervals
	var mean string
	switch {
	case len(intervals) == 0 || !f.saves(intervals[0]):
		mean = f.exact(of, t)
	case f.mf.Single:
		mean = f.clipped(intervals[0], of, t)
	default:
		log := f.unary("Log", t)
		low, half := f.interval(f.reduce("ReduceMin", log, 2, true), f.reduce("ReduceMax", log, 2, true))
		mean = f.within(intervals, half, func(i Interval) string {
			if !f.saves(i) {
				return f.exact(of, t)
			}
			return f.parts(i, of, log, low, half)
		})
	}
	return f.binary("Sub", f.binary("Div", mu, t), mean)
}

// saves reports whether interpolation takes fewer terms than the K² of exact sums.
func (f *fuser) saves(i Interval) bool { return 2*int64(i.Parts*i.Nodes) < f.k }

// interval returns the least and half the length of an interval of log T, a little wider than from low to high: in one
// of a few units in the last place, rounding would move points far outside, where polynomials are huge.
func (f *fuser) interval(low, high string) (least, half string) {
	const wider = 1. / 64
	half = f.binary("Add", f.binary("Mul", f.binary("Sub", high, low), f.number(0.5)), f.number(wider))
	return f.binary("Sub", low, f.number(wider)), half
}

// clipped computes F without a choice of intervals. Where no term of an F exceeds the bound of the series, it is the
// series. All other T_k are interpolated in the one interval from the least to the largest, or to the one where the
// series begins if that is less.
func (f *fuser) clipped(i Interval, of shifted, t string) string {
	log := f.unary("Log", t)
	low := f.reduce("ReduceMin", log, 2, true)
	bound := f.unary("Log", f.binary("Mul", of.depth, f.number(1/f.shallow())))
	high := f.extreme("Max", low, f.extreme("Min", f.reduce("ReduceMax", log, 2, true), bound, 3), 3)
	least, half := f.interval(low, high)
	inner, top := f.interpolated(int64(i.Nodes), of, f.extreme("Min", log, high, 3), least, half)
	lack, near := f.lack(f.unary("Reciprocal", t), of)
	return f.either(near, f.binary("Sub", f.log1p(f.unary("Neg", lack)), top), inner)
}

// within adds an If for each interval but the last: the first is used that no half length exceeds. NaN is ignored, so
// that an invalid example does not change how the others are computed.
func (f *fuser) within(intervals []Interval, half string, mean func(Interval) string) string {
	if len(intervals) == 1 || !f.saves(intervals[0]) {
		return mean(intervals[0])
	}
	branch := func(name string, write func() string) *onnxpb.Attribute {
		return onnxpb.GraphAttribute(name, f.subgraph("mfgs_"+name, func() *onnxpb.ValueInfo {
			return onnxpb.TensorInfo(write(), tensor.Float64, -1, int64(len(f.pairs())), f.k)
		}))
	}
	wider := f.cast(f.binary("Greater", half, f.number(0.5*math.Log(intervals[0].Ratio))), tensor.Float32)
	wide := f.binary("Greater", f.op("ReduceSum", []string{wider}, onnxpb.IntAttribute("keepdims", 0)), f.scalar(0.5))
	return f.op("If", []string{wide},
		branch("then_branch", func() string { return f.within(intervals[1:], half, mean) }),
		branch("else_branch", func() string { return mean(intervals[0]) }))
}

// shifted is logits μ ≤ 0, [N,P,K], for logMeanExp.
type shifted struct {
	terms string // [N,P,1,K]
	depth string // -min μ, or a little more, [N,P,1]
	// The mean of 1 - exp(bμ) is the polynomial of b·depth with these coefficients, [N,P,1] each; the first is 0.
	series []string
}

func (f *fuser) logits(mu string) shifted {
	const least = 1e-30 // of the depth, which is 0 for equal logits
	depth := f.binary("Add", f.unary("Neg", f.reduce("ReduceMin", mu, 2, true)), f.number(least))
	x := f.binary("Div", mu, depth)
	of := shifted{terms: f.reshape(mu, 0, 0, 1, f.k), depth: depth, series: []string{f.number(0)}}
	power, factorial := x, 1.0
	for n := 1; n <= f.series(8, 4); n++ { // what is left out is 2^-8/9! of the sum, or 2^-36/5!
		factorial *= float64(n)
		sum := f.sum(power, 2, f.k, true)
		of.series = append(of.series, f.binary("Mul", sum, f.number(-1/(factorial*float64(f.k)))))
		power = f.binary("Mul", power, x)
	}
	return of
}

// lack returns mean_i (1 - exp(bμ_i)), [N,P,n], where no term exceeds the bound of the series, which it reports, and 0
// elsewhere.
func (f *fuser) lack(b string, of shifted) (lack, near string) {
	y := f.binary("Mul", b, of.depth)
	near = f.compared("Less", y, f.number(f.shallow()))
	return f.polynomial(f.binary("Mul", y, near), of.series), near
}

// logMeanExp returns log mean_i exp(b_j μ_i), [N,P,n], for b [N,P,n]. No shift is needed: the
// largest μ is zero. A mean near 1 is 1 minus its lack.
func (f *fuser) logMeanExp(b string, n int64, of shifted) string {
	mean := func(x string) string {
		return f.binary("Div", f.sum(x, 3, f.k, false), f.number(float64(f.k)))
	}
	e := f.unary("Exp", f.binary("Mul", f.reshape(b, 0, 0, n, 1), of.terms))
	if !f.mf.margins() { // probabilities are off by what F is, however small it is
		return f.unary("Log", mean(e))
	}
	lack, near := f.lack(b, of)
	if f.mf.Single { // float64 has digits enough beyond the series
		lack = f.either(near, lack, mean(f.binary("Sub", f.number(1), e)))
		near = f.compared("Less", lack, f.number(0.5))
		lack = f.binary("Mul", near, lack)
	}
	return f.either(near, f.log1p(f.unary("Neg", lack)), f.unary("Log", mean(e)))
}

// logMeanExps is logMeanExp of the b from at(0, n), which is computed for some of them at a time.
func (f *fuser) logMeanExps(n int64, of shifted, at func(from, to int64) string) string {
	var all []string
	for from := int64(0); from < n; from += f.chunk() {
		to := min(from+f.chunk(), n)
		all = append(all, f.logMeanExp(at(from, to), to-from, of))
	}
	if len(all) == 1 {
		return all[0]
	}
	return f.op("Concat", all, onnxpb.IntAttribute("axis", 2))
}

// chunk is how many of these are computed at a time: their terms should fit the processor's caches.
func (f *fuser) chunk() int64 {
	const most = 1 << 17
	return max(4, most/f.k)
}

// exact computes F at all T by the formula.
func (f *fuser) exact(of shifted, t string) string {
	b := f.unary("Reciprocal", t)
	return f.logMeanExps(f.k, of, func(from, to int64) string {
		if from == 0 && to == f.k {
			return b
		}
		return f.slice(b, 2, from, to)
	})
}

// parts computes F at t = log T, less the largest value at a node, in the parts of the interval between low and low + 2
// half. T beyond a part are moved to its end and not used; those of the last part decide what is subtracted.
func (f *fuser) parts(i Interval, of shifted, t, low, half string) string {
	m := int64(i.Nodes)
	if i.Parts == 1 {
		mean, _ := f.interpolated(m, of, t, low, half)
		return mean
	}
	half = f.binary("Mul", half, f.number(1/float64(i.Parts)))
	start := func(part int) string { return f.binary("Add", low, f.binary("Mul", half, f.number(2*float64(part)))) }
	end := start(i.Parts)
	var mean, most string
	for part := i.Parts - 1; part >= 0; part-- {
		begin := start(part)
		value, top := f.interpolated(m, of, f.extreme("Max", f.extreme("Min", t, end, 3), begin, 3), begin, half)
		if mean == "" {
			mean, most = value, top
		} else {
			mean = f.either(f.compared("Greater", t, end), mean, f.binary("Add", value, f.binary("Sub", top, most)))
		}
		end = begin
	}
	return mean
}

// interpolated computes F at t = log T, less its largest value at a node, from its values at Chebyshev nodes between
// low and low + 2 half, [N,P,1].
//
// The polynomial Σ_n c_n T_n(x) is evaluated in two steps, as Σ_q T_q(y) Σ_{j<r} D_qj T_j(x) with y
// = T_r(x): from T_{qr+j} = 2 T_q(y) T_j(x) - T_{qr-j} it follows that D is a fixed linear function
// of the values at the nodes. It takes r + m/r tensors of N·P·K numbers, and as many steps, where
// Clenshaw's recurrence has m steps; both are stable.
func (f *fuser) interpolated(m int64, of shifted, t, low, half string) (mean, top string) {
	const r = 8
	groups := (m + r - 1) / r
	middle := f.binary("Add", low, half)

	value := f.logMeanExps(m, of, func(from, to int64) string {
		x := make([]float64, to-from)
		for j := range x {
			x[j] = -chebyshevNode(from+int64(j), m)
		}
		// b = exp(-t)
		at := f.binary("Sub", f.binary("Mul", half, f.reals("nodes", x, to-from)), middle)
		return f.unary("Exp", at)
	})
	top = f.reduce("ReduceMax", value, 2, true)
	value = f.binary("Sub", value, top)
	if f.nodes[m] == "" {
		f.nodes[m] = f.reals("chebyshev", productCoefficients(m, r), m, groups*r)
	}
	// [N,P,m] to [N,P,groups,r].
	coefficients := f.reshape(f.binary("MatMul", value, f.nodes[m]), 0, 0, groups, r)

	x := f.reshape(f.binary("Div", f.binary("Sub", t, middle), half), 0, 0, 1, f.k)
	one := f.binary("Add", f.binary("Mul", x, f.number(0)), f.number(1))
	inner := f.chebyshev(one, x, r+1)
	// [N,P,groups,K]
	sums := f.binary("MatMul", coefficients, f.op("Concat", inner[:r], onnxpb.IntAttribute("axis", 2)))
	if groups > 1 {
		outer := f.chebyshev(one, inner[r], int(groups))
		sums = f.binary("Mul", sums, f.op("Concat", outer, onnxpb.IntAttribute("axis", 2)))
	}
	return f.reduce("ReduceSum", sums, 2, false), top
}

// chebyshev returns T_0(x) = 1 to T_{n-1}(x), n ≥ 2, by their recurrence.
func (f *fuser) chebyshev(one, x string, n int) []string {
	list := []string{one, x}
	twice := f.binary("Add", x, x)
	for len(list) < n {
		list = append(list, f.binary("Sub", f.binary("Mul", twice, list[len(list)-1]), list[len(list)-2]))
	}
	return list
}

// chebyshevNode is the j-th of the m zeros of T_m.
func chebyshevNode(j, m int64) float64 {
	return math.Cos(math.Pi * (float64(j) + 0.5) / float64(m))
}

// productCoefficients returns the matrix [m, groups·r] from a polynomial's values at the m Chebyshev nodes to its
// coefficients D_qj for T_q(T_r(x)) T_j(x).
func productCoefficients(m, r int64) []float64 {
	groups := (m + r - 1) / r
	width := groups * r
	// expand[n] is T_n in that basis. T_{qr-j}, j > 0, is in the previous group.
	expand := make([][]float64, width)
	for n := range width {
		row := make([]float64, width)
		if q, j := n/r, n%r; q == 0 || j == 0 {
			row[n] = 1
		} else {
			row[n] = 2
			for i, v := range expand[q*r-j] {
				row[i] -= v
			}
		}
		expand[n] = row
	}
	out := make([]float64, m*width)
	for j := range m {
		for n := range m {
			c := 2 / float64(m) * math.Cos(math.Pi*float64(n)*(float64(j)+0.5)/float64(m))
			if n == 0 {
				c /= 2
			}
			for i, v := range expand[n] {
				out[j*width+int64(i)] += c * v
			}
		}
	}
	return out
}
