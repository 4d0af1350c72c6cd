package metrics

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/mfgs/mfgs/internal/approx"
)

// reliability.json is made by testdata/reliability.py.
func TestReliabilityOfItsAuthorsLibrary(t *testing.T) {
	t.Parallel()
	var golden []struct {
		K, Bins                     int
		LogP                        []float64
		Labels                      []int
		Square, Debiased, Classwise float64
	}
	data, err := os.ReadFile("testdata/reliability.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &golden); err != nil {
		t.Fatal(err)
	}
	signs := map[bool]int{}
	for _, g := range golden {
		c := classified(t, g.LogP, g.K, g.Labels, g.Bins)
		got := c.Reliability()
		wantClose(t, "square of DebiasedCE", debiased(c.bins, float64(c.n)), g.Square)
		wantClose(t, "DebiasedCE", got.DebiasedCE, g.Debiased)
		wantClose(t, "ClasswiseECE", got.ClasswiseECE, g.Classwise)
		signs[g.Square < 0]++
	}
	if signs[true] == 0 || signs[false] == 0 {
		t.Errorf("the cases have %v squares by whether they are negative: want both", signs)
	}
}

// classified adds rows of log-probabilities to a new classifier.
func classified(t *testing.T, logp []float64, k int, labels []int, bins int) *Classifier {
	t.Helper()
	c := NewClassifier(k, bins)
	for i, y := range labels {
		if err := c.Add(logp[i*k:(i+1)*k], y); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// honest draws n rows of two log-probabilities, and labels of exactly these probabilities.
func honest(rng *rand.Rand, n int) (logp []float64, labels []int) {
	for range n {
		p := 0.5 + rng.Float64()/2
		label := 0
		if rng.Float64() < p {
			label = 1
		}
		logp, labels = append(logp, pairs(p)...), append(labels, label)
	}
	return logp, labels
}

// If an ECE is large by chance alone, the estimate of the squared error has mean 0.
func TestRightProbabilitiesHaveNoDebiasedError(t *testing.T) {
	t.Parallel()
	const n, runs = 100, 4000
	rng := rand.New(rand.NewPCG(7, 3))
	var sum, squares, plain float64
	for range runs {
		logp, labels := honest(rng, n)
		c := classified(t, logp, 2, labels, 10)
		e := debiased(c.bins, n)
		sum += e
		squares += e * e
		plain += c.Result().ECE / runs
	}
	mean := sum / runs
	stderr := math.Sqrt((squares/runs - mean*mean) / runs)
	// What confidences vary within a bin of width 0.1 is taken off as well: some 1/1200 for each
	// of the 5 bins, a hundredth.
	if !approx.Equal(mean, -5*1./1200/n, 4*stderr) {
		t.Errorf("mean square %v ± %v, want about 0", mean, stderr)
	}
	if plain < 0.06 {
		t.Errorf("mean ECE %v: want one that chance makes large, or the test shows nothing", plain)
	}
}

func TestABinOfOneExampleHasNoDebiasedError(t *testing.T) {
	t.Parallel()
	c := classified(t, pairs(0.95, 0.75), 2, []int{0, 1}, 10)
	if got := c.Reliability().DebiasedCE; got != 0 {
		t.Errorf("got %v, want 0", got)
	}
}

// slowClasswise goes through classes, bins and examples one after the other.
func slowClasswise(logp []float64, k int, labels []int, bins int) (each []float64) {
	for class := range k {
		var e float64
		for b := range bins {
			var gap float64
			for i, y := range labels {
				p := math.Exp(logp[i*k+class])
				if (p > float64(b)/float64(bins) || b == 0) && p <= float64(b+1)/float64(bins) {
					gap += p
					if y == class {
						gap--
					}
				}
			}
			e += math.Abs(gap) / float64(len(labels))
		}
		each = append(each, e)
	}
	return each
}

func TestFiguresOfClassesAreTheirDefinitions(t *testing.T) {
	t.Parallel()
	const n, k, bins = 120, 4, 10
	logp, labels := randomRows(rand.New(rand.NewPCG(5, 5)), n, k)
	c := classified(t, logp, k, labels, bins)
	ece := slowClasswise(logp, k, labels, bins)
	var mean float64
	for class, got := range c.Classes() {
		var of, wrong float64
		for i, y := range labels {
			if y != class {
				continue
			}
			of++
			for _, v := range logp[i*k : (i+1)*k] {
				if v > logp[i*k+class] {
					wrong++
					break
				}
			}
		}
		if float64(got.N) != of || of == 0 {
			t.Errorf("class %d: %d examples, want %v, more than none", class, got.N, of)
		}
		wantClose(t, "error of a class", got.Error, wrong/of)
		wantClose(t, "ECE of a class", got.ECE, ece[class])
		mean += ece[class] / k
	}
	wantClose(t, "ClasswiseECE", c.Reliability().ClasswiseECE, mean)
}

// Each label is a binary class, predicted by the probability that it is present.
func TestFiguresOfLabelsAreThoseOfSeparateBinaryProblems(t *testing.T) {
	t.Parallel()
	const n, k = 60, 3
	rng := rand.New(rand.NewPCG(8, 1))
	all := NewMultiLabel(k, 0)
	var logp [k][]float64
	var targets [k][]int
	for range n {
		var row []float64
		var y []uint8
		for j := range k {
			p := pairs(rng.Float64())
			row, y = append(row, p...), append(y, uint8(rng.IntN(2)))
			logp[j], targets[j] = append(logp[j], p...), append(targets[j], int(y[j]))
		}
		if err := all.Add(row, y); err != nil {
			t.Fatal(err)
		}
	}
	for j, got := range all.Decisions().Classes() {
		apart := classified(t, logp[j], 2, targets[j], 0)
		if got.N != n {
			t.Errorf("label %d: %d examples, want %d", j, got.N, n)
		}
		wantClose(t, "error of a label", got.Error, apart.Result().Error)
		wantClose(t, "ECE of a label", got.ECE, apart.Classes()[1].ECE)
	}
}
