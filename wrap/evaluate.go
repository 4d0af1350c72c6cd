package wrap

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/wrap/bundle"
)

// Evaluate measures methods on a labelled test set, on such sets under shift, and on
// how well they tell the test set from other sets.
//
// For methods of PlainMethods data is streamed, and memory holds a score for each
// example. The others want held-out data to be tuned on, and some the training set to
// be fitted to; features and logits of all sets are then kept in memory.
func Evaluate(ctx context.Context, cfg EvalConfig) (*Evaluation, error) {
	e := &evaluation{EvalConfig: cfg, notes: notes{progress: cfg.Progress}}
	defer e.close()
	if err := e.check(); err != nil {
		return nil, err
	}
	if err := e.open(ctx); err != nil {
		return nil, err
	}
	results, err := e.measure(ctx)
	if err != nil {
		return nil, err
	}
	r := &Evaluation{Bundle: e.p.Bundle(), Methods: results, Bad: []string{}, Ignored: []string{}, Warnings: []string{}}
	if e.p.network != nil {
		r.Model = e.p.network.info()
	}
	r.Bad, r.Ignored = append(r.Bad, e.notes.bad...), append(r.Ignored, e.notes.ignored...)
	r.Warnings = append(r.Warnings, e.warnings...)
	return r, nil
}

// evaluation is one run of Evaluate.
type evaluation struct {
	EvalConfig
	methods  []method
	notes    notes
	warnings []string

	p    *Predictor // of a network cut at its head
	sets []*evalSet // the test set first

	bench *bench // of methods beyond the bundle's own; nil without
}

// role is what a set is for.
type role int

const (
	testRole role = iota
	shiftRole
	oodRole
	heldOutRole // to be tuned on
	trainRole
)

// evalSet is a set with its part in the evaluation.
type evalSet struct {
	*set
	role  role
	index int // among those of its role

	data  *rows.Batch // kept where a method asks for more than a block at a time
	whole *evalSet    // of which this is a part; nil of a whole one
}

func (e *evaluation) close() {
	if e.bench != nil {
		e.bench.close()
	}
	for _, s := range e.sets {
		s.close()
	}
	if e.p != nil {
		e.p.Close()
	}
}

// check refuses what cannot work before any work is done.
func (e *evaluation) check() error {
	names := e.Methods
	if len(names) == 0 {
		names = PlainMethods()
	}
	var err error
	if e.methods, err = parseMethods(names); err != nil {
		return err
	}
	if len(e.OOD) == 0 && len(e.methods) == 1 && e.methods[0].name == leverage {
		return errors.New("leverage gives no probabilities: it needs an out-of-distribution set to be measured on")
	}
	if err := e.Runtime.check(); err != nil {
		return err
	}
	if e.Limit < 0 || e.MaxBad < 0 {
		return fmt.Errorf("limit is %d and max-bad %d, want no negative numbers", e.Limit, e.MaxBad)
	}
	if e.Test == "" {
		return errors.New("evaluation needs test data")
	}
	for what, sets := range map[string][]NamedSpec{"out-of-distribution sets": e.OOD, "sets under shift": e.Shifts} {
		for i, s := range sets {
			if slices.ContainsFunc(sets[:i], func(o NamedSpec) bool { return o.Name == s.Name }) {
				return fmt.Errorf("two %s are named %q: give them names with NAME=SPEC", what, s.Name)
			}
		}
	}
	return e.checkBench()
}

