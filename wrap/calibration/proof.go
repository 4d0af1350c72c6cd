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

// proofBytes is the largest model that is opened a second time, for a moment, to
// compare where its head was found and not named: that takes a second at most.
const proofBytes = 256 << 20

// prove compares what is made of the logits with what the model itself gives on the first examples:
// always where the head was named by hand, otherwise where that costs nothing to speak of. There
// may be something to warn of.
func prove(ctx context.Context, cfg *Config, in *sources) (p *bundle.Proof, warning string, err error) {
	if in.cut == nil {
		return nil, "", nil
	}
	named := cfg.Head.Features != "" || cfg.Head.Logits != "" || cfg.Head.Output != ""
	if !named && in.cut.Model.Size() > proofBytes {
		return nil, "", nil
	}
	logits, owns, err := modelOutputs(ctx, cfg, in)
	if err != nil {
		return nil, "", err
	}
	return proof.Judge(in.cut.Head, in.head, logits, owns, proof.Question{Named: named, Output: cfg.Head.Output})
}

// modelOutputs runs the model on its first examples, and gives their logits, and what the model
// makes of these. Where that cannot be run, it makes nothing.
func modelOutputs(ctx context.Context, cfg *Config, in *sources) (logits []float32, owns []proof.Own, err error) {
	model, list, err := head.WithOutputs(in.cut.Model, in.cut.Head)
	if err != nil || len(list) == 0 {
		return nil, nil, nil
	}
	run := attach.RunConfig(cfg.Runtime.Provider, cfg.Runtime.Threads, cfg.Runtime.Batch)
	run.Model, run.Preprocess = model, in.cut.Preprocess()
	net, err := featurize.New(run)
	if err != nil {
		return nil, nil, nil // such as for an output whose shape is not what it is declared to be
	}
	defer net.Close()
	var examples []dataset.Example
	for example, err := range in.train.First(ctx) {
		if cause := context.Cause(ctx); cause != nil {
			return nil, nil, cause
		}
		if err == nil { // what is wrong with others will show when all of them are read
			examples = append(examples, example)
		}
	}
	results, errs := net.RunExamples(ctx, examples)
	if cause := context.Cause(ctx); cause != nil {
		return nil, nil, cause
	}
	for _, o := range list {
		owns = append(owns, proof.Own{Output: o})
	}
	for i, r := range results {
		if errs[i] != nil {
			continue
		}
		logits = append(logits, r.Columns[0]...)
		for j := range owns {
			owns[j].Values = append(owns[j].Values, r.Columns[1+j]...)
		}
	}
	if len(logits) == 0 {
		return nil, nil, nil
	}
	return logits, owns, nil
}
