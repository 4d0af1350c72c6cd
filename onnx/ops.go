package onnx

import (
	"cmp"
	"math"
	"slices"
)

// ops says for each operator what is known of its i-th output. An entry gives type and shape as far as they follow, and
// the numbers where all it needs are known; it returns nil where it knows nothing. What stands without numbers here is
// followed in shape only.
var ops map[string]func(c *call, i int) *value

func init() {
	ops = map[string]func(*call, int) *value{
		"Constant":          first(constant),
		"ConstantOfShape":   first(constantOfShape),
		"Identity":          first(same),
		"Dropout":           first(same),
		"Cast":              first(cast),
		"Shape":             first(shape),
		"Reshape":           first(reshape),
		"Flatten":           first(flatten),
		"Squeeze":           first(squeeze),
		"Unsqueeze":         first(unsqueeze),
		"Transpose":         first(transpose),
		"Concat":            first(concat),
		"Gather":            first(gather),
		"Slice":             first(slice),
		"Split":             split,
		"Expand":            first(expand),
		"DequantizeLinear":  first(dequantize),
		"QuantizeLinear":    first(quantize),
		"Add":               pairwise(func(a, b float64) float64 { return a + b }),
		"Sub":               pairwise(func(a, b float64) float64 { return a - b }),
		"Mul":               pairwise(func(a, b float64) float64 { return a * b }),
		"Div":               pairwise(nil), // set below: integers truncate
		"Pow":               pairwise(math.Pow),
		"Max":               pairwise(math.Max),
		"Min":               pairwise(math.Min),
		"Clip":              first(clip),
		"Neg":               unary(func(a float64) float64 { return -a }),
		"Abs":               unary(math.Abs),
		"Sqrt":              unary(math.Sqrt),
		"Exp":               unary(math.Exp),
		"Log":               unary(math.Log),
		"Reciprocal":        unary(func(a float64) float64 { return 1 / a }),
		"ReduceSum":         reduce(sum),
		"ReduceMean":        reduce(func(s []float64) float64 { return sum(s) / float64(len(s)) }),
		"ReduceSumSquare":   reduce(func(s []float64) float64 { return dot(s, s) }),
		"ReduceL2":          reduce(func(s []float64) float64 { return math.Sqrt(dot(s, s)) }),
		"ReduceMax":         reduce(slices.Max[[]float64]),
		"ReduceMin":         reduce(slices.Min[[]float64]),
		"ReduceLogSumExp":   reduce(logSumExp),
		"ArgMax":            argMax,
		"MatMul":            first(matMul),
		"Gemm":              first(gemm),
		"Conv":              first(conv),
		"MaxPool":           first(pool),
		"AveragePool":       first(pool),
		"LpPool":            first(pool),
		"GlobalAveragePool": first(globalPool),
		"GlobalMaxPool":     first(globalPool),
		"GlobalLpPool":      first(globalPool),
	}
	ops["Div"] = first(func(c *call) *value {
		if t := c.arg(0).typ; t == Undefined || t.IsFloat() {
			return elementwise(c, func(a, b float64) float64 { return a / b })
		}
		return elementwise(c, func(a, b float64) float64 {
			if b == 0 {
				return math.NaN()
			}
			return math.Trunc(a / b)
		})
	})
	ops["Sum"] = ops["Add"]
	ops["Mean"] = first(func(c *call) *value {
		v := elementwise(c, func(a, b float64) float64 { return a + b })
		if v != nil && v.data != nil {
			v = &value{typ: v.typ, dims: v.dims, data: slices.Clone(v.data)}
			for i := range v.data {
				v.data[i] /= float64(len(c.in))
			}
		}
		return v
	})
	ops["Range"] = first(func(c *call) *value { return &value{typ: c.arg(0).typ, dims: []int64{-1}} })
	ops["Where"] = first(func(c *call) *value {
		return &value{typ: c.arg(1).typ, dims: broadcast(broadcast(c.arg(0).dims, c.arg(1).dims), c.arg(2).dims)}
	})
	ops["NonZero"] = first(func(c *call) *value {
		v := &value{typ: Int64, dims: []int64{-1, -1}}
		if c.arg(0).dims != nil {
			v.dims[0] = int64(max(1, len(c.arg(0).dims)))
		}
		return v
	})
	ops["GatherElements"] = first(func(c *call) *value { return &value{typ: c.arg(0).typ, dims: slices.Clone(c.arg(1).dims)} })
	ops["GatherND"] = first(gatherND)
	ops["DynamicQuantizeLinear"] = dynamicQuantize
	for _, op := range []string{"LSTM", "GRU", "RNN"} {
		ops[op] = recurrent
	}
	ops[unpackNBits] = first(unpack)
	ops[bothClasses] = first(doubled)
	for _, name := range []string{"Relu", "LeakyRelu", "Elu", "Selu", "Celu", "Sigmoid", "HardSigmoid", "HardSwish", "Tanh",
		"Softplus", "Softsign", "Erf", "Gelu", "Mish", "Swish", "Floor", "Ceil", "Round", "Sign", "Sin", "Cos",
		"ThresholdedRelu", "PRelu", "Softmax", "LogSoftmax", "Hardmax", "LpNormalization", "LRN", "MeanVarianceNormalization",
		"BatchNormalization", "InstanceNormalization", "LayerNormalization", "GroupNormalization", "RMSNormalization", "CumSum", "Trilu",
		"Not", "ScatterND", "ScatterElements",
		"SimplifiedLayerNormalization", "com.microsoft.SkipLayerNormalization", "com.microsoft.SkipSimplifiedLayerNormalization",
		"com.microsoft.Gelu", "com.microsoft.FastGelu", "com.microsoft.BiasGelu", "com.microsoft.QuickGelu",
		"ai.onnx.ml.Normalizer", "ai.onnx.ml.Scaler"} {
		ops[name] = first(func(c *call) *value { return c.arg(0).like() })
	}
	for _, name := range []string{"Mod", "And", "Or", "Xor", "Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"} {
		ops[name] = first(func(c *call) *value {
			v := &value{typ: Bool, dims: broadcast(c.arg(0).dims, c.arg(1).dims)}
			if name == "Mod" {
				v.typ = c.arg(0).typ
			}
			return v
		})
	}
}

