package conformal

import (
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/internal/testerr"
)

var three = layer.Head{Logits: 3, Link: layer.Softmax}

// drawnOutcomes have OOD scores that say nothing.
func drawnOutcomes(rng *rand.Rand, x *Examples) *Outcomes {
	o := &Outcomes{Examples: *x}
	for range x.len() {
		o.OODScores = append(o.OODScores, rng.Float64())
	}
	return o
}

func TestThresholdsNeedExamples(t *testing.T) {
	t.Parallel()
	tune := drawnOutcomes(rand.New(rand.NewPCG(21, 2)), softmaxed(rand.New(rand.NewPCG(21, 3)), 1, 4))
	for _, p := range []Plan{{Alpha: 0.5}, {TargetError: 0.5}, {TargetCoverage: 0.5}, {FalseAlarm: 0.5}} {
		_, err := p.Decide(tune, &Outcomes{Examples: Examples{Classes: 4}})
		if err == nil || !strings.Contains(err.Error(), "no validation examples") {
			t.Errorf("%+v: %v", p, err)
		}
	}
}

func TestAPlanBecomesRulesThatAreChecked(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(21, 1))
	for name, c := range map[string]struct {
		plan  Plan
		multi bool
		words []string
	}{
		"error":       {Plan{TargetError: 0.4}, false, []string{"at most 0.4 of the answered inputs are wrong, with probability 0.95 over the draw of 600"}},
		"coverage":    {Plan{TargetCoverage: 0.8, Confidence: 0.9}, false, []string{"at least 0.8 of all inputs are certain enough", "probability 0.9 "}},
		"all":         {Plan{TargetError: 0.4, FalseAlarm: 0.05, Alpha: 0.1, Sets: RAPS}, false, []string{"at most 0.05 of in-distribution inputs", "(raps) miss the label of at most 0.1 of all"}},
		"classes":     {Plan{Alpha: 0.1, ClassConditional: true}, false, []string{"(lac) miss the label of at most 0.1 of the inputs of each class"}},
		"labels":      {Plan{TargetError: 0.4, Alpha: 0.1}, true, []string{"wrong, averaged over their labels", "miss at most 0.1 of an input's labels"}},
		"each label":  {Plan{Alpha: 0.2, ClassConditional: true}, true, []string{"miss each label for at most 0.2 of the inputs that have it"}},
		"alarms only": {Plan{FalseAlarm: 0.2}, false, []string{"not under distribution shift"}},
	} {
		draw := func() *Outcomes {
			if c.multi {
				return drawnOutcomes(rng, labelled(rng, 600, 4))
			}
			return drawnOutcomes(rng, softmaxed(rng, 600, 4))
		}
		held := draw()
		d, err := c.plan.Decide(draw(), held)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		h := layer.Head{Logits: 4, Link: layer.Softmax}
		if c.multi {
			h.Link = layer.Sigmoid
		}
		if err := d.Check(h); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		kinds := 1 // the sentence for all
		for _, asked := range []float64{c.plan.TargetError, c.plan.TargetCoverage, c.plan.FalseAlarm, c.plan.Alpha} {
			if asked > 0 {
				kinds++
			}
		}
		if len(d.Guarantees) != kinds {
			t.Errorf("%s: %d guarantees, want %d: %q", name, len(d.Guarantees), kinds, d.Guarantees)
		}
		text := strings.Join(d.Guarantees, "\n")
		for _, w := range c.words {
			if !strings.Contains(text, w) {
				t.Errorf("%s: the guarantees %q do not say %q", name, text, w)
			}
		}
		// Predictions are abstained from as the rules say.
		for i := range held.len() {
			uncertain := d.Uncertainty != nil && held.losses().Uncertainty[i] > d.Uncertainty.Threshold
			ood := d.OOD != nil && held.OODScores[i] > d.OOD.Threshold
			want := map[[2]bool]string{{true, false}: ReasonUncertain, {false, true}: ReasonOOD, {true, true}: "uncertain and out-of-distribution"}
			if got := d.Abstain(held.of(i), held.OODScores[i]); got != want[[2]bool{uncertain, ood}] {
				t.Fatalf("%s: example %d: %q", name, i, got)
			}
			if i > 20 {
				break
			}
		}
		nan := []float64{math.NaN(), math.NaN()}
		if d.Abstains() && d.Abstain(nan, math.NaN()) == "" {
			t.Errorf("%s: what is not a number is answered", name)
		}
	}
}

