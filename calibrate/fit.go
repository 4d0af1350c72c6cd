package calibrate

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/mfgs/mfgs/calibrate/internal/parallel"
	"github.com/mfgs/mfgs/calibrate/meanfield"
	"github.com/mfgs/mfgs/calibrate/rows"
)

// Damping is the rule by which ε of H̃ = H + εI is chosen. The zero value is
// automatic.
type Damping struct {
	// Absolute is ε itself, where positive. The paper's is 1.
	Absolute float64
	// Relative is ρ, where positive: ε is ρ × the mean eigenvalue.
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
		return Damping{}, fmt.Errorf("damping %q, want auto, a positive number or rel:RHO with a positive RHO", s)
	}
	if relative {
		return Damping{Relative: v}, nil
	}
	return Damping{Absolute: v}, nil
}

// Validate reports a damping that is no rule: negative or infinite, or both
// absolute and relative.
func (d Damping) Validate() error {
	for _, v := range []float64{d.Absolute, d.Relative} {
		if !(v >= 0) || math.IsInf(v, 1) {
			return fmt.Errorf("damping %v, want a positive number or zero for automatic", v)
		}
	}
	if d.Absolute > 0 && d.Relative > 0 {
		return fmt.Errorf("damping is both absolute, %v, and relative, %v: want one", d.Absolute, d.Relative)
	}
	return nil
}

// String returns what ParseDamping reads.
func (d Damping) String() string {
	switch {
	case d.Absolute > 0:
		return strconv.FormatFloat(d.Absolute, 'g', -1, 64)
	case d.Relative > 0:
		return "rel:" + strconv.FormatFloat(d.Relative, 'g', -1, 64)
	}
	return "auto"
}

// standard is the relative damping that stands unless another is better;
// autoDamping are the others tried.
const standard = 1.0

var autoDamping = []float64{10, 0.1, 0.01}

// FitOptions says how Fit tunes.
type FitOptions struct {
	Covariance Covariance // zero: Hessian
	Damping    Damping
	Lambda0    float64 // zero: meanfield.Lambda0
	// Progress, where set, is told what is being done and how much of it.
	Progress func(stage string, done, total int)
}

// Candidate is one damping that was tried.
type Candidate struct {
	Rho     float64 `yaml:"rho" json:"rho"` // relative to the mean eigenvalue
	Epsilon float64 `yaml:"epsilon" json:"epsilon"`
	NLL     float64 `yaml:"nll" json:"nll"` // held out, at its best temperatures, nats

	// Gain is the mean of how much less NLL than at ρ = 1 an example has, and
	// StdErr that mean's standard error. Both are zero for ρ = 1 itself.
	Gain   float64 `yaml:"gain" json:"gain"`
	StdErr float64 `yaml:"std_err" json:"std_err"`
}

// Choice says whose probabilities serve, and why: the simplest of the network itself
// (MLE), temperature scaling (TS) and MF0 that held-out data cannot tell from a better
// one. Gains are nats of the objective that tuning minimises, a mean over the held-out
// examples; a method is taken for one that gains more than is needed.
type Choice struct {
	Method Method `yaml:"method" json:"method"`

	// TSGain is what temperature scaling gains on the network. With N examples it needs
	// 1/(2N): if the network's probabilities are right, twice the gain of all examples
	// together has about the mean 1 (Wilks, The Large-Sample Distribution of the
	// Likelihood Ratio, 1938). The spread between examples would say less: of a sure
	// network a few errors have all the loss.
	TSGain   float64 `yaml:"ts_gain" json:"ts_gain"`
	TSNeeded float64 `yaml:"ts_needed" json:"ts_needed"`

	// MF0Gain is what mf0 gains, at its optimum, on the one of these two that was
	// chosen. It needs one standard error of the paired differences between examples, and
	// an NLL that is no higher without the half of an example that tuning adds.
	MF0Gain   float64 `yaml:"mf0_gain" json:"mf0_gain"`
	MF0Needed float64 `yaml:"mf0_needed" json:"mf0_needed"`
}

