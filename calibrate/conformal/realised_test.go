package conformal

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"

	"github.com/mfgs/mfgs/internal/approx"
)

// The share of the examples with a label whose set lacks it is alpha at most and, without ties, above
// alpha - 1/(n+1) for the n examples that set its threshold. An example has two labels or three here, so
// that counting labels by their part of an example shows.
func TestMultiLabelSetsHaveTheNominalCoverageOfEachLabel(t *testing.T) {
	t.Parallel()
	const draws, n, classes, alpha = 4000, 120, 4, 0.1
	rng := rand.New(rand.NewPCG(14, 1))
	draw := func() *Examples {
		x := &Examples{Classes: classes, Targets: make([]uint8, (n+1)*classes)}
		for i := range (n + 1) * classes {
			truth := 0.4 + 0.6*rng.Float64()
			if rng.Float64() < truth {
				x.Targets[i] = 1
			}
			x.Probabilities = append(x.Probabilities, truth*truth)
		}
		return x
	}
	missed, of, least := make([]int, classes), make([]int, classes), make([]float64, classes)
	for range draws {
		x := draw()
		s, err := Fit(nil, x.slice(0, n), SetOptions{Alpha: alpha, ClassConditional: true})
		if err != nil {
			t.Fatal(err)
		}
		set := s.Set(x.of(n))
		for k := range classes {
			if x.Targets[n*classes+k] == 0 {
				continue
			}
			have := 0
			for i := range n {
				have += int(x.Targets[i*classes+k])
			}
			least[k] += alpha - 1/float64(have+1)
			of[k]++
			if !slices.Contains(set, k) {
				missed[k]++
			}
		}
	}
	for k := range classes {
		low := of[k] - most(of[k], 1-least[k]/float64(of[k]))
		if high := most(of[k], alpha); missed[k] > high || missed[k] < low {
			t.Errorf("label %d is missing from %d of the %d sets of examples that have it, want %d to %d for alpha %v",
				k, missed[k], of[k], low, high, alpha)
		}
	}
}

// A tally by hand: three examples, of which one is uncertain, one out-of-distribution, and one at both thresholds,
// which is answered; each has a set of its most probable class, and one of these is the label.
func TestATallyCountsByHand(t *testing.T) {
	t.Parallel()
	d := &Decisions{Uncertainty: &Rule{Threshold: 0.25}, OOD: &Rule{Threshold: 0.5},
		Set: &Sets{Score: LAC, Thresholds: []float64{0.5}}}
	scores := []float64{0.1, 0.75, 0.5}
	probabilities := []float64{0.5, 0.25, 0.25, 0.875, 0.125, 0, 0.25, 0.75, 0}
	tally := NewTally(d)
	tally.Add(&Outcomes{OODScores: scores,
		Examples: Examples{Classes: 3, Probabilities: probabilities, Labels: []int{1, 0, 0}}})
	r := tally.Result()
	for name, c := range map[string]struct {
		got  *float64
		want float64
	}{
		"answered": {r.Answered, 1. / 3}, "error": {r.Error, 1}, "ood": {r.OOD, 1. / 3}, "covered": {r.Covered, 1. / 3},
		"set size": {r.SetSize, 1}, "empty": {r.EmptySets, 0},
	} {
		if c.got == nil || !approx.Equal(*c.got, c.want, 1e-15) {
			t.Errorf("%s is %v, want %v", name, c.got, c.want)
		}
	}
	if r.N != 3 || !slices.Equal(tally.Sizes(), []int{0, 3}) {
		t.Errorf("%d examples with sets of the sizes %v", r.N, tally.Sizes())
	}
	// Without labels errors and coverage are not reported.
	tally = NewTally(d)
	tally.Add(&Outcomes{OODScores: scores, Examples: Examples{Classes: 3, Probabilities: probabilities}})
	if r := tally.Result(); r.Error != nil || r.Covered != nil || *r.Answered != 1./3 || *r.SetSize != 1 {
		t.Errorf("without labels %+v", r)
	}
	// The coverage of labels is the fraction of an input's labels in the set, and 1 for an example without labels.
	tally = NewTally(&Decisions{Set: &Sets{Score: LAC, MultiLabel: true, Thresholds: []float64{0.5}}, MultiLabel: true})
	tally.Add(&Outcomes{OODScores: make([]float64, 2), Examples: Examples{Classes: 3,
		Probabilities: []float64{0.9, 0.1, 0.2, 0.1, 0.1, 0.1}, Targets: []uint8{1, 1, 0, 0, 0, 0}}})
	if r := tally.Result(); *r.Covered != 0.75 || *r.SetSize != 0.5 || *r.EmptySets != 0.5 || r.Answered != nil {
		t.Errorf("of labels %v are covered by sets of %v, %v of them empty", *r.Covered, *r.SetSize, *r.EmptySets)
	}
}

