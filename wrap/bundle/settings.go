package bundle

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/conformal"
	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/meanfield"
	"github.com/mfgs/mfgs/calibrate/score"
	"github.com/mfgs/mfgs/internal/option"
	"github.com/mfgs/mfgs/internal/text"
	"github.com/mfgs/mfgs/onnx/head"
)

// Settings say how to calibrate. The zero value of each field is its default. Flags and YAML jobs set them,
// parts and manifests record them. Their YAML is the tag and the comment of each field. To add a setting, add a field
// here, its check in Validate, a flag, and its use.
type Settings struct {
	Head       head.Options         `yaml:"head,omitempty"`       // zero: find the head
	Covariance calibrate.Covariance `yaml:"covariance,omitempty"` // "": hessian
	Structure  calibrate.Structure  `yaml:"structure,omitempty"`  // "": auto, full if small
	Damping    calibrate.Damping    `yaml:"damping"`              // zero: auto, tuned on validation data
	Lambda0    float64              `yaml:"lambda0,omitempty"`    // 0: 3/π²
	OODScore   string               `yaml:"ood_score,omitempty"`  // of [score.Names]; "": select one
	KeepClass  bool                 `yaml:"keep_class,omitempty"` // probabilities must not change the predicted class
	// Prior is the frequencies of classes in use, by name or by index, where they are not those of the validation data:
	// see [Manifest.ResolvePrior].
	Prior map[string]float64 `yaml:"prior,omitempty,flow"`
	// Decisions says when to abstain and which prediction sets to give; zero: none. Their thresholds are set on half
	// of the validation examples, one of each two neighbours; the rest is tuned on the other half.
	Decisions conformal.Plan `yaml:"decisions,omitempty"`
	Limit     int            `yaml:"limit"`   // the most training examples to use, spread evenly; 0: all
	MaxBad    int            `yaml:"max_bad"` // the most unreadable records to skip in each set
}

// Complete fills in the defaults that do not depend on the model or the data.
func (s Settings) Complete() Settings {
	s.Decisions = s.Decisions.Complete()
	if s.Head.Kind != head.Linear {
		return s
	}
	s.Covariance = cmp.Or(s.Covariance, calibrate.Hessian)
	s.Structure = cmp.Or(s.Structure, calibrate.Auto)
	s.Lambda0 = cmp.Or(s.Lambda0, meanfield.Lambda0)
	return s
}

// Validate reports settings that are wrong for any model and data.
func (s Settings) Validate() error {
	if s.Covariance != "" {
		if err := s.Covariance.Validate(); err != nil {
			return err
		}
	}
	if err := s.Structure.Validate(); err != nil {
		return err
	}
	if err := s.Damping.Validate(); err != nil {
		return err
	}
	if s.OODScore != "" {
		if err := score.Check(s.OODScore); err != nil {
			return err
		}
	}
	if err := s.Decisions.Validate(); err != nil {
		return option.Errorf("decisions: %w", err)
	}
	if err := validatePrior(s.Prior); err != nil {
		return err
	}
	if s.Prior != nil && s.KeepClass {
		return option.Errorf("%s and %s exclude each other: the frequencies of classes change which is predicted", option.Prior, option.KeepClass)
	}
	if err := s.validateKind(); err != nil {
		return option.Errorf("head: %w", err)
	}
	if s.Head.Link != "" && s.Head.Link.Validate() != nil {
		return option.Errorf("head: %s %q: want %s", option.Link, s.Head.Link, layer.Names())
	}
	switch {
	case s.Head.Approximate != "" && s.Head.Approximate != head.IgnoreRelu:
		return option.Errorf("head: %s %q: want %s", option.Approximate, s.Head.Approximate, head.IgnoreRelu)
	case s.Lambda0 != 0 && !(s.Lambda0 >= 1e-6 && s.Lambda0 <= 1e6):
		return fmt.Errorf("lambda0 is %v, want 1e-6 to 1e6", s.Lambda0)
	case s.Limit < 0:
		return option.Errorf("%s %d is negative", option.Limit, s.Limit)
	case s.MaxBad < 0:
		return option.Errorf("%s %d is negative", option.MaxBad, s.MaxBad)
	}
	return nil
}

