// Package bench compares the methods that a bundle can serve, on test data: the network's own probabilities,
// temperature scaling, the mean-field approximations, and every OOD score.
//
// Other methods can be measured beside these, on the same sets and resamples: see [Comparators].
package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/conformal"
	"github.com/mfgs/mfgs/calibrate/metrics"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/featurize"
	"github.com/mfgs/mfgs/featurize/dataset"
	"github.com/mfgs/mfgs/internal/attach"
	"github.com/mfgs/mfgs/internal/measure"
	"github.com/mfgs/mfgs/internal/option"
	"github.com/mfgs/mfgs/internal/source"
	"github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/bundle"
)

// Evaluate measures methods on a labelled test set, on labelled sets under shift, and on how well they detect
// out-of-distribution sets.
//
// Data are streamed; memory holds a score of each example. With Comparators it holds the features and logits of all
// sets.
func Evaluate(ctx context.Context, cfg Config) (*Evaluation, error) {
	b := newBench(cfg)
	defer b.close()
	if err := b.check(); err != nil {
		return nil, err
	}
	if err := b.open(ctx); err != nil {
		return nil, err
	}
	results, recommendation, err := b.measure(ctx)
	if err != nil {
		return nil, err
	}
	r := &Evaluation{
		Bundle:  wrap.BundleInfo{Path: b.attached.Bundle.Dir(), Summary: b.manifest.Summary()},
		Methods: results, Recommendation: *recommendation,
		Texts: b.texts, Tags: b.tags, Decisions: b.decided, Detail: b.detail,
		Bins:      cmp.Or(b.Bins, measure.DefaultBins(b.head)),
		Bootstrap: BootstrapInfo{b.resamples(), measure.Level, b.Seed},
		Bad:       append([]string{}, b.notes.Bad...), Ignored: append([]string{}, b.notes.Ignored...),
		Warnings: append([]string{}, b.warnings...),
	}
	if b.cut != nil {
		r.Model = b.cut.Model.Info()
	}
	for _, m := range results {
		if m.Name == "mle" && m.InDomain != nil && !b.head.MultiLabel() && !b.head.Correctness {
			r.Implausible = m.InDomain.Implausible(b.head.Classes())
		}
	}
	return r, nil
}

func newBench(cfg Config) *bench {
	b := &bench{Config: cfg, opened: map[bundle.Role]*Set{}}
	b.notes = source.Notes{Progress: cfg.step(), Warn: func(w string) {
		if !slices.Contains(b.warnings, w) { // comparators open the same sets again, and all use one cache
			b.warnings = append(b.warnings, w)
		}
	}}
	return b
}

func (b *bench) close() {
	for _, s := range slices.Concat(b.sets, slices.Collect(maps.Values(b.opened))) {
		s.source.Close()
	}
	for _, f := range slices.Backward(b.closers) {
		_ = f()
	}
}

// check refuses a configuration that cannot work, before any work is done.
func (b *bench) check() error {
	names := b.Methods
	if len(names) == 0 {
		names = DefaultMethods()
	}
	taken, err := b.request(names)
	if err != nil {
		return err
	}
	if len(b.OOD) == 0 && len(b.requests) == 1 && measure.IsScore(b.requests[0].name) {
		return fmt.Errorf("%s has no probabilities: it needs an out-of-distribution set", b.requests[0].name)
	}
	if err := b.Runtime.Validate(); err != nil {
		return err
	}
	switch {
	case b.Limit < 0 || b.MaxBad < 0:
		return fmt.Errorf("%s is %d and %s %d, want no negative numbers",
			option.Limit, b.Limit, option.MaxBad, b.MaxBad)
	case b.Bins < 0 || b.Bins > MostBins:
		return fmt.Errorf("%s is %d, want 1 to %d", option.Bins, b.Bins, MostBins)
	case b.Resamples < 0:
		return fmt.Errorf("resamples are %d, want no negative number", b.Resamples)
	case b.Test == "":
		return errors.New("evaluation needs test data")
	}
	if err := uniqueNames("out-of-distribution sets", b.OOD); err != nil {
		return err
	}
	for _, n := range b.OOD {
		if (n.Name == measure.SyntheticSet) != (n.Spec == wrap.SyntheticOOD) {
			return fmt.Errorf("%s=%s: synthetic OOD images are %s=%s, and no other dataset may have this name", n.Name, n.Spec, measure.SyntheticSet, wrap.SyntheticOOD)
		}
	}
	if err := uniqueNames("sets under shift", b.Shifts); err != nil {
		return err
	}
	if err := b.checkStreams(); err != nil {
		return err
	}
	needsFitting := func(r *request) bool { return r.needsFitting() }
	if b.Train != "" && len(taken) == 0 && !slices.ContainsFunc(b.requests, needsFitting) {
		return fmt.Errorf("%s needs a method that is fitted: add one with %s",
			option.Train, option.Methods)
	}
	if len(taken) > 0 {
		return b.Comparators.Check(taken)
	}
	return nil
}

