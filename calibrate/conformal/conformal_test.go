package conformal

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/internal/approx"
)

// softmaxed returns examples of an overconfident model: it predicts softmax(2a), and labels are drawn from softmax(a).
func softmaxed(rng *rand.Rand, n, classes int) *Examples {
	x := &Examples{Classes: classes, Labels: make([]int, n)}
	for i := range n {
		truth, said := make([]float64, classes), make([]float64, classes)
		var sum, all float64
		for k := range truth {
			a := 2 * rng.NormFloat64()
			truth[k], said[k] = math.Exp(a), math.Exp(2*a)
			sum += truth[k]
			all += said[k]
		}
		u := rng.Float64() * sum
		for k, v := range truth {
			if u -= v; u < 0 {
				x.Labels[i] = k
				break
			}
		}
		for _, v := range said {
			x.Probabilities = append(x.Probabilities, v/all)
		}
	}
	return x
}

// labelled returns examples whose labels are drawn independently.
func labelled(rng *rand.Rand, n, classes int) *Examples {
	x := &Examples{Classes: classes, Targets: make([]uint8, n*classes)}
	for i := range n * classes {
		truth := rng.Float64() * rng.Float64()
		if rng.Float64() < truth {
			x.Targets[i] = 1
		}
		x.Probabilities = append(x.Probabilities, math.Pow(truth, 0.7))
	}
	return x
}

func (x *Examples) slice(from, to int) *Examples {
	s := &Examples{Classes: x.Classes, Probabilities: x.Probabilities[from*x.Classes : to*x.Classes]}
	if x.Targets != nil {
		s.Targets = x.Targets[from*x.Classes : to*x.Classes]
	} else {
		s.Labels = x.Labels[from:to]
	}
	return s
}

// The scores by their definitions, one class at a time.
func naiveScore(s *Sets, p []float64, class int) float64 {
	var above float64
	place := 1
	for _, v := range p {
		if v > p[class] {
			above += v
			place++
		}
	}
	switch s.Score {
	case LAC:
		return 1 - p[class]
	case APS:
		return above
	}
	return above + s.Penalty*math.Max(0, float64(place-s.Free))
}

func TestThresholdsAreTheQuantilesOfTheDefinition(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 1))
	for _, score := range Scores {
		for _, n := range []int{9, 10, 57, 199} {
			for _, alpha := range []float64{0.1, 0.25, 0.5} {
				held := softmaxed(rng, n, 6)
				got, err := Fit(softmaxed(rng, 50, 6), held, SetOptions{Score: score, Alpha: alpha})
				if err != nil {
					t.Fatal(err)
				}
				var scores []float64
				for i, y := range held.Labels {
					scores = append(scores, naiveScore(got, held.of(i), y))
				}
				slices.Sort(scores)
				// 1-alpha of n+1 in whole numbers, since alpha is a multiple of 1/100.
				k := (n+1)*(100-int(math.Round(100*alpha))) + 99
				if want := scores[k/100-1]; !approx.Equal(got.Thresholds[0], want, 1e-15) {
					t.Errorf("%s, n = %d, alpha = %v: threshold %v, want the %d-th score, %v", score, n, alpha, got.Thresholds[0], k/100, want)
				}
			}
		}
	}
}

func TestSetsHoldTheClassesWhoseScoreIsAtMostTheThreshold(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(2, 1))
	x := softmaxed(rng, 300, 7)
	for _, score := range Scores {
		for _, conditional := range []bool{false, true} {
			s, err := Fit(x.slice(0, 50), x, SetOptions{Score: score, Alpha: 0.2, ClassConditional: conditional})
			if err != nil {
				t.Fatal(err)
			}
			for i := range x.len() {
				var want []int
				for k := range x.Classes {
					at := s.Thresholds[0]
					if conditional {
						at = s.Thresholds[k]
					}
					// A score that is a threshold has other last digits here.
					if v := naiveScore(s, x.of(i), k); v <= at+1e-14 {
						want = append(want, k)
					}
				}
				if got := s.Set(x.of(i)); !slices.Equal(got, want) {
					t.Fatalf("%s: set %v of %v, want %v", score, got, x.of(i), want)
				}
			}
		}
	}
}

