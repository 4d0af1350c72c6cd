package calibrate

import (
	"fmt"
	"math"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/internal/option"
	"github.com/mfgs/mfgs/internal/parallel"
)

// Covariance is the form of the posterior's covariance, with H̃ = H + εI and J̃ = J + εI (paper, eq. 15).
type Covariance string

const (
	Hessian  Covariance = "hessian"  // H̃⁻¹
	Fisher   Covariance = "fisher"   // J̃⁻¹
	Sandwich Covariance = "sandwich" // H̃⁻¹JH̃⁻¹
	External Covariance = "external" // of another program, see [FitExternal]
)

// NeedsFisher reports whether the covariance needs J, and so labels.
func (c Covariance) NeedsFisher() bool { return c == Fisher || c == Sandwich }

// Validate reports an unknown covariance.
func (c Covariance) Validate() error {
	switch c {
	case Hessian, Fisher, Sandwich, External:
		return nil
	}
	return option.Errorf("%s %q, want hessian, fisher, sandwich or external", option.Covariance, c)
}

// leverageDamping is relative to the mean eigenvalue of A.
const leverageDamping = 1e-3

// Posterior is the Gaussian over the last layer's weights at ensemble temperature 1, in the form that gives
// logit variances. Matrices are row-major and immutable.
type Posterior struct {
	Head       layer.Head
	Structure  Structure // Full or Kronecker
	Covariance Covariance
	Epsilon    float64 // ε, added to every eigenvalue; 0 for External

	// Affine, unless nil, is matrix scaling: the variances are those of the mapped logits.
	Affine *layer.Affine

	// Full: Blocks [K,D,D] holds the Σ_kk, and Leverage [D,D] is (A + δI)⁻¹. For separate logits the Σ_kk are
	// all of Σ.
	Blocks []float64

	// Kronecker: eigenvectors (in columns) and eigenvalues of A [D,D], [D] and of B [K,K], [K]; V [D,K], see
	// invertKronecker. QB is nil if B is diagonal. Leverage [D] is 1/(λ_A + δ), one more column of V.
	//
	// An External posterior is not made of A and B: it has QA and V, any orthogonal directions of features and the
	// variances along them, no eigenvalues, and Leverage [D,D] is (A + δI)⁻¹.
	QA, LambdaA []float64
	QB, LambdaB []float64
	V           []float64

	Leverage []float64

	leaveOneOut bool
}

// LeaveOneOut returns the posterior for examples that its curvature includes: their leverages are those without the
// example itself. By the Sherman-Morrison formula h becomes h/(1-h). Variances are unchanged: they count only times a
// temperature that is tuned with them.
func (p *Posterior) LeaveOneOut() *Posterior {
	other := *p
	other.leaveOneOut = true
	return &other
}

func checkDamping(epsilon float64) error {
	if !(epsilon > 0) || math.IsInf(epsilon, 1) {
		return fmt.Errorf("damping %v, want a positive finite number: the Hessian has zero eigenvalues", epsilon)
	}
	return nil
}

// batchRows bounds the rows processed at once, and so the memory.
const batchRows = 512

// Variances writes the variance of each logit at ensemble temperature 1 to dst [n,K], for features phi [n,d]: the
// diagonal of ∇a Σ ∇aᵀ (paper, eq. 19).
func (p *Posterior) Variances(dst []float64, phi []float32, n int) {
	must(p.forms(parallel.Go{}, dst, nil, phi, n))
}

// Leverages writes φᵀ(A + δI)⁻¹φ of each example to dst [n], with δ = 1e-3 of the mean eigenvalue of A = Σφφᵀ:
// how far an input is from the training data.
func (p *Posterior) Leverages(dst []float64, phi []float32, n int) {
	must(p.forms(parallel.Go{}, nil, dst, phi, n))
}

// Both is Variances and Leverages, for little more than the cost of Variances.
func (p *Posterior) Both(variances, leverages []float64, phi []float32, n int) {
	must(p.forms(parallel.Go{}, variances, leverages, phi, n))
}

// must is for products in pure Go, which never fail.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// forms computes variances and leverages, either of which may be nil, block by block.
func (p *Posterior) forms(product parallel.Product, variances, leverages []float64, phi []float32, n int) error {
	k, d, features := p.Head.Logits, p.Head.Dim(), p.Head.Features
	if len(phi) != n*features {
		panic(fmt.Sprintf("calibrate: %d features for %d examples, want %d each", len(phi), n, features))
	}
	size := min(n, batchRows)
	x, u := make([]float64, size*d), make([]float64, size*d)
	for first := 0; first < n; first += batchRows {
		rows := min(batchRows, n-first)
		for r := range rows {
			augment(p.Head, x[r*d:(r+1)*d], phi[(first+r)*features:(first+r+1)*features])
		}
		x, u := x[:rows*d], u[:rows*d]
		v, l := variances, leverages
		if v != nil {
			v = v[first*k : (first+rows)*k]
		}
		if l != nil {
			l = l[first : first+rows]
		}
		var err error
		if p.Structure == Full {
			err = p.formsFull(product, v, l, x, u)
		} else {
			err = p.formsKronecker(product, v, l, x, u)
		}
		if err != nil {
			return err
		}
	}
	if p.leaveOneOut {
		const rest = 1e-9 // of 1-h, which is positive but for rounding
		for i, h := range leverages {
			leverages[i] = h / math.Max(1-h, rest)
		}
	}
	return nil
}

// formsFull is forms for rows x of augmented φ. t is work space of the same size.
func (p *Posterior) formsFull(product parallel.Product, variances, leverages, x, t []float64) error {
	k, d := p.Head.Logits, p.Head.Dim()
	for i := 0; i < k && variances != nil; i++ {
		if err := quadratic(product, variances[i:], k, x, p.Blocks[i*d*d:(i+1)*d*d], t, d); err != nil {
			return err
		}
	}
	if leverages == nil {
		return nil
	}
	return quadratic(product, leverages, 1, x, p.Leverage, t, d)
}

// formsKronecker is formsFull for the Kronecker structure, where all are linear in u = (Q_Aᵀφ)², but the leverages of
// an External posterior.
func (p *Posterior) formsKronecker(product parallel.Product, variances, leverages, x, u []float64) error {
	k, d := p.Head.Logits, p.Head.Dim()
	rows := len(x) / d
	if p.Covariance == External && leverages != nil {
		if err := quadratic(product, leverages, 1, x, p.Leverage, u, d); err != nil {
			return err
		}
		leverages = nil
	}
	if err := product.Multiply(u, x, p.QA, rows, d, d); err != nil {
		return err
	}
	for i, v := range u {
		u[i] = v * v
	}
	for r := range leverages {
		var sum float64
		for i, v := range u[r*d : (r+1)*d] {
			sum += v * p.Leverage[i]
		}
		leverages[r] = sum
	}
	if variances == nil {
		return nil
	}
	return product.Multiply(variances, u, p.V, rows, d, k)
}

// quadratic writes xᵀmx of each row x to dst, stride apart.
func quadratic(product parallel.Product, dst []float64, stride int, x, m, t []float64, d int) error {
	rows := len(x) / d
	if err := product.Multiply(t, x, m, rows, d, d); err != nil {
		return err
	}
	for r := range rows {
		var sum float64
		for i, v := range x[r*d : (r+1)*d] {
			sum += v * t[r*d+i]
		}
		dst[r*stride] = math.Max(0, sum)
	}
	return nil
}
