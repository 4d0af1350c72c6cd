package fuse

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/internal/onnx/build"
	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/head"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// Method is an approximation of the Gaussian-softmax integral: mf0 or mf1 of Lu, Ie and Sha,
// "Mean-Field Approximation to Gaussian-Softmax Integral with Application to Uncertainty
// Estimation" (the paper, below). They differ in pairs of classes, which only Softmax has.
type Method string

const (
	MF0 Method = "mf0" // eq. 9
	MF1 Method = "mf1" // eq. 10; its cost is quadratic in the number of classes
)

// MaxMF1Classes bounds the classes of MF1, whose graph computes a number for every pair of them.
const MaxMF1Classes = 256

// Interval says how log-sum-exps are interpolated where the ratio T_max/T_min of an example is at most Ratio: log T_min
// to log T_max is divided into Parts of equal length, with Nodes Chebyshev nodes each.
type Interval struct {
	Ratio        float64
	Parts, Nodes int
}

// MeanField is the numbers of the mean-field head that follows the network in a fused model.
type MeanField struct {
	Method  Method // "" is MF0
	Lambda0 float64

	// Plain, unless 0, is the T of probabilities softmax(a/T), or sigmoids, which replace those of Method; 1 is
	// the network's own.
	Plain float64

	// Affine, unless nil, maps the logits of probabilities and margins, and Forms are the variances of mapped logits.
	// The output logits and scores have the network's own.
	Affine *layer.Affine

	// Prior, unless nil, is added to the logarithms of the C probabilities, which are then normalised; margins and
	// scores do not have it. It is not for multi-label heads.
	Prior []float64

	// Forms are the variances of the K logits at T_ens = 1, followed by the leverage: M = K+1. Without a linear layer
	// there are none, nor Lambda0, temperatures and margins; Plain is then set.
	Forms layer.Quadratic

	NLL layer.Temperatures // for Method's probabilities
	OOD layer.Temperatures // for Method's margin; zero if no score uses it

	// Scores are the graph's last outputs, computed from logits, features and variances.
	Scores []Score

	// Intervals say how the log-sum-exps of MF0 are interpolated, in ascending order. The last is for all examples that
	// no other holds; with Single it is the only one, of one part. Without any, or where there are not many more
	// classes than nodes, they are computed exactly, by operators of their own for each 2^17 of the K² terms.
	Intervals []Interval

	// Decisions are outputs after the scores; nil for none. If they use ood_score, it must be one of the scores.
	Decisions *Decisions

	// Single computes the head in float32, and without If, for runtimes that have no float64 or no If. It is not for
	// heads that read text or tags.
	Single bool

	// Strings gives the symbols of a text as strings; else they are numbers.
	Strings bool

	// Alone drops the model's own outputs, and what only they need.
	Alone bool

	// Outputs, unless nil, names the outputs that remain, which are the head's or, if it has none of that key, the
	// model's own. What only others need is left out.
	Outputs []string

	// Metadata is added to the model's metadata_props, whose entries with prefix mfgs. are removed: they describe
	// another head.
	Metadata map[string]string
}

