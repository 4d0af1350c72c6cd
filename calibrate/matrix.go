package calibrate

import (
	"context"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/optimize"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/internal/eigen"
	"github.com/mfgs/mfgs/internal/parallel"
)

// The prior of matrix scaling is normal, around temperature scaling. Its precisions, but for that of the scale, follow
// from the data, and are at least leastPrecision: 50 examples could not tell standard deviations above ½.
const (
	scalePrecision = 100.0 // of the logarithm of the common scale
	leastPrecision = 4.0
	mostPrecision  = 1e6

	// leastEvidence is the logarithm of the Bayes factor for which matrix scaling is tried, in nats.
	leastEvidence = 0.5
)

// matrixScaling is the model a/T ↦ eˢ·a/T + b + V w(a), fitted to labels. Its directions w, of mean 0 and variance 1 on
// the validation data, are the principal components of the logits and V is [K,R]; or, for separate logits, each logit's
// own, and V is [K].
//
// It has the classes that the labels have. A class without examples would only become less probable.
type matrixScaling struct {
	head        layer.Head // of these classes
	classes     []int      // their numbers
	temperature float64
	n, r        int       // examples; directions, or 0 for each logit's own
	labels      []int     // among these classes; nil for a multi-label head
	targets     []uint8   // [N,K]
	x, w        []float64 // [N,K], a/T; [N,R] or [N,K]
	mean        []float64 // [K] of x
	basis       []float64 // w = (x - mean)·basis, [K,R]; or w = (x - mean)∘basis, [K]
	fixed       bool      // s = 0

	at       []float64 // where value and gradient were computed
	value    float64
	gradient []float64
	z        []float64 // [N,K]; then its gradient
}

// MatrixScaled is matrix scaling fitted to validation data.
type MatrixScaled struct {
	Affine *layer.Affine // nil if there was nothing to fit
	// Evidence is the logarithm of the Bayes factor against temperature scaling, in nats.
	Evidence float64
	// Logits are the images [N,K] of the validation examples, each under a map that was fitted without its fifth of
	// them. They are nil without sufficient evidence.
	Logits []float64
}

// mostLogits bounds the logits that a map is fitted to: of more, evenly spaced examples. It is 4,000 examples of 1,000
// classes, which take half a minute.
const mostLogits = 4 << 20

// FitMatrix fits matrix scaling to validation data, beginning with temperature scaling's T.
func FitMatrix(ctx context.Context, h layer.Head, s *rows.Batch, temperature float64) (f MatrixScaled, err error) {
	which := rows.Firsts(s.N, min(s.N, max(1, mostLogits/h.Logits)))
	some := s
	if len(which) < s.N {
		some = s.Pick(which)
	}
	m := newMatrixScaling(h, some, temperature)
	if m == nil {
		return f, nil
	}
	theta, precision, evidence, err := m.fit(ctx)
	if err != nil {
		return f, fmt.Errorf("matrix scaling: %w", err)
	}
	f.Affine, f.Evidence = m.affine(h, theta), evidence
	if evidence <= leastEvidence {
		return f, nil
	}
	unseen, err := m.crossFit(ctx, h, some, theta, precision)
	if err != nil {
		return f, fmt.Errorf("matrix scaling: %w", err)
	}
	k := h.Logits
	f.Logits = mapped(f.Affine, k, s.Logits)
	for j, i := range which {
		copy(f.Logits[i*k:(i+1)*k], unseen[j*k:(j+1)*k])
	}
	return f, nil
}

// crossFit returns [MatrixScaled.Logits].
func (m *matrixScaling) crossFit(ctx context.Context, h layer.Head, s *rows.Batch, theta, precision []float64) (
	[]float64, error,
) {
	logits, of := make([]float64, len(s.Logits)), m.folds()
	for fold := range folds {
		var others []int
		for i := range m.n {
			if of[i] != fold {
				others = append(others, i)
			}
		}
		if len(others) == 0 || len(others) == m.n {
			continue
		}
		part, at := m.pick(others), slices.Clone(theta)
		if err := part.minimise(ctx, at, precision, len(at)); err != nil {
			return nil, err
		}
		f, k := part.affine(h, at), h.Logits
		for i := range m.n {
			if of[i] == fold {
				f.To(logits[i*k:(i+1)*k], s.Logits[i*k:(i+1)*k])
			}
		}
	}
	return logits, nil
}

