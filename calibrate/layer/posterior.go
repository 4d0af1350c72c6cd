package layer

// Temperatures are the two numbers that the method tunes: μ = a/T_act, and the covariance is Σ/T_ens
// (paper, Algorithm 1). T_act divides the logits alone, not their variance.
type Temperatures struct {
	Act float64 `yaml:"act" json:"act"`
	Ens float64 `yaml:"ens" json:"ens"`
}

// Quadratic is a posterior as M = K+1 quadratic forms of an example's features φ: the variances of the K
// logits at ensemble temperature 1, and the leverage. All are sums of squares, which lose little in float32:
//
//	z = (φ - Center)·Projection + Offset
//	q_m = Σ_r z_r² (Reduction·Weights)_rm       with Weights: Kronecker, R = D, or 2D of an external posterior
//	q_m = Σ_j z_{mD+j}²                         Weights nil: full, R = M·D
//
// Reduction·Weights is V and the leverages. They are smooth functions of λ_A, so that S of their rows may give
// all others; where they do not, Reduction is nil and is left out of the product.
//
// Offset makes up for Center. Subtracting the mean of the features changes only the rounding: what cancels in
// z is then no larger than their spread.
type Quadratic struct {
	Forms      int       // M
	Center     []float64 // [d]
	Projection []float64 // [d,R], row-major
	Offset     []float64 // [R]
	Reduction  []float64 // [R,S], or nil
	Weights    []float64 // [S,M], or [R,M] without Reduction, or nil

	// Ratio bounds the ratio of the variances of two logits of an example, whatever its features; +Inf without a bound.
	Ratio float64

	// Double says that z needs float64: in float32 the forms of features like the training features would
	// be off by more than 3e-5 of their size.
	Double bool
}
