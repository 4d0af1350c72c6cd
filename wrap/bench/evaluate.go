package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/featurize"
	"github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/bundle"
	"github.com/mfgs/mfgs/wrap/internal/attach"
	"github.com/mfgs/mfgs/wrap/internal/measure"
	"github.com/mfgs/mfgs/wrap/internal/source"
)

// Evaluate measures methods on a labelled test set, on such sets under shift, and on
// how well they tell the test set from other sets.
//
// For methods of PlainMethods data is streamed, and memory holds a score for each
// example. The others want held-out data to be tuned on, and some the training set to
// be fitted to; features and logits of all sets are then kept in memory.
func Evaluate(ctx context.Context, cfg Config) (*Evaluation, error) {
	e := &evaluation{Config: cfg, notes: source.Notes{Progress: cfg.step()}}
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
	r := &Evaluation{Bundle: wrap.NewBundleInfo(e.attached.Bundle), Methods: results, Bad: []string{}, Ignored: []string{}, Warnings: []string{}}
	if e.cut != nil {
		r.Model = wrap.NewModelInfo(e.cut.Model)
	}
	r.Bad, r.Ignored = append(r.Bad, e.notes.Bad...), append(r.Ignored, e.notes.Ignored...)
	r.Warnings = append(r.Warnings, e.warnings...)
	return r, nil
}

// evaluation is one run of Evaluate.
type evaluation struct {
	Config
	methods  []method
	notes    source.Notes
	warnings []string

	attached    *attach.Attached
	cut         *attach.Cut // nil for ready-made features
	manifest    bundle.Manifest
	head        calibrate.Head
	calibration *calibrate.Calibration
	sets        []*evalSet // the test set first

	bench *bench // of methods beyond the bundle's own; nil without
}

// What a set is for beyond being measured.
const (
	heldOutRole = measure.OOD + 1 + iota // to be tuned on
	trainRole
)

// evalSet is a set with its part in the evaluation.
type evalSet struct {
	*source.Set
	part measure.Part // its role, and its place among those of its role

	data  *rows.Batch // kept where a method asks for more than a block at a time
	whole *evalSet    // of which this is a part; nil of a whole one
}

func (e *evaluation) close() {
	if e.bench != nil {
		e.bench.close()
	}
	for _, s := range e.sets {
		s.Close()
	}
	if e.cut != nil {
		e.cut.Close()
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
	if len(e.OOD) == 0 && len(e.methods) == 1 && e.methods[0].name == measure.Leverage {
		return errors.New("leverage gives no probabilities: it needs an out-of-distribution set to be measured on")
	}
	if err := e.Runtime.Validate(); err != nil {
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
	if err := e.attach(ctx); err != nil {
		return err
	}
	opener := e.opener(e.network(), e.Limit)
	add := func(r measure.Role, index int, name, spec string) error {
		s, err := opener.Open(name, spec, e.head.Classes(), r != measure.OOD)
		if err != nil {
			return err
		}
		e.sets = append(e.sets, &evalSet{Set: s, part: measure.Part{Role: r, Index: index}})
		if r != measure.OOD && !s.Labelled() {
			return fmt.Errorf("%s: %s has no labels", name, spec)
		}
		return s.Fits(e.head, "the bundle's head")
	}
	if err := add(measure.Test, 0, "test", e.Test); err != nil {
		return err
	}
	for i, s := range e.Shifts {
		if err := add(measure.Shift, i, s.Name, s.Spec); err != nil {
			return err
		}
	}
	for i, s := range e.OOD {
		if err := add(measure.OOD, i, s.Name, s.Spec); err != nil {
			return err
		}
	}
	for _, s := range e.sets {
		if err := s.Identify(ctx); err != nil {
			return err
		}
		for _, d := range e.manifest.Datasets {
			if d.Fingerprint == s.Fingerprint {
				e.warnings = append(e.warnings, fmt.Sprintf("%s: the same data that was used as %s for calibration: figures on new data will be worse", s.Name, d.Role))
			}
		}
	}
	return e.openBench(ctx)
}

// attach opens the bundle and its network, cut at its head.
func (e *evaluation) attach(ctx context.Context) error {
	b, err := bundle.Open(e.Bundle)
	if err != nil {
		return err
	}
	if e.attached, err = attach.Open(b, e.Model, e.Preprocess); err != nil {
		return err
	}
	e.manifest, e.head, e.calibration = b.Manifest, b.Posterior.Head, b.Calibration()
	if e.attached.Model == nil {
		return nil
	}
	if err := e.Runtime.Load(ctx); err != nil {
		return err
	}
	run := e.Runtime.Config()
	if run.Batch == 0 {
		run.Batch = e.attached.Batch()
	}
	return e.attached.Run(e.Preprocess, run, func(c featurize.Config) (err error) {
		e.cut, err = attach.OpenCut(e.attached.Model, e.attached.Head, c)
		return err
	})
}

// network returns the bundle's, nil of ready-made features.
func (e *evaluation) network() *featurize.Network {
	if e.cut == nil {
		return nil
	}
	return e.cut.Network
}

// opener opens sets for a network, which is nil for ready-made features.
func (e *evaluation) opener(n *featurize.Network, limit int) *source.Opener {
	o := &source.Opener{
		Network: n, Classes: e.classes(), MaxBad: e.MaxBad, Cache: e.Cache, Limit: limit, MultiLabel: e.head.MultiLabel(), Notes: &e.notes,
	}
	if e.cut != nil {
		o.Extractor = e.cut.Extractor
	}
	return o
}

// classes returns the class names, nil if there are none.
func (e *evaluation) classes() []string {
	if len(e.manifest.Labels) == 0 {
		return nil
	}
	return e.manifest.Labels
}

// measure returns the figures of all methods, in their order.
func (e *evaluation) measure(ctx context.Context) ([]MethodResult, error) {
	var own []*measure.Tally
	for _, m := range e.methods {
		if m.own(e.Layers) {
			own = append(own, e.newTally(m))
		}
	}
	for _, s := range e.sets {
		keep := e.keep(s)
		_, _, err := s.Stream(ctx, e.head, &e.notes, func(b *rows.Batch) error {
			keep(b)
			return measure.AddPlain(own, e.calibration, s.part, b)
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
			r, err = e.result(own[0])
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

func (e *evaluation) newTally(m method) *measure.Tally {
	var oods []string
	for _, s := range e.OOD {
		oods = append(oods, s.Name)
	}
	return measure.New(m.text, e.head, len(e.Shifts), oods)
}

// result returns what a tally gathered, with the names of the sets.
func (e *evaluation) result(t *measure.Tally) (MethodResult, error) {
	f, err := t.Figures()
	r := MethodResult{Name: t.Name, InDomain: f.InDomain, OOD: []OODResult{}, OODNLL: []OODResult{}}
	for i, in := range f.Shifts {
		r.Shifts = append(r.Shifts, ShiftResult{e.Shifts[i].Name, in})
	}
	for i := range f.OOD {
		r.OOD = append(r.OOD, OODResult{e.OOD[i].Name, f.OOD[i]})
		r.OODNLL = append(r.OODNLL, OODResult{e.OOD[i].Name, f.OODNLL[i]})
	}
	return r, err
}
