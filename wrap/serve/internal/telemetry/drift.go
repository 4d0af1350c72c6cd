package telemetry

import (
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/mfgs/mfgs/calibrate/drift"
	"github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/bundle"
)

// A watch compares predictions with those of the validation data.
type watch struct {
	mu         sync.Mutex
	quantities []*quantity
	classes    *drift.Classes
	classIndex *drift.Index
	numClasses int
}

// A quantity is a number in every prediction.
type quantity struct {
	name  string
	of    func(*wrap.Prediction) float64
	bins  *drift.Bins
	index *drift.Index
	test  *drift.Test
}

func newWatch(r *bundle.Reference, c Config) (*watch, error) {
	w := &watch{numClasses: len(r.Classes)}
	for _, q := range []struct {
		name string
		held drift.Reference
		of   func(*wrap.Prediction) float64
	}{
		{"confidence", r.Confidence, func(p *wrap.Prediction) float64 { return p.Confidence }},
		{"entropy", r.Entropy, func(p *wrap.Prediction) float64 { return p.Entropy }},
		{"ood_score", r.OODScore, func(p *wrap.Prediction) float64 { return p.OODScore }},
	} {
		// Clients cannot guess these seeds.
		bins, err := drift.NewBins(&q.held, rand.Uint64())
		if err != nil {
			return nil, fmt.Errorf("%s of the validation data: %w", q.name, err)
		}
		w.quantities = append(w.quantities, &quantity{name: q.name, of: q.of, bins: bins})
	}
	for _, q := range w.quantities {
		weights := q.bins.Weights()
		q.index = drift.NewIndex(weights, c.Window)
		q.test = drift.NewTest(weights, c.FalseAlarm/float64(len(w.quantities)), rand.Uint64())
	}
	var err error
	if w.classes, err = drift.NewClasses(r.Classes, c.Window); err != nil {
		return nil, fmt.Errorf("classes of the validation data: %w", err)
	}
	w.classIndex = drift.NewIndex(w.classes.Weights(), c.Window)
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
		if p.Class >= 0 && p.Class < w.numClasses {
			w.classIndex.Add(w.classes.Place(p.Class))
		}
	}
}

// A standing is the state of a quantity.
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
	return append(all, standing{quantity: "class", Reading: w.classIndex.Read()})
}