const folds = 5

// folds returns the fold of each example. A fold has a fifth of each class, whose examples are neighbours: they may be
// copies of one another. Of several labels it has a fifth of all examples.
func (m *matrixScaling) folds() []int {
	class := func(i int) int { return 0 }
	switch {
	case m.labels != nil:
		class = func(i int) int { return m.labels[i] }
	case len(m.targets) == m.n:
		class = func(i int) int { return int(m.targets[i]) }
	}
	counts, rank, of := map[int]int{}, map[int]int{}, make([]int, m.n)
	for i := range m.n {
		counts[class(i)]++
	}
	for i := range m.n {
		c := class(i)
		of[i] = rank[c] * folds / counts[c]
		rank[c]++
	}
	return of
}

// pick returns the model for some of the examples.
func (m *matrixScaling) pick(examples []int) *matrixScaling {
	k, n := len(m.classes), len(examples)
	part := *m
	part.n, part.at, part.gradient, part.z = n, nil, make([]float64, m.size()), make([]float64, n*k)
	width := 0
	if m.n > 0 {
		width = len(m.w) / m.n
	}
	part.x, part.w = make([]float64, 0, n*k), make([]float64, 0, n*width)
	part.labels, part.targets = nil, nil
	for _, i := range examples {
		part.x, part.w = append(part.x, m.x[i*k:(i+1)*k]...), append(part.w, m.w[i*width:(i+1)*width]...)
		if m.targets != nil {
			part.targets = append(part.targets, m.targets[i*k:(i+1)*k]...)
		} else {
			part.labels = append(part.labels, m.labels[i])
		}
	}
	return &part
}

func newMatrixScaling(h layer.Head, s *rows.Batch, temperature float64) *matrixScaling {
	m := &matrixScaling{head: h, n: s.N, temperature: temperature}
	m.classes = present(h, s)
	k := len(m.classes)
	if k == 0 || k == 1 && !(h.Link == layer.Sigmoid) {
		return nil
	}
	m.fixed = k < h.Logits
	m.head.Logits = k
	m.x, m.z = make([]float64, s.N*k), make([]float64, s.N*k)
	number := make([]int, max(h.Classes(), h.Logits))
	for j, c := range m.classes {
		number[c] = j
		for i := range s.N {
			m.x[i*k+j] = float64(s.Logits[i*h.Logits+c]) / temperature
		}
	}
	switch {
	case h.MultiLabel():
		m.targets = make([]uint8, s.N*k)
		for i := range s.N {
			for j, c := range m.classes {
				m.targets[i*k+j] = s.Targets[i*h.Logits+c]
			}
		}
	case h.Link == layer.Sigmoid:
		m.targets = make([]uint8, s.N)
		for i, y := range s.Labels {
			m.targets[i] = uint8(y)
		}
	default:
		for _, y := range s.Labels {
			m.labels = append(m.labels, number[y])
		}
	}
	m.directions(h)
	m.gradient = make([]float64, m.size())
	return m
}

// present returns the classes that labels have, or the logits whose label is both present and absent.
func present(h layer.Head, s *rows.Batch) (classes []int) {
	counts := make([]int, h.Logits)
	if h.MultiLabel() {
		for i, y := range s.Targets {
			counts[i%h.Logits] += int(y)
		}
	} else if h.Link == layer.Sigmoid {
		for _, y := range s.Labels {
			counts[0] += y
		}
	} else {
		for _, y := range s.Labels {
			counts[y]++
		}
	}
	for c, n := range counts {
		if n > 0 && (h.Link != layer.Sigmoid || n < s.N) {
			classes = append(classes, c)
		}
	}
	return classes
}

// leastVariance is relative to the largest variance of a direction: smaller ones are differences that rounding makes.
const leastVariance = 1e-6

