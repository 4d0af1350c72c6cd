package telemetry

import (
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/mfgs/mfgs/calibrate/drift"
	"github.com/mfgs/mfgs/wrap"
)

// A Reference is how the held-out examples were predicted. What it does not have is not looked at.
type Reference struct {
	Confidence, Entropy, OODScore *drift.Reference
	Classes                       []int // how many were predicted as each class; nil of a multi-label head
}

// A watch compares predictions with the held-out ones.
type watch struct {
	mu         sync.Mutex
	quantities []*quantity
	classes    *drift.Classes // nil: none
	classIndex *drift.Index
	numClasses int
}

// A quantity is a number that predictions have.
type quantity struct {
	name  string
	of    func(*wrap.Prediction) float64
	bins  *drift.Bins
	index *drift.Index
	test  *drift.Test
}

func newWatch(r *Reference, c Config) (*watch, error) {
	w := &watch{}
	tests := 0
	for _, q := range []struct {
		name string
		held *drift.Reference
		of   func(*wrap.Prediction) float64
	}{
		{"confidence", r.Confidence, func(p *wrap.Prediction) float64 { return p.Confidence }},
		{"entropy", r.Entropy, func(p *wrap.Prediction) float64 { return p.Entropy }},
		{"ood_score", r.OODScore, func(p *wrap.Prediction) float64 { return p.OODScore }},
	} {
		if q.held == nil {
			continue
		}
		// Nobody who sends requests can tell these seeds.
		bins, err := drift.NewBins(q.held, rand.Uint64())
		if err != nil {
			return nil, fmt.Errorf("held-out %s: %w", q.name, err)
		}
		tests++
		w.quantities = append(w.quantities, &quantity{name: q.name, of: q.of, bins: bins})
	}
	for _, q := range w.quantities {
		weights := q.bins.Weights()
		q.index = drift.NewIndex(weights, c.Window)
		q.test = drift.NewTest(weights, c.FalseAlarm/float64(tests), rand.Uint64())
	}
	if r.Classes != nil {
		classes, err := drift.NewClasses(r.Classes, c.Window)
		if err != nil {
			return nil, fmt.Errorf("held-out classes: %w", err)
		}
		w.classes, w.classIndex, w.numClasses = classes, drift.NewIndex(classes.Weights(), c.Window), len(r.Classes)
	}
	return w, nil
}

func (w *watch) add(all []wrap.Prediction) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range all {
		p := &all[i]
		for _, q := range w.quantities {
			k := q.bins.Place(q.of(p))
			q.index.Add(k)
			q.test.Add(k)
		}
		if w.classes != nil && p.Class >= 0 && p.Class < w.numClasses {
			w.classIndex.Add(w.classes.Place(p.Class))
		}
	}
}

// A standing is what a quantity has come to.
type standing struct {
	quantity string
	drift.Reading
	tested bool
	log10  float64
	alarm  bool
}

func (w *watch) standings() []standing {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []standing
	for _, q := range w.quantities {
		all = append(all, standing{
			quantity: q.name, Reading: q.index.Read(), tested: true, log10: q.test.Log10(), alarm: q.test.Alarm() > 0,
		})
	}
	if w.classes != nil {
		all = append(all, standing{quantity: "class", Reading: w.classIndex.Read()})
	}
	return all
}
