package conformal

import (
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/mfgs/mfgs/internal/approx"
)

// golden is what testdata/golden.py wrote.
func golden(t *testing.T) (g struct {
	Bounds [][5]float64 // k, n, confidence, lower and upper bound
	CDF    [][4]float64 // k, n, p, P(X ≤ k)
	Sets   []struct {
		Score         Score
		Penalty       float64
		Free          int
		Alpha         float64
		Probabilities []float64
		Labels        []int
		Threshold     float64
		In            [][]int
	}
}) {
	text, err := os.ReadFile("testdata/golden.json")
	if err == nil {
		err = json.Unmarshal(text, &g)
	}
	if err != nil || len(g.Bounds) == 0 || len(g.CDF) == 0 || len(g.Sets) == 0 {
		t.Fatal("testdata/golden.json has nothing to compare with: ", err)
	}
	return g
}

func TestBinomialBoundsAreThoseOfScipy(t *testing.T) {
	t.Parallel()
	g := golden(t)
	for _, c := range g.CDF {
		// Both have logarithms of factorials of up to 25,000, some 1e5, of whose rounding 1e-10 is left.
		got := binomialCDF(int(c[0]), int(c[1]), c[2])
		if !approx.Relative(got, c[3], 1e-9) && !approx.Equal(got, c[3], 1e-300) {
			t.Errorf("P(X ≤ %v) of %v draws at %v is %v, want %v", c[0], c[1], c[2], got, c[3])
		}
	}
	for _, c := range g.Bounds {
		k, n := int(c[0]), int(c[1])
		if got := 1 - UpperBound(n-k, n, c[2]); !approx.Equal(got, c[3], 1e-9) {
			t.Errorf("%d of %d leave %v possible at %v, want %v", k, n, got, c[2], c[3])
		}
		if got := UpperBound(k, n, c[2]); !approx.Equal(got, c[4], 1e-9) {
			t.Errorf("%d of %d leave %v possible at %v, want %v", k, n, got, c[2], c[4])
		}
		// Two sides, each with half of what is left.
		low, high := ClopperPearson(k, n, 2*c[2]-1)
		if !approx.Equal(low, c[3], 1e-9) || !approx.Equal(high, c[4], 1e-9) {
			t.Errorf("%d of %d: %v to %v, want %v to %v", k, n, low, high, c[3], c[4])
		}
	}
	if low, high := ClopperPearson(0, 0, 0.95); low != 0 || high != 1 {
		t.Errorf("of no draws: %v to %v", low, high)
	}
}

func TestThresholdsAndSetsAreThoseOfTorchCP(t *testing.T) {
	t.Parallel()
	const classes = 6
	for _, c := range golden(t).Sets {
		n := len(c.Labels)
		x := &Examples{Classes: classes, Probabilities: c.Probabilities[:n*classes], Labels: c.Labels}
		s := &Sets{Score: c.Score, Penalty: c.Penalty, Free: c.Free}
		at, ok := threshold(s.missed(x), n, c.Alpha)
		if !ok || !approx.Equal(at, c.Threshold, 1e-14) {
			t.Errorf("%s, n = %d: threshold %v, want %v", c.Score, n, at, c.Threshold)
		}
		s.Thresholds = []float64{at}
		for i, want := range c.In {
			p := c.Probabilities[(n+i)*classes : (n+i+1)*classes]
			if got := s.Set(p); !slices.Equal(got, want) {
				t.Errorf("%s, n = %d: set %v of %v, want %v", c.Score, n, got, p, want)
			}
		}
	}
}
