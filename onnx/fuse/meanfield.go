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
		sums := f.reduce("ReduceSumSquare", f.reshape(z, 0, forms, terms/forms), 2, false)
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
	return f.binary("MatMul", u, f.float("variances", variances, terms, f.k)),
		f.binary("MatMul", u, f.float("leverages", leverages, terms, 1))
}

// variances converts the variances from forms to those at T_ens = 1.
func (f *fuser) variances(variance, output string) {
	own := f.binary("Mul", f.cast(variance, tensor.Float64), f.double("unit", []float64{f.mf.NLL.Ens}))
	f.as(output, func() string { return f.clip(f.cast(own, tensor.Float32), 0, mostForm) })
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
// returns the margin of 1 - max p under the pair OOD, [N,1], or "" if there is none. All is float64: margins must
// differ even if probabilities are nearly equal, or all but one nearly 0.
func (f *fuser) probabilities(logits, variance, output string) (margin string) {
	pairs := f.pairs()
	p := int64(len(pairs))
	act, ens := make([]float64, p), make([]float64, p)
	for i, t := range pairs {
		act[i] = 1 / t.Act
		ens[i] = f.mf.Lambda0 * (f.mf.NLL.Ens / t.Ens)
	}
	logits = f.clip(logits, -mostLogit, mostLogit)
	if f.mf.Affine != nil {
		logits = f.mapped(f.cast(logits, tensor.Float64))
		if f.link == layer.Softmax {
			logits = f.binary("Sub", logits, f.reduce("ReduceMax", logits, 1, true))
		}
	} else if f.link == layer.Softmax { // invariant to shifts: make the largest logit 0
		top := f.cast(f.reduce("ReduceMax", logits, 1, true), tensor.Float64)
		logits = f.binary("Sub", f.cast(logits, tensor.Float64), top)
	} else {
		logits = f.cast(logits, tensor.Float64)
	}
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
	variance = f.cast(f.clip(variance, 0, mostForm), tensor.Float64)
	// λ₀s² and μ of every pair, [N,P,K].
	spread := f.binary("Mul", f.reshape(variance, 0, 1, f.k), f.double("lambda", ens, p, 1))
	mu := f.binary("Mul", f.reshape(logits, 0, 1, f.k), f.double("inverse_act", act, p, 1))
	switch {
	case f.link.Separate():
		return f.separate(f.binary("Div", mu, f.temperatures(spread)), output)
	case f.mf.Method == MF1:
		return f.normalised(f.mf1(mu, spread), output)
	}
	return f.normalised(f.mf0(mu, f.temperatures(spread)), output)
}

// mapped maps logits, [N,K] of float64.
func (f *fuser) mapped(logits string) string {
	a := f.mf.Affine
	if a.Smoothing > 0 {
		e := f.unary("Exp", f.binary("Sub", logits, f.reduce("ReduceMax", logits, 1, true)))
		p := f.binary("Div", e, f.reduce("ReduceSum", e, 1, true))
		logits = f.unary("Log", f.binary("Add", p, f.number(a.Smoothing)))
	}
	if a.Scale == nil {
		return logits
	}
	image := f.binary("Add", f.binary("Mul", logits, f.double("scale", a.Scale, f.k)), f.double("offset", a.Offset, f.k))
	r := int64(a.Rank())
	if r == 0 {
		return image
	}
	along := f.binary("MatMul", logits, f.double("right", transposed(a.Right, r, f.k), f.k, r))
	return f.binary("Add", image, f.binary("MatMul", along, f.double("left", transposed(a.Left, f.k, r), r, f.k)))
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

// output casts probabilities, [N,C], to their output.
func (f *fuser) output(p, output string) {
	f.as(output, func() string { return f.cast(p, tensor.Float32) })
}

// outputSoftmax outputs the softmax of logarithms [N,K].
func (f *fuser) outputSoftmax(l, output string) {
	if f.mf.Prior != nil {
		l = f.binary("Add", l, f.double("prior", f.mf.Prior, f.k))
	}
	e := f.unary("Exp", f.binary("Sub", l, f.reduce("ReduceMax", l, 1, true)))
	f.output(f.binary("Div", e, f.reduce("ReduceSum", e, 1, true)), output)
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
	// the least of them. Of several that tie for the maximum, all but one are included, with x = 0.
	l := f.scored(logp)
	x := f.binary("Sub", f.reduce("ReduceMax", l, 1, true), l)
	smaller := f.cast(f.binary("Greater", x, f.number(0)), tensor.Float64)
	others := f.binary("Sub", f.number(float64(f.k-1)), f.reduce("ReduceSum", smaller, 1, true))
	// Move the excluded class so far that its exponential is zero.
	const far = 1e300
	apart := f.binary("Add", x, f.binary("Mul", f.binary("Sub", f.number(1), smaller), f.number(far)))
	single := f.cast(f.binary("Less", others, f.number(0.5)), tensor.Float64)
	least := f.binary("Mul", f.reduce("ReduceMin", apart, 1, true), single)
	sum := f.binary("Add", f.reduce("ReduceSum", f.unary("Exp", f.binary("Sub", least, apart)), 1, true), others)
	count := f.number(float64(f.k - 1))
	direct := f.binary("Sub", least, f.unary("Log", f.binary("Div", sum, count)))
	series := f.cumulants(f.unary("Neg", x), 1, f.k-1)
	close := f.unary("Neg", f.series(series, ""))
	return f.either(f.reduce("ReduceMax", x, 1, true), close, direct)
}

// tiny is the bound on numbers below which the log of the mean of their exponentials is computed from cumulants,
// because the mean is too close to 1 to be accurate. The truncation error is tiny³/24 and the rounding error of the
// direct formula 1e-16/tiny, both relative, and times the ratio of the largest number to the mean.
const tiny = 3e-4

// either returns close if depth is below tiny, else other. Both must be finite.
func (f *fuser) either(depth, close, other string) string {
	near := f.cast(f.binary("Less", depth, f.number(tiny)), tensor.Float64)
	far := f.binary("Sub", f.number(1), near)
	return f.binary("Add", f.binary("Mul", near, close), f.binary("Mul", far, other))
}

// cumulants returns the first three cumulants of count numbers x along an axis, which may have more zeros.
func (f *fuser) cumulants(x string, axis, count int64) [3]string {
	mean := func(x string) string {
		return f.binary("Div", f.reduce("ReduceSum", x, axis, true), f.number(float64(count)))
	}
	square := f.binary("Mul", x, x)
	m1, m2, m3 := mean(x), mean(square), mean(f.binary("Mul", square, x))
	k2 := f.binary("Sub", m2, f.binary("Mul", m1, m1))
	// m3 - 3 m1 m2 + 2 m1³ = m3 - m1 (m2 + 2 k2)
	k3 := f.binary("Sub", m3, f.binary("Mul", m1, f.binary("Add", m2, f.binary("Add", k2, k2))))
	return [3]string{m1, k2, k3}
}

// series returns log mean exp(bx) for small bx from the cumulants of x: b k₁ + b² k₂/2 + b³ k₃/6. Without b, b = 1.
func (f *fuser) series(k [3]string, b string) string {
	times := func(x string) string {
		if b == "" {
			return x
		}
		return f.binary("Mul", x, b)
	}
	inner := f.binary("Add", f.binary("Mul", k[1], f.number(1./2)), times(f.binary("Mul", k[2], f.number(1./6))))
	return times(f.binary("Add", k[0], times(inner)))
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
	// With x = |y|, m the least of them and w = 1/(1+exp(-x)) the margin is m + log(Σ w / Σ w
	// exp(m-x)). For small x it is that of tanh(x/2), mean x + ((mean x)³ - mean x³)/12.
	x := f.unary("Abs", f.scored(y))
	w := f.unary("Reciprocal", f.binary("Add", f.unary("Exp", f.unary("Neg", x)), f.number(1)))
	least := f.reduce("ReduceMin", x, 1, true)
	less := f.reduce("ReduceSum", f.binary("Mul", w, f.unary("Exp", f.binary("Sub", least, x))), 1, true)
	direct := f.binary("Add", least, f.unary("Log", f.binary("Div", f.reduce("ReduceSum", w, 1, true), less)))
	cube := func(x string) string { return f.binary("Mul", x, f.binary("Mul", x, x)) }
	mean := f.reduce("ReduceMean", x, 1, true)
	third := f.binary("Sub", cube(mean), f.reduce("ReduceMean", cube(x), 1, true))
	close := f.binary("Add", mean, f.binary("Mul", third, f.number(1./12)))
	return f.either(f.reduce("ReduceMax", x, 1, true), close, direct)
}

// mf1 returns log(K ẽ_k) = -log mean_i exp((μ_i-μ_k)/√(1+λ₀s²_k+λ₀s²_i)), [N,P,K]. The term i = k
// is exp(0) in the paper as here.
func (f *fuser) mf1(mu, spread string) string {
	column := func(x string) string { return f.reshape(x, 0, 0, f.k, 1) }
	row := func(x string) string { return f.reshape(x, 0, 0, 1, f.k) }
	t := f.temperatures(f.binary("Add", column(spread), row(spread)))
	x := f.binary("Div", f.binary("Sub", row(mu), column(mu)), t)
	top := f.reduce("ReduceMax", x, 3, true)
	sum := f.reduce("ReduceSum", f.unary("Exp", f.binary("Sub", x, top)), 3, true)
	direct := f.binary("Add", f.unary("Log", f.binary("Div", sum, f.number(float64(f.k)))), top)
	close := f.series(f.cumulants(x, 3, f.k), "")
	depth := f.reduce("ReduceMax", f.unary("Abs", x), 3, true)
	return f.unary("Neg", f.reshape(f.either(depth, close, direct), 0, 0, f.k))
}

// mf0 returns log(K ẽ_k) = μ_k/T_k - F(1/T_k), [N,P,K], with F(b) = log mean_i exp(bμ_i), for μ ≤ 0
// with a largest of zero.
//
// F is as small as bμ, so that the difference is accurate at high temperatures. With enough classes F is computed at
// m Chebyshev nodes of t = log T over the example's interval, and interpolated at the T_k. In exact arithmetic the
// error, for any logits, is about |F|/log K times 200 log K ρ^-m/(ρ-1) with ρ = x + √(1+x²), x =
// 1.9 atan(π/log(K-1)) / log(T_max/T_min): see meanfield.Nodes, which chooses m.
func (f *fuser) mf0(mu, t string) string {
	var intervals []Interval
	for _, i := range f.mf.Intervals {
		if 2*int64(i.Nodes) < f.k {
			intervals = append(intervals, i)
		}
	}
	var mean string
	of := f.logits(mu)
	if len(intervals) == 0 {
		mean = f.logMeanExp(f.unary("Reciprocal", t), f.k, of)
	} else {
		log := f.unary("Log", t)
		low, high := f.reduce("ReduceMin", log, 2, true), f.reduce("ReduceMax", log, 2, true)
		// The interval is extended: in one of a few units in the last place, rounding would move points far
		// outside, where polynomials are huge.
		const least = 1. / 64
		half := f.binary("Add", f.binary("Mul", f.binary("Sub", high, low), f.number(0.5)), f.number(least))
		low = f.binary("Sub", low, f.number(least))
		mean = f.within(intervals, half,
			func(i Interval) string { return f.interpolated(int64(i.Nodes), of, log, low, half) },
			func() string { return f.exact(of, t) })
	}
	return f.binary("Sub", f.binary("Div", mu, t), mean)
}

// within adds an If for each interval: the first is used that no half length exceeds. NaN is ignored, so that an
// invalid example does not change how the others are computed.
func (f *fuser) within(intervals []Interval, half string, interpolated func(Interval) string,
	exact func() string) string {
	if len(intervals) == 0 {
		return exact()
	}
	branch := func(name string, write func() string) *onnxpb.Attribute {
		return onnxpb.GraphAttribute(name, f.subgraph("mfgs_"+name, nil, func() []*onnxpb.ValueInfo {
			return []*onnxpb.ValueInfo{onnxpb.TensorInfo(write(), tensor.Float64, -1, int64(len(f.pairs())), f.k)}
		}))
	}
	wider := f.cast(f.binary("Greater", half, f.number(0.5*math.Log(intervals[0].Ratio))), tensor.Float32)
	wide := f.binary("Greater", f.op("ReduceSum", []string{wider}, onnxpb.IntAttribute("keepdims", 0)), f.scalar(0.5))
	return f.op("If", []string{wide},
		branch("then_branch", func() string { return f.within(intervals[1:], half, interpolated, exact) }),
		branch("else_branch", func() string { return interpolated(intervals[0]) }))
}

// shifted is logits μ ≤ 0, [N,P,K], for logMeanExp.
type shifted struct {
	terms     string    // [N,P,1,K]
	depth     string    // -min μ, [N,P,1]
	cumulants [3]string // [N,P,1] each
}

func (f *fuser) logits(mu string) shifted {
	return shifted{
		terms: f.reshape(mu, 0, 0, 1, f.k), depth: f.unary("Neg",
			f.reduce("ReduceMin", mu, 2, true)), cumulants: f.cumulants(mu, 2, f.k),
	}
}

// logMeanExp returns log mean_i exp(b_j μ_i), [N,P,n], for b [N,P,n]. No shift is needed: the
// largest μ is zero.
func (f *fuser) logMeanExp(b string, n int64, of shifted) string {
	sum := f.reduce("ReduceSum", f.unary("Exp", f.binary("Mul", f.reshape(b, 0, 0, n, 1), of.terms)), 3, false)
	direct := f.unary("Log", f.binary("Div", sum, f.number(float64(f.k))))
	return f.either(f.binary("Mul", b, of.depth), f.series(of.cumulants, b), direct)
}

// chunk is how many of these are computed at a time: their terms should fit the processor's caches.
func (f *fuser) chunk() int64 {
	const most = 1 << 17
	return max(4, most/f.k)
}

// exact computes mf0's log mean exp by the formula, for some classes in each turn of a loop, so that memory is linear
// in K.
func (f *fuser) exact(of shifted, t string) string {
	n := min(f.chunk(), f.k)
	turns := (f.k + n - 1) / n
	classes := make([]int64, turns*n) // the last ones are repeated to fill the last turn
	for i := range classes {
		classes[i] = min(int64(i), f.k-1)
	}
	which := f.reshape(f.list(classes...), turns, n)
	b := f.unary("Reciprocal", t)
	total := f.list(turns)
	iteration := onnxpb.TensorInfo(f.Names.Fresh("mfgs_turn"), tensor.Int64)
	condition := onnxpb.TensorInfo(f.Names.Fresh("mfgs_going"), tensor.Bool)
	carried := onnxpb.TensorInfo(f.Names.Fresh("mfgs_carried"), tensor.Int64, 1)
	body := f.subgraph("mfgs_exact", []*onnxpb.ValueInfo{iteration, condition, carried}, func() []*onnxpb.ValueInfo {
		turn := f.reshape(iteration.GetName(), 1)
		some := f.reshape(f.op("Gather", []string{which, turn}, onnxpb.IntAttribute("axis", 0)), n)
		mean := f.logMeanExp(f.op("Gather", []string{b, some}, onnxpb.IntAttribute("axis", 2)), n, of)
		on, carry := f.cast(condition.GetName(), tensor.Bool), f.cast(carried.GetName(), tensor.Int64)
		return []*onnxpb.ValueInfo{onnxpb.TensorInfo(on, tensor.Bool), onnxpb.TensorInfo(carry, tensor.Int64, 1),
			onnxpb.TensorInfo(mean, tensor.Float64, -1, int64(len(f.pairs())), n)}
	})
	// The loop carries nothing, but before opset 11 it must carry something; and some runtimes treat an omitted
	// condition as false.
	going := f.tensor("true", tensor.Bool, []byte{1})
	rest := f.op("Loop", []string{f.reshape(total), going, total}, onnxpb.GraphAttribute("body", body))
	all := f.Names.Fresh("mfgs_loop") // [turns,N,P,n]
	f.Nodes[len(f.Nodes)-1].Output = []string{rest, all}
	all = f.reshape(f.op("Transpose", []string{all}, onnxpb.IntsAttribute("perm", 1, 2, 0, 3)), 0, 0, turns*n)
	return f.slice(all, 2, 0, f.k)
}

// interpolated computes F at t = log T from its values at Chebyshev nodes between low and low + 2 half, [N,P,1].
//
// The polynomial Σ_n c_n T_n(x) is evaluated in two steps, as Σ_q T_q(y) Σ_{j<r} D_qj T_j(x) with y
// = T_r(x): from T_{qr+j} = 2 T_q(y) T_j(x) - T_{qr-j} it follows that D is a fixed linear function
// of the values at the nodes. It takes r + m/r tensors of N·P·K numbers, and as many steps, where
// Clenshaw's recurrence has m steps; both are stable.
func (f *fuser) interpolated(m int64, of shifted, t, low, half string) string {
	const r = 8
	groups := (m + r - 1) / r
	middle := f.binary("Add", low, half)

	var values []string
	n := min(f.chunk(), m)
	for first := int64(0); first < m; first += n {
		count := min(n, m-first)
		x := make([]float64, count)
		for j := range x {
			x[j] = -chebyshevNode(first+int64(j), m)
		}
		// b = exp(-t)
		at := f.binary("Sub", f.binary("Mul", half, f.double("nodes", x, count)), middle)
		values = append(values, f.logMeanExp(f.unary("Exp", at), count, of))
	}
	value := values[0]
	if len(values) > 1 {
		value = f.op("Concat", values, onnxpb.IntAttribute("axis", 2))
	}
	// [N,P,m] to [N,P,groups,r].
	coefficients := f.reshape(f.binary("MatMul", value, f.double("chebyshev", productCoefficients(m, r), m, groups*r)),
		0, 0, groups, r)

	x := f.reshape(f.binary("Div", f.binary("Sub", t, middle), half), 0, 0, 1, f.k)
	one := f.binary("Add", f.binary("Mul", x, f.number(0)), f.number(1))
	inner := f.chebyshev(one, x, r+1)
	// [N,P,groups,K]
	sums := f.binary("MatMul", coefficients, f.op("Concat", inner[:r], onnxpb.IntAttribute("axis", 2)))
	if groups > 1 {
		outer := f.chebyshev(one, inner[r], int(groups))
		sums = f.binary("Mul", sums, f.op("Concat", outer, onnxpb.IntAttribute("axis", 2)))
	}
	return f.reduce("ReduceSum", sums, 2, false)
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
