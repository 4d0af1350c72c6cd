package conformal

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/internal/option"
)

// A Score is a nonconformity score of each class k, given an example's probabilities p. Of equally probable classes,
// those of a lower number rank first.
type Score string

const (
	// LAC is 1 - p_k (Sadinle, Lei and Wasserman, "Least Ambiguous Set-Valued Classifiers with Bounded Error
	// Levels", 2019): if the probabilities are correct, its sets are the smallest on average for their coverage.
	// Sets can be empty; some are if alpha is larger than the network's error.
	LAC Score = "lac"

	// APS is the probability of all classes more probable than k (Romano, Sesia and Candès, "Classification with
	// Valid and Adaptive Coverage", 2020): a set takes classes until they are probable enough together, hence more
	// for harder examples.
	//
	// The paper adds a random part of p_k, which makes coverage exact and sets random. Here that part is zero: a set
	// always has the most probable class, which scores 0, and covers more than 1 - alpha if the network's error is
	// below alpha.
	APS Score = "aps"

	// RAPS is APS plus a penalty for each class beyond the first few (Angelopoulos, Bates, Malik and Jordan,
	// "Uncertainty Sets for Image Classifiers using Conformal Prediction", 2021), which shortens the largest sets.
	RAPS Score = "raps"
)

// Scores are all of them.
var Scores = []Score{LAC, APS, RAPS}

// kinds says what each score needs.
var kinds = map[Score]struct {
	// ranked scores are the probability of all more probable classes plus Sets.Penalties; others are 1 - p_k. They
	// rank classes that exclude each other.
	ranked bool
	// tuned scores have a penalty, see Sets.tune.
	tuned bool
}{
	LAC:  {},
	APS:  {ranked: true},
	RAPS: {ranked: true, tuned: true},
}

// Ranked reports whether the score ranks classes, see [Sets.Penalties].
func (s *Sets) Ranked() bool { return kinds[s.Score].ranked }

// Penalties returns what a ranked score adds to the probability of all more probable classes, by place, [classes].
func (s *Sets) Penalties(classes int) []float64 {
	penalties := make([]float64, classes)
	for place := range penalties {
		penalties[place] = s.penalty(place)
	}
	return penalties
}

// penalty is added to the score of the class with this many more probable classes.
func (s *Sets) penalty(place int) float64 { return s.Penalty * float64(max(0, place+1-s.Free)) }

// checkParameters reports parameters that the score does not have.
func (s *Sets) checkParameters(classes int) error {
	if !(s.Penalty >= 0 && s.Penalty <= 1) || s.Free < 0 || s.Free > classes ||
		!kinds[s.Score].tuned && (s.Penalty != 0 || s.Free != 0) {
		return fmt.Errorf("prediction_set has penalty %v and free %d", s.Penalty, s.Free)
	}
	return nil
}

// Sets says which classes are in the prediction set of an example: those whose score is at most the threshold.
type Sets struct {
	Score Score   `yaml:"score" json:"score"`
	Alpha float64 `yaml:"alpha" json:"alpha"` // the fraction of sets that may miss the label

	// RAPS adds Penalty for each place after the first Free.
	Penalty float64 `yaml:"penalty,omitempty" json:"penalty,omitempty"`
	Free    int     `yaml:"free,omitempty" json:"free,omitempty"`

	// MultiLabel says that probabilities are those of independent labels.
	MultiLabel bool `yaml:"multi_label,omitempty" json:"multi_label,omitempty"`

	// Thresholds is one for all classes or, for class-conditional sets, one for each.
	Thresholds []float64 `yaml:"thresholds,flow" json:"thresholds"`
	Examples   int       `yaml:"examples" json:"examples"` // that set the thresholds
}

// Examples are the probabilities of N examples, and their labels or targets.
type Examples struct {
	Classes       int       // C
	Probabilities []float64 // [N,C]
	Labels        []int     // [N]; nil for multi-label heads
	Targets       []uint8   // [N,C], 1 for each label of an example; nil for other heads
}

func (x *Examples) len() int { return len(x.Probabilities) / x.Classes }

// of returns the probabilities of example i.
func (x *Examples) of(i int) []float64 { return x.Probabilities[i*x.Classes : (i+1)*x.Classes] }

