package score

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/metrics"
	"github.com/mfgs/mfgs/internal/approx"
)

// scene is training data and queries with a last layer.
type scene struct {
	link           layer.Link
	k, d           int
	w, b           []float64
	train, queries []float32
	labels         []int
	*Training
}

// newScene draws n examples after a ReLU, features of unequal size.
func newScene(by layer.Link, k, d, n int, seed uint64) *scene {
	rng := rand.New(rand.NewPCG(seed, 1))
	s := &scene{link: by, k: k, d: d, w: numbers(rng, k*d), b: numbers(rng, k)}
	for c := range s.b {
		s.b[c]++
	}
	draw := func(n int) (features []float32) {
		for range n {
			for j := range d {
				features = append(features, float32(max(0, rng.NormFloat64()+0.5)/float64(1+j%5)))
			}
		}
		return features
	}
	s.train, s.queries = draw(n), draw(20)
	classes := k
	if single := by == layer.Sigmoid && k == 1; single {
		classes = 2
	}
	for range n {
		s.labels = append(s.labels, rng.IntN(classes))
	}
	s.Training = trainingOf(s.train, s.labels, s.w, s.b, by)
	s.Directions = directionsOf(s.Training, s.labels)
	s.Leverages = func(dst []float64, phi []float32, n int) error { // of the first ones
		for i, v := range vectors(phi, d) {
			dst[i] = s.slowLeverage(v, i)
		}
		return nil
	}
	return s
}

func (s *scene) examples() Examples {
	n := len(s.queries) / s.d
	x := Examples{N: n, K: s.k, D: s.d, Link: s.link, Features: s.queries, Logits: logitsOf(s.queries, s.w, s.b),
		Variance: make([]float64, n*s.k)}
	for _, phi := range vectors(s.queries, s.d) {
		x.Leverage = append(x.Leverage, s.slowLeverage(phi, -1))
	}
	return x
}

// vectors returns rows of float32 as vectors.
func vectors(x []float32, d int) (all []*mat.VecDense) {
	for at := 0; at < len(x); at += d {
		v := mat.NewVecDense(d, nil)
		for j := range d {
			v.SetVec(j, float64(x[at+j]))
		}
		all = append(all, v)
	}
	return all
}

// logits of features that were changed.
func (s *scene) logits(phi *mat.VecDense) []float64 {
	a := mat.NewVecDense(s.k, slices.Clone(s.b))
	var product mat.VecDense
	product.MulVec(mat.NewDense(s.k, s.d, s.w), phi)
	a.AddVec(a, &product)
	return a.RawVector().Data
}

// inColumns returns the scene, and a query, with each feature minus its mean in training, over its standard deviation.
func (s *scene) inColumns(phi *mat.VecDense) (*scene, *mat.VecDense) {
	of, z := *s, mat.VecDenseCopyOf(phi)
	of.train = slices.Clone(s.train)
	for j := range s.d {
		var column []float64
		for i := j; i < len(s.train); i += s.d {
			column = append(column, float64(s.train[i]))
		}
		mean, deviation := stat.PopMeanStdDev(column, nil)
		for i := j; i < len(s.train); i += s.d {
			of.train[i] = float32((float64(s.train[i]) - mean) / deviation)
		}
		z.SetVec(j, (phi.AtVec(j)-mean)/deviation)
	}
	return &of, z
}

func meanOf(all []*mat.VecDense) *mat.VecDense {
	mean := mat.NewVecDense(all[0].Len(), nil)
	for _, v := range all {
		mean.AddScaledVec(mean, 1/float64(len(all)), v)
	}
	return mean
}

