package methods

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/internal/approx"
)

// naiveDistance is D from its definition.
func naiveDistance(t *testing.T, train *rows.Batch, classes []int, k int, phi []float32) float64 {
	t.Helper()
	d := len(phi)
	unit := func(phi []float32) *mat.VecDense {
		v := mat.NewVecDense(d, nil)
		for j, x := range phi {
			v.SetVec(j, float64(x))
		}
		v.ScaleVec(1/mat.Norm(v, 2), v)
		return v
	}
	means, within := make([]*mat.VecDense, k), mat.NewDense(d, d, nil)
	for y := range k {
		n := 0.0
		mean := mat.NewVecDense(d, nil)
		for i, c := range classes {
			if c == y {
				mean.AddVec(mean, unit(train.Features[i*d:(i+1)*d]))
				n++
			}
		}
		if n == 0 {
			continue
		}
		mean.ScaleVec(1/n, mean)
		means[y] = mean
		for i, c := range classes {
			if c == y {
				difference := unit(train.Features[i*d : (i+1)*d])
				difference.SubVec(difference, mean)
				within.RankOne(within, 1/float64(train.N), difference, difference)
			}
		}
	}
	ridge := 0.01 * mat.Trace(within) / float64(d)
	for j := range d {
		within.Set(j, j, within.At(j, j)+ridge)
	}
	var inverse mat.Dense
	if err := inverse.Inverse(within); err != nil {
		t.Fatal(err)
	}
	least := math.Inf(1)
	for _, mean := range means {
		if mean != nil {
			u := unit(phi)
			u.SubVec(u, mean)
			least = math.Min(least, mat.Inner(u, &inverse, u))
		}
	}
	return math.Sqrt(least)
}

func TestDirectionsMeasureTheDistanceToTheNearestClass(t *testing.T) {
	t.Parallel()
	const n, d, k = 300, 5, 4
	for _, test := range []struct {
		name     string
		labelled bool
		missing  int // a class without examples, -1 for none
	}{{"labels", true, -1}, {"predicted classes", false, -1}, {"a class without examples", true, 2}} {
		train := clouds(n, d, k, 2, 3)
		classes := make([]int, n)
		for i := range classes {
			if classes[i] = train.Labels[i]; classes[i] == test.missing {
				classes[i] = 0
			}
			if !test.labelled {
				classes[i] = softmaxHead(k, d, true).Predicted(train.Logits[i*k : (i+1)*k])
			}
		}
		if train.Labels = classes; !test.labelled {
			train.Labels = nil
		}
		r, err := NewDirections(train, softmaxHead(k, d, true), nil)
		if err != nil {
			t.Fatal(err)
		}
		phi := normals(rand.New(rand.NewPCG(1, 1)), 20*d, 3)
		got, err := r.Distances(phi, 20)
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range got {
			// The whitening loses a few digits: the ridge bounds its condition number.
			if want := naiveDistance(t, train, classes, k, phi[i*d:(i+1)*d]); !approx.Relative(v, want, 1e-10) {
				t.Errorf("%s: example %d is %v away, want %v", test.name, i, v, want)
			}
		}
		zero, err := r.Distances(make([]float32, d), 1)
		if err != nil || !(zero[0] > 0) || math.IsInf(zero[0], 1) {
			t.Errorf("%s: features of zeros are %v away (%v)", test.name, zero, err)
		}
	}
}

func TestDirectionsNeedFeaturesThatVary(t *testing.T) {
	t.Parallel()
	s := &rows.Batch{N: 3, Features: []float32{1, 2, 2, 4, 3, 6}, Logits: make([]float32, 6), Labels: []int{0, 0, 1}}
	if _, err := NewDirections(s, softmaxHead(2, 2, false), nil); err == nil || !strings.Contains(err.Error(), "do not vary") {
		t.Errorf("%v", err)
	}
}