func (x *Examples) check() error {
	n, c := x.len(), x.Classes
	if len(x.Probabilities) != n*c || (x.Targets == nil) != (x.Labels != nil) ||
		x.Labels != nil && len(x.Labels) != n || x.Targets != nil && len(x.Targets) != n*c {
		panic(fmt.Sprintf("conformal: %d probabilities of %d classes with %d labels and %d targets",
			len(x.Probabilities), c, len(x.Labels), len(x.Targets)))
	}
	for i, y := range x.Labels {
		if y < 0 || y >= c {
			return fmt.Errorf("validation example %d has label %d, want 0 to %d", i, y, c-1)
		}
	}
	for i, p := range x.Probabilities {
		if !(p >= 0 && p <= 1) {
			return fmt.Errorf("validation example %d has probability %v, want 0 to 1", i/c, p)
		}
	}
	return nil
}

// SetOptions says which sets to fit.
type SetOptions struct {
	Score            Score   // "": LAC
	Alpha            float64 // in (0,1)
	ClassConditional bool    // a threshold and the bound for each class
}

// Fit sets the thresholds of prediction sets on the examples calib.
//
// With n examples the threshold is the ⌈(n+1)(1-alpha)⌉-th smallest score of their labels. For multi-label examples
// it is the least one with which the mean fraction of missed labels over n+1 examples is at most alpha, the new
// example missing all of its own (Angelopoulos et al., "Conformal Risk Control", 2024); with one label each both are
// the same. Class-conditional thresholds are set on the examples of one class (Vovk, "Conditional Validity of
// Inductive Conformal Predictors", 2013).
//
// tune are examples for the penalty of RAPS, none of them in calib: the one of 0.001, 0.01, 0.1, 0.2 and 0.5 that
// makes their sets smallest, after as many free classes as cover 1 - alpha of them. Other scores ignore tune.
//
// Fit needs at least 1/alpha - 1 examples, of each class for class-conditional sets. It refuses APS and RAPS, which
// rank classes that exclude each other, for multi-label examples.
func Fit(tune, calib *Examples, o SetOptions) (*Sets, error) {
	o.Score = cmp.Or(o.Score, LAC)
	if !slices.Contains(Scores, o.Score) {
		return nil, fmt.Errorf("score %.70q of prediction sets, want one of %v", o.Score, Scores)
	}
	if !(o.Alpha > 0 && o.Alpha < 1) {
		return nil, fmt.Errorf("%s is %v, want a number between 0 and 1: the fraction of sets that may miss the label",
			option.Alpha, o.Alpha)
	}
	s := &Sets{Score: o.Score, Alpha: o.Alpha, MultiLabel: calib.Targets != nil, Examples: calib.len()}
	if s.MultiLabel && s.Ranked() {
		return nil, fmt.Errorf("%s needs classes that exclude each other, and this head is multi-label: use %s", s.Score, LAC)
	}
	if err := calib.check(); err != nil {
		return nil, err
	}
	if kinds[s.Score].tuned {
		if err := s.tune(tune); err != nil {
			return nil, err
		}
	}
	missed := s.missed(calib)
	if !o.ClassConditional {
		t, ok := threshold(missed, calib.len(), o.Alpha)
		if !ok {
			return nil, shortOfSets(o.Alpha, calib.len())
		}
		s.Thresholds = []float64{t}
		return s, nil
	}
	byClass := make([][]miss, calib.Classes)
	for _, m := range missed {
		m.weight = 1
		byClass[m.class] = append(byClass[m.class], m)
	}
	for _, missed := range byClass {
		t, ok := threshold(missed, len(missed), o.Alpha)
		if !ok {
			return nil, shortOfClass(o.Alpha, byClass)
		}
		s.Thresholds = append(s.Thresholds, t)
	}
	return s, nil
}

// roundingSlack is how far (n+1)·alpha may fall below a whole number by rounding.
const roundingSlack = 1e-9

// needed returns the least number of examples.
func needed(alpha float64) int { return int(math.Ceil(1/alpha - 1 - roundingSlack)) }

// spare returns how many of n examples may miss their label beside the new one.
func spare(n int, alpha float64) float64 { return alpha*float64(n+1) - 1 + roundingSlack }

// A miss is a label of an example with its score, and the part of the example's loss if a set misses it.
type miss struct {
	score  float64
	weight float64
	class  int
}

// missed lists the labels of examples.
func (s *Sets) missed(x *Examples) []miss {
	var all []miss
	score, r := make([]float64, x.Classes), newRanking(x.Classes)
	for i := range x.len() {
		s.scoresTo(score, r, x.of(i))
		if x.Targets == nil {
			y := x.Labels[i]
			all = append(all, miss{score[y], 1, y})
			continue
		}
		has := 0
		targets := x.Targets[i*x.Classes : (i+1)*x.Classes]
		for _, is := range targets {
			has += int(is)
		}
		for y, is := range targets {
			if is == 1 {
				all = append(all, miss{score[y], 1 / float64(has), y})
			}
		}
	}
	return all
}

