package attach

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"

	"github.com/mfgs/mfgs/calibrate/conformal"
	"github.com/mfgs/mfgs/calibrate/link"
	"github.com/mfgs/mfgs/calibrate/meanfield"
	"github.com/mfgs/mfgs/calibrate/score"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/fuse"
	"github.com/mfgs/mfgs/wrap/bundle"
)

// margins are how many times the largest ratio of temperatures T_k in held-out data
// each of the intervals goes that mf0 interpolates: nearly all inputs are in the first,
// which takes few nodes, and what is far from all that was held out in the second.
var margins = []float64{1.25, 4}

const (
	// farRatio is interpolated with still more nodes, rather than take K² terms.
	farRatio = 100
	// lseTolerance bounds the error of interpolation, in nats: that of a probability
	// is at most half of it. What is found is a hundred times smaller.
	lseTolerance = 1e-5
)

// Fuse puts the mean-field head of the bundle behind its model. method is whose probabilities
// the model gives, "" those that the bundle serves; alone leaves out the model's own outputs, and
// decisions adds those of the bundle, of which prediction sets that rank classes are left out below
// operator set [fuse.RankedOpset].
func (a *Attached) Fuse(method fuse.Method, alone, decisions bool) (*onnx.Model, fuse.Outputs, error) {
	b := a.Bundle
	forms, err := b.Posterior.Quadratic()
	if err != nil {
		return nil, nil, err
	}
	m, served := b.Manifest, b.Calibration().Served()
	mf := &fuse.MeanField{
		Method:    method,
		Lambda0:   m.MeanField.Lambda0,
		Forms:     fuse.Quadratic(*forms),
		NLL:       fuse.Temperatures{Act: m.Temperatures.NLL.Act, Ens: m.Temperatures.NLL.Ens},
		Scores:    scores(served),
		Intervals: intervals(a.Head.LogitDim, m.MeanField.MaxRatio),
		Alone:     alone,
		Metadata:  metadata(b, method),
	}
	if served.Margin {
		mf.OOD = fuse.Temperatures{Act: m.Temperatures.OOD.Act, Ens: m.Temperatures.OOD.Ens}
	}
	if method == "" {
		mf.Plain = b.Calibration().PlainTemperature()
	}
	if d := m.Decisions; decisions && d != nil {
		mf.Decisions = decisionsOf(d, a.Model.Opset(), m.Head.Classes())
		text, _ := json.Marshal(d) // numbers are finite
		mf.Metadata["mfgs.decisions"] = string(text)
	}
	return fuse.Append(a.Model, a.Head, mf)
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

// scores are what predictions carry, to be written into a graph: the score that is served, the share
// of held-out examples that score lower, where it is known, and the leverage.
func scores(served *score.Served) []fuse.Score {
	var ood, percentile string
	both := func(t *fuse.Terms) {
		if ood == "" {
			ood, percentile = served.Emit(terms{t})
		}
	}
	list := []fuse.Score{{Name: OODScore, Double: true, Emit: func(t *fuse.Terms) string { both(t); return ood }}}
	if served.Quantiles != nil {
		list = append(list, fuse.Score{Name: OODPercentile, Double: true,
			Emit: func(t *fuse.Terms) string { both(t); return percentile }})
	}
	return append(list, fuse.Score{Name: Leverage, Emit: (*fuse.Terms).Leverage})
}

// The names of the scores among the outputs of a graph.
const (
	OODScore      = "ood_score"
	OODPercentile = "ood_percentile"
	Leverage      = "leverage"
)

// terms are those of a graph, as formulas take them.
type terms struct{ *fuse.Terms }

func (t terms) Link() link.Link { return t.Terms.Link() }

// intervals returns those that mf0 interpolates for a largest held-out ratio, without
// those that need nearly as many nodes as the next.
func intervals(classes int, ratio float64) []fuse.Interval {
	list := []fuse.Interval{{Ratio: farRatio, Nodes: meanfield.Nodes(classes, math.Log(farRatio), lseTolerance)}}
	for _, margin := range slices.Backward(margins) {
		r := margin * ratio
		if m := meanfield.Nodes(classes, math.Log(r), lseTolerance); r < farRatio && 5*m < 4*list[0].Nodes {
			list = slices.Insert(list, 0, fuse.Interval{Ratio: r, Nodes: m})
		}
	}
	return list
}

// metadata is what a fused model says of where it comes from, as metadata_props.
func metadata(b *bundle.Bundle, method fuse.Method) map[string]string {
	m := b.Manifest
	served := string(method)
	if served == "" {
		served = string(b.Calibration().Method)
	}
	number := func(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
	all := map[string]string{
		"mfgs.version":              Version(),
		"mfgs.bundle":               b.SHA256(),
		"mfgs.model":                m.Model.SHA256,
		"mfgs.method":               served,
		"mfgs.temperatures.ts":      number(m.Temperatures.TS),
		"mfgs.covariance":           string(m.Covariance),
		"mfgs.structure":            string(m.Structure),
		"mfgs.lambda0":              number(m.MeanField.Lambda0),
		"mfgs.ood_score":            b.Calibration().Served().Name,
		"mfgs.logit_variance.ens":   "1", // divided by a pair's T_ens, it is that pair's
		"mfgs.temperatures.nll.act": number(m.Temperatures.NLL.Act),
		"mfgs.temperatures.nll.ens": number(m.Temperatures.NLL.Ens),
		"mfgs.temperatures.ood.act": number(m.Temperatures.OOD.Act),
		"mfgs.temperatures.ood.ens": number(m.Temperatures.OOD.Ens),
	}
	if len(m.Labels) > 0 {
		labels, _ := json.Marshal(m.Labels) // strings always can be
		all["mfgs.labels"] = string(labels)
	}
	return all
}
