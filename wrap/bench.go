package wrap

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/methods"
	"github.com/mfgs/mfgs/featurize"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/wrap/bundle"
)

// bench runs methods for which the bundle does not have all they need: they are tuned
// on held-out data, and some are fitted to training data first.
type bench struct {
	*evaluation
	product  calibrate.Product
	closers  []func() error
	train    *evalSet // nil where no method needs it
	val, ood *evalSet // ood may be nil
	limit    float64  // held-out NLL of temperature scaling

	// Made when first asked for.
	tail       *tail
	weights    []float64 // of the head, [K,D] with the bias in the last column
	curvatures map[curvatureKey]*calibrate.Curvature
	damped     map[dampedKey]*calibrate.LogitCovariance
}

type curvatureKey struct {
	structure calibrate.Structure
	fisher    bool
}

type dampedKey struct {
	structure  calibrate.Structure
	covariance calibrate.Covariance
}

// A predictor prepares a set of examples for a method that is fitted.
type predictor func(ctx context.Context, s *evalSet) (calibrate.Predictive, error)

// costlyHeldOut is how many examples of each held-out set a method is tuned on that
// works anew for each T_ens.
const costlyHeldOut = 1000

func (b *bench) close() {
	for _, s := range []*evalSet{b.train, b.val, b.ood} {
		if s != nil {
			s.close()
		}
	}
	for _, f := range slices.Backward(b.closers) {
		_ = f()
	}
}

// checkBench refuses what methods cannot work with.
func (e *evaluation) checkBench() error {
	if e.Layers < 0 {
		return fmt.Errorf("layers are %d, want a positive number, or 0 for the last alone", e.Layers)
	}
	if !(e.DropoutRate >= 0 && e.DropoutRate < 1) {
		return fmt.Errorf("dropout rate is %v, want 0 to less than 1", e.DropoutRate)
	}
	if e.Evidence != "" {
		if err := methods.Evidence(e.Evidence).Validate(); err != nil {
			return err
		}
	}
	if err := e.checkUnused(); err != nil {
		return err
	}
	for _, m := range e.methods {
		if m.own(e.Layers) {
			continue
		}
		err := e.checkMethod(m)
		if err != nil {
			return fmt.Errorf("method %q: %w", m.text, err)
		}
		if e.bench == nil {
			e.bench = &bench{
				evaluation: e,
				curvatures: map[curvatureKey]*calibrate.Curvature{},
				damped:     map[dampedKey]*calibrate.LogitCovariance{},
			}
		}
	}
	return nil
}

// checkUnused refuses what is given for methods that are not asked for: it was meant to
// be used.
func (e *evaluation) checkUnused() error {
	any := func(is func(method) bool) bool { return slices.ContainsFunc(e.methods, is) }
	named := func(name string) bool { return any(func(m method) bool { return m.name == name }) }
	layered := func(m method) bool { return m.gaussian || m.name == "bnn-kfac" }
	for _, o := range []struct {
		flag, wants string
		given, used bool
	}{
		{"ensemble", "method ensemble", len(e.Ensemble) > 0, named("ensemble")},
		{"jackknife", "method jackknife", len(e.Jackknife) > 0, named("jackknife")},
		{"checkpoint", "a method with @swag", len(e.Checkpoints) > 0, any(func(m method) bool { return m.covariance == swag })},
		{"vi", "method bnn-vi", e.VI != "", named("bnn-vi")},
		{"edl", "method edl", e.Evidential != "", named("edl")},
		{"evidence", "method edl", e.Evidence != "", named("edl")},
		{"dropout-rate", "method dropout", e.DropoutRate != 0, named("dropout")},
		{"layers", "one of mf0, mf1, mf2, ukf, mc and bnn-kfac", e.Layers > 1, any(layered)},
		{"train", "a method that is fitted", e.Train != "", any(func(m method) bool { return !m.own(e.Layers) })},
		{"val", "a method that is tuned", e.Val != "", any(func(m method) bool { return !m.own(e.Layers) })},
		{"val-ood", "a method that is tuned", e.ValOOD != "", any(func(m method) bool { return !m.own(e.Layers) })},
	} {
		if o.given && !o.used {
			return fmt.Errorf("--%s is for %s, and the methods have none: add it with --methods", o.flag, o.wants)
		}
	}
	return nil
}

