package calibration

import (
	"context"

	"github.com/mfgs/mfgs/featurize"
	"github.com/mfgs/mfgs/featurize/dataset"
	"github.com/mfgs/mfgs/internal/attach"
	"github.com/mfgs/mfgs/onnx/head"
	"github.com/mfgs/mfgs/wrap/bundle"
	"github.com/mfgs/mfgs/wrap/internal/proof"
)

// proofBytes is the largest model that is opened a second time to check a head that was found, not named: that
// takes at most a second.
const proofBytes = 256 << 20

// prove compares the probabilities or classes computed from the logits with the model's own outputs on the first
// examples: always if the head was named by hand, otherwise if that is cheap.
func prove(ctx context.Context, cfg *Config, in *sources) (p *bundle.Proof, warning string, err error) {
	if in.cut == nil || in.head.Nonlinear {
		return nil, "", nil
	}
	named := cfg.Head.Features != "" || cfg.Head.Logits != "" || cfg.Head.Output != ""
	if !named && in.cut.Model.Size() > proofBytes {
		return nil, "", nil
	}
	logits, outputs, err := modelOutputs(ctx, cfg, in)
	if err != nil {
		return nil, "", err
	}
	return proof.Compare(in.cut.Head, in.head, logits, outputs, proof.Options{Named: named, Output: cfg.Head.Output})
}

// modelOutputs runs the model on the first training examples, and returns their logits and the model's own outputs.
// It returns none if the model cannot be run so.
func modelOutputs(
	ctx context.Context, cfg *Config, in *sources,
) (logits []float32, outputs []proof.ModelOutput, err error) {
	model, list, err := head.WithOutputs(in.cut.Model, in.cut.Head)
	if err != nil || len(list) == 0 {
		return nil, nil, nil
	}
	run := attach.RunConfig(cfg.Runtime.Provider, cfg.Runtime.Threads, cfg.Runtime.Batch)
	run.Model, run.Preprocess = model, in.cut.Preprocess()
	net, err := featurize.New(run)
	if err != nil {
		return nil, nil, nil // an output may have another shape than declared
	}
	defer net.Close()
	var examples []dataset.Example
	for example, err := range in.train.First(ctx) {
		if cause := context.Cause(ctx); cause != nil {
			return nil, nil, cause
		}
		if err == nil { // other errors are reported when all examples are read
			examples = append(examples, example)
		}
	}
	results, errs := net.RunExamples(ctx, examples)
	if cause := context.Cause(ctx); cause != nil {
		return nil, nil, cause
	}
	for _, o := range list {
		outputs = append(outputs, proof.ModelOutput{Output: o})
	}
	for i, r := range results {
		if errs[i] != nil {
			continue
		}
		logits = append(logits, r.Columns[0]...)
		for j := range outputs {
			outputs[j].Values = append(outputs[j].Values, r.Columns[1+j]...)
		}
	}
	if len(logits) == 0 {
		return nil, nil, nil
	}
	return logits, outputs, nil
}