// checkStreams refuses standard input if it would be read twice.
func (b *bench) checkStreams() error {
	measured := map[string]string{"test": b.Test}
	for _, s := range slices.Concat(b.OOD, b.Shifts) {
		measured[s.Name] = s.Spec
	}
	for name, spec := range measured {
		if dataset.IsStream(spec) && b.Limit > 0 {
			return fmt.Errorf("%s: %s: a stream cannot be subsampled, since its length is not known: leave out the limit, or give a file", name, spec)
		}
	}
	if dataset.IsStream(b.Train) {
		return streamed("train", b.Train)
	}
	return source.OneStream(measured)
}

func streamed(name, spec string) error {
	return fmt.Errorf("%s: %s: data for fitting is read more than once, and a stream cannot be: give a file", name, spec)
}

func uniqueNames(what string, sets []NamedSpec) error {
	for i, s := range sets {
		if slices.ContainsFunc(sets[:i], func(o NamedSpec) bool { return o.Name == s.Name }) {
			return fmt.Errorf("two %s are named %q: give them names with NAME=SPEC", what, s.Name)
		}
	}
	return nil
}

// open opens the bundle, its network and all sets.
func (b *bench) open(ctx context.Context) error {
	if err := b.attach(ctx); err != nil {
		return err
	}
	if err := b.openSets(ctx); err != nil {
		return err
	}
	if err := b.openComparators(ctx); err != nil {
		return err
	}
	return b.openScores(ctx)
}

// attach opens the bundle and its network, cut at the head.
func (b *bench) attach(ctx context.Context) error {
	b.notes.Step("opening", "", 0, 0)
	opened, err := bundle.OpenContext(ctx, b.Bundle)
	if err != nil {
		return err
	}
	if b.attached, err = attach.Open(ctx, opened, b.Model, b.Preprocess); err != nil {
		return err
	}
	b.closers = append(b.closers, b.attached.Close)
	b.manifest, b.head, b.calibration = &opened.Manifest, opened.Posterior.Head, opened.Calibration()
	if err := b.suit(); err != nil {
		return err
	}
	b.addMatrix()
	b.resolveScores()
	if err := b.checkPairwise(); err != nil {
		return err
	}
	if b.attached.Model == nil {
		return nil
	}
	if err := b.Runtime.Load(ctx); err != nil {
		return err
	}
	err = b.attached.Run(b.Preprocess, b.runtimeConfig(), func(c featurize.Config) (err error) {
		b.cut, err = attach.OpenCut(b.attached.Model, b.attached.Head, c)
		return err
	})
	if err != nil {
		return err
	}
	b.closers = append(b.closers, b.cut.Close)
	return b.openProduct()
}

// runtimeConfig is how the bundle's network is run: by default in batches of the size used in calibration.
func (b *bench) runtimeConfig() featurize.Config {
	run := attach.RunConfig(b.Runtime.Provider, b.Runtime.Threads, b.Runtime.Batch)
	if run.Batch == 0 {
		run.Batch = b.attached.Batch()
	}
	return run
}

// openProduct opens the runtime's matrix product.
func (b *bench) openProduct() error {
	product, err := featurize.NewProduct(b.Runtime.Threads)
	if err != nil {
		return err
	}
	b.product, b.calibration.Product = product, product
	b.closers = append(b.closers, product.Close)
	return nil
}

// measure returns the figures of all methods, in order, and the recommendation.
func (b *bench) measure(ctx context.Context) ([]MethodResult, *metrics.Recommendation, error) {
	seconds, err := b.fitScores(ctx)
	if err != nil {
		return nil, nil, err
	}
	tallies := make([]*measure.Tally, len(b.requests))
	var plain []*measure.Tally
	for i, r := range b.requests {
		tallies[i] = b.newTally(r.name)
		if r.comparator == nil {
			plain = append(plain, tallies[i])
		}
	}
	keep := len(plain) < len(tallies)
	for _, name := range measure.Baselines {
		if !b.Alone && !slices.ContainsFunc(tallies, func(t *measure.Tally) bool { return t.Name == name }) {
			t := b.newTally(name)
			tallies, plain = append(tallies, t), append(plain, t)
		}
	}
	gathered := &detailCollector{b: b}
	if err := b.measureSets(ctx, plain, keep, gathered); err != nil {
		return nil, nil, err
	}
	results := make([]MethodResult, len(b.requests))
	for i, r := range b.requests {
		results[i].Name = r.name
		if s, fitted := seconds[r.name]; fitted {
			results[i].Seconds = map[string]float64{"fit": s}
		}
		if r.comparator == nil {
			continue
		}
		if err := b.compare(ctx, r.comparator, tallies[i], &results[i]); err != nil {
			return nil, nil, fmt.Errorf("method %s: %w", r.name, err)
		}
	}
	recommendation, err := b.figures(ctx, tallies, results)
	if err == nil && b.Detailed {
		b.detail, err = gathered.detail(ctx, tallies)
	}
	return results, recommendation, err
}