// Append returns the model with the mean-field head appended: its outputs are the model's own, followed by
// [Outputs]. A name that an input or output of the model has already gets the prefix mfgs_, except that an output
// logits that is the head's is not duplicated. Only operators of the default domain are added, in the form of the
// model's opset. It panics if h was not found in m.
//
// The network is unchanged, and variances are computed in float32. The rest is computed as in package
// calibrate/meanfield, with logarithms, in float64 unless Single is set.
func Append(m *onnx.Model, h *head.Head, mf *MeanField) (*onnx.Model, Outputs, error) {
	if !h.Of(m) {
		panic("fuse: Append with the head of another model")
	}
	if err := mf.check(h); err != nil {
		return nil, nil, err
	}
	f := newFuser(m, h, mf)
	phi := ""
	if h.Features > 0 {
		phi = h.AddFeatures(f.Builder)
	}
	own := !mf.Alone && f.hasLogits(h)
	rename := map[string]string{}
	outputs, err := f.outputs(h, own, rename)
	if err != nil {
		return nil, nil, err
	}
	if !f.wantsScores(outputs) {
		plain := *mf
		plain.OOD, plain.Scores, f.mf = layer.Temperatures{}, nil, &plain
	}
	given := outputs
	if h.Steps > 0 {
		outputs = f.rowsOf(outputs)
	}
	logits := outputs[Logits].Name
	switch {
	case h.Kind.Decodes():
		made, text, numbers := h.AddDecoding(f.Builder)
		f.result(made, logits)
		f.texts(outputs, text, numbers, h.Decoding)
	case !own || h.Steps > 0:
		f.result(h.AddLogits(f.Builder, f.real), logits)
	}
	terms := newTerms(f, phi, logits)
	variance := ""
	if !h.Nonlinear {
		var leverage string
		variance, leverage = f.forms(phi)
		f.variances(variance, outputs[LogitVariance].Name)
		terms.take(outputs[LogitVariance].Name, leverage)
	}
	terms.margin = f.probabilities(logits, variance, outputs[Probabilities].Name)
	f.scores(terms, outputs[FirstScore(h.Head):])
	f.decide(outputs)
	if h.Steps > 0 {
		f.spread(outputs, given, h.AddStepShape(f.Builder), own)
		outputs = given
	}
	if f.err != nil {
		return nil, nil, f.err
	}

	declared, outputs := f.declare(h, outputs, own, rename)
	fused, err := f.Build(declared...)
	if err != nil {
		return nil, nil, fmt.Errorf("fusing the model: %w", err)
	}
	pb := onnxpb.Shallow(fused.Proto())
	pb.Graph = renaming(rename).graph(pb.Graph)
	pb.MetadataProps = withMetadata(pb.MetadataProps, mf.Metadata, outputs)
	if fused, err = fused.Derive(pb); err != nil {
		return nil, nil, fmt.Errorf("fusing the model: %w", err)
	}
	return fused, outputs.in(fused), nil
}

// margins reports whether margins are needed.
func (mf *MeanField) margins() bool { return mf.OOD != layer.Temperatures{} }

func (mf *MeanField) check(h *head.Head) error {
	q, k := &mf.Forms, h.Logits
	terms := len(q.Offset)
	inner := terms
	if q.Reduction != nil && terms > 0 {
		inner = len(q.Reduction) / terms
	}
	switch {
	case mf.Single && h.Kind.Decodes():
		return fmt.Errorf("a head that reads %s in float32, want float64: its probabilities are products over all steps", h.Kind)
	case mf.Single && mf.Forms.Double:
		return errors.New("variances in float32, want float64: these features vary so much less in some directions than in others that float32 would round the variances by more than 3e-5: export in float64, or train the last layer on standardised features")
	case h.Nonlinear:
		return mf.checkNonlinear(h)
	case mf.Method != "" && mf.Method != MF0 && mf.Method != MF1:
		return fmt.Errorf("method %q, want %s or %s", mf.Method, MF0, MF1)
	case mf.Method == MF1 && h.Link == layer.Softmax && k > MaxMF1Classes:
		return fmt.Errorf("%s for %d classes, want at most %d, as its graph holds numbers for every pair of them: use %s",
			MF1, k, MaxMF1Classes, MF0)
	case q.Forms != k+1:
		return fmt.Errorf("%d quadratic forms, want %d: one for each logit and the leverage", q.Forms, k+1)
	case len(q.Center) != h.Features, len(q.Projection) != h.Features*terms, terms == 0,
		len(q.Reduction)%terms != 0, q.Reduction != nil && q.Weights == nil,
		q.Weights != nil && len(q.Weights) != inner*q.Forms, q.Weights == nil && terms%q.Forms != 0:
		return fmt.Errorf("quadratic forms with %d, %d, %d, %d and %d numbers do not fit a head with %d features and %d logits",
			len(q.Center), len(q.Projection), len(q.Offset), len(q.Reduction), len(q.Weights), h.Features, k)
	}
	numbers := []float64{mf.Lambda0, mf.NLL.Act, mf.NLL.Ens}
	if mf.margins() {
		numbers = append(numbers, mf.OOD.Act, mf.OOD.Ens)
	}
	for _, x := range numbers {
		if !(x > 0) || math.IsInf(x, 0) {
			return fmt.Errorf("λ₀ %v and temperatures %v and %v, want positive finite numbers", mf.Lambda0, mf.NLL, mf.OOD)
		}
	}
	last := 1.0
	for _, i := range mf.Intervals {
		if !(i.Ratio >= last) || math.IsInf(i.Ratio, 0) || i.Nodes < 2 || i.Nodes > maxNodes || i.Parts < 1 ||
			i.Parts > maxParts {
			return fmt.Errorf("%d parts of %d nodes for temperature ratios up to %v, want 1 to %d of 2 to %d nodes and rising finite ratios from 1",
				i.Parts, i.Nodes, i.Ratio, maxParts, maxNodes)
		}
		if mf.Single && (len(mf.Intervals) > 1 || i.Parts > 1) {
			return fmt.Errorf("%d intervals of temperatures in float32, the first of %d parts, want one of one part",
				len(mf.Intervals), i.Parts)
		}
		last = i.Ratio
	}
	return mf.checkMaps(h)
}