// The mean share of missed labels over n+1 examples, the new one missing all, by its definition.
func TestMultiLabelThresholdIsTheLeastThatControlsTheRisk(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 1))
	for range 20 {
		x := labelled(rng, 60, 5)
		s, err := Fit(nil, x, SetOptions{Alpha: 0.15})
		if err != nil {
			t.Fatal(err)
		}
		risk := func(at float64) float64 {
			sum := 1.0
			for i := range x.len() {
				var has, missed float64
				for k, p := range x.of(i) {
					if x.Targets[i*x.Classes+k] == 1 {
						has++
						if 1-p > at {
							missed++
						}
					}
				}
				if has > 0 {
					sum += missed / has
				}
			}
			return sum / float64(x.len()+1)
		}
		if at := s.Thresholds[0]; risk(at) > 0.15 || risk(math.Nextafter(at, 0)) <= 0.15 {
			t.Errorf("risk %v at the threshold, %v below it; want 0.15 between them", risk(at), risk(math.Nextafter(at, 0)))
		}
	}
}

// most is so many of n events of probability p as come with a chance of 1e-6 at most.
func most(n int, p float64) int {
	k := 0
	for binomialCDF(k, n, p) < 1-1e-6 {
		k++
	}
	return k
}

// Each draw is of validation examples and one new example, as in the guarantee.
func TestSetsHaveTheNominalCoverage(t *testing.T) {
	t.Parallel()
	const draws, n, alpha = 2000, 59, 0.2
	for _, score := range Scores {
		rng := rand.New(rand.NewPCG(4, 1))
		missed := 0
		for range draws {
			x := softmaxed(rng, n+21, 5)
			s, err := Fit(x.slice(n+1, n+21), x.slice(0, n), SetOptions{Score: score, Alpha: alpha})
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Contains(s.Set(x.of(n)), x.Labels[n]) {
				missed++
			}
		}
		// At least alpha - 1/(n+1), since few examples have ties here: the model errs more than alpha.
		least := draws - most(draws, 1-(alpha-1.0/(n+1)))
		if missed > most(draws, alpha) || missed < least {
			t.Errorf("%s: %d of %d sets miss the label, want %d to %d for alpha %v", score, missed, draws, least, most(draws, alpha), alpha)
		}
	}
}

func TestClassConditionalSetsHaveTheNominalCoverageOfEachClass(t *testing.T) {
	t.Parallel()
	const draws, n, alpha = 2000, 200, 0.2
	rng := rand.New(rand.NewPCG(5, 1))
	missed, of := make([]int, 3), make([]int, 3)
	for range draws {
		x := softmaxed(rng, n+1, 3)
		s, err := Fit(nil, x.slice(0, n), SetOptions{Alpha: alpha, ClassConditional: true})
		if err != nil {
			t.Fatal(err)
		}
		y := x.Labels[n]
		of[y]++
		if !slices.Contains(s.Set(x.of(n)), y) {
			missed[y]++
		}
	}
	for y := range of {
		if missed[y] > most(of[y], alpha) {
			t.Errorf("class %d: %d of %d sets miss the label, want at most %d for alpha %v", y, missed[y], of[y], most(of[y], alpha), alpha)
		}
	}
}

func TestMultiLabelSetsControlTheFractionOfMissedLabels(t *testing.T) {
	t.Parallel()
	const draws, n, alpha = 3000, 59, 0.2
	rng := rand.New(rand.NewPCG(6, 1))
	var sum, squares float64
	for range draws {
		x := labelled(rng, n+1, 4)
		s, err := Fit(nil, x.slice(0, n), SetOptions{Alpha: alpha})
		if err != nil {
			t.Fatal(err)
		}
		set := s.Set(x.of(n))
		var has, missed float64
		for k := range x.Classes {
			if x.Targets[n*x.Classes+k] == 1 {
				has++
				if !slices.Contains(set, k) {
					missed++
				}
			}
		}
		if has > 0 {
			sum += missed / has
			squares += missed / has * missed / has
		}
	}
	mean := sum / draws
	if se := math.Sqrt((squares/draws - mean*mean) / draws); mean > alpha+5*se || mean < alpha/2 {
		t.Errorf("%v ± %v of an input's labels are missed, want %v", mean, se, alpha)
	}
}