// directions sets mean, basis and w.
func (m *matrixScaling) directions(h layer.Head) {
	k, n := len(m.classes), float64(m.n)
	m.mean = make([]float64, k)
	for i, v := range m.x {
		m.mean[i%k] += v / n
	}
	centred := make([]float64, len(m.x))
	for i, v := range m.x {
		centred[i] = v - m.mean[i%k]
	}
	if h.Link.Separate() {
		m.ownDirections(centred)
	} else if rank := min(h.AffineRank(), k); rank > 0 {
		m.principalDirections(centred, rank)
	}
}

// ownDirections scales each logit to variance 1. A single logit has a scale already: its direction is zero.
func (m *matrixScaling) ownDirections(centred []float64) {
	k := len(m.classes)
	m.w, m.basis = centred, make([]float64, k)
	for i, v := range centred {
		m.basis[i%k] += v * v / float64(m.n)
	}
	most := slices.Max(m.basis)
	for j, v := range m.basis {
		if m.basis[j] = 0; v > leastVariance*most && k > 1 {
			m.basis[j] = 1 / math.Sqrt(v)
		}
	}
	for i := range m.w {
		m.w[i] *= m.basis[i%k]
	}
}

// principalDirections are the first principal components, at most rank. There are none if logits are not finite.
func (m *matrixScaling) principalDirections(centred []float64, rank int) {
	k := len(m.classes)
	covariance, x := make([]float64, k*k), general(centred, m.n, k)
	blas64.Gemm(blas.Trans, blas.NoTrans, 1/float64(m.n), x, x, 0, general(covariance, k, k))
	q, lambda, err := eigen.Semidefinite(covariance, k, 1)
	if err != nil {
		return
	}
	for rank > 0 && !(lambda[k-rank] > leastVariance*lambda[k-1]) { // they ascend
		rank--
	}
	if rank == 0 {
		return
	}
	m.r, m.basis, m.w = rank, make([]float64, k*rank), make([]float64, m.n*rank)
	for j := range rank {
		from := k - 1 - j
		for c := range k {
			m.basis[c*rank+j] = q[c*k+from] / math.Sqrt(lambda[from])
		}
	}
	blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, x, general(m.basis, k, rank), 0, general(m.w, m.n, rank))
}

// size returns the number of parameters: s, b and V.
func (m *matrixScaling) size() int {
	k := len(m.classes)
	if m.head.Link.Separate() {
		return 1 + 2*k
	}
	return 1 + k + k*m.r
}

// groups returns the parameters that share a precision: b and V.
func (m *matrixScaling) groups() [][2]int {
	k := len(m.classes)
	return [][2]int{{1, 1 + k}, {1 + k, m.size()}}
}

// logits sets z.
func (m *matrixScaling) logits(theta []float64) {
	k := len(m.classes)
	scale := math.Exp(theta[0])
	b, v := theta[1:1+k], theta[1+k:]
	if m.r > 0 {
		blas64.Gemm(blas.NoTrans, blas.Trans, 1, general(m.w, m.n, m.r), general(v, k, m.r), 0, general(m.z, m.n, k))
	}
	parallel.For(m.n, func(first, last int) {
		for i := first * k; i < last*k; i++ {
			switch {
			case m.r == 0 && len(v) > 0:
				m.z[i] = scale*m.x[i] + b[i%k] + v[i%k]*m.w[i]
			case m.r == 0:
				m.z[i] = scale*m.x[i] + b[i%k]
			default:
				m.z[i] += scale*m.x[i] + b[i%k]
			}
		}
	})
}

