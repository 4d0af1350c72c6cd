package compare

import (
	"cmp"
	"context"
	"fmt"
	"math"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/cmd/mfgs-paper/internal/methods"
	"github.com/mfgs/mfgs/cmd/mfgs-paper/internal/onnxlayers"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/head"
)

var dropout = &method{name: "dropout", doc: "dropout of the network, otherwise of its features", sampled: true, check: checkWeights, fit: fitDropout}

// dropoutRates are tried if none is given.
var dropoutRates = []float64{0.05, 0.1, 0.2, 0.3, 0.5}

// fitDropout activates the network's own Dropout nodes or, if it has none, drops features.
func fitDropout(ctx context.Context, b *comparison, r *request) (predictor, string, error) {
	if b.model != nil {
		cut, err := head.OnlyLogits(b.model, b.modelHead)
		if err != nil {
			return nil, "", err
		}
		switched := 0
		stochastic := func(seed int) (model *onnx.Model, err error) {
			model, switched, err = onnxlayers.Stochastic(cut, b.DropoutRate, seed)
			return model, err
		}
		if _, err := stochastic(0); err != nil {
			return nil, "", err
		}
		if switched > 0 {
			note := fmt.Sprintf("%d Dropout nodes in the network", switched)
			return b.passes(r, b.Runtime.Batch, stochastic), note, nil
		}
	}
	weights, err := b.headWeights()
	if err != nil {
		return nil, "", err
	}
	rates := dropoutRates
	if rate := cmp.Or(b.DropoutRate, b.rates[r.text]); rate > 0 {
		rates = []float64{rate}
	}
	var best predictor
	var rate float64
	least := math.Inf(1)
	for _, p := range rates {
		drawn, err := methods.NewDropout(ctx, weights, b.head, b.product, p, r.samples, r.seed)
		if err != nil {
			return nil, "", err
		}
		predict := ofRows(drawn)
		if len(rates) == 1 {
			best, rate = predict, p
			break
		}
		nll, err := b.validationNLL(ctx, predict)
		if err != nil {
			return nil, "", err
		}
		if nll < least {
			least, best, rate = nll, predict, p
		}
	}
	if b.DropoutRate == 0 {
		b.rates[r.text] = rate
	}
	return best, fmt.Sprintf("on features, rate %g", rate), nil
}

// validationNLL is the NLL at the optimal temperatures.
func (b *comparison) validationNLL(ctx context.Context, predict predictor) (float64, error) {
	val, err := predict(ctx, b.val)
	if err != nil {
		return 0, err
	}
	tuned, err := calibrate.Tune(ctx, val, b.val.Data().Labels, nil, b.limit)
	if err != nil {
		return 0, err
	}
	logp, _, err := calibrate.PredictAll(ctx, val, tuned.Optimum)
	var sum float64
	for _, v := range nllOf(logp, b.val.Data().Labels, b.head.Classes()) {
		sum += v
	}
	return sum / float64(b.val.Data().N), err
}
