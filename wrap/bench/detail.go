package bench

import (
	"github.com/mfgs/mfgs/calibrate/conformal"
	"github.com/mfgs/mfgs/calibrate/metrics"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/featurize/dataset"
	"github.com/mfgs/mfgs/internal/measure"
	"github.com/mfgs/mfgs/wrap/bundle"
)

// Detail is what a report shows beside the figures.
type Detail struct {
	Manifest *bundle.Manifest
	Sets     []MeasuredSet // "test" first
	// Probabilities and Score are the methods that the bundle serves. They and mle, the network itself, are among the
	// methods of the evaluation.
	Probabilities, Score string
	Curves               map[string]Curves // by method
	// Scores is a histogram of the served score.
	Scores ScoreCounts
	Sizes  []SetSizes // of prediction sets; nil if the bundle has none
	// Trial is what prediction sets would give, if the bundle has no decisions; nil for a stream, and for too few
	// examples.
	Trial     *SetTrial
	Galleries []Gallery
	Exif      bool // images of the galleries are predicted with their EXIF orientation applied
	// Classes are the figures of each class of the test set, by the methods mle and Probabilities.
	Classes map[string][]metrics.ClassFigures
}

// Curves are the curves of a method.
type Curves = measure.Curves

// ReliabilityBin is a bin of a reliability diagram.
type ReliabilityBin = measure.ReliabilityBin

// MeasuredSet is a set with its name, SPEC and number of examples.
type MeasuredSet struct {
	Name, Spec string
	N          int
}

// ScoreCounts is a histogram of scores: Counts[s][i] examples of set s score from Edges[i] to less than Edges[i+1].
// Scores beyond the edges are in the first and the last bin.
type ScoreCounts struct {
	Edges  []float64
	Sets   []string // "test" and the out-of-distribution sets
	N      []int
	Counts [][]int
}

// SetSizes is how many examples of a set have a prediction set of 0, 1, 2 … classes.
type SetSizes struct {
	Set   string
	Sizes []int
}

// SetTrial is prediction sets fitted to every second example of the test set, Held of them, and measured on the others.
type SetTrial struct {
	Alpha    float64
	Held     int
	Realised conformal.Realised
	Sizes    []int
}

// Kind is how the examples of a gallery are selected.
type Kind string

const (
	Uncertain Kind = "uncertain" // of the test set, the most uncertain
	Wrong     Kind = "wrong"     // wrong predictions, the most confident
	MostOOD   Kind = "most_ood"  // the highest OOD scores
	LeastOOD  Kind = "accepted"  // of an out-of-distribution set, the lowest OOD scores
)

// Gallery is a few examples of a set, the most extreme of their kind first.
type Gallery struct {
	Kind     Kind
	Set      string
	Examples []GalleryExample
}

// GalleryExample is an example that a report shows.
type GalleryExample struct {
	Name     string
	Position int
	// Input is nil for precomputed features, and for data that can be read only once.
	Input *dataset.Example

	// Label is the true class, -1 if unknown; Predicted and Confidence are what the bundle predicts, Network and
	// NetworkConfidence what the network itself does. For a multi-label head Labels are the true labels, nil if
	// unknown, PredictedLabels the predicted ones, and Confidence the mean over labels of max(p, 1-p).
	Label, Predicted, Network     int
	Confidence, NetworkConfidence float64
	Labels, PredictedLabels       []int
	Reading                       *rows.Reading // of a model that reads text, else nil
	Step                          []int         // the measured one: see [featurize.Network.DrawnStep]
	OODScore, OODPercentile       float64       // the latter in [0,1], NaN if unknown
}
