package conformal

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/mfgs/mfgs/calibrate/layer"
)

// Check reports decisions that do not fit a head, and guarantees that the numbers beside
// them do not support or that are worded otherwise. It does not detect numbers invented to fit each other.
func (d *Decisions) Check(h layer.Head) error {
	if err := d.Plan.Validate(); err != nil {
		return err
	}
	if d.Plan == (Plan{}) {
		return errors.New("decisions have no target: leave them out")
	}
	if d.answers() && d.Confidence == 0 {
		return errors.New("confidence is 0 or missing, want a number between 0 and 1")
	}
	if d.Examples < 1 || d.MultiLabel != h.MultiLabel() || d.Correctness != h.Correctness {
		return fmt.Errorf("%d examples, multi_label %t and correctness %t, want at least 1, %t and %t",
			d.Examples, d.MultiLabel, d.Correctness, h.MultiLabel(), h.Correctness)
	}
	if err := d.checkRules(); err != nil {
		return err
	}
	if (d.Set != nil) != (d.Alpha > 0) {
		return fmt.Errorf("prediction_set is present: %t, want %t, since alpha is %v", d.Set != nil, d.Alpha > 0, d.Alpha)
	}
	if d.Set != nil {
		if d.Correctness {
			return errors.New("prediction_set is for classes, and an answer that is right or wrong has none")
		}
		if err := d.checkSet(h.Classes()); err != nil {
			return err
		}
	}
	for i, want := range d.guarantees() {
		if i >= len(d.Guarantees) || d.Guarantees[i] != want {
			return fmt.Errorf("guarantees[%d] does not match the numbers, want %q", i, want)
		}
	}
	if n := len(d.guarantees()); len(d.Guarantees) > n {
		return fmt.Errorf("guarantees has %d lines, want %d", len(d.Guarantees), n)
	}
	return nil
}

// checkRules checks the rules of when to abstain.
func (d *Decisions) checkRules() error {
	for _, r := range []struct {
		name    string
		rule    *Rule
		planned bool
	}{
		{"ood", d.OOD, d.FalseAlarm > 0}, {"uncertainty", d.Uncertainty, d.TargetError > 0 || d.TargetCoverage > 0},
	} {
		if (r.rule != nil) != r.planned {
			return fmt.Errorf("%s is present: %t, want %t by the targets", r.name, r.rule != nil, r.planned)
		}
		if r.rule == nil {
			continue
		}
		if err := r.rule.check(); err != nil {
			return fmt.Errorf("%s %w", r.name, err)
		}
	}
	if u := d.OOD; u != nil {
		if err := d.checkShare("ood", u, 1-d.FalseAlarm); err != nil {
			return err
		}
	}
	switch {
	case d.TargetCoverage > 0:
		return d.checkShare("uncertainty", d.Uncertainty, d.TargetCoverage)
	case d.TargetError > 0:
		return d.checkError()
	}
	return nil
}

func (r *Rule) check() error {
	switch {
	case !(r.Threshold >= 0 && r.Threshold <= 1):
		return fmt.Errorf("has threshold %v, want 0 to 1", r.Threshold)
	case r.Accepted < 0 || r.Accepted > r.Examples:
		return fmt.Errorf("accepts %d of %d examples, want 0 to all of them", r.Accepted, r.Examples)
	case !(r.Wrong >= 0 && r.Wrong <= float64(r.Accepted)):
		return fmt.Errorf("has %v wrong of %d accepted, want 0 to all of them", r.Wrong, r.Accepted)
	}
	return nil
}

// checkShare checks a rule of [ToleranceLimit].
func (d *Decisions) checkShare(name string, r *Rule, share float64) error {
	switch {
	case r.Examples != d.Examples:
		return fmt.Errorf("%s was set on %d examples, want %d as for the decisions", name, r.Examples, d.Examples)
	case r.Wrong != 0:
		return fmt.Errorf("%s has %v wrong, want none: this rule does not count errors", name, r.Wrong)
	case binomialCDF(r.Accepted-1, r.Examples, share) < d.Confidence:
		return fmt.Errorf("%s accepts %d of %d, which does not guarantee a fraction of %v with confidence %v",
			name, r.Accepted, r.Examples, share, d.Confidence)
	}
	return nil
}

// checkError checks the rule of [TargetError].
func (d *Decisions) checkError() error {
	r := d.Uncertainty
	if u := d.OOD; u == nil && r.Examples != d.Examples {
		return fmt.Errorf("uncertainty was set on %d examples, want %d as for the decisions", r.Examples, d.Examples)
	} else if u != nil && r.Examples >= u.Accepted {
		return fmt.Errorf("uncertainty was set on %d examples, want fewer than %d: those below the threshold of ood", r.Examples, u.Accepted)
	}
	if !d.MultiLabel && r.Wrong != math.Trunc(r.Wrong) {
		return fmt.Errorf("uncertainty has %v wrong of %d, want a whole number", r.Wrong, r.Accepted)
	}
	if pValue(r.Wrong, r.Accepted, d.MultiLabel, d.TargetError) > 1-d.Confidence {
		return fmt.Errorf("uncertainty has %v wrong of %d accepted, which does not guarantee a target_error of %v with confidence %v",
			r.Wrong, r.Accepted, d.TargetError, d.Confidence)
	}
	return nil
}

// checkSet checks the sets of [Fit].
func (d *Decisions) checkSet(classes int) error {
	s := d.Set
	examples := s.Examples == d.Examples
	if d.InUse && d.ClassConditional { // these sets need no sample with the frequencies in use
		examples = s.Examples >= d.Examples
	}
	switch n := len(s.Thresholds); {
	case s.Score != d.Sets || s.Alpha != d.Alpha || s.MultiLabel != d.MultiLabel || !examples,
		s.Ranked() && s.MultiLabel:
		return fmt.Errorf("prediction_set has score %.70q, alpha %v, multi_label %t and %d examples, want those of the decisions",
			s.Score, s.Alpha, s.MultiLabel, s.Examples)
	case d.ClassConditional && n != classes, !d.ClassConditional && n != 1:
		return fmt.Errorf("prediction_set has %d thresholds, want one, or one for each of %d classes", n, classes)
	}
	if err := s.checkParameters(classes); err != nil {
		return err
	}
	least := needed(s.Alpha)
	if d.ClassConditional && !s.MultiLabel { // each has one class
		least *= classes
	}
	if s.Examples < least {
		return fmt.Errorf("prediction_set with alpha %v needs %d examples, got %d", s.Alpha, least, s.Examples)
	}
	most := 1 + s.Penalty*float64(classes)
	bad := func(t float64) bool { return !(t >= 0 && t <= most+roundingSlack) }
	if i := slices.IndexFunc(s.Thresholds, bad); i >= 0 {
		return fmt.Errorf("prediction_set has the threshold %v, want 0 to %v", s.Thresholds[i], most)
	}
	return nil
}
