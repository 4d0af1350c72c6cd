package score

var mf0 = Score{
	Name:       "mf0",
	Doc:        "1 - max p of the mean-field integral",
	Source:     "Lu, Ie and Sha 2020, eq. 9",
	Similarity: true,
	Margin:     true,
	rows:       mf0Of[Rows],
	graph:      mf0Of[string],
}

// mf0Of is -g, g the margin of 1 - max p (package meanfield): in the order of 1 - max p, but without its ties where it
// rounds to 0 or to its largest value.
func mf0Of[V any](t Terms[V], _ Tensors) V { return t.Neg(t.Margin()) }