// squaredDistance is (x-m)ᵀ (C/n + δI)⁻¹ (x-m), C the sum of the outer products of rows.
func squaredDistance(x, m *mat.VecDense, rows []*mat.VecDense, ridge float64) float64 {
	d, n := x.Len(), float64(len(rows))
	c := mat.NewSymDense(d, nil)
	for _, v := range rows {
		c.SymRankOne(c, 1/n, v)
	}
	delta := ridge * mat.Trace(c) / float64(d)
	for i := range d {
		c.SetSym(i, i, c.At(i, i)+delta)
	}
	var inverse mat.Dense
	if err := inverse.Inverse(c); err != nil {
		panic(err)
	}
	var diff, product mat.VecDense
	diff.SubVec(x, m)
	product.MulVec(&inverse, &diff)
	return mat.Dot(&diff, &product)
}

// twins are the scores by their definitions: of a query.
var twins = map[string]func(s *scene, phi *mat.VecDense) float64{
	"react": func(s *scene, phi *mat.VecDense) float64 {
		all := slices.Clone(s.train)
		slices.Sort(all)
		at := 0.9 * float64(len(all)-1)
		low, high := float64(all[int(at)]), float64(all[int(at)+1])
		clip := low + (at-math.Floor(at))*(high-low)
		clipped := mat.VecDenseCopyOf(phi)
		for j := range s.d {
			clipped.SetVec(j, min(clip, phi.AtVec(j)))
		}
		return slowEnergy(s.link, s.logits(clipped), 0)
	},
	"ash": func(s *scene, phi *mat.VecDense) float64 {
		order := slices.Clone(phi.RawVector().Data)
		slices.Sort(order)
		pruned := mat.VecDenseCopyOf(phi)
		left := int(math.RoundToEven(0.65 * float64(s.d)))
		for j := range s.d {
			if slices.Index(order, phi.AtVec(j)) < left {
				pruned.SetVec(j, 0)
			}
		}
		sharp := math.Exp(mat.Sum(phi) / mat.Sum(pruned))
		pruned.ScaleVec(sharp, pruned)
		return slowEnergy(s.link, s.logits(pruned), 0)
	},
	"fdbd": func(s *scene, phi *mat.VecDense) (score float64) {
		a := s.logits(phi)
		row := func(c int) *mat.VecDense { return mat.NewVecDense(s.d, s.w[c*s.d:(c+1)*s.d]) }
		var from mat.VecDense
		from.SubVec(phi, meanOf(vectors(s.train, s.d)))
		if s.link == layer.Sigmoid {
			for c, v := range a {
				score -= math.Abs(v) / mat.Norm(row(c), 2) / float64(s.k)
			}
			return score / mat.Norm(&from, 2)
		}
		y := slices.Index(a, slices.Max(a))
		for c := range a {
			if c != y {
				var between mat.VecDense
				between.SubVec(row(y), row(c))
				score -= (a[y] - a[c]) / mat.Norm(&between, 2) / float64(s.k-1)
			}
		}
		return score / mat.Norm(&from, 2)
	},
	"mahalanobis": func(s *scene, phi *mat.VecDense) float64 { return s.slowMahalanobis(phi) },
	"column_mahalanobis": func(s *scene, phi *mat.VecDense) float64 {
		of, z := s.inColumns(phi)
		return of.slowMahalanobis(z)
	},
	"column_knn": func(s *scene, phi *mat.VecDense) float64 {
		of, z := s.inColumns(phi)
		var distances []float64
		for _, v := range vectors(of.train, s.d) {
			v.SubVec(v, z)
			distances = append(distances, mat.Norm(v, 2))
		}
		slices.Sort(distances)
		return distances[4] // the fifth of at most 5,000
	},
	"guarded_margin": func(s *scene, phi *mat.VecDense) float64 {
		var leverages, norms []float64
		for i, v := range vectors(s.train, s.d) {
			leverages, norms = append(leverages, s.slowLeverage(v, i)), append(norms, mat.Norm(v, 2))
		}
		slices.Sort(leverages)
		slices.Sort(norms)
		a, h, n := s.logits(phi), s.slowLeverage(phi, -1), mat.Norm(phi, 2)
		var m float64
		if s.link == layer.Sigmoid {
			for _, v := range a {
				m += math.Abs(v) / float64(len(a))
			}
		} else {
			m = slices.Max(a) - mat.Sum(mat.NewVecDense(len(a), a))/float64(len(a))
		}
		similarity := m / math.Sqrt(h)
		if s.link != layer.Sigmoid || s.k == 1 {
			similarity = m / n / math.Pow(s.slowOwnDistance(phi), 0.75)
		}
		short := max(1, metrics.Quantile(norms, 0.025)/n)
		return -similarity / max(1, h/metrics.Quantile(leverages, 0.975)) / (short * short)
	},
	"relative_mahalanobis": func(s *scene, phi *mat.VecDense) float64 {
		all := vectors(s.train, s.d)
		mean := meanOf(all)
		for _, v := range all {
			v.SubVec(v, mean)
		}
		return s.slowMahalanobis(phi) - squaredDistance(phi, mean, all, ridge)
	},
	"residual": func(s *scene, phi *mat.VecDense) float64 { return s.slowResidual(phi) },
	"vim": func(s *scene, phi *mat.VecDense) float64 {
		var logits, residuals float64
		for _, v := range vectors(s.train, s.d) {
			logits += slices.Max(s.logits(v))
			residuals += s.slowResidual(v)
		}
		return logits/residuals*s.slowResidual(phi) + slowEnergy(s.link, s.logits(phi), 0)
	},
	"knn": func(s *scene, phi *mat.VecDense) float64 {
		unit := func(v *mat.VecDense) *mat.VecDense {
			var u mat.VecDense
			u.ScaleVec(1/mat.Norm(v, 2), v)
			return &u
		}
		var distances []float64
		for _, v := range vectors(s.train, s.d) {
			var diff mat.VecDense
			diff.SubVec(unit(phi), unit(v))
			distances = append(distances, mat.Norm(&diff, 2))
		}
		slices.Sort(distances)
		return distances[49]
	},
}

