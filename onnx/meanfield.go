package onnx

import (
	"math"

	"google.golang.org/protobuf/proto"

	"github.com/mfgs/mfgs/onnx/internal/onnxpb"
)

// Squares of features, variances and logits that are absurdly large end at these numbers, where float32 would make them infinite
// and the scores what is not a number. Such an example is as far out of distribution as can be: its T are as large as its
// logits.
const (
	mostSquare = 1e28
	mostForm   = 1e37
	mostSpread = 1e28 // T = 1e14
	mostLogit  = 1e14
)

// forms returns the variances of the logits, [N,K], and makes the leverage, [N]. The variances are in units of the T_ens of
// the pair NLL: a posterior's own may be beyond float32, where its logits have an unusual unit.
func (f *fuser) forms(phi string, names FusedOutputs) (variance string) {
	q := &f.mf.Forms
	d, terms, forms := int64(len(q.Center)), int64(len(q.Offset)), int64(q.Forms)
	constant := f.float
	if q.Double {
		constant = f.double
		phi = f.cast(phi, Float64)
	}
	if !zero(q.Center) {
		phi = f.binary("Sub", phi, constant("center", q.Center, d))
	}
	projection, offset := q.Projection, q.Offset
	if q.Weights == nil {
		// Each column belongs to one form, whose scale goes into it.
		scale := make([]float64, terms)
		for r := range scale {
			scale[r] = math.Sqrt(f.formScale(int64(r) / (terms / forms)))
		}
		projection, offset = scaled(projection, scale), scaled(offset, scale)
	}
	z := f.op("Gemm", []string{phi, constant("projection", projection, d, terms), constant("offset", offset, terms)})
	if q.Weights == nil {
		// A sum over an axis of its own, [N,M,R/M].
		sums := f.reduce("ReduceSumSquare", f.reshape(z, 0, forms, terms/forms), 2, false)
		if q.Double {
			sums = f.cast(sums, Float32)
		}
		sums = f.clip(sums, 0, mostForm)
		f.as(names.Leverage, func() string { return f.reshape(f.slice(sums, 1, f.k, f.k+1), -1) })
		return f.slice(sums, 1, 0, f.k)
	}
	u := f.binary("Mul", z, z)
	if q.Double {
		u = f.cast(u, Float32)
	}
	u = f.clip(u, 0, mostSquare)
	if q.Reduction != nil {
		inner := int64(len(q.Reduction)) / terms
		u, terms = f.binary("MatMul", u, f.float("reduction", q.Reduction, terms, inner)), inner
	}
	variances, leverage := make([]float64, 0, terms*f.k), make([]float64, 0, terms)
	for r := range terms {
		row := q.Weights[r*forms : (r+1)*forms]
		for _, v := range row[:f.k] {
			variances = append(variances, v*f.formScale(0))
		}
		leverage = append(leverage, row[f.k])
	}
	f.as(names.Leverage, func() string {
		return f.reshape(f.binary("MatMul", u, f.float("leverages", leverage, terms, 1)), -1)
	})
	return f.binary("MatMul", u, f.float("variances", variances, terms, f.k))
}

// variances makes the posterior's own variances of those that forms returns.
func (f *fuser) variances(variance string, names FusedOutputs) {
	own := f.binary("Mul", f.cast(variance, Float64), f.double("unit", []float64{f.mf.NLL.Ens}))
	f.as(names.LogitVariance, func() string { return f.clip(f.cast(own, Float32), 0, mostForm) })
}

// formScale is what a form is multiplied by: one for the leverage, and for variances one over their unit.
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

// pairs returns the distinct pairs of temperatures: that for probabilities and, last, that for the score.
func (f *fuser) pairs() []Temperatures {
	if f.mf.OOD == f.mf.NLL {
		return []Temperatures{f.mf.NLL}
	}
	return []Temperatures{f.mf.NLL, f.mf.OOD}
}

