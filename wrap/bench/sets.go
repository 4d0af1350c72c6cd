package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/featurize"
	"github.com/mfgs/mfgs/featurize/dataset"
	"github.com/mfgs/mfgs/internal/measure"
	"github.com/mfgs/mfgs/internal/option"
	"github.com/mfgs/mfgs/internal/source"
	"github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/bundle"
)

// Roles of sets that are not measured.
const (
	heldOutRole = measure.OOD + 1 + iota // validation
	trainRole
)

// Set is a dataset of the evaluation.
type Set struct {
	source *source.Set
	part   measure.SetID
	data   *rows.Batch // if comparators need all of it
	whole  *Set        // that this is a subsample of; nil for a whole set
}

// Name returns "test", "train", or the set's own name.
func (s *Set) Name() string { return s.source.Name }

// Data returns features, logits and labels: of measured sets once Comparator.Measure is called, of others after
// Session.Read; nil before.
func (s *Set) Data() *rows.Batch { return s.data }

// Shifted reports whether the set is of Config.Shifts, on which OOD scores are not measured.
func (s *Set) Shifted() bool { return s.part.Role == measure.Shift }

func (s *Set) labelled() bool { return s.part.Role != measure.OOD }

// Seed returns a seed for this set: no two sets share their draws, and none depends on the others.
func (s *Set) Seed(seed uint64) uint64 {
	return rand.NewPCG(seed, uint64(s.part.Role)<<32|uint64(s.part.Index)).Uint64()
}

// Subsampled returns the set, whose data must be there, or at most this many of its examples, evenly spaced.
func (s *Set) Subsampled(most int) *Set {
	if s.data.N <= most {
		return s
	}
	return &Set{source: s.source, part: s.part, whole: s, data: Subsample(s.data, most)}
}

// Whole returns the set that this is a subsample of, nil for a whole set.
func (s *Set) Whole() *Set { return s.whole }

// keep adds a batch to the set's data.
func (s *Set) keep(b *rows.Batch) {
	if s.data == nil {
		s.data = &rows.Batch{}
	}
	s.data.Append(&rows.Batch{N: b.N, Features: b.Features, Logits: b.Logits, Labels: b.Labels})
}

// Subsample returns this many of the examples, evenly spaced.
func Subsample(s *rows.Batch, most int) *rows.Batch {
	return s.Pick(rows.Firsts(s.N, most))
}

// opener opens sets for the bundle's network, or another with the same inputs.
func (b *bench) opener(other *featurize.Network, limit int) *source.Opener {
	o := &source.Opener{
		Network: other, Classes: b.manifest.Labels, Columns: b.manifest.Columns,
		MaxBad: b.MaxBad, Cache: b.Cache, Limit: limit, MultiLabel: b.head.MultiLabel(), Kind: b.manifest.Head.Kind,
		Notes: &b.notes,
	}
	if other == nil && b.cut != nil {
		o.Network = b.cut.Network
	}
	return o
}

