package attach

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/mfgs/mfgs/calibrate/conformal"
	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/meanfield"
	"github.com/mfgs/mfgs/calibrate/score"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/fuse"
	"github.com/mfgs/mfgs/onnx/head"
	"github.com/mfgs/mfgs/wrap/bundle"
)

const (
	// Intervals in which mf0 is interpolated end at these multiples of the largest ratio of temperatures T_k in
	// validation and OOD data. Nearly all inputs are in the first, which takes few nodes; the second is for inputs far
	// from all these data.
	margin, farMargin = 1.25, 4

	// Beyond them they end at these ratios, which only the variances of unusual posteriors have. Those of a graph are
	// at most 1e37, which bounds the last.
	partRatio, farRatio, mostRatio = 100, 1e4, 1e20

	// lseTolerance bounds the interpolation error in nats; that of a probability is at most half of it.
	// Measured errors are a hundred times smaller.
	lseTolerance = 1e-5
)

// Form says what a fused model gives beside probabilities, logits and scores.
type Form struct {
	Alone     bool // not the model's own outputs
	Decisions bool // the bundle's, except for prediction sets that rank classes below operator set [fuse.RankedOpset]
	Strings   bool // texts as strings
	Single    bool // computed in float32: see [fuse.MeanField]

	Outputs []string // only these, by name; nil for all
}

// Fuse appends the mean-field head of the bundle to its model. method selects the probabilities, "" those of
// the bundle.
func (a *Attached) Fuse(method fuse.Method, form Form) (*onnx.Model, fuse.Outputs, error) {
	b := a.Bundle
	m, c := b.Manifest, b.Calibration()
	mf := &fuse.MeanField{
		Method: method, Affine: b.Posterior.Affine, Prior: c.Prior, Scores: scores(c.Served(), m.Head.Nonlinear),
		Alone: form.Alone, Strings: form.Strings, Single: form.Single, Outputs: form.Outputs,
		Metadata: metadata(b, method),
	}
	if form.Single {
		mf.Metadata["mfgs.precision"] = "float32"
	}
	if method == "" {
		mf.Plain = c.PlainTemperature()
	}
	if m.Head.Nonlinear {
		mf.Affine = c.Affine(c.Method)
	} else if err := a.addPosterior(mf); err != nil {
		return nil, nil, err
	}
	if d := m.Decisions; form.Decisions && d != nil {
		mf.Decisions = decisionsOf(d, a.Model.Opset(), m.Head.Classes())
		text, _ := json.Marshal(d) // numbers are finite
		mf.Metadata["mfgs.decisions"] = string(text)
	}
	return fuse.Append(a.Model, a.Head, mf)
}

// addPosterior adds the numbers of a posterior.
func (a *Attached) addPosterior(mf *fuse.MeanField) error {
	b, m := a.Bundle, &a.Bundle.Manifest
	forms, err := b.Posterior.Quadratic()
	if err != nil {
		return err
	}
	mf.Forms, mf.Lambda0, mf.NLL = *forms, m.MeanField.Lambda0, m.Temperatures.NLL.Temperatures
	if b.Calibration().Served().Margin {
		mf.OOD = m.Temperatures.OOD.Temperatures
	}
	switch {
	case a.Head.Link.Separate(), mf.Plain > 0 && mf.OOD == layer.Temperatures{}: // without an integral of pairs
	case mf.Single:
		mf.Intervals, err = single(a.Head.Logits, forms.Ratio)
	default:
		mf.Intervals = intervals(a.Head.Logits, m.MeanField.MaxRatio, forms.Ratio)
	}
	return err
}

// decisionsOf are those of a bundle, to be written into a graph.
func decisionsOf(d *conformal.Decisions, opset int64, classes int) *fuse.Decisions {
	out := new(fuse.Decisions)
	if d.Uncertainty != nil {
		out.Uncertainty = &d.Uncertainty.Threshold
	}
	if d.OOD != nil {
		out.OOD = &d.OOD.Threshold
	}
	if s := d.Set; s != nil && (!s.Ranked() || opset >= fuse.RankedOpset) {
		out.Set = &fuse.Set{Thresholds: s.Thresholds}
		if s.Ranked() {
			out.Set.Ranked, out.Set.Penalties = true, s.Penalties(classes)
		}
	}
	return out
}

// scores returns the scores of a prediction for a graph: the selected OOD score, the fraction
// of validation examples with a lower score and the p-value, if known, and the leverage, which there is only with a
// linear layer.
func scores(served *score.Served, nonlinear bool) []fuse.Score {
	var ood, percentile, pvalue string
	emit := func(t *fuse.Terms) {
		if ood == "" {
			ood, percentile, pvalue = served.Emit(terms{t})
		}
	}
	list := []fuse.Score{{Name: OODScore, Double: true, Emit: func(t *fuse.Terms) string { emit(t); return ood }}}
	if served.Quantiles != nil {
		list = append(list, fuse.Score{Name: OODPercentile, Double: true,
			Emit: func(t *fuse.Terms) string { emit(t); return percentile }})
	}
	if served.Examples > 0 {
		list = append(list, fuse.Score{Name: OODPValue, Double: true,
			Emit: func(t *fuse.Terms) string { emit(t); return pvalue }})
	}
	if nonlinear {
		return list
	}
	return append(list, fuse.Score{Name: Leverage, Emit: (*fuse.Terms).Leverage})
}

