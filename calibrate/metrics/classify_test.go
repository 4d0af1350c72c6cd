package metrics

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/internal/approx"
)

// logs returns the logarithms of probabilities.
func logs(p ...float64) []float64 {
	for i := range p {
		p[i] = math.Log(p[i])
	}
	return p
}

// randomRows returns n rows of k log-probabilities, and labels that agree with
// the top class about two times in three.
func randomRows(rng *rand.Rand, n, k int) (logp []float64, labels []int) {
	for range n {
		row := make([]float64, k)
		var sum float64
		top := 0
		for j := range row {
			row[j] = 3 * rng.NormFloat64()
			sum += math.Exp(row[j])
			if row[j] > row[top] {
				top = j
			}
		}
		for j := range row {
			row[j] -= math.Log(sum)
		}
		y := top
		if rng.IntN(3) == 0 {
			y = rng.IntN(k)
		}
		logp, labels = append(logp, row...), append(labels, y)
	}
	return logp, labels
}

// slowECE goes through the bins of the definition, one after the other.
func slowECE(logp []float64, k int, labels []int, bins int) float64 {
	var ece float64
	for b := range bins {
		lower, upper := float64(b)/float64(bins), float64(b+1)/float64(bins)
		var n, right, confidence float64
		for i, y := range labels {
			row := logp[i*k : (i+1)*k]
			top := 0
			for j := range row {
				if row[j] > row[top] {
					top = j
				}
			}
			p := math.Exp(row[top])
			if p > lower && p <= upper {
				n++
				confidence += p
				if top == int(y) {
					right++
				}
			}
		}
		if n > 0 {
			ece += n / float64(len(labels)) * math.Abs(right/n-confidence/n)
		}
	}
	return ece
}

func TestECEIsItsDefinition(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 1))
	for _, k := range []int{2, 3, 17} {
		for _, bins := range []int{1, 2, 10, 15} {
			logp, labels := randomRows(rng, 200, k)
			got, err := Classify(logp, k, labels, bins)
			if err != nil {
				t.Fatal(err)
			}
			wantClose(t, "ECE", got.ECE, slowECE(logp, k, labels, bins))
		}
	}
}

func TestBinsAreOpenBelowAndClosedAbove(t *testing.T) {
	t.Parallel()
	for bins := 1; bins <= 100; bins++ {
		for b := range bins {
			edge := float64(b+1) / float64(bins)
			if got := binOf(edge, bins); got != b {
				t.Errorf("%d bins: %v falls into bin %d, want %d", bins, edge, got, b)
			}
			if above := math.Nextafter(edge, 2); b+1 < bins {
				if got := binOf(above, bins); got != b+1 {
					t.Errorf("%d bins: %v falls into bin %d, want %d", bins, above, got, b+1)
				}
			}
		}
		// Rounding may carry a confidence past 1, and −Inf gives 0.
		if got := binOf(math.Nextafter(1, 2), bins); got != bins-1 {
			t.Errorf("%d bins: above 1 falls into bin %d", bins, got)
		}
		if got := binOf(0, bins); got != 0 {
			t.Errorf("%d bins: 0 falls into bin %d", bins, got)
		}
	}
}

func TestBinsFollowTheNumberOfClasses(t *testing.T) {
	t.Parallel()
	for k, want := range map[int]int{2: 10, 999: 10, 1000: 15, 21841: 15} {
		if got := len(NewClassifier(k, 0).bins); got != want {
			t.Errorf("%d classes: %d bins, want %d", k, got, want)
		}
	}
}

func TestTheLowestOfEqualClassesIsPredicted(t *testing.T) {
	t.Parallel()
	row := logs(0.1, 0.45, 0.45)
	for label, want := range map[int]float64{0: 1, 1: 0, 2: 1} {
		got, err := Classify(row, 3, []int{label}, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got.Error != want {
			t.Errorf("label %d: error %v, want %v", label, got.Error, want)
		}
	}
}

// Of answers that are right or wrong the error is how many are wrong, whatever their probabilities, and the confidence
// is the probability of being right.
func TestCorrectnessIsMeasuredOfTheAnswer(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(33, 34))
	const n, bins = 500, 10
	c := NewCorrectness(bins)
	var wrong, nll, brier float64
	mean, right, in := make([]float64, bins), make([]float64, bins), make([]float64, bins)
	for range n {
		p, label := rng.Float64(), 0
		if rng.Float64() < p*p {
			label = 1
		}
		if err := c.Add(logs(1-p, p), label); err != nil {
			t.Fatal(err)
		}
		b := min(int(p*bins), bins-1)
		mean[b], right[b], in[b] = mean[b]+p, right[b]+float64(label), in[b]+1
		wrong += float64(1 - label)
		nll -= math.Log(math.Abs(float64(1-label) - p))
		brier += 2 * (p - float64(label)) * (p - float64(label))
	}
	ece := 0.0
	for b := range bins {
		ece += math.Abs(mean[b]-right[b]) / n
	}
	got := c.Result()
	for name, v := range map[string][2]float64{"error": {got.Error, wrong / n}, "NLL": {got.NLL, nll / n}, "ECE": {got.ECE, ece},
		"Brier": {got.Brier, brier / n}} {
		if !approx.Equal(v[0], v[1], 1e-12) {
			t.Errorf("%s %v, want %v", name, v[0], v[1])
		}
	}
}

