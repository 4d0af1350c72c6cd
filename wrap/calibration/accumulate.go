package calibration

import (
	"context"
	"fmt"
	"time"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/internal/attach"
	"github.com/mfgs/mfgs/internal/source"
	"github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/bundle"
	"github.com/mfgs/mfgs/wrap/internal/part"
	"github.com/mfgs/mfgs/wrap/internal/probe"
)

// An accumulation reads a calibration's data. What it has read so far is all in its part: the
// training data by whole blocks, held-out data example by example.
type accumulation struct {
	cfg        *Config
	in         *sources
	log        *journal
	checkpoint *checkpoint // nil keeps nothing of what was read
	resumed    bool        // what the checkpoint had is taken over, as far as it can be
	refused    bool        // the checkpoint, or the output that is there, is another calibration's
	part       *part.Part
	read       map[*source.Set]*reading
	probed     bool // the probe was read, or there is none
	offset     int  // blocks by which the training data lie behind those of its source
}

// reading is how far a set was read.
type reading struct {
	part.Progress
	bad []rows.Bad // that were met
}

// accumulate reads the data of a calibration, or what was not read before: with its part, all the
// rest can be done.
func (a *accumulation) accumulate(ctx context.Context) error {
	if err := a.resume(ctx); err != nil {
		return err
	}
	if err := a.readAll(ctx); err != nil {
		return err
	}
	if a.in.val != nil {
		if a.part.Val.N == 0 {
			a.in.noProbe = "" // the first examples are elsewhere
		}
		a.shard(a.in.val).NoProbe = a.in.noProbe
	}
	a.log.begin("fingerprint")
	return a.identify(ctx)
}

// begin makes a part of which nothing has been read.
func (a *accumulation) begin() error {
	recipe, err := a.in.recipe(a.cfg)
	if err != nil {
		return err
	}
	a.part = &part.Part{Manifest: part.Manifest{Tool: "mfgs " + wrap.Version(), Recipe: *recipe}}
	a.read = map[*source.Set]*reading{}
	for _, s := range a.in.sets() {
		from, to := s.Slice()
		set := part.Set{Role: bundle.Role(s.Name), Spec: s.Spec, From: from, Count: to - from, Stream: s.Size() < 0}
		shard := part.Shard{Shard: a.cfg.Shard, Ignored: s.Ignored(), IgnoredBy: s.IgnoredBy}
		if shard.Shard == (rows.Shard{}) {
			shard.Shard = rows.Shard{Index: 1, Count: 1}
		}
		shard.From, shard.To = s.Range()
		set.Shards = []part.Shard{shard}
		a.part.Sets = append(a.part.Sets, set)
		a.read[s] = &reading{Progress: part.Progress{Next: shard.From}}
	}
	if a.in.val != nil {
		a.part.Val = &rows.Batch{}
	}
	if a.in.ood != nil {
		a.part.OOD = &rows.Batch{}
	}
	if a.in.standIns != nil {
		a.part.StandIns = &rows.Batch{}
	}
	if a.in.train == nil {
		return nil
	}
	a.part.Counts, a.part.Sample = part.NewCounts(a.in.head), &rows.Sample{}
	a.part.Sums, err = calibrate.NewSums(calibrate.CurvatureConfig{
		Head: a.in.head, Structure: recipe.Structure(), Fisher: recipe.Settings.Covariance.NeedsFisher(),
		Product: a.in.matrixProduct(),
	})
	return err
}

// shard returns the part's shard of a set.
func (a *accumulation) shard(s *source.Set) *part.Shard {
	return &a.part.Set(bundle.Role(s.Name)).Shards[0]
}

