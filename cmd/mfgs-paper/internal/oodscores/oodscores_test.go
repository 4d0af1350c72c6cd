package oodscores

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/score"
	"github.com/mfgs/mfgs/internal/approx"
)

// scene is training data and queries with a last layer.
type scene struct {
	k, d           int
	w              *mat.Dense // [K,d]
	b              []float64
	train, queries []*mat.VecDense
	labels         []int
}

// newScene draws n examples after a ReLU, features of unequal size, of which the last never varies in training.
func newScene(k, d, n int, seed uint64) *scene {
	rng := rand.New(rand.NewPCG(seed, 1))
	s := &scene{k: k, d: d, w: mat.NewDense(k, d, nil)}
	for c := range k {
		for j := range d {
			s.w.Set(c, j, rng.NormFloat64())
		}
		s.b = append(s.b, rng.NormFloat64())
	}
	draw := func(n int) (all []*mat.VecDense) {
		for i := range n {
			v := mat.NewVecDense(d, nil)
			for j := range d - 1 {
				shift := float64((i*7+j)%3) / 2
				v.SetVec(j, float64(float32(max(0, rng.NormFloat64()+shift)/float64(1+j%4))))
			}
			v.SetVec(0, v.AtVec(0)+.125) // no features of length 0
			all = append(all, v)
		}
		return all
	}
	s.train, s.queries = draw(n), draw(70)
	for range n {
		s.labels = append(s.labels, rng.IntN(k))
	}
	return s
}

func unit(v *mat.VecDense) *mat.VecDense {
	u := mat.NewVecDense(v.Len(), nil)
	u.ScaleVec(1/mat.Norm(v, 2), v)
	return u
}

func (s *scene) logits(phi mat.Vector) []float64 {
	a := mat.NewVecDense(s.k, slices.Clone(s.b))
	var product mat.VecDense
	product.MulVec(s.w, phi)
	a.AddVec(a, &product)
	return a.RawVector().Data
}

// training are the sums of some vectors.
func (s *scene) training(rows []*mat.VecDense) *score.Training {
	t := &score.Training{
		K: s.k, D: s.d, Link: layer.Softmax, W: s.w.RawMatrix().Data, B: s.b, N: len(rows),
		Gram: make([]float64, s.d*s.d), Sum: make([]float64, s.d),
		ClassSums: make([]float64, s.k*s.d), ClassCounts: make([]int, s.k),
	}
	for i, v := range rows {
		t.ClassCounts[s.labels[i]]++
		for j := range s.d {
			t.Sum[j] += v.AtVec(j)
			t.ClassSums[s.labels[i]*s.d+j] += v.AtVec(j)
			t.Sample.Features = append(t.Sample.Features, float32(v.AtVec(j)))
			for l := range s.d {
				t.Gram[j*s.d+l] += v.AtVec(j) * v.AtVec(l)
			}
		}
	}
	t.Sample.M = len(rows)
	return t
}

func (s *scene) fitted() *score.Training {
	t := s.training(s.train)
	t.Directions = s.training(all(s.train, unit))
	return t
}

func all[A, B any](x []A, f func(A) B) (out []B) {
	for _, v := range x {
		out = append(out, f(v))
	}
	return out
}

func (s *scene) examples() score.Examples {
	x := score.Examples{N: len(s.queries), K: s.k, D: s.d, Link: layer.Softmax}
	for _, v := range s.queries {
		for j := range s.d {
			x.Features = append(x.Features, float32(v.AtVec(j)))
		}
		for _, a := range s.logits(v) {
			x.Logits = append(x.Logits, float32(a))
		}
	}
	return x
}

func mean(rows []*mat.VecDense) *mat.VecDense {
	m := mat.NewVecDense(rows[0].Len(), nil)
	for _, v := range rows {
		m.AddScaledVec(m, 1/float64(len(rows)), v)
	}
	return m
}

