package head

import (
	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/internal/onnx/graph"
	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
)

// steps lists the operators that may lie between a linear layer and the output, by OpName: where the
// classes are after it, and what it does to logits and to probabilities.
var steps map[string]*step

func init() {
	steps = map[string]*step{
		"Identity":         {keeps: all, class: keepClass, logits: keep, probs: keep},
		"Dropout":          {keeps: all, class: dropoutClass, logits: keep, probs: keep},
		"DequantizeLinear": {keeps: all, class: keepClass, logits: keep, probs: keep},
		"QuantizeLinear":   {keeps: all, class: keepClass, logits: round, probs: keep},
		"Clip":             {keeps: inRange, class: clipClass, logits: bound},
		"Relu":             {keeps: approximable, class: keepClass, logits: approximate, probs: approximate},

		"Cast":              {keeps: all, class: castClass, logits: move, probs: move},
		"Flatten":           {keeps: all, class: reshapeClass, logits: move, probs: move},
		"Reshape":           {keeps: all, class: reshapeClass, logits: move, probs: move, indexed: true},
		"Squeeze":           {keeps: all, class: squeezeClass, logits: squeeze, probs: move},
		"Unsqueeze":         {keeps: all, class: unsqueezeClass, logits: move, probs: move},
		"Transpose":         {keeps: all, class: transposeClass, logits: move, probs: move, turns: true},
		"ai.onnx.ml.ZipMap": {keeps: all, class: zipMapClass, logits: move, probs: move},

		"GlobalAveragePool": {class: globalPoolClass, logits: pool, probs: column},
		"ReduceMean":        {class: reduceClass, logits: pool, probs: ofOne},
		"Gather": {class: gatherClass, logits: pool, probs: column, indexed: true, selects: true,
			along: axisOf},
		"GatherND": {class: gatherNDClass, logits: pool, probs: column, indexed: true, selects: true,
			along: noAxes},
		"Slice": {class: sliceClass, logits: pool, probs: column, indexed: true, selects: true,
			along: slicedAxes},

		"Add": {class: keepClass, logits: scaleAndShift, constants: sum},
		"Mul": {class: keepClass, logits: scaleAndShift, constants: product},
		"Div": {class: keepClass, logits: scaleAndShift, constants: quotient},
		// between dense layers below the last
		"BatchNormalization": {class: keepClass, logits: scaleAndShift, constants: batchNorm},

		"Softmax":    {class: softmaxClass, logits: makeProbs},
		"LogSoftmax": {class: softmaxClass, logits: makeLogProbs},
		"ArgMax":     {class: argMaxClass, logits: pick, probs: pick, picks: true},

		"Log":                   {class: keepClass, probs: toLogs, takes: plain},
		"Exp":                   {class: keepClass, probs: toProbs, takes: logarithms},
		"LpNormalization":       {class: lpNormalizationClass, probs: normalise, takes: plain, normalises: true},
		"ai.onnx.ml.Normalizer": {class: normalizerClass, probs: normalise, takes: plain, normalises: true},
		graph.BothClasses:       {class: bothClassesClass, probs: addComplement},
	}
	for op, link := range layer.ByOperator() {
		if steps[op] == nil { // a function of each logit by itself
			steps[op] = &step{class: keepClass, logits: makeProbs}
		}
		steps[op].link = link
	}
}

// scaling multiplies all logits of an example by a number that depends on the input.
var scaling = &step{class: keepClass, logits: scaleAll}

// step returns the step of a node, nil if it cannot be passed.
func (f *finder) step(n *onnxpb.Node) *step {
	if n == nil || f.in.Functions[n.Op()] {
		return nil
	}
	return steps[n.Op()]
}