// threshold returns the least score at which the losses of n examples plus 1 for the new one are at most alpha·(n+1).
// There is none if 1 alone is more than that.
func threshold(missed []miss, n int, alpha float64) (at float64, ok bool) {
	budget := spare(n, alpha)
	if budget < 0 {
		return 0, false
	}
	slices.SortFunc(missed, func(a, b miss) int { return cmp.Compare(b.score, a.score) })
	at = 1 // multi-label examples may have no labels at all
	for i := 0; i < len(missed) && budget >= 0; {
		at = missed[i].score
		for ; i < len(missed) && missed[i].score == at; i++ {
			budget -= missed[i].weight
		}
	}
	return at, true
}

// tune chooses the parameters of RAPS.
func (s *Sets) tune(x *Examples) error {
	if x == nil || x.len() == 0 {
		return fmt.Errorf("%s needs validation examples to tune its penalty, besides those for thresholds", s.Score)
	}
	if err := x.check(); err != nil {
		return err
	}
	places := make([]miss, x.len())
	r := newRanking(x.Classes)
	for i, y := range x.Labels {
		r.rank(x.of(i))
		places[i] = miss{score: float64(r.place[y]), weight: 1}
	}
	last, ok := threshold(places, x.len(), s.Alpha)
	if !ok {
		return fmt.Errorf("%s %v needs %d validation examples to tune the penalty of %s, got %d: give more, or a larger %[1]s",
			option.Alpha, s.Alpha, needed(s.Alpha), s.Score, x.len())
	}
	s.Free = int(last) + 1
	least, best := math.Inf(1), 0.0
	score := make([]float64, x.Classes)
	for _, s.Penalty = range penalties {
		at, _ := threshold(s.missed(x), x.len(), s.Alpha)
		size := 0.0
		for i := range x.len() {
			s.scoresTo(score, r, x.of(i))
			for _, v := range score {
				if v <= at {
					size++
				}
			}
		}
		if size < least {
			least, best = size, s.Penalty
		}
	}
	s.Penalty = best
	return nil
}

// penalties are the candidates of the paper's own search.
var penalties = []float64{0.001, 0.01, 0.1, 0.2, 0.5}

// A ranking of the classes of one example.
type ranking struct {
	order []int     // classes, the most probable first, and equally probable ones as TopK of ONNX has them
	above []float64 // by class, the probability of all classes before it
	place []int     // by class, the number of these
}

func newRanking(classes int) *ranking {
	return &ranking{make([]int, classes), make([]float64, classes), make([]int, classes)}
}

func (r *ranking) rank(p []float64) {
	for k := range r.order {
		r.order[k] = k
	}
	slices.SortFunc(r.order, func(a, b int) int { return cmp.Or(cmp.Compare(p[b], p[a]), cmp.Compare(a, b)) })
	sum := 0.0
	for place, k := range r.order {
		r.above[k], r.place[k] = sum, place
		sum += p[k]
	}
}

// scoresTo writes the scores of the classes of one example.
func (s *Sets) scoresTo(score []float64, r *ranking, p []float64) {
	if !s.Ranked() {
		for k, v := range p {
			score[k] = 1 - v
		}
		if !s.MultiLabel {
			top := floats.MaxIdx(p)
			score[top] = Uncertainty(p)
		}
		return
	}
	r.rank(p)
	for k, place := range r.place {
		score[k] = r.above[k] + s.penalty(place)
	}
}

// Set returns the prediction set of an example with probabilities p: ascending classes, never nil.
func (s *Sets) Set(p []float64) []int {
	score := make([]float64, len(p))
	s.scoresTo(score, newRanking(len(p)), p)
	set := []int{}
	for k, v := range score {
		if v <= s.Thresholds[min(k, len(s.Thresholds)-1)] {
			set = append(set, k)
		}
	}
	return set
}

// Uncertainty returns 1 - max p of classes that exclude each other, as the sum of the other probabilities: it keeps
// its digits where max p is near 1.
func Uncertainty(p []float64) float64 {
	top, rest := floats.MaxIdx(p), 0.0
	for k, v := range p {
		if k != top {
			rest += v
		}
	}
	return rest
}

// AnswerUncertainty returns the probability that the model's answer is wrong, of those that it is wrong and right: see
// [layer.Head].
func AnswerUncertainty(p []float64) float64 { return p[1-layer.Right] }

// LabelUncertainty returns the mean of min(p, 1-p) over independent labels.
func LabelUncertainty(p []float64) float64 {
	sum := 0.0
	for _, v := range p {
		sum += math.Min(v, 1-v)
	}
	return sum / float64(len(p))
}