func (e *evaluation) checkMethod(m method) error {
	files := func(flag string, n, least int) error {
		if n < least {
			return fmt.Errorf("%d files with --%s, want at least %d", n, flag, least)
		}
		return nil
	}
	switch {
	case m.name == "ensemble":
		return files("ensemble", len(e.Ensemble), 2)
	case m.name == "jackknife":
		return files("jackknife", len(e.Jackknife), 2)
	case m.name == "bnn-vi" && e.VI == "":
		return files("vi", 0, 1)
	case m.covariance == swag:
		if e.Layers > 1 {
			return errors.New("swag is of the last layer: leave out --layers")
		}
		return files("checkpoint", len(e.Checkpoints), 2)
	case e.Layers > 1 && m.covariance == string(calibrate.Sandwich):
		return errors.New("several layers have no sandwich: want hessian or fisher")
	case e.Layers > 1 && m.structure == calibrate.Full:
		return errors.New("several layers have a Kronecker posterior: leave out /full")
	}
	return nil
}

// overLayers reports whether the method is over several layers.
func (b *bench) overLayers(m method) bool {
	return b.Layers > 1 && (m.gaussian && m.covariance != swag || m.name == "bnn-kfac")
}

// needsTrain reports whether the method is fitted to training data.
func (b *bench) needsTrain(m method) bool {
	switch {
	case m.name == "edl":
		return b.Evidential == ""
	case m.gaussian:
		return m.covariance != swag
	}
	return m.train
}

// openBench opens the sets that methods are tuned on and fitted to.
func (e *evaluation) openBench(ctx context.Context) error {
	b := e.bench
	if b == nil {
		return nil
	}
	h := e.p.head
	if h.Link != calibrate.Softmax {
		return fmt.Errorf("the head has %d logits with link %s: methods other than %v are for a softmax", h.Logits, h.Link, PlainMethods())
	}
	needsTrain := false
	for _, m := range e.methods {
		if m.own(e.Layers) {
			continue
		}
		needsTrain = needsTrain || b.needsTrain(m)
		if e.p.network == nil && (b.overLayers(m) || slices.Contains([]string{"ensemble", "jackknife", "bnn-vi"}, m.name) || m.name == "edl" && e.Evidential != "") {
			return fmt.Errorf("method %q runs networks, and the bundle was made of ready-made features", m.text)
		}
	}
	if e.p.network != nil {
		product, err := featurize.NewProduct(e.Threads)
		if err != nil {
			return err
		}
		b.product = product
		b.closers = append(b.closers, product.Close)
	}
	for _, m := range e.methods {
		if m.own(e.Layers) {
			continue
		}
		if err := b.checkFiles(m); err != nil {
			return fmt.Errorf("method %s: %w", m.text, err)
		}
	}
	open := func(role bundle.Role, r role, given, flag string, limit int) (*evalSet, error) {
		spec := given
		var recorded *bundle.Dataset
		for i, d := range e.p.bundle.Manifest.Datasets {
			if d.Role == role && given == "" {
				recorded = &e.p.bundle.Manifest.Datasets[i]
				spec = recorded.Spec
			}
		}
		if spec == "" {
			return nil, nil
		}
		out := func(err error) error { return fmt.Errorf("%w: give the data with --%s", err, flag) }
		s, err := e.opener(e.p.network, limit).open(flag, spec, h.Classes(), r != oodRole)
		if err != nil {
			if recorded != nil {
				err = out(fmt.Errorf("the data of calibration: %w", err))
			}
			return nil, err
		}
		set := &evalSet{set: s, role: r}
		if err := e.p.fits(s); err != nil {
			s.close()
			return nil, err
		}
		if recorded != nil {
			if n := recorded.Count + recorded.Bad; n < s.len() {
				s.config.Limit = n // calibration took as many, spread evenly
			}
			if err := s.identify(ctx); err != nil {
				s.close()
				return nil, err
			}
			if s.fingerprint != recorded.Fingerprint {
				s.close()
				return nil, out(fmt.Errorf("%s: %s is not the data of calibration any more", flag, spec))
			}
		}
		return set, nil
	}
	var err error
	if b.val, err = open(bundle.Val, heldOutRole, e.Val, "val", maxHeldOut); err != nil {
		return err
	}
	if b.ood, err = open(bundle.Held, oodRole, e.ValOOD, "val-ood", maxHeldOut); err != nil {
		return err
	}
	if b.ood != nil {
		b.ood.index = len(e.OOD) // behind those that are measured on
	}
	if needsTrain {
		if b.train, err = open(bundle.Train, trainRole, e.Train, "train", 0); err != nil {
			return err
		}
		if err := checkMemory(b.train.len(), h.Features+h.Logits, "train"); err != nil {
			return err
		}
	}
	if !b.val.labelled() {
		return fmt.Errorf("val: %s has no labels", b.val.spec)
	}
	if err := b.warnOfShared(ctx); err != nil {
		return err
	}
	for _, s := range e.sets {
		if err := checkMemory(s.len(), h.Features+h.Logits, s.name); err != nil {
			return err
		}
	}
	return nil
}

