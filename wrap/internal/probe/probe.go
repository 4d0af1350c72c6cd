// Package probe makes the probe of a bundle, and compares a server's results for it.
package probe

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"slices"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/internal/attach"
	"github.com/mfgs/mfgs/internal/source"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/tensor"
	"github.com/mfgs/mfgs/wrap/bundle"
)

// Read runs the network on the first readable validation examples, or returns in none why there is no probe.
// Other errors of data or model are reported when all of the data are read.
func Read(ctx context.Context, cut *attach.Cut, val *source.Set) (p *bundle.Probe, none string, err error) {
	for _, info := range cut.Inputs() {
		if info.Type == tensor.String {
			return nil, fmt.Sprintf("the model's input %q takes strings", info.Name), nil
		}
	}
	h := cut.Head.Head
	inputs, none, err := first(ctx, cut, h, val)
	if err != nil || none != "" {
		return nil, none, err
	}
	r, err := cut.Run(ctx, inputs)
	if err != nil {
		return nil, err.Error(), context.Cause(ctx)
	}
	b := r.Rows()
	if err := source.CheckFinite(b); err != nil {
		return nil, err.Error(), nil
	}
	p = &bundle.Probe{N: b.N, Inputs: inputs, Features: b.Features, Logits: b.Logits}
	if err := p.Check(h); err != nil {
		return nil, err.Error(), nil
	}
	return p, "", nil
}

// first returns the model's inputs for the first examples with the same shape, or in none why there are none.
func first(
	ctx context.Context, cut *attach.Cut, h layer.Head, val *source.Set,
) (inputs []tensor.Tensor, none string, err error) {
	from, to := val.Range()
	to = min(to, from+bundle.MaxProbeExamples+val.Config.MaxBad)
	n := 0
	for example, err := range val.First(ctx) {
		if cause := context.Cause(ctx); cause != nil {
			return nil, "", cause
		}
		if err != nil || example.Index < from || example.Index >= to {
			continue
		}
		one, err := cut.Ready(&example)
		if err != nil {
			continue
		}
		bytes := int64(h.Features+h.Logits) * 4
		for _, t := range one {
			size, _ := t.Type().Bytes(int64(t.Len()))
			bytes += size
		}
		room := bundle.ProbeRoom(bytes)
		switch {
		case room == 0:
			return nil, fmt.Sprintf("one input has %d bytes, want at most %d", bytes, bundle.MaxProbeBytes), nil
		case inputs == nil:
			inputs = one
		case !join(inputs, one):
			continue
		}
		if n++; n == room {
			break
		}
	}
	if n == 0 {
		return nil, "the first validation examples could not be read", nil
	}
	return inputs, "", nil
}

// join appends an example to inputs, unless its shape differs.
func join(inputs, one []tensor.Tensor) bool {
	for i, t := range one {
		if !slices.Equal(t.Shape[1:], inputs[i].Shape[1:]) {
			return false
		}
	}
	for i, t := range one {
		to := &inputs[i]
		to.Shape[0]++
		to.Data = reflect.AppendSlice(reflect.ValueOf(to.Data), reflect.ValueOf(t.Data)).Interface()
	}
	return true
}

// Inputs returns a probe's inputs in the order of the model's, or an error if they do not match.
func Inputs(p *bundle.Probe, infos []onnx.ValueInfo) ([]tensor.Tensor, error) {
	inputs := make([]tensor.Tensor, len(infos))
	for i, info := range infos {
		at := slices.IndexFunc(p.Inputs, func(t tensor.Tensor) bool { return t.Name == info.Name })
		if at < 0 {
			return nil, fmt.Errorf("%s: it has no input %q, and the model does", bundle.ProbeName, info.Name)
		}
		if inputs[i] = p.Inputs[at]; !takes(info, inputs[i]) {
			return nil, fmt.Errorf("%s: input %q is %s %v, and the model takes %v",
				bundle.ProbeName, info.Name, inputs[i].Type(), inputs[i].Shape, info)
		}
	}
	if len(p.Inputs) != len(infos) {
		return nil, fmt.Errorf("%s: it has %d inputs, and the model takes %d", bundle.ProbeName, len(p.Inputs), len(infos))
	}
	return inputs, nil
}