// (n+1)·alpha is a whole number that floating point may give a little less or more for.
func TestWholeNumbersOfMissesAreNotLostToRounding(t *testing.T) {
	t.Parallel()
	for hundredths := 1; hundredths < 100; hundredths++ {
		for _, n := range []int{99, 199, 999} {
			alpha := float64(hundredths) / 100
			x := &Examples{Classes: 2}
			for i := range n {
				p := float64(i+1) / float64(n+1)
				x.Probabilities, x.Labels = append(x.Probabilities, p, 1-p), append(x.Labels, 1)
			}
			s, err := Fit(nil, x, SetOptions{Alpha: alpha})
			if err != nil {
				t.Fatal(err)
			}
			// Scores are 1/(n+1), 2/(n+1) …, and the threshold is the (n+1)(1-alpha)-th.
			if want := float64(100-hundredths) / 100; !approx.Equal(s.Thresholds[0], want, 1e-9) {
				t.Errorf("alpha %v of %d examples: threshold %v, want %v", alpha, n, s.Thresholds[0], want)
			}
		}
	}
	for _, c := range []struct {
		alpha float64
		n     int
	}{{0.1, 9}, {0.05, 19}, {0.01, 99}, {0.07, 14}, {1. / 3, 2}, {0.001, 999}} {
		if got := needed(c.alpha); got != c.n || spare(c.n, c.alpha) < 0 || spare(c.n-1, c.alpha) >= 0 {
			t.Errorf("alpha %v takes %d examples, want %d", c.alpha, got, c.n)
		}
	}
}

// Free and the penalty by their definitions: so many classes as hold the label of 1-alpha of the
// examples, and of the penalties the one whose sets are smallest on them.
func TestRAPSIsTunedAsDefined(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 15))
		n, classes := 40+rng.IntN(40), 4+rng.IntN(6)
		x := softmaxed(rng, n, classes)
		alpha := []float64{0.1, 0.2, 0.35}[seed%3]
		got, err := Fit(x, x, SetOptions{Score: RAPS, Alpha: alpha})
		if err != nil {
			t.Fatal(err)
		}
		quantile := func(values []float64) float64 {
			slices.Sort(values)
			return values[int(math.Ceil(float64(n+1)*(1-alpha)-1e-9))-1]
		}
		var places []float64
		for i, y := range x.Labels {
			place := 1.
			for _, v := range x.of(i) {
				if v > x.of(i)[y] {
					place++
				}
			}
			places = append(places, place)
		}
		want := &Sets{Score: RAPS, Free: int(quantile(places))}
		best, penalty := math.Inf(1), 0.
		for _, want.Penalty = range []float64{0.001, 0.01, 0.1, 0.2, 0.5} {
			var scores []float64
			for i, y := range x.Labels {
				scores = append(scores, naiveScore(want, x.of(i), y))
			}
			at, size := quantile(scores), 0.
			for i := range n {
				for k := range classes {
					if naiveScore(want, x.of(i), k) <= at+1e-14 {
						size++
					}
				}
			}
			if size < best {
				best, penalty = size, want.Penalty
			}
		}
		if got.Free != want.Free || got.Penalty != penalty {
			t.Errorf("seed %d: free %d and penalty %v, want %d and %v", seed, got.Free, got.Penalty, want.Free, penalty)
		}
		seen[fmt.Sprint(got.Free)], seen[fmt.Sprint("penalty ", got.Penalty)] = true, true
	}
	if len(seen) < 5 {
		t.Errorf("only %v were ever best: the examples tell little", seen)
	}
}

// If probabilities are equal the first class is predicted, as in predictions.
func TestOfEqualProbabilitiesTheFirstIsAnswered(t *testing.T) {
	t.Parallel()
	tally := NewTally(&Decisions{Uncertainty: &Rule{Threshold: 1}})
	tally.Add(&Outcomes{OODScores: make([]float64, 4), Examples: Examples{Classes: 3, Labels: []int{0, 0, 1, 2},
		Probabilities: []float64{0.4, 0.4, 0.2, 0.4, 0.4, 0.2, 0.2, 0.4, 0.4, 0.2, 0.4, 0.4}}})
	if r := tally.Result(); *r.Answered != 1 || *r.Error != 0.25 {
		t.Errorf("%v are answered and %v of them wrong, want 1 and the last of four", *r.Answered, *r.Error)
	}
}

// A label is predicted where its probability is more than ½, as in predictions.
func TestTheErrorOfLabelsIsTheMeanOverThem(t *testing.T) {
	t.Parallel()
	tally := NewTally(&Decisions{Uncertainty: &Rule{Threshold: 1}, MultiLabel: true})
	tally.Add(&Outcomes{OODScores: make([]float64, 2), Examples: Examples{Classes: 4,
		Probabilities: []float64{0.5, 0.51, 0.7, 0.1, 0.5, 0.49, 0.3, 1},
		Targets:       []uint8{0, 1, 1, 0, 0, 1, 0, 1}}})
	// None is wrong in the first example, one of four in the second.
	if r := tally.Result(); !approx.Equal(*r.Error, 1./8, 1e-15) {
		t.Errorf("error %v, want 1/8", *r.Error)
	}
}

