package conformal

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/internal/option"
)

// A Plan says which decisions to make. Each zero field asks for none of its kind.
type Plan struct {
	// TargetError is the largest error among answered examples, TargetCoverage the least fraction answered: at most
	// one of them may be set. FalseAlarm is the largest fraction of in-distribution examples flagged as
	// out-of-distribution.
	TargetError    float64 `yaml:"target_error,omitempty" json:"target_error,omitempty"`
	TargetCoverage float64 `yaml:"target_coverage,omitempty" json:"target_coverage,omitempty"`
	FalseAlarm     float64 `yaml:"false_alarm,omitempty" json:"false_alarm,omitempty"`

	Alpha            float64 `yaml:"alpha,omitempty" json:"alpha,omitempty"` // the fraction of prediction sets that may miss the label
	Sets             Score   `yaml:"sets,omitempty" json:"sets,omitempty"`   // "": LAC
	ClassConditional bool    `yaml:"class_conditional,omitempty" json:"class_conditional,omitempty"`

	Confidence float64 `yaml:"confidence,omitempty" json:"confidence,omitempty"` // in all guarantees but alpha; 0: 0.95
}

// DefaultConfidence is the confidence of guarantees about abstention.
const DefaultConfidence = 0.95

// Validate reports a plan that contradicts itself or is out of range.
func (p Plan) Validate() error {
	for _, f := range []struct {
		name  option.Name
		value float64
	}{
		{option.TargetError, p.TargetError}, {option.TargetCoverage, p.TargetCoverage},
		{option.FalseAlarm, p.FalseAlarm}, {option.Alpha, p.Alpha}, {option.Confidence, p.Confidence},
	} {
		if !(f.value >= 0 && f.value < 1) {
			return option.Errorf("%s is %v, want a number between 0 and 1", f.name, f.value)
		}
	}
	switch {
	case p.TargetError > 0 && p.TargetCoverage > 0:
		return option.Errorf("%s and %s both set the uncertainty threshold: give one of them",
			option.TargetError, option.TargetCoverage)
	case p.Alpha == 0 && (p.Sets != "" || p.ClassConditional):
		return option.Errorf("%s and %s apply to prediction sets: give %s, the fraction of sets that may miss the label",
			option.Sets, option.ClassConditional, option.Alpha)
	case p.Sets != "" && !slices.Contains(Scores, p.Sets):
		return option.Errorf("%s is %.70q, want one of %v", option.Sets, p.Sets, Scores)
	case p.Confidence > 0 && !p.answers():
		return option.Errorf("%s applies to %s, %s and %s: give one of them",
			option.Confidence, option.TargetError, option.TargetCoverage, option.FalseAlarm)
	}
	return nil
}

// answers reports whether the plan has rules of when to abstain.
func (p Plan) answers() bool { return p.TargetError > 0 || p.TargetCoverage > 0 || p.FalseAlarm > 0 }

// Complete fills in defaults.
func (p Plan) Complete() Plan {
	if p.answers() {
		p.Confidence = cmp.Or(p.Confidence, DefaultConfidence)
	}
	if p.Alpha > 0 {
		p.Sets = cmp.Or(p.Sets, LAC)
	}
	return p
}

// Outcomes are examples with their OOD scores.
type Outcomes struct {
	Examples
	OODScores []float64 // [N]

	// Correctness says that the classes are whether the model's answer is wrong or right, see [layer.Head].
	Correctness bool
}

// losses returns the uncertainty of each example's prediction and whether it is wrong; for multi-label heads the mean
// of both over the labels.
func (x *Outcomes) losses() Losses {
	d := Losses{Fractional: x.Targets != nil}
	for i := range x.len() {
		p, loss := x.of(i), 0.0
		if x.Targets == nil {
			if (layer.Head{Correctness: x.Correctness}).Answer(p) != x.Labels[i] {
				loss = 1
			}
		} else {
			for k, v := range p {
				if (v > 0.5) != (x.Targets[i*x.Classes+k] == 1) {
					loss += 1 / float64(x.Classes)
				}
			}
		}
		d.Uncertainty = append(d.Uncertainty, uncertaintyOf(p, d.Fractional, x.Correctness))
		d.Loss = append(d.Loss, math.Min(loss, 1))
	}
	return d
}