// first is an operator of which only the first output is followed.
func first(f func(*call) *value) func(*call, int) *value {
	return func(c *call, i int) *value {
		if i > 0 {
			return nil
		}
		return f(c)
	}
}

// like returns a value of v's type and shape.
func (v *value) like() *value { return &value{typ: v.typ, dims: slices.Clone(v.dims)} }

func same(c *call) *value {
	v := *c.arg(0)
	return &v
}

func constant(c *call) *value {
	for _, a := range c.GetAttribute() {
		v := &value{constant: true, dims: []int64{}}
		switch a.GetName() {
		case "value":
			return c.tensor(a.GetT())
		case "value_int":
			v.typ, v.data = Int64, []float64{float64(a.GetI())}
		case "value_float":
			v.typ, v.data = Float32, []float64{float64(a.GetF())}
		case "value_ints":
			v.typ, v.dims = Int64, []int64{int64(len(a.GetInts()))}
			for _, x := range a.GetInts() {
				v.data = append(v.data, float64(x))
			}
		case "value_floats":
			v.typ, v.dims = Float32, []int64{int64(len(a.GetFloats()))}
			for _, x := range a.GetFloats() {
				v.data = append(v.data, float64(x))
			}
		default:
			continue
		}
		return v
	}
	return &value{constant: true}
}

func constantOfShape(c *call) *value {
	v := &value{typ: Float32}
	fill := 0.0
	if a := attribute(c.Node, "value"); a != nil {
		t := c.tensor(a.GetT())
		if len(t.data) != 1 {
			return nil
		}
		v.typ, fill = t.typ, t.data[0]
	}
	v.dims = dimsOf(c.ints(0))
	if n, ok := elements(v.dims); v.dims != nil && ok && c.take(n) {
		v.data = slices.Repeat([]float64{fill}, int(n))
	}
	return v
}

// dimsOf turns the elements of a shape tensor into a shape; nil if even the rank is not known.
func dimsOf(list []maybeInt) []int64 {
	if list == nil {
		return nil
	}
	dims := make([]int64, len(list))
	for i, x := range list {
		dims[i] = -1
		if x.known && x.n >= 0 {
			dims[i] = x.n
		}
	}
	return dims
}

func cast(c *call) *value {
	v := c.arg(0).like()
	v.typ = DataType(attrInt(c.Node, "to", 0))
	if c.arg(0).data == nil {
		return v
	}
	var to func(float64) float64
	switch v.typ {
	case Float64:
		to = func(x float64) float64 { return x }
	case Float32:
		to = func(x float64) float64 { return float64(float32(x)) }
	case Float16:
		to = roundFloat16
	case Bool:
		to = func(x float64) float64 {
			if x == 0 {
				return 0
			}
			return 1
		}
	case Int64, Int32:
		to = math.Trunc
	default:
		return v
	}
	return c.mapped(v, to)
}

// roundFloat16 rounds to the nearest IEEE 754 binary16, ties to even.
func roundFloat16(x float64) float64 {
	_, exp := math.Frexp(x) // |x| in [2^(exp-1), 2^exp): 11 significant bits, 2^-24 the smallest step
	ulp := math.Ldexp(1, max(exp-11, -24))
	if y := math.RoundToEven(x/ulp) * ulp; math.Abs(y) <= 65504 || math.IsNaN(y) {
		return y
	}
	return math.Inf(int(math.Copysign(1, x)))
}

