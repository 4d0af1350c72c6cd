package calibrate

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/meanfield"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/calibrate/score"
	"github.com/mfgs/mfgs/internal/option"
	"github.com/mfgs/mfgs/internal/parallel"
)

// Damping is the rule for ε of H̃ = H + εI. The zero value is automatic.
type Damping struct {
	// Absolute, if positive, is ε. The paper has 1.
	Absolute float64
	// Relative, if positive, is ρ: ε is ρ times the mean eigenvalue.
	Relative float64
}

// ParseDamping reads "auto", a positive number (ε) or "rel:RHO".
func ParseDamping(s string) (Damping, error) {
	if s == "" || s == "auto" {
		return Damping{}, nil
	}
	number, relative := strings.CutPrefix(s, "rel:")
	v, err := strconv.ParseFloat(number, 64)
	if err != nil || !(v > 0) || math.IsInf(v, 0) {
		return Damping{}, option.Errorf("%s %q, want auto, a positive number or rel:RHO with a positive RHO", option.Damping, s)
	}
	if relative {
		return Damping{Relative: v}, nil
	}
	return Damping{Absolute: v}, nil
}

// Validate reports a damping that is negative, infinite, or both absolute and relative.
func (d Damping) Validate() error {
	for _, v := range []float64{d.Absolute, d.Relative} {
		if !(v >= 0) || math.IsInf(v, 1) {
			return option.Errorf("%s %v, want a positive number or zero for automatic", option.Damping, v)
		}
	}
	if d.Absolute > 0 && d.Relative > 0 {
		return option.Errorf("%s is both absolute, %v, and relative, %v: want one", option.Damping, d.Absolute, d.Relative)
	}
	return nil
}

// String returns the rule in the syntax of ParseDamping.
func (d Damping) String() string {
	switch {
	case d.Absolute > 0:
		return strconv.FormatFloat(d.Absolute, 'g', -1, 64)
	case d.Relative > 0:
		return "rel:" + strconv.FormatFloat(d.Relative, 'g', -1, 64)
	}
	return "auto"
}

// MarshalText returns the rule in the syntax of ParseDamping.
func (d Damping) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText is the inverse of MarshalText.
func (d *Damping) UnmarshalText(text []byte) (err error) {
	*d, err = ParseDamping(string(text))
	return err
}

// standard is the relative damping that automatic damping keeps unless one of autoDamping is better.
const standard = 1.0

var autoDamping = []float64{10, 0.1, 0.01}

// candidates returns the relative dampings to try, the standard one first. unit is the mean eigenvalue. For an
// absolute ε it returns its ρ, or 0 if that is not finite.
func (d Damping) candidates(unit float64) []float64 {
	switch {
	case d.Absolute > 0:
		if rho := d.Absolute / unit; unit > 0 && !math.IsInf(rho, 0) {
			return []float64{rho}
		}
		return []float64{0}
	case d.Relative > 0:
		return []float64{d.Relative}
	}
	return append([]float64{standard}, autoDamping...)
}

// epsilon returns ε for a candidate.
func (d Damping) epsilon(rho, unit float64) float64 {
	if d.Absolute > 0 {
		return d.Absolute
	}
	return rho * unit
}

// Candidate is a damping that was tried.
type Candidate struct {
	Rho     float64 `yaml:"rho" json:"rho"` // relative to the mean eigenvalue
	Epsilon float64 `yaml:"epsilon" json:"epsilon"`
	NLL     float64 `yaml:"nll" json:"nll"` // on validation data at its best temperatures, nats

	// Gain is the mean decrease of an example's NLL from ρ = 1, and StdErr its standard error. Both are zero
	// for ρ = 1.
	Gain   float64 `yaml:"gain" json:"gain"`
	StdErr float64 `yaml:"std_err" json:"std_err"`
}

// beats reports whether a candidate replaces the one chosen so far: its gain must exceed one standard error. Where
// variances do not help, gain and standard error both vanish, and differences below resolution are noise.
func (c Candidate) beats(chosen Candidate) bool {
	return c.Gain > math.Max(c.StdErr, resolution) && c.NLL < chosen.NLL
}

// choices are the posteriors to choose from.
type choices struct {
	head      layer.Head
	product   parallel.Product
	rhos      []float64                                              // relative dampings, the standard one first
	posterior func(rho float64, f *layer.Affine) (*Posterior, error) // with the variances of mapped logits
}

