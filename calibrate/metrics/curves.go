package metrics

import "slices"

// Bin is a bin of the ECE with N decisions, Right of them right. An empty bin is all zero.
type Bin struct {
	N          int     `json:"n"`
	Right      int     `json:"right"`
	Confidence float64 `json:"confidence"` // mean
	Accuracy   float64 `json:"accuracy"`   // Right/N
}

// Bins returns the bins of the ECE over the examples added so far, by rising confidence: a reliability diagram.
func (c *Classifier) Bins() []Bin {
	all := make([]Bin, len(c.bins))
	for i, b := range c.bins {
		if b.n > 0 {
			all[i] = Bin{int(b.n), int(b.right), b.confidence / b.n, b.right / b.n}
		}
	}
	return all
}

// Point is a point of a curve.
type Point struct{ X, Y float64 }

// RiskCoverage returns the curve whose area is Selective.AURC, at no more than most evenly spaced coverages. X is
// the coverage, the fraction of the examples kept, least uncertain first, and Y the error among them. Within a
// tie it is the expectation over all orders.
func (c *Classifier) RiskCoverage(most int) []Point {
	r, losses := newRanked(c.kept.uncertainty), c.kept.wrong
	n := len(r.order)
	points := make([]Point, 0, min(n, most))
	var before, tied int
	var lost, tiedLosses float64
	for _, e := range r.order {
		tied++
		tiedLosses += losses[e]
		if !r.last[before+tied-1] {
			continue
		}
		for len(points) < cap(points) {
			kept := ((len(points)+1)*n + cap(points) - 1) / cap(points) // rounded up
			if kept > before+tied {
				break
			}
			risk := (lost + tiedLosses*float64(kept-before)/float64(tied)) / float64(kept)
			points = append(points, Point{float64(kept) / float64(n), risk})
		}
		before, lost = before+tied, lost+tiedLosses
		tied, tiedLosses = 0, 0
	}
	return points
}

// ROC returns the curve whose area is the AUROC of [Detect], from (0,0) to (1,1): X is the fraction of the
// in-distribution examples that are flagged and Y that of the out-of-distribution ones. It has at most about
// most points, which are corners of the curve: the lines between them stay within 2/most of it. The error is
// that of Detect.
func ROC(in, out []float64, most int) ([]Point, error) {
	a, b := slices.Clone(in), slices.Clone(out)
	if err := sortScores(a, b); err != nil {
		return nil, err
	}
	points := []Point{{1, 1}}
	last := points[0]
	for g := range groups(a, b) {
		seenIn, seenOut := g.in+g.tiedIn, g.out+g.tiedOut
		p := Point{1 - float64(seenIn)/float64(len(a)), 1 - float64(seenOut)/float64(len(b))}
		end := seenIn == len(a) && seenOut == len(b)
		if last.X-p.X+last.Y-p.Y >= 2/float64(most) || end {
			points = append(points, p)
			last = p
		}
	}
	slices.Reverse(points)
	return points, nil
}