// checkFiles reports what would stop a method that is fitted only after others are done.
func (b *bench) checkFiles(m method) error {
	if b.overLayers(m) {
		_, err := onnx.DenseTail(b.p.network.model, b.p.network.head, b.Layers)
		return err
	}
	var files []string
	switch {
	case m.covariance == swag:
		_, err := b.swag()
		return err
	case m.name == "ensemble":
		files = b.Ensemble
	case m.name == "jackknife":
		files = b.Jackknife
	case m.name == "edl" && b.Evidential != "":
		_, _, _, err := b.evidential()
		return err
	case m.name == "bnn-vi":
		_, err := b.stochastic()
		return err
	case m.name == "dropout" || m.name == "bnn-ll-vi":
		_, err := b.headWeights()
		return err
	}
	for _, path := range files {
		if _, _, err := b.openHead(path); err != nil {
			return err
		}
	}
	return nil
}

// warnOfShared tells of what is measured on and was tuned on or fitted to as well, where
// that is not the data of the calibration, of which it is told anyway.
func (b *bench) warnOfShared(ctx context.Context) error {
	for _, s := range []*evalSet{b.train, b.val, b.ood} {
		if s == nil {
			continue
		}
		if s.fingerprint == "" {
			if err := s.identify(ctx); err != nil {
				return err
			}
		}
		for _, other := range b.sets {
			of := slices.ContainsFunc(b.p.bundle.Manifest.Datasets, func(d bundle.Dataset) bool { return d.Fingerprint == other.fingerprint })
			if shared := other.shares(s.set); shared != "" && !of {
				b.warnings = append(b.warnings, fmt.Sprintf("%s and %s %s: figures on new data will be worse", other.name, s.name, shared))
			}
		}
	}
	return nil
}

// checkMemory refuses sets of n examples, each so many float32, that are too large to
// keep.
func checkMemory(n, each int, name string) error {
	if bytes := float64(n) * float64(each) * 4; bytes > methods.MaxBytes {
		return fmt.Errorf("%s: features and logits of %d examples take %.1f GB, want at most %.1f for methods that keep them: take a part of the data, as in SPEC[0:100000]", name, n, bytes/1e9, float64(methods.MaxBytes)/1e9)
	}
	return nil
}

// keep returns what keeps a set's blocks, where methods need that.
func (e *evaluation) keep(s *evalSet) func(*featurize.Block) {
	if e.bench == nil {
		return func(*featurize.Block) {}
	}
	s.data = &calibrate.Set{}
	return func(b *featurize.Block) {
		s.data.Features, s.data.Logits = append(s.data.Features, b.Features...), append(s.data.Logits, b.Logits...)
		for _, y := range b.Labels {
			s.data.Labels = append(s.data.Labels, int32(y))
		}
	}
}