// slowLeverage is φᵀ(A + δI)⁻¹φ with a constant 1 in φ, A without the training example of this number.
func (s *scene) slowLeverage(phi *mat.VecDense, without int) float64 {
	with := func(v *mat.VecDense) *mat.VecDense {
		return mat.NewVecDense(s.d+1, append(slices.Clone(v.RawVector().Data), 1))
	}
	a := mat.NewSymDense(s.d+1, nil)
	for _, v := range vectors(s.train, s.d) {
		a.SymRankOne(a, 1, with(v))
	}
	delta := 1e-3 * mat.Trace(a) / float64(s.d+1)
	if without >= 0 {
		a.SymRankOne(a, -1, with(vectors(s.train, s.d)[without]))
	}
	for i := range s.d + 1 {
		a.SetSym(i, i, a.At(i, i)+delta)
	}
	var inverse mat.Dense
	if err := inverse.Inverse(a); err != nil {
		panic(err)
	}
	x := with(phi)
	return mat.Inner(x, &inverse, x)
}

// slowOwnDistance is the squared distance of the direction of phi to the predicted class, among directions.
func (s *scene) slowOwnDistance(phi *mat.VecDense) float64 {
	of := *s
	of.train = s.directions()
	a := s.logits(phi)
	class := slices.Index(a, slices.Max(a))
	if s.k == 1 && a[0] > 0 {
		class = 1
	}
	means, within := of.classes()
	var u mat.VecDense
	u.ScaleVec(1/mat.Norm(phi, 2), phi)
	return squaredDistance(&u, means[class], within, 1e-2)
}

// directions are those of the training examples.
func (s *scene) directions() []float32 {
	units := make([]float32, 0, len(s.train))
	for _, v := range vectors(s.train, s.d) {
		for j := range s.d {
			units = append(units, float32(v.AtVec(j)/mat.Norm(v, 2)))
		}
	}
	return units
}

