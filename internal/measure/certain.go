package measure

import (
	"context"
	"slices"

	"github.com/mfgs/mfgs/calibrate/metrics"
)

// Level is the confidence of all intervals, and Resamples how many draws they are of unless another
// number is asked for.
const (
	Level     = 0.95
	Resamples = 1000
)

// References are the methods that others are compared with: the network itself, and
// temperature scaling.
var Baselines = []string{"mle", "ts"}

// Resampled is figures of several methods on the same resamples of all sets.
type Resampled struct {
	tallies []*Tally
	figures map[place]map[string]metrics.Series
}

// place is where figures belong. nll: of the scores under the temperatures for likelihood, where
// they are others.
type place struct {
	tally int
	part  Part
	nll   bool
}

// Resample computes the figures of all tallies, which have the same sets, on the same resamples. keys are those of
// the figures that are wanted; there are all figures if there are none, and else no figures of scores under the
// temperatures for likelihood.
func Resample(ctx context.Context, tallies []*Tally, resamples int, seed uint64, keys ...string) (*Resampled, error) {
	g := statistics{tallies: tallies}
	drawn := samplesOf(tallies)
	for i, t := range tallies {
		if t.test != nil {
			g.add(place{i, Part{Role: Test}, false}, t.test.Probabilities(drawn.test, keys...))
		}
		for j, c := range t.shifts {
			if c != nil {
				g.add(place{i, Part{Shift, j}, false}, c.Probabilities(drawn.shifts[j], keys...))
			}
		}
		for j, out := range t.out {
			m, err := metrics.Detection(t.in.OOD, out.OOD, drawn.test, drawn.out[j], keys...)
			if err != nil {
				return nil, err
			}
			g.add(place{i, Part{OOD, j}, false}, m)
			if len(out.NLL) == 0 || len(keys) > 0 {
				continue
			}
			if m, err = metrics.Detection(t.in.NLL, out.NLL, drawn.test, drawn.out[j]); err != nil {
				return nil, err
			}
			g.add(place{i, Part{OOD, j}, true}, m)
		}
	}
	return g.resample(ctx, drawn.sizes, resamples, seed)
}

// gathered is what is to be resampled.
type statistics struct {
	tallies []*Tally
	places  []place
	list    []*metrics.Statistics
}

func (g *statistics) add(p place, m *metrics.Statistics) {
	g.places, g.list = append(g.places, p), append(g.list, m)
}

func (g *statistics) resample(ctx context.Context, sizes []int, resamples int, seed uint64) (*Resampled, error) {
	series, err := metrics.Resample(ctx, sizes, g.list, metrics.ResampleOptions{Resamples: resamples, Seed: seed})
	if err != nil {
		return nil, err
	}
	r := &Resampled{g.tallies, map[place]map[string]metrics.Series{}}
	for i, p := range g.places {
		r.figures[p] = series[i]
	}
	return r, nil
}

// samples are what is drawn of the sets: those of one sample have the same draws. The test set's is
// the first.
type samples struct {
	sizes       []int
	test        int
	shifts, out []int // by set
}

// samplesOf returns the samples of the test set, the sets under shift and those out of distribution. A
// set under shift that is as large as the test set, or as one before it, is taken for the same
// examples in another form, and drawn with it. The size is 1 where no method measures a set.
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

// of returns the figures at a place: nil where there are none.
func (r *Resampled) of(p place) map[string]metrics.Series {
	if f := r.figures[p]; f != nil || !p.nll {
		return f
	}
	p.nll = false
	return r.figures[p]
}

// certainty compares with the references, where they are among the methods.
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

// Add says of the figures of a tally how sure they are.
func (r *Resampled) Add(tally int, f *Figures) {
	if f.InDomain != nil {
		f.InDomain.Certainty = r.certainty(place{tally, Part{Role: Test}, false})
	}
	for j := range f.Shifts {
		f.Shifts[j].Certainty = r.certainty(place{tally, Part{Shift, j}, false})
	}
	for j := range f.OOD {
		f.OOD[j].Certainty = r.certainty(place{tally, Part{OOD, j}, false})
		f.OODNLL[j].Certainty = r.certainty(place{tally, Part{OOD, j}, true})
	}
}