// collect reads a set into memory, once.
func (b *bench) collect(ctx context.Context, s *evalSet) error {
	if s == nil || s.data != nil {
		return nil
	}
	data, _, err := s.set.collect(ctx, b.p.head, &b.notes)
	s.data = data
	return err
}

// run fits, tunes and measures a method.
func (b *bench) run(ctx context.Context, m method) (MethodResult, error) {
	r, err := b.runMethod(ctx, m)
	if err != nil {
		return r, fmt.Errorf("method %s: %w", m.text, err)
	}
	return r, nil
}

func (b *bench) runMethod(ctx context.Context, m method) (MethodResult, error) {
	for _, s := range []*evalSet{b.val, b.ood} {
		if err := b.collect(ctx, s); err != nil {
			return MethodResult{}, err
		}
	}
	if b.limit == 0 {
		logp, _ := calibrate.Plain(b.p.head, b.val.data.Logits, b.val.data.Len(b.p.head), b.p.calibration.TS)
		b.limit = meanNLL(logp, b.val.data.Labels, b.p.head.Classes())
	}
	seconds := map[string]float64{}
	timed := func(stage string, f func() error) error {
		b.notes.step(m.text+": "+stage, "steps", 0, 1)
		start := time.Now()
		err := f()
		seconds[stage] = time.Since(start).Seconds()
		b.notes.step(m.text+": "+stage, "steps", 1, 1)
		return err
	}

	var predict predictor
	var note string
	var tuned *calibrate.Tuned
	err := timed("fit", func() (err error) {
		predict, note, err = b.fit(ctx, m)
		return err
	})
	if err != nil {
		return MethodResult{}, err
	}
	err = timed("tune", func() (err error) {
		tuned, err = b.tune(ctx, m, predict)
		return err
	})
	if err != nil {
		return MethodResult{}, err
	}
	t := newTally(m.text, b.p.head, len(b.Shifts), len(b.OOD))
	err = timed("test", func() error {
		for _, s := range b.sets {
			if err := b.test(ctx, t, predict, tuned, s); err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
		}
		return nil
	})
	if err != nil {
		return MethodResult{}, err
	}
	r, err := t.result(b.Shifts, b.OOD)
	r.Temperatures = &TunedPairs{
		NLL: Pair{Act: tuned.NLL.Act, Ens: tuned.NLL.Ens},
		OOD: Pair{Act: tuned.OOD.Act, Ens: tuned.OOD.Ens},
	}
	if tuned.NLL.AtBound() {
		note = joinNotes(note, "T_act for the likelihood is at a bound of the search")
	}
	if tuned.OODTuned && tuned.OOD.AtBound() {
		note = joinNotes(note, "T_act for out-of-distribution is at a bound of the search")
	}
	r.Note, r.Seconds = note, seconds
	return r, err
}

func joinNotes(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}

func meanNLL(logp []float64, labels []int32, classes int) float64 {
	var sum float64
	for i, y := range labels {
		sum -= logp[i*classes+int(y)]
	}
	return sum / float64(len(labels))
}

// tune finds a method's temperatures on the held-out sets.
func (b *bench) tune(ctx context.Context, m method, predict predictor) (*calibrate.Tuned, error) {
	v, o := b.val, b.ood
	if m.name == "bnn-kfac" && b.overLayers(m) {
		v, o = b.thinned(v), b.thinned(o)
	}
	val, err := predict(ctx, v)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", v.name, err)
	}
	var ood calibrate.Predictive
	if o != nil {
		if ood, err = predict(ctx, o); err != nil {
			return nil, fmt.Errorf("%s: %w", o.name, err)
		}
	}
	return calibrate.Tune(ctx, val, v.data.Labels, ood, b.limit)
}

