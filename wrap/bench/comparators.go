package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/internal/measure"
)

// Comparators are methods from elsewhere, measured beside those of a bundle. They get a [Session], and their
// predictions the same figures on the same resamples.
type Comparators interface {
	// Takes reports whether a name of Config.Methods is theirs. They take precedence over Methods.
	Takes(name string) bool
	// Check checks the names that it takes, before any work is done.
	Check(names []string) error
	// Open opens the methods once the measured sets are open. It returns, in the order of the names, one Comparator for
	// each, or one for each draw of a random method.
	Open(ctx context.Context, s *Session, names []string) ([]Comparator, error)
}

// Comparator is a method that is fitted, tuned and measured once.
type Comparator struct {
	Name string // of Config.Methods
	Draw int    // of a random method, from 0 on
	// Measure predicts all examples of each of Session.Sets, in any order, and returns what MethodResult has beside the
	// figures.
	Measure func(ctx context.Context, add func(*Set, Predictions) error) (Outcome, error)
}

// Predictions are a comparator's for n examples of C classes.
type Predictions struct {
	LogP []float64 // log-probabilities [n,C]
	// OOD and NLL are OOD scores [n], under the temperatures for out-of-distribution data and for likelihood.
	OOD, NLL []float64
}

// Outcome is what a comparator reports beside its figures: see [MethodResult].
type Outcome struct {
	Temperatures *TunedPairs
	Note         string
	Seconds      map[string]float64
}

// openComparators replaces each request that they take by its comparators.
func (b *bench) openComparators(ctx context.Context) error {
	var names []string
	for _, r := range b.requests {
		if r.taken {
			names = append(names, r.name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	if b.head.Link != layer.Softmax {
		return fmt.Errorf("method %[3]s needs a softmax, and the head has %[1]d logits with link %[2]s", b.head.Logits, b.head.Link, names[0])
	}
	all, err := b.Comparators.Open(ctx, &Session{b}, names)
	if err != nil {
		return err
	}
	for _, s := range b.sets {
		if err := b.checkMemory(s.source.Len(), s.Name()); err != nil {
			return err
		}
	}
	var list []*request
	for _, r := range b.requests {
		if !r.taken {
			list = append(list, r)
			continue
		}
		for i := range all {
			if c := &all[i]; c.Name == r.name {
				list = append(list, &request{name: r.name, taken: true, comparator: c})
			}
		}
	}
	b.requests = list
	return nil
}

// compare measures a comparator.
func (b *bench) compare(ctx context.Context, c *Comparator, t *measure.Tally, result *MethodResult) error {
	var added []*Set
	outcome, err := c.Measure(ctx, func(s *Set, p Predictions) error {
		if !slices.Contains(b.sets, s) || slices.Contains(added, s) {
			panic("bench: a comparator measures a set that is not measured, or twice")
		}
		added = append(added, s)
		return t.Add(s.part, measure.Scores{LogP: p.LogP, OOD: p.OOD, NLL: p.NLL}, s.data)
	})
	if err != nil {
		return err
	}
	if len(added) < len(b.sets) {
		return errors.New("it did not measure all sets")
	}
	result.Draw, result.Temperatures = c.Draw, outcome.Temperatures
	result.Note, result.Seconds = outcome.Note, outcome.Seconds
	return nil
}
