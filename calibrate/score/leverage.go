package score

var leverage = Score{
	Name:   "leverage",
	Doc:    "leverage of the features; detects OOD data only",
	Source: "h of a regression's hat matrix: Hoaglin and Welsch 1978, eq. 2.3; damped",
	rows:   leverageOf[Rows],
	graph:  leverageOf[string],
}

// leverageOf is h = φᵀ(A+δI)⁻¹φ, with A = Σφφᵀ over the training data.
func leverageOf[V any](t Terms[V], _ Tensors) V { return t.Leverage() }