// open opens the bundle, its network and all sets.
func (e *evaluation) open(ctx context.Context) error {
	var err error
	e.p, err = open(ctx, func() (*bundle.Bundle, error) { return bundle.Open(e.Bundle) }, (*Predictor).openCut, Options{
		Model: e.Model, Preprocess: e.Preprocess, Runtime: e.Runtime,
	})
	if err != nil {
		return err
	}
	opener := e.opener(e.p.network, e.Limit)
	add := func(r role, index int, name, spec string) error {
		s, err := opener.open(name, spec, e.p.head.Classes(), r != oodRole)
		if err != nil {
			return err
		}
		e.sets = append(e.sets, &evalSet{set: s, role: r, index: index})
		if r != oodRole && !s.labelled() {
			return fmt.Errorf("%s: %s has no labels", name, spec)
		}
		return e.p.fits(s)
	}
	if err := add(testRole, 0, "test", e.Test); err != nil {
		return err
	}
	for i, s := range e.Shifts {
		if err := add(shiftRole, i, s.Name, s.Spec); err != nil {
			return err
		}
	}
	for i, s := range e.OOD {
		if err := add(oodRole, i, s.Name, s.Spec); err != nil {
			return err
		}
	}
	for _, s := range e.sets {
		if err := s.identify(ctx); err != nil {
			return err
		}
		for _, d := range e.p.bundle.Manifest.Datasets {
			if d.Fingerprint == s.fingerprint {
				e.warnings = append(e.warnings, fmt.Sprintf("%s: the same data that was used as %s for calibration: figures on new data will be worse", s.name, d.Role))
			}
		}
	}
	return e.openBench(ctx)
}

// opener opens sets for a network, which is nil for ready-made features.
func (e *evaluation) opener(n *network, limit int) *opener {
	return &opener{network: n, classes: e.p.Classes(), inputs: e.Inputs, limit: limit, multi: e.p.head.MultiLabel(), notes: &e.notes}
}

// fits reports ready-made features that are not the head's.
func (p *Predictor) fits(s *set) error {
	if f := s.features; f != nil && (f.Dim() != p.head.Features || f.Logits() != p.head.Logits) {
		return fmt.Errorf("%s: %s has %d features and %d logits, the bundle's head %d and %d", s.name, s.spec, f.Dim(), f.Logits(), p.head.Features, p.head.Logits)
	}
	return nil
}

// measure returns the figures of all methods, in their order.
func (e *evaluation) measure(ctx context.Context) ([]MethodResult, error) {
	var own []*tally
	for _, m := range e.methods {
		if m.own(e.Layers) {
			own = append(own, newTally(m.text, e.p.head, len(e.Shifts), len(e.OOD)))
		}
	}
	for _, s := range e.sets {
		keep := e.keep(s)
		_, _, err := s.stream(ctx, e.p.head, &e.notes, func(b *rows.Batch) error {
			keep(b)
			return addOwn(own, e.p.calibration, s, b)
		})
		if err != nil {
			return nil, err
		}
	}
	results := make([]MethodResult, 0, len(e.methods))
	for _, m := range e.methods {
		var r MethodResult
		var err error
		if m.own(e.Layers) {
			r, err = own[0].result(e.Shifts, e.OOD)
			own = own[1:]
		} else {
			r, err = e.bench.run(ctx, m)
		}
		if err != nil {
			return nil, err
		}
		results = append(results, r)
	}
	return results, nil
}

// addOwn measures methods for which the bundle has all they need on a block of
// examples, whose features and logits are finite.
func addOwn(tallies []*tally, c *calibrate.Calibration, s *evalSet, b *rows.Batch) error {
	h := c.Posterior.Head
	var mf0 *calibrate.Predictions
	for _, t := range tallies {
		var logp, ood, nll []float64
		switch t.name {
		case "mle":
			logp, ood = calibrate.Plain(h, b.Logits, b.N, 1)
			ood = strangeness(ood)
		case "ts":
			logp, ood = calibrate.Plain(h, b.Logits, b.N, c.TS)
			ood = strangeness(ood)
			if told := c.TSOOD; told != 0 && told != c.TS {
				nll = ood
				_, ood = calibrate.Plain(h, b.Logits, b.N, told)
				ood = strangeness(ood)
			}
		default:
			if mf0 == nil {
				of := *c
				of.Method = calibrate.MF0
				mf0 = of.Predict(b.Features, b.Logits, b.N)
			}
			logp, ood, nll = mf0.LogP, mf0.OODScore, strangeness(mf0.Margin)
			if t.name == leverage {
				ood, nll = mf0.Leverage, nil
			}
		}
		if err := t.add(s, logp, ood, nll, b.Labels, b.Targets); err != nil {
			return err
		}
	}
	return nil
}
