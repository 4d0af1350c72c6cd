package export

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/conformal"
	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/internal/measure"
	"github.com/mfgs/mfgs/internal/oip"
	"github.com/mfgs/mfgs/internal/option"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/tensor"
	"github.com/mfgs/mfgs/wrap/bundle"
	"github.com/mfgs/mfgs/wrap/internal/probe"
)

// probeSuffix takes the place of .onnx in the name of a model's probe, which begins with probeStart.
const (
	probeSuffix = ".probe.json"
	probeStart  = `{"request":`
)

func probeName(model string) string { return strings.TrimSuffix(model, onnxSuffix) + probeSuffix }

// probeFile returns the file that checks a deployment of the model: a request of the Open Inference Protocol with the
// bundle's validation inputs, as many as the model takes, and the response that it must get, as computed by the float64
// formulas. The response's parameters say for each output how far its numbers may be from these. Of a model with an
// answer for each step, the response has the first step of each example.
func probeFile(b *bundle.Bundle, method string, report *Report, name string) (onnx.File, error) {
	head := b.Manifest.Head.Head
	kept, err := writable(b.Probe, head, report.Inputs)
	if err != nil {
		return onnx.File{}, err
	}
	calibration := *b.Calibration()
	if method != "" {
		calibration.Method = calibrate.Method(method)
	}
	r := calibration.Predict(kept.Features, kept.Logits, kept.N)
	p := measure.ClassProbabilities(head, r.LogP)
	answer := &oip.Response{Model: strings.TrimSuffix(name, probeSuffix), Version: "1", Parameters: oip.Parameters{}}
	add := func(key string, tolerance float64, data any, width ...int64) {
		o := report.Outputs.Of(key)
		if o == nil {
			return
		}
		shape := append([]int64{int64(kept.N)}, width...)
		answer.Outputs = append(answer.Outputs, tensor.Tensor{Name: o.Name, Shape: shape, Data: data})
		answer.Parameters[o.Name] = tolerance
	}
	k, classes, served := int64(head.Logits), int64(head.Classes()), calibration.Served()
	add("probabilities", probe.MostProbability, p, classes)
	add("logits", probe.MostLogits*probe.Spread(kept.Logits, head.Logits), kept.Logits, k)
	if !head.Nonlinear {
		add("logit_variance", mostVariance*slices.Max(r.Variance), r.Variance, k)
		add("leverage", mostVariance*slices.Max(r.Leverage), r.Leverage)
	}
	add("ood_score", probe.MostScore, r.OODScore)
	if r.OODPercentile != nil {
		add("ood_percentile", shift(served.Percentile, r.OODScore), r.OODPercentile)
	}
	if r.OODPValue != nil {
		add("ood_pvalue", shift(served.PValue, r.OODScore), r.OODPValue)
	}
	if abstain, sure := abstentions(b.Manifest.Decisions, p, r.OODScore); sure {
		add("abstain", 0, abstain)
	}
	if sets, sure := members(b.Manifest.Decisions, p, head.Classes()); sure {
		add("prediction_set", 0, sets, classes)
	}
	if len(answer.Outputs) == 0 {
		return onnx.File{}, errors.New("a probe has no output to check, as texts and tags are not: give probabilities, logits or ood_score, too")
	}
	all := func(string) bool { return false }
	request, _, err := (&oip.Request{Inputs: kept.Inputs}).Body(all)
	if err != nil {
		return onnx.File{}, fmt.Errorf("a probe: %w", err)
	}
	response, _, err := answer.Body(all)
	if err != nil {
		return onnx.File{}, fmt.Errorf("a probe: %w", err)
	}
	text := fmt.Sprintf("%s%s,\n\"response\":%s}\n", probeStart, request, response)
	return onnx.File{Name: name, Size: int64(len(text)), Write: func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	}}, nil
}

// mostVariance is how far variances and leverages may be from theirs, in units of the largest. They weigh directions
// that are absent from the training data, and so move by more than logits.
const mostVariance = 0.2

