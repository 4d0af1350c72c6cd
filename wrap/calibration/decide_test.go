package calibration_test

import (
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/calibrate/conformal"
	. "github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/bundle"
	. "github.com/mfgs/mfgs/wrap/calibration"
)

// Kinds of examples that take turns are in both halves, and so is what lies anywhere else in the data.
func TestThresholdsAreSetOnValidationDataThatNothingIsTunedOn(t *testing.T) {
	t.Parallel()
	c, file := decided(t)
	r := mustCalibrate(t, c)
	d := r.Decisions
	if d == nil || d.Examples != 500 || d.Plan != everyDecision.Complete() || r.Validation.After.N != 500 ||
		r.Examples.Val != 1000 {
		t.Fatalf("report %+v, decisions %+v", r, d)
	}
	b, err := bundle.Open(c.Out)
	if err != nil || !reflect.DeepEqual(b.Manifest.Decisions, d) {
		t.Fatalf("the bundle has %+v, %v; want %+v", b.Manifest.Decisions, err, d)
	}
	// Where thresholds were set they keep their guarantees exactly; those are the numbers of the rules.
	p := opened(t, c.Out, Options{})
	got := p.Bundle().Decisions
	if !reflect.DeepEqual(got, d) {
		t.Errorf("the predictor's bundle has %+v", got)
	}
	// It is the caller's.
	*got.Uncertainty, *got.OOD, got.Set.Thresholds[0], got.Guarantees[0] = conformal.Rule{}, conformal.Rule{}, 0, ""
	place, in, answered, wrong, covered := 0, 0, 0, 0, 0
	sets := SetThresholds(1000)
	predictions, _ := predicted(t, p, file+"[3000:]")
	for _, one := range predictions {
		if place++; !sets[place-1] {
			continue
		}
		if one.Abstain == nil || *one.Abstain != (one.AbstainReason != "") || one.PredictionSet == nil {
			t.Fatalf("prediction %+v", one)
		}
		if one.OODScore <= d.OOD.Threshold {
			in++
		}
		if !*one.Abstain {
			answered++
			if one.Class != *one.Label {
				wrong++
			}
		}
		if slices.Contains(one.PredictionSet, *one.Label) {
			covered++
		}
	}
	// The uncertainty rule was set on examples strictly below the OOD threshold.
	if in != d.OOD.Accepted || answered < d.Uncertainty.Accepted || answered > d.Uncertainty.Accepted+1 {
		t.Errorf("%d in distribution and %d answered, the rules have %+v and %+v", in, answered, d.OOD, d.Uncertainty)
	}
	if covered < 450 || covered > 455 { // ⌈501·0.9⌉, ties, and that which set the threshold, by rounding
		t.Errorf("%d of 500 are covered, want 451", covered)
	}
	if bound := conformal.UpperBound(wrong, answered, 0.95); bound > 0.36 || answered < 100 {
		t.Errorf("%d of %d answers are wrong, at most %v, want 0.35", wrong, answered, bound)
	}
}

func TestBothHalvesOfAlternatingValidationDataHaveBothKinds(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 2, 999, 1000} {
		sets, count := SetThresholds(n), 0
		for _, s := range sets {
			if s {
				count++
			}
		}
		if len(sets) != n || count != n/2 {
			t.Errorf("of %d examples %d set thresholds, want %d", n, count, n/2)
		}
	}
	sets := SetThresholds(1000)
	for period := 2; period <= 10; period++ {
		for first := range period {
			n, setting := 0, 0
			for i := first; i < len(sets); i += period {
				n++
				if sets[i] {
					setting++
				}
			}
			if share := float64(setting) / float64(n); share < .3 || share > .7 {
				t.Errorf("of examples %d, %d, … %.2f set thresholds, want about a half", first, first+period, share)
			}
		}
	}
}