func TestInvalidPlansAreRefused(t *testing.T) {
	t.Parallel()
	for want, p := range map[string]Plan{
		"TargetError is 1,":                       {TargetError: 1},
		"Alpha is -0.1":                           {Alpha: -0.1},
		"FalseAlarm is NaN":                       {FalseAlarm: math.NaN()},
		"TargetError and TargetCoverage both set": {TargetError: 0.1, TargetCoverage: 0.1},
		"Sets and ClassConditional apply to prediction sets: give Alpha": {ClassConditional: true},
		`Sets is "top"`: {Alpha: 0.1, Sets: "top"},
		"Confidence applies to TargetError, TargetCoverage and FalseAlarm": {Alpha: 0.1, Confidence: 0.9},
	} {
		if err := p.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", p, err, want)
		}
	}
	if p := (Plan{}); p.Validate() != nil || p.Complete() != p {
		t.Error("no plan is refused, or has grown")
	}
}

// Each inconsistency is in otherwise correct decisions, with the guarantees that would follow from it.
func TestInconsistentDecisionsAreRefused(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(22, 1))
	tune, held := drawnOutcomes(rng, softmaxed(rng, 400, 3)), drawnOutcomes(rng, softmaxed(rng, 400, 3))
	raps := Plan{TargetError: 0.5, FalseAlarm: 0.1, Alpha: 0.1, Sets: RAPS, ClassConditional: true}
	for name, c := range map[string]struct {
		plan   Plan
		change func(*Decisions)
		want   string
	}{
		"a rule is missing":        {raps, func(d *Decisions) { d.OOD = nil }, "ood is present: false"},
		"a rule nobody asked for":  {raps, func(d *Decisions) { d.TargetError = 0 }, "uncertainty is present: true"},
		"a threshold is NaN":       {raps, func(d *Decisions) { d.Uncertainty.Threshold = math.NaN() }, "uncertainty has threshold NaN"},
		"a threshold above 1":      {raps, func(d *Decisions) { d.OOD.Threshold = 1.5 }, "ood has threshold 1.5, want 0 to 1"},
		"more accepted than there": {raps, func(d *Decisions) { d.Uncertainty.Accepted = d.Uncertainty.Examples + 1 }, "want 0 to all of them"},
		"accepted below zero":      {raps, func(d *Decisions) { d.OOD.Accepted = -1 }, "ood accepts -1 of 400"},
		"more wrong than accepted": {raps, func(d *Decisions) { d.Uncertainty.Wrong = 401 }, "uncertainty has 401 wrong of"},
		"a part of a mistake":      {raps, func(d *Decisions) { d.Uncertainty.Wrong -= 0.5 }, "want a whole number"},
		"wrong in a share":         {raps, func(d *Decisions) { d.OOD.Wrong = 1 }, "ood has 1 wrong, want none"},
		"no examples":              {raps, func(d *Decisions) { d.Examples = 0 }, "0 examples, multi_label false"},
		"another head":             {raps, func(d *Decisions) { d.MultiLabel = true }, "want at least 1, false and false"},
		"sets are missing":         {raps, func(d *Decisions) { d.Set = nil }, "prediction_set is present: false"},
		"sets of another score":    {raps, func(d *Decisions) { d.Set.Score = APS }, "prediction_set has score"},
		"sets of another alpha":    {raps, func(d *Decisions) { d.Set.Alpha = 0.01 }, "alpha 0.01"},
		"sets of other examples":   {raps, func(d *Decisions) { d.Set.Examples++ }, "401 examples, want those of the decisions"},
		"a class without":          {raps, func(d *Decisions) { d.Set.Thresholds = d.Set.Thresholds[:2] }, "2 thresholds"},
		"a set threshold is NaN":   {raps, func(d *Decisions) { d.Set.Thresholds[1] = math.NaN() }, "the threshold NaN"},
		"a set threshold above 1": {Plan{Alpha: 0.1}, func(d *Decisions) { d.Set.Thresholds[0] = 1.01 },
			"the threshold 1.01, want 0 to 1"},
		"a penalty above 1":    {raps, func(d *Decisions) { d.Set.Penalty = 2 }, "penalty 2 "},
		"no such sets":         {raps, func(d *Decisions) { d.Plan.Sets = "x" }, "Sets is \"x\", want one of [lac "},
		"confidence 0":         {raps, func(d *Decisions) { d.Confidence = 0 }, "confidence is 0 or missing"},
		"nothing was asked":    {raps, func(d *Decisions) { *d = Decisions{Examples: 400} }, "decisions have no target"},
		"a target not shown":   {raps, func(d *Decisions) { d.TargetError = 0.001 }, "does not guarantee a target_error of 0.001 with confidence 0.95"},
		"too few of few":       {raps, func(d *Decisions) { d.Uncertainty.Accepted, d.Uncertainty.Wrong = 4, 0 }, "0 wrong of 4 accepted, which does not guarantee"},
		"confidence not shown": {raps, func(d *Decisions) { d.Confidence = 1 - 1e-12 }, "with confidence 0.999999999999"},
		"alarms not shown":     {raps, func(d *Decisions) { d.FalseAlarm = 0.01 }, "which does not guarantee a fraction of 0.99"},
		"coverage not shown": {Plan{TargetCoverage: 0.8}, func(d *Decisions) { d.Uncertainty.Accepted = 320 },
			"uncertainty accepts 320 of 400, which does not guarantee a fraction of 0.8"},
		"uncertainty of other examples": {Plan{TargetError: 0.5}, func(d *Decisions) { d.Uncertainty.Examples = 401 },
			"uncertainty was set on 401 examples, want 400"},
		"alarms of other examples": {raps, func(d *Decisions) { d.OOD.Examples = 500 }, "ood was set on 500 examples, want 400"},
		"uncertainty of flagged examples": {raps, func(d *Decisions) { d.Uncertainty.Examples = d.OOD.Accepted },
			"want fewer than 371: those below the threshold of ood"},
		"alpha of too few": {Plan{Alpha: 0.1}, func(d *Decisions) { d.Alpha, d.Set.Alpha = 0.001, 0.001 },
			"prediction_set with alpha 0.001 needs 999 examples, got 400"},
		"alpha of too few of a class": {raps, func(d *Decisions) { d.Alpha, d.Set.Alpha = 0.007, 0.007 }, "needs 426 examples"},
	} {
		d, err := c.plan.Decide(tune, held)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Check(three); err != nil {
			t.Fatalf("%s: without it: %v", name, err)
		}
		before := d.Clone()
		c.change(d)
		if reflect.DeepEqual(before, d) {
			t.Fatalf("%s: nothing is changed", name)
		}
		d.Guarantees = d.guarantees()
		if err := d.Check(three); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestGuaranteesThatContradictTheirNumbersAreRefused(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(23, 1))
	d, err := Plan{TargetError: 0.5, Alpha: 0.1}.Decide(
		drawnOutcomes(rng, softmaxed(rng, 400, 3)), drawnOutcomes(rng, softmaxed(rng, 400, 3)))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(*Decisions)
		want   string
	}{
		"other words":      {func(d *Decisions) { d.Guarantees[0] = "no answer is wrong" }, "guarantees[0] does not match the numbers, want \"at most 0.5"},
		"a smaller number": {func(d *Decisions) { d.Guarantees[1] = strings.Replace(d.Guarantees[1], "0.1", "0.01", 1) }, "guarantees[1] does not match"},
		"a guarantee more": {func(d *Decisions) { d.Guarantees = append(d.Guarantees, "whatever comes") }, "guarantees has 4 lines, want 3"},
		"a guarantee less": {func(d *Decisions) { d.Guarantees = d.Guarantees[:2] }, "guarantees[2] does not match"},
		"none":             {func(d *Decisions) { d.Guarantees = nil }, "guarantees[0] does not match"},
		"other numbers":    {func(d *Decisions) { d.TargetError = 0.6 }, "guarantees[0] does not match the numbers, want \"at most 0.6"},
	} {
		lying := d.Clone()
		c.change(lying)
		if err := lying.Check(three); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// All decisions pass their check, for every plan and head.
func TestDecisionsPassTheirOwnCheck(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(24, 1))
	for range 60 {
		multi := rng.IntN(2) == 0
		draw := func(n int) *Outcomes {
			if multi {
				return drawnOutcomes(rng, labelled(rng, n, 4))
			}
			return drawnOutcomes(rng, softmaxed(rng, n, 4))
		}
		p := Plan{Confidence: 0.5 + rng.Float64()/2.1}
		if rng.IntN(2) == 0 {
			p.TargetError = 0.2 + rng.Float64()/2
		} else {
			p.TargetCoverage = rng.Float64() * 0.95
		}
		if rng.IntN(2) == 0 {
			p.FalseAlarm = 0.05 + rng.Float64()/2
		}
		if rng.IntN(2) == 0 {
			p.Alpha, p.ClassConditional = 0.1+rng.Float64()/2, rng.IntN(2) == 0
			if !multi {
				p.Sets = Scores[rng.IntN(len(Scores))]
			}
		}
		d, err := p.Decide(draw(300), draw(150+rng.IntN(200)))
		if err != nil {
			if !errors.As(err, new(*InsufficientDataError)) {
				t.Errorf("%+v: %v", p, err)
			}
			continue
		}
		h := layer.Head{Logits: 4, Link: layer.Softmax}
		if multi {
			h.Link = layer.Sigmoid
		}
		if err := d.Check(h); err != nil {
			t.Errorf("%+v: %v", p, err)
		}
	}
}