// validateKind refuses settings of a posterior for a head without a linear layer.
func (s *Settings) validateKind() error {
	if s.Head.Kind == head.Linear {
		return nil
	}
	if err := s.Head.Kind.Validate(); err != nil {
		return err
	}
	for _, o := range []struct {
		name  any
		given bool
	}{
		{option.Covariance, s.Covariance != ""}, {option.Structure, s.Structure != ""},
		{option.Damping, s.Damping != calibrate.Damping{}}, {"lambda0", s.Lambda0 != 0},
		{option.Approximate, s.Head.Approximate != ""},
	} {
		if o.given {
			return option.Errorf("%s is for the posterior of a linear last layer, and %s %s has none: leave it out", o.name, option.Kind, s.Head.Kind)
		}
	}
	return nil
}

// CheckPrior reports why Prior cannot be resolved for a head's classes, whose names labels may be empty.
func (s *Settings) CheckPrior(h layer.Head, labels []string) error {
	if s.Prior == nil {
		return nil
	}
	if h.MultiLabel() {
		return option.Errorf("%s is for classes that exclude each other, and the head is multi-label: leave it out", option.Prior)
	}
	uniform := make([]float64, h.Classes())
	for c := range uniform {
		uniform[c] = 1 / float64(len(uniform))
	}
	_, err := resolvePrior(s.Prior, newClassNames(labels, h.Classes()), uniform)
	return err
}

// LeastPrior is the least frequency of a class, so that none is impossible.
const LeastPrior = 1e-9

// classNames finds classes by what a prior calls them: their names, or their indices if no class has that name.
type classNames struct {
	labels  []string
	classes int
	of      map[string]int // -1 for the name of several
}

func newClassNames(labels []string, classes int) *classNames {
	n := &classNames{labels, classes, make(map[string]int, len(labels))}
	for c, name := range labels {
		if _, taken := n.of[name]; taken {
			c = -1
		}
		n.of[name] = c
	}
	return n
}

func (n *classNames) class(name string) (int, error) {
	c, found := n.of[name]
	switch {
	case found && c < 0:
		return 0, option.Errorf("%s: several classes have the name %.70q: give the index", option.Prior, name)
	case found:
		return c, nil
	}
	if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < n.classes {
		return i, nil
	}
	hint := fmt.Sprintf("want an index from 0 to %d", n.classes-1)
	if near := text.Nearest(name, n.labels); near != nil {
		hint = "did you mean " + near[0] + "?"
	} else if len(n.labels) > 0 {
		hint = "want a class name, or " + hint[len("want "):]
	}
	return 0, option.Errorf("%s: there is no class %.70q: %s", option.Prior, name, hint)
}

// name is what a prior calls a class: its name, or its index if it has none of its own.
func (n *classNames) name(class int) string {
	if class < len(n.labels) && n.of[n.labels[class]] == class {
		return n.labels[class]
	}
	return strconv.Itoa(class)
}

// resolvePrior returns [Manifest.ResolvePrior] of some classes.
func resolvePrior(named map[string]float64, names *classNames, frequencies []float64) ([]float64, error) {
	prior := make([]float64, len(frequencies))
	for c := range prior {
		prior[c] = math.NaN()
	}
	sum := 0.0
	for _, name := range slices.Sorted(maps.Keys(named)) {
		c, err := names.class(name)
		if err != nil {
			return nil, err
		}
		if !math.IsNaN(prior[c]) {
			return nil, option.Errorf("%s has class %d twice, by name and by index", option.Prior, c)
		}
		prior[c] = named[name]
		sum += named[name]
	}
	rest := 0.0
	for c, v := range prior {
		if math.IsNaN(v) {
			rest += frequencies[c]
		}
	}
	const rounding = 1e-3
	if rest == 0 && math.Abs(sum-1) > rounding {
		return nil, option.Errorf("%s: the frequencies of all classes add up to %.6g, want 1", option.Prior, sum)
	}
	for c, v := range prior {
		if math.IsNaN(v) {
			v = max(0, 1-sum) * frequencies[c] / rest
		}
		prior[c] = max(v, LeastPrior)
	}
	return prior, nil
}

// validatePrior reports frequencies that are wrong for any classes.
func validatePrior(prior map[string]float64) error {
	sum := 0.0
	for _, name := range slices.Sorted(maps.Keys(prior)) {
		v := prior[name]
		if !(v >= 0 && v <= 1) {
			return option.Errorf("%s: class %.70q has the frequency %v, want 0 to 1", option.Prior, name, v)
		}
		sum += v
	}
	if prior != nil && len(prior) == 0 {
		return option.Errorf("%s names no class", option.Prior)
	}
	if sum > 1+1e-3 {
		return option.Errorf("%s: the frequencies add up to %.6g, want at most 1", option.Prior, sum)
	}
	return nil
}
