package export

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/conformal"
	"github.com/mfgs/mfgs/internal/measure"
	"github.com/mfgs/mfgs/internal/oip"
	"github.com/mfgs/mfgs/internal/option"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/fuse"
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

// errNoProbe says why a bundle's model has no probe.
var errNoProbe = option.Errorf("the bundle keeps no validation inputs, which a probe consists of: calibrate without %s, on inputs that are numbers",
	option.NoProbe)

// probeFile returns the file that checks a deployment of the model: a request of the Open Inference Protocol with the
// bundle's validation inputs, and the response that it must get, as computed by the float64 formulas. The response's
// parameters say for each output how far its numbers may be from these. Of a model with an answer for each step, the
// response has the first step of each example.
func probeFile(b *bundle.Bundle, method string, outputs fuse.Outputs, name string) (onnx.File, error) {
	kept, head := b.Probe, b.Manifest.Head.Head
	if kept == nil {
		return onnx.File{}, errNoProbe
	}
	calibration := *b.Calibration()
	if method != "" {
		calibration.Method = calibrate.Method(method)
	}
	r := calibration.Predict(kept.Features, kept.Logits, kept.N)
	p := measure.ClassProbabilities(head, r.LogP)
	answer := &oip.Response{Model: strings.TrimSuffix(name, probeSuffix), Version: "1", Parameters: oip.Parameters{}}
	add := func(key string, tolerance float64, data any, width ...int64) {
		o := outputs.Of(key)
		if o == nil {
			return
		}
		shape := append([]int64{int64(kept.N)}, width...)
		answer.Outputs = append(answer.Outputs, tensor.Tensor{Name: o.Name, Shape: shape, Data: data})
		answer.Parameters[o.Name] = tolerance
	}
	add("probabilities", probe.MostProbability, p, int64(head.Classes()))
	add("logits", probe.MostLogits*probe.Spread(kept.Logits, head.Logits), kept.Logits, int64(head.Logits))
	add("ood_score", probe.MostScore, r.OODScore)
	if d := b.Manifest.Decisions; outputs.Of("abstain") != nil {
		if abstain, sure := abstentions(d, p, r.OODScore); sure {
			add("abstain", 0, abstain)
		}
	}
	if len(answer.Outputs) == 0 {
		return onnx.File{}, errors.New("a probe has no output to check: give one of probabilities, logits, ood_score and abstain")
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