func TestPartsAndUpdatesKeepDecisions(t *testing.T) {
	t.Parallel()
	c, file := decided(t)
	c.KeepCurvature = true
	mustCalibrate(t, c)
	one, err := bundle.Open(c.Out)
	if err != nil {
		t.Fatal(err)
	}
	shards := c
	shards.KeepCurvature = false
	got, err := bundle.Open(merged(t, parts(t, shards, 2)...))
	if err != nil {
		t.Fatal(err)
	}
	d, w := got.Manifest.Decisions, one.Manifest.Decisions
	if d == nil || d.Plan != w.Plan || d.Examples != w.Examples || d.OOD.Accepted != w.OOD.Accepted {
		t.Errorf("parts give %+v, one run %+v", d, w)
	}
	other := shards
	other.Decisions.Alpha = 0.2
	two := []string{parts(t, shards, 2)[0], parts(t, other, 2)[1]}
	_, err = Merge(t.Context(), MergeConfig{Parts: two, Out: filepath.Join(t.TempDir(), "b")})
	says(t, err, "decisions")
	u := filepath.Join(t.TempDir(), "updated")
	r, err := Update(t.Context(), UpdateConfig{Bundle: c.Out, Train: file + "[:1]", Out: u})
	if err == nil {
		t.Fatalf("training data were added twice: %+v", r)
	}
	more := classified(t, 4500, 4, 5)
	if r, err = Update(t.Context(), UpdateConfig{Bundle: c.Out, Train: more + "[4000:]", Out: u}); err != nil {
		t.Fatal(err)
	}
	if r.Decisions == nil || r.Decisions.Plan != w.Plan {
		t.Errorf("an update has the decisions %+v, want %+v", r.Decisions, w.Plan)
	}
}

func TestDecisionsThatTheDataCannotGuaranteeAreRefused(t *testing.T) {
	t.Parallel()
	c, file := decided(t)
	var read []string
	c.Progress = func(p Progress) { read = append(read, p.Stage) }
	c.Decisions = conformal.Plan{TargetError: 1e-4}
	_, err := Calibrate(t.Context(), c)
	says(t, err, "TargetError 0.0001 cannot be guaranteed with 500 validation examples", "half for tuning", "it needs 29956", "possible value is 0.006:")
	c.Decisions, c.Val = conformal.Plan{Alpha: 0.1}, file+"[3000:3016]"
	_, err = Calibrate(t.Context(), c)
	says(t, err, "Alpha 0.1 cannot be guaranteed with 8 validation examples", "it needs 9; the smallest possible value is 0.12")
	if slices.Contains(read, "train") {
		t.Errorf("so few are refused after the stages %q", slices.Compact(read))
	}
	c.Decisions = conformal.Plan{Alpha: 2}
	_, err = Calibrate(t.Context(), c)
	says(t, err, "Alpha is 2")
}

// Without decisions there is nothing of them in predictions.
func TestABundleWithoutDecisionsPredictsWithoutDecisions(t *testing.T) {
	t.Parallel()
	c, file := decided(t)
	c.Decisions = conformal.Plan{}
	r := mustCalibrate(t, c)
	if r.Decisions != nil || r.Validation.After.N != 1000 {
		t.Errorf("decisions %+v, tuned on %d", r.Decisions, r.Validation.After.N)
	}
	predictions, _ := predicted(t, opened(t, c.Out, Options{}), file+"[:1]")
	for _, one := range predictions {
		if one.Abstain != nil || one.PredictionSet != nil || one.AbstainReason != "" {
			t.Errorf("prediction %+v", one)
		}
	}
}

func TestEmptyPredictionSetsGiveAWarning(t *testing.T) {
	t.Parallel()
	c := quick(config(t, filepath.Join(t.TempDir(), "bundle")))
	for sets, want := range map[conformal.Score]bool{conformal.LAC: true, conformal.APS: false} {
		c.Decisions, c.Force = conformal.Plan{Alpha: 0.2, Sets: sets}, true
		r := mustCalibrate(t, c)
		warned := slices.ContainsFunc(r.Warnings, func(w string) bool { return strings.Contains(w, "have an empty prediction set") })
		if warned != want {
			t.Errorf("%s: warnings %q", sets, r.Warnings)
		}
	}
}
