package score

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/internal/approx"
)

// A missing value counts as the mean of its column: distances are those of columns that are filled so.
func TestNeighboursOfColumnsWithMissingValues(t *testing.T) {
	t.Parallel()
	const n, c = 400, 5
	rng := rand.New(rand.NewPCG(7, 1))
	values := make([]float64, n*c) // NaN is missing
	for i := range values {
		if values[i] = float64(float32(rng.NormFloat64()*math.Pow(10, float64(i%c)) + 3)); rng.IntN(8) == 0 {
			values[i] = math.NaN()
		}
	}
	mean, deviation := make([]float64, c), make([]float64, c)
	for j := range c {
		var there []float64
		for i := j; i < len(values); i += c {
			if !math.IsNaN(values[i]) {
				there = append(there, values[i])
			}
		}
		for _, v := range there {
			mean[j] += v / float64(len(there))
		}
		for _, v := range there { // a missing value adds nothing
			deviation[j] += (v - mean[j]) * (v - mean[j]) / n
		}
		deviation[j] = math.Sqrt(deviation[j])
	}
	var flagged []float32
	filled := make([]float64, len(values))
	for i := range n {
		row := values[i*c : (i+1)*c]
		for j, v := range row {
			filled[i*c+j] = (v - mean[j]) / deviation[j]
			if math.IsNaN(v) {
				filled[i*c+j], v = 0, 0
			}
			flagged = append(flagged, float32(v))
		}
		for _, v := range row {
			flag := float32(0)
			if math.IsNaN(v) {
				flag = 1
			}
			flagged = append(flagged, flag)
		}
	}
	labels := make([]int, n)
	training := trainingOf(flagged, labels, make([]float64, 2*c*2), make([]float64, 2), layer.Softmax)
	training.Missing = true
	knn, err := columnKNN.Fit(training)
	if err != nil {
		t.Fatal(err)
	}
	got := knn.Values(Examples{
		N: n, K: 2, D: 2 * c, Link: layer.Softmax, Nonlinear: true, Features: flagged, Logits: make([]float32, 2*n),
	})
	for i := range n {
		var distances []float64
		for k := range n {
			square := 0.0
			for j := range c {
				d := filled[i*c+j] - filled[k*c+j]
				square += d * d
			}
			distances = append(distances, math.Sqrt(square))
		}
		slices.Sort(distances)
		if want := distances[4]; !approx.Equal(got[i], want, 1e-4*(1+want)) {
			t.Fatalf("example %d: %v, want %v", i, got[i], want)
		}
	}
}
