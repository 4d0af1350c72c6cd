package wrap

// Prediction is the result for one example.
type Prediction struct {
	Input      string  `json:"input,omitempty"` // name of the record, where there is one
	Label      *int    `json:"label"`           // the record's own label; null without
	Class      int     `json:"class"`           // the most probable
	ClassName  string  `json:"class_name,omitempty"`
	Confidence float64 `json:"confidence"` // the largest probability

	Probabilities []float64 `json:"probabilities"`  // [C], sum 1
	Logits        []float32 `json:"logits"`         // [K], the network's own
	LogitVariance []float64 `json:"logit_variance"` // [K], under the likelihood temperatures
	Entropy       float64   `json:"entropy"`        // of Probabilities, nats

	// OODScore is 1 - max p under the temperatures tuned to tell unfamiliar
	// inputs, in [0, 1-1/C].
	OODScore float64 `json:"ood_score"`
	// Leverage is φᵀ(A+δI)⁻¹φ: how far the features are from those of the
	// training set. Not bounded.
	Leverage float64 `json:"leverage"`
}