// probabilities adds what makes probabilities and score of logits and their variances, both [N,K].
func (f *fuser) probabilities(logits, variance string, names FusedOutputs) {
	pairs := f.pairs()
	p := int64(len(pairs))
	act, ens := make([]float64, p), make([]float64, p)
	for i, t := range pairs {
		act[i] = 1 / t.Act
		ens[i] = f.mf.Lambda0 * (f.mf.NLL.Ens / t.Ens)
	}
	// λ₀s² of every pair, [N,P,K].
	spread := f.clip(f.binary("Mul", f.reshape(variance, 0, 1, f.k), f.float("lambda", ens, p, 1)), 0, mostSpread)
	inverse := f.float("inverse_act", act, p, 1)

	if f.link != Softmax {
		mu := f.binary("Mul", f.reshape(f.clip(logits, -mostLogit, mostLogit), 0, 1, f.k), inverse)
		f.separate(f.binary("Div", mu, f.temperatures(spread)), names)
		return
	}
	// Probabilities do not change when all logits are shifted; now none is positive.
	shifted := f.clip(f.binary("Sub", logits, f.reduce("ReduceMax", logits, 1, true)), -mostLogit, 0)
	mu := f.binary("Mul", f.reshape(shifted, 0, 1, f.k), inverse)
	if f.mf.Method == MF1 {
		f.normalised(f.mf1(mu, spread), names)
		return
	}
	f.normalised(f.mf0(mu, f.temperatures(spread)), names)
}

// temperatures returns T = √(1+λ₀s²).
func (f *fuser) temperatures(spread string) string {
	return f.unary("Sqrt", f.binary("Add", spread, f.scalar(1)))
}

// pair takes that pair of [N,P,n]: [N,n].
func (f *fuser) pair(x string, i, n int64) string {
	if len(f.pairs()) > 1 {
		x = f.slice(x, 1, i, i+1)
	}
	return f.reshape(x, 0, n)
}

// score takes the last pair of [N,P,1]: [N].
func (f *fuser) score(x string) string {
	if p := int64(len(f.pairs())); p > 1 {
		x = f.slice(x, 1, p-1, p)
	}
	return f.reshape(x, -1)
}

// normalised makes probabilities and score of logarithms, [N,P,K], of what is proportional to probabilities: with the largest
// of these as unit and r the sum of the others, 1/(1+r) of each, and r/(1+r).
//
// Of those as large as the largest all but one enter r as exactly one, and a small r keeps its digits.
func (f *fuser) normalised(logp string, names FusedOutputs) {
	top := f.reduce("ReduceMax", logp, 2, true)
	smaller := f.cast(f.binary("Less", logp, top), Float32)
	others := f.binary("Sub", f.scalar(float64(f.k-1)), f.reduce("ReduceSum", smaller, 2, true)) // as large as the largest
	e := f.unary("Exp", f.binary("Sub", logp, top))
	r := f.binary("Add", f.sum(f.binary("Mul", e, smaller)), others)
	sum := f.binary("Add", r, f.scalar(1))
	f.as(names.Probabilities, func() string { return f.pair(f.binary("Div", e, sum), 0, f.k) })
	f.as(names.OODScore, func() string { return f.score(f.binary("Div", r, sum)) })
}

// separate makes probabilities and score of y = μ/T, [N,P,K], where each logit has a sigmoid of its own.
//
// With e = exp(-|y|), σ(y) is exp(min(y,0))/(1+e) and the smaller of σ(y) and σ(-y) is e/(1+e): neither is a difference,
// and the runtime's Sigmoid, which is flat beyond 18, is not used.
func (f *fuser) separate(y string, names FusedOutputs) {
	size := f.unary("Abs", y)
	e := f.unary("Exp", f.unary("Neg", size))
	one := f.binary("Add", e, f.scalar(1))
	negative := func(y string) string { // min(y,0)
		return f.binary("Mul", f.binary("Sub", y, size), f.scalar(0.5))
	}
	if f.link == OneVsRest {
		// log σ(y), to be normalised.
		f.normalised(f.binary("Sub", negative(y), f.unary("Log", one)), names)
		return
	}
	sigmoid := func(y string) string { return f.binary("Div", f.unary("Exp", negative(y)), one) }
	if f.k > 1 {
		f.as(names.Probabilities, func() string { return f.pair(sigmoid(y), 0, f.k) })
	} else {
		no, yes := f.pair(sigmoid(f.unary("Neg", y)), 0, 1), f.pair(sigmoid(y), 0, 1)
		f.as(names.Probabilities, func() string { return f.op("Concat", []string{no, yes}, intAttribute("axis", 1)) })
	}
	smaller := f.binary("Div", e, one)
	f.as(names.OODScore, func() string { return f.score(f.reduce("ReduceMean", smaller, 2, true)) })
}