// checkNonlinear checks the numbers for a head without a linear layer.
func (mf *MeanField) checkNonlinear(h *head.Head) error {
	if mf.Method != "" || mf.Forms.Forms != 0 || mf.margins() || !(mf.Plain > 0) {
		return errors.New("mf0 or its numbers for a head without a linear layer, want plain probabilities")
	}
	return mf.checkMaps(h)
}

// checkMaps checks what does not depend on variances.
func (mf *MeanField) checkMaps(h *head.Head) error {
	if !(mf.Plain >= 0) || math.IsInf(mf.Plain, 1) {
		return fmt.Errorf("temperature %v of plain probabilities, want a positive finite number, or 0 for none",
			mf.Plain)
	}
	if mf.Affine != nil {
		if err := mf.Affine.Validate(h.Head); err != nil {
			return err
		}
	}
	if mf.Prior != nil && (h.MultiLabel() || len(mf.Prior) != h.Classes()) {
		return fmt.Errorf("a prior of %d classes for a head with %d", len(mf.Prior), h.Classes())
	}
	for _, v := range mf.Prior {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("prior %v, want finite numbers", v)
		}
	}
	scored := slices.ContainsFunc(mf.Scores, func(s Score) bool { return s.Name == "ood_score" && s.Double })
	if d := mf.Decisions; d != nil && d.OOD != nil && !scored {
		return errors.New("decisions by ood_score, which is not among the scores")
	}
	return nil
}

// These are more than any useful interval needs.
const maxParts, maxNodes = 64, 1024

// batchDim is the first dimension, if all inputs of the model declare the same.
func batchDim(m *onnx.Model) onnx.Dim {
	open := onnx.Dim{Value: -1}
	batch := open
	for i, in := range m.Inputs() {
		if len(in.Shape) == 0 || i > 0 && in.Shape[0] != batch {
			return open
		}
		batch = in.Shape[0]
	}
	return batch
}

// batched sets a value's first dimension.
func batched(v *onnxpb.ValueInfo, d onnx.Dim) *onnxpb.ValueInfo {
	dim := v.GetType().GetTensorType().GetShape().GetDim()[0]
	switch {
	case d.Value >= 0:
		dim.Value = &onnxpb.Dimension_DimValue{DimValue: d.Value}
	case d.Param != "":
		dim.Value = &onnxpb.Dimension_DimParam{DimParam: d.Param}
	}
	return v
}

// withMetadata returns entries with properties in place of those of an earlier head.
func withMetadata(entries []*onnxpb.Entry, properties map[string]string, outputs Outputs) []*onnxpb.Entry {
	all := map[string]string{}
	for _, o := range outputs {
		all["mfgs.output."+o.Key] = o.Name
	}
	maps.Copy(all, properties)
	entries = slices.DeleteFunc(slices.Clone(entries), func(e *onnxpb.Entry) bool {
		return strings.HasPrefix(e.GetKey(), "mfgs.")
	})
	for _, k := range slices.Sorted(maps.Keys(all)) {
		entries = append(entries, &onnxpb.Entry{Key: proto.String(k), Value: proto.String(all[k])})
	}
	return entries
}

// A fuser writes the mean-field head. Its methods add nodes and return the name of their output. Shapes in
// comments: N examples, K logits, P pairs of temperatures, one if the two are equal.
type fuser struct {
	*build.Builder
	mf      *MeanField
	head    layer.Head
	opset   int64
	link    layer.Link
	k       int64 // K
	classes int64 // C

	own []*onnxpb.ValueInfo // outputs of the model's own that remain

	real    tensor.Type        // what the head computes in: Float64, or Float32 for Single
	ints    map[string]string  // names of constants by their numbers
	floats  map[float64]string // scalars likewise, of float32
	numbers map[float64]string // and of real
	nodes   map[int64]string   // matrices of interpolated, by the number of nodes
	err     error              // about an impossible constant
}