func TestNLLNeedsNoProbability(t *testing.T) {
	t.Parallel()
	// p(label) = e^-2000 is 0 in float64.
	got, err := Classify([]float64{0, -2000}, 2, []int{1}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if got != (InDomain{N: 1, Error: 1, NLL: 2000, ECE: 1, Brier: 2}) {
		t.Errorf("got %+v", got)
	}
	got, err = Classify([]float64{0, math.Inf(-1)}, 2, []int{0}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if got != (InDomain{N: 1}) {
		t.Errorf("certain and right: got %+v", got)
	}
	got, err = Classify([]float64{0, math.Inf(-1)}, 2, []int{1}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if !math.IsInf(got.NLL, 1) {
		t.Errorf("certain and wrong: NLL = %v, want +Inf", got.NLL)
	}
}

func TestOrderOfTheExamplesDoesNotCount(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(2, 2))
	const n, k = 100, 4
	logp, labels := randomRows(rng, n, k)
	want, err := Classify(logp, k, labels, 0)
	if err != nil {
		t.Fatal(err)
	}
	c := NewClassifier(k, 0)
	for _, i := range rng.Perm(n) {
		if err := c.Add(logp[i*k:(i+1)*k], int(labels[i])); err != nil {
			t.Fatal(err)
		}
	}
	got := c.Result()
	if got.N != want.N || got.Error != want.Error {
		t.Errorf("got %+v, want %+v", got, want)
	}
	wantClose(t, "NLL", got.NLL, want.NLL)
	wantClose(t, "ECE", got.ECE, want.ECE)
	wantClose(t, "Brier", got.Brier, want.Brier)
}

func TestBadExamplesAreRefusedAndNotCounted(t *testing.T) {
	t.Parallel()
	c := NewClassifier(2, 0)
	for _, test := range []struct {
		row   []float64
		label int
		want  string
	}{
		{logs(0.5, 0.5), 2, "label 2 is out of range"},
		{logs(0.5, 0.5), -1, "label -1 is out of range"},
		{[]float64{math.NaN(), 0}, 0, "sum to NaN"},
		{[]float64{0, math.NaN()}, 0, "sum to NaN"},
		{[]float64{math.Inf(1), 0}, 0, "sum to +Inf"},
		{[]float64{2.5, -1}, 0, "are these log-probabilities?"},
		{[]float64{math.Inf(-1), math.Inf(-1)}, 0, "sum to 0"},
	} {
		err := c.Add(test.row, test.label)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("Add(%v, %d): error %v, want %q", test.row, test.label, err, test.want)
		}
	}
	if got := c.Result(); got != (InDomain{}) {
		t.Errorf("after refusals only: %+v", got)
	}
	if _, err := Classify(nil, 2, nil, 0); err == nil {
		t.Error("Classify of nothing succeeded")
	}
	_, err := Classify(append(logs(0.5, 0.5), logs(0.5, 0.5)...), 2, []int{0, 7}, 0)
	if err == nil || !strings.HasPrefix(err.Error(), "example 1: ") {
		t.Errorf("error %v does not name example 1", err)
	}
}

func TestContradictingLengthsPanic(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]func(){
		"Classify":      func() { Classify(make([]float64, 5), 2, make([]int, 2), 0) },
		"one class":     func() { NewClassifier(1, 0) },
		"negative bins": func() { NewClassifier(2, -1) },
		"Add":           func() { NewClassifier(3, 0).Add(make([]float64, 2), 0) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			f()
		})
	}
}

// The names are those of `mfgs eval --json`.
func TestJSONNames(t *testing.T) {
	t.Parallel()
	for want, v := range map[string]any{
		`{"n":1,"error":2,"nll":3,"ece":4,"brier":5}`:                                     InDomain{1, 2, 3, 4, 5},
		`{"n":1,"accuracy":2,"auroc":3,"aupr_in":4,"aupr_out":5,"fpr95":6,"fpr95_ood":7}`: OOD{1, 2, 3, 4, 5, 6, 7},
		`[1,2]`:                               Interval{1, 2},
		`{"debiased_ce":1,"classwise_ece":2}`: Reliability{1, 2},
		`{"aurc":1,"risk80":2,"risk90":3,"risk95":4}`: Selective{1, 2, 3, 4},
		`{"n":1,"error":2,"ece":3}`:                   ClassFigures{"", 1, 2, 3},
	} {
		got, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