// slowMahalanobis is the squared distance to the nearest class.
func (s *scene) slowMahalanobis(phi *mat.VecDense) float64 {
	means, within := s.classes()
	least := math.Inf(1)
	for _, m := range means {
		least = min(least, squaredDistance(phi, m, within, ridge))
	}
	return least
}

// classes are the means of classes, and the training examples less these.
func (s *scene) classes() (means map[int]*mat.VecDense, within []*mat.VecDense) {
	of := map[int][]*mat.VecDense{}
	for i, v := range vectors(s.train, s.d) {
		of[s.labels[i]] = append(of[s.labels[i]], v)
	}
	means = map[int]*mat.VecDense{}
	for c, rows := range of {
		means[c] = meanOf(rows)
		for _, v := range rows {
			v.SubVec(v, means[c])
			within = append(within, v)
		}
	}
	return means, within
}

// slowResidual is what is left of φ - u without its part in the principal space.
func (s *scene) slowResidual(phi *mat.VecDense) float64 {
	u := s.slowOrigin()
	moments := mat.NewSymDense(s.d, nil)
	for _, v := range vectors(s.train, s.d) {
		v.SubVec(v, u)
		moments.SymRankOne(moments, 1, v)
	}
	var eigen mat.EigenSym
	if !eigen.Factorize(moments, true) {
		panic("no eigenvectors")
	}
	var q mat.Dense
	eigen.VectorsTo(&q)
	left := mat.VecDenseCopyOf(phi)
	left.SubVec(left, u)
	for j := s.d - s.d/2; j < s.d; j++ { // the largest come last
		v := q.ColView(j)
		left.AddScaledVec(left, -mat.Dot(left, v), v)
	}
	return mat.Norm(left, 2)
}

// slowOrigin is -W⁺b.
func (s *scene) slowOrigin() *mat.VecDense {
	var svd mat.SVD
	if !svd.Factorize(mat.NewDense(s.k, s.d, s.w), mat.SVDThin) {
		panic("no singular values")
	}
	var x mat.VecDense
	svd.SolveVecTo(&x, mat.NewVecDense(s.k, s.b), len(svd.Values(nil)))
	x.ScaleVec(-1, &x)
	return &x
}

// With fewer components than features, the distance is that of a covariance with the mean of the other eigenvalues in
// their place.
func TestDistanceToThePredictedClassInLeadingComponents(t *testing.T) {
	t.Parallel()
	const d, r = 17, 5
	s := newScene(layer.Softmax, 4, d, 150, 3)
	fitted, err := s.Directions.fitDirections(r)
	if err != nil {
		t.Fatal(err)
	}
	terms := Numbers(s.examples())
	got := ownDistance(terms, fitted, toOwnMean(terms, fitted, terms.Number(1)))
	units := *s
	units.train = s.directions()
	means, within := units.classes()
	covariance := mat.NewSymDense(d, nil)
	for _, v := range within {
		covariance.SymRankOne(covariance, 1/float64(len(within)), v)
	}
	var eigen mat.EigenSym
	if !eigen.Factorize(covariance, true) {
		t.Fatal("no eigenvectors")
	}
	lambda := eigen.Values(nil) // the largest come last
	var q mat.Dense
	eigen.VectorsTo(&q)
	ridge, rest := directionRidge*mat.Trace(covariance)/d, 0.0
	for _, v := range lambda[:d-r] {
		rest += v / (d - r)
	}
	for i, phi := range vectors(s.queries, d) {
		a := s.logits(phi)
		var diff mat.VecDense
		diff.SubVec(phi, means[slices.Index(a, slices.Max(a))])
		var want float64
		for j, v := range lambda {
			if j < d-r {
				v = rest
			}
			z := mat.Dot(q.ColView(j), &diff)
			want += z * z / (v + ridge)
		}
		if !approx.Relative(got.at(i, 0), want, 1e-5) { // features are float32
			t.Errorf("query %d: %v, want %v", i, got.at(i, 0), want)
		}
	}
}