func newFuser(m *onnx.Model, h *head.Head, mf *MeanField) *fuser {
	f := &fuser{
		Builder: build.New(m), mf: mf, head: h.Head, k: int64(h.Logits), link: h.Link,
		classes: int64(h.Logits), ints: map[string]string{}, floats: map[float64]string{},
		numbers: map[float64]string{}, nodes: map[int64]string{}, real: tensor.Float64, opset: m.Opset(),
	}
	if mf.Single {
		f.real = tensor.Float32
	}
	if h.Link == layer.Sigmoid && h.Logits == 1 {
		f.classes = 2
	}
	return f
}

// hasLogits reports whether the model has an output with the name of ours that is the head's logits, as rows of
// float32.
func (f *fuser) hasLogits(h *head.Head) bool {
	return h.LogitsTensor == "logits" && slices.ContainsFunc(f.Model.Proto().GetGraph().GetOutput(),
		func(v *onnxpb.ValueInfo) bool {
			info := onnx.InfoOf(v)
			return info.Name == h.LogitsTensor && info.Type == tensor.Float32 &&
				(h.LogitsAreRows() || len(info.Shape) == 2 || h.ClassesLast())
		})
}

// outputName returns the name of an output: as wanted, or with the prefix mfgs_ if an input or output of the model
// has that name. An inner tensor of that name is renamed: rename gets a new name for it.
func (f *fuser) outputName(want string, rename map[string]string) string {
	public := slices.Concat(f.Model.Proto().GetGraph().GetInput(), f.own)
	switch {
	case slices.ContainsFunc(public, func(v *onnxpb.ValueInfo) bool { return v.GetName() == want }):
		return f.Names.Fresh("mfgs_" + want)
	case f.Names.Taken[want]:
		name := f.Names.Fresh("mfgs_" + want)
		rename[want], rename[name] = f.Names.Fresh("mfgs_inner_"+want), want
		return name
	}
	return f.Names.Fresh(want)
}

// as runs write, and names the output of its last node name.
func (f *fuser) as(name string, write func() string) {
	f.result(write(), name)
}

// result renames the output of the last node.
func (f *fuser) result(made, name string) {
	last := f.Nodes[len(f.Nodes)-1]
	if len(last.Output) != 1 || last.Output[0] != made {
		panic("fuse: " + made + " is not the output of the last node")
	}
	last.Output = []string{name}
}

// op adds a node of the default domain.
func (f *fuser) op(kind string, in []string, attributes ...*onnxpb.Attribute) string {
	out := f.Names.Fresh("mfgs_" + strings.ToLower(kind))
	f.Nodes = append(f.Nodes, &onnxpb.Node{
		OpType: proto.String(kind), Name: proto.String(out), Input: in, Output: []string{out}, Attribute: attributes})
	return out
}

func (f *fuser) unary(kind, x string) string { return f.op(kind, []string{x}) }

func (f *fuser) binary(kind, x, y string) string { return f.op(kind, []string{x, y}) }

func (f *fuser) cast(x string, to tensor.Type) string {
	return f.op("Cast", []string{x}, onnxpb.IntAttribute("to", int64(to)))
}

// widened casts float32 to real.
func (f *fuser) widened(x string) string {
	if f.mf.Single {
		return x
	}
	return f.cast(x, f.real)
}

// narrowed casts real to float32.
func (f *fuser) narrowed(x string) string {
	if f.mf.Single {
		return x
	}
	return f.cast(x, tensor.Float32)
}

// compared is 1 where a comparison holds, else 0.
func (f *fuser) compared(kind, x, y string) string { return f.cast(f.binary(kind, x, y), f.real) }

// tensor adds a constant. Large ones can be written as external data.
func (f *fuser) tensor(name string, typ tensor.Type, raw []byte, dims ...int64) string {
	name = f.Names.Fresh("mfgs_" + name)
	t := &onnxpb.Tensor{Name: &name, DataType: proto.Int32(int32(typ)), Dims: dims}
	f.Consts = append(f.Consts, t)
	f.Kept = append(f.Kept, onnx.Payload{Tensor: t, Raw: raw})
	return name
}

// float adds a float32 constant.
func (f *fuser) float(name string, x []float64, dims ...int64) string {
	raw := make([]byte, 0, 4*len(x))
	for _, v := range x {
		single := float32(v)
		if d := single - single; d != 0 { // infinite or NaN
			way := "posterior.safetensors and the temperatures in bundle.yaml do not fit the model"
			if f.mf.Single {
				way = "export in float64"
			}
			f.err = fmt.Errorf("float32 does not hold %v, a number of the mean-field head (%s): %s", v, name, way)
		}
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(single))
	}
	return f.tensor(name, tensor.Float32, raw, dims...)
}

