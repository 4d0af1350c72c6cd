package meanfield

import "math"

// tolerance bounds the error of the interpolated log-sum-exp in nats, which is the relative error of a single ẽ_k.
// It is far below what float32 logits resolve.
const tolerance = 1e-9

// Nothing is interpolated beyond this log(T_max/T_min), nor with fewer classes, where the exact form is as fast.
const (
	maxLength  = 100
	fewClasses = 24
)

// Workspace evaluates mf0 for a fixed number of classes without allocating. It is not safe for concurrent use.
type Workspace struct {
	classes int
	lambda0 float64
	angle   float64 // see strip
	shifted []float64
	b       []float64
	f       piecewise
}

// NewWorkspace returns a Workspace for K = classes and the given λ₀; zero means [Lambda0].
func NewWorkspace(classes int, lambda0 float64) *Workspace {
	if classes < 1 {
		panic("meanfield: no classes")
	}
	if lambda0 == 0 {
		lambda0 = Lambda0
	}
	return &Workspace{
		classes: classes,
		lambda0: lambda0,
		angle:   strip(classes),
		shifted: make([]float64, classes),
		b:       make([]float64, classes),
	}
}

// strip returns the half-width θ of the strip |Im t| < θ in which f(t) = log Σ_i exp(e^t δ_i), δ_i
// ≤ 0 with one δ = 0, is analytic for all logits: θ = atan(π / log(K-1)).
//
// f has its singularities where Σ_i exp(z δ_i) = 0, z = e^t = x + iy. Let c = x/|y| = cot|arg z|
// and φ_i = -δ_i |y| ≥ 0 for the K-1 classes other than the first; at a zero
//
//	Σ e^(-cφ_i) cos φ_i = -1,  Σ e^(-cφ_i) sin φ_i = 0.
//
// The function h(φ) = -e^(c(π-φ)) (cos φ + c sin φ) has the derivative
// (1+c²) e^(c(π-φ)) sin φ, so that on φ ≥ 0 its largest value is h(π) = 1. Summed over
// the classes, the two equations give Σ h(φ_i) = e^(cπ), which is therefore at
// most K-1: cot|arg z| ≤ log(K-1)/π. Equal δ reach the bound, with φ_i = π.
func strip(classes int) float64 {
	return math.Atan2(math.Pi, math.Log(float64(max(classes-1, 2))))
}

// Nodes returns how many Chebyshev nodes interpolate f over an interval of t of length L =
// log(T_max/T_min), for any logits of so many classes, to within tolerance, in nats.
//
// Mapped to [-1,1], f is analytic in the Bernstein ellipse whose minor half-axis is θ/(L/2), so ρ =
// x + √(1+x²) with x = 2θ/L, and the error of interpolation at m nodes is at most 4M ρ^-m / (ρ-1)
// (Trefethen, Approximation Theory and Approximation Practice, theorem 8.2), where M is the largest
// |f| on the ellipse. ρ is taken 5 % inside, where |Im t| ≤ 0.95 θ.
//
// M is at most 50 log K. In the strip Re e^t > 0, so that Re f = log |Σ exp(e^t δ_i)|
// is at most log K. About any real t_0 the strip is the disc |w| < 1 of
// w = tanh(π(t-t_0)/4θ), in which |w| ≤ r = tan(0.95 π/4) where t has the real part t_0
// and |Im t| ≤ 0.95 θ. There, by Borel and Carathéodory's theorem,
//
//	|f| ≤ 2r/(1-r) log K + (1+r)/(1-r) |f(t_0)|,  0 ≤ f(t_0) ≤ log K.
//
// F = f - log K, which is interpolated, has a real part of at most zero there, so that by
// the same theorem |F| ≤ (1+r)/(1-r) |F(t_0)|. F(b) is convex with F(0) = 0, and t_0 is no
// further from the interval than θ: |F(t_0)| is at most e^θ times as large as F is in it.
// Together |F| is at most 120 times that, and the error of interpolation at most 2.4
// |F|/log K times the tolerance: relative to F where that is small.
func Nodes(classes int, length, tolerance float64) int {
	return nodes(classes, strip(classes), length, tolerance)
}

func (w *Workspace) nodes(length float64) int {
	return nodes(w.classes, w.angle, length, tolerance)
}

func nodes(classes int, angle, length, tolerance float64) int {
	x := 2 * angle / length * 0.95
	rho := x + math.Sqrt(1+x*x)
	size := 4 * 50 * math.Log(float64(classes)) / (rho - 1)
	return max(4, int(math.Ceil(math.Log(math.Max(1, size)/tolerance)/math.Log(rho))))
}

// MF0 is the mean-field approximation mf0 (paper, eq. 9) of one example in O(mK). It agrees with [MF0Exact] to a
// relative 1e-9 in each ẽ_k.
//
// The K log-sum-exps over i of μ_i/T_k are, minus log K, values of one function F(b) = log mean_i exp(b(μ_i - max
// μ)) at b = 1/T_k. The example's interval of t = log b is divided into parts. F is sampled at m Chebyshev nodes
// of each, and evaluated by Clenshaw's recurrence, which is stable for any m. If that would cost as much as the
// exact form, the exact form is used.
//
// MF0 writes log-probabilities to logp (K values), which must not overlap mu, and returns the margin.
func (w *Workspace) MF0(logp, mu, s2 []float64) (margin float64) {
	checkLen("logp", len(logp), w.classes)
	checkLen("mu", len(mu), w.classes)
	checkLen("s2", len(s2), w.classes)

	lo, hi := math.Inf(1), math.Inf(-1)
	for k, v := range s2 {
		t := 1 + w.lambda0*v
		w.b[k] = t
		lo, hi = math.Min(lo, t), math.Max(hi, t)
	}
	// t = 1+λ₀s² is T², so that the interval of log b = -½ log t has this length.
	length := 0.5 * math.Log(hi/lo)
	// Infinite variances have no interval, and take the exact form too.
	if w.classes < fewClasses || !(length < maxLength) {
		return MF0Exact(logp, mu, s2, w.lambda0)
	}

	top := argmax(mu)
	for i, v := range mu {
		w.shifted[i] = v - mu[top]
	}
	if !w.f.interpolate(w.shifted, -0.5*math.Log(hi), -0.5*math.Log(lo), w.nodes) {
		return MF0Exact(logp, mu, s2, w.lambda0)
	}
	for k, t := range w.b {
		logp[k] = w.shifted[k]/math.Sqrt(t) - w.f.at(-0.5*math.Log(t))
	}
	return normalize(logp)
}
