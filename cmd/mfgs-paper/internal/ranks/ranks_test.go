package ranks

import (
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
)

func close(t *testing.T, what string, got, want, within float64) {
	t.Helper()
	if !(math.Abs(got-want) <= within) {
		t.Errorf("%s is %.12g, want %.12g within %g", what, got, want, within)
	}
}

func TestEqualValuesShareTheirRanks(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ values, want []float64 }{
		{[]float64{.5, .9, .7}, []float64{3, 1, 2}},
		{[]float64{.9, .5, .9, .1}, []float64{1.5, 3, 1.5, 4}},
		{[]float64{1, 1, 1}, []float64{2, 2, 2}},
	} {
		if got := Of(test.values); !slices.Equal(got, test.want) {
			t.Errorf("%v have the ranks %v, want %v", test.values, got, test.want)
		}
	}
}

// The table of critical values of Demšar 2006 (table 5a), q over √2, to its three digits.
func TestCriticalValuesAreThoseOfTheTable(t *testing.T) {
	t.Parallel()
	table := map[float64][]float64{
		.05: {1.960, 2.343, 2.569, 2.728, 2.850, 2.949, 3.031, 3.102, 3.164},
		.10: {1.645, 2.052, 2.291, 2.459, 2.589, 2.693, 2.780, 2.855, 2.920},
	}
	for level, row := range table {
		for i, want := range row {
			// Some of the table are off by one in their last digit: 2.4599 is printed as 2.459.
			close(t, "the critical value", RangeQuantile(i+2, 1-level)/math.Sqrt2, want, .0011)
		}
	}
}

// Values of scipy 1.17, studentized_range with df = inf.
func TestRangeAgreesWithSciPy(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		k         int
		quantiles [3]float64 // of .9, .95 and .99
		at3       float64    // the probability of a range up to 3
	}{
		{2, [3]float64{2.3261743073533476, 2.771807648699355, 3.642772735436894}, 0.9661051464753106},
		{3, [3]float64{2.9023802134282515, 3.314493155398122, 4.12030320646012}, 0.9144574283450421},
		{5, [3]float64{3.478280550703068, 3.857655510378623, 4.602821042201571}, 0.789123495036462},
		{10, [3]float64{4.129346398236873, 4.474124221725907, 5.156634960089622}, 0.48781592602919316},
		{20, [3]float64{4.694104409490512, 5.0116887941184425, 5.6452146979858515}, 0.15374353380562766},
	} {
		for i, p := range []float64{.9, .95, .99} {
			close(t, "the quantile", RangeQuantile(test.k, p), test.quantiles[i], 1e-7)
		}
		close(t, "the probability", RangeProbability(test.k, 3), test.at3, 1e-10)
	}
}

// The range of two variables is |x - y|, which is normal with variance 2.
func TestRangeOfTwoIsNormal(t *testing.T) {
	t.Parallel()
	for _, q := range []float64{.1, 1, 3, 6} {
		close(t, "the probability", RangeProbability(2, q), math.Erf(q/2), 1e-13)
	}
	if p := RangeProbability(5, 0); p != 0 {
		t.Errorf("a range up to 0 has the probability %v", p)
	}
	if p := RangeProbability(5, 100); p < 1-1e-12 || p > 1 {
		t.Errorf("a range up to 100 has the probability %v", p)
	}
}

// scipy.stats.friedmanchisquare, and the F of its statistic.
func TestFriedmanAgreesWithSciPy(t *testing.T) {
	t.Parallel()
	c := Compare([][]float64{
		{.9, .8, .7, .6}, {.9, .85, .85, .5}, {.6, .8, .7, .9}, {.9, .8, .6, .7}, {.95, .9, .9, .9},
	})
	for i, want := range []float64{1.6, 2.3, 3.1, 3} {
		close(t, "a mean rank", c.Mean[i], want, 1e-12)
	}
	close(t, "chi squared", c.ChiSquared, 4.866666666666662, 1e-12)
	close(t, "its tail", c.P, 0.18182490180599242, 1e-12)
	close(t, "F", c.F, 1.9210526315789445, 1e-12)
	close(t, "its tail", c.FP, 0.18004332723928526, 1e-12)
}

// The example of Demšar 2006, table 6: four variants of C4.5 on 14 data sets, of which voting has two
// equal to three digits that he ranks apart. His χ² is not corrected for ties.
func TestDemsarsExample(t *testing.T) {
	t.Parallel()
	c := Compare([][]float64{
		{.763, .768, .771, .798}, {.599, .591, .590, .569}, {.954, .971, .968, .967}, {.628, .661, .654, .657},
		{.882, .888, .886, .898}, {.936, .931, .916, .931}, {.661, .668, .609, .685}, {.583, .583, .563, .625},
		{.775, .838, .866, .875}, {1, 1, 1, 1}, {.940, .962, .965, .962}, {.619, .666, .614, .669},
		{.972, .981, .9751, .975}, {.957, .978, .946, .970},
	})
	for i, want := range []float64{3.143, 2.000, 2.893, 1.964} {
		close(t, "a mean rank", c.Mean[i], want, .0005)
	}
	close(t, "the critical difference", c.Critical, 1.25, .005)
	// One of the 14 sets ties all four (60), and three tie two (6 each).
	close(t, "chi squared without its correction", c.ChiSquared*(1-78./(14*4*15)), 9.28, .005)
	if uncorrected := (distuv.ChiSquared{K: 3}).Survival(9.28); c.P >= uncorrected {
		t.Errorf("the correction for ties leaves P at %v", c.P)
	}
}

func TestGroupsAreTheLongestRuns(t *testing.T) {
	t.Parallel()
	c := Comparison{Mean: []float64{4, 1, 2, 2.5, 6, 9}, Critical: 2}
	if got := c.Order(); !slices.Equal(got, []int{1, 2, 3, 0, 4, 5}) {
		t.Fatalf("the order is %v", got)
	}
	// 1, 2 and 2.5 lie within 2, and 2.5 and 4. What is 2 apart differs: 2 and 4, 4 and 6.
	want := [][]int{{1, 2, 3}, {3, 0}}
	got := c.Groups()
	if len(got) != len(want) || !slices.Equal(got[0], want[0]) || !slices.Equal(got[1], want[1]) {
		t.Errorf("groups are %v, want %v", got, want)
	}
}

func TestMethodsWithEqualRanksHaveChiSquaredZero(t *testing.T) {
	t.Parallel()
	c := Compare([][]float64{{.1, .2}, {.2, .1}})
	if c.ChiSquared != 0 || c.P != 1 || c.F != 0 || c.FP != 1 {
		t.Errorf("two methods that take turns: %+v", c)
	}
}