// mf1 returns log ẽ_k = -log Σ_i exp((μ_i-μ_k)/√(1+λ₀s²_k+λ₀s²_i)), [N,P,K]. The term i = k is exp(0) in the paper as here.
func (f *fuser) mf1(mu, spread string) string {
	column := func(x string) string { return f.reshape(x, 0, 0, f.k, 1) }
	row := func(x string) string { return f.reshape(x, 0, 0, 1, f.k) }
	t := f.temperatures(f.binary("Add", column(spread), row(spread)))
	x := f.binary("Div", f.binary("Sub", row(mu), column(mu)), t)
	top := f.reduce("ReduceMax", x, 3, true)
	sum := f.reduce("ReduceSum", f.unary("Exp", f.binary("Sub", x, top)), 3, false)
	return f.unary("Neg", f.binary("Add", f.unary("Log", sum), f.reshape(top, 0, 0, f.k)))
}

// mf0 returns log ẽ_k = μ_k/T_k - log Σ_i exp(μ_i/T_k), [N,P,K], for μ ≤ 0 with a largest of zero.
//
// The K log-sum-exps of an example and pair are values of one function f(b) = log Σ_i exp(bμ_i), at b = 1/T_k. Where there
// are enough classes it is computed at m Chebyshev nodes of t = log T over the example's own interval, and at the T_k
// interpolated. The error of that in exact arithmetic, for whatever logits, is at most 200 log K ρ^-m/(ρ-1) with
// ρ = x + √(1+x²), x = 1.9 atan(π/log(K-1)) / log(T_max/T_min), which meanfield.Nodes derives and m is chosen by; |f'| in t
// is below log K + 1/e, so that what float32 does to T and to the nodes costs a few units in the last place of log K.
func (f *fuser) mf0(mu, t string) string {
	var intervals []Interval
	for _, i := range f.mf.Intervals {
		if 2*int64(i.Nodes) < f.k {
			intervals = append(intervals, i)
		}
	}
	var lse string
	terms := f.terms(mu)
	if len(intervals) == 0 {
		lse = f.logSumExp(f.unary("Reciprocal", t), f.k, terms)
	} else {
		log := f.unary("Log", t)
		low, high := f.reduce("ReduceMin", log, 2, true), f.reduce("ReduceMax", log, 2, true)
		// The interval is longer than its points want. Rounding moves them by units in the last place of t: in an interval of a
		// few of these that would be far outside, where polynomials are huge. Of this one it is 1e-4 at most, which those of
		// degree 100 bear.
		const least = 1. / 64
		half := f.binary("Add", f.binary("Mul", f.binary("Sub", high, low), f.scalar(0.5)), f.scalar(least))
		low = f.binary("Sub", low, f.scalar(least))
		lse = f.within(intervals, half, func(i Interval) string { return f.interpolated(int64(i.Nodes), terms, log, low, half) },
			func() string { return f.exact(terms, t) })
	}
	return f.binary("Sub", f.binary("Div", mu, t), lse)
}