// openSets opens the measured sets.
func (b *bench) openSets(ctx context.Context) error {
	opener := b.opener(nil, b.Limit)
	add := func(role measure.Role, list ...NamedSpec) error {
		for i, n := range list {
			of, spec := *opener, n.Spec
			if role == measure.OOD && spec == wrap.SyntheticOOD {
				of.Synthetic, spec = true, b.Test
			}
			s, err := of.Open(ctx, n.Name, spec, b.head.Classes(), role != measure.OOD)
			if err == nil && of.Synthetic {
				err = s.CheckSynthetic(ctx)
			}
			if err != nil {
				return err
			}
			b.sets = append(b.sets, &Set{source: s, part: measure.SetID{Role: role, Index: i}})
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
		if s.source.Size() < 0 {
			continue // a stream is identified once it was read
		}
		if err := s.source.Identify(ctx); err != nil {
			return err
		}
		if err := b.warnOfUsed(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// warnOfUsed warns of a set that was used in the calibration.
func (b *bench) warnOfUsed(ctx context.Context, s *Set) error {
	for _, d := range b.manifest.Datasets {
		same, err := b.opener(nil, 0).IsRecorded(ctx, s.source, b.head.Classes(), &d)
		if err != nil {
			return err
		}
		if same {
			b.warnings = append(b.warnings, fmt.Sprintf("%s: this data was used as %s for calibration: results on new data will be worse", s.Name(), d.Role))
		}
	}
	return nil
}

// optionOf is the option for the data of a role. Its flag is the name of the set in messages.
var optionOf = map[bundle.Role]option.Name{
	bundle.Train: option.Train, bundle.Val: option.Val, bundle.OOD: option.ValOOD,
}

// partOf is the part of a role's data. Out-of-distribution data follow those that are measured.
func (b *bench) partOf(role bundle.Role) measure.SetID {
	switch role {
	case bundle.Val:
		return measure.SetID{Role: heldOutRole}
	case bundle.OOD:
		return measure.SetID{Role: measure.OOD, Index: len(b.OOD)}
	}
	return measure.SetID{Role: trainRole}
}

// openRole opens the given data or, without any, the data with this role in the calibration, if unchanged; nil if there
// were none.
func (b *bench) openRole(ctx context.Context, role bundle.Role, given string) (*Set, error) {
	if s := b.opened[role]; s != nil {
		return s, nil
	}
	name, limit := optionOf[role].Kebab(), source.MaxTuning
	if role == bundle.Train {
		limit = 0
	}
	spec := given
	var recorded *bundle.Dataset
	if given == "" {
		all := b.manifest.Datasets
		i := slices.IndexFunc(all, func(d bundle.Dataset) bool { return d.Role == role })
		if i < 0 {
			return nil, nil
		}
		recorded, spec = &all[i], all[i].Spec
		if slices.ContainsFunc(all[i+1:], func(d bundle.Dataset) bool { return d.Role == role }) {
			return nil, fmt.Errorf("the bundle was updated, and its %s data comes from several datasets: give it with %s", role, optionOf[role])
		}
	}
	if dataset.IsStream(spec) {
		return nil, fmt.Errorf("the calibration data came on standard input: give it again with %s", optionOf[role])
	}
	s, err := b.opener(nil, limit).Open(ctx, name, spec, b.head.Classes(), role != bundle.OOD)
	if err != nil {
		if recorded != nil {
			err = fmt.Errorf("the calibration data: %w: give it with %s", err, optionOf[role])
		}
		return nil, err
	}
	if err = s.Fits(b.head, "the bundle's head"); err == nil {
		err = s.Identify(ctx)
	}
	if err == nil && recorded != nil {
		var same bool
		if same, err = b.opener(nil, 0).IsRecorded(ctx, s, b.head.Classes(), recorded); err == nil && !same {
			err = fmt.Errorf("%s: %s has changed since the calibration: give the original data with %s", name, spec, optionOf[role])
		}
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	if recorded != nil {
		if n := recorded.Count + recorded.Bad; n < s.Len() {
			s.Config.Limit = n // as the calibration did
		}
	}
	b.opened[role] = &Set{source: s, part: b.partOf(role)}
	return b.opened[role], nil
}

// warnOfShared warns of measured sets that share examples with a set for fitting or tuning. openSets warns of the data
// of the calibration.
func (b *bench) warnOfShared(s *Set) {
	for _, other := range b.sets {
		same := func(d bundle.Dataset) bool { return d.Fingerprint == other.source.Fingerprint }
		known := slices.ContainsFunc(b.manifest.Datasets, same)
		if shared := other.source.Shares(s.source); shared != "" && !known {
			b.warnings = append(b.warnings, fmt.Sprintf("%s and %s %s: results on new data will be worse", other.Name(), s.Name(), shared))
		}
	}
}

// maxKept bounds the data of one set, in bytes.
const maxKept = 8 << 30

// checkMemory refuses sets of n examples if their features and logits are too large.
func (b *bench) checkMemory(n int, name string) error {
	return checkNumbers(n, b.head.Features+b.head.Logits, name)
}

// checkNumbers is checkMemory for this many float32 per example.
func checkNumbers(n, each int, name string) error {
	if bytes := float64(n) * float64(each) * 4; bytes > maxKept {
		return fmt.Errorf("%s: the features and logits of %d examples take %.1f GB, want at most %.1f: take a slice of the data, such as SPEC[0:100000]", name, n, bytes/1e9, float64(maxKept)/1e9)
	}
	return nil
}
