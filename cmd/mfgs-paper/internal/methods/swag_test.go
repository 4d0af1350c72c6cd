package methods

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/internal/approx"
	"github.com/mfgs/mfgs/internal/parallel"
)

func randomCheckpoints(h layer.Head, n int, seed uint64) [][]float64 {
	rng := rand.New(rand.NewPCG(seed, 5))
	checkpoints := make([][]float64, n)
	for t := range checkpoints {
		for i := range h.Logits * h.Dim() {
			checkpoints[t] = append(checkpoints[t], float64(i%5)+rng.NormFloat64())
		}
	}
	return checkpoints
}

func TestSWAGIsTheCovarianceOfTheCheckpoints(t *testing.T) {
	t.Parallel()
	for _, h := range []layer.Head{
		{Logits: 3, Features: 4, Bias: true, Link: layer.Softmax},
		{Logits: 2, Features: 3, Link: layer.Softmax},
	} {
		const n = blockRows + 3
		for _, m := range []int{2, 9} {
			k, d := h.Logits, h.Dim()
			checkpoints := randomCheckpoints(h, m, uint64(m))
			s, err := NewSWAG(checkpoints, h, nil)
			if err != nil {
				t.Fatal(err)
			}
			sigma := make([]float64, k*d*k*d)
			for i := range k * d {
				for j := range k * d {
					var meanI, meanJ, product float64
					for _, w := range checkpoints {
						meanI += w[i] / float64(m)
						meanJ += w[j] / float64(m)
						product += w[i] * w[j]
					}
					product -= float64(m) * meanI * meanJ
					sigma[i*k*d+j] = product / float64(2*(m-1))
					if i == j {
						sigma[i*k*d+j] += product / float64(2*m)
					}
				}
			}
			phi := normals(rand.New(rand.NewPCG(1, 6)), n*h.Features, 1)
			got := make([]float64, n*PackedSize(k))
			if err := s.Covariances(got, phi, n); err != nil {
				t.Fatal(err)
			}
			at := 0
			for i := range n {
				x := make([]float64, d)
				augment(x, h, phi, i)
				for c := range k {
					for e := c; e < k; e++ {
						var want float64
						for a, u := range x {
							for b, v := range x {
								want += u * v * sigma[(c*d+a)*k*d+e*d+b]
							}
						}
						if !approx.Equal(got[at], want, 1e-10) {
							t.Fatalf("%d checkpoints: example %d: the covariance of %d and %d is %v, want %v", m, i, c, e, got[at], want)
						}
						at++
					}
				}
			}
			wantDiagonals(t, s, phi, n, k)
			// Covariances of few checkpoints have roots too.
			set := &rows.Batch{N: n, Features: phi, Logits: normals(rand.New(rand.NewPCG(2, 6)), n*k, 1)}
			if g := gaussian(t, UKF, s, set, k); !(g.MedianVariance() > 0) {
				t.Errorf("spread %v, want a positive number", g.MedianVariance())
			}
		}
	}
}

// wantDiagonals compares Variances with the diagonals of Covariances.
func wantDiagonals(t *testing.T, c interface {
	Covariance
	Variances
}, phi []float32, n, k int) {
	t.Helper()
	packed, got, want := make([]float64, n*PackedSize(k)), make([]float64, n*k), make([]float64, k)
	if err := errors.Join(c.Covariances(packed, phi, n), c.Variances(got, phi, n)); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		diagonal(want, packed[i*PackedSize(k):(i+1)*PackedSize(k)])
		for j, v := range got[i*k : (i+1)*k] {
			if !approx.Equal(v, want[j], 1e-12*want[j]) {
				t.Fatalf("example %d: the variance of %d is %v, want %v", i, j, v, want[j])
			}
		}
	}
}

func TestSWAGRefusesBadInputs(t *testing.T) {
	t.Parallel()
	h := layer.Head{Logits: 3, Features: 2, Bias: true, Link: layer.Softmax}
	sigmoid := h
	sigmoid.Link = layer.Sigmoid
	short, bad := randomCheckpoints(h, 3, 1), randomCheckpoints(h, 3, 1)
	short[2] = short[2][1:]
	bad[1][4] = math.NaN()
	for _, c := range []struct {
		name        string
		checkpoints [][]float64
		head        layer.Head
		reason      string
	}{
		{"one checkpoint", randomCheckpoints(h, 1, 1), h, "1 checkpoints of the last layer, want at least 2"},
		{"short", short, h, "checkpoint 2: the last layer has 8 weights, want 3 classes × 3"},
		{"NaN", bad, h, "checkpoint 1: weight 4 is NaN"},
		{"sigmoid", randomCheckpoints(h, 2, 1), sigmoid, "want a softmax"},
		{"no features", randomCheckpoints(h, 2, 1), layer.Head{Logits: 3, Link: layer.Softmax}, "0 features"},
	} {
		if _, err := NewSWAG(c.checkpoints, c.head, nil); err == nil || !strings.Contains(err.Error(), c.reason) {
			t.Errorf("%s: error %v, want one with %q", c.name, err, c.reason)
		}
	}
	for _, columns := range []int{h.Logits, 2 * h.Logits} { // of the variances, of the deviations
		s, err := NewSWAG(randomCheckpoints(h, 2, 1), h, refusing{parallel.OrGo(nil), columns})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Covariances(make([]float64, 6), make([]float32, 2), 1); !errors.Is(err, errRefused) {
			t.Errorf("error %v where %d columns are refused, want the product's", err, columns)
		}
		if err := s.Variances(make([]float64, 3), make([]float32, 2), 1); !errors.Is(err, errRefused) {
			t.Errorf("variances: error %v where %d columns are refused, want the product's", err, columns)
		}
	}
}

// refusing multiplies by no matrix of so many columns.
type refusing struct {
	parallel.Product
	columns int
}

var errRefused = errors.New("refused")

func (p refusing) Multiply(c, a, b []float64, rows, n, m int) error {
	if m == p.columns {
		return errRefused
	}
	return p.Product.Multiply(c, a, b, rows, n, m)
}
