package score

var leverage = Score{
	Name:  "leverage",
	Doc:   "of the features: tells out-of-distribution data only",
	rows:  leverageOf[Rows],
	graph: leverageOf[string],
}

// leverageOf is h = φᵀ(A+δI)⁻¹φ, with A = Σφφᵀ over the training data.
func leverageOf[V any](t Terms[V]) V { return t.Leverage() }
