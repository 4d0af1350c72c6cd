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
	"github.com/mfgs/mfgs/onnx/head"
	"github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/bundle"
	"github.com/mfgs/mfgs/wrap/internal/part"
	"github.com/mfgs/mfgs/wrap/internal/probe"
)

// An accumulation reads the data of a calibration into a part: training data in whole blocks, other
// sets example by example.
type accumulation struct {
	cfg        *Config
	in         *sources
	log        *journal
	checkpoint *checkpoint // nil: progress is not saved
	resumed    bool        // progress was taken from the checkpoint, as far as possible
	refused    bool        // the checkpoint or the existing output belongs to another calibration
	part       *part.Part
	read       map[*source.Set]*reading
	probed     bool // the probe was read, or there is none
	offset     int  // added to the block numbers of the training data, for an update
}

// reading is how far a set was read.
type reading struct {
	part.Progress
	bad   []rows.Bad // unreadable records so far
	stats rows.Stats // of the current pass
}

// begin makes an empty part. cfg, in and log must be set.
func (a *accumulation) begin() error {
	cfg, in := a.cfg, a.in
	recipe, err := in.recipe(cfg)
	if err != nil {
		return err
	}
	a.part = &part.Part{Manifest: part.Manifest{Tool: "mfgs " + wrap.Version(), Recipe: *recipe}}
	a.read = map[*source.Set]*reading{}
	for _, s := range in.sets() {
		from, to := s.Slice()
		set := part.Set{Role: bundle.Role(s.Name), Spec: s.Spec, From: from, Count: to - from, Stream: s.Size() < 0}
		shard := part.Shard{Shard: cfg.Shard, Ignored: s.Ignored(), IgnoredBy: s.IgnoredBy}
		if shard.Shard == (rows.Shard{}) {
			shard.Shard = rows.Shard{Index: 1, Count: 1}
		}
		shard.From, shard.To = s.Range()
		set.Shards = []part.Shard{shard}
		a.part.Sets = append(a.part.Sets, set)
		a.read[s] = &reading{Progress: part.Progress{Next: shard.From}}
		if examples := a.part.Rows(set.Role); examples != nil {
			*examples = &rows.Batch{}
		}
	}
	if in.train == nil {
		return nil
	}
	a.part.Counts, a.part.Sample = part.NewCounts(in.head), &rows.Sample{}
	a.part.Sums, err = calibrate.NewSums(calibrate.CurvatureConfig{
		Head: in.head, Structure: recipe.Structure(), Fisher: recipe.Settings.Covariance.NeedsFisher(),
		Product: in.matrixProduct(),
	})
	return err
}

// accumulate reads what has not been read yet. The part then has all that is needed to finish.
func (a *accumulation) accumulate(ctx context.Context) error {
	if err := a.resume(ctx); err != nil {
		return err
	}
	if err := a.readAll(ctx); err != nil {
		return err
	}
	if a.in.val != nil && a.part.Val.N == 0 {
		a.shard(a.in.val).NoProbe = "" // another shard has the first examples
	}
	a.log.begin("fingerprint")
	return a.identify(ctx)
}

// shard returns a set's shard in the part.
func (a *accumulation) shard(s *source.Set) *part.Shard {
	return &a.part.Set(bundle.Role(s.Name)).Shards[0]
}

// readAll reads what is missing of the sets.
func (a *accumulation) readAll(ctx context.Context) (err error) {
	if a.cfg.Expected != "" && a.in.val != nil { // errors come before the work
		d, err := openExpected(ctx, a.cfg.Expected, a.in.val)
		if err != nil {
			return fmt.Errorf("expected: %w", err)
		}
		d.Close()
	}
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
	for _, s := range a.in.sets() {
		if s == a.in.train || a.whole(s) {
			continue
		}
		if err := a.collect(ctx, s); err != nil {
			return err
		}
	}
	if a.in.cut != nil && a.part.Val != nil {
		if err := checkKind(a.in.cut.Head, a.part.Val.Logits, a.cfg.Head.Kind != head.None); err != nil {
			return err
		}
	}
	if a.cfg.Expected == "" || a.part.Val == nil || a.part.Val.N == 0 {
		return nil
	}
	found, equal, err := compareExpected(ctx, a.cfg.Expected, a.in.val, a.in.head, a.part.Val)
	switch {
	case err != nil:
		return err
	case equal:
		a.log.notice("%s", found)
	default:
		shard := a.shard(a.in.val)
		shard.Warnings = append(shard.Warnings, found)
	}
	return nil
}

// keepProbe reads the probe if the first validation examples may be in this shard. It must run before they are read.
func (a *accumulation) keepProbe(ctx context.Context) (err error) {
	in := a.in
	if a.probed || in.val == nil || !a.part.Set(bundle.Val).Probed(a.shard(in.val), a.cfg.MaxBad) {
		return nil
	}
	a.probed = true
	why := &a.shard(in.val).NoProbe
	switch {
	case a.cfg.NoProbe:
		*why = notWanted
	case in.cut == nil:
		*why = "the features are precomputed"
	default:
		a.part.Probe, *why, err = probe.Read(ctx, in.cut, in.val)
	}
	return err
}