// mapped gives v the first input's numbers under f.
func (c *call) mapped(v *value, f func(float64) float64) *value {
	in := c.arg(0).data
	if in == nil || !c.take(int64(len(in))) {
		return v
	}
	v.data = make([]float64, len(in))
	for i, x := range in {
		v.data[i] = f(x)
	}
	return v
}

func unary(f func(float64) float64) func(*call, int) *value {
	return first(func(c *call) *value { return c.mapped(c.arg(0).like(), f) })
}

func pairwise(f func(a, b float64) float64) func(*call, int) *value {
	return first(func(c *call) *value { return elementwise(c, f) })
}

// elementwise is a broadcast operation on any number of inputs, from the left.
func elementwise(c *call, f func(a, b float64) float64) *value {
	v := *c.arg(0)
	for _, b := range c.in[min(1, len(c.in)):] {
		if b == nil {
			return nil
		}
		a := v
		v = value{typ: cmp.Or(a.typ, b.typ), dims: broadcast(a.dims, b.dims)}
		n, ok := elements(v.dims)
		if v.dims == nil || !ok || a.data == nil || b.data == nil || !c.take(n) {
			continue
		}
		v.data = make([]float64, 0, n)
		at(v.dims, a.dims)(func(i int) { v.data = append(v.data, a.data[i]) })
		j := 0
		at(v.dims, b.dims)(func(i int) { v.data[j] = f(v.data[j], b.data[i]); j++ })
	}
	return &v
}

func clip(c *call) *value {
	v := c.arg(0).like()
	lo, hi, known := c.clipBounds()
	if !known {
		return v
	}
	return c.mapped(v, func(x float64) float64 { return max(lo, min(x, hi)) })
}

// clipBounds returns the bounds of a Clip, which are attributes before operator set 11 and inputs from then on, and may be
// left out; false if they are not known.
func (c *call) clipBounds() (lo, hi float64, known bool) {
	lo, hi = attrFloat(c.Node, "min", math.Inf(-1)), attrFloat(c.Node, "max", math.Inf(1))
	for i, bound := range []*float64{&lo, &hi} {
		if input(c.Node, i+1) == "" {
			continue
		}
		b := c.arg(i + 1).data
		if len(b) != 1 {
			return lo, hi, false
		}
		*bound = b[0]
	}
	return lo, hi, true
}

func logSumExp(s []float64) float64 {
	top, t := slices.Max(s), 0.0
	if math.IsInf(top, 0) {
		return top
	}
	for _, x := range s {
		t += math.Exp(x - top)
	}
	return top + math.Log(t)
}

func sum(s []float64) (t float64) {
	for _, x := range s {
		t += x
	}
	return t
}

func dot(s, t []float64) (d float64) {
	for i, x := range s {
		d += x * t[i]
	}
	return d
}

func shape(c *call) *value {
	v := &value{typ: Int64, dims: []int64{-1}}
	dims := c.arg(0).dims
	if dims == nil {
		return v
	}
	start, end := attrInt(c.Node, "start", 0), attrInt(c.Node, "end", int64(len(dims)))
	clamp := func(a int64) int64 {
		if a < 0 {
			a += int64(len(dims))
		}
		return max(0, min(a, int64(len(dims))))
	}
	start, end = clamp(start), clamp(end)
	dims = dims[start:max(start, end)]
	v.dims[0] = int64(len(dims))
	v.data = make([]float64, len(dims))
	for i, d := range dims {
		v.data[i] = float64(d)
		if d < 0 {
			v.data[i] = math.NaN()
		}
	}
	return v
}

func reshape(c *call) *value {
	in := c.arg(0)
	target := c.ints(1)
	if a := attribute(c.Node, "shape"); a != nil { // operator sets before 5
		target = nil
		for _, d := range a.GetInts() {
			target = append(target, maybeInt{d, true})
		}
	}
	v := &value{typ: in.typ}
	if target == nil {
		// The numbers are not known, but their count is the rank.
		if s := c.arg(1).dims; len(s) == 1 && s[0] >= 0 && s[0] <= 64 {
			v.dims = slices.Repeat([]int64{-1}, int(s[0]))
		}
		return v
	}
	v.dims = make([]int64, len(target))
	inferred, open := -1, false
	rest := slices.Clone(in.dims) // what the inferred dimension has to make up for
	for i, t := range target {
		switch {
		case !t.known:
			v.dims[i], open = -1, true
		case t.n == -1:
			v.dims[i], inferred = -1, i
		case t.n == 0 && attrInt(c.Node, "allowzero", 0) == 0:
			v.dims[i] = -1
			if i < len(in.dims) {
				v.dims[i] = in.dims[i]
				rest[i] = 1 // cancels, even where it is not known
			} else {
				open = true
			}
		case t.n < 0:
			return &value{typ: in.typ}
		default:
			v.dims[i] = t.n
		}
	}
	if inferred >= 0 && !open && in.dims != nil {
		have, ok := elements(rest)
		for i, t := range target {
			if i != inferred && t.n != 0 {
				if ok = ok && have%t.n == 0; ok {
					have /= t.n
				}
			}
		}
		if ok {
			v.dims[inferred] = have
		}
	}
	v.data = in.data
	return v
}