// thinned returns the set, or costlyHeldOut of its examples, spread evenly. Like the
// set it is collected, and may be nil.
func (b *bench) thinned(s *evalSet) *evalSet {
	if s == nil {
		return nil
	}
	n := s.data.Len(b.p.head)
	if n <= costlyHeldOut {
		return s
	}
	return &evalSet{set: s.set, role: s.role, index: s.index, whole: s, data: spread(s.data, b.p.head, costlyHeldOut)}
}

// spread returns so many of a set's examples, spread evenly.
func spread(s *calibrate.Set, h calibrate.Head, most int) *calibrate.Set {
	n, k := s.Len(h), h.Logits
	d := len(s.Features) / n
	part := &calibrate.Set{}
	for j := range most {
		i := j * n / most
		part.Features = append(part.Features, s.Features[i*d:(i+1)*d]...)
		part.Logits = append(part.Logits, s.Logits[i*k:(i+1)*k]...)
		if len(s.Labels) > 0 {
			part.Labels = append(part.Labels, s.Labels[i])
		}
	}
	return part
}

// test measures a tuned method on a set.
func (b *bench) test(ctx context.Context, t *tally, predict predictor, tuned *calibrate.Tuned, s *evalSet) error {
	p, err := predict(ctx, s)
	if err != nil {
		return err
	}
	logp, nll, err := calibrate.PredictAll(ctx, p, tuned.NLL)
	if err != nil {
		return err
	}
	if s.role == shiftRole {
		return t.add(s, logp, nil, nil, labels(s.data.Labels), nil)
	}
	ood := nll
	if tuned.OOD != tuned.NLL {
		if _, ood, err = calibrate.PredictAll(ctx, p, tuned.OOD); err != nil {
			return err
		}
	}
	return t.add(s, logp, ood, nll, labels(s.data.Labels), nil)
}

// fit makes a method ready to predict. The note tells what was decided.
func (b *bench) fit(ctx context.Context, m method) (p predictor, note string, err error) {
	if b.needsTrain(m) && !b.overLayers(m) {
		if err := b.collect(ctx, b.train); err != nil {
			return nil, "", err
		}
	}
	switch {
	case b.overLayers(m):
		return b.fitLayers(ctx, m)
	case m.gaussian:
		p, err = b.fitGaussian(ctx, m)
		return p, "", err
	}
	switch m.name {
	case "ensemble":
		p, err = b.fitNetworks(b.Ensemble)
	case "jackknife":
		p, err = b.fitNetworks(b.Jackknife)
	case "bnn-vi":
		p, err = b.fitStochastic(m)
	case "dropout":
		return b.fitDropout(ctx, m)
	case "edl":
		return b.fitEvidential(ctx)
	default:
		p, err = b.fitLast(ctx, m)
	}
	return p, "", err
}

// fitLast is fit for methods that draw or fit last layers.
func (b *bench) fitLast(ctx context.Context, m method) (predictor, error) {
	h, train := b.p.head, b.train.data
	options := methods.FitOptions{Product: b.product, Seed: b.Seed, Progress: func(done, total int) {
		b.notes.step(m.text+": fit", "epochs", done, total)
	}}
	type predictive interface {
		Predictive(ctx context.Context, s *calibrate.Set) (calibrate.Predictive, error)
	}
	var made predictive
	switch m.name {
	case "bnn-kfac":
		key := dampedKey{calibrate.Kronecker, b.likelihoodCovariance()}
		c, epsilon, err := b.dampingOf(ctx, key)
		if err != nil {
			return nil, err
		}
		p, err := c.Posterior(key.covariance, epsilon)
		if err != nil {
			return nil, err
		}
		if made, err = methods.NewWeightSamples(ctx, p, b.product, m.samples, b.Seed); err != nil {
			return nil, err
		}
	case "rue":
		c, err := b.covarianceOf(ctx, dampedKey{b.p.bundle.Manifest.Structure, calibrate.Hessian})
		if err != nil {
			return nil, err
		}
		if made, err = methods.NewBootstrap(ctx, train, h, c, b.product, m.samples, b.Seed); err != nil {
			return nil, err
		}
	case "ensemble-ll":
		l, err := methods.FitEnsemble(ctx, train, h, m.samples, options)
		if err != nil {
			return nil, err
		}
		made = l
	case "jackknife-ll":
		l, err := methods.FitJackknife(ctx, train, h, m.samples, 0, options)
		if err != nil {
			return nil, err
		}
		made = l
	case "bnn-ll-vi":
		w, err := b.headWeights()
		if err != nil {
			return nil, err
		}
		v, err := methods.FitVariational(ctx, train, h, w, methods.VariationalOptions{FitOptions: options})
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context, s *evalSet) (calibrate.Predictive, error) {
			return v.Predictive(ctx, s.data, m.samples, b.seedOf(s))
		}, nil
	default:
		panic("wrap: no such method: " + m.name)
	}
	return func(ctx context.Context, s *evalSet) (calibrate.Predictive, error) {
		return made.Predictive(ctx, s.data)
	}, nil
}