// within adds an If for each interval: the first is interpolated that no half length exceeds. Those that are not numbers
// count for nothing, so that an example which is none has no say in how the others are computed.
func (f *fuser) within(intervals []Interval, half string, interpolated func(Interval) string, exact func() string) string {
	if len(intervals) == 0 {
		return exact()
	}
	branch := func(name string, write func() string) *onnxpb.Attribute {
		return graphAttribute(name, f.subgraph("mfgs_"+name, nil, func() []*onnxpb.ValueInfo {
			return []*onnxpb.ValueInfo{tensorInfo(write(), Float32, -1, int64(len(f.pairs())), f.k)}
		}))
	}
	wider := f.cast(f.binary("Greater", half, f.scalar(0.5*math.Log(intervals[0].Ratio))), Float32)
	wide := f.binary("Greater", f.op("ReduceSum", []string{wider}, intAttribute("keepdims", 0)), f.scalar(0.5))
	return f.op("If", []string{wide},
		branch("then_branch", func() string { return f.within(intervals[1:], half, interpolated, exact) }),
		branch("else_branch", func() string { return interpolated(intervals[0]) }))
}

// grouped says that there are many classes.
func (f *fuser) grouped() bool { return f.k > 256 }

// terms prepares μ, [N,P,K] and not positive, for logSumExp: [N,P,1,K] or [N,P,1,groups,size].
func (f *fuser) terms(mu string) string {
	if !f.grouped() {
		return f.reshape(mu, 0, 0, 1, f.k)
	}
	return f.group(mu, "Add", -1e30)
}

// group splits the last axis of [N,P,K], so that sums of sums can be formed: [N,P,1,groups,size]. A float32 that grows by one
// small term after the other loses them. Where K is no such product there is the first of every row, added to or multiplied
// by a number, in the places left.
func (f *fuser) group(x, op string, number float64) string {
	groups := int64(math.Sqrt(float64(f.k)))
	for g := groups; 4*g*g > f.k; g-- { // a divisor not far from the square root needs no filling
		if f.k%g == 0 {
			groups = g
			break
		}
	}
	size := (f.k + groups - 1) / groups
	if missing := groups*size - f.k; missing > 0 {
		numbers := make([]float64, missing)
		for i := range numbers {
			numbers[i] = number
		}
		filling := f.binary(op, f.slice(x, 2, 0, 1), f.float("filling", numbers, missing))
		x = f.op("Concat", []string{x, filling}, intAttribute("axis", 2))
	}
	return f.reshape(x, 0, 0, 1, groups, size)
}

// sum adds up the last axis of [N,P,K], of finite numbers: [N,P,1].
func (f *fuser) sum(x string) string {
	if !f.grouped() {
		return f.reduce("ReduceSum", x, 2, true)
	}
	return f.reduce("ReduceSum", f.reduce("ReduceSum", f.group(x, "Mul", 0), 4, false), 3, false)
}

// logSumExp returns log Σ_i exp(b_j μ_i), [N,P,n], for b [N,P,n]. No shift is needed: the largest μ is zero.
func (f *fuser) logSumExp(b string, n int64, terms string) string {
	shape := []int64{0, 0, n, 1}
	if f.grouped() {
		shape = append(shape, 1)
	}
	sum := f.unary("Exp", f.binary("Mul", f.reshape(b, shape...), terms))
	for axis := int64(len(shape)) - 1; axis >= 3; axis-- {
		sum = f.reduce("ReduceSum", sum, axis, false)
	}
	return f.unary("Log", sum)
}

// chunk is how many log-sum-exps are computed at once: their terms should stay in the processor's caches.
func (f *fuser) chunk() int64 {
	const most = 1 << 17
	return max(4, most/f.k)
}

