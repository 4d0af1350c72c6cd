package bench

import (
	"context"
	"fmt"
	"slices"

	"github.com/mfgs/mfgs/calibrate/methods"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/featurize"
	"github.com/mfgs/mfgs/featurize/dataset"
	"github.com/mfgs/mfgs/internal/measure"
	"github.com/mfgs/mfgs/internal/source"
	"github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/bundle"
)

// What a set is for beyond being measured.
const (
	heldOutRole = measure.OOD + 1 + iota // to be tuned on
	trainRole
)

// keep adds a batch to the data that is kept.
func (s *evalSet) keep(b *rows.Batch) {
	if s.data == nil {
		s.data = &rows.Batch{}
	}
	s.data.Append(&rows.Batch{N: b.N, Features: b.Features, Logits: b.Logits, Labels: b.Labels})
}

// thinned returns the set, or so many of its examples, spread evenly. Like the set it is collected,
// and may be nil.
func (s *evalSet) thinned(most int) *evalSet {
	if s == nil || s.data.N <= most {
		return s
	}
	return &evalSet{Set: s.Set, part: s.part, whole: s, data: spread(s.data, most)}
}

// spread returns so many of a set's examples, spread evenly.
func spread(s *rows.Batch, most int) *rows.Batch {
	which := make([]int, most)
	for j := range which {
		which[j] = j * s.N / most
	}
	return s.Pick(which)
}

// collect reads a set into memory, once.
func (b *bench) collect(ctx context.Context, s *evalSet) (err error) {
	if s != nil && s.data == nil {
		s.data, err = s.Set.Collect(ctx, b.head, &b.notes)
	}
	return err
}

// opener opens sets for the bundle's own network, or another that takes the same inputs.
func (b *bench) opener(other *featurize.Network, limit int) *source.Opener {
	o := &source.Opener{
		Network: other, Classes: b.manifest.Labels, MaxBad: b.MaxBad, Cache: b.Cache, Limit: limit,
		MultiLabel: b.head.MultiLabel(), Notes: &b.notes,
	}
	if other == nil && b.cut != nil {
		o.Network, o.Extractor = b.cut.Network, b.cut.Extractor
	}
	return o
}