// answered draws the probabilities that answers are wrong and right, and whether they are: right with probability
// p, so that the error of those with 1-p ≤ u is u/2.
func answered(rng *rand.Rand, n int) *Outcomes {
	o := &Outcomes{Correctness: true}
	o.Classes = 2
	for range n {
		p, label := rng.Float64(), 0
		if rng.Float64() < p {
			label = layer.Right
		}
		o.Probabilities, o.Labels = append(o.Probabilities, 1-p, p), append(o.Labels, label)
		o.OODScores = append(o.OODScores, rng.Float64())
	}
	return o
}

var correctness = layer.Head{Logits: 2, Link: layer.Softmax, Nonlinear: true, Correctness: true}

// The guarantees are of the answer: among those that are answered at most the target is wrong, and those are answered
// whose probability to be right is high, also where it is the smaller one.
func TestGuaranteesOfAnswers(t *testing.T) {
	t.Parallel()
	const draws, target, confidence = 400, 0.3, 0.9
	rng := rand.New(rand.NewPCG(25, 1))
	p := Plan{TargetError: target, Confidence: confidence}
	violations, unshown, share := 0, 0, 0.0
	for range draws {
		d, err := p.Decide(answered(rng, 300), answered(rng, 1000))
		if err != nil { // a run of early errors
			unshown++
			continue
		}
		if err := d.Check(correctness); err != nil {
			t.Fatal(err)
		}
		if d.Uncertainty.Threshold/2 > target {
			violations++
		}
		share += d.Uncertainty.Threshold / draws
	}
	limit := most(draws, 1-confidence)
	if violations > limit || violations < draws/50 || share < 0.48 || unshown > draws/20 {
		t.Errorf("%d of %d violations, want at most %d; %v answered, of 0.6 at best; %d could not be shown",
			violations, draws, limit, share, unshown)
	}
	d, err := Plan{TargetCoverage: 0.8}.Decide(answered(rng, 300), answered(rng, 1000))
	if err != nil {
		t.Fatal(err)
	}
	for _, right := range []float64{0.95, 0.45, 0.3, 0.1, 0, math.NaN()} {
		want := ""
		if !(right >= 0.3) {
			want = ReasonUncertain
		}
		if got := d.Abstain([]float64{1 - right, right}, 0); got != want {
			t.Errorf("p(right) = %v with threshold %v: %q, want %q", right, d.Uncertainty.Threshold, got, want)
		}
	}
}

func TestAnswersHaveNoPredictionSets(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(26, 1))
	_, err := Plan{Alpha: 0.1}.Decide(answered(rng, 100), answered(rng, 100))
	testerr.OneLine(t, err, "is for prediction sets", "leave it out")
	d, err := Plan{FalseAlarm: 0.1}.Decide(answered(rng, 100), answered(rng, 100))
	if err != nil {
		t.Fatal(err)
	}
	two := layer.Head{Logits: 2, Link: layer.Softmax}
	testerr.OneLine(t, d.Check(two), "correctness true", "want at least 1, false and false")
	d.Correctness = false
	testerr.OneLine(t, d.Check(correctness), "correctness false", "want at least 1, false and true")
	classes := func() *Outcomes { return drawnOutcomes(rng, softmaxed(rng, 100, 2)) }
	sets, err := Plan{Alpha: 0.1}.Decide(classes(), classes())
	if err != nil {
		t.Fatal(err)
	}
	sets.Correctness = true
	sets.Guarantees = sets.guarantees()
	testerr.OneLine(t, sets.Check(correctness), "prediction_set is for classes")
}