func flatten(c *call) *value {
	in := c.arg(0)
	v := &value{typ: in.typ, dims: []int64{-1, -1}}
	if in.dims == nil {
		return v
	}
	a := attrInt(c.Node, "axis", 1)
	if a < 0 {
		a += int64(len(in.dims))
	}
	if a < 0 || a > int64(len(in.dims)) {
		return nil
	}
	for i, part := range [][]int64{in.dims[:a], in.dims[a:]} {
		if n, ok := elements(part); ok {
			v.dims[i] = n
		}
	}
	v.data = in.data
	return v
}

func squeeze(c *call) *value {
	in := c.arg(0)
	v := &value{typ: in.typ}
	list, ok := c.list("axes", 1)
	if in.dims == nil || !ok {
		return v
	}
	drop, ok := axes(list, len(in.dims))
	if !ok {
		return nil
	}
	dims := []int64{}
	for i, d := range in.dims {
		switch {
		case list == nil && d < 0:
			return v // may or may not be 1
		case list == nil && d == 1 || drop[i]:
		default:
			dims = append(dims, d)
		}
	}
	v.dims, v.data = dims, in.data
	return v
}

func unsqueeze(c *call) *value {
	in := c.arg(0)
	v := &value{typ: in.typ}
	list, ok := c.list("axes", 1)
	if in.dims == nil || !ok || len(list) > 64 {
		return v
	}
	insert, ok := axes(list, len(in.dims)+len(list))
	if !ok {
		return nil
	}
	rest := in.dims
	for _, one := range insert {
		switch {
		case one:
			v.dims = append(v.dims, 1)
		case len(rest) > 0:
			v.dims = append(v.dims, rest[0])
			rest = rest[1:]
		default: // an axis named twice
			return nil
		}
	}
	v.data = in.data
	return v
}

// permutation returns the axes a Transpose reads its output's axes from; false if the node is malformed.
func (c *call) permutation(rank int) ([]int, bool) {
	perm := make([]int, rank)
	a := attribute(c.Node, "perm")
	if a != nil && len(a.GetInts()) != rank {
		return nil, false
	}
	seen := make([]bool, rank)
	for i := range perm {
		perm[i] = rank - 1 - i
		if a != nil {
			p := a.GetInts()[i]
			if p < 0 || p >= int64(rank) || seen[p] {
				return nil, false
			}
			perm[i], seen[p] = int(p), true
		}
	}
	return perm, true
}

func transpose(c *call) *value {
	in := c.arg(0)
	v := &value{typ: in.typ}
	if in.dims == nil {
		return v
	}
	perm, ok := c.permutation(len(in.dims))
	if !ok {
		return nil
	}
	stride := make([]int64, len(perm))
	v.dims = make([]int64, len(perm))
	steps := make([]int64, len(perm))
	step := int64(1)
	for i := len(steps) - 1; i >= 0; i-- {
		steps[i] = step
		step *= max(1, in.dims[i])
	}
	for i, p := range perm {
		v.dims[i], stride[i] = in.dims[p], steps[p]
	}
	if in.data != nil && c.take(int64(len(in.data))) {
		v.data = make([]float64, 0, len(in.data))
		strided(v.dims, stride)(func(i int) { v.data = append(v.data, in.data[i]) })
	}
	return v
}

func concat(c *call) *value {
	v := &value{typ: c.arg(0).typ}
	if len(c.in) == 0 || c.arg(0).dims == nil {
		return v
	}
	a, ok := axis(attrInt(c.Node, "axis", 0), len(c.arg(0).dims))
	if !ok {
		return nil
	}
	dims := slices.Clone(c.arg(0).dims)
	dims[a] = 0
	known, total := true, 0
	for i := range c.in {
		in := c.arg(i)
		if len(in.dims) != len(dims) {
			return v
		}
		for j, d := range in.dims {
			switch {
			case j != a && dims[j] < 0:
				dims[j] = d
			case j == a && (d < 0 || dims[j] < 0):
				dims[j] = -1
			case j == a:
				dims[j] = min(dims[j]+d, math.MaxInt32)
			}
		}
		known = known && in.data != nil
		total += len(in.data)
	}
	v.dims = dims
	if n, ok := elements(dims); !known || !ok || n != int64(total) || !c.take(n) {
		return v
	}
	outer, _ := elements(dims[:a])
	v.data = make([]float64, 0, total)
	for o := range int(outer) {
		for i := range c.in {
			run := len(c.arg(i).data) / int(outer)
			v.data = append(v.data, c.arg(i).data[o*run:][:run]...)
		}
	}
	return v
}

