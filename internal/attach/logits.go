package attach

import (
	"fmt"
	"math"

	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/internal/option"
	"github.com/mfgs/mfgs/onnx/head"
)

// LogitTolerance is how far φW + b may be from the network's own logits, relative to the largest:
// float16 rounds to 1e-3, kernels for the same product in float32 differ by 1e-5.
const LogitTolerance = 5e-3

// checkProducts bounds the multiplications of CheckLogits to a fraction of a second.
const checkProducts = 100_000_000

// CheckLogits checks the head on real examples: φW + b must be the logits, up to the rounding and clipping of
// quantised networks. It returns the largest difference, relative to the largest logit. For an approximate head
// no difference is an error.
func CheckLogits(h *head.Head, b *rows.Batch) (float64, error) {
	w, bias, err := h.Weights()
	if err != nil {
		return 0, err
	}
	d, k := h.Features, h.Logits
	var worst, size float64
	for i := range max(1, min(b.N, checkProducts/(d*k))) {
		phi, logits := b.Row(i)
		for j, got := range logits {
			var sum float64
			for l, v := range w[j*d : (j+1)*d] {
				sum += float64(v) * float64(phi[l])
			}
			if bias != nil {
				sum += float64(bias[j])
			}
			sum = min(max(sum, h.Low), h.High)
			worst = max(worst, math.Abs(sum-float64(got))-h.Rounding)
			size = max(size, math.Abs(float64(got)))
		}
	}
	if size == 0 {
		size = 1
	}
	worst = max(worst, 0)
	// Written so that NaN fails.
	if h.Approximation == "" && !(worst/size <= LogitTolerance) {
		return 0, fmt.Errorf("%s times the weights of %s is not %s: they differ by %.2g of the largest logit, want at most %.2g; name the right tensors with %s and %s",
			h.FeaturesTensor, h.Node, h.LogitsTensor, worst/size, LogitTolerance, option.Features, option.Logits)
	}
	return worst / size, nil
}
