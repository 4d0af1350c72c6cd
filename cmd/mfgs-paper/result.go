package main

import (
	"math"
	"slices"

	"github.com/mfgs/mfgs/calibrate/metrics"
	"github.com/mfgs/mfgs/cmd/mfgs-paper/internal/estimate"
	"github.com/mfgs/mfgs/wrap/bench"
	"github.com/mfgs/mfgs/wrap/bundle"
)

// A place is a row of one of the paper's tables.
type place struct{ table, data, row string }

// Figures are one row's numbers: fractions, and nats. Nil is one that there is none of.
type figures struct {
	Error      *float64 `json:"error"`
	NLL        *float64 `json:"nll"`
	ECE        *float64 `json:"ece"`
	DebiasedCE *float64 `json:"debiased_ce,omitempty"`
	AURC       *float64 `json:"aurc,omitempty"`

	// OOD by set, under the temperatures for telling it, and OODNLL, under those for likelihood.
	OOD    map[string]detection `json:"ood,omitempty"`
	OODNLL map[string]detection `json:"ood_nll,omitempty"`

	// OverDefault is by how much the AUROC under OOD is above that of the score that mfgs serves
	// unasked, on the same images, with its interval. It is of the bench of scores alone.
	OverDefault map[string]metrics.Difference `json:"auroc_over_default,omitempty"`

	More map[string]float64 `json:"more,omitempty"` // numbers of one part alone
}

// A detection says how well one set is told.
type detection struct {
	Accuracy float64 `json:"accuracy"`
	AUROC    float64 `json:"auroc"`
	AUPRIn   float64 `json:"aupr_in"`
	AUPROut  float64 `json:"aupr_out"`
}

// A quantity is one number of figures, and how it is read and printed.
type quantity struct {
	key        string // under which its resamples are kept
	set        string // that is told, of a detection
	name       string
	of         func(figures) *float64 // nil where they have none
	higher     bool                   // is better
	resolution float64                // differences up to it are too small to matter
	scale      float64
	digits     int
}

var (
	errorOf    = quantity{"error", "", "error %", func(f figures) *float64 { return f.Error }, false, .001, 100, 2}
	nllOf      = quantity{"nll", "", "NLL", func(f figures) *float64 { return f.NLL }, false, .002, 1, 4}
	eceOf      = quantity{"ece", "", "ECE %", func(f figures) *float64 { return f.ECE }, false, .001, 100, 2}
	debiasedOf = quantity{"debiased_ce", "", "debiased %", func(f figures) *float64 { return f.DebiasedCE }, false, .001, 100, 2}
	aurcOf     = quantity{"aurc", "", "AURC %", func(f figures) *float64 { return f.AURC }, false, .001, 100, 2}
)

// told is a number of how well a set is told under the temperatures for that; with nll under
// those for likelihood.
func told(set string, nll bool, name string, of func(detection) float64) quantity {
	q := quantity{name + " " + set, set, name, nil, true, .003, 100, 1}
	if nll {
		q.key, q.name = "nll "+q.key, "nll "+name
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

func rocOf(set string) quantity    { return told(set, false, "ROC", aurocOf) }
func nllROCOf(set string) quantity { return told(set, true, "ROC", aurocOf) }

func accuracyOf(d detection) float64 { return d.Accuracy }
func aurocOf(d detection) float64    { return d.AUROC }
func auprInOf(d detection) float64   { return d.AUPRIn }
func auprOutOf(d detection) float64  { return d.AUPROut }

// moreOf is a number of one part, better where it is higher or where it is not.
func moreOf(key string, higher bool) quantity {
	return quantity{key, "", key, func(f figures) *float64 {
		v, ok := f.More[key]
		if !ok {
			return nil
		}
		return &v
	}, higher, 0, 1, 3}
}

// A row is a line of a table, measured on one network or several.
type row struct {
	place
	Runs  []measurement // none where there is no data or no network for it
	Paper *figures
	Note  string // what is not as in the paper, or why there are no runs
}

// A measurement is a row of one network, or one ensemble, and one random draw.
type measurement struct {
	Seed     any    // a number, or several as in "0,1,2"
	Kind     string // of the networks
	Networks []int
	Draw     int
	answer
}

// An answer is what bench says of a method on data that nothing was tuned on.
type answer struct {
	figures
	Damping *bundle.Damping // of the bundle
	Note    string
	// Resampled are the figures by key on resamples of the examples. All answers on the same sets
	// share these.
	Resampled map[string][]float32
}

// resamples is how many there are: enough for a standard error within a twenty-fourth of itself.
const resamples = 300

// answerOf is what an evaluation says of a method.
func answerOf(of *bench.Evaluation, m bench.MethodResult) answer {
	a := answer{Damping: &of.Bundle.Damping, Note: m.Note, Resampled: map[string][]float32{}}
	if in := m.InDomain; in != nil {
		a.addLabelled(in)
	}
	sets := func(results []bench.OODResult, nll bool) map[string]detection {
		all := map[string]detection{}
		for _, r := range results {
			all[r.Name] = detectionOf(r.OOD)
			a.keep(told(r.Name, nll, "ROC", aurocOf).key, r.Series["auroc"])
		}
		return all
	}
	a.OOD, a.OODNLL = sets(m.OOD, false), sets(m.OODNLL, true)
	return a
}

// addLabelled takes the figures of a labelled set.
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

// runs are a quantity of a row as estimates are made of.
func (r row) runs(q quantity) (all []estimate.Run) {
	for _, m := range r.Runs {
		if v := q.of(m.figures); v != nil {
			run := estimate.Run{Kind: m.Kind, Networks: m.Networks, Value: *v, Resamples: m.Resampled[q.key]}
			all = append(all, run)
		}
	}
	return all
}

// Of numbers that may be absent.
type sample []float64

func (s sample) mean() float64 {
	var sum float64
	for _, v := range s {
		sum += v
	}
	return sum / float64(len(s))
}

// spread is the standard deviation, 0 of a single one.
func (s sample) spread() float64 {
	if len(s) < 2 {
		return 0
	}
	m, sum := s.mean(), 0.0
	for _, v := range s {
		sum += (v - m) * (v - m)
	}
	return math.Sqrt(sum / float64(len(s)-1))
}

// over returns a quantity of the networks of a row, each the mean over its draws; of a single network
// those of its draws. It is nil where there is none of it.
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

// networks counts those of a row.
func (r row) networks() int {
	var seeds []any
	for _, m := range r.Runs {
		if !slices.Contains(seeds, m.Seed) {
			seeds = append(seeds, m.Seed)
		}
	}
	return len(seeds)
}

// mean returns the means of all figures.
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
			of := func(o func(detection) float64) float64 { return r.over(told(set, nll, "", o)).mean() }
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

// across is a row of the means of others with the same runs, run by run.
func across(p place, rows []row) row {
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