// pick takes the given indices along one axis.
func (c *call) pick(in *value, a int, index []int64) []float64 {
	dims := slices.Clone(in.dims)
	dims[a] = int64(len(index))
	n, ok := elements(dims)
	if in.data == nil || !ok || !c.take(n) {
		return nil
	}
	outer, _ := elements(in.dims[:a])
	inner, _ := elements(in.dims[a+1:])
	out := make([]float64, 0, n)
	for o := range outer {
		for _, i := range index {
			if i < 0 || i >= in.dims[a] {
				return nil
			}
			out = append(out, in.data[(o*in.dims[a]+i)*inner:][:inner]...)
		}
	}
	return out
}

func gather(c *call) *value {
	in, index := c.arg(0), c.arg(1)
	v := &value{typ: in.typ}
	if in.dims == nil || index.dims == nil {
		return v
	}
	a, ok := axis(attrInt(c.Node, "axis", 0), len(in.dims))
	if !ok {
		return nil
	}
	v.dims = slices.Concat(in.dims[:a], index.dims, in.dims[a+1:])
	if v.dims == nil { // Concat makes nil of nothing, and this is a scalar
		v.dims = []int64{}
	}
	if in.data == nil || index.data == nil || !c.take(int64(len(index.data))) {
		return v
	}
	list := make([]int64, len(index.data))
	for i, x := range index.data {
		n := toInt(x)
		if !n.known {
			return v
		}
		if list[i] = n.n; n.n < 0 {
			list[i] += in.dims[a]
		}
	}
	v.data = c.pick(in, a, list)
	return v
}

// gatherND is followed in shape only.
func gatherND(c *call) *value {
	in, index := c.arg(0), c.arg(1).dims
	v := &value{typ: in.typ}
	batch := attrInt(c.Node, "batch_dims", 0)
	if in.dims == nil || len(index) == 0 || index[len(index)-1] < 0 || batch < 0 {
		return v
	}
	rest := batch + index[len(index)-1]
	if rest > int64(len(in.dims)) {
		return nil
	}
	v.dims = append(slices.Clone(index[:len(index)-1]), in.dims[rest:]...)
	return v
}

func slice(c *call) *value {
	in := c.arg(0)
	v := in.like()
	for i := range v.dims {
		v.dims[i] = -1
	}
	starts, ok1 := c.list("starts", 1)
	ends, ok2 := c.list("ends", 2)
	along, ok3 := c.list("axes", 3)
	steps, ok4 := c.list("steps", 4)
	if in.dims == nil || !ok1 || !ok2 || !ok3 || !ok4 || len(ends) != len(starts) {
		return v
	}
	v.dims, v.data = slices.Clone(in.dims), in.data
	for i, start := range starts {
		a, step := int64(i), int64(1)
		if along != nil && i < len(along) {
			a = along[i]
		}
		if steps != nil && i < len(steps) {
			step = steps[i]
		}
		j, ok := axis(a, len(v.dims))
		if !ok || step == 0 {
			return nil
		}
		d := v.dims[j]
		if d < 0 {
			v.data = nil
			continue
		}
		if !c.take(d) {
			v.dims[j], v.data = -1, nil
			continue
		}
		var list []int64
		if step > 0 {
			for k := bound(start, d, 0, d); k < bound(ends[i], d, 0, d); k += step {
				list = append(list, k)
			}
		} else {
			for k := bound(start, d, -1, d-1); k > bound(ends[i], d, -1, d-1); k += step {
				list = append(list, k)
			}
		}
		cur := &value{dims: slices.Clone(v.dims), data: v.data}
		v.dims[j] = int64(len(list))
		v.data = c.pick(cur, j, list)
	}
	return v
}

// bound resolves a slice bound on an axis of length d and clamps it to [lo,hi].
func bound(x, d, lo, hi int64) int64 {
	if x < 0 {
		x += d
	}
	return max(lo, min(x, hi))
}

func split(c *call, i int) *value {
	v := c.arg(0).like()
	if v.dims == nil {
		return v
	}
	a, ok := axis(attrInt(c.Node, "axis", 0), len(v.dims))
	if !ok {
		return nil
	}
	n := int64(len(c.GetOutput()))
	if list, ok := c.list("split", 1); ok && list != nil {
		if i >= len(list) {
			return nil
		}
		v.dims[a] = list[i]
	} else if ok && v.dims[a]%n == 0 && v.dims[a] > 0 {
		v.dims[a] /= n
	} else {
		v.dims[a] = -1
	}
	return v
}

