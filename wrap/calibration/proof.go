package calibration

import (
	"context"
	"errors"

	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/featurize"
	"github.com/mfgs/mfgs/internal/attach"
	"github.com/mfgs/mfgs/onnx/head"
	"github.com/mfgs/mfgs/wrap/bundle"
	"github.com/mfgs/mfgs/wrap/internal/proof"
)

const (
	// proofExamples is how many examples are compared, or somewhat more.
	proofExamples = 32
	// proofBytes is the largest model that is opened a second time, for a moment, to
	// compare where its head was found and not named: that takes a second at most.
	proofBytes = 256 << 20
)

var errEnough = errors.New("enough examples")

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
	net, err := featurize.NewNetwork(run)
	if err != nil {
		return nil, nil, nil // such as for an output whose shape is not what it is declared to be
	}
	defer net.Close()
	for _, o := range list {
		owns = append(owns, proof.Own{Output: o})
	}
	n := 0
	config := in.train.Config
	config.Cache = nil
	if in.train.Size() < 0 { // whose beginning is wanted again
		batch := net.Batch()
		from, _ := in.train.Data.Range()
		config.To = from + (proofExamples+config.MaxBad+batch-1)/batch*batch
	}
	_, err = net.Stream(ctx, in.train.Data, config, func(r featurize.Results, _ *rows.Batch) error {
		logits = append(logits, r.Columns[0]...)
		for i := range owns {
			owns[i].Values = append(owns[i].Values, r.Columns[1+i]...)
		}
		if n += r.N; n >= proofExamples {
			return errEnough
		}
		return nil
	})
	if cause := context.Cause(ctx); cause != nil {
		return nil, nil, cause
	}
	if err != nil && !errors.Is(err, errEnough) {
		return nil, nil, nil // what is wrong with the data will show when all of it is read
	}
	return logits, owns, nil
}