// distance is (x-m)ᵀ (C/n + δI)⁻¹ (x-m), C the sum of outer products of rows.
func distance(x, m *mat.VecDense, rows []*mat.VecDense) float64 {
	const ridge = 1e-3
	d := x.Len()
	c := mat.NewSymDense(d, nil)
	for _, v := range rows {
		c.SymRankOne(c, 1/float64(len(rows)), v)
	}
	delta := ridge * mat.Trace(c) / float64(d)
	for i := range d {
		c.SetSym(i, i, c.At(i, i)+delta)
	}
	var inverse mat.Dense
	if err := inverse.Inverse(c); err != nil {
		panic(err)
	}
	var diff mat.VecDense
	diff.SubVec(x, m)
	return mat.Inner(&diff, &inverse, &diff)
}

// less are rows minus a vector each.
func less(rows []*mat.VecDense, m func(i int) *mat.VecDense) (out []*mat.VecDense) {
	for i, v := range rows {
		var diff mat.VecDense
		diff.SubVec(v, m(i))
		out = append(out, &diff)
	}
	return out
}

func (s *scene) classMeans(rows []*mat.VecDense) (means []*mat.VecDense) {
	for c := range s.k {
		var of []*mat.VecDense
		for i, v := range rows {
			if s.labels[i] == c {
				of = append(of, v)
			}
		}
		means = append(means, mean(of))
	}
	return means
}

// plusPlus is what Müller and Hein 2025 do: normalise, class means, one covariance, the least distance.
func (s *scene) plusPlus(phi *mat.VecDense) float64 {
	rows := all(s.train, unit)
	means := s.classMeans(rows)
	within := less(rows, func(i int) *mat.VecDense { return means[s.labels[i]] })
	least := math.Inf(1)
	for _, m := range means {
		least = min(least, distance(unit(phi), m, within))
	}
	return least
}

func energy(a []float64) float64 {
	var sum float64
	for _, v := range a {
		sum += math.Exp(v)
	}
	return math.Log(sum)
}

func cosine(x, y *mat.VecDense) float64 { return mat.Dot(x, y) / (mat.Norm(x, 2) * mat.Norm(y, 2)) }

// twins are the scores by the authors' formulas, of a query.
var twins = map[string]func(s *scene, phi *mat.VecDense) float64{
	"mahalanobis_pp": (*scene).plusPlus,
	"relative_mahalanobis_pp": func(s *scene, phi *mat.VecDense) float64 { // Ren et al. 2021, of directions
		rows := all(s.train, unit)
		m := mean(rows)
		return s.plusPlus(phi) - distance(unit(phi), m, less(rows, func(int) *mat.VecDense { return m }))
	},
	"scale": func(s *scene, phi *mat.VecDense) float64 { // Xu et al. 2024, with their code's rounding
		sorted := slices.Clone(phi.RawVector().Data)
		slices.Sort(sorted)
		pruned := int(math.RoundToEven(.85 * float64(s.d)))
		var total, large float64
		for i, v := range sorted {
			total += v
			if i >= pruned {
				large += v
			}
		}
		var x mat.VecDense
		x.ScaleVec(math.Exp(total/large), phi)
		return -energy(s.logits(&x))
	},
	"nnguide": func(s *scene, phi *mat.VecDense) float64 { // Park, Jung and Teoh 2023
		var similar []float64
		for _, v := range s.train {
			similar = append(similar, energy(s.logits(v))*cosine(v, phi))
		}
		slices.Sort(similar)
		var guidance float64
		for _, v := range similar[len(similar)-10:] {
			guidance += v / 10
		}
		return -energy(s.logits(phi)) * guidance
	},
	"nci": func(s *scene, phi *mat.VecDense) float64 { // Liu and Qin 2025
		a := s.logits(phi)
		y := slices.Index(a, slices.Max(a))
		var centred mat.VecDense
		centred.SubVec(phi, mean(s.train))
		return -mat.Dot(s.w.RowView(y), &centred)/mat.Norm(&centred, 2) - 1e-4*mat.Norm(phi, 1)
	},
	"neco": func(s *scene, phi *mat.VecDense) float64 { // Ammar et al. 2024, eq. 6, by singular vectors of the rows
		n := len(s.train)
		m, deviation := mean(s.train), make([]float64, s.d)
		for j := range s.d {
			for _, v := range s.train {
				deviation[j] += (v.AtVec(j) - m.AtVec(j)) * (v.AtVec(j) - m.AtVec(j)) / float64(n)
			}
			if deviation[j] = math.Sqrt(deviation[j]); deviation[j] == 0 {
				deviation[j] = 1
			}
		}
		z := mat.NewDense(n, s.d, nil)
		for i, v := range s.train {
			for j := range s.d {
				z.Set(i, j, (v.AtVec(j)-m.AtVec(j))/deviation[j])
			}
		}
		var svd mat.SVD
		if !svd.Factorize(z, mat.SVDThin) {
			panic("no singular vectors")
		}
		var components mat.Dense
		svd.VTo(&components)
		var total, explained, square, whole float64
		for _, v := range svd.Values(nil) {
			total += v * v
		}
		query := mat.NewVecDense(s.d, nil)
		for j := range s.d {
			query.SetVec(j, (phi.AtVec(j)-m.AtVec(j))/deviation[j])
			whole += query.AtVec(j) * query.AtVec(j)
		}
		for i, v := range svd.Values(nil) {
			along := mat.Dot(components.ColView(i), query)
			square += along * along
			if explained += v * v; explained >= .9*total {
				break
			}
		}
		return -math.Sqrt(square/whole) * slices.Max(s.logits(phi))
	},
	"class_cosine": func(s *scene, phi *mat.VecDense) float64 {
		best := -1.
		for _, m := range s.classMeans(s.train) {
			best = max(best, cosine(phi, m))
		}
		return -best
	},
}