// readAll reads the sets, or what is missing of them.
func (a *accumulation) readAll(ctx context.Context) (err error) {
	if s := a.in.train; s != nil && !a.whole(s) {
		a.log.begin("proof")
		if err := a.prove(ctx); err != nil {
			return err
		}
		a.log.begin("train")
		if err := a.readTrain(ctx); err != nil {
			return err
		}
	}
	a.log.begin("held_out")
	if err := a.keepProbe(ctx); err != nil {
		return err
	}
	if s := a.in.val; s != nil && !a.whole(s) {
		if err := a.collect(ctx, s, a.part.Val); err != nil {
			return err
		}
	}
	if s := a.in.ood; s != nil && !a.whole(s) {
		if err := a.collect(ctx, s, a.part.OOD); err != nil {
			return err
		}
	}
	if s := a.in.standIns; s != nil && !a.whole(s) {
		return a.collect(ctx, s, a.part.StandIns)
	}
	return nil
}

// keepProbe reads the probe, where the first held-out examples may be here, before these are read.
func (a *accumulation) keepProbe(ctx context.Context) (err error) {
	in := a.in
	if a.probed || in.val == nil || !a.part.Set(bundle.Val).Probed(a.shard(in.val), a.cfg.MaxBad) {
		return nil
	}
	a.probed = true
	switch {
	case a.cfg.NoProbe:
		in.noProbe = notWanted
	case in.cut == nil:
		in.noProbe = "the features are ready made"
	default:
		a.part.Probe, in.noProbe, err = probe.Read(ctx, in.cut, in.val)
	}
	return err
}

// begun reports whether some of a set was read before, and whole whether all of it was.
func (a *accumulation) begun(s *source.Set) bool { return a.read[s].Next > a.shard(s).From }
func (a *accumulation) whole(s *source.Set) bool {
	return a.begun(s) && a.read[s].Next >= a.shard(s).To
}

// stream reads a set from where it was read to before. read is called with the stream's own yield.
func (a *accumulation) stream(s *source.Set, read func() error) error {
	r, shard := a.read[s], a.shard(s)
	s.Config.From, s.Config.Before = 0, rows.Stats{Examples: shard.Examples}
	if a.begun(s) {
		s.Config.From = r.Next
	}
	for _, b := range r.bad {
		s.Config.Before.Bad = append(s.Config.Before.Bad, b.Message)
	}
	s.Config.Bad = func(b rows.Bad) {
		if b.Position >= s.Config.From {
			r.bad = append(r.bad, b)
		}
	}
	if err := read(); err != nil {
		return err
	}
	r.Next = max(shard.To, shard.From)
	a.note(s)
	shard.Fingerprint = s.Fingerprint
	return nil
}

// note notes the records that were left out of what was read of a set.
func (a *accumulation) note(s *source.Set) {
	r, shard := a.read[s], a.shard(s)
	shard.Bad = nil
	for _, b := range r.bad {
		if b.Position < r.Next {
			shard.Bad = append(shard.Bad, s.Name+": "+b.Message)
		}
	}
}

// first reports whether the training set is read from its beginning: the head is proven then.
func (a *accumulation) first() bool {
	return a.part.Set(bundle.Train).First(a.shard(a.in.train))
}

// prove compares the head with the model's own outputs.
func (a *accumulation) prove(ctx context.Context) error {
	if !a.first() || a.begun(a.in.train) {
		return nil
	}
	proof, warning, err := prove(ctx, a.cfg, a.in)
	if err != nil {
		return err
	}
	shard := a.shard(a.in.train)
	shard.Proof = proof
	if warning != "" {
		shard.Warnings = append(shard.Warnings, warning)
	}
	return nil
}

