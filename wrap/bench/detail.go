package bench

import (
	"github.com/mfgs/mfgs/calibrate/conformal"
	"github.com/mfgs/mfgs/calibrate/metrics"
	"github.com/mfgs/mfgs/featurize/dataset"
	"github.com/mfgs/mfgs/internal/measure"
	"github.com/mfgs/mfgs/wrap/bundle"
)

// Detail is what a report shows beyond figures.
type Detail struct {
	Manifest *bundle.Manifest
	Sets     []MeasuredSet // those measured on, "test" first
	// Probabilities and Score are the methods, among those of the evaluation, that the bundle serves. The
	// network itself is there as mle.
	Probabilities, Score string
	Curves               map[string]Curves // by method
	// Scores are of the score that is served, as predictions have it.
	Scores ScoreCounts
	Sizes  []SetSizes // of prediction sets, by set; nil where the bundle has none
	// Trial is what prediction sets would come to, where the bundle has no decisions; nil of a stream, and
	// where there are too few examples.
	Trial     *SetTrial
	Galleries []Gallery
	Exif      bool // images in the galleries are predicted turned as their EXIF orientation asks for
	// Classes are the figures of each class of the test set, by the methods mle and Probabilities.
	Classes map[string][]metrics.ClassFigures
}

// Curves are what can be drawn of a method.
type Curves = measure.Curves

// ReliabilityBin is a bin of a reliability diagram.
type ReliabilityBin = measure.ReliabilityBin

// MeasuredSet is a set by its name and SPEC, with its examples.
type MeasuredSet struct {
	Name, Spec string
	N          int
}

// ScoreCounts counts examples by their score: Counts[s][i] of set s score from Edges[i] to less than
// Edges[i+1]. What is beyond the edges is in the first and the last.
type ScoreCounts struct {
	Edges  []float64
	Sets   []string // "test" and the sets out of distribution
	N      []int
	Counts [][]int
}

// SetSizes says how many examples of a set have a prediction set of 0, 1, 2 … classes.
type SetSizes struct {
	Set   string
	Sizes []int
}

// SetTrial is prediction sets that were fitted to every second example of the test set, so many, and
// measured on the others.
type SetTrial struct {
	Alpha    float64
	Held     int
	Realised conformal.Realised
	Sizes    []int
}

// Kind says by what examples are chosen to be shown.
type Kind string

const (
	Uncertain Kind = "uncertain" // of the test set, those of most doubt
	Wrong     Kind = "wrong"     // those predicted wrongly with the least doubt
	MostOOD   Kind = "strange"   // those of the highest score
	LeastOOD  Kind = "accepted"  // of an out-of-distribution set, those of the lowest score
)

// Gallery is a few examples of a set, the first of their kind first.
type Gallery struct {
	Kind     Kind
	Set      string
	Examples []GalleryExample
}

// Shown is an example that a report shows.
type GalleryExample struct {
	Name     string
	Position int
	// Input is what the data have of it: nil of ready-made features, and of data that can be read only once.
	Input *dataset.Example

	// Label is the class it has, -1 where that is not known, and Predicted what is predicted with this
	// probability; Network is what the network itself says. Of a multi-label head Labels are those that it
	// has, nil where that is not known, and Told those that are predicted; Confidence is then the mean
	// over labels of max(p, 1-p).
	Label, Predicted, Network     int
	Confidence, NetworkConfidence float64
	Labels, PredictedLabels       []int
	OODScore, OODPercentile       float64 // the latter, in [0,1], NaN where it is not known
}
