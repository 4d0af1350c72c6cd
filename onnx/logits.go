package onnx

import "fmt"

// OnlyLogits returns a model with one output, the head's logits [N,K] in float32, and
// without what they do not need. It panics if h was not found in m.
func OnlyLogits(m *Model, h *Head) (*Model, error) {
	if h.model != m {
		panic("onnx: OnlyLogits with the head of another model")
	}
	b := newBuilder(m)
	logits := b.rows(b.take(h.Logits), &h.logitsValue, CutLogits)
	only, err := b.build(tensorInfo(logits, Float32, -1, int64(h.Classes)))
	if err != nil {
		return nil, fmt.Errorf("cutting the model: %w", err)
	}
	return only, nil
}