// world draws uncertainties and OOD scores, both uniform, and mistakes that depend on both: an
// example is mistaken with probability d²·(1+u)/2.
func world(rng *rand.Rand, n int) (d Losses, oodScores []float64) {
	for range n {
		uncertainty, u := rng.Float64(), rng.Float64()
		loss := 0.0
		if rng.Float64() < uncertainty*uncertainty*(1+u)/2 {
			loss = 1
		}
		d.Uncertainty, d.Loss = append(d.Uncertainty, uncertainty), append(d.Loss, loss)
		oodScores = append(oodScores, u)
	}
	return d, oodScores
}

// risk is the true error of what is accepted: the mean of d²(1+u)/2 over d ≤ uncertainty, u ≤ ood.
func risk(uncertainty, ood float64) float64 { return uncertainty * uncertainty / 3 * (1 + ood/2) / 2 }

func TestTheTargetErrorHoldsWithTheNominalConfidence(t *testing.T) {
	t.Parallel()
	const draws, target, confidence = 1000, 0.05, 0.9
	rng := rand.New(rand.NewPCG(7, 1))
	violations, unshown, share := 0, 0, 0.0
	for range draws {
		tune, _ := world(rng, 1000)
		held, _ := world(rng, 1000)
		rule, err := TargetError(tune, held, target, confidence)
		if err != nil {
			unshown++
			continue
		}
		if risk(rule.Threshold, 1) > target {
			violations++
		}
		share += rule.Threshold / draws
	}
	if limit := most(draws, 1-confidence); violations > limit {
		t.Errorf("%d of %d thresholds have an error above the target, want at most %d", violations, draws, limit)
	}
	// The best share is √(.05·3/.75) = .447: the test is not idle.
	if share < 0.33 || violations < draws/50 || unshown > draws/20 {
		t.Errorf("%v accepted, %d violations, %d targets that could not be shown: the rule is more timid than it was", share, violations, unshown)
	}
}

func TestTheTargetErrorHoldsAmongInputsNotFlaggedAsOOD(t *testing.T) {
	t.Parallel()
	const draws, target, share, confidence = 1000, 0.05, 0.8, 0.9
	rng := rand.New(rand.NewPCG(8, 1))
	wrong, alarms := 0, 0
	for range draws {
		tune, _ := world(rng, 300)
		held, oodScores := world(rng, 300)
		flag, err := ToleranceLimit(oodScores, share, confidence)
		if err != nil {
			t.Fatal(err)
		}
		if flag.Threshold < share {
			alarms++
		}
		var among Losses
		for i, u := range oodScores {
			if u < flag.Threshold {
				among.Uncertainty = append(among.Uncertainty, held.Uncertainty[i])
				among.Loss = append(among.Loss, held.Loss[i])
			}
		}
		rule, err := TargetError(tune, among, target, confidence)
		if err == nil && risk(rule.Threshold, flag.Threshold) > target {
			wrong++
		}
	}
	if limit := most(draws, 1-confidence); wrong > limit || alarms > limit || alarms < limit/2 {
		t.Errorf("of %d draws %d have too large an error and %d too many false alarms, want at most %d of each", draws, wrong, alarms, limit)
	}
}

// Losses that are parts of 1: the mean of three mistakes with one probability.
func TestFractionalLossesHoldTheTarget(t *testing.T) {
	t.Parallel()
	const draws, target, confidence = 500, 0.1, 0.9
	rng := rand.New(rand.NewPCG(9, 1))
	draw := func() (d Losses) {
		d.Fractional = true
		for range 500 {
			uncertainty, loss := rng.Float64(), 0.0
			for range 3 {
				if rng.Float64() < uncertainty*uncertainty {
					loss += 1. / 3
				}
			}
			d.Uncertainty, d.Loss = append(d.Uncertainty, uncertainty), append(d.Loss, loss)
		}
		return d
	}
	violations, shown := 0, 0
	for range draws {
		rule, err := TargetError(draw(), draw(), target, confidence)
		if err != nil {
			continue
		}
		shown++
		if rule.Threshold*rule.Threshold/3 > target {
			violations++
		}
	}
	if violations > most(draws, 1-confidence) || shown < draws*9/10 {
		t.Errorf("%d violations in %d of %d draws", violations, shown, draws)
	}
}