// evaluate computes the loss of all examples, and its gradient or, with information, the diagonal of the Fisher
// information.
func (m *matrixScaling) evaluate(theta []float64, information bool) (float64, []float64) {
	k := len(m.classes)
	m.logits(theta)
	losses := make([]float64, m.n)
	loss := links[m.head.Link].loss
	parallel.For(m.n, func(first, last int) {
		gradient, fisher := make([]float64, k), make([]float64, k)
		for i := first; i < last; i++ {
			z := m.z[i*k : (i+1)*k]
			if m.targets != nil {
				for j := range z {
					losses[i] += loss(gradient[j:j+1], fisher[j:j+1], z[j:j+1], int(m.targets[i*k+j]))
				}
			} else {
				losses[i] = loss(gradient, fisher, z, m.labels[i])
			}
			if copy(z, gradient); information {
				copy(z, fisher)
			}
		}
	})
	sums := make([]float64, len(theta))
	x, w := m.x, m.w
	if information {
		x, w = squares(x), squares(w)
	}
	scale := math.Exp(theta[0])
	if information {
		scale *= scale
	}
	b, v := sums[1:1+k], sums[1+k:]
	sums[0] = scale * floats.Dot(m.z, x)
	for i := range m.n {
		floats.Add(b, m.z[i*k:(i+1)*k])
	}
	if m.r == 0 && len(v) > 0 {
		for i, g := range m.z {
			v[i%k] += g * w[i]
		}
	}
	if m.r > 0 {
		blas64.Gemm(blas.Trans, blas.NoTrans, 1, general(m.z, m.n, k), general(w, m.n, m.r), 0, general(v, k, m.r))
	}
	return floats.Sum(losses), sums
}

// objective computes value and gradient at theta: the loss, plus half the precision of each parameter times its square.
func (m *matrixScaling) objective(theta, precision []float64) {
	if slices.Equal(m.at, theta) {
		return
	}
	m.at = append(m.at[:0], theta...)
	m.value, m.gradient = m.evaluate(theta, false)
	for i, v := range theta {
		m.value += precision[i] / 2 * v * v
		m.gradient[i] += precision[i] * v
	}
	if m.fixed {
		m.gradient[0] = 0
	}
}

// minimise minimises the objective over the first free parameters, from theta on, in place.
func (m *matrixScaling) minimise(ctx context.Context, theta, precision []float64, free int) error {
	m.at = nil
	whole := slices.Clone(theta)
	at := func(x []float64) {
		copy(whole, x)
		m.objective(whole, precision)
	}
	p := optimize.Problem{
		Func: func(x []float64) float64 { at(x); return m.value },
		Grad: func(grad, x []float64) { at(x); copy(grad, m.gradient) },
		Status: func() (optimize.Status, error) {
			if err := context.Cause(ctx); err != nil {
				return optimize.Failure, err
			}
			return optimize.NotTerminated, nil
		},
	}
	settings := &optimize.Settings{
		GradientThreshold: 1e-6 * float64(m.n),
		Converger:         &optimize.FunctionConverge{Absolute: 1e-3, Iterations: 3},
		MajorIterations:   500,
		Concurrent:        1,
	}
	result, err := optimize.Minimize(p, theta[:free], settings, &optimize.LBFGS{})
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if result == nil {
		return err
	}
	copy(theta, result.X) // also if the line search ended, at the least value that it found
	return nil
}

// begin sets the precisions to those of the greatest evidence of one Newton step from b = 0, V = 0, which it returns: a
// parameter with the gradient g and the information h adds g²/2(h+α) + log(α/(h+α))/2.
func (m *matrixScaling) begin(theta, precision []float64) (evidence float64) {
	_, gradient := m.evaluate(theta, false)
	_, information := m.evaluate(theta, true)
	for _, g := range m.groups() {
		best, at := math.Inf(-1), mostPrecision
		for alpha := leastPrecision; alpha <= mostPrecision; alpha *= 1.3 {
			var sum float64
			for i := g[0]; i < g[1]; i++ {
				h := information[i] + alpha
				sum += gradient[i]*gradient[i]/(2*h) + math.Log(alpha/h)/2
			}
			if sum > best {
				best, at = sum, alpha
			}
		}
		for i := g[0]; i < g[1]; i++ {
			precision[i] = at
		}
		evidence += best
	}
	return evidence
}