// trial is a method as tuned, on the held-out examples: its losses and its mean NLL.
type trial struct {
	losses []float64
	nll    float64
}

func (e *examples) trial(j int) trial { return trial{e.losses(j), mean(e.nll[j])} }

// choose compares the network, temperature scaling and mf0.
func choose(own, scaled, mf0 trial) Choice {
	c := Choice{Method: MLE, TSGain: mean(own.losses) - mean(scaled.losses), TSNeeded: 0.5 / float64(len(own.losses))}
	simple := own
	if c.TSGain > c.TSNeeded {
		c.Method, simple = TS, scaled
	}
	c.MF0Gain, c.MF0Needed = pairedGain(simple.losses, mf0.losses)
	c.MF0Needed = math.Max(c.MF0Needed, resolution)
	if c.MF0Gain > c.MF0Needed && mf0.nll <= simple.nll {
		c.Method = MF0
	}
	return c
}

// String says it in a sentence, with nats.
func (c Choice) String() string {
	if c.Method == MF0 {
		return fmt.Sprintf("mf0: on the held-out data it gains %.2g nats on what is simpler, and %.2g may be chance", c.MF0Gain, c.MF0Needed)
	}
	mf0 := fmt.Sprintf("what mf0 gains, %.2g, may be chance up to %.2g", c.MF0Gain, c.MF0Needed)
	if c.MF0Gain > c.MF0Needed {
		mf0 = "mf0 has a higher NLL there"
	}
	if c.Method == TS {
		return fmt.Sprintf("temperature scaling: on the held-out data it gains %.2g nats on the network itself; %s", c.TSGain, mf0)
	}
	return fmt.Sprintf("the network's own: what temperature scaling gains on the held-out data, %.2g nats, may be chance up to %.2g; %s", c.TSGain, c.TSNeeded, mf0)
}

// Fitted is what calibration found.
type Fitted struct {
	Calibration
	Choice Choice // of Method
	// Optimum are the temperatures of the least held-out NLL; the pair NLL is
	// preferred to them where the two cannot be told apart.
	Optimum        Temperatures
	Rho            float64     // ε over the mean eigenvalue; zero where that is too small for it
	Candidates     []Candidate // more than one where the damping was chosen
	MedianVariance float64     // held-out s² at T_ens = 1
	OODTuned       bool        // else OOD temperatures are those for the likelihood
	NLLGrid        Grid
	AUROCGrid      Grid // empty where there were no out-of-distribution examples
	Warnings       []string
}

