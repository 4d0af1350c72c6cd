// Package compare measures the methods of a bundle, and those of the paper that no bundle can use.
// Each has an entry in the registry (registry.go) and a file; its mathematics is in package methods.
package compare

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/internal/measure"
	"github.com/mfgs/mfgs/wrap/bench"
	"github.com/mfgs/mfgs/wrap/bundle"
)

// Evaluate is bench.Evaluate with the methods of the paper.
func Evaluate(ctx context.Context, cfg Config) (*bench.Evaluation, error) {
	b := newComparison(cfg)
	if err := b.check(); err != nil {
		return nil, err
	}
	cfg.Config.Comparators = b
	return bench.Evaluate(ctx, cfg.Config)
}

// check validates the Config before any work is done.
func (b *comparison) check() (err error) {
	names := b.Methods
	if len(names) == 0 {
		names = bench.DefaultMethods()
	}
	if b.requests, err = parseMethods(names); err != nil {
		return err
	}
	switch {
	case b.Layers < 0:
		return fmt.Errorf("layers are %d, want a positive number, or 0 for the last layer only", b.Layers)
	case !(b.DropoutRate >= 0 && b.DropoutRate < 1):
		return fmt.Errorf("dropout rate is %v, want 0 to less than 1", b.DropoutRate)
	}
	return b.checkUnused()
}

// Takes implements bench.Comparators.
func (b *comparison) Takes(name string) bool {
	r, err := parseMethod(name)
	return err == nil && !r.plain(b.Layers)
}

// Check implements bench.Comparators.
func (b *comparison) Check(names []string) error {
	for _, r := range b.requestsOf(names) {
		if err := b.checkRequest(r); err != nil {
			return fmt.Errorf("method %q: %w", r.text, err)
		}
	}
	return nil
}

// requestsOf parses names that Takes accepted.
func (b *comparison) requestsOf(names []string) (list []*request) {
	for _, name := range names {
		r, err := parseMethod(name)
		if err != nil {
			panic(err) // Takes parsed it
		}
		list = append(list, r)
	}
	return list
}

// Open implements bench.Comparators. It finds errors that would otherwise stop a method after others are done.
func (b *comparison) Open(ctx context.Context, s *bench.Session, names []string) ([]bench.Comparator, error) {
	b.session, b.manifest, b.calibration = s, &s.Bundle().Manifest, s.Calibration()
	b.head, b.product = b.calibration.Posterior.Head, b.calibration.Product
	b.model, b.modelHead = s.Model()
	list := b.requestsOf(names)
	for _, r := range list {
		if b.model == nil && b.runsNetworks(r) {
			return nil, fmt.Errorf("method %q runs networks, and the bundle was calibrated on precomputed features", r.text)
		}
	}
	for _, r := range list {
		if err := b.checkFiles(r); err != nil {
			return nil, fmt.Errorf("method %s: %w", r.text, err)
		}
	}
	if err := b.openSets(ctx, slices.ContainsFunc(list, b.needsTrain)); err != nil {
		return nil, err
	}
	var all []bench.Comparator
	for _, r := range list {
		seeds := []uint64{b.Seed}
		if b.random(r) && len(b.Draws) > 0 {
			seeds = b.Draws
		}
		for i, seed := range seeds {
			of := *r
			of.seed = seed
			all = append(all, bench.Comparator{Name: r.text, Draw: i, Measure: func(
				ctx context.Context, add func(*bench.Set, bench.Predictions) error,
			) (bench.Outcome, error) {
				return b.run(ctx, &of, add)
			}})
		}
	}
	return all, nil
}

// openSets opens the sets for tuning and, with train, for fitting.
func (b *comparison) openSets(ctx context.Context, train bool) (err error) {
	if b.val, err = b.session.Open(ctx, bundle.Val, b.Val); err != nil {
		return err
	}
	if b.val == nil {
		return errors.New("the bundle does not record its validation data: give them with --val")
	}
	if b.ood, err = b.session.Open(ctx, bundle.OOD, b.ValOOD); err != nil {
		return err
	}
	if train {
		if b.train, err = b.session.Open(ctx, bundle.Train, b.Train); err == nil && b.train == nil {
			err = errors.New("the bundle does not record its training data: give them with --train")
		}
	}
	return err
}