// openSets opens the sets that are measured on.
func (b *bench) openSets(ctx context.Context) error {
	opener := b.opener(nil, b.Limit)
	add := func(role measure.Role, list ...NamedSpec) error {
		for i, n := range list {
			of, spec := *opener, n.Spec
			if role == measure.OOD && spec == wrap.StandIns {
				of.Synthetic, of.Notes, spec = true, &source.Notes{Progress: b.notes.Progress}, b.Test
			}
			s, err := of.Open(ctx, n.Name, spec, b.head.Classes(), role != measure.OOD)
			if err == nil && of.Synthetic {
				err = s.CheckSynthetic(ctx)
			}
			if err != nil {
				return err
			}
			b.sets = append(b.sets, &evalSet{Set: s, part: measure.Part{Role: role, Index: i}})
			if role != measure.OOD && !s.Labelled() {
				return fmt.Errorf("%s: %s has no labels", n.Name, n.Spec)
			}
			if err := s.Fits(b.head, "the bundle's head"); err != nil {
				return err
			}
		}
		return nil
	}
	if err := add(measure.Test, NamedSpec{"test", b.Test}); err != nil {
		return err
	}
	if err := add(measure.Shift, b.Shifts...); err != nil {
		return err
	}
	if err := add(measure.OOD, b.OOD...); err != nil {
		return err
	}
	for _, s := range b.sets {
		if s.Size() < 0 {
			continue // it is identified by what is read of it
		}
		if err := s.Identify(ctx); err != nil {
			return err
		}
		if err := b.warnOfUsed(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// warnOfUsed warns of a set that was calibrated on.
func (b *bench) warnOfUsed(ctx context.Context, s *evalSet) error {
	for _, d := range b.manifest.Datasets {
		same, err := b.opener(nil, 0).IsRecorded(ctx, s.Set, b.head.Classes(), &d)
		if err != nil {
			return err
		}
		if same {
			b.warnings = append(b.warnings, fmt.Sprintf("%s: the same data that was used as %s for calibration: figures on new data will be worse", s.Name, d.Role))
		}
	}
	return nil
}

// openTuning opens the sets that methods are tuned on and, with train, fitted to.
func (b *bench) openTuning(ctx context.Context, train bool) (err error) {
	each := b.head.Features + b.head.Logits
	if b.val, err = b.openSet(ctx, bundle.Val, heldOutRole, b.Val, "val", source.MaxHeldOut); err != nil {
		return err
	}
	if b.ood, err = b.openSet(ctx, bundle.OOD, measure.OOD, b.ValOOD, "val-ood", source.MaxHeldOut); err != nil {
		return err
	}
	if b.ood != nil {
		b.ood.part.Index = len(b.OOD) // behind those that are measured on
	}
	if train {
		if b.train, err = b.openSet(ctx, bundle.Train, trainRole, b.Train, "train", 0); err != nil {
			return err
		}
		if err := checkMemory(b.train.Len(), each, "train"); err != nil {
			return err
		}
	}
	if !b.val.Labelled() {
		return fmt.Errorf("val: %s has no labels", b.val.Spec)
	}
	b.warnOfShared()
	for _, s := range b.sets {
		if err := checkMemory(s.Len(), each, s.Name); err != nil {
			return err
		}
	}
	return nil
}

// openSet opens the data that is given or, where none is, that which had the part in the
// calibration, if it is the same still. There is none where neither is.
func (b *bench) openSet(
	ctx context.Context, part bundle.Role, role measure.Role, given, flag string, limit int,
) (*evalSet, error) {
	spec := given
	var recorded *bundle.Dataset
	if given == "" {
		all := b.manifest.Datasets
		i := slices.IndexFunc(all, func(d bundle.Dataset) bool { return d.Role == part })
		if i < 0 {
			return nil, nil
		}
		recorded, spec = &all[i], all[i].Spec
		if slices.ContainsFunc(all[i+1:], func(d bundle.Dataset) bool { return d.Role == part }) {
			return nil, fmt.Errorf("the bundle was updated, and its %s data are several sets: give the data with --%s", part, flag)
		}
	}
	if dataset.IsStream(spec) {
		return nil, fmt.Errorf("the data of calibration came on standard input, which is gone: give the data with --%s", flag)
	}
	s, err := b.opener(nil, limit).Open(ctx, flag, spec, b.head.Classes(), role != measure.OOD)
	if err != nil {
		if recorded != nil {
			err = fmt.Errorf("the data of calibration: %w: give the data with --%s", err, flag)
		}
		return nil, err
	}
	if err = s.Fits(b.head, "the bundle's head"); err == nil {
		err = s.Identify(ctx)
	}
	if err == nil && recorded != nil {
		var same bool
		if same, err = b.opener(nil, 0).IsRecorded(ctx, s, b.head.Classes(), recorded); err == nil && !same {
			err = fmt.Errorf("%s: %s is not the data of calibration any more: give the data with --%s", flag, spec, flag)
		}
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	if recorded != nil {
		if n := recorded.Count + recorded.Bad; n < s.Len() {
			s.Config.Limit = n // calibration took as many, spread evenly
		}
	}
	return &evalSet{Set: s, part: measure.Part{Role: role}}, nil
}

// warnOfShared warns of what is measured on and was tuned on or fitted to as well, where that is
// not the data of the calibration, of which openSets warns.
func (b *bench) warnOfShared() {
	for _, s := range []*evalSet{b.train, b.val, b.ood} {
		if s == nil {
			continue
		}
		for _, other := range b.sets {
			same := func(d bundle.Dataset) bool { return d.Fingerprint == other.Fingerprint }
			known := slices.ContainsFunc(b.manifest.Datasets, same)
			if shared := other.Shares(s.Set); shared != "" && !known {
				b.warnings = append(b.warnings, fmt.Sprintf("%s and %s %s: figures on new data will be worse", other.Name, s.Name, shared))
			}
		}
	}
}

// checkMemory refuses sets of n examples, each so many float32, that are too large to keep.
func checkMemory(n, each int, name string) error {
	if bytes := float64(n) * float64(each) * 4; bytes > methods.MaxBytes {
		return fmt.Errorf("%s: features and logits of %d examples take %.1f GB, want at most %.1f for methods that keep them: take a part of the data, as in SPEC[0:100000]", name, n, bytes/1e9, float64(methods.MaxBytes)/1e9)
	}
	return nil
}

// nllOf returns -log p of each label.
func nllOf(logp []float64, labels []int, classes int) []float64 {
	nll := make([]float64, len(labels))
	for i, y := range labels {
		nll[i] = -logp[i*classes+y]
	}
	return nll
}

// costlyHeldOut is how many examples of each held-out set a method is tuned on that works anew for
// each T_ens.
const costlyHeldOut = 1000

// drawnHeldOut is how many classifiers drawn, over the examples of a held-out set, a method is tuned on
// at most: what more examples add to a tuning by so many is less than what other draws change.
const drawnHeldOut = 1_000_000
