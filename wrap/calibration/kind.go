package calibration

import (
	"cmp"
	"context"
	"fmt"
	"math"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/featurize"
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
	values, texts, err := in.firstLogits(ctx, set)
	if err != nil {
		return err
	}
	h := in.cut.Head
	if h.Kind.Decodes() {
		return in.resolveDecoding(ctx, cfg, log, set, values, texts)
	}
	if h.Kind != head.None {
		return checkKind(h, values, true)
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
	for _, what := range h.Evidence[1:] { // what else could have been meant
		log.notice("%s", what)
	}
	log.notice("%q: %s", h.LogitsTensor, why)
	return in.recut(cfg, as)
}

// recut replaces the network by one that is cut at another head of the same model.
func (in *sources) recut(cfg *Config, h *head.Head) error {
	run := attach.RunConfig(cfg.Runtime.Provider, cfg.Runtime.Threads, cfg.Runtime.Batch)
	run.Preprocess = cfg.Preprocess
	in.cut.Network.Close() // before: forests are large
	cut, err := attach.OpenCut(in.cut.Model, h, run)
	if err != nil {
		return err
	}
	in.cut, in.head, in.opener.Network = cut, h.Head, cut.Network
	for _, s := range in.sets() {
		s.Use(cut.Network)
	}
	return in.head.Validate()
}

// firstLogits returns the logits of the first examples of a set. They must not depend on each other.
func (in *sources) firstLogits(
	ctx context.Context, s *source.Set,
) (logits []float32, texts []featurize.Text, err error) {
	var examples []dataset.Example
	var first error // of a record: where there are other examples, it is reported when all are read
	for example, err := range s.First(ctx) {
		if cause := context.Cause(ctx); cause != nil {
			return nil, nil, cause
		}
		if err == nil {
			examples = append(examples, example)
		}
		first = cmp.Or(first, err)
	}
	results, errs := in.cut.RunExamples(ctx, examples)
	// In another batch an example has the same numbers. The last ones may depend on those before them, as the steps of
	// a sequence do.
	const most = 8
	from := len(examples) - min(most, (len(examples)+1)/2)
	again, againErrs := in.cut.RunExamples(ctx, examples[from:])
	if cause := context.Cause(ctx); cause != nil {
		return nil, nil, cause
	}
	largest, difference := 0.0, 0.0
	for i, r := range results {
		if errs[i] != nil {
			first = cmp.Or(first, errs[i])
			continue
		}
		own := r.Rows().Logits
		logits, texts = append(logits, own...), append(texts, r.Texts...)
		if i >= from && againErrs[i-from] == nil {
			for j, v := range again[i-from].Rows().Logits {
				largest = math.Max(largest, math.Abs(float64(v)))
				difference = math.Max(difference, math.Abs(float64(v-own[j])))
			}
		}
	}
	switch {
	case difference > batchTolerance*largest:
		hint := ""
		if in.cut.Head.Steps > 0 {
			hint = ": the steps may be in front of the examples: export the model with the examples on the first axis"
		}
		return nil, nil, fmt.Errorf("%q: the numbers of an example depend on the other examples of its batch: in another they differ by up to %.2g, the largest being %.2g%s",
			in.cut.Head.LogitsTensor, difference, largest, hint)
	case len(logits) > 0:
		return logits, texts, nil
	case first != nil:
		return nil, nil, fmt.Errorf("%s: %w", s.Name, first)
	}
	return nil, nil, fmt.Errorf("%s: no examples could be read of %s", s.Name, s.Spec)
}

const (
	// sumTolerance is how far probabilities may be from adding up to 1: as in exports in half precision.
	sumTolerance = 1e-3
	// declaredTolerance is that of numbers which are said to be probabilities: as of 8 bits.
	declaredTolerance = 0.05
	// batchTolerance is how far an example's numbers may depend on its batch, as a fraction of the largest: dynamic
	// quantisation has one scale for a batch.
	batchTolerance = 0.05
)

// checkKind refuses logits that are not the logarithms of probabilities, where the kind is that. The kind was declared,
// or else found out from the first examples.
func checkKind(h *head.Head, logits []float32, declared bool) error {
	if h.Kind != head.Probabilities && h.Kind != head.LogProbabilities {
		return nil
	}
	tolerance := sumTolerance
	if declared {
		tolerance = declaredTolerance
	}
	k := h.Logits
	tolerance += float64(k) * head.LeastProbability // for those that are 0
	for i := range len(logits) / k {
		row, wrong := logits[i*k:(i+1)*k], ""
		if h.Link == layer.Softmax {
			sum := 0.0
			for _, v := range row {
				sum += math.Exp(float64(v))
			}
			if !(math.Abs(sum-1) <= tolerance) {
				wrong = fmt.Sprintf("those of an example add up to %.4g, want 1", sum)
			}
		} else {
			for _, v := range row { // log p - log(1-p), each at least the logarithm of the least
				if !(math.Abs(float64(v)) <= tolerance-math.Log(head.LeastProbability)) {
					wrong = "one lies outside [0,1]"
				}
			}
		}
		switch {
		case wrong != "" && declared:
			return fmt.Errorf("%s %s: %q does not hold any: %s; %[1]s %[5]s finds out what they are, and %[6]s %[7]s is for labels that do not exclude each other",
				option.Kind, h.Kind, h.LogitsTensor, wrong, head.None, option.Link, layer.Sigmoid)
		case wrong != "":
			return fmt.Errorf("%q holds %s for the first examples, and not for others: %s; say what they are with %s",
				h.LogitsTensor, h.Kind, wrong, option.Kind)
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