// run fits, tunes and measures a method.
func (b *comparison) run(
	ctx context.Context, r *request, add func(*bench.Set, bench.Predictions) error,
) (out bench.Outcome, err error) {
	if err := b.prepare(ctx, r); err != nil {
		return out, err
	}
	seconds := map[string]float64{}
	timed := func(stage string, f func() error) error {
		b.session.Step(r.text+": "+stage, "steps", 0, 1)
		start := time.Now()
		err := f()
		seconds[stage] = time.Since(start).Seconds()
		b.session.Step(r.text+": "+stage, "steps", 1, 1)
		return err
	}
	var predict predictor
	var note string
	err = timed("fit", func() (err error) {
		predict, note, err = b.fit(ctx, r)
		return err
	})
	if err != nil {
		return out, err
	}
	var tuned *calibrate.Tuned
	if tuned = b.tuned[r.text]; tuned == nil {
		err = timed("tune", func() (err error) {
			tuned, err = b.tune(ctx, r, predict)
			return err
		})
		if err != nil {
			return out, err
		}
		b.tuned[r.text] = tuned
	}
	err = timed("test", func() error {
		for _, s := range b.session.Sets() {
			p, err := test(ctx, predict, tuned, s)
			if err == nil {
				err = add(s, p)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", s.Name(), err)
			}
		}
		return nil
	})
	if err != nil {
		return out, err
	}
	return bench.Outcome{
		Temperatures: &bench.TunedPairs{NLL: tuned.NLL, OOD: tuned.OOD},
		Note:         b.noteOf(r, note, tuned), Seconds: seconds,
	}, nil
}

// noteOf adds remarks on the tuning to the note from fitting.
func (b *comparison) noteOf(r *request, note string, tuned *calibrate.Tuned) string {
	costly := r.method == bnnKFAC && b.overLayers(r) // its fit has the remark
	if most := b.tunedOn(r); !costly && most > 0 && b.val.Data().N > most {
		note = joinNotes(note, fmt.Sprintf("tuned on %d of %d validation examples", most, b.val.Data().N))
	}
	if tuned.NLLAtBound {
		note = joinNotes(note, "T_act for likelihood is at a bound of the search")
	}
	if tuned.OODAtBound {
		note = joinNotes(note, "T_act for OOD detection is at a bound of the search")
	}
	return note
}

func joinNotes(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}

// prepare reads the sets for tuning and fitting.
func (b *comparison) prepare(ctx context.Context, r *request) error {
	sets := []*bench.Set{b.val}
	if b.ood != nil {
		sets = append(sets, b.ood)
	}
	if b.needsTrain(r) && !b.overLayers(r) {
		sets = append(sets, b.train)
	}
	for _, s := range sets {
		if err := b.session.Read(ctx, s); err != nil {
			return err
		}
	}
	if b.limit == 0 {
		val := b.val.Data()
		logp, margin := calibrate.Plain(b.head, val.Logits, val.N, b.calibration.TS)
		classes := b.head.Classes()
		b.limit = calibrate.ScalingLimit(nllOf(logp, val.Labels, classes), margin, classes)
	}
	return nil
}

// fit fits a method. The note states choices made.
func (b *comparison) fit(ctx context.Context, r *request) (predictor, string, error) {
	if b.overLayers(r) {
		return b.fitLayers(ctx, r)
	}
	return r.fit(ctx, b, r)
}

// tune finds a method's temperatures on the validation sets.
func (b *comparison) tune(ctx context.Context, r *request, predict predictor) (*calibrate.Tuned, error) {
	prepared := func(s *bench.Set) (calibrate.Predictive, *bench.Set, error) {
		if most := b.tunedOn(r); most > 0 {
			s = s.Subsampled(most)
		}
		p, err := predict(ctx, s)
		if err != nil {
			err = fmt.Errorf("%s: %w", s.Name(), err)
		}
		return p, s, err
	}
	val, v, err := prepared(b.val)
	if err != nil {
		return nil, err
	}
	var ood calibrate.Predictive
	if b.ood != nil {
		if ood, _, err = prepared(b.ood); err != nil {
			return nil, err
		}
	}
	return calibrate.Tune(ctx, val, v.Data().Labels, ood, b.limit)
}

// tunedOn is how many examples of each validation set a method is tuned on, 0 for all.
func (b *comparison) tunedOn(r *request) int {
	switch {
	case r.method == bnnKFAC && b.overLayers(r):
		return costlyVal
	case r.samples > 0:
		return max(costlyVal, drawnVal/r.samples)
	}
	return 0
}

// test returns a tuned method's predictions for a set.
func test(
	ctx context.Context, predict predictor, tuned *calibrate.Tuned, s *bench.Set,
) (out bench.Predictions, err error) {
	p, err := predict(ctx, s)
	if err != nil {
		return out, err
	}
	if out.LogP, out.NLL, err = calibrate.PredictAll(ctx, p, tuned.NLL); err != nil {
		return out, err
	}
	measure.Negate(out.NLL)
	out.OOD = out.NLL
	if tuned.OOD != tuned.NLL && !s.Shifted() {
		if _, out.OOD, err = calibrate.PredictAll(ctx, p, tuned.OOD); err != nil {
			return out, err
		}
		measure.Negate(out.OOD)
	}
	return out, nil
}
