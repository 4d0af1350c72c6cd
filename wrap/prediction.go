package wrap

// Prediction is the result for one example.
type Prediction struct {
	Input      string  `json:"input,omitempty"` // name of the record, where there is one
	Label      *int    `json:"label"`           // the record's own label; null without
	Class      int     `json:"class"`           // the most probable
	ClassName  string  `json:"class_name,omitempty"`
	Confidence float64 `json:"confidence"` // the largest probability

	// Of a multi-label head only, whose K labels are told independently of each
	// other; Label is then null, and Confidence the mean over labels of
	// max(p, 1-p). Labels are those with p > ½, by number and, where there are
	// names, by name; Targets those that the record itself has, nil where it tells
	// none. All ascend.
	Labels     []int    `json:"labels,omitzero"`
	LabelNames []string `json:"label_names,omitzero"`
	Targets    []int    `json:"targets,omitzero"`

	Probabilities []float64 `json:"probabilities"`  // [C], sum 1; of a multi-label head [K], of each label
	Logits        []float32 `json:"logits"`         // [K], the network's own
	LogitVariance []float64 `json:"logit_variance"` // [K], the posterior's own: at T_ens = 1
	Entropy       float64   `json:"entropy"`        // of the probabilities, nats; of K labels the sum of theirs

	// OODScore grows with 1 - Confidence, but under the temperatures tuned to tell
	// unfamiliar inputs: it is in (0,1], half of the held-out examples were below ½,
	// and it has digits for inputs whose Confidence is the same in floating point. See
	// [calibrate.Score].
	OODScore float64 `json:"ood_score"`
	// Leverage is φᵀ(A+δI)⁻¹φ: how far the features are from those of the
	// training set. Not bounded.
	Leverage float64 `json:"leverage"`
}