// The names of the scores' outputs.
const (
	OODScore      = "ood_score"
	OODPercentile = "ood_percentile"
	OODPValue     = "ood_pvalue"
	Leverage      = "leverage"
)

// terms adapts a graph's terms to the formulas of package score.
type terms struct{ *fuse.Terms }

func (t terms) Link() layer.Link { return t.Terms.Link() }

// intervals returns the intervals of mf0 for the largest ratio of temperatures in validation and OOD data, and a bound
// of the ratio of variances of an example's logits. The last holds all T_k. It leaves out an interval that needs nearly
// as many nodes as the next.
func intervals(classes int, seen, variances float64) []fuse.Interval {
	list := []fuse.Interval{interval(classes, min(mostRatio, temperatures(variances)))}
	for _, ratio := range []float64{farRatio, partRatio, farMargin * seen, margin * seen} {
		if next := list[0]; ratio < next.Ratio {
			if i := interval(classes, ratio); 5*i.Parts*i.Nodes < 4*next.Parts*next.Nodes {
				list = slices.Insert(list, 0, i)
			}
		}
	}
	return list
}

// interval interpolates up to a ratio. More than partRatio takes parts, whose memory is that of one.
func interval(classes int, ratio float64) fuse.Interval {
	parts := max(1, int(math.Ceil(math.Log(ratio)/math.Log(partRatio)-1e-9)))
	length := math.Log(ratio) / float64(parts)
	return fuse.Interval{Ratio: ratio, Parts: parts, Nodes: meanfield.Nodes(classes, length, lseTolerance)}
}

// temperatures bounds the ratio of temperatures T = √(1+λ₀s²), given that of variances.
func temperatures(variances float64) float64 { return max(2, math.Sqrt(variances)) }

// single returns the interval of a graph in float32, for a bound of the ratio of variances of an example's logits. It
// is nil if every F is computed.
func single(classes int, variances float64) ([]fuse.Interval, error) {
	// Rounding grows with the length of the interval. Exact sums take K² terms, and an operator for some of them.
	const most, mostExact = 1000, 2000
	ratio := temperatures(variances)
	switch {
	case ratio <= most:
		nodes := meanfield.Nodes(classes, math.Log(ratio), lseTolerance)
		return []fuse.Interval{{Ratio: ratio, Parts: 1, Nodes: nodes}}, nil
	case classes <= mostExact:
		return nil, nil
	}
	return nil, fmt.Errorf("mf0 of %d classes in float32, want float64: the variances of an example's logits can differ by more than %d times, which is beyond float32: export in float64",
		classes, int(most*most))
}

// metadata returns the metadata_props of a fused model, which say where it comes from.
func metadata(b *bundle.Bundle, method fuse.Method) map[string]string {
	m := b.Manifest
	served := string(method)
	if served == "" {
		served = string(b.Calibration().Method)
	}
	number := func(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
	all := map[string]string{
		"mfgs.version":         Version(),
		"mfgs.bundle":          b.SHA256(),
		"mfgs.model":           m.Model.SHA256,
		"mfgs.method":          served,
		"mfgs.temperatures.ts": number(m.Temperatures.TS),
		"mfgs.ood_score":       b.Calibration().Served().Name,
	}
	if m.Head.Nonlinear {
		all["mfgs.head"], all["mfgs.smoothing"] = string(m.Head.Kind), number(m.Temperatures.Smoothing)
	} else {
		maps.Copy(all, map[string]string{
			"mfgs.covariance":           string(m.Covariance),
			"mfgs.structure":            string(m.Structure),
			"mfgs.lambda0":              number(m.MeanField.Lambda0),
			"mfgs.logit_variance.ens":   "1", // divided by a pair's T_ens, it is that pair's
			"mfgs.temperatures.nll.act": number(m.Temperatures.NLL.Act),
			"mfgs.temperatures.nll.ens": number(m.Temperatures.NLL.Ens),
			"mfgs.temperatures.ood.act": number(m.Temperatures.OOD.Act),
			"mfgs.temperatures.ood.ens": number(m.Temperatures.OOD.Ens),
		})
	}
	if m.Head.Fix != "" {
		all[head.FixedKey] = m.Head.Fix
	}
	if m.Head.State != "" {
		all[head.StateKey] = m.Head.State
	}
	if len(m.Labels) > 0 {
		labels, _ := json.Marshal(m.Labels) // strings always can be
		all["mfgs.labels"] = string(labels)
	}
	return all
}
