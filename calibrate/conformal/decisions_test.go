package conformal

import (
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

// drawnOutcomes have scores of unfamiliarity that say nothing.
func drawnOutcomes(rng *rand.Rand, x *Examples) *Outcomes {
	o := &Outcomes{Examples: *x}
	for range x.len() {
		o.Strange = append(o.Strange, rng.Float64())
	}
	return o
}

func TestThresholdsNeedExamples(t *testing.T) {
	tune := drawnOutcomes(rand.New(rand.NewPCG(21, 2)), softmaxed(rand.New(rand.NewPCG(21, 3)), 1, 4))
	for _, p := range []Plan{{Alpha: 0.5}, {TargetError: 0.5}, {TargetCoverage: 0.5}, {FalseAlarm: 0.5}} {
		_, err := p.Decide(tune, &Outcomes{Examples: Examples{Classes: 4}})
		if err == nil || !strings.Contains(err.Error(), "no held-out examples") {
			t.Errorf("%+v: %v", p, err)
		}
	}
}

func TestAPlanBecomesRulesThatAreChecked(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 1))
	for name, c := range map[string]struct {
		plan  Plan
		multi bool
		words []string
	}{
		"error":       {Plan{TargetError: 0.4}, false, []string{"at most 0.4 of the examples that are answered are wrong, with probability 0.95 over the draw of 600"}},
		"coverage":    {Plan{TargetCoverage: 0.8, Confidence: 0.9}, false, []string{"at least 0.8 of all examples are not too doubtful", "probability 0.9 "}},
		"all":         {Plan{TargetError: 0.4, FalseAlarm: 0.05, Alpha: 0.1, Sets: RAPS}, false, []string{"at most 0.05 of examples in distribution", "(raps) miss the label of at most 0.1 of all"}},
		"classes":     {Plan{Alpha: 0.1, ClassConditional: true}, false, []string{"(lac) miss the label of at most 0.1 of the examples of each class"}},
		"labels":      {Plan{TargetError: 0.4, Alpha: 0.1}, true, []string{"wrong, in the mean over their labels", "miss at most 0.1 of an example's labels"}},
		"each label":  {Plan{Alpha: 0.2, ClassConditional: true}, true, []string{"miss each label in at most 0.2 of the examples that have it"}},
		"alarms only": {Plan{FalseAlarm: 0.2}, false, []string{"under shift nothing is promised"}},
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
		if err := d.Check(4, c.multi); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		text := strings.Join(d.Promises, "\n")
		for _, w := range c.words {
			if !strings.Contains(text, w) {
				t.Errorf("%s: the promises %q do not say %q", name, text, w)
			}
		}
		// What is abstained from is what the rules say.
		for i := range held.len() {
			doubtful := d.Doubt != nil && held.doubts().Doubt[i] > d.Doubt.Threshold
			unfamiliar := d.Unfamiliar != nil && held.Strange[i] > d.Unfamiliar.Threshold
			want := map[[2]bool]string{{true, false}: Doubtful, {false, true}: Unfamiliar, {true, true}: "doubtful and unfamiliar"}
			if got := d.Abstain(held.of(i), held.Strange[i]); got != want[[2]bool{doubtful, unfamiliar}] {
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

func TestPlansThatMeanNothingAreRefused(t *testing.T) {
	for want, p := range map[string]Plan{
		"target-error is 1,":           {TargetError: 1},
		"alpha is -0.1":                {Alpha: -0.1},
		"false-alarm is NaN":           {FalseAlarm: math.NaN()},
		"give one of them":             {TargetError: 0.1, TargetCoverage: 0.1},
		"give alpha":                   {ClassConditional: true},
		`sets is "top"`:                {Alpha: 0.1, Sets: "top"},
		"confidence is that of target": {Alpha: 0.1, Confidence: 0.9},
	} {
		if err := p.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", p, err, want)
		}
	}
	if p := (Plan{}); p.Validate() != nil || p.Complete() != p {
		t.Error("no plan is refused, or has grown")
	}
}

func TestRulesThatCannotBeAreRefused(t *testing.T) {
	rng := rand.New(rand.NewPCG(22, 1))
	d, err := Plan{TargetError: 0.5, FalseAlarm: 0.1, Alpha: 0.1, Sets: RAPS, ClassConditional: true}.Decide(
		drawnOutcomes(rng, softmaxed(rng, 400, 3)), drawnOutcomes(rng, softmaxed(rng, 400, 3)))
	if err != nil {
		t.Fatal(err)
	}
	for want, lie := range map[string]func(*Decisions){
		"unfamiliar is given: false":       func(d *Decisions) { d.Unfamiliar = nil },
		"doubt is given: true":             func(d *Decisions) { d.TargetError = 0 },
		"doubt has threshold NaN":          func(d *Decisions) { d.Doubt = &Rule{math.NaN(), 2, 1} },
		"accepts 3 of 2":                   func(d *Decisions) { d.Doubt = &Rule{0.1, 2, 3} },
		"0 examples, multi_label false":    func(d *Decisions) { d.Examples = 0 },
		"want at least 1 and false":        func(d *Decisions) { d.MultiLabel = true },
		"prediction_set is given: false":   func(d *Decisions) { d.Set = nil },
		"prediction_set has score":         func(d *Decisions) { d.Set.Score = APS },
		"2 thresholds":                     func(d *Decisions) { d.Set.Thresholds = d.Set.Thresholds[:2] },
		"the threshold NaN":                func(d *Decisions) { d.Set.Thresholds[1] = math.NaN() },
		"penalty 2 ":                       func(d *Decisions) { d.Set.Penalty = 2 },
		"sets is \"x\", want one of [lac ": func(d *Decisions) { d.Plan.Sets = "x" },
	} {
		lying := *d
		set := *d.Set
		set.Thresholds = append([]float64{}, d.Set.Thresholds...)
		lying.Set = &set
		lie(&lying)
		if reflect.DeepEqual(&lying, d) {
			t.Fatalf("%q: nothing is changed", want)
		}
		if err := lying.Check(3, false); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