// Each fitted score equals its definition, whatever the head and whether there are more
// logits or more features.
func TestFittedScoresAreTheirDefinitions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		link layer.Link
		k, d int
	}{
		{layer.Softmax, 4, 17}, {layer.Softmax, 9, 6}, {layer.Softmax, 2, 7}, {layer.OneVsRest, 4, 11},
		{layer.Sigmoid, 1, 6}, {layer.Sigmoid, 5, 8},
	} {
		s := newScene(c.link, c.k, c.d, 150, 3)
		for _, entry := range All {
			if !entry.NeedsFitting() {
				continue
			}
			fitted, err := entry.Fit(s.Training)
			refused := entry.Name == "learned" || entry.Name == "vim" && c.link != layer.Softmax ||
				strings.Contains(entry.Name, "mahalanobis") && c.link == layer.Sigmoid && c.k > 1
			if refused != errors.Is(err, ErrNoFit) || !refused && err != nil {
				t.Errorf("%s of %s: %v", entry.Name, c.link, err)
			}
			if err != nil {
				continue
			}
			twin := twins[entry.Name]
			if twin == nil {
				t.Errorf("%s has no twin", entry.Name)
				continue
			}
			got := fitted.Values(s.examples())
			for i, phi := range vectors(s.queries, s.d) {
				if want := twin(s, phi); !approx.Equal(got[i], want, 1e-6*(1+math.Abs(want))) {
					t.Errorf("%s, %s %d×%d: query %d has %v, want %v", entry.Name, c.link, c.k, c.d, i, got[i], want)
				}
			}
		}
	}
}

// The error names what a score cannot be fitted to.
func TestScoresThatCannotBeFittedReturnErrNoFit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(t *Training)
		of     []Score
		want   string
	}{
		"no weights": {func(t *Training) { t.W, t.B = nil, nil }, []Score{react, ash, fdbd, residual, vim},
			"needs the weights of the last layer"},
		"no sample": {func(t *Training) { t.Sample = Sample{} }, []Score{react, vim, knn}, "needs a sample of the training data"},
		"no classes": {func(t *Training) { t.ClassSums, t.ClassCounts = nil, nil }, []Score{mahalanobis, relativeMahalanobis},
			"sums of features by class"},
		"nothing varies": {func(t *Training) {
			*t = *trainingOf(make([]float32, 30), make([]int, 10), make([]float64, 6), make([]float64, 2),
				layer.Softmax)
		},
			[]Score{mahalanobis}, "do not vary within classes"},
		"no features": {func(t *Training) { clear(t.Sample.Features) }, []Score{knn}, "all features of training examples are 0"},
		"negative logits": {func(t *Training) {
			for i := range t.B {
				t.B[i] = -100
			}
		}, []Score{vim}, "want both positive"},
		"many features": {func(t *Training) { t.D = mostMoments + 1 }, []Score{mahalanobis, relativeMahalanobis, residual, vim},
			"the moments of 4097 features"},
		"many classes": {func(t *Training) { t.K = mostBoundaries + 1 }, []Score{fdbd}, "boundaries between all pairs of 4097 classes"},
	} {
		for _, entry := range c.of {
			s := newScene(layer.Softmax, 3, 6, 80, 5)
			c.change(s.Training)
			_, err := entry.Fit(s.Training)
			if !errors.Is(err, ErrNoFit) || !strings.Contains(err.Error(), entry.Name+": cannot be fitted: ") ||
				!strings.Contains(err.Error(), c.want) {
				t.Errorf("%s, %s: error %v, want %q", name, entry.Name, err, c.want)
			}
		}
	}
}