func expand(c *call) *value {
	in := c.arg(0)
	v := &value{typ: in.typ}
	target := c.ints(1)
	for _, t := range target {
		if t.known && t.n < 0 {
			return nil
		}
	}
	v.dims = broadcast(in.dims, dimsOf(target))
	if n, ok := elements(v.dims); v.dims != nil && ok && in.data != nil && c.take(n) {
		v.data = make([]float64, 0, n)
		at(v.dims, in.dims)(func(i int) { v.data = append(v.data, in.data[i]) })
	}
	return v
}

func dequantize(c *call) *value {
	x, scale, zero := c.arg(0), c.arg(1), c.arg(2)
	v := x.like()
	v.typ = scale.typ
	if x.data == nil || scale.data == nil || input(c.Node, 2) != "" && zero.data == nil {
		return v
	}
	at := c.scaleIndex(x, scale)
	if at == nil || zero.data != nil && len(zero.data) != len(scale.data) || !c.take(int64(len(x.data))) {
		return v
	}
	v.data = make([]float64, len(x.data))
	for i, q := range x.data {
		k := at(i)
		if zero.data != nil {
			q -= zero.data[k]
		}
		v.data[i] = q * scale.data[k]
	}
	return v
}

// scaleIndex returns which scale belongs to an element of x: the only one, that of its index along an axis, or that of the
// block along the axis in which it lies. It returns nil where the shapes do not fit.
func (c *call) scaleIndex(x, scale *value) func(i int) int {
	n, block := len(scale.data), attrInt(c.Node, "block_size", 0)
	if n == 1 && block == 0 {
		return func(int) int { return 0 }
	}
	a, ok := axis(attrInt(c.Node, "axis", 1), len(x.dims))
	if !ok || n == 0 {
		return nil
	}
	inner, _ := elements(x.dims[a+1:])
	length := x.dims[a]
	if inner == 0 || length == 0 {
		return nil
	}
	if block == 0 {
		if length != int64(n) {
			return nil
		}
		return func(i int) int { return int(int64(i) / inner % length) }
	}
	if block < 0 || len(scale.dims) != len(x.dims) {
		return nil
	}
	blocks := (length + block - 1) / block
	for i, d := range scale.dims {
		if i == a && d != blocks || i != a && d != x.dims[i] {
			return nil
		}
	}
	return func(i int) int {
		outer, rest := int64(i)/(inner*length), int64(i)%(inner*length)
		return int((outer*blocks+rest/inner/block)*inner + rest%inner)
	}
}

// dynamicQuantize gives numbers of 8 bits, and the scale and zero point chosen for them.
func dynamicQuantize(c *call, i int) *value {
	switch i {
	case 0:
		return &value{typ: Uint8, dims: slices.Clone(c.arg(0).dims)}
	case 1:
		return &value{typ: Float32, dims: []int64{}}
	case 2:
		return &value{typ: Uint8, dims: []int64{}}
	}
	return nil
}

// unpackNBits is the operator, of lowered nodes only, that gives the weights of a MatMulNBits as [K,N].
const unpackNBits = "mfgs.UnpackNBits"

// unpack gives (q − zero) · scale of weights packed as [N, blocks, bytes], with bits each from the lowest on, one scale a block,
// [N, blocks], and one zero point a block, packed likewise, each row of N beginning with a new byte, or 2^(bits−1).
func unpack(c *call) *value {
	k, n := attrInt(c.Node, "K", 0), attrInt(c.Node, "N", 0)
	bits, size := attrInt(c.Node, "bits", 4), attrInt(c.Node, "block_size", 0)
	total, ok := elements([]int64{k, n})
	if !ok || total == 0 || size < 1 || size > 1<<16 || bits != 2 && bits != 4 && bits != 8 {
		return nil
	}
	v := &value{typ: cmp.Or(c.arg(1).typ, Float32), dims: []int64{k, n}}
	packed, scales, zeros := c.arg(0).data, c.arg(1).data, c.arg(2).data
	blocks := (k + size - 1) / size
	perByte := 8 / bits
	blob, row := (size+perByte-1)/perByte, (blocks+perByte-1)/perByte
	known := packed != nil && scales != nil && (zeros != nil || input(c.Node, 2) == "")
	if !known || !c.take(total) {
		return v
	}
	if int64(len(packed)) != n*blocks*blob || int64(len(scales)) != n*blocks {
		return nil
	}
	floatZeros := c.arg(2).typ.IsFloat() && int64(len(zeros)) == n*blocks
	if zeros != nil && !floatZeros && int64(len(zeros)) != n*row {
		return nil
	}
	number := func(from []float64, i int64) float64 {
		return float64(int64(from[i/perByte]) >> (i % perByte * bits) & (1<<bits - 1))
	}
	v.data = make([]float64, total)
	for j := range n {
		for i := range k {
			b := i / size
			zero := float64(int64(1) << (bits - 1))
			switch {
			case floatZeros:
				zero = zeros[j*blocks+b]
			case zeros != nil:
				zero = number(zeros[j*row:], b)
			}
			q := number(packed[(j*blocks+b)*blob:], i%size)
			v.data[i*n+j] = (q - zero) * scales[j*blocks+b]
		}
	}
	return v
}