// readTrain streams the training set into the curvature, and proves the head on its first batch.
func (a *accumulation) readTrain(ctx context.Context) (err error) {
	in, shard, counts := a.in, a.shard(a.in.train), a.part.Counts
	var inCurvature time.Duration
	checked := in.cut == nil
	record := !checked && a.first() && !a.begun(in.train)
	blocks := rows.NewBlocks(func(b *rows.Batch) error {
		if record {
			record = false
			if err := a.recordLogits(b, shard); err != nil {
				return err
			}
		}
		start := time.Now()
		defer func() { inCurvature += time.Since(start) }()
		next := (rows.Block(b.Positions[0]) + 1) * rows.BlockSize
		for i := range b.Positions {
			b.Positions[i] += a.offset * rows.BlockSize
		}
		if err := a.part.Sums.AddBlock(b); err != nil {
			return err
		}
		counts.Add(in.head, b)
		if a.part.Sample != nil { // of a bundle that keeps none
			a.part.Sample.Add(b)
		}
		shard.Examples = counts.Examples
		a.read[in.train].Next = next
		return nil
	})
	err = a.stream(in.train, func() error {
		_, _, err := in.train.Stream(ctx, in.head, &a.log.Notes, func(b *rows.Batch) error {
			if !checked {
				if _, err := attach.CheckLogits(in.cut.Head, b); err != nil {
					return err
				}
				checked = true
			}
			if err := blocks.Add(b); err != nil {
				return err
			}
			a.save()
			return nil
		})
		if err != nil {
			return err
		}
		if err := blocks.Flush(); err != nil {
			return fmt.Errorf("train: %w", err)
		}
		return nil
	})
	a.log.seconds["curvature"] += inCurvature.Seconds()
	return err
}

// recordLogits records how the head's logits are on the beginning of the first block, which is the
// same however examples come: a features cache has other batches than the network.
func (a *accumulation) recordLogits(b *rows.Batch, shard *part.Shard) error {
	logitError, err := attach.CheckLogits(a.in.cut.Head, b.Slice(0, min(b.N, a.in.cut.Batch())))
	if err != nil {
		return err
	}
	shard.LogitError = logitError
	if approximation := a.in.cut.Head.Approximation; approximation != "" {
		shard.Warnings = append(shard.Warnings, fmt.Sprintf("approximation %s: φW + b differs from the logits by %.2g of the largest; variances are as approximate", approximation, logitError))
	}
	return nil
}

// collect reads a held-out set behind what was read of it before.
func (a *accumulation) collect(ctx context.Context, s *source.Set, into *rows.Batch) error {
	shard := a.shard(s)
	return a.stream(s, func() error {
		_, err := s.CollectInto(ctx, a.in.head, &a.log.Notes, into, func(b *rows.Batch) error {
			shard.Examples = into.N
			a.read[s].Next = max(shard.From, rows.Block(b.Positions[b.N-1])*rows.BlockSize)
			a.save()
			return nil
		})
		return err
	})
}

// identify adds fingerprints, and warns of sets that share examples: each has a part that the others
// must not have.
func (a *accumulation) identify(ctx context.Context) error {
	sets := a.in.sets()
	for i, s := range sets {
		if err := s.Identify(ctx); err != nil {
			return err
		}
		shard := a.shard(s)
		shard.Fingerprint = s.Fingerprint
		if s == a.in.standIns {
			continue // which are made of val, and meant to be
		}
		for _, other := range sets[:i] {
			if shared := s.Shares(other); shared != "" {
				shard.Shared = append(shard.Shared, fmt.Sprintf("%s and %s %s: what is tuned here may not hold on new data", other.Name, s.Name, shared))
			}
		}
	}
	return nil
}

// summary is what a report says of what was read.
type summary struct {
	head     HeadInfo
	examples Examples
	bad      []string
	ignored  []string
	warnings []string // of what was met in reading
}

// summarise gathers what a report says of a part.
func summarise(p *part.Part) summary {
	r := summary{head: HeadInfo{Head: p.Recipe.Head}, bad: []string{}, ignored: []string{}, warnings: []string{}}
	for i := range p.Sets {
		s := &p.Sets[i]
		*map[bundle.Role]*int{
			bundle.Train: &r.examples.Train, bundle.Val: &r.examples.Val, bundle.OOD: &r.examples.OOD,
			bundle.StandIns: &r.examples.StandIns,
		}[s.Role] = s.Examples()
		r.ignored = append(r.ignored, s.Shards[0].IgnoredBy...)
		for j := range s.Shards {
			shard := &s.Shards[j]
			r.bad = append(r.bad, shard.Bad...)
			r.warnings = append(append(r.warnings, shard.Warnings...), shard.Shared...)
			if s.Role == bundle.Train && s.First(shard) {
				r.head.LogitError, r.head.Proof = shard.LogitError, shard.Proof
			}
		}
	}
	r.examples.Bad = len(r.bad)
	return r
}
