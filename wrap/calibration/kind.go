package calibration

import (
	"context"
	"fmt"
	"math"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/featurize/dataset"
	"github.com/mfgs/mfgs/internal/attach"
	"github.com/mfgs/mfgs/internal/option"
	"github.com/mfgs/mfgs/internal/source"
	"github.com/mfgs/mfgs/onnx/head"
)

// resolveKind finds out what the numbers of an output without a linear layer are from those of the first examples, and
// cuts the network again for it; if it was said, it checks that. Every shard looks at the same examples.
func (in *sources) resolveKind(ctx context.Context, cfg *Config, log *journal) error {
	if in.cut == nil || !in.head.Nonlinear {
		return nil
	}
	set := in.sets()[0]
	if in.val != nil {
		set = in.val
	}
	values, err := in.firstLogits(ctx, set)
	if err != nil {
		return err
	}
	h := in.cut.Head
	if h.Kind != head.None {
		return checkKind(h, values)
	}
	kind, why, err := kindOf(values, h.Logits, h.Link)
	if err != nil {
		return fmt.Errorf("%s: %q: %w", set.Name, h.LogitsTensor, err)
	}
	as, err := h.As(kind)
	if err != nil {
		return err
	}
	as.Evidence = append(as.Evidence, why)
	log.notice("%q: %s", h.LogitsTensor, why)
	return in.recut(cfg, as)
}

// recut replaces the network by one that is cut at another head of the same model.
func (in *sources) recut(cfg *Config, h *head.Head) error {
	run := attach.RunConfig(cfg.Runtime.Provider, cfg.Runtime.Threads, cfg.Runtime.Batch)
	run.Preprocess = cfg.Preprocess
	cut, err := attach.OpenCut(in.cut.Model, h, run)
	if err != nil {
		return err
	}
	in.cut.Network.Close()
	in.cut, in.head, in.opener.Network = cut, h.Head, cut.Network
	for _, s := range in.sets() {
		s.Use(cut.Network)
	}
	return in.head.Validate()
}

// firstLogits returns the logits of the first examples of a set.
func (in *sources) firstLogits(ctx context.Context, s *source.Set) (logits []float32, err error) {
	var examples []dataset.Example
	for example, err := range s.First(ctx) {
		if cause := context.Cause(ctx); cause != nil {
			return nil, cause
		}
		if err == nil { // other errors are reported when all examples are read
			examples = append(examples, example)
		}
	}
	results, errs := in.cut.RunExamples(ctx, examples)
	if cause := context.Cause(ctx); cause != nil {
		return nil, cause
	}
	for i, r := range results {
		if errs[i] == nil {
			logits = append(logits, r.Rows().Logits...)
		} else if err == nil {
			err = fmt.Errorf("%s: %w", s.Name, errs[i])
		}
	}
	if len(logits) > 0 {
		return logits, nil
	}
	if err == nil {
		err = fmt.Errorf("%s: no examples could be read of %s", s.Name, s.Spec)
	}
	return nil, err
}

// sumTolerance is how far probabilities may be from adding up to 1: as in exports in half precision.
const sumTolerance = 1e-3

// checkKind refuses logits that are not the logarithms of probabilities, where the kind says so.
func checkKind(h *head.Head, logits []float32) error {
	if h.Link != layer.Softmax || h.Kind == head.Scores {
		return nil
	}
	k := h.Logits
	for i := range len(logits) / k {
		sum := 0.0
		for _, v := range logits[i*k : (i+1)*k] {
			sum += math.Exp(float64(v))
		}
		if !(math.Abs(sum-1) <= sumTolerance) {
			return fmt.Errorf("%s %s: the first examples of %q do not have any: those of an example add up to %.4g, want 1; %[1]s %[5]s finds out what they are, and %[6]s %[7]s is for labels that do not exclude each other",
				option.Kind, h.Kind, h.LogitsTensor, sum, head.None, option.Link, layer.Sigmoid)
		}
	}
	return nil
}

// kindOf says what numbers are, width for each example, and why. The link says whether several probabilities are of
// classes that exclude each other.
func kindOf(values []float32, width int, link layer.Link) (kind head.Kind, why string, err error) {
	const tolerance = sumTolerance
	n := len(values) / width
	within, negative := true, true
	apart, apartLog := 0.0, 0.0
	for i := range n {
		sum, exp := 0.0, 0.0
		for _, v := range values[i*width : (i+1)*width] {
			x := float64(v)
			within = within && x >= -tolerance && x <= 1+tolerance
			negative = negative && x <= tolerance
			sum += x
			exp += math.Exp(x)
		}
		apart, apartLog = math.Max(apart, math.Abs(sum-1)), math.Max(apartLog, math.Abs(exp-1))
	}
	of := fmt.Sprintf("of the first %d examples all numbers", n)
	switch {
	case within && width == 1:
		return head.Probabilities, of + " lie in [0,1]: the probability of the second class", nil
	case within && link != layer.Softmax:
		return head.Probabilities, of + " lie in [0,1]: a probability for each class", nil
	case within && apart <= tolerance:
		return head.Probabilities, of + " lie in [0,1] and each example's add up to 1: probabilities", nil
	case within:
		return "", "", fmt.Errorf("%s lie in [0,1], and an example's do not add up to 1 (by up to %.2g): say whether they are of labels that do not exclude each other, with %s %s, of classes one of which is right, with %[3]s %[5]s, or %[6]s with %[7]s %[6]s",
			of, apart, option.Link, layer.Sigmoid, layer.OneVsRest, head.Scores, option.Kind)
	case width > 1 && negative && apartLog <= tolerance:
		return head.LogProbabilities, of + " are negative and each example's exponentials add up to 1: log-probabilities", nil
	}
	return head.Scores, of + " are neither probabilities nor their logarithms: scores, larger for a more likely class", nil
}