// Fit chooses damping and temperatures for a curvature.
//
// val are held-out labelled examples; ood, which may be nil, held-out examples
// out of distribution. The temperature pair NLL minimises the mean -log p of
// val's labels, and of half an example more that is wrong, under mf0, over
// T_act from 1/1000 of the median of max a - mean a to that itself and τ = T_ens /
// median s² in [3e-7, 1e3]: a 9×9 grid in logarithms, then Nelder and Mead's simplex from
// its best point, reported as Optimum; of thousands of examples some hundreds show
// which points of the grid to evaluate over all. Of the pairs whose NLL is higher by no more
// than one standard error of the paired differences between examples, nor by more
// than 0.5 %, nor than that of temperature scaling, it then takes the one with the
// smallest τ ≥ 0.01: where likelihood cannot tell how much of the spread is the
// posterior's, it is given all it may have. The pair OOD maximises the AUROC of
// 1 - max p over the same temperatures, preferring large τ among equals; TSOOD is the
// one temperature that maximises that of softmax(a/T). Method is mf0 where it is told
// from temperature scaling and from the network itself; see Choice.
//
// Fit ends with ctx, at the latest when the inversion that is under way is done.
//
// Automatic damping tries ρ = 1, 10, 0.1 and 0.01 mean eigenvalues and keeps 1
// unless another has a held-out NLL that is lower by more than one standard
// error of the paired differences between examples.
func Fit(ctx context.Context, c *Curvature, val, ood *rows.Batch, o FitOptions) (*Fitted, error) {
	if o.Covariance == "" {
		o.Covariance = Hessian
	}
	if o.Lambda0 == 0 {
		o.Lambda0 = meanfield.Lambda0
	}
	if o.Progress == nil {
		o.Progress = func(string, int, int) {}
	}
	if err := o.Damping.Validate(); err != nil {
		return nil, err
	}
	h := c.Head()
	if err := h.CheckBatch(val, true); err != nil {
		return nil, fmt.Errorf("held-out data: %w", err)
	}
	if ood != nil {
		if err := h.CheckBatch(ood, false); err != nil {
			return nil, fmt.Errorf("out-of-distribution data: %w", err)
		}
	}
	unit, err := c.MeanEigenvalue(o.Covariance)
	if err != nil {
		return nil, err
	}
	if unit <= 0 && o.Damping.Absolute == 0 {
		return nil, fmt.Errorf("the curvature is zero in float64: every training probability is exactly 0 or 1; give an absolute --damping, such as 1")
	}

	rhos := append([]float64{standard}, autoDamping...)
	switch {
	case o.Damping.Absolute > 0:
		rhos = []float64{0}
		if rho := o.Damping.Absolute / unit; unit > 0 && !math.IsInf(rho, 0) {
			rhos[0] = rho
		}
	case o.Damping.Relative > 0:
		rhos = []float64{o.Damping.Relative}
	}
	steps := len(rhos) + 1
	if ood != nil {
		steps++
	}
	o.Progress("tuning", 0, steps)
	act := h.logitUnit(val)
	valSet := newTuningSet(h, val, true, o.Lambda0, act)
	f := &Fitted{}
	f.Lambda0 = o.Lambda0
	valSet.plain(1 / act)
	own := valSet.trial(0) // of the network's own probabilities
	scale, limit := valSet.temperatureScaling()
	scaled := valSet.trial(0)
	f.TS = scale * act
	o.Progress("tuning", 1, steps)

	var base []float64 // per-example NLL at ρ = 1
	var chosen Candidate
	var bestPoint point
	s2 := make([]float64, len(valSet.s2)) // of the chosen
	for i, rho := range rhos {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		epsilon := rho * unit
		if o.Damping.Absolute > 0 {
			epsilon = o.Damping.Absolute
		}
		post, err := c.Posterior(o.Covariance, epsilon)
		if err != nil {
			if i == 0 {
				return nil, err
			}
			f.Warnings = append(f.Warnings, fmt.Sprintf("relative damping %v was not tried: %v", rho, err))
			continue
		}
		if err := post.forms(c.product, valSet.s2, nil, val.Features, valSet.n); err != nil {
			return nil, err
		}
		mid := median(valSet.s2)
		// Temperatures are in proportion, and beyond this no pair of them means anything.
		const least, most = 1e-50, 1e50
		if !(mid >= least && mid <= most) {
			return nil, fmt.Errorf("the median held-out logit variance is %.3g at damping %.3g, want %g to %g: are the features all zero, or is the curvature all but zero? Then give an absolute --damping, such as 1", mid, epsilon, least, most)
		}
		grid, best, err := tuneNLL(ctx, &valSet.examples, mid, o.Lambda0)
		if err != nil {
			return nil, err
		}
		candidate := Candidate{Rho: rho, Epsilon: epsilon, NLL: mean(valSet.nll[0])}
		if i == 0 {
			base = slices.Clone(valSet.nll[0])
		} else {
			candidate.Gain, candidate.StdErr = pairedGain(base, valSet.nll[0])
		}
		f.Candidates = append(f.Candidates, candidate)
		if i == 0 || candidate.beats(chosen) {
			chosen = candidate
			f.Posterior, f.Rho, f.MedianVariance = post, rho, mid
			f.NLLGrid, bestPoint = grid, best
			s2, valSet.s2 = valSet.s2, s2
		}
		o.Progress("tuning", 2+i, steps)
	}
	valSet.s2 = s2
	if f.NLLGrid.Act == nil {
		if f.NLLGrid, _, err = nllSearch(&valSet.examples, f.MedianVariance).grid(ctx); err != nil {
			return nil, err
		}
	}
	at := func(p point) Temperatures { return Temperatures{Act: p.act * act, Ens: p.tau * f.MedianVariance} }
	valSet.evaluate([]float64{bestPoint.act}, bestPoint.tau*f.MedianVariance)
	f.Choice = choose(own, scaled, valSet.trial(0))
	if f.Method = f.Choice.Method; f.Method == MF0 {
		// What mf0 was chosen for is not given up.
		limit = bestPoint.value + f.Choice.MF0Gain - f.Choice.MF0Needed
	}
	pair := prefer(&valSet.examples, bestPoint, limit, f.MedianVariance, o.Lambda0)
	f.Optimum, f.NLL = at(bestPoint), at(pair)
	f.OOD = f.NLL
	if ood != nil {
		oodSet := newTuningSet(h, ood, false, o.Lambda0, act)
		if err := f.Posterior.forms(c.product, oodSet.s2, nil, ood.Features, oodSet.n); err != nil {
			return nil, err
		}
		grid, best, err := tuneAUROC(ctx, &valSet.examples, &oodSet.examples, f.MedianVariance, o.Lambda0)
		if err != nil {
			return nil, err
		}
		f.OOD = at(best)
		if f.TSOOD, err = tuneTS(ctx, h, val, ood, act); err != nil {
			return nil, err
		}
		f.AUROCGrid, f.OODTuned = grid, true
		scaleTo(f.AUROCGrid.Act, act, f.AUROCGrid.Act)
		f.Ratio = maxRatio(oodSet, o.Lambda0, f.NLL, f.OOD)
		o.Progress("tuning", steps, steps)
	}
	f.Ratio = math.Max(f.Ratio, maxRatio(valSet, o.Lambda0, f.NLL, f.OOD))
	f.MedianMargin = medianMargin(valSet, val, o.Lambda0, f.OOD)
	scaleTo(f.NLLGrid.Act, act, f.NLLGrid.Act)
	return f, nil
}

