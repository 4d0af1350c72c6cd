package metrics

// outcome is what one decision adds to the counts.
type outcome struct {
	right                               bool
	confidence, uncertainty, nll, brier float64
}

// exampleStats is what is kept of each example: means over its decisions, and what it adds to the bins.
type exampleStats struct {
	wrong, nll, brier, uncertainty []float64
	cells                          []cell
	ends                           []int // end of each example's cells
}

// cell is what an example adds to a bin.
type cell struct {
	of int
	bin
}

func (s *exampleStats) add(example []outcome, bins int) {
	var mean outcome
	var wrong float64
	start := len(s.cells)
	for _, o := range example {
		mean.nll += o.nll
		mean.brier += o.brier
		mean.uncertainty += o.uncertainty
		if !o.right {
			wrong++
		}
		of := binOf(o.confidence, bins)
		at := start
		for at < len(s.cells) && s.cells[at].of != of {
			at++
		}
		if at == len(s.cells) {
			s.cells = append(s.cells, cell{of: of})
		}
		s.cells[at].add(o.confidence, o.right)
	}
	n := float64(len(example))
	s.wrong, s.nll = append(s.wrong, wrong/n), append(s.nll, mean.nll/n)
	s.brier, s.uncertainty = append(s.brier, mean.brier/n), append(s.uncertainty, mean.uncertainty/n)
	s.ends = append(s.ends, len(s.cells))
}