// likelihoodCovariance is the bundle's, where it is an inverse curvature.
func (b *bench) likelihoodCovariance() calibrate.Covariance {
	if b.p.bundle.Manifest.Covariance == calibrate.Fisher {
		return calibrate.Fisher
	}
	return calibrate.Hessian
}

// fitGaussian is fit for Gaussians over the last layer's logits.
func (b *bench) fitGaussian(ctx context.Context, m method) (predictor, error) {
	var cov methods.Covariance
	var err error
	if m.covariance == swag {
		cov, err = b.swag()
	} else {
		manifest := b.p.bundle.Manifest
		key := dampedKey{manifest.Structure, manifest.Covariance}
		if m.covariance != "" {
			key.covariance = calibrate.Covariance(m.covariance)
		}
		if m.structure != "" {
			key.structure = m.structure
		}
		cov, err = b.covarianceOf(ctx, key)
	}
	if err != nil {
		return nil, err
	}
	return b.integrate(m, cov, func(_ context.Context, s *evalSet) (*calibrate.Set, error) { return s.data, nil }), nil
}

// integrate predicts with a Gaussian over logits. inputs are what the covariance is a
// function of.
func (b *bench) integrate(m method, cov methods.Covariance, inputs func(context.Context, *evalSet) (*calibrate.Set, error)) predictor {
	k := b.p.head.Logits
	return func(ctx context.Context, s *evalSet) (calibrate.Predictive, error) {
		x, err := inputs(ctx, s)
		if err != nil {
			return nil, err
		}
		if m.name == "mc" {
			return methods.NewMonteCarlo(ctx, cov, x, k, m.samples, b.seedOf(s))
		}
		return methods.NewGaussian(ctx, methods.Kind(m.name), cov, x, k)
	}
}

// seedOf returns a seed for one set, so that no two share their draws and none depends
// on which others there are.
func (b *bench) seedOf(s *evalSet) uint64 {
	return rand.NewPCG(b.Seed, uint64(s.role)<<32|uint64(s.index)).Uint64()
}

// covarianceOf returns the covariance of logits.
func (b *bench) covarianceOf(ctx context.Context, key dampedKey) (*calibrate.LogitCovariance, error) {
	if c := b.damped[key]; c != nil {
		return c, nil
	}
	c, epsilon, err := b.dampingOf(ctx, key)
	if err != nil {
		return nil, err
	}
	b.damped[key], err = c.Covariance(key.covariance, epsilon)
	return b.damped[key], err
}

