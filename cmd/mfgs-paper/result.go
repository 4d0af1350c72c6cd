package main

import (
	"math"
	"slices"

	"github.com/mfgs/mfgs/calibrate/metrics"
	"github.com/mfgs/mfgs/cmd/mfgs-paper/internal/estimate"
	"github.com/mfgs/mfgs/wrap/bench"
	"github.com/mfgs/mfgs/wrap/bundle"
)

// A place identifies a row: its table, data set and name.
type place struct{ table, data, row string }

// figures are the figures of a row, as fractions and nats. Nil means not measured.
type figures struct {
	Error      *float64 `json:"error"`
	NLL        *float64 `json:"nll"`
	ECE        *float64 `json:"ece"`
	DebiasedCE *float64 `json:"debiased_ce,omitempty"`
	AURC       *float64 `json:"aurc,omitempty"`

	// Detection by OOD set: OOD with the temperatures tuned for detection, OODNLL with those tuned for NLL.
	OOD    map[string]detection `json:"ood,omitempty"`
	OODNLL map[string]detection `json:"ood_nll,omitempty"`

	// OverDefault is the AUROC in OOD minus that of the default score on the same images, with its interval.
	// Only the part "scores" has it.
	OverDefault map[string]metrics.Difference `json:"auroc_over_default,omitempty"`
	// OverBest is the AUROC minus that of the best of mfgs's other scores that need no OOD data.
	OverBest map[string]metrics.Difference `json:"auroc_over_best,omitempty"`

	More map[string]float64 `json:"more,omitempty"` // figures of a single part
}

// A detection holds the figures for detecting one OOD set.
type detection struct {
	Accuracy float64 `json:"accuracy"`
	AUROC    float64 `json:"auroc"`
	AUPRIn   float64 `json:"aupr_in"`
	AUPROut  float64 `json:"aupr_out"`
}

// A quantity is a figure, with how it is compared and printed.
type quantity struct {
	key        string // of its resamples
	set        string // the OOD set, for detection
	name       string
	unit       string                 // after the name, with what is between them
	of         func(figures) *float64 // nil if not measured
	higher     bool                   // is better
	resolution float64                // smaller differences count as ties
	scale      float64
	digits     int
}

var (
	errorOf    = labelled("error", func(f figures) *float64 { return f.Error }, .001, 2)
	nllOf      = labelled("nll", func(f figures) *float64 { return f.NLL }, .002, 4)
	eceOf      = labelled("ece", func(f figures) *float64 { return f.ECE }, .001, 2)
	debiasedOf = labelled("debiased_ce", func(f figures) *float64 { return f.DebiasedCE }, .001, 2)
	aurcOf     = labelled("aurc", func(f figures) *float64 { return f.AURC }, .001, 2)
)

// labelled is a figure of a labelled set; fractions are printed in per cent.
func labelled(key string, of func(figures) *float64, resolution float64, digits int) quantity {
	f := metrics.FigureOf(key)
	q := quantity{
		key: key, name: f.Label, of: of, higher: f.Higher, resolution: resolution, scale: 1, digits: digits,
	}
	if f.Unit == metrics.Fraction {
		q.unit, q.scale = " %", 100
	}
	return q
}

// coarser is a quantity with a larger resolution and other digits.
func (q quantity) coarser(resolution float64, digits int) quantity {
	q.resolution, q.digits = resolution, digits
	return q
}

// title is the name with the unit.
func (q quantity) title() string { return q.name + q.unit }

// oodQuantity is a detection figure of a set with the temperatures tuned for detection, or with those tuned for NLL.
func oodQuantity(set string, nll bool, name string, of func(detection) float64) quantity {
	q := quantity{
		key: name + " " + set, set: set, name: labelOf(detectionLabels, name), higher: true, resolution: .003, scale: 100,
		digits: 1,
	}
	if nll {
		q.key, q.name = "nll "+q.key, q.name+" (NLL)"
	}
	q.of = func(f figures) *float64 {
		sets := f.OOD
		if nll {
			sets = f.OODNLL
		}
		d, ok := sets[set]
		if !ok {
			return nil
		}
		v := of(d)
		return &v
	}
	return q
}

func rocOf(set string) quantity    { return oodQuantity(set, false, "ROC", aurocOf) }
func nllROCOf(set string) quantity { return oodQuantity(set, true, "ROC", aurocOf) }

func accuracyOf(d detection) float64 { return d.Accuracy }
func aurocOf(d detection) float64    { return d.AUROC }
func auprInOf(d detection) float64   { return d.AUPRIn }
func auprOutOf(d detection) float64  { return d.AUPROut }

// moreOf is a figure of a single part.
func moreOf(key string, higher bool) quantity {
	of := func(f figures) *float64 {
		v, ok := f.More[key]
		if !ok {
			return nil
		}
		return &v
	}
	return quantity{key: key, name: labelOf(moreLabels, key), of: of, higher: higher, scale: 1, digits: 3}
}

// A row is a line of a table, measured on one network or several.
type row struct {
	place
	Runs  []measurement // none if data or networks are missing
	Paper *figures
	Note  string // how it differs from the paper, or why there are no runs
}

// A measurement is a row on one network or ensemble, for one random draw.
type measurement struct {
	Seed     any    // a number, or several as in "0,1,2"
	Kind     string // of the networks
	Networks []int
	Draw     int
	answer
}

// An answer is the evaluation of a method on test data.
type answer struct {
	figures
	Damping *bundle.Damping // of the bundle
	Note    string
	// Resampled are figures by key on bootstrap resamples, which all answers on the same sets share.
	Resampled map[string][]float32
}