// resolution is the NLL, in nats, that search and tables tell apart.
const resolution = 1e-5

// beats reports whether a candidate replaces the one chosen so far: ρ = 1 stands
// unless another gains more than one standard error on it. Where variances do not
// help, gain and standard error both vanish; what is left of them says nothing.
func (c Candidate) beats(chosen Candidate) bool {
	return c.Gain > math.Max(c.StdErr, resolution) && c.NLL < chosen.NLL
}

// pairedGain returns the mean of a-b and its standard error.
func pairedGain(a, b []float64) (gain, stdErr float64) {
	n := float64(len(a))
	for i := range a {
		gain += (a[i] - b[i]) / n
	}
	var ss float64
	for i := range a {
		d := a[i] - b[i] - gain
		ss += d * d
	}
	return gain, math.Sqrt(ss / math.Max(1, n-1) / n)
}

// medianMargin returns the median margin under a pair, or 1 where that is zero.
func medianMargin(t *tuningSet, s *rows.Batch, lambda0 float64, pair Temperatures) float64 {
	margins, k := make([]float64, t.n), t.head.Logits
	parallel.For(t.n, func(first, last int) {
		e, logp := newEvaluator(t.head, lambda0), make([]float64, t.head.Outcomes())
		for i := first; i < last; i++ {
			margins[i] = e.mf0(logp, s.Logits[i*k:(i+1)*k], t.s2[i*k:(i+1)*k], pair)
		}
	})
	if m := median(margins); m > 0 {
		return m
	}
	return 1
}

// maxRatio returns the largest T_max/T_min of one of the examples.
func maxRatio(t *tuningSet, lambda0 float64, pairs ...Temperatures) float64 {
	k := t.head.Logits
	ratio := 1.0
	for i := range t.n {
		lo, hi := math.Inf(1), 0.0
		for _, v := range t.s2[i*k : (i+1)*k] {
			lo, hi = math.Min(lo, v), math.Max(hi, v)
		}
		for _, p := range pairs {
			ratio = math.Max(ratio, math.Sqrt((1+lambda0*hi/p.Ens)/(1+lambda0*lo/p.Ens)))
		}
	}
	return ratio
}