// damped is a candidate with its posterior and the point of the least NLL.
type damped struct {
	Candidate
	posterior *Posterior
	median    float64 // of s², on validation data
	grid      Grid
	best      point
}

// tuneDamping tries dampings, and returns the chosen one and all candidates. It leaves the variances of the chosen
// one in t. A candidate without a posterior is a warning, unless it is the first. done is called after each.
func (t *tuningSet) tuneDamping(ctx context.Context, c *choices, val *rows.Batch, o FitOptions, done func(),
) (chosen damped, tried []Candidate, warnings []string, err error) {
	var base []float64               // NLL of each example, of the first
	s2 := make([]float64, len(t.s2)) // of the chosen
	for i, rho := range c.rhos {
		if err := context.Cause(ctx); err != nil {
			return chosen, nil, nil, err
		}
		post, err := c.posterior(rho, t.affine)
		if err != nil {
			if i == 0 {
				return chosen, nil, nil, err
			}
			warnings = append(warnings, fmt.Sprintf("relative damping %v was not tried: %v", rho, err))
			done()
			continue
		}
		d, err := t.tuneAt(ctx, c.product, val, post, o.Lambda0)
		if err != nil {
			return chosen, nil, nil, err
		}
		if d.Rho = rho; i == 0 {
			base = slices.Clone(t.nll[0])
		} else {
			d.Gain, d.StdErr = pairedGain(base, t.nll[0])
		}
		tried = append(tried, d.Candidate)
		if i == 0 || d.beats(chosen.Candidate) {
			chosen = d
			s2, t.s2 = t.s2, s2
		}
		done()
	}
	t.s2 = s2
	return chosen, tried, warnings, nil
}

// tuneAt finds the temperatures of the least NLL for a posterior. It leaves the posterior's variances and the values
// at these temperatures in t.
func (t *tuningSet) tuneAt(ctx context.Context, product parallel.Product, val *rows.Batch, post *Posterior,
	lambda0 float64) (d damped, err error) {
	of := post
	if t.trained {
		of = post.LeaveOneOut()
	}
	if err := of.forms(product, t.s2, t.leverage, val.Features, t.n); err != nil {
		return d, err
	}
	d.posterior, d.Epsilon, d.median = post, post.Epsilon, median(t.s2)
	// Temperatures are proportional to it, and meaningless beyond these bounds.
	const least, most = 1e-50, 1e50
	if ok := d.median >= least && d.median <= most; !ok && post.Covariance == External {
		return d, fmt.Errorf("the median logit variance of the validation data is %.3g, want %g to %g: the posterior does not fit these features", d.median, least, most)
	} else if !ok {
		return d, fmt.Errorf("the median logit variance of the validation data is %.3g at damping %.3g, want %g to %g: "+
			"if all features or the curvature are nearly zero, give an absolute damping, such as 1", d.median, d.Epsilon, least, most)
	}
	d.grid, d.best, err = tuneNLL(ctx, &t.examples, d.median, lambda0)
	d.NLL = mean(t.nll[0])
	return d, err
}

// FitOptions are the options of Fit.
type FitOptions struct {
	Covariance Covariance // zero: Hessian
	Damping    Damping
	Lambda0    float64 // zero: meanfield.Lambda0

	// KeepClass says that the predicted class must stay the network's: Method is MLE or TS.
	KeepClass bool

	Score    string          // one of [score.Names]; "": it is chosen
	Training *score.Training // for scores that learn; nil: none of these is tried

	// ValTrained says that the curvature includes the validation examples. Each is then left out of it in turn, see
	// [Posterior.LeaveOneOut], and scores that are fitted to training data are not compared: they know these examples.
	ValTrained bool

	// Synthetic is synthetic out-of-distribution data, or nil. Scores are compared on it, and the learned score
	// is fitted to it if there is no other. Temperatures are not tuned on it.
	Synthetic *rows.Batch

	// Progress, unless nil, is called with the stage and how much of it is done.
	Progress func(stage string, done, total int)
}

// complete replaces zero values by the defaults and drops what is not used. It refuses an invalid damping.
func (o *FitOptions) complete() error {
	o.Covariance = cmp.Or(o.Covariance, Hessian)
	o.Lambda0 = cmp.Or(o.Lambda0, meanfield.Lambda0)
	if o.ValTrained && o.Score == "" {
		o.Training = nil
	}
	if o.Progress == nil {
		o.Progress = func(string, int, int) {}
	}
	return o.Damping.Validate()
}