// exact computes every log-sum-exp by its formula, some classes in each turn of a loop, so that memory stays in
// proportion to K.
func (f *fuser) exact(terms, t string) string {
	n := min(f.chunk(), f.k)
	turns := (f.k + n - 1) / n
	classes := make([]int64, turns*n) // the last ones are computed more than once, if there are too many
	for i := range classes {
		classes[i] = min(int64(i), f.k-1)
	}
	which := f.reshape(f.list(classes...), turns, n)
	b := f.unary("Reciprocal", t)
	total := f.list(turns)
	iteration := tensorInfo(f.names.fresh("mfgs_turn"), Int64)
	condition := tensorInfo(f.names.fresh("mfgs_going"), Bool)
	carried := tensorInfo(f.names.fresh("mfgs_carried"), Int64, 1)
	body := f.subgraph("mfgs_exact", []*onnxpb.ValueInfo{iteration, condition, carried}, func() []*onnxpb.ValueInfo {
		turn := f.reshape(iteration.GetName(), 1)
		some := f.reshape(f.op("Gather", []string{which, turn}, intAttribute("axis", 0)), n)
		lse := f.logSumExp(f.op("Gather", []string{b, some}, intAttribute("axis", 2)), n, terms)
		on, carry := f.cast(condition.GetName(), Bool), f.cast(carried.GetName(), Int64)
		return []*onnxpb.ValueInfo{tensorInfo(on, Bool), tensorInfo(carry, Int64, 1), tensorInfo(lse, Float32, -1, int64(len(f.pairs())), n)}
	})
	// Nothing needs to be carried from turn to turn, but before operator set 11 something must; and some take a condition that
	// is left out for false.
	going := f.tensor("true", Bool, []byte{1})
	rest := f.op("Loop", []string{f.reshape(total), going, total}, graphAttribute("body", body))
	all := f.names.fresh("mfgs_loop") // [turns,N,P,n]
	f.nodes[len(f.nodes)-1].Output = []string{rest, all}
	all = f.reshape(f.op("Transpose", []string{all}, intsAttribute("perm", 1, 2, 0, 3)), 0, 0, turns*n)
	return f.slice(all, 2, 0, f.k)
}

// interpolated computes the log-sum-exps at t = log T from those at Chebyshev nodes between low and low + 2 half, [N,P,1].
//
// The polynomial Σ_n c_n T_n(x) is evaluated in two steps, as Σ_q T_q(y) Σ_{j<r} D_qj T_j(x) with y = T_r(x): from
// T_{qr+j} = 2 T_q(y) T_j(x) - T_{qr-j} it follows that D is a fixed linear function of the values at the nodes. It takes
// r + m/r tensors of N·P·K numbers, and as many steps, where Clenshaw's recurrence has m steps; both are stable.
func (f *fuser) interpolated(m int64, terms, t, low, half string) string {
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
		at := f.binary("Sub", f.binary("Mul", half, f.float("nodes", x, count)), middle)
		values = append(values, f.logSumExp(f.unary("Exp", at), count, terms))
	}
	value := values[0]
	if len(values) > 1 {
		value = f.op("Concat", values, intAttribute("axis", 2))
	}
	// [N,P,m] to [N,P,groups,r].
	coefficients := f.reshape(f.binary("MatMul", value, f.float("chebyshev", productCoefficients(m, r), m, groups*r)), 0, 0, groups, r)

	x := f.reshape(f.binary("Div", f.binary("Sub", t, middle), half), 0, 0, 1, f.k)
	one := f.binary("Add", f.binary("Mul", x, f.scalar(0)), f.scalar(1))
	inner := f.chebyshev(one, x, r+1)
	sums := f.binary("MatMul", coefficients, f.op("Concat", inner[:r], intAttribute("axis", 2))) // [N,P,groups,K]
	if groups > 1 {
		outer := f.chebyshev(one, inner[r], int(groups))
		sums = f.binary("Mul", sums, f.op("Concat", outer, intAttribute("axis", 2)))
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

// productCoefficients returns the matrix [m, groups·r] that makes of a polynomial's values at the m Chebyshev nodes its
// coefficients D_qj for T_q(T_r(x)) T_j(x).
func productCoefficients(m, r int64) []float64 {
	groups := (m + r - 1) / r
	width := groups * r
	// expand[n] is T_n in that basis. T_{qr-j}, j > 0, is of the group before.
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

// keep registers bytes as one more of the model's files, and returns their span.
func (b *builder) keep(name string, raw []byte) *onnxpb.Span {
	number := int32(len(b.m.store.files) + len(b.kept))
	b.kept = append(b.kept, file{name: name, data: raw, size: int64(len(raw))})
	return &onnxpb.Span{File: &number, Offset: proto.Int64(0), Length: proto.Int64(int64(len(raw)))}
}