// double adds a float64 constant.
func (f *fuser) double(name string, x []float64, dims ...int64) string {
	raw := make([]byte, 0, 8*len(x))
	for _, v := range x {
		raw = binary.LittleEndian.AppendUint64(raw, math.Float64bits(v))
	}
	return f.tensor(name, tensor.Float64, raw, dims...)
}

// reals adds a constant of real.
func (f *fuser) reals(name string, x []float64, dims ...int64) string {
	if f.mf.Single {
		return f.float(name, x, dims...)
	}
	return f.double(name, x, dims...)
}

// scalar is a float32 constant of rank 0.
func (f *fuser) scalar(x float64) string {
	if f.floats[x] == "" {
		f.floats[x] = f.float("scalar", []float64{x})
	}
	return f.floats[x]
}

// number is a constant of real and rank 0. Finite numbers beyond float32 become its largest.
func (f *fuser) number(x float64) string {
	if f.mf.Single && math.Abs(x) > math.MaxFloat32 && !math.IsInf(x, 0) {
		x = math.Copysign(math.MaxFloat32, x)
	}
	if f.numbers[x] == "" {
		f.numbers[x] = f.reals("number", []float64{x})
	}
	return f.numbers[x]
}

// integer is an int64 constant of rank 0.
func (f *fuser) integer(x int64) string {
	return f.tensor("int", tensor.Int64, binary.LittleEndian.AppendUint64(nil, uint64(x)))
}

// list is an int64 constant of rank 1.
func (f *fuser) list(x ...int64) string {
	key := fmt.Sprint(x)
	if f.ints[key] == "" {
		raw := make([]byte, 0, 8*len(x))
		for _, v := range x {
			raw = binary.LittleEndian.AppendUint64(raw, uint64(v))
		}
		f.ints[key] = f.tensor("ints", tensor.Int64, raw, int64(len(x)))
	}
	return f.ints[key]
}

// reshape takes 0 for a dimension that is kept and -1 for the rest.
func (f *fuser) reshape(x string, dims ...int64) string {
	return f.op("Reshape", []string{x, f.list(dims...)})
}

// slice takes [from,to) of an axis.
func (f *fuser) slice(x string, axis, from, to int64) string {
	if f.opset < 10 {
		return f.op("Slice", []string{x}, onnxpb.IntsAttribute("axes", axis), onnxpb.IntsAttribute("starts", from),
			onnxpb.IntsAttribute("ends", to))
	}
	return f.op("Slice", []string{x, f.list(from), f.list(to), f.list(axis)})
}

// reduce reduces one axis, which became an input in opset 13 for ReduceSum and in 18 for the others.
func (f *fuser) reduce(kind, x string, axis int64, keep bool) string {
	kept := onnxpb.IntAttribute("keepdims", 0)
	if keep {
		kept = onnxpb.IntAttribute("keepdims", 1)
	}
	if f.opset >= 18 || kind == "ReduceSum" && f.opset >= 13 {
		return f.op(kind, []string{x, f.list(axis)}, kept)
	}
	return f.op(kind, []string{x}, kept, onnxpb.IntsAttribute("axes", axis))
}

// sumSquares sums squares along an axis. ReduceSumSquare is an operator that few engines know.
func (f *fuser) sumSquares(x string, axis int64, keep bool) string {
	return f.reduce("ReduceSum", f.binary("Mul", x, x), axis, keep)
}

// clip clips float32 numbers.
func (f *fuser) clip(x string, low, high float64) string {
	if f.opset < 11 {
		return f.op("Clip", []string{x}, onnxpb.FloatAttribute("min", float32(low)),
			onnxpb.FloatAttribute("max", float32(high)))
	}
	return f.op("Clip", []string{x, f.scalar(low), f.scalar(high)})
}

// subgraph returns the graph of the nodes that write adds, which may read tensors of the outer graph.
func (f *fuser) subgraph(name string, write func() *onnxpb.ValueInfo) *onnxpb.Graph {
	outer := f.Nodes
	f.Nodes = nil
	output := write()
	g := &onnxpb.Graph{Name: &name, Node: f.Nodes, Output: []*onnxpb.ValueInfo{output}}
	f.Nodes = outer
	return g
}