// The bound is at least the probability that the losses of n examples with mean target sum to so little: for losses
// that are c or 0, whose sum is binomial. Nor is it more than a few times larger.
func TestPValuesOfPartsAreValid(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 20, 100, 400} {
		for _, target := range []float64{0.01, 0.05, 0.3} {
			for _, c := range []float64{1, 0.999, 0.75, 0.5, 0.34} {
				for k := range n {
					chance, p := binomialCDF(k, n, target/c), pValue(c*float64(k), n, true, target)
					if p < chance*(1-1e-9) {
						t.Errorf("%d losses of %v in %d: p = %v for a target of %v, and the chance is %v", k, c, n, p, target, chance)
					}
					if c == 1 && p > math.E*chance*(1+1e-9) {
						t.Errorf("%d losses of 1 in %d: p = %v, more than e times the chance %v", k, n, p, chance)
					}
				}
			}
		}
	}
	// exp(-n kl) where it is the smaller of the two: kl(0.005, 0.1) = 0.005 ln 0.05 + 0.995 ln(0.995/0.9).
	want := math.Exp(-100 * (0.005*math.Log(0.05) + 0.995*math.Log(0.995/0.9)))
	if got := pValue(0.5, 100, true, 0.1); !approx.Relative(got, want, 1e-12) {
		t.Errorf("p = %v, want %v", got, want)
	}
	if got := pValue(60, 100, true, 0.5); got != 1 {
		t.Errorf("p = %v of a mean above the target", got)
	}
}

// Candidates are spread evenly over the ranks of the uncertainties, and include the largest.
func TestCandidatesAreSpreadOverAllUncertainties(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 999, 1000, 1001, 1999, 2500, 10_000} {
		values := make([]float64, 0, 2*n)
		for i := range n { // each twice
			values = append(values, float64(n-i), float64(n-i))
		}
		got := subsample(values, mostThresholds)
		if len(got) != min(n, mostThresholds) || got[len(got)-1] != float64(n) {
			t.Fatalf("%d of %d values, the last %v", len(got), n, got[len(got)-1])
		}
		last, step := 0., math.Ceil(float64(n)/mostThresholds)
		for _, v := range got {
			if v <= last || v-last > step {
				t.Fatalf("of %d values %v follows %v, want at most %v between", n, v, last, step)
			}
			last = v
		}
	}
}

// The candidates and the penalty are chosen on the tuning half: the guarantee of the other half would not hold
// otherwise.
func TestChoicesAreMadeOnTheHalfThatTunes(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(16, 1))
	certain := func(n int) *Outcomes { // the label is always the most probable class
		x := softmaxed(rng, n, 6)
		for i := range x.Labels {
			x.Labels[i] = floats.MaxIdx(x.of(i))
		}
		return drawnOutcomes(rng, x)
	}
	tune, held := certain(400), drawnOutcomes(rng, softmaxed(rng, 400, 6))
	d, err := Plan{Alpha: 0.1, Sets: RAPS}.Decide(tune, held)
	if err != nil {
		t.Fatal(err)
	}
	want, err := Fit(&tune.Examples, &held.Examples, SetOptions{Score: RAPS, Alpha: 0.1})
	if err != nil {
		t.Fatal(err)
	}
	if d.Set.Free != 1 || d.Set.Penalty != want.Penalty || d.Set.Thresholds[0] != want.Thresholds[0] {
		t.Errorf("sets %+v, want free 1 and %+v", d.Set, want)
	}

	tune = drawnOutcomes(rng, softmaxed(rng, 400, 6))
	plan := Plan{TargetError: 0.3, FalseAlarm: 0.2}
	if d, err = plan.Decide(tune, held); err != nil {
		t.Fatal(err)
	}
	if at := d.Uncertainty.Threshold; at != 1 && !slices.Contains(tune.losses().Uncertainty, at) {
		t.Errorf("the threshold %v is not an uncertainty of the half that tunes", at)
	}
	// The test is on those of the other half that are below the threshold for the out-of-distribution.
	var among Losses
	all := held.losses()
	for i, v := range held.OODScores {
		if v < d.OOD.Threshold {
			among.Uncertainty = append(among.Uncertainty, all.Uncertainty[i])
			among.Loss = append(among.Loss, all.Loss[i])
		}
	}
	rule, err := TargetError(tune.losses(), among, plan.TargetError, DefaultConfidence)
	if err != nil || *d.Uncertainty != rule {
		t.Errorf("the rule is %+v, want %+v (%v)", *d.Uncertainty, rule, err)
	}
	if d.Uncertainty.Threshold == 1 || d.Uncertainty.Examples != d.OOD.Accepted-1 {
		t.Errorf("%+v and %+v: the example shows nothing", d.Uncertainty, d.OOD)
	}
}
