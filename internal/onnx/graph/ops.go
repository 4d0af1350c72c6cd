package graph

import (
	"cmp"
	"math"
	"slices"

	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// Ops infers the i-th output of each operator: its type and shape as far as they follow from the inputs,
// and its numbers if those of the inputs are known; nil if nothing is known. Some entries infer shapes
// only.
var Ops map[string]func(c *Call, i int) *Value

func init() {
	Ops = map[string]func(*Call, int) *Value{
		"Constant":          first(constant),
		"ConstantOfShape":   first(ConstantOfShape),
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
		"ReduceL1":          reduce(func(s []float64) float64 { return sumOf(s, math.Abs) }),
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
	Ops["Div"] = first(func(c *Call) *Value {
		if t := c.Arg(0).Type; t == tensor.Undefined || t.IsFloat() {
			return elementwise(c, func(a, b float64) float64 { return a / b })
		}
		return elementwise(c, func(a, b float64) float64 {
			if b == 0 {
				return math.NaN()
			}
			return math.Trunc(a / b)
		})
	})
	Ops["Sum"] = Ops["Add"]
	Ops["Mean"] = first(func(c *Call) *Value {
		v := elementwise(c, func(a, b float64) float64 { return a + b })
		if v != nil && v.Data != nil {
			v = &Value{Type: v.Type, Dims: v.Dims, Data: slices.Clone(v.Data)}
			for i := range v.Data {
				v.Data[i] /= float64(len(c.In))
			}
		}
		return v
	})
	Ops["Range"] = first(func(c *Call) *Value { return &Value{Type: c.Arg(0).Type, Dims: []int64{-1}} })
	Ops["Where"] = first(func(c *Call) *Value {
		return &Value{Type: c.Arg(1).Type, Dims: broadcast(broadcast(c.Arg(0).Dims, c.Arg(1).Dims), c.Arg(2).Dims)}
	})
	Ops["NonZero"] = first(func(c *Call) *Value {
		v := &Value{Type: tensor.Int64, Dims: []int64{-1, -1}}
		if c.Arg(0).Dims != nil {
			v.Dims[0] = int64(max(1, len(c.Arg(0).Dims)))
		}
		return v
	})
	Ops["TfIdfVectorizer"] = first(func(c *Call) *Value {
		terms := c.Node.Attr("ngram_indexes").GetInts()
		x := c.Arg(0).Dims
		if len(x) < 1 || len(x) > 2 || len(terms) == 0 {
			return nil
		}
		return &Value{Type: tensor.Float32, Dims: append(slices.Clone(x[:len(x)-1]), slices.Max(terms)+1)}
	})
	Ops["GatherElements"] = first(func(c *Call) *Value {
		return &Value{Type: c.Arg(0).Type,
			Dims: slices.Clone(c.Arg(1).Dims)}
	})
	Ops["GatherND"] = first(gatherND)
	Ops["DynamicQuantizeLinear"] = dynamicQuantize
	for _, op := range []string{"LSTM", "GRU", "RNN"} {
		Ops[op] = recurrent
	}
	Ops[unpackNBits] = first(unpack)
	Ops[BothClasses] = first(doubled)
	for _, name := range []string{"Relu", "LeakyRelu", "Elu", "Selu", "Celu", "Sigmoid", "HardSigmoid", "HardSwish",
		"Tanh",
		"Softplus", "Softsign", "Erf", "Gelu", "Mish", "Swish", "Floor", "Ceil", "Round", "Sign", "Sin", "Cos",
		"ThresholdedRelu", "PRelu", "Softmax", "LogSoftmax", "Hardmax", "LpNormalization", "LRN",
		"MeanVarianceNormalization",
		"BatchNormalization", "InstanceNormalization", "LayerNormalization", "GroupNormalization", "RMSNormalization",
		"CumSum", "Trilu",
		"ScatterND", "ScatterElements",
		"SimplifiedLayerNormalization", "com.microsoft.SkipLayerNormalization",
		"com.microsoft.SkipSimplifiedLayerNormalization",
		"com.microsoft.Gelu", "com.microsoft.FastGelu", "com.microsoft.BiasGelu", "com.microsoft.QuickGelu",
		"ai.onnx.ml.Normalizer", "ai.onnx.ml.Scaler"} {
		Ops[name] = first(func(c *Call) *Value { return c.Arg(0).Like() })
	}
	Ops["Softmax"] = softmax(math.Exp)
	Ops["LogSoftmax"] = softmax(func(a float64) float64 { return a })
	Ops["Mod"] = first(func(c *Call) *Value {
		return &Value{Type: c.Arg(0).Type, Dims: broadcast(c.Arg(0).Dims, c.Arg(1).Dims)}
	})
	for name, holds := range map[string]func(a, b float64) bool{
		"And":   func(a, b float64) bool { return a != 0 && b != 0 },
		"Or":    func(a, b float64) bool { return a != 0 || b != 0 },
		"Xor":   func(a, b float64) bool { return (a != 0) != (b != 0) },
		"Equal": func(a, b float64) bool { return a == b },
		"Less":  func(a, b float64) bool { return a < b }, "LessOrEqual": func(a, b float64) bool { return a <= b },
		"Greater": func(a, b float64) bool { return a > b }, "GreaterOrEqual": func(a, b float64) bool { return a >= b },
	} {
		Ops[name] = comparison(holds)
	}
	Ops["Not"] = first(func(c *Call) *Value {
		return c.mapped(c.Arg(0).Like(), func(a float64) float64 { return truth(a == 0, a) })
	})
	Ops["Size"] = first(func(c *Call) *Value {
		v := &Value{Type: tensor.Int64, Dims: []int64{}}
		if n, ok := onnxpb.Elements(c.Arg(0).Dims); c.Arg(0).Dims != nil && ok {
			v.Data = []float64{float64(n)}
		}
		return v
	})
}

// comparison computes a truth value of two numbers, unknown if one of them is.
func comparison(holds func(a, b float64) bool) func(*Call, int) *Value {
	return first(func(c *Call) *Value {
		v := elementwise(c, func(a, b float64) float64 { return truth(holds(a, b), a, b) })
		if v != nil {
			v.Type = tensor.Bool
		}
		return v
	})
}

// truth is 1 or 0, or NaN where an operand is unknown.
func truth(holds bool, of ...float64) float64 {
	for _, x := range of {
		if math.IsNaN(x) {
			return math.NaN()
		}
	}
	if holds {
		return 1
	}
	return 0
}

// first is for an operator whose first output alone is inferred.
func first(f func(*Call) *Value) func(*Call, int) *Value {
	return func(c *Call, i int) *Value {
		if i > 0 {
			return nil
		}
		return f(c)
	}
}

// Like returns a value of v's type and shape.
func (v *Value) Like() *Value { return &Value{Type: v.Type, Dims: slices.Clone(v.Dims)} }

func same(c *Call) *Value {
	v := *c.Arg(0)
	return &v
}

func constant(c *Call) *Value {
	for _, a := range c.GetAttribute() {
		v := &Value{Constant: true, Dims: []int64{}}
		switch a.GetName() {
		case "value":
			return c.tensor(a.GetT())
		case "value_int":
			v.Type, v.Data = tensor.Int64, []float64{float64(a.GetI())}
		case "value_float":
			v.Type, v.Data = tensor.Float32, []float64{float64(a.GetF())}
		case "value_ints":
			v.Type, v.Dims = tensor.Int64, []int64{int64(len(a.GetInts()))}
			for _, x := range a.GetInts() {
				v.Data = append(v.Data, float64(x))
			}
		case "value_floats":
			v.Type, v.Dims = tensor.Float32, []int64{int64(len(a.GetFloats()))}
			for _, x := range a.GetFloats() {
				v.Data = append(v.Data, float64(x))
			}
		default:
			continue
		}
		return v
	}
	return &Value{Constant: true}
}

func ConstantOfShape(c *Call) *Value {
	v := &Value{Type: tensor.Float32}
	fill := 0.0
	if a := c.Node.Attr("value"); a != nil {
		t := c.tensor(a.GetT())
		if len(t.Data) != 1 {
			return nil
		}
		v.Type, fill = t.Type, t.Data[0]
	}
	v.Dims = dimsOf(c.ints(0))
	if n, ok := onnxpb.Elements(v.Dims); v.Dims != nil && ok && c.take(n) {
		v.Data = slices.Repeat([]float64{fill}, int(n))
	}
	return v
}

// dimsOf converts a shape tensor to a shape; nil if even the rank is unknown.
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

func cast(c *Call) *Value {
	v := c.Arg(0).Like()
	v.Type = tensor.Type(c.Node.Int("to", 0))
	if c.Arg(0).Data == nil {
		return v
	}
	var to func(float64) float64
	switch v.Type {
	case tensor.Float64:
		to = func(x float64) float64 { return x }
	case tensor.Float32:
		to = func(x float64) float64 { return float64(float32(x)) }
	case tensor.Float16:
		to = func(x float64) float64 { return float64(tensor.FromFloat16(tensor.ToFloat16(x))) }
	case tensor.Bool:
		to = func(x float64) float64 { return truth(x != 0, x) }
	case tensor.Int64, tensor.Int32:
		to = math.Trunc
	default:
		return v
	}
	return c.mapped(v, to)
}

// mapped sets v's numbers to f of the first input's.
func (c *Call) mapped(v *Value, f func(float64) float64) *Value {
	in := c.Arg(0).Data
	if in == nil || !c.take(int64(len(in))) {
		return v
	}
	v.Data = make([]float64, len(in))
	for i, x := range in {
		v.Data[i] = f(x)
	}
	return v
}

func unary(f func(float64) float64) func(*Call, int) *Value {
	return first(func(c *Call) *Value { return c.mapped(c.Arg(0).Like(), f) })
}

func pairwise(f func(a, b float64) float64) func(*Call, int) *Value {
	return first(func(c *Call) *Value { return elementwise(c, f) })
}

// elementwise is a broadcast operation on any number of inputs, from the left.
func elementwise(c *Call, f func(a, b float64) float64) *Value {
	v := *c.Arg(0)
	for _, b := range c.In[min(1, len(c.In)):] {
		if b == nil {
			return nil
		}
		a := v
		v = Value{Type: cmp.Or(a.Type, b.Type), Dims: broadcast(a.Dims, b.Dims)}
		n, ok := onnxpb.Elements(v.Dims)
		if v.Dims == nil || !ok || a.Data == nil || b.Data == nil || !c.take(n) {
			continue
		}
		v.Data = make([]float64, 0, n)
		at(v.Dims, a.Dims)(func(i int) { v.Data = append(v.Data, a.Data[i]) })
		j := 0
		at(v.Dims, b.Dims)(func(i int) { v.Data[j] = f(v.Data[j], b.Data[i]); j++ })
	}
	return &v
}

func clip(c *Call) *Value {
	v := c.Arg(0).Like()
	lo, hi, known := c.ClipBounds()
	if !known {
		return v
	}
	return c.mapped(v, func(x float64) float64 { return max(lo, min(x, hi)) })
}

// ClipBounds returns the bounds of a Clip, which are attributes before opset 11 and inputs since, and may
// be omitted; false if they are unknown.
func (c *Call) ClipBounds() (lo, hi float64, known bool) {
	lo, hi = c.Node.Float("min", math.Inf(-1)), c.Node.Float("max", math.Inf(1))
	for i, bound := range []*float64{&lo, &hi} {
		if c.Node.In(i+1) == "" {
			continue
		}
		b := c.Arg(i + 1).Data
		if len(b) != 1 {
			return lo, hi, false
		}
		*bound = b[0]
	}
	return lo, hi, true
}

// sumOf returns Σ f(x).
func sumOf(s []float64, f func(float64) float64) (total float64) {
	for _, x := range s {
		total += f(x)
	}
	return total
}

// softmax computes f(x − log Σ exp x) over the last axis; of others, the shape only.
func softmax(f func(float64) float64) func(*Call, int) *Value {
	return first(func(c *Call) *Value {
		in, v := c.Arg(0), c.Arg(0).Like()
		otherwise := int64(-1)
		if c.G.Opset < 13 {
			otherwise = 1
		}
		last := len(in.Dims) - 1
		a, ok := Axis(c.Node.Int("axis", otherwise), len(in.Dims))
		if !ok || a != last || in.Data == nil || in.Dims[last] <= 0 || !c.take(int64(len(in.Data))) {
			return v
		}
		for row := range slices.Chunk(in.Data, int(in.Dims[last])) {
			total := logSumExp(row)
			for _, x := range row {
				v.Data = append(v.Data, f(x-total))
			}
		}
		return v
	})
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

func shape(c *Call) *Value {
	v := &Value{Type: tensor.Int64, Dims: []int64{-1}}
	dims := c.Arg(0).Dims
	if dims == nil {
		return v
	}
	start, end := c.Node.Int("start", 0), c.Node.Int("end", int64(len(dims)))
	clamp := func(a int64) int64 {
		if a < 0 {
			a += int64(len(dims))
		}
		return max(0, min(a, int64(len(dims))))
	}
	start, end = clamp(start), clamp(end)
	dims = dims[start:max(start, end)]
	v.Dims[0] = int64(len(dims))
	v.Data = make([]float64, len(dims))
	for i, d := range dims {
		v.Data[i] = float64(d)
		if d < 0 {
			v.Data[i] = math.NaN()
		}
	}
	return v
}

func reshape(c *Call) *Value {
	in := c.Arg(0)
	target := c.ints(1)
	if a := c.Node.Attr("shape"); a != nil { // before opset 5
		target = nil
		for _, d := range a.GetInts() {
			target = append(target, maybeInt{d, true})
		}
	}
	v := &Value{Type: in.Type}
	if target == nil {
		// The numbers are unknown, but their count is the rank.
		if s := c.Arg(1).Dims; len(s) == 1 && s[0] >= 0 && s[0] <= 64 {
			v.Dims = slices.Repeat([]int64{-1}, int(s[0]))
		}
		return v
	}
	v.Dims = make([]int64, len(target))
	inferred, open := -1, false
	rest := slices.Clone(in.Dims) // the product that the inferred dimension completes
	for i, t := range target {
		switch {
		case !t.known:
			v.Dims[i], open = -1, true
		case t.n == -1:
			v.Dims[i], inferred = -1, i
		case t.n == 0 && c.Node.Int("allowzero", 0) == 0:
			v.Dims[i] = -1
			if i < len(in.Dims) {
				v.Dims[i] = in.Dims[i]
				rest[i] = 1 // cancels, even if unknown
			} else {
				open = true
			}
		case t.n < 0:
			return &Value{Type: in.Type}
		default:
			v.Dims[i] = t.n
		}
	}
	if inferred >= 0 && !open && in.Dims != nil {
		have, ok := onnxpb.Elements(rest)
		for i, t := range target {
			if i != inferred && t.n != 0 {
				if ok = ok && have%t.n == 0; ok {
					have /= t.n
				}
			}
		}
		if ok {
			v.Dims[inferred] = have
		}
	}
	v.Data = in.Data
	return v
}

func flatten(c *Call) *Value {
	in := c.Arg(0)
	v := &Value{Type: in.Type, Dims: []int64{-1, -1}}
	if in.Dims == nil {
		return v
	}
	a := c.Node.Int("axis", 1)
	if a < 0 {
		a += int64(len(in.Dims))
	}
	if a < 0 || a > int64(len(in.Dims)) {
		return nil
	}
	for i, part := range [][]int64{in.Dims[:a], in.Dims[a:]} {
		if n, ok := onnxpb.Elements(part); ok {
			v.Dims[i] = n
		}
	}
	v.Data = in.Data
	return v
}

func squeeze(c *Call) *Value {
	in := c.Arg(0)
	v := &Value{Type: in.Type}
	list, ok := c.List("axes", 1)
	if in.Dims == nil || !ok {
		return v
	}
	drop, ok := Axes(list, len(in.Dims))
	if !ok {
		return nil
	}
	dims := []int64{}
	for i, d := range in.Dims {
		switch {
		case list == nil && d < 0:
			return v // may or may not be 1
		case list == nil && d == 1 || drop[i]:
		default:
			dims = append(dims, d)
		}
	}
	v.Dims, v.Data = dims, in.Data
	return v
}

func unsqueeze(c *Call) *Value {
	in := c.Arg(0)
	v := &Value{Type: in.Type}
	list, ok := c.List("axes", 1)
	if in.Dims == nil || !ok || len(list) > 64 {
		return v
	}
	insert, ok := Axes(list, len(in.Dims)+len(list))
	if !ok {
		return nil
	}
	rest := in.Dims
	for _, one := range insert {
		switch {
		case one:
			v.Dims = append(v.Dims, 1)
		case len(rest) > 0:
			v.Dims = append(v.Dims, rest[0])
			rest = rest[1:]
		default: // an axis listed twice
			return nil
		}
	}
	v.Data = in.Data
	return v
}

// Permutation returns the input axis of each output axis of a Transpose; false if the node is malformed.
func (c *Call) Permutation(rank int) ([]int, bool) {
	perm := make([]int, rank)
	a := c.Node.Attr("perm")
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

func transpose(c *Call) *Value {
	in := c.Arg(0)
	v := &Value{Type: in.Type}
	if in.Dims == nil {
		return v
	}
	perm, ok := c.Permutation(len(in.Dims))
	if !ok {
		return nil
	}
	stride := make([]int64, len(perm))
	v.Dims = make([]int64, len(perm))
	steps := make([]int64, len(perm))
	step := int64(1)
	for i := len(steps) - 1; i >= 0; i-- {
		steps[i] = step
		step *= max(1, in.Dims[i])
	}
	for i, p := range perm {
		v.Dims[i], stride[i] = in.Dims[p], steps[p]
	}
	if in.Data != nil && c.take(int64(len(in.Data))) {
		v.Data = make([]float64, 0, len(in.Data))
		strided(v.Dims, stride)(func(i int) { v.Data = append(v.Data, in.Data[i]) })
	}
	return v
}

func concat(c *Call) *Value {
	v := &Value{Type: c.Arg(0).Type}
	if len(c.In) == 0 || c.Arg(0).Dims == nil {
		return v
	}
	a, ok := Axis(c.Node.Int("axis", 0), len(c.Arg(0).Dims))
	if !ok {
		return nil
	}
	dims := slices.Clone(c.Arg(0).Dims)
	dims[a] = 0
	known, total := true, 0
	for i := range c.In {
		in := c.Arg(i)
		if len(in.Dims) != len(dims) {
			return v
		}
		for j, d := range in.Dims {
			switch {
			case j != a && dims[j] < 0:
				dims[j] = d
			case j == a && (d < 0 || dims[j] < 0):
				dims[j] = -1
			case j == a:
				dims[j] = min(dims[j]+d, math.MaxInt32)
			}
		}
		known = known && in.Data != nil
		total += len(in.Data)
	}
	v.Dims = dims
	if n, ok := onnxpb.Elements(dims); !known || !ok || n != int64(total) || !c.take(n) {
		return v
	}
	outer, _ := onnxpb.Elements(dims[:a])
	v.Data = make([]float64, 0, total)
	for o := range int(outer) {
		for i := range c.In {
			run := len(c.Arg(i).Data) / int(outer)
			v.Data = append(v.Data, c.Arg(i).Data[o*run:][:run]...)
		}
	}
	return v
}

// pick takes the given indices along one axis.
func (c *Call) pick(in *Value, a int, index []int64) []float64 {
	dims := slices.Clone(in.Dims)
	dims[a] = int64(len(index))
	n, ok := onnxpb.Elements(dims)
	if in.Data == nil || !ok || !c.take(n) {
		return nil
	}
	outer, _ := onnxpb.Elements(in.Dims[:a])
	inner, _ := onnxpb.Elements(in.Dims[a+1:])
	out := make([]float64, 0, n)
	for o := range outer {
		for _, i := range index {
			if i < 0 || i >= in.Dims[a] {
				return nil
			}
			out = append(out, in.Data[(o*in.Dims[a]+i)*inner:][:inner]...)
		}
	}
	return out
}

func gather(c *Call) *Value {
	in, index := c.Arg(0), c.Arg(1)
	v := &Value{Type: in.Type}
	if in.Dims == nil || index.Dims == nil {
		return v
	}
	a, ok := Axis(c.Node.Int("axis", 0), len(in.Dims))
	if !ok {
		return nil
	}
	v.Dims = slices.Concat(in.Dims[:a], index.Dims, in.Dims[a+1:])
	if v.Dims == nil { // an empty shape: a scalar
		v.Dims = []int64{}
	}
	if in.Data == nil || index.Data == nil || !c.take(int64(len(index.Data))) {
		return v
	}
	list := make([]int64, len(index.Data))
	for i, x := range index.Data {
		n := toInt(x)
		if !n.known {
			return v
		}
		if list[i] = n.n; n.n < 0 {
			list[i] += in.Dims[a]
		}
	}
	v.Data = c.pick(in, a, list)
	return v
}

// gatherND infers the shape only.
func gatherND(c *Call) *Value {
	in, index := c.Arg(0), c.Arg(1).Dims
	v := &Value{Type: in.Type}
	batch := c.Node.Int("batch_dims", 0)
	if in.Dims == nil || len(index) == 0 || index[len(index)-1] < 0 || batch < 0 {
		return v
	}
	rest := batch + index[len(index)-1]
	if rest > int64(len(in.Dims)) {
		return nil
	}
	v.Dims = append(slices.Clone(index[:len(index)-1]), in.Dims[rest:]...)
	return v
}

func slice(c *Call) *Value {
	in := c.Arg(0)
	v := in.Like()
	for i := range v.Dims {
		v.Dims[i] = -1
	}
	starts, ok1 := c.List("starts", 1)
	ends, ok2 := c.List("ends", 2)
	along, ok3 := c.List("axes", 3)
	steps, ok4 := c.List("steps", 4)
	if in.Dims == nil || !ok1 || !ok2 || !ok3 || !ok4 || len(ends) != len(starts) {
		return v
	}
	v.Dims, v.Data = slices.Clone(in.Dims), in.Data
	for i, start := range starts {
		a, step := int64(i), int64(1)
		if along != nil && i < len(along) {
			a = along[i]
		}
		if steps != nil && i < len(steps) {
			step = steps[i]
		}
		j, ok := Axis(a, len(v.Dims))
		if !ok || step == 0 {
			return nil
		}
		d := v.Dims[j]
		if d < 0 {
			v.Data = nil
			continue
		}
		if !c.take(d) {
			v.Dims[j], v.Data = -1, nil
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
		cur := &Value{Dims: slices.Clone(v.Dims), Data: v.Data}
		v.Dims[j] = int64(len(list))
		v.Data = c.pick(cur, j, list)
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

func split(c *Call, i int) *Value {
	v := c.Arg(0).Like()
	if v.Dims == nil {
		return v
	}
	a, ok := Axis(c.Node.Int("axis", 0), len(v.Dims))
	if !ok {
		return nil
	}
	n := int64(len(c.GetOutput()))
	if list, ok := c.List("split", 1); ok && list != nil {
		if i >= len(list) {
			return nil
		}
		v.Dims[a] = list[i]
	} else if ok && v.Dims[a]%n == 0 && v.Dims[a] > 0 {
		v.Dims[a] /= n
	} else {
		v.Dims[a] = -1
	}
	return v
}

func expand(c *Call) *Value {
	in := c.Arg(0)
	v := &Value{Type: in.Type}
	target := c.ints(1)
	for _, t := range target {
		if t.known && t.n < 0 {
			return nil
		}
	}
	v.Dims = broadcast(in.Dims, dimsOf(target))
	if n, ok := onnxpb.Elements(v.Dims); v.Dims != nil && ok && in.Data != nil && c.take(n) {
		v.Data = make([]float64, 0, n)
		at(v.Dims, in.Dims)(func(i int) { v.Data = append(v.Data, in.Data[i]) })
	}
	return v
}

func dequantize(c *Call) *Value {
	v := c.Arg(0).Like()
	v.Type = c.Arg(1).Type
	return c.scaled(v, func(x, scale, zero float64) float64 { return (x - zero) * scale })
}

func quantize(c *Call) *Value {
	v := c.Arg(0).Like()
	if v.Type = c.Arg(2).Type; c.Node.In(2) == "" {
		v.Type = cmp.Or(tensor.Type(c.Node.Int("output_dtype", 0)), tensor.Uint8)
	}
	r, known := IntegerRange[v.Type]
	if !known {
		return v
	}
	return c.scaled(v, func(x, scale, zero float64) float64 {
		return max(r[0], min(r[1], math.RoundToEven(x/scale)+zero))
	})
}

// scaled sets v's numbers to f of the first input's, their scales and their zero points, which are 0 if
// omitted.
func (c *Call) scaled(v *Value, f func(x, scale, zero float64) float64) *Value {
	x, scale, zero := c.Arg(0), c.Arg(1), c.Arg(2).Data
	if x.Data == nil || scale.Data == nil || c.Node.In(2) != "" && len(zero) != len(scale.Data) {
		return v
	}
	at := c.scaleIndex(x, scale)
	if at == nil || !c.take(int64(len(x.Data))) {
		return v
	}
	v.Data = make([]float64, len(x.Data))
	for i, number := range x.Data {
		k, z := at(i), 0.0
		if zero != nil {
			z = zero[k]
		}
		v.Data[i] = f(number, scale.Data[k], z)
	}
	return v
}

// scaleIndex returns the index of an element's scale: a single one, one per index along an axis, or one per
// block along the axis. It returns nil if the shapes do not fit.
func (c *Call) scaleIndex(x, scale *Value) func(i int) int {
	n, block := len(scale.Data), c.Node.Int("block_size", 0)
	if n == 1 && block == 0 {
		return func(int) int { return 0 }
	}
	a, ok := Axis(c.Node.Int("axis", 1), len(x.Dims))
	if !ok || n == 0 {
		return nil
	}
	inner, _ := onnxpb.Elements(x.Dims[a+1:])
	length := x.Dims[a]
	if inner == 0 || length == 0 {
		return nil
	}
	if block == 0 {
		if length != int64(n) {
			return nil
		}
		return func(i int) int { return int(int64(i) / inner % length) }
	}
	if block < 0 || len(scale.Dims) != len(x.Dims) {
		return nil
	}
	blocks := (length + block - 1) / block
	for i, d := range scale.Dims {
		if i == a && d != blocks || i != a && d != x.Dims[i] {
			return nil
		}
	}
	return func(i int) int {
		outer, rest := int64(i)/(inner*length), int64(i)%(inner*length)
		return int((outer*blocks+rest/inner/block)*inner + rest%inner)
	}
}

// dynamicQuantize infers 8-bit numbers, and their scale and zero point.
func dynamicQuantize(c *Call, i int) *Value {
	switch i {
	case 0:
		return &Value{Type: tensor.Uint8, Dims: slices.Clone(c.Arg(0).Dims)}
	case 1:
		return &Value{Type: tensor.Float32, Dims: []int64{}}
	case 2:
		return &Value{Type: tensor.Uint8, Dims: []int64{}}
	}
	return nil
}

// unpackNBits is an operator of lowered nodes only: the weights of a MatMulNBits as [K,N].
const unpackNBits = "mfgs.UnpackNBits"

// unpack returns (q − zero) · scale for weights packed as [N, blocks, bytes], bits per weight from the
// lowest on. There is one scale per block, [N, blocks], and one zero point per block, packed alike with
// each of the N rows starting a new byte, or 2^(bits−1).
func unpack(c *Call) *Value {
	k, n := c.Node.Int("K", 0), c.Node.Int("N", 0)
	bits, size := c.Node.Int("bits", 4), c.Node.Int("block_size", 0)
	total, ok := onnxpb.Elements([]int64{k, n})
	if !ok || total == 0 || size < 1 || size > 1<<16 || bits != 2 && bits != 4 && bits != 8 {
		return nil
	}
	v := &Value{Type: cmp.Or(c.Arg(1).Type, tensor.Float32), Dims: []int64{k, n}}
	packed, scales, zeros := c.Arg(0).Data, c.Arg(1).Data, c.Arg(2).Data
	blocks := (k + size - 1) / size
	perByte := 8 / bits
	blob, row := (size+perByte-1)/perByte, (blocks+perByte-1)/perByte
	known := packed != nil && scales != nil && (zeros != nil || c.Node.In(2) == "")
	if !known || !c.take(total) {
		return v
	}
	if int64(len(packed)) != n*blocks*blob || int64(len(scales)) != n*blocks {
		return nil
	}
	floatZeros := c.Arg(2).Type.IsFloat() && int64(len(zeros)) == n*blocks
	if zeros != nil && !floatZeros && int64(len(zeros)) != n*row {
		return nil
	}
	number := func(from []float64, i int64) float64 {
		return float64(int64(from[i/perByte]) >> (i % perByte * bits) & (1<<bits - 1))
	}
	v.Data = make([]float64, total)
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
			v.Data[i*n+j] = (q - zero) * scales[j*blocks+b]
		}
	}
	return v
}

// reduce is a reduction over given axes, or all.
func reduce(f func([]float64) float64) func(*Call, int) *Value {
	return first(func(c *Call) *Value {
		in := c.Arg(0)
		v := &Value{Type: in.Type}
		list, ok := c.List("axes", 1)
		if in.Dims == nil || !ok {
			return v
		}
		if len(list) == 0 && c.Node.Int("noop_with_empty_axes", 0) != 0 {
			return same(c)
		}
		drop, ok := Axes(list, len(in.Dims))
		if !ok {
			return nil
		}
		keep := c.Node.Int("keepdims", 1) != 0
		var outDims, outStride, redDims, redStride []int64
		v.Dims = []int64{}
		step := int64(1)
		strides := make([]int64, len(in.Dims))
		for i := len(in.Dims) - 1; i >= 0; i-- {
			strides[i] = step
			step *= max(1, in.Dims[i])
		}
		for i, d := range in.Dims {
			if len(list) == 0 || drop[i] {
				redDims, redStride = append(redDims, d), append(redStride, strides[i])
				if keep {
					v.Dims = append(v.Dims, 1)
				}
			} else {
				outDims, outStride = append(outDims, d), append(outStride, strides[i])
				v.Dims = append(v.Dims, d)
			}
		}
		n, _ := onnxpb.Elements(redDims)
		if in.Data == nil || n == 0 || !c.take(int64(len(in.Data))) {
			return v
		}
		run := make([]float64, 0, n)
		strided(outDims, outStride)(func(o int) {
			run = run[:0]
			strided(redDims, redStride)(func(r int) { run = append(run, in.Data[o+r]) })
			v.Data = append(v.Data, f(run))
		})
		return v
	})
}

func argMax(c *Call, i int) *Value {
	in := c.Arg(0)
	v := &Value{Type: tensor.Int64}
	if i > 0 || in.Dims == nil {
		return v
	}
	a, ok := Axis(c.Node.Int("axis", 0), len(in.Dims))
	if !ok {
		return nil
	}
	v.Dims = slices.Clone(in.Dims)
	v.Dims[a] = 1
	if c.Node.Int("keepdims", 1) == 0 {
		v.Dims = slices.Delete(v.Dims, a, a+1)
	}
	return v
}

func matMul(c *Call) *Value {
	a, b := c.Arg(0), c.Arg(1)
	v := &Value{Type: cmp.Or(a.Type, b.Type)} // the same by definition
	if a.Dims == nil || b.Dims == nil || len(a.Dims) == 0 || len(b.Dims) == 0 {
		return v
	}
	ad, bd := a.Dims, b.Dims
	if len(ad) == 1 {
		ad = []int64{1, ad[0]}
	}
	if len(bd) == 1 {
		bd = []int64{bd[0], 1}
	}
	v.Dims = broadcast(ad[:len(ad)-2], bd[:len(bd)-2])
	if v.Dims == nil {
		return v
	}
	if len(a.Dims) == 2 && len(b.Dims) == 2 {
		v.Data = c.product(a, b)
	}
	if len(a.Dims) > 1 {
		v.Dims = append(v.Dims, ad[len(ad)-2])
	}
	if len(b.Dims) > 1 {
		v.Dims = append(v.Dims, bd[len(bd)-1])
	}
	return v
}

// product multiplies two known matrices, within a bound on the work.
func (c *Call) product(a, b *Value) []float64 {
	const most = 1 << 31 // a few seconds
	rows, inner, columns := a.Dims[0], a.Dims[1], b.Dims[1]
	size, ok := onnxpb.Elements([]int64{rows, columns})
	if work, fits := onnxpb.Elements([]int64{rows, inner, columns}); a.Data == nil || b.Data == nil ||
		b.Dims[0] != inner || !ok || !fits || work > most || !c.take(size) {
		return nil
	}
	out := make([]float64, size)
	for i := range rows {
		row := out[i*columns : (i+1)*columns]
		for k, x := range a.Data[i*inner : (i+1)*inner] {
			for j, y := range b.Data[int64(k)*columns : (int64(k)+1)*columns] {
				row[j] += x * y
			}
		}
	}
	return out
}

func gemm(c *Call) *Value {
	v := &Value{Type: cmp.Or(c.Arg(0).Type, c.Arg(1).Type), Dims: []int64{-1, -1}}
	if a := c.Arg(0).Dims; len(a) == 2 {
		v.Dims[0] = a[c.Node.Int("transA", 0)&1]
	}
	if b := c.Arg(1).Dims; len(b) == 2 {
		v.Dims[1] = b[1-c.Node.Int("transB", 0)&1]
	}
	return v
}

func conv(c *Call) *Value {
	w := c.Arg(1).Dims
	v := window(c, len(w))
	if v.Dims == nil || len(w) != len(v.Dims) {
		return v
	}
	v.Dims[1] = w[0]
	c.slide(v, w[2:])
	return v
}

func pool(c *Call) *Value {
	kernel := c.Node.Attr("kernel_shape").GetInts()
	v := window(c, len(kernel)+2)
	if v.Dims != nil && len(kernel)+2 == len(v.Dims) {
		c.slide(v, kernel)
	}
	return v
}

// window returns the first input's type and shape [N,C,…], with the input's spatial dimensions.
func window(c *Call, rank int) *Value {
	v := c.Arg(0).Like()
	if v.Dims == nil && rank >= 2 {
		v.Dims = slices.Repeat([]int64{-1}, rank)
	}
	if len(v.Dims) < 2 {
		v.Dims = nil
	}
	return v
}

// slide replaces the spatial dimensions of v by the output's, for a window of the given size.
func (c *Call) slide(v *Value, kernel []int64) {
	ints := func(name string, i int, otherwise int64) int64 {
		if list := c.Node.Attr(name).GetInts(); i < len(list) {
			return list[i]
		}
		return otherwise
	}
	auto := string(c.Node.Attr("auto_pad").GetS())
	for i, k := range kernel {
		d := &v.Dims[2+i]
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
		if c.Node.Int("ceil_mode", 0) != 0 {
			room += stride - 1
		}
		if *d = room/stride + 1; room < 0 {
			*d = -1
		}
	}
}

func globalPool(c *Call) *Value {
	v := c.Arg(0).Like()
	for i := 2; i < len(v.Dims); i++ {
		v.Dims[i] = 1
	}
	return v
}

// doubled is the shape of a tensor concatenated with one of its own shape.
func doubled(c *Call) *Value {
	x := c.Arg(0)
	i, ok := Axis(c.Node.Int("axis", 0), len(x.Dims))
	if !ok {
		return nil
	}
	v := &Value{Type: x.Type, Dims: slices.Clone(x.Dims)}
	if v.Dims[i] > 0 {
		v.Dims[i] *= 2
	}
	return v
}

// recurrent infers the outputs of a recurrent layer for x [T,N,d]: all states [T,directions,N,h], and the
// last ones [directions,N,h].
func recurrent(c *Call, i int) *Value {
	x, h := c.Arg(0), c.Node.Int("hidden_size", -1)
	if len(x.Dims) != 3 || c.Node.Int("layout", 0) != 0 {
		return nil
	}
	directions := int64(1)
	if string(c.Node.Attr("direction").GetS()) == "bidirectional" {
		directions = 2
	}
	dims := []int64{directions, x.Dims[1], h}
	if i == 0 {
		dims = append([]int64{x.Dims[0]}, dims...)
	}
	return &Value{Type: x.Type, Dims: dims}
}

// SliceAxes returns the axes of a Slice; false if they are unknown.
func (c *Call) SliceAxes() ([]int64, bool) {
	along, ok := c.List("axes", 3)
	if along != nil || !ok {
		return along, ok
	}
	// If omitted they are the first ones, as many as there are starts, whose values need not be known.
	n := len(c.Node.Attr("starts").GetInts())
	if dims := c.Arg(1).Dims; len(dims) == 1 && dims[0] >= 0 && dims[0] <= maxRank {
		n = int(dims[0])
	}
	for i := range n {
		along = append(along, int64(i))
	}
	return along, n > 0
}

// IntegerRange is the range of the integer types.
var IntegerRange = map[tensor.Type][2]float64{
	tensor.Uint8: {0, 255}, tensor.Int8: {-128, 127}, tensor.Uint16: {0, 65535}, tensor.Int16: {-32768, 32767},
}