// Rounding of the float32 logits and directions is at most 1e-7 of them, and a covariance's inverse has condition 1e3.
const tolerance = 1e-4

func TestScoresAreTheirDefinitions(t *testing.T) {
	t.Parallel()
	for _, size := range []struct{ k, d int }{{2, 8}, {4, 17}, {9, 6}} {
		s := newScene(size.k, size.d, 200, 3)
		for _, of := range All {
			fitted, err := of.Fit(s.fitted())
			if err != nil {
				t.Fatal(err)
			}
			got := fitted.Values(s.examples())
			for i, phi := range s.queries {
				if want := twins[of.Name](s, phi); !approx.Equal(got[i], want, tolerance*(1+math.Abs(want))) {
					t.Errorf("%s, %d classes and %d features: query %d has %v, want %v", of.Name, size.k, size.d, i, got[i], want)
				}
			}
		}
	}
}

func TestFeaturesThatAreNotFiniteScoreHighest(t *testing.T) {
	t.Parallel()
	s := newScene(3, 8, 100, 5)
	x := s.examples()
	x.Features[0], x.Logits[0] = float32(math.NaN()), float32(math.NaN())
	for _, of := range All {
		fitted, err := of.Fit(s.fitted())
		if err != nil {
			t.Fatal(err)
		}
		if got := fitted.Values(x); !math.IsInf(got[0], 1) || math.IsInf(got[1], 0) {
			t.Errorf("%s: %v and %v", of.Name, got[0], got[1])
		}
	}
}

func TestOtherHeadsAreRefused(t *testing.T) {
	t.Parallel()
	if Find("neco") == nil || Find("vim") != nil {
		t.Error("neco is not found, or vim is")
	}
	for _, change := range []func(*score.Training){
		func(t *score.Training) { t.Link = layer.Sigmoid }, func(t *score.Training) { t.W = nil },
		func(t *score.Training) { t.ClassSums = nil }, func(t *score.Training) { t.Sample = score.Sample{} },
	} {
		training := newScene(3, 8, 100, 5).fitted()
		change(training)
		for _, of := range All {
			if _, err := of.Fit(training); err == nil {
				t.Errorf("%s was fitted", of.Name)
			}
		}
	}
}
