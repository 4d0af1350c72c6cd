package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/methods"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/featurize"
	onnxlayers "github.com/mfgs/mfgs/onnx/layers"
	"github.com/mfgs/mfgs/wrap/bundle"
	"github.com/mfgs/mfgs/wrap/internal/measure"
	"github.com/mfgs/mfgs/wrap/internal/source"
)

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
	some := func(is func(method) bool) bool { return slices.ContainsFunc(e.methods, is) }
	named := func(name string) bool { return some(func(m method) bool { return m.name == name }) }
	layered := func(m method) bool { return m.gaussian || m.name == "bnn-kfac" }
	tuned := func(m method) bool { return !m.own(e.Layers) }
	for _, o := range []struct {
		flag, wants string
		given, used bool
	}{
		{"ensemble", "method ensemble", len(e.Ensemble) > 0, named("ensemble")},
		{"jackknife", "method jackknife", len(e.Jackknife) > 0, named("jackknife")},
		{"checkpoint", "a method with @swag", len(e.Checkpoints) > 0, some(func(m method) bool { return m.covariance == swag })},
		{"vi", "method bnn-vi", e.VI != "", named("bnn-vi")},
		{"edl", "method edl", e.Evidential != "", named("edl")},
		{"evidence", "method edl", e.Evidence != "", named("edl")},
		{"dropout-rate", "method dropout", e.DropoutRate != 0, named("dropout")},
		{"layers", "one of mf0, mf1, mf2, ukf, mc and bnn-kfac", e.Layers > 1, some(layered)},
		{"train", "a method that is fitted", e.Train != "", some(tuned)},
		{"val", "a method that is tuned", e.Val != "", some(tuned)},
		{"val-ood", "a method that is tuned", e.ValOOD != "", some(tuned)},
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
	h := e.head
	if h.Link != calibrate.Softmax {
		return fmt.Errorf("the head has %d logits with link %s: methods other than %v are for a softmax", h.Logits, h.Link, PlainMethods())
	}
	needsTrain := false
	for _, m := range e.methods {
		if m.own(e.Layers) {
			continue
		}
		needsTrain = needsTrain || b.needsTrain(m)
		if e.cut == nil && (b.overLayers(m) || slices.Contains([]string{"ensemble", "jackknife", "bnn-vi"}, m.name) || m.name == "edl" && e.Evidential != "") {
			return fmt.Errorf("method %q runs networks, and the bundle was made of ready-made features", m.text)
		}
	}
	if e.cut != nil {
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
	var err error
	if b.val, err = b.openSet(ctx, bundle.Val, heldOutRole, e.Val, "val", source.MaxHeldOut); err != nil {
		return err
	}
	if b.ood, err = b.openSet(ctx, bundle.OOD, measure.OOD, e.ValOOD, "val-ood", source.MaxHeldOut); err != nil {
		return err
	}
	if b.ood != nil {
		b.ood.part.Index = len(e.OOD) // behind those that are measured on
	}
	if needsTrain {
		if b.train, err = b.openSet(ctx, bundle.Train, trainRole, e.Train, "train", 0); err != nil {
			return err
		}
		if err := checkMemory(b.train.Len(), h.Features+h.Logits, "train"); err != nil {
			return err
		}
	}
	if !b.val.Labelled() {
		return fmt.Errorf("val: %s has no labels", b.val.Spec)
	}
	b.warnOfShared()
	for _, s := range e.sets {
		if err := checkMemory(s.Len(), h.Features+h.Logits, s.Name); err != nil {
			return err
		}
	}
	return nil
}

// openSet opens the data that is given or, where none is, that which had the part in the
// calibration, if it is the same still. There is none where neither is.
func (b *bench) openSet(ctx context.Context, part bundle.Role, r measure.Role, given, flag string, limit int) (*evalSet, error) {
	spec := given
	var recorded *bundle.Dataset
	if given == "" {
		all := b.manifest.Datasets
		i := slices.IndexFunc(all, func(d bundle.Dataset) bool { return d.Role == part })
		if i < 0 {
			return nil, nil
		}
		recorded, spec = &all[i], all[i].Spec
	}
	s, err := b.opener(b.network(), limit).Open(flag, spec, b.head.Classes(), r != measure.OOD)
	if err != nil {
		if recorded != nil {
			err = fmt.Errorf("the data of calibration: %w: give the data with --%s", err, flag)
		}
		return nil, err
	}
	if err := s.Fits(b.head, "the bundle's head"); err != nil {
		s.Close()
		return nil, err
	}
	if err := s.Identify(ctx); err != nil {
		s.Close()
		return nil, err
	}
	if recorded != nil {
		if s.Fingerprint != recorded.Fingerprint {
			s.Close()
			return nil, fmt.Errorf("%s: %s is not the data of calibration any more: give the data with --%s", flag, spec, flag)
		}
		if n := recorded.Count + recorded.Bad; n < s.Len() {
			s.Config.Limit = n // calibration took as many, spread evenly
		}
	}
	return &evalSet{Set: s, part: measure.Part{Role: r}}, nil
}

// checkFiles reports what would stop a method that is fitted only after others are done.
func (b *bench) checkFiles(m method) error {
	if b.overLayers(m) {
		_, err := onnxlayers.Find(b.cut.Model, b.cut.Head, b.Layers)
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
func (b *bench) warnOfShared() {
	for _, s := range []*evalSet{b.train, b.val, b.ood} {
		if s == nil {
			continue
		}
		for _, other := range b.sets {
			told := slices.ContainsFunc(b.manifest.Datasets, func(d bundle.Dataset) bool { return d.Fingerprint == other.Fingerprint })
			if shared := other.Shares(s.Set); shared != "" && !told {
				b.warnings = append(b.warnings, fmt.Sprintf("%s and %s %s: figures on new data will be worse", other.Name, s.Name, shared))
			}
		}
	}
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
func (e *evaluation) keep(s *evalSet) func(*rows.Batch) {
	if e.bench == nil {
		return func(*rows.Batch) {}
	}
	s.data = &rows.Batch{}
	return func(b *rows.Batch) {
		s.data.Append(&rows.Batch{N: b.N, Features: b.Features, Logits: b.Logits, Labels: b.Labels})
	}
}

// collect reads a set into memory, once.
func (b *bench) collect(ctx context.Context, s *evalSet) error {
	if s == nil || s.data != nil {
		return nil
	}
	data, _, err := s.Set.Collect(ctx, b.head, &b.notes)
	s.data = data
	return err
}

// thinned returns the set, or costlyHeldOut of its examples, spread evenly. Like the
// set it is collected, and may be nil.
func (b *bench) thinned(s *evalSet) *evalSet {
	if s == nil {
		return nil
	}
	n := s.data.N
	if n <= costlyHeldOut {
		return s
	}
	return &evalSet{Set: s.Set, part: s.part, whole: s, data: spread(s.data, costlyHeldOut)}
}

// spread returns so many of a set's examples, spread evenly.
func spread(s *rows.Batch, most int) *rows.Batch {
	which := make([]int, most)
	for j := range which {
		which[j] = j * s.N / most
	}
	return s.Pick(which)
}
