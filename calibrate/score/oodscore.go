package score

var oodScore = Score{
	Name:   "ood_score",
	Doc:    "m/(m+g): in (0,1], half of the held-out examples below 1/2",
	Margin: true,
	Double: true,
	rows: func(t Terms[Rows], _ Tensors) Rows {
		return bounded(t, t.(interface{ MedianMargin() Rows }).MedianMargin())
	},
	graph: func(t Terms[string], _ Tensors) string {
		return bounded(t, t.(interface{ MedianMargin() string }).MedianMargin())
	},
}

// bounded is m/(m+g), g the margin of 1 - max p (package meanfield) under the temperatures for
// out-of-distribution data, and m the margin of a usual example, which scores ½. It is strictly
// monotone, so that examples are in the order of 1 - max p, and tells margins apart that differ by
// more than some 2⁻⁵² of m+g, be 1 - max p next to nothing or next to what it is by chance.
func bounded[V any](t Terms[V], m V) V {
	return t.Div(m, t.Add(t.Margin(), m))
}
