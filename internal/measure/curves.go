package measure

import (
	"github.com/mfgs/mfgs/calibrate/conformal"
	"github.com/mfgs/mfgs/calibrate/metrics"
)

// ReliabilityBin is a bin of the ECE, with the interval of its accuracy.
type ReliabilityBin struct {
	metrics.Bin
	Interval metrics.Interval // at [Level], for independent decisions; [0,1] if the bin is empty
}

// Curves are the curves of a method. Bins and Risk are of the test set, nil for a method without probabilities. ROC is
// by out-of-distribution set, of the same scores as Figures.OOD.
type Curves struct {
	Bins []ReliabilityBin
	Risk []metrics.Point // over coverage
	ROC  [][]metrics.Point
}

// curvePoints is about the largest number of points of a curve.
const curvePoints = 200

// Curves returns the curves of all examples.
func (t *Tally) Curves() (c Curves, err error) {
	if t.test != nil {
		for _, b := range t.test.Bins() {
			low, high := conformal.ClopperPearson(b.Right, b.N, Level)
			c.Bins = append(c.Bins, ReliabilityBin{b, metrics.Interval{low, high}})
		}
		c.Risk = t.test.RiskCoverage(curvePoints)
	}
	for _, s := range t.out {
		roc, err := metrics.ROC(t.in.OOD, s.OOD, curvePoints)
		if err != nil {
			return c, err
		}
		c.ROC = append(c.ROC, roc)
	}
	return c, nil
}