// begun reports whether part of a set has been read, and whole whether all of it has.
func (a *accumulation) begun(s *source.Set) bool { return a.read[s].Next > a.shard(s).From }
func (a *accumulation) whole(s *source.Set) bool {
	return a.begun(s) && a.read[s].Next >= a.shard(s).To
}

// batches continues reading a set. r.stats counts a bad record before it yields an example after it.
func (a *accumulation) batches(ctx context.Context, s *source.Set) iter.Seq2[*rows.Batch, error] {
	r, shard := a.read[s], a.shard(s)
	s.Config.From = 0
	if a.begun(s) {
		s.Config.From = r.Next
	}
	r.stats = rows.Stats{Examples: shard.Examples, Bad: r.bad}
	s.Config.Stats = &r.stats
	return s.Batches(ctx)
}

// finishSet records that a set was read to its end.
func (a *accumulation) finishSet(ctx context.Context, s *source.Set) error {
	s.Fingerprint = "" // take that of what was read
	if err := s.Identify(ctx); err != nil {
		return err
	}
	r, shard := a.read[s], a.shard(s)
	r.bad, r.Next, shard.Fingerprint = r.stats.Bad, max(shard.To, shard.From), s.Fingerprint
	a.note(s)
	return nil
}

// note records the unreadable records among what was read of a set.
func (a *accumulation) note(s *source.Set) {
	r, shard := a.read[s], a.shard(s)
	shard.Bad = nil
	for _, b := range r.bad {
		if b.Position < r.Next {
			shard.Bad = append(shard.Bad, s.Name+": "+b.Message)
		}
	}
}

// first reports whether this shard has the beginning of the training set, on which the head is checked.
func (a *accumulation) first() bool {
	return a.part.Set(bundle.Train).First(a.shard(a.in.train))
}

// prove compares the head with the model's own outputs, before training data are read.
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
	checked := in.cut == nil || in.head.Nonlinear
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
	return a.finishSet(ctx, in.train)
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
	if a.part.Sample != nil { // nil in an update of a bundle without one
		a.part.Sample.Add(b)
	}
	return nil
}

// checkLogits compares the logits with φW + b on as many examples as a batch of the network has: a features cache
// has larger ones. It records the error on the first block of the training set.
func (a *accumulation) checkLogits(b *rows.Batch) error {
	logitError, err := attach.CheckLogits(a.in.cut.Head, b.Slice(0, min(b.N, a.in.cut.Batch())))
	if err != nil || !a.first() || a.begun(a.in.train) {
		return err
	}
	shard := a.shard(a.in.train)
	shard.LogitError = logitError
	if approximation := a.in.cut.Head.Approximation; approximation != "" {
		shard.Warnings = append(shard.Warnings, fmt.Sprintf("approximation %s: φW + b differs from the logits by %.2g of the largest, and the variances are as inaccurate", approximation, logitError))
	}
	return nil
}

// collect continues reading a set into memory.
func (a *accumulation) collect(ctx context.Context, s *source.Set) error {
	shard, r, into := a.shard(s), a.read[s], *a.part.Rows(bundle.Role(s.Name))
	batches := a.batches(ctx, s)
	s.Reserve(into)
	for b, err := range batches {
		if err != nil {
			return err
		}
		last := b.Positions[b.N-1]
		if err := s.Keep(into, b); err != nil {
			return err
		}
		r.bad = r.stats.Bad
		shard.Examples, r.Next = into.N, max(shard.From, rows.Block(last)*rows.BlockSize)
		a.save()
	}
	return a.finishSet(ctx, s)
}

// identify adds fingerprints, and warns of sets that share examples.
func (a *accumulation) identify(ctx context.Context) error {
	sets := a.in.sets()
	for i, s := range sets {
		if err := s.Identify(ctx); err != nil {
			return err
		}
		shard := a.shard(s)
		shard.Fingerprint = s.Fingerprint
		if s == a.in.synthetic {
			continue // made from val on purpose
		}
		for _, other := range sets[:i] {
			if a.in.external != nil && other.Fingerprint == s.Fingerprint {
				continue // val in the place of train, for scores alone
			}
			if shared := s.Shares(other); shared != "" {
				shard.Shared = append(shard.Shared, fmt.Sprintf("%s and %s %s: %s", other.Name, s.Name, shared, consequence(other, s)))
			}
		}
	}
	return nil
}

// consequence says what it means that two sets share examples.
func consequence(a, b *source.Set) string {
	const overconfident = "if the network was trained on these examples, it is overconfident on new data"
	switch {
	case a.Name != string(bundle.Train) || b.Name != string(bundle.Val):
		return "OOD data must not be data of the others: leave these examples out of one set"
	case a.Fingerprint == b.Fingerprint:
		return overconfident
	}
	return "OOD percentiles of new data are too high: leave these examples out of train; and " + overconfident
}

// summary is what a report says about the data.
type summary struct {
	head     HeadInfo
	examples Examples
	bad      []string
	ignored  []string
	warnings []string
}

// summarise returns what a report says about the data of a part.
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