// writable returns the inputs that JSON has a form for, which has none for NaN and infinities. For a model with a fixed
// batch they are as many as that, some of them repeated.
func writable(kept *bundle.Probe, h layer.Head, inputs []onnx.ValueInfo) (*bundle.Probe, error) {
	if kept == nil {
		return nil, option.Errorf("the bundle keeps no validation inputs, which a probe consists of: calibrate without %s, on inputs that are numbers",
			option.NoProbe)
	}
	finite := slices.Repeat([]bool{true}, kept.N)
	batch, bytes := int64(-1), int64(0) // bytes of an example
	for _, t := range kept.Inputs {
		size, _ := t.Type().Bytes(int64(t.Len()))
		bytes += size / int64(kept.N)
		switch t.Type() {
		case tensor.Float16, tensor.BFloat16:
			return nil, fmt.Errorf("there is no probe: input %q is %s, for which JSON has no form: leave it out, and compare with mfgs predict",
				t.Name, t.Type())
		case tensor.Float32, tensor.Float64:
			for i, x := range reflect.ValueOf(t.Data).Seq2() {
				if v := x.Float(); v-v != 0 {
					finite[int(i.Int())*kept.N/t.Len()] = false
				}
			}
		}
	}
	for _, in := range inputs {
		if !slices.ContainsFunc(kept.Inputs, func(t tensor.Tensor) bool { return t.Name == in.Name }) {
			return nil, fmt.Errorf("there is no probe: the bundle keeps no values of the input %q, which only other outputs of the network need: leave these out, by naming the outputs to keep",
				in.Name)
		}
		if len(in.Shape) > 0 {
			batch = max(batch, in.Shape[0].Value)
		}
	}
	var rows []int
	for i, ok := range finite {
		if ok {
			rows = append(rows, i)
		}
	}
	if len(rows) == 0 {
		return nil, errors.New("there is no probe: all validation inputs that the bundle keeps have NaN or infinities, for which JSON has no form: leave it out, and compare with mfgs predict")
	}
	if most := bundle.MaxProbeBytes / max(1, bytes); batch > most {
		return nil, fmt.Errorf("there is no probe: the model takes %d examples at once, want at most %d, as each has %d bytes: leave it out, and compare with mfgs predict",
			batch, most, bytes)
	}
	if batch > 0 {
		rows = slices.Repeat(rows, int(batch)/len(rows)+1)[:batch]
	}
	some := &bundle.Probe{N: len(rows)}
	for _, t := range kept.Inputs {
		some.Inputs = append(some.Inputs, t.Rows(rows))
	}
	for _, i := range rows {
		some.Features = append(some.Features, kept.Features[i*h.Features:(i+1)*h.Features]...)
		some.Logits = append(some.Logits, kept.Logits[i*h.Logits:(i+1)*h.Logits]...)
	}
	return some, nil
}

// shift returns the largest change of a function of the OOD score when scores move by their tolerance.
func shift(of func(score float64) float64, scores []float64) (most float64) {
	for _, score := range scores {
		for _, to := range []float64{score - probe.MostScore, score + probe.MostScore} {
			most = max(most, math.Abs(of(to)-of(score)))
		}
	}
	return most + 1e-6
}

// isProbe reports whether a file begins as those of probeFile do.
func isProbe(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	start := make([]byte, len(probeStart))
	_, err = io.ReadFull(f, start)
	return err == nil && string(start) == probeStart
}

// abstentions returns which examples are abstained from. It is not sure if another rounding could change one.
func abstentions(d *conformal.Decisions, p, ood []float64) (abstain []bool, sure bool) {
	if d == nil || !d.Abstains() {
		return nil, false
	}
	low, high := d.Clone(), d.Clone()
	for rule, tolerance := range map[*conformal.Rule]float64{
		low.Uncertainty: -probe.MostProbability, high.Uncertainty: probe.MostProbability,
		low.OOD: -probe.MostScore, high.OOD: probe.MostScore,
	} {
		if rule != nil {
			rule.Threshold += tolerance
		}
	}
	c := len(p) / len(ood)
	for i, score := range ood {
		row := p[i*c : (i+1)*c]
		certain, possible := high.Abstain(row, score) != "", low.Abstain(row, score) != ""
		if certain != possible {
			return nil, false
		}
		abstain = append(abstain, certain)
	}
	return abstain, true
}

// members returns the prediction sets of examples, [n,C]. It is not sure if another rounding could change one.
func members(d *conformal.Decisions, p []float64, classes int) (in []bool, sure bool) {
	if d == nil || d.Set == nil {
		return nil, false
	}
	low, high := d.Clone().Set, d.Clone().Set
	for i := range low.Thresholds {
		low.Thresholds[i] -= probe.MostProbability
		high.Thresholds[i] += probe.MostProbability
	}
	for row := range slices.Chunk(p, classes) {
		certain := low.Set(row)
		if !slices.Equal(certain, high.Set(row)) || d.Set.Ranked() && swaps(row, certain) {
			return nil, false
		}
		for k := range classes {
			in = append(in, slices.Contains(certain, k))
		}
	}
	return in, true
}

// swaps reports whether rounding can swap the ranks of a class in a set and one that is not in it.
func swaps(p []float64, set []int) bool {
	least, most := math.Inf(1), 0.0
	for k, v := range p {
		if slices.Contains(set, k) {
			least = min(least, v)
		} else {
			most = max(most, v)
		}
	}
	return least-most < 2*probe.MostProbability
}