// A class without examples has no mean to be near to, and features that never vary count for much.
func TestMahalanobisSkipsClassesWithoutExamples(t *testing.T) {
	t.Parallel()
	s := newScene(layer.Softmax, 4, 6, 80, 7)
	for i := range s.labels {
		s.labels[i] %= 3
	}
	for at := 5; at < len(s.train); at += s.d {
		s.train[at] = 0 // dead
	}
	s.Training = trainingOf(s.train, s.labels, s.w, s.b, layer.Softmax)
	for at := 5; at < len(s.queries); at += s.d {
		s.queries[at] = 0
	}
	s.queries[5] = 1
	fitted := must(mahalanobis.Fit(s.Training))
	if shape := fitted.Tensors.Of("means").Shape; shape[1] != 3 {
		t.Errorf("means of %d classes, want 3", shape[1])
	}
	got := fitted.Values(s.examples())
	if got[0] < 100*slices.Max(got[1:]) {
		t.Errorf("a dead feature awakes: %v, and others have %v", got[0], got[1:])
	}
	for i, phi := range vectors(s.queries, s.d) {
		if want := s.slowMahalanobis(phi); !approx.Relative(got[i], want, 1e-6) {
			t.Errorf("query %d has %v, want %v", i, got[i], want)
		}
	}
}

// The distance to a neighbour is the same in a sample of the training data: k is proportional to its size.
func TestNeighboursAreInProportionToTheSample(t *testing.T) {
	t.Parallel()
	s := newScene(layer.Softmax, 3, 6, 80, 9)
	for _, c := range []struct{ of, k int }{
		{80, 50}, {600, 7}, {700, 6}, {800, 5}, {1000, 4}, {4000, 1}, {1 << 40, 1},
	} {
		s.N = c.of
		if k := must(fitKNN(s.Training)).Of("k").Data[0]; k != float64(c.k) {
			t.Errorf("k = %v of %d examples in %d, want %d", k, s.Sample.M, c.of, c.k)
		}
	}
	s.N, s.Sample.M = 3, 3
	s.Sample.Features = s.Sample.Features[:3*s.d]
	few := must(knn.Fit(s.Training))
	if k := few.Tensors.Of("k").Data[0]; k != 3 {
		t.Errorf("k = %v of 3 examples", k)
	}
	// A bundle may say anything.
	for _, k := range []float64{-1, 0, 1e300} {
		few.Tensors[1].Data[0] = k
		for _, v := range few.Values(s.examples()) {
			if !(v > 0 && v < 2) {
				t.Errorf("k = %v: distance %v", k, v)
			}
		}
	}
}

// As in the paper and its code, which have these numbers for 2,048 and 768 features.
func TestPrincipalSpacesHaveThePapersDimensions(t *testing.T) {
	t.Parallel()
	for d, want := range map[int]int{2: 1, 7: 3, 767: 383, 768: 512, 2047: 512, 2048: 1000, 4096: 1000} {
		if got := principalDimensions(d); got != want {
			t.Errorf("%d of %d dimensions, want %d", got, d, want)
		}
	}
}

// NaN, infinite or zero query features do not pass as in-distribution: a value that is not finite gets the highest
// score, and a finite score is at least those of training.
func TestFeaturesThatAreNaNOrZeroScoreAsOOD(t *testing.T) {
	t.Parallel()
	s := newScene(layer.Softmax, 3, 12, 200, 11)
	var fitted *Fitted
	for _, entry := range All {
		if !entry.NeedsFitting() {
			continue
		}
		if entry.Name == "learned" {
			in, out := inAndOut(s)
			fitted = must(Learn(s.Training, in, out))
		} else {
			fitted = must(entry.Fit(s.Training))
		}
		for _, bad := range []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))} {
			x := s.examples()
			x.Features = slices.Clone(x.Features)
			x.Features[0] = bad
			for c := range x.K {
				x.Logits[c] = bad
			}
			got := fitted.Values(x)
			usual := slices.Clone(got[1:])
			slices.Sort(usual)
			if v := got[0]; v-v == 0 && v < usual[len(usual)/2] {
				t.Errorf("%s of features with %v: %v, less than the usual %v", entry.Name, bad, v, usual[len(usual)/2])
			}
		}
	}
}
