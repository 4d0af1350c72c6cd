package calibration

import (
	"context"
	"fmt"
	"iter"
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
	bad   []rows.Bad // that were met
	stats rows.Stats // of the pass that runs
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
	if a.in.synthetic != nil {
		a.part.SyntheticOOD = &rows.Batch{}
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
	if s := a.in.synthetic; s != nil && !a.whole(s) {
		return a.collect(ctx, s, a.part.SyntheticOOD)
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

// batches reads a set from where it was read to before. What is met is noted before an example behind it
// is handed over.
func (a *accumulation) batches(ctx context.Context, s *source.Set) iter.Seq2[*rows.Batch, error] {
	r, shard := a.read[s], a.shard(s)
	s.Config.From = 0
	if a.begun(s) {
		s.Config.From = r.Next
	}
	r.stats = rows.Stats{Examples: shard.Examples, Bad: r.bad}
	s.Config.Stats = &r.stats
	return s.Batches(ctx, a.in.head, &a.log.Notes)
}

// finish notes that all of a set was read.
func (a *accumulation) finish(ctx context.Context, s *source.Set) error {
	s.Fingerprint = "" // that of what was read counts, whatever the set was taken for
	if err := s.Identify(ctx); err != nil {
		return err
	}
	r, shard := a.read[s], a.shard(s)
	r.bad, r.Next, shard.Fingerprint = r.stats.Bad, max(shard.To, shard.From), s.Fingerprint
	a.note(s)
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

// readTrain adds the training set to the curvature, block by block.
func (a *accumulation) readTrain(ctx context.Context) error {
	in, shard, r := a.in, a.shard(a.in.train), a.read[a.in.train]
	checked := in.cut == nil
	for b, err := range rows.InBlocks(a.batches(ctx, in.train)) {
		if err != nil {
			return err
		}
		if !checked {
			if err := a.checkLogits(b); err != nil {
				return fmt.Errorf("train: %w", err)
			}
			checked = true
		}
		r.bad = r.stats.Bad
		next := min((rows.Block(b.Positions[0])+1)*rows.BlockSize, shard.To)
		if err := a.addBlock(b); err != nil {
			return fmt.Errorf("train: %w", err)
		}
		shard.Examples, r.Next = a.part.Counts.Examples, next
		a.save()
	}
	return a.finish(ctx, in.train)
}

// addBlock adds a block of the training set.
func (a *accumulation) addBlock(b *rows.Batch) error {
	start := time.Now()
	defer func() { a.log.seconds["curvature"] += time.Since(start).Seconds() }()
	for i := range b.Positions {
		b.Positions[i] += a.offset * rows.BlockSize
	}
	if err := a.part.Sums.AddBlock(b); err != nil {
		return err
	}
	a.part.Counts.Add(a.in.head, b)
	if a.part.Sample != nil { // of a bundle that keeps none
		a.part.Sample.Add(b)
	}
	return nil
}

// checkLogits compares the head's logits with those made of the features, on the beginning of the first
// block that is read: a features cache has other batches than the network. How they are on the first block
// of the training set is recorded.
func (a *accumulation) checkLogits(b *rows.Batch) error {
	logitError, err := attach.CheckLogits(a.in.cut.Head, b.Slice(0, min(b.N, a.in.cut.Batch())))
	if err != nil || !a.first() || a.begun(a.in.train) {
		return err
	}
	shard := a.shard(a.in.train)
	shard.LogitError = logitError
	if approximation := a.in.cut.Head.Approximation; approximation != "" {
		shard.Warnings = append(shard.Warnings, fmt.Sprintf("approximation %s: φW + b differs from the logits by %.2g of the largest; variances are as approximate", approximation, logitError))
	}
	return nil
}

// collect reads a held-out set behind what was read of it before.
func (a *accumulation) collect(ctx context.Context, s *source.Set, into *rows.Batch) error {
	shard, r := a.shard(s), a.read[s]
	batches := a.batches(ctx, s)
	s.Reserve(into, a.in.head)
	for b, err := range batches {
		if err != nil {
			return err
		}
		last := b.Positions[b.N-1]
		if err := s.Keep(into, a.in.head, b); err != nil {
			return err
		}
		r.bad = r.stats.Bad
		shard.Examples, r.Next = into.N, max(shard.From, rows.Block(last)*rows.BlockSize)
		a.save()
	}
	return a.finish(ctx, s)
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
		if s == a.in.synthetic {
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
			bundle.SyntheticOOD: &r.examples.SyntheticOOD,
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