// uncertaintyOf returns the uncertainty of a prediction: of labels that are independent of each other, of an answer's
// correctness, or of a class.
func uncertaintyOf(p []float64, labels, correctness bool) float64 {
	switch {
	case labels:
		return LabelUncertainty(p)
	case correctness:
		return AnswerUncertainty(p)
	}
	return Uncertainty(p)
}

// Decisions are the rules that implement a plan, and their guarantees.
type Decisions struct {
	Plan     `yaml:",inline"`
	Examples int `yaml:"examples" json:"examples"` // that set the thresholds

	// The model abstains above these thresholds; nil for none.
	Uncertainty *Rule `yaml:"uncertainty,omitempty,flow" json:"uncertainty,omitempty"`
	OOD         *Rule `yaml:"ood,omitempty,flow" json:"ood,omitempty"`
	Set         *Sets `yaml:"prediction_set,omitempty" json:"prediction_set,omitempty"`

	MultiLabel bool `yaml:"multi_label,omitempty" json:"multi_label,omitempty"`
	// Correctness says that probabilities are those of the model's answer being wrong or right, see [layer.Head].
	Correctness bool `yaml:"correctness,omitempty" json:"correctness,omitempty"`
	// InUse says that the examples have the frequencies of classes in use, which are not those of the validation data.
	InUse bool `yaml:"in_use,omitempty" json:"in_use,omitempty"`

	Guarantees []string `yaml:"guarantees" json:"guarantees"` // for people
}

// Decide sets the thresholds of a plan on the examples calib. tune are others, for the candidate thresholds and the
// penalty of RAPS.
func (p Plan) Decide(tune, calib *Outcomes) (*Decisions, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	if calib.len() == 0 {
		return nil, errors.New("no validation examples are left for thresholds: give more")
	}
	p = p.Complete()
	others := p
	others.TargetError = 0 // setRules has the better error
	if err := others.Reachable(calib.len()); err != nil {
		return nil, err
	}
	if p.Alpha > 0 && calib.Correctness {
		return nil, option.Errorf("%s is for prediction sets, and an answer that is right or wrong, such as the text of a line, has none: leave it out",
			option.Alpha)
	}
	d := &Decisions{Plan: p, Examples: calib.len(), MultiLabel: calib.Targets != nil, Correctness: calib.Correctness}
	if err := d.setRules(tune, calib); err != nil {
		return nil, err
	}
	if p.Alpha > 0 {
		o := SetOptions{Score: p.Sets, Alpha: p.Alpha, ClassConditional: p.ClassConditional}
		sets, err := Fit(&tune.Examples, &calib.Examples, o)
		if err != nil {
			return nil, err
		}
		d.Set = sets
	}
	d.Guarantees = d.guarantees()
	return d, nil
}

// setRules sets the rules of when to abstain.
func (d *Decisions) setRules(tune, calib *Outcomes) error {
	losses := calib.losses()
	if d.FalseAlarm > 0 {
		rule, err := ToleranceLimit(calib.OODScores, 1-d.FalseAlarm, d.Confidence)
		if err != nil {
			return fmt.Errorf("%s %v: %w", option.FalseAlarm, d.FalseAlarm, err)
		}
		d.OOD = &rule
	}
	var rule Rule
	var err error
	switch {
	case d.TargetError > 0:
		if d.OOD != nil {
			// Given the threshold, examples below it are independent draws: see ToleranceLimit.
			below := Losses{Fractional: losses.Fractional}
			for i, v := range calib.OODScores {
				if v < d.OOD.Threshold {
					below.Uncertainty = append(below.Uncertainty, losses.Uncertainty[i])
					below.Loss = append(below.Loss, losses.Loss[i])
				}
			}
			losses = below
		}
		rule, err = TargetError(tune.losses(), losses, d.TargetError, d.Confidence)
	case d.TargetCoverage > 0:
		rule, err = ToleranceLimit(losses.Uncertainty, d.TargetCoverage, d.Confidence)
	default:
		return nil
	}
	d.Uncertainty = &rule
	return err
}