// dampingOf returns the curvature and ε: the bundle's own where it has this covariance,
// else what its rule gives.
func (b *bench) dampingOf(ctx context.Context, key dampedKey) (*calibrate.Curvature, float64, error) {
	if err := b.collect(ctx, b.train); err != nil {
		return nil, 0, err
	}
	c, err := b.curvatureOf(key)
	if err != nil {
		return nil, 0, err
	}
	manifest := b.p.bundle.Manifest
	if key == (dampedKey{manifest.Structure, manifest.Covariance}) {
		return c, manifest.Damping.Epsilon, nil
	}
	rule, err := calibrate.ParseDamping(manifest.Damping.Rule)
	if err != nil {
		return nil, 0, err
	}
	fitted, err := calibrate.Fit(ctx, c, b.val.data, nil, calibrate.FitOptions{Covariance: key.covariance, Damping: rule, Lambda0: manifest.MeanField.Lambda0})
	if err != nil {
		return nil, 0, err
	}
	return c, fitted.Posterior.Epsilon, nil
}

// curvatureOf accumulates the training set.
func (b *bench) curvatureOf(key dampedKey) (*calibrate.Curvature, error) {
	k := curvatureKey{key.structure, key.covariance.NeedsFisher()}
	if c := b.curvatures[k]; c != nil {
		return c, nil
	}
	if c := b.curvatures[curvatureKey{key.structure, true}]; c != nil {
		return c, nil
	}
	h := b.p.head
	c, err := calibrate.NewCurvature(calibrate.CurvatureConfig{Head: h, Structure: k.structure, Fisher: k.fisher, Product: b.product})
	if err != nil {
		return nil, err
	}
	train := b.train.data
	for i := range train.Len(h) {
		label := -1
		if train.Labels != nil {
			label = int(train.Labels[i])
		}
		if err := c.Add(i, train.Features[i*h.Features:(i+1)*h.Features], train.Logits[i*h.Logits:(i+1)*h.Logits], label); err != nil {
			return nil, fmt.Errorf("train: %w", err)
		}
	}
	b.curvatures[k] = c
	return c, c.Flush()
}

// headWeights returns the last layer, [K,D] with the bias in the last column.
func (b *bench) headWeights() ([]float64, error) {
	if b.weights != nil {
		return b.weights, nil
	}
	if b.p.network == nil {
		return nil, errors.New("the bundle was made of ready-made features and has no weights")
	}
	var err error
	b.weights, err = headWeights(b.p.network.head)
	return b.weights, err
}

func headWeights(h *onnx.Head) ([]float64, error) {
	w, bias, err := h.Weights()
	if err != nil {
		return nil, err
	}
	out := make([]float64, 0, len(w)+len(bias))
	for k := range h.Classes {
		for _, v := range w[k*h.FeatureDim : (k+1)*h.FeatureDim] {
			out = append(out, float64(v))
		}
		if bias != nil {
			out = append(out, float64(bias[k]))
		}
	}
	return out, nil
}

// swag reads the last layers of the checkpoints.
func (b *bench) swag() (methods.Covariance, error) {
	var trajectory [][]float64
	for _, path := range b.Checkpoints {
		_, head, err := b.openHead(path)
		if err != nil {
			return nil, err
		}
		if head.FeatureDim != b.p.head.Features || head.Bias != b.p.head.Bias {
			return nil, fmt.Errorf("%s: its last layer has %d features and bias %t, the bundle's %d and %t: is it of the same network?", path, head.FeatureDim, head.Bias, b.p.head.Features, b.p.head.Bias)
		}
		w, err := headWeights(head)
		if err != nil {
			return nil, err
		}
		trajectory = append(trajectory, w)
	}
	return methods.NewSWAG(trajectory, b.p.head, b.product)
}

// openHead opens another network for the bundle's classes.
func (b *bench) openHead(path string) (*onnx.Model, *onnx.Head, error) {
	model, err := onnx.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("%s: no such file", path)
	}
	if err != nil {
		return nil, nil, err
	}
	head, err := onnx.FindHead(model, onnx.HeadOptions{})
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	if head.Classes != b.p.head.Logits || head.Link != onnx.Softmax {
		return nil, nil, fmt.Errorf("%s: it has %d logits with link %s, want a softmax of %d as the bundle's", path, head.Classes, head.Link, b.p.head.Logits)
	}
	return model, head, nil
}
