// Package bench compares methods of uncertainty on data that nothing was tuned on: those that a
// bundle has all it takes for, and others that are tuned and fitted first.
//
// A method is an entry of the registry in method.go, and the file that makes it.
package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/conformal"
	"github.com/mfgs/mfgs/calibrate/methods"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/featurize"
	"github.com/mfgs/mfgs/featurize/dataset"
	"github.com/mfgs/mfgs/internal/attach"
	"github.com/mfgs/mfgs/internal/measure"
	"github.com/mfgs/mfgs/internal/source"
	"github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/bundle"
)

// Evaluate measures methods on a labelled test set, on such sets under shift, and on how well they
// distinguish the test set from other sets.
//
// For methods of PlainMethods data is streamed, and memory holds a score for each example. The
// others want held-out data to be tuned on, and some the training set to be fitted to; features and
// logits of all sets are then kept in memory.
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
		Decisions: b.decided, Detail: b.detail,
		Bootstrap: BootstrapInfo{b.resamples(), measure.Level, b.Seed},
		Bad:       append([]string{}, b.notes.Bad...), Ignored: append([]string{}, b.notes.Ignored...),
		Warnings: append([]string{}, b.warnings...),
	}
	if b.cut != nil {
		r.Model = b.cut.Model.Info()
	}
	return r, nil
}

func newBench(cfg Config) *bench {
	return &bench{
		Config: cfg, notes: source.Notes{Progress: cfg.step()},
		curvatures: map[curvatureKey]*calibrate.Curvature{}, dampings: map[dampedKey]float64{},
		logitVariances: map[dampedKey]*calibrate.LogitCovariance{}, computed: map[methods.Covariance]*computed{},
		room: mostComputed, tuned: map[string]*calibrate.Tuned{}, rates: map[string]float64{},
	}
}

func (b *bench) close() {
	for _, s := range append(b.sets, b.train, b.val, b.ood) {
		if s != nil {
			s.Close()
		}
	}
	for _, f := range slices.Backward(b.closers) {
		_ = f()
	}
}

// fitted lists the requests for which the bundle has not all they need.
func (b *bench) fitted() (list []*request) {
	for _, r := range b.requests {
		if !r.plain(b.Layers) {
			list = append(list, r)
		}
	}
	return list
}

// check refuses what cannot work before any work is done.
func (b *bench) check() error {
	names := b.Methods
	if len(names) == 0 {
		names = defaultMethods
	}
	var err error
	if b.requests, err = parseMethods(names); err != nil {
		return err
	}
	if len(b.OOD) == 0 && len(b.requests) == 1 && measure.IsScore(b.requests[0].name) {
		return fmt.Errorf("%s gives no probabilities: it needs an out-of-distribution set to be measured on", b.requests[0].name)
	}
	if err := b.Runtime.Validate(); err != nil {
		return err
	}
	switch {
	case b.Limit < 0 || b.MaxBad < 0:
		return fmt.Errorf("limit is %d and max-bad %d, want no negative numbers", b.Limit, b.MaxBad)
	case b.Resamples < 0:
		return fmt.Errorf("resamples are %d, want no negative number", b.Resamples)
	case b.Detailed && len(b.Draws) > 1:
		return errors.New("a report is of one draw of each method: leave out the draws")
	case b.Test == "":
		return errors.New("evaluation needs test data")
	case b.Layers < 0:
		return fmt.Errorf("layers are %d, want a positive number, or 0 for the last alone", b.Layers)
	case b.Detailed && b.Layers > 1:
		return errors.New("a report is of the bundle, whose posterior is of the last layer: leave out the layers")
	case !(b.DropoutRate >= 0 && b.DropoutRate < 1):
		return fmt.Errorf("dropout rate is %v, want 0 to less than 1", b.DropoutRate)
	}
	if err := uniqueNames("out-of-distribution sets", b.OOD); err != nil {
		return err
	}
	for _, n := range b.OOD {
		if (n.Name == measure.StandIns) != (n.Spec == wrap.StandIns) {
			return fmt.Errorf("%s=%s: stand-ins, made of the test images, are %s=%s, and nothing else is called so", n.Name, n.Spec, measure.StandIns, wrap.StandIns)
		}
	}
	if err := uniqueNames("sets under shift", b.Shifts); err != nil {
		return err
	}
	if err := b.checkStreams(); err != nil {
		return err
	}
	if err := b.checkUnused(); err != nil {
		return err
	}
	for _, r := range b.fitted() {
		if err := b.checkRequest(r); err != nil {
			return fmt.Errorf("method %q: %w", r.text, err)
		}
	}
	return nil
}