// measureSets adds the sets to the tallies of plain methods, and keeps their rows for others.
func (b *bench) measureSets(ctx context.Context, plain []*measure.Tally, keep bool, gathered *detailCollector) error {
	inUse, testsUse := b.sampler(), 0.0
	for _, s := range b.sets {
		gathered.begin(s)
		var texts metrics.Texts
		var tags metrics.Tags
		var decided *conformal.Tally
		if b.manifest.Decisions != nil {
			decided = conformal.NewTally(b.manifest.Decisions)
		}
		for batch, err := range s.source.Batches(ctx) {
			if err != nil {
				return err
			}
			if s.part.Role == measure.Test {
				if batch = inUse.Of(batch); batch.N == 0 {
					continue
				}
				for _, y := range batch.Labels {
					testsUse += b.logUse(y)
				}
			}
			for _, r := range batch.Readings {
				if r.Want != nil {
					texts.Add(r.Text, *r.Want)
				}
				if r.WantTags != nil {
					tags.Add(r.Tags, r.WantTags)
				}
			}
			if keep {
				s.keep(batch)
				err = b.checkMemory(s.data.N, s.Name())
			}
			if err == nil {
				b.outcomes(s, batch, decided, gathered)
				err = measure.AddPlain(plain, b.calibration, b.fitted, s.part, batch)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", s.Name(), err)
			}
		}
		if decided != nil {
			b.decided = append(b.decided, DecisionResult{Set: s.Name(), Realised: decided.Result()})
		}
		if t := texts.Result(); t != nil {
			b.texts = append(b.texts, TextResult{s.Name(), *t})
		}
		if t := tags.Result(); t != nil {
			b.tags = append(b.tags, TagResult{s.Name(), *t})
		}
		gathered.end(s, decided)
		if s.source.Size() < 0 {
			err := s.source.Identify(ctx)
			if err == nil {
				err = b.warnOfUsed(ctx, s)
			}
			if err != nil {
				return err
			}
		}
	}
	if testsUse < 0 {
		b.warnings = append(b.warnings, "test: its classes are as frequent as in the validation data, and the bundle is corrected for other frequencies in use: the figures are not those in use")
	}
	return nil
}

// sampler returns what InUse asks for, nil for all examples.
func (b *bench) sampler() *calibrate.Sampler {
	prior, _ := b.manifest.ResolvePrior() // the manifest is valid
	if !b.InUse || prior == nil {
		return nil
	}
	return calibrate.NewSampler(prior, b.manifest.ClassFrequencies, b.manifest.TuningExamples())
}

// logUse is the logarithm of how many times as frequent a class is in use as in the validation data.
func (b *bench) logUse(class int) float64 {
	if b.calibration.Prior == nil {
		return 0
	}
	return b.calibration.Prior[class]
}

// outcomes passes the served predictions of examples to the decisions and the report.
func (b *bench) outcomes(s *Set, batch *rows.Batch, decided *conformal.Tally, gathered *detailCollector) {
	if decided == nil && !b.Detailed {
		return
	}
	x := measure.Outcomes(b.calibration, batch)
	if s.part.Role == measure.OOD {
		x.Labels, x.Targets = nil, nil
	}
	if decided != nil {
		decided.Add(x)
	}
	if b.Detailed {
		gathered.add(s, x, batch)
	}
}

func (b *bench) newTally(name string) *measure.Tally {
	oods := make([]string, len(b.OOD))
	for i, s := range b.OOD {
		oods[i] = s.Name
	}
	return measure.New(name, b.head, b.Bins, len(b.Shifts), oods)
}

// figures fills the results from the first tallies, with intervals, and returns the recommendation of all.
func (b *bench) figures(
	ctx context.Context, tallies []*measure.Tally, results []MethodResult,
) (*metrics.Recommendation, error) {
	all := make([]measure.Figures, len(results))
	for i := range all {
		var err error
		if all[i], err = tallies[i].Figures(); err != nil {
			return nil, err
		}
	}
	resampled, err := measure.Resample(ctx, tallies, metrics.ResampleOptions{
		Resamples: b.resamples(), Seed: b.Seed,
		Progress: func(done, total int) { b.notes.Step("intervals", "resamples", done, total) },
	})
	if err != nil {
		return nil, err
	}
	for i := range results {
		f, r := all[i], &results[i]
		resampled.Add(i, &f)
		if b.PerClass && f.InDomain != nil {
			f.InDomain.Classes = tallies[i].Classes(b.manifest.Labels)
		}
		r.InDomain, r.OOD, r.OODNLL = f.InDomain, []OODResult{}, []OODResult{}
		for j, in := range f.Shifts {
			r.Shifts = append(r.Shifts, ShiftResult{b.Shifts[j].Name, in})
		}
		for j := range f.OOD {
			r.OOD = append(r.OOD, OODResult{b.OOD[j].Name, f.OOD[j]})
			r.OODNLL = append(r.OODNLL, OODResult{b.OOD[j].Name, f.OODNLL[j]})
		}
	}
	recommendation := resampled.Recommend(string(b.calibration.Method), b.calibration.Served().Name)
	return &recommendation, nil
}

func (b *bench) resamples() int { return cmp.Or(b.Resamples, measure.Resamples) }