// The rule by its definition: every threshold is tested, starting from the best one on the tuning half.
func TestTargetErrorTestsThresholdsInTheirOrder(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(10, 1))
	for range 100 {
		tune, _ := world(rng, 80)
		held, _ := world(rng, 200)
		const target, confidence = 0.1, 0.8
		tried := append(slices.Sorted(slices.Values(tune.Uncertainty)), 1)
		p := func(d Losses, at float64) float64 {
			n, k, sum := 0, 0, 0.0
			for i, v := range d.Uncertainty {
				if v <= at {
					n++
					k += int(d.Loss[i])
				}
			}
			for j := range k + 1 { // Σ C(n,j) target^j (1-target)^(n-j)
				choose := 1.0
				for m := range j {
					choose *= float64(n-m) / float64(m+1)
				}
				sum += choose * math.Pow(target, float64(j)) * math.Pow(1-target, float64(n-j))
			}
			return sum
		}
		start := 0
		for i, at := range tried {
			if p(tune, at) <= p(tune, tried[start]) {
				start = i
			}
		}
		want := -1.0
		for _, at := range tried[start:] {
			if p(held, at) > 1-confidence {
				break
			}
			want = at
		}
		rule, err := TargetError(tune, held, target, confidence)
		if (err != nil) != (want < 0) || err == nil && rule.Threshold != want {
			t.Fatalf("%+v, %v; want the threshold %v", rule, err, want)
		}
	}
}

func TestANetworkThatIsGoodEnoughAnswersAll(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(11, 1))
	held, _ := world(rng, 1000)
	rule, err := TargetError(held, held, 0.5, 0.95)
	if err != nil || rule.Threshold != 1 || rule.Accepted != 1000 {
		t.Errorf("%+v, %v; want all accepted", rule, err)
	}
}