func quantize(c *call) *value {
	x, scale, zero := c.arg(0), c.arg(1), c.arg(2)
	v := x.like()
	if v.typ = zero.typ; input(c.Node, 2) == "" {
		v.typ = cmp.Or(DataType(attrInt(c.Node, "output_dtype", 0)), Uint8)
	}
	r, known := integerRange[v.typ]
	if x.data == nil || scale.data == nil || !known || input(c.Node, 2) != "" && len(zero.data) != len(scale.data) {
		return v
	}
	at := c.scaleIndex(x, scale)
	if at == nil || !c.take(int64(len(x.data))) {
		return v
	}
	v.data = make([]float64, len(x.data))
	for i, f := range x.data {
		k, z := at(i), 0.0
		if zero.data != nil {
			z = zero.data[k]
		}
		v.data[i] = max(r[0], min(r[1], math.RoundToEven(f/scale.data[k])+z))
	}
	return v
}

// reduce is a reduction over the axes given, or over all.
func reduce(f func([]float64) float64) func(*call, int) *value {
	return first(func(c *call) *value {
		in := c.arg(0)
		v := &value{typ: in.typ}
		list, ok := c.list("axes", 1)
		if in.dims == nil || !ok {
			return v
		}
		if len(list) == 0 && attrInt(c.Node, "noop_with_empty_axes", 0) != 0 {
			return same(c)
		}
		drop, ok := axes(list, len(in.dims))
		if !ok {
			return nil
		}
		keep := attrInt(c.Node, "keepdims", 1) != 0
		var outDims, outStride, redDims, redStride []int64
		v.dims = []int64{}
		step := int64(1)
		strides := make([]int64, len(in.dims))
		for i := len(in.dims) - 1; i >= 0; i-- {
			strides[i] = step
			step *= max(1, in.dims[i])
		}
		for i, d := range in.dims {
			if len(list) == 0 || drop[i] {
				redDims, redStride = append(redDims, d), append(redStride, strides[i])
				if keep {
					v.dims = append(v.dims, 1)
				}
			} else {
				outDims, outStride = append(outDims, d), append(outStride, strides[i])
				v.dims = append(v.dims, d)
			}
		}
		n, _ := elements(redDims)
		if in.data == nil || n == 0 || !c.take(int64(len(in.data))) {
			return v
		}
		run := make([]float64, 0, n)
		strided(outDims, outStride)(func(o int) {
			run = run[:0]
			strided(redDims, redStride)(func(r int) { run = append(run, in.data[o+r]) })
			v.data = append(v.data, f(run))
		})
		return v
	})
}

func argMax(c *call, i int) *value {
	in := c.arg(0)
	v := &value{typ: Int64}
	if i > 0 || in.dims == nil {
		return v
	}
	a, ok := axis(attrInt(c.Node, "axis", 0), len(in.dims))
	if !ok {
		return nil
	}
	v.dims = slices.Clone(in.dims)
	v.dims[a] = 1
	if attrInt(c.Node, "keepdims", 1) == 0 {
		v.dims = slices.Delete(v.dims, a, a+1)
	}
	return v
}

func matMul(c *call) *value {
	a, b := c.arg(0), c.arg(1)
	v := &value{typ: cmp.Or(a.typ, b.typ)} // the same by definition
	if a.dims == nil || b.dims == nil || len(a.dims) == 0 || len(b.dims) == 0 {
		return v
	}
	ad, bd := a.dims, b.dims
	if len(ad) == 1 {
		ad = []int64{1, ad[0]}
	}
	if len(bd) == 1 {
		bd = []int64{bd[0], 1}
	}
	v.dims = broadcast(ad[:len(ad)-2], bd[:len(bd)-2])
	if v.dims == nil {
		return v
	}
	if len(a.dims) == 2 && len(b.dims) == 2 {
		v.data = c.product(a, b)
	}
	if len(a.dims) > 1 {
		v.dims = append(v.dims, ad[len(ad)-2])
	}
	if len(b.dims) > 1 {
		v.dims = append(v.dims, bd[len(bd)-1])
	}
	return v
}

