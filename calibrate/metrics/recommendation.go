package metrics

// Recommendation says which probabilities and which score to use. Score is nil without out-of-distribution data.
type Recommendation struct {
	Probabilities *Recommended `json:"probabilities"`
	Score         *Recommended `json:"score"`
}

// Recommended is the recommended method: the network itself, unless another is significantly better; of these the
// one that the bundle serves, unless yet another is significantly better than that. Intervals hold for all pairs
// of methods together, see [Simultaneous].
type Recommended struct {
	Method string `json:"method"`
	Served bool   `json:"served"` // by the bundle
	// Figure is nll, or auroc as the mean over the out-of-distribution sets.
	Figure string  `json:"figure"`
	Value  float64 `json:"value"`
	// Over are the figure minus those of other methods, by method.
	Over map[string]Difference `json:"over"`
	// Worse are the out-of-distribution sets on which the network itself is significantly better.
	Worse    []string `json:"worse,omitempty"`
	Sentence string   `json:"sentence"`
}