func TestTooFewExamplesAreRefusedWithTheirNumber(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(12, 1))
	short := softmaxed(rng, 8, 3)
	uneven := softmaxed(rng, 200, 3)
	for i := range uneven.Labels {
		uneven.Labels[i] = i % 2
	}
	few, _ := world(rng, 50)
	for name, c := range map[string]struct {
		err  func() error
		want string
	}{
		"alpha": {func() error { _, err := Fit(nil, short, SetOptions{Alpha: 0.1}); return err },
			"Alpha 0.1 cannot be guaranteed with 8 validation examples for thresholds: it needs 9; the smallest possible value is 0.12"},
		"class": {func() error { _, err := Fit(nil, uneven, SetOptions{Alpha: 0.1, ClassConditional: true}); return err },
			"with 0 validation examples of class 2 for thresholds: with ClassConditional it needs 9 of each; no value is possible"},
		"tune": {func() error { _, err := Fit(short, uneven, SetOptions{Score: RAPS, Alpha: 0.1}); return err },
			"needs 9 validation examples to tune the penalty of raps, got 8"},
		"no tune": {func() error { _, err := Fit(nil, uneven, SetOptions{Score: RAPS, Alpha: 0.1}); return err },
			"raps needs validation examples to tune its penalty"},
		"error": {func() error { _, err := TargetError(few, few, 0.001, 0.95); return err }, "50 validation examples for thresholds at confidence 0.95: it needs 2995 correct answers"},
		"share": {func() error { _, err := ToleranceLimit(few.Uncertainty, 0.99, 0.95); return err }, "needs 299 validation examples for thresholds, got 50"},
		"multi-label": {func() error { _, err := Fit(nil, labelled(rng, 50, 4), SetOptions{Score: APS, Alpha: 0.1}); return err },
			"aps needs classes that exclude each other"},
		"score":        {func() error { _, err := Fit(nil, uneven, SetOptions{Score: "top", Alpha: 0.1}); return err }, "one of [lac aps raps]"},
		"share 0":      {func() error { _, err := ToleranceLimit(few.Uncertainty, 0, 0.5); return err }, "between 0 and 1"},
		"share 1":      {func() error { _, err := ToleranceLimit(few.Uncertainty, 1, 0.5); return err }, "between 0 and 1"},
		"confidence 0": {func() error { _, err := ToleranceLimit(few.Uncertainty, 0.5, 0); return err }, "between 0 and 1"},
		"confidence 1": {func() error { _, err := ToleranceLimit(few.Uncertainty, 0.5, 1); return err }, "between 0 and 1"},
		"target 0":     {func() error { _, err := TargetError(few, few, 0, 0.5); return err }, "between 0 and 1"},
		"target 1":     {func() error { _, err := TargetError(few, few, 1, 0.5); return err }, "between 0 and 1"},
		"alpha 0":      {func() error { _, err := Fit(nil, uneven, SetOptions{}); return err }, "between 0 and 1"},
		"no number": {func() error {
			held := drawnOutcomes(rng, softmaxed(rng, 100, 3))
			held.OODScores[3] = math.NaN()
			_, err := Plan{FalseAlarm: 0.2}.Decide(held, held)
			return err
		}, "FalseAlarm 0.2: the score of validation example 3 is NaN"},
		"alpha1": {func() error { _, err := Fit(nil, uneven, SetOptions{Alpha: 1}); return err }, "between 0 and 1"},
	} {
		if err := c.err(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q", name, err, c.want)
		}
	}
	// One more is enough.
	if _, err := Fit(nil, softmaxed(rng, 9, 3), SetOptions{Alpha: 0.1}); err != nil {
		t.Error(err)
	}
	if rule, err := ToleranceLimit(make([]float64, 299), 0.99, 0.95); err != nil || rule.Accepted != 299 {
		t.Errorf("%+v, %v", rule, err)
	}
}

func TestUncertaintyKeepsItsDigitsWhenTheProbabilityRoundsToOne(t *testing.T) {
	t.Parallel()
	if got := Uncertainty([]float64{1e-30, 1, 2e-30}); got < 2.9e-30 || got > 3.1e-30 {
		t.Errorf("uncertainty %v, want 3e-30", got)
	}
	s := Sets{Score: LAC, Thresholds: []float64{2.5e-30}}
	if got := s.Set([]float64{1e-30, 1, 2e-30}); len(got) != 0 {
		t.Errorf("set %v, want none: 3e-30 is more than the threshold", got)
	}
	if got := s.Set([]float64{1e-30, 1, 1e-30}); !slices.Equal(got, []int{1}) {
		t.Errorf("set %v, want class 1", got)
	}
}

func TestNaNIsNeverAccepted(t *testing.T) {
	t.Parallel()
	nan := math.NaN()
	s := Sets{Score: LAC, Thresholds: []float64{2}}
	if got := s.Set([]float64{nan, nan}); len(got) != 0 {
		t.Errorf("set %v, want none", got)
	}
	for _, scores := range [][]float64{{1, nan}, {nan, 1}} {
		if _, err := ToleranceLimit(scores, 0.5, 0.5); err == nil {
			t.Errorf("NaN has a place among the scores %v", scores)
		}
	}
	if _, err := TargetError(Losses{}, Losses{Uncertainty: []float64{nan}, Loss: []float64{0}}, 0.5, 0.5); err == nil {
		t.Error("NaN is not uncertain")
	}
}