// guarantees words the guarantees.
func (d *Decisions) guarantees() (all []string) {
	say := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	draw := fmt.Sprintf("with probability %v over the draw of %d validation examples", d.Confidence, d.Examples)
	wrong := "wrong"
	if d.MultiLabel {
		wrong = "wrong, averaged over their labels"
	}
	if d.TargetError > 0 {
		say("at most %v of the answered inputs are %s, %s", d.TargetError, wrong, draw)
	}
	if d.TargetCoverage > 0 {
		say("at least %v of all inputs are certain enough to be answered, %s", d.TargetCoverage, draw)
	}
	if d.FalseAlarm > 0 {
		say("at most %v of in-distribution inputs are flagged as out-of-distribution, %s", d.FalseAlarm, draw)
	}
	if s := d.Set; s != nil {
		what := fmt.Sprintf("prediction sets (%s) miss the label of at most %v of all inputs", s.Score, s.Alpha)
		switch {
		case s.MultiLabel && len(s.Thresholds) > 1:
			what = fmt.Sprintf("prediction sets (%s) miss each label for at most %v of the inputs that have it", s.Score, s.Alpha)
		case s.MultiLabel:
			what = fmt.Sprintf("prediction sets (%s) miss at most %v of an input's labels", s.Score, s.Alpha)
		case len(s.Thresholds) > 1:
			what = fmt.Sprintf("prediction sets (%s) miss the label of at most %v of the inputs of each class", s.Score, s.Alpha)
		}
		say("%s, averaged over draws of %d validation examples", what, s.Examples)
	}
	if d.InUse {
		say("these guarantees hold for new inputs from the distribution of the validation data but with the class frequencies in use, and not under any other distribution shift")
		return all
	}
	say("these guarantees hold for new inputs from the distribution of the validation data, and not under distribution shift")
	return all
}

// SetInUse says that the examples have the frequencies of classes in use.
func (d *Decisions) SetInUse() {
	d.InUse = true
	d.Guarantees = d.guarantees()
}

// The reasons for abstaining.
const (
	ReasonUncertain = "uncertain"
	ReasonOOD       = "out-of-distribution"
)

// Clone returns a deep copy, nil for nil.
func (d *Decisions) Clone() *Decisions {
	if d == nil {
		return nil
	}
	c := *d
	for _, r := range []**Rule{&c.Uncertainty, &c.OOD} {
		if *r != nil {
			rule := **r
			*r = &rule
		}
	}
	if d.Set != nil {
		set := *d.Set
		set.Thresholds = slices.Clone(set.Thresholds)
		c.Set = &set
	}
	c.Guarantees = slices.Clone(c.Guarantees)
	return &c
}

// Abstains reports whether there are rules of when to abstain.
func (d *Decisions) Abstains() bool { return d.Uncertainty != nil || d.OOD != nil }

// Abstain returns the reasons to abstain from an example with probabilities p and this OOD score, "" if it is
// answered. NaN abstains.
func (d *Decisions) Abstain(p []float64, oodScore float64) string {
	var reasons []string
	uncertain, ood := d.Exceeds(p, oodScore)
	if uncertain {
		reasons = append(reasons, ReasonUncertain)
	}
	if ood {
		reasons = append(reasons, ReasonOOD)
	}
	return strings.Join(reasons, " and ")
}

// Exceeds reports which of the thresholds an example with probabilities p and this OOD score is above; it is not above
// one that there is not.
func (d *Decisions) Exceeds(p []float64, oodScore float64) (uncertain, ood bool) {
	uncertain = d.Uncertainty != nil && !(uncertaintyOf(p, d.MultiLabel, d.Correctness) <= d.Uncertainty.Threshold)
	return uncertain, d.OOD != nil && !(oodScore <= d.OOD.Threshold)
}
