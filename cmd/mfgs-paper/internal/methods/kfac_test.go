package methods

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/internal/approx"
)

// Draws have mean 0 and the inverse of the damped Hessian as covariance.
func TestSampledWeightsHaveTheirCovariance(t *testing.T) {
	t.Parallel()
	const m = 20000
	for _, bias := range []bool{false, true} {
		h := softmaxHead(3, 2, bias)
		s := clouds(30, 2, 3, 1, 6)
		p := kroneckerPosterior(s, h)
		var sigma mat.Dense
		if err := sigma.Inverse(naiveHessian(s, h, calibrate.Kronecker, 1)); err != nil {
			t.Fatal(err)
		}
		n := h.Logits * h.Dim()
		rng, w := rand.New(rand.NewPCG(1, 2)), make([]float64, n)
		mean, second := make([]float64, n), make([]float64, n*n)
		for range m {
			if err := sampleWeights(p, rng, w); err != nil {
				t.Fatal(err)
			}
			for i, v := range w {
				mean[i] += v / m
				for j, u := range w {
					second[i*n+j] += v * u / m
				}
			}
		}
		for i := range n {
			vi := sigma.At(i, i)
			if !approx.Equal(mean[i], 0, 4.5*math.Sqrt(vi/m)) {
				t.Errorf("bias %v: the mean of weight %d is %v, want 0 ± %v", bias, i, mean[i], math.Sqrt(vi/m))
			}
			for j := range n {
				want := sigma.At(i, j)
				stdErr := math.Sqrt((vi*sigma.At(j, j) + want*want) / m)
				if got := second[i*n+j]; !approx.Equal(got, want, 4.5*stdErr) {
					t.Errorf("bias %v: the covariance of weights %d and %d is %v, want %v ± %v", bias, i, j, got, want, stdErr)
				}
			}
		}
	}
}

func TestWeightsAreNotSampledFromEveryPosterior(t *testing.T) {
	t.Parallel()
	h := softmaxHead(3, 2, true)
	s := clouds(30, 2, 3, 1, 6)
	for structure, cov := range map[calibrate.Structure]calibrate.Covariance{
		calibrate.Full: calibrate.Hessian, calibrate.Kronecker: calibrate.Sandwich,
	} {
		p, err := curvatureOf(s, h, structure).Posterior(cov, 1)
		if err != nil {
			t.Fatal(err)
		}
		want := "the " + string(cov) + " covariance in the " + string(structure) + " structure"
		err = sampleWeights(p, rand.New(rand.NewPCG(1, 1)), make([]float64, 9))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s %s: error %v, want one that names both", structure, cov, err)
		}
	}
}