// product multiplies two matrices that are known, within a bound on the work.
func (c *call) product(a, b *value) []float64 {
	const most = 1 << 31 // a few seconds
	rows, inner, columns := a.dims[0], a.dims[1], b.dims[1]
	size, ok := elements([]int64{rows, columns})
	if work, fits := elements([]int64{rows, inner, columns}); a.data == nil || b.data == nil || b.dims[0] != inner || !ok || !fits || work > most || !c.take(size) {
		return nil
	}
	out := make([]float64, size)
	for i := range rows {
		row := out[i*columns : (i+1)*columns]
		for k, x := range a.data[i*inner : (i+1)*inner] {
			for j, y := range b.data[int64(k)*columns : (int64(k)+1)*columns] {
				row[j] += x * y
			}
		}
	}
	return out
}

func gemm(c *call) *value {
	v := &value{typ: cmp.Or(c.arg(0).typ, c.arg(1).typ), dims: []int64{-1, -1}}
	if a := c.arg(0).dims; len(a) == 2 {
		v.dims[0] = a[attrInt(c.Node, "transA", 0)&1]
	}
	if b := c.arg(1).dims; len(b) == 2 {
		v.dims[1] = b[1-attrInt(c.Node, "transB", 0)&1]
	}
	return v
}

func conv(c *call) *value {
	w := c.arg(1).dims
	v := window(c, len(w))
	if v.dims == nil || len(w) != len(v.dims) {
		return v
	}
	v.dims[1] = w[0]
	c.slide(v, w[2:])
	return v
}

func pool(c *call) *value {
	kernel := attribute(c.Node, "kernel_shape").GetInts()
	v := window(c, len(kernel)+2)
	if v.dims != nil && len(kernel)+2 == len(v.dims) {
		c.slide(v, kernel)
	}
	return v
}

// window returns the first input's type and shape [N,C,…] with the spatial dimensions still of the input.
func window(c *call, rank int) *value {
	v := c.arg(0).like()
	if v.dims == nil && rank >= 2 {
		v.dims = slices.Repeat([]int64{-1}, rank)
	}
	if len(v.dims) < 2 {
		v.dims = nil
	}
	return v
}

// slide replaces the spatial dimensions of v by those a window of the given size gives.
func (c *call) slide(v *value, kernel []int64) {
	ints := func(name string, i int, otherwise int64) int64 {
		if list := attribute(c.Node, name).GetInts(); i < len(list) {
			return list[i]
		}
		return otherwise
	}
	auto := string(attribute(c.Node, "auto_pad").GetS())
	for i, k := range kernel {
		d := &v.dims[2+i]
		stride, dilation := ints("strides", i, 1), ints("dilations", i, 1)
		pads := ints("pads", i, 0) + ints("pads", i+len(kernel), 0)
		const most = 1 << 30
		for _, x := range []int64{*d, k, stride, dilation, pads} {
			if x < 0 || x > most {
				*d = -1
			}
		}
		if *d < 0 || stride == 0 {
			*d = -1
			continue
		}
		switch auto {
		case "SAME_UPPER", "SAME_LOWER":
			*d = (*d + stride - 1) / stride
			continue
		case "VALID":
			pads = 0
		}
		room := *d + pads - dilation*(k-1) - 1
		if attrInt(c.Node, "ceil_mode", 0) != 0 {
			room += stride - 1
		}
		if *d = room/stride + 1; room < 0 {
			*d = -1
		}
	}
}

func globalPool(c *call) *value {
	v := c.arg(0).like()
	for i := 2; i < len(v.dims); i++ {
		v.dims[i] = 1
	}
	return v
}

// doubled is the shape of what is joined with something of its own shape.
func doubled(c *call) *value {
	x := c.arg(0)
	i, ok := axis(attrInt(c.Node, "axis", 0), len(x.dims))
	if !ok {
		return nil
	}
	v := &value{typ: x.typ, dims: slices.Clone(x.dims)}
	if v.dims[i] > 0 {
		v.dims[i] *= 2
	}
	return v
}

// recurrent is the shape of what a recurrent layer gives for x [T,N,d]: all its states [T,directions,N,h], and the last ones
// [directions,N,h].
func recurrent(c *call, i int) *value {
	x, h := c.arg(0), attrInt(c.Node, "hidden_size", -1)
	if len(x.dims) != 3 || attrInt(c.Node, "layout", 0) != 0 {
		return nil
	}
	directions := int64(1)
	if string(attribute(c.Node, "direction").GetS()) == "bidirectional" {
		directions = 2
	}
	dims := []int64{directions, x.dims[1], h}
	if i == 0 {
		dims = append([]int64{x.dims[0]}, dims...)
	}
	return &value{typ: x.typ, dims: dims}
}