// fit returns the parameters and their precisions of the greatest evidence, by MacKay's updates with a diagonal Hessian
// (Bayesian Interpolation, 1992, eq. 4.5), and the logarithm of the Bayes factor against b = 0, V = 0.
func (m *matrixScaling) fit(ctx context.Context) (theta, precision []float64, evidence float64, err error) {
	theta = make([]float64, m.size())
	precision = slices.Repeat([]float64{mostPrecision}, len(theta))
	precision[0] = scalePrecision
	if err := m.minimise(ctx, theta, precision, 1); err != nil {
		return nil, nil, 0, err
	}
	m.at = nil
	m.objective(theta, precision)
	before := m.value
	if evidence = m.begin(theta, precision); evidence < leastEvidence/2 {
		return theta, precision, evidence, nil
	}
	const most, enough = 12, 0.1
	for range most {
		if err := m.minimise(ctx, theta, precision, len(theta)); err != nil {
			return nil, nil, 0, err
		}
		_, information := m.evaluate(theta, true)
		var moved float64
		for _, g := range m.groups() {
			if g[0] == g[1] {
				continue
			}
			old := precision[g[0]]
			var determined, square float64
			for i := g[0]; i < g[1]; i++ {
				determined += information[i] / (information[i] + old)
				square += theta[i] * theta[i]
			}
			updated := min(max(determined/max(square, 1e-12), leastPrecision), mostPrecision)
			for i := g[0]; i < g[1]; i++ {
				precision[i] = updated
			}
			moved = max(moved, math.Abs(math.Log(updated/old)))
		}
		if moved < enough {
			break
		}
	}
	if err := m.minimise(ctx, theta, precision, len(theta)); err != nil {
		return nil, nil, 0, err
	}
	_, information := m.evaluate(theta, true)
	m.at = nil
	m.objective(theta, precision)
	evidence = before - m.value
	for i := 1; i < len(theta); i++ {
		evidence += math.Log(precision[i]/(information[i]+precision[i])) / 2
	}
	return theta, precision, evidence, nil
}

// affine returns the map for all logits of the head.
func (m *matrixScaling) affine(h layer.Head, theta []float64) *layer.Affine {
	k, scale := len(m.classes), math.Exp(theta[0])
	b, v := theta[1:1+k], theta[1+k:]
	r := h.AffineRank()
	along := make([]float64, m.r) // the mean's directions
	for i := range along {
		for j, v := range m.mean {
			along[i] += v * m.basis[j*m.r+i]
		}
	}
	f := &layer.Affine{Scale: make([]float64, h.Logits), Offset: make([]float64, h.Logits),
		Left: make([]float64, h.Logits*r), Right: make([]float64, r*h.Logits)}
	for c := range f.Scale {
		f.Scale[c] = scale / m.temperature
	}
	for j, c := range m.classes {
		f.Offset[c] = b[j]
		if h.Link.Separate() {
			f.Scale[c] += v[j] * m.basis[j] / m.temperature
			f.Offset[c] -= v[j] * m.basis[j] * m.mean[j]
			continue
		}
		for i := range m.r {
			f.Left[c*r+i] = v[j*m.r+i]
			f.Right[i*h.Logits+c] = m.basis[j*m.r+i] / m.temperature
			f.Offset[c] -= v[j*m.r+i] * along[i]
		}
	}
	return f
}

// mapped returns the images of logits [N,K] under a map, which may be nil.
func mapped(f *layer.Affine, k int, logits []float32) []float64 {
	out := make([]float64, len(logits))
	parallel.For(len(logits)/k, func(first, last int) {
		for i := first; i < last; i++ {
			f.To(out[i*k:(i+1)*k], logits[i*k:(i+1)*k])
		}
	})
	return out
}

// smoothed returns a batch with log(p + ε) in place of its logits.
func smoothed(h layer.Head, b *rows.Batch, epsilon float64) *rows.Batch {
	if epsilon == 0 {
		return b
	}
	other := *b
	other.Logits = make([]float32, len(b.Logits))
	for i, v := range mapped(&layer.Affine{Smoothing: epsilon}, h.Logits, b.Logits) {
		other.Logits[i] = float32(v)
	}
	return &other
}

func squares(x []float64) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = v * v
	}
	return out
}