// The closest target that the error names can be shown, and a lower one cannot.
func TestTheTargetOfTheErrorMessageIsTheClosestPossible(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(31, 1))
	few, many := drawnOutcomes(rng, softmaxed(rng, 40, 3)), drawnOutcomes(rng, softmaxed(rng, 400, 3))
	for i := range many.Labels {
		many.Labels[i] = 1 + min(i%40, 1) // ten of class 1, and none of class 0
	}
	rare := drawnOutcomes(rng, softmaxed(rng, 400, 3))
	for i := range rare.Labels {
		rare.Labels[i] = min(i/5, 2) // five of classes 0 and 1
	}
	for name, c := range map[string]struct {
		held   *Outcomes
		option string
		plan   func(v float64) Plan
		asked  float64
		step   float64 // to the next that is not shown
		early  bool    // the number of examples says it
	}{
		"error":    {few, "TargetError", func(v float64) Plan { return Plan{TargetError: v} }, 0.01, -0.01, true},
		"coverage": {few, "TargetCoverage", func(v float64) Plan { return Plan{TargetCoverage: v} }, 0.99, 0.001, true},
		"alarms":   {few, "FalseAlarm", func(v float64) Plan { return Plan{FalseAlarm: v} }, 0.001, -0.001, true},
		"alpha":    {few, "Alpha", func(v float64) Plan { return Plan{Alpha: v} }, 0.001, -0.001, true},
		"mistakes": {many, "TargetError", func(v float64) Plan { return Plan{TargetError: v} }, 0.03, -0.01, false},
		"classes":  {rare, "Alpha", func(v float64) Plan { return Plan{Alpha: v, ClassConditional: true} }, 0.05, -0.01, false},
	} {
		tune := drawnOutcomes(rand.New(rand.NewPCG(31, 2)), softmaxed(rand.New(rand.NewPCG(31, 3)), 400, 3))
		_, err := c.plan(c.asked).Decide(tune, c.held)
		var short *InsufficientDataError
		if !errors.As(err, &short) || short.Option != c.option || short.Asked != c.asked || short.Nearest() == 0 {
			t.Errorf("%s: %v, %+v", name, err, short)
			continue
		}
		if said := fmt.Sprintf("possible value is %v:", short.Nearest()); !strings.Contains(err.Error(), said) {
			t.Errorf("%s: %v does not say %q", name, err, said)
		}
		if early := c.plan(c.asked).Reachable(c.held.len()); (early != nil) != c.early {
			t.Errorf("%s: of the number of examples: %v", name, early)
		}
		last := short.Nearest()
		if _, err := c.plan(last).Decide(tune, c.held); err != nil {
			t.Errorf("%s: %v is not shown: %v", name, last, err)
		}
		if _, err := c.plan(last+c.step).Decide(tune, c.held); err == nil {
			t.Errorf("%s: %v is called the last, and %v is guaranteed too", name, last, last+c.step)
		}
	}
}

func TestTheErrorSaysThatNoBoundCanBeShown(t *testing.T) {
	t.Parallel()
	wrong := Losses{Uncertainty: make([]float64, 100), Loss: make([]float64, 100)}
	for i := range wrong.Loss {
		wrong.Loss[i] = 1
	}
	_, err := TargetError(wrong, wrong, 0.1, 0.95)
	var short *InsufficientDataError
	if !errors.As(err, &short) || short.Nearest() != 0 || !strings.Contains(err.Error(), "no value is possible: leave it out") {
		t.Errorf("%v", err)
	}
}

// A target taken from the error message of a smaller one depends on the examples. The guarantee holds nevertheless.
func TestATargetFromTheErrorMessageHoldsToo(t *testing.T) {
	t.Parallel()
	const draws, confidence = 200, 0.9
	rng := rand.New(rand.NewPCG(32, 1))
	second, violations := 0, 0
	for range draws {
		tune, _ := world(rng, 150)
		held, _ := world(rng, 150)
		_, err := TargetError(tune, held, 0.024, confidence)
		var short *InsufficientDataError
		if !errors.As(err, &short) {
			continue
		}
		second++
		target := short.Nearest()
		rule, err := TargetError(tune, held, target, confidence)
		if err != nil {
			t.Fatal(err)
		}
		if risk(rule.Threshold, 1) > target {
			violations++
		}
	}
	if second < draws/4 || violations > most(second, 1-confidence) {
		t.Errorf("%d violations in %d of %d draws", violations, second, draws)
	}
}