// takes reports whether an input accepts a tensor, whatever its number of examples.
func takes(info onnx.ValueInfo, t tensor.Tensor) bool {
	if t.Type() != info.Type || len(t.Shape) != len(info.Shape) {
		return false
	}
	for i, d := range info.Shape {
		if i > 0 && d.Value > 0 && d.Value != t.Shape[i] {
			return false
		}
	}
	return true
}

// An Outcome is the result for one example.
type Outcome struct {
	Logits        []float32
	Probabilities []float64
	OODScore      float64
	Leverage      float64
}

// How far results may be from those of the calibration. Other float32 kernels move logits by 1e-5 of their
// spread; TF32 and float16 in all convolutions of a ResNet-20 by 7e-4, bfloat16 by 7e-3; deeper networks, and
// 8-bit ones, whose rounding depends on kernels and batches, by up to 2e-2. Another network of the same kind
// differs by 0.5 and more. The bound is well between; a network that was trained a little further may pass.
//
// Other results move with the logits and features: probabilities by half as much as logits that are
// some 20 times as wide as their temperature, and leverage, which weighs directions that are absent from the training
// data, by a multiple. So the tolerance of each is that of float32 plus a multiple of the
// change of the logits.
const (
	MostLogits = 5e-2

	MostProbability, probabilityMoves = 5e-3, 10
	MostScore, scoreMoves             = 2e-2, 20
	mostLeverage, leverageMoves       = 5e-2, 100 // relative
)

// Compare returns an error for the first result that is too far from the wanted one.
func Compare(want, got []Outcome) error {
	spread := 0.0
	for i := range want {
		spread = max(spread, Spread(want[i].Logits, len(want[i].Logits)))
	}
	moved := 0.0 // largest change of a logit, in units of their spread
	for i := range want {
		for j, w := range want[i].Logits {
			g := got[i].Logits[j]
			by := math.Abs(float64(g)-float64(w)) / max(spread, math.SmallestNonzeroFloat32)
			if !(by <= MostLogits) {
				return fmt.Errorf("validation input %d: logit %d is %.6g, and was %.6g at calibration: a difference of %.2g of the logits' range, want at most %.2g: the model or the runtime gives other results here",
					i, j, g, w, by, MostLogits)
			}
			moved = max(moved, by)
		}
	}
	for i := range want {
		w, g := &want[i], &got[i]
		for j := range w.Probabilities {
			what := fmt.Sprintf("probability %d", j)
			room := MostProbability + probabilityMoves*moved
			if err := within(i, what, g.Probabilities[j], w.Probabilities[j], room); err != nil {
				return err
			}
		}
		if err := within(i, "ood_score", g.OODScore, w.OODScore, MostScore+scoreMoves*moved); err != nil {
			return err
		}
		room := (mostLeverage + leverageMoves*moved) * w.Leverage
		if err := within(i, "leverage", g.Leverage, w.Leverage, room); err != nil {
			return err
		}
	}
	return nil
}

// Spread returns the largest distance of a logit of n, k for each example, from the mean of its example or, of a single
// one, from 0.
func Spread(logits []float32, k int) (spread float64) {
	for row := range slices.Chunk(logits, k) {
		mean := 0.0
		if k > 1 {
			for _, v := range row {
				mean += float64(v) / float64(k)
			}
		}
		for _, v := range row {
			spread = max(spread, math.Abs(float64(v)-mean))
		}
	}
	return spread
}

// within returns an error for a number that is too far from the wanted one.
func within(i int, what string, got, want, room float64) error {
	if by := math.Abs(got - want); !(by <= room) {
		return fmt.Errorf("validation input %d: %s is %.6g, want %.6g as computed at calibration: they differ by %.2g, want at most %.2g",
			i, what, got, want, by, room)
	}
	return nil
}