// checkStreams refuses standard input where it would be read twice.
func (b *bench) checkStreams() error {
	measured := map[string]string{"test": b.Test}
	for _, s := range slices.Concat(b.OOD, b.Shifts) {
		measured[s.Name] = s.Spec
	}
	for name, spec := range measured {
		if dataset.IsStream(spec) && b.Limit > 0 {
			return fmt.Errorf("%s: %s: a limit is spread evenly over the data, and how many examples a stream has is not known: leave it out, or give a file", name, spec)
		}
	}
	for name, spec := range map[string]string{"train": b.Train, "val": b.Val, "val-ood": b.ValOOD} {
		if dataset.IsStream(spec) {
			return fmt.Errorf("%s: %s: what methods are tuned on is read more than once, and a stream is not: give a file", name, spec)
		}
	}
	return source.OneStream(measured)
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
	if fitted := b.fitted(); len(fitted) > 0 {
		if err := b.openFitted(ctx, fitted); err != nil {
			return err
		}
	}
	return b.openScores(ctx)
}

// attach opens the bundle and its network, cut at its head.
func (b *bench) attach(ctx context.Context) error {
	opened, err := bundle.Open(b.Bundle)
	if err != nil {
		return err
	}
	if b.attached, err = attach.Open(opened, b.Model, b.Preprocess); err != nil {
		return err
	}
	b.closers = append(b.closers, b.attached.Close)
	b.manifest, b.head, b.calibration = &opened.Manifest, opened.Posterior.Head, opened.Calibration()
	b.resolveScores()
	b.drawRequests()
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

// runtimeConfig is how the bundle's network is run: by default in the batches of its calibration.
func (b *bench) runtimeConfig() featurize.Config {
	run := attach.RunConfig(b.Runtime.Provider, b.Runtime.Threads, b.Runtime.Batch)
	if run.Batch == 0 {
		run.Batch = b.attached.Batch()
	}
	return run
}

// resolveScores calls the score that the bundle serves by its name, once.
func (b *bench) resolveScores() {
	served := b.calibration.Served().Name
	var kept []*request
	for _, r := range b.requests {
		if r.name == measure.Served {
			if slices.ContainsFunc(b.requests, func(o *request) bool { return o.text == served }) {
				continue
			}
			r = &request{text: served, method: find(served)}
		}
		kept = append(kept, r)
	}
	if b.Detailed {
		for _, name := range []string{"mle", b.servedMethod(), served} {
			if !slices.ContainsFunc(kept, func(o *request) bool { return o.text == name }) {
				at := len(kept)
				if name == "mle" { // which others are compared with
					at = 0
				}
				kept = slices.Insert(kept, at, &request{text: name, method: find(name)})
			}
		}
	}
	b.requests = kept
}

// drawRequests repeats those that draw at random, each with a seed of its own.
func (b *bench) drawRequests() {
	var drawn []*request
	for _, r := range b.requests {
		seeds := []uint64{b.Seed}
		if b.random(r) && len(b.Draws) > 0 {
			seeds = b.Draws
		}
		for i, seed := range seeds {
			of := *r
			of.draw, of.seed = i, seed
			drawn = append(drawn, &of)
		}
	}
	b.requests = drawn
}

// openFitted opens what methods are tuned on and fitted to, and refuses what would stop one of them
// only after others are done.
func (b *bench) openFitted(ctx context.Context, fitted []*request) error {
	if b.head.Link != calibrate.Softmax {
		return fmt.Errorf("the head has %d logits with link %s: methods other than %s are for a softmax", b.head.Logits, b.head.Link, strings.Join(PlainMethods(), ", "))
	}
	for _, r := range fitted {
		if b.cut == nil && b.runsNetworks(r) {
			return fmt.Errorf("method %q runs networks, and the bundle was made of ready-made features", r.text)
		}
	}
	for _, r := range fitted {
		if err := b.checkFiles(r); err != nil {
			return fmt.Errorf("method %s: %w", r.text, err)
		}
	}
	return b.openTuning(ctx, slices.ContainsFunc(fitted, b.needsTrain))
}

// openProduct prepares the runtime's product of matrices.
func (b *bench) openProduct() error {
	product, err := featurize.NewProduct(b.Runtime.Threads)
	if err != nil {
		return err
	}
	b.product, b.calibration.Product = product, product
	b.closers = append(b.closers, product.Close)
	return nil
}

// measure returns the figures of all methods, in their order, and what they recommend.
func (b *bench) measure(ctx context.Context) ([]MethodResult, *measure.Recommendation, error) {
	seconds, err := b.learnScores(ctx)
	if err != nil {
		return nil, nil, err
	}
	tallies := make([]*measure.Tally, len(b.requests))
	var plain []*measure.Tally
	for i, r := range b.requests {
		tallies[i] = b.newTally(r.text)
		if r.plain(b.Layers) {
			plain = append(plain, tallies[i])
		}
	}
	keep := len(plain) < len(tallies)
	for _, name := range measure.References {
		if !b.Alone && !slices.ContainsFunc(tallies, func(t *measure.Tally) bool { return t.Name == name }) {
			t := b.newTally(name)
			tallies, plain = append(tallies, t), append(plain, t)
		}
	}
	gathered := &gathering{b: b}
	for _, s := range b.sets {
		gathered.begin(s)
		var decided *conformal.Tally
		if b.manifest.Decisions != nil {
			decided = conformal.NewTally(b.manifest.Decisions)
		}
		for batch, err := range s.Batches(ctx, b.head, &b.notes) {
			if err != nil {
				return nil, nil, err
			}
			if keep {
				s.keep(batch)
				err = checkMemory(s.data.N, b.head.Features+b.head.Logits, s.Name)
			}
			if err == nil {
				b.outcomes(s, batch, decided, gathered)
				err = measure.AddPlain(plain, b.calibration, b.learned, s.part, batch)
			}
			if err != nil {
				return nil, nil, fmt.Errorf("%s: %w", s.Name, err)
			}
		}
		if decided != nil {
			b.decided = append(b.decided, DecisionResult{Set: s.Name, Realised: decided.Result()})
		}
		gathered.end(s, decided)
		if s.Size() < 0 {
			err := s.Identify(ctx)
			if err == nil {
				err = b.warnOfUsed(ctx, s)
			}
			if err != nil {
				return nil, nil, err
			}
		}
	}
	results := make([]MethodResult, len(b.requests))
	for i, r := range b.requests {
		results[i].Name, results[i].Draw = r.text, r.draw
		if s, fitted := seconds[r.name]; fitted {
			results[i].Seconds = map[string]float64{"fit": s}
		}
		if r.plain(b.Layers) {
			continue
		}
		if err := b.run(ctx, r, tallies[i], &results[i]); err != nil {
			return nil, nil, fmt.Errorf("method %s: %w", r.text, err)
		}
	}
	recommendation, err := b.figures(ctx, tallies, results)
	if err == nil && b.Detailed {
		b.detail, err = gathered.detail(ctx, tallies)
	}
	return results, recommendation, err
}

// outcomes shows what is served of examples to those who look at it.
func (b *bench) outcomes(s *evalSet, batch *rows.Batch, decided *conformal.Tally, gathered *gathering) {
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
	return measure.New(name, b.head, len(b.Shifts), oods)
}

// figures adds to results what the tallies gathered, the first for each, and how sure it is. It
// returns what all together recommend.
func (b *bench) figures(
	ctx context.Context, tallies []*measure.Tally, results []MethodResult,
) (*measure.Recommendation, error) {
	all := make([]measure.Figures, len(results))
	for i := range all {
		var err error
		if all[i], err = tallies[i].Figures(); err != nil {
			return nil, err
		}
	}
	resampled, err := measure.Resample(ctx, tallies, b.resamples(), b.Seed)
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

// run fits, tunes and measures a method, and says in result how.
func (b *bench) run(ctx context.Context, r *request, t *measure.Tally, result *MethodResult) error {
	if err := b.prepare(ctx, r); err != nil {
		return err
	}
	seconds := map[string]float64{}
	timed := func(stage string, f func() error) error {
		b.notes.Step(r.text+": "+stage, "steps", 0, 1)
		start := time.Now()
		err := f()
		seconds[stage] = time.Since(start).Seconds()
		b.notes.Step(r.text+": "+stage, "steps", 1, 1)
		return err
	}
	var predict predictor
	var note string
	err := timed("fit", func() (err error) {
		predict, note, err = b.fit(ctx, r)
		return err
	})
	if err != nil {
		return err
	}
	var tuned *calibrate.Tuned
	if tuned = b.tuned[r.text]; tuned == nil {
		err = timed("tune", func() (err error) {
			tuned, err = b.tune(ctx, r, predict)
			return err
		})
		if err != nil {
			return err
		}
		b.tuned[r.text] = tuned
	}
	err = timed("test", func() error {
		for _, s := range b.sets {
			if err := b.test(ctx, t, predict, tuned, s); err != nil {
				return fmt.Errorf("%s: %w", s.Name, err)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	result.Temperatures = &TunedPairs{NLL: tuned.NLL, OOD: tuned.OOD}
	costly := r.method == bnnKFAC && b.overLayers(r) // whose fit says so
	if most := b.tunedOn(r); !costly && most > 0 && b.val.data.N > most {
		note = joinNotes(note, fmt.Sprintf("tuned on %d of %d held-out examples", most, b.val.data.N))
	}
	if tuned.NLLAtBound {
		note = joinNotes(note, "T_act for the likelihood is at a bound of the search")
	}
	if tuned.OODAtBound {
		note = joinNotes(note, "T_act for out-of-distribution is at a bound of the search")
	}
	result.Note, result.Seconds = note, seconds
	return nil
}

func joinNotes(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}

// prepare reads what the method is tuned on and fitted to.
func (b *bench) prepare(ctx context.Context, r *request) error {
	sets := []*evalSet{b.val, b.ood}
	if b.needsTrain(r) && !b.overLayers(r) {
		sets = append(sets, b.train)
	}
	for _, s := range sets {
		if err := b.collect(ctx, s); err != nil {
			return err
		}
	}
	if b.limit == 0 {
		logp, margin := calibrate.Plain(b.head, b.val.data.Logits, b.val.data.N, b.calibration.TS)
		classes := b.head.Classes()
		b.limit = calibrate.ScalingLimit(nllOf(logp, b.val.data.Labels, classes), margin, classes)
	}
	return nil
}

// fit makes a method ready to predict. The note says what was decided.
func (b *bench) fit(ctx context.Context, r *request) (predictor, string, error) {
	if b.overLayers(r) {
		return b.fitLayers(ctx, r)
	}
	return r.fit(ctx, b, r)
}

// tune finds a method's temperatures on the held-out sets.
func (b *bench) tune(ctx context.Context, r *request, predict predictor) (*calibrate.Tuned, error) {
	v, o := b.val, b.ood
	if most := b.tunedOn(r); most > 0 {
		v, o = v.thinned(most), o.thinned(most)
	}
	val, err := predict(ctx, v)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", v.Name, err)
	}
	var ood calibrate.Predictive
	if o != nil {
		if ood, err = predict(ctx, o); err != nil {
			return nil, fmt.Errorf("%s: %w", o.Name, err)
		}
	}
	return calibrate.Tune(ctx, val, v.data.Labels, ood, b.limit)
}

// tunedOn is how many examples of each held-out set a method is tuned on, 0 for all.
func (b *bench) tunedOn(r *request) int {
	switch {
	case r.method == bnnKFAC && b.overLayers(r):
		return costlyHeldOut
	case r.samples > 0:
		return max(costlyHeldOut, drawnHeldOut/r.samples)
	}
	return 0
}

// test measures a tuned method on a set.
func (b *bench) test(
	ctx context.Context, t *measure.Tally, predict predictor, tuned *calibrate.Tuned, s *evalSet,
) error {
	p, err := predict(ctx, s)
	if err != nil {
		return err
	}
	var scores measure.Scores
	if scores.LogP, scores.NLL, err = calibrate.PredictAll(ctx, p, tuned.NLL); err != nil {
		return err
	}
	measure.Negate(scores.NLL)
	scores.OOD = scores.NLL
	if tuned.OOD != tuned.NLL && s.part.Role != measure.Shift {
		if _, scores.OOD, err = calibrate.PredictAll(ctx, p, tuned.OOD); err != nil {
			return err
		}
		measure.Negate(scores.OOD)
	}
	return t.Add(s.part, scores, s.data.Labels, nil)
}

// seedOf returns a seed for one set, so that no two share their draws and none depends on which
// others there are.
func (r *request) seedOf(s *evalSet) uint64 {
	return rand.NewPCG(r.seed, uint64(s.part.Role)<<32|uint64(s.part.Index)).Uint64()
}

func (b *bench) resamples() int { return cmp.Or(b.Resamples, measure.Resamples) }
