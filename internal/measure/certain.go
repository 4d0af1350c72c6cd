package measure

import (
	"context"
	"slices"

	"github.com/mfgs/mfgs/calibrate/metrics"
)

// Level is the confidence of all intervals, and Resamples the default number of draws.
const (
	Level     = 0.95
	Resamples = 1000
)

// Baselines are the methods that others are compared with: the network itself, and temperature scaling.
var Baselines = []string{"mle", "ts"}

// Resampled is the figures of several methods on the same resamples of all sets.
type Resampled struct {
	tallies []*Tally
	figures map[place]map[string]metrics.Series
}

// place is a method and a set. nll: of the scores under the temperatures for likelihood, if they differ.
type place struct {
	tally int
	part  SetID
	nll   bool
}

// Resample computes the figures of all tallies, which have the same sets, on the same resamples. keys select figures
// and leave out scores under the temperatures for likelihood; without keys it computes everything.
func Resample(ctx context.Context, tallies []*Tally, o metrics.ResampleOptions, keys ...string) (*Resampled, error) {
	g := statistics{tallies: tallies}
	drawn := samplesOf(tallies)
	for i, t := range tallies {
		if t.test != nil {
			g.add(place{i, SetID{Role: Test}, false}, t.test.Probabilities(drawn.test, keys...))
		}
		for j, c := range t.shifts {
			if c != nil {
				g.add(place{i, SetID{Shift, j}, false}, c.Probabilities(drawn.shifts[j], keys...))
			}
		}
		for j, out := range t.out {
			m, err := metrics.Detection(t.in.OOD, out.OOD, drawn.test, drawn.out[j], keys...)
			if err != nil {
				return nil, err
			}
			g.add(place{i, SetID{OOD, j}, false}, m)
			if len(out.NLL) == 0 || len(keys) > 0 {
				continue
			}
			if m, err = metrics.Detection(t.in.NLL, out.NLL, drawn.test, drawn.out[j]); err != nil {
				return nil, err
			}
			g.add(place{i, SetID{OOD, j}, true}, m)
		}
	}
	return g.resample(ctx, drawn.sizes, o)
}

// statistics are what to resample.
type statistics struct {
	tallies []*Tally
	places  []place
	list    []*metrics.Statistics
}

func (g *statistics) add(p place, m *metrics.Statistics) {
	g.places, g.list = append(g.places, p), append(g.list, m)
}

func (g *statistics) resample(ctx context.Context, sizes []int, o metrics.ResampleOptions) (*Resampled, error) {
	series, err := metrics.Resample(ctx, sizes, g.list, o)
	if err != nil {
		return nil, err
	}
	r := &Resampled{g.tallies, map[place]map[string]metrics.Series{}}
	for i, p := range g.places {
		r.figures[p] = series[i]
	}
	return r, nil
}

// samples are the independent samples of the sets: sets of one sample share their draws. The test set has the first.
type samples struct {
	sizes       []int
	test        int
	shifts, out []int // sample of each set
}

// samplesOf returns the samples of all sets. A set under shift of the size of the test set, or of an earlier one, is
// taken for the same examples in another form, and shares its draws. The size is 1 if no method measures a set.
func samplesOf(tallies []*Tally) samples {
	first := tallies[0]
	s := samples{sizes: []int{max(1, len(first.in.OOD))}}
	for j := range first.shifts {
		n := 1
		for _, t := range tallies {
			if c := t.shifts[j]; c != nil {
				n = max(n, c.Result().N)
			}
		}
		sample := slices.Index(s.sizes, n)
		if sample < 0 {
			sample = len(s.sizes)
			s.sizes = append(s.sizes, n)
		}
		s.shifts = append(s.shifts, sample)
	}
	for _, out := range first.out {
		s.out = append(s.out, len(s.sizes))
		s.sizes = append(s.sizes, max(1, len(out.OOD)))
	}
	return s
}

// of returns the figures at a place, nil if there are none.
func (r *Resampled) of(p place) map[string]metrics.Series {
	if f := r.figures[p]; f != nil || !p.nll {
		return f
	}
	p.nll = false
	return r.figures[p]
}

// certainty returns intervals, and differences to the baselines among the methods.
func (r *Resampled) certainty(p place) metrics.Certainty {
	others := map[string]map[string]metrics.Series{}
	for i, t := range r.tallies {
		for _, name := range Baselines {
			at := p
			at.tally = i
			if figures := r.of(at); t.Name == name && i != p.tally && figures != nil {
				others[name] = figures
			}
		}
	}
	return metrics.NewCertainty(r.of(p), others, Level)
}

// Add adds intervals and differences to the figures of a tally.
func (r *Resampled) Add(tally int, f *Figures) {
	if f.InDomain != nil {
		f.InDomain.Certainty = r.certainty(place{tally, SetID{Role: Test}, false})
	}
	for j := range f.Shifts {
		f.Shifts[j].Certainty = r.certainty(place{tally, SetID{Shift, j}, false})
	}
	for j := range f.OOD {
		f.OOD[j].Certainty = r.certainty(place{tally, SetID{OOD, j}, false})
		f.OODNLL[j].Certainty = r.certainty(place{tally, SetID{OOD, j}, true})
	}
}
