package metrics

// Recommendation says what to use. Score is nil where there is no out-of-distribution data.
type Recommendation struct {
	Probabilities *Recommended `json:"probabilities"`
	Score         *Recommended `json:"score"`
}

// Recommended is a method that is recommended for what it gives, and why: the network itself, unless
// another is better beyond chance; of these the one that serves, unless yet another is better
// than that beyond chance. Intervals are those of all pairs of methods together (see
// [Simultaneous]), at the level of the bootstrap.
type Recommended struct {
	Method string `json:"method"`
	Served bool   `json:"served"` // by the bundle
	// Figure is what is compared: nll or auroc, its mean over the out-of-distribution sets.
	Figure string  `json:"figure"`
	Value  float64 `json:"value"`
	// Over are the figure less those of other methods, by their names.
	Over map[string]Difference `json:"over"`
	// Worse are the out-of-distribution sets that the network itself tells better, beyond chance.
	Worse    []string `json:"worse,omitempty"`
	Sentence string   `json:"sentence"`
}