// resamples is the number of bootstrap resamples: the relative error of a standard error is about 1/24.
const resamples = 300

// answerOf extracts a method's result from an evaluation.
func answerOf(of *bench.Evaluation, m bench.MethodResult) answer {
	a := answer{Damping: &of.Bundle.Damping, Note: m.Note, Resampled: map[string][]float32{}}
	if in := m.InDomain; in != nil {
		a.addLabelled(in)
	}
	sets := func(results []bench.OODResult, nll bool) map[string]detection {
		all := map[string]detection{}
		for _, r := range results {
			all[r.Name] = detectionOf(r.OOD)
			a.keep(oodQuantity(r.Name, nll, "ROC", aurocOf).key, r.Series["auroc"])
		}
		return all
	}
	a.OOD, a.OODNLL = sets(m.OOD, false), sets(m.OODNLL, true)
	return a
}

// addLabelled adds the figures of a labelled set.
func (a *answer) addLabelled(in *metrics.Labelled) {
	a.Error, a.NLL, a.ECE, a.DebiasedCE, a.AURC = &in.Error, &in.NLL, &in.ECE, &in.DebiasedCE, &in.AURC
	if a.Resampled == nil {
		a.Resampled = map[string][]float32{}
	}
	for _, q := range []quantity{errorOf, nllOf, eceOf, debiasedOf, aurcOf} {
		a.keep(q.key, in.Series[q.key])
	}
}

func (a *answer) keep(key string, s metrics.Series) {
	draws := make([]float32, len(s.Draws))
	for i, v := range s.Draws {
		draws[i] = float32(v)
	}
	a.Resampled[key] = draws
}

func detectionOf(o metrics.OOD) detection {
	return detection{o.Accuracy, o.AUROC, o.AUPRIn, o.AUPROut}
}

// runs returns a row's quantity as input for package estimate.
func (r row) runs(q quantity) (all []estimate.Run) {
	for _, m := range r.Runs {
		if v := q.of(m.figures); v != nil {
			run := estimate.Run{Kind: m.Kind, Networks: m.Networks, Value: *v, Resamples: m.Resampled[q.key]}
			all = append(all, run)
		}
	}
	return all
}

type sample []float64

func (s sample) mean() float64 {
	var sum float64
	for _, v := range s {
		sum += v
	}
	return sum / float64(len(s))
}

// stdDev is the standard deviation, 0 for a single value.
func (s sample) stdDev() float64 {
	if len(s) < 2 {
		return 0
	}
	m, sum := s.mean(), 0.0
	for _, v := range s {
		sum += (v - m) * (v - m)
	}
	return math.Sqrt(sum / float64(len(s)-1))
}

// over returns a quantity for each network, averaged over draws; for a single network, for each draw. It is nil if
// the quantity was not measured.
func (r row) over(q quantity) sample {
	var seeds []any
	by := map[any]sample{}
	for _, m := range r.Runs {
		if v := q.of(m.figures); v != nil {
			if by[m.Seed] == nil {
				seeds = append(seeds, m.Seed)
			}
			by[m.Seed] = append(by[m.Seed], *v)
		}
	}
	if len(seeds) == 1 {
		return by[seeds[0]]
	}
	var all sample
	for _, s := range seeds {
		all = append(all, by[s].mean())
	}
	return all
}

// networks returns the number of networks.
func (r row) networks() int {
	var seeds []any
	for _, m := range r.Runs {
		if !slices.Contains(seeds, m.Seed) {
			seeds = append(seeds, m.Seed)
		}
	}
	return len(seeds)
}

// mean averages all figures.
func (r row) mean() figures {
	var f figures
	at := func(q quantity) *float64 {
		if all := r.over(q); len(all) > 0 {
			m := all.mean()
			return &m
		}
		return nil
	}
	f.Error, f.NLL, f.ECE = at(errorOf), at(nllOf), at(eceOf)
	f.DebiasedCE, f.AURC = at(debiasedOf), at(aurcOf)
	if len(r.Runs) == 0 {
		return f
	}
	sets := func(nll bool, first map[string]detection) map[string]detection {
		means := map[string]detection{}
		for set := range first {
			of := func(o func(detection) float64) float64 { return r.over(oodQuantity(set, nll, "", o)).mean() }
			means[set] = detection{of(accuracyOf), of(aurocOf), of(auprInOf), of(auprOutOf)}
		}
		return means
	}
	f.OOD, f.OODNLL = sets(false, r.Runs[0].OOD), sets(true, r.Runs[0].OODNLL)
	for key := range r.Runs[0].More {
		if f.More == nil {
			f.More = map[string]float64{}
		}
		f.More[key] = *at(moreOf(key, true))
	}
	return f
}

// meanRow averages rows with the same runs, run by run.
func meanRow(p place, rows []row) row {
	all := row{place: p}
	for i, first := range rows[0].Runs {
		one := row{}
		resampled := map[string][]float32{}
		for _, r := range rows {
			m := r.Runs[i]
			m.Seed = len(one.Runs)
			one.Runs = append(one.Runs, m)
			for key, values := range m.Resampled {
				if resampled[key] == nil {
					resampled[key] = make([]float32, len(values))
				}
				for j, v := range values {
					resampled[key][j] += v / float32(len(rows))
				}
			}
		}
		m := first
		m.figures, m.Resampled = one.mean(), resampled
		all.Runs = append(all.Runs, m)
	}
	return all
}
