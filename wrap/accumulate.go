package wrap

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/wrap/bundle"
	"github.com/mfgs/mfgs/wrap/internal/attach"
	"github.com/mfgs/mfgs/wrap/internal/source"
	"github.com/mfgs/mfgs/wrap/part"
)

// An accumulation reads a calibration's data. What it has read so far is all in its part: the
// training data by whole blocks, held-out data example by example.
type accumulation struct {
	cfg  *Config
	in   *sources
	log  *journal
	part *part.Part
}

// accumulate reads the data of a calibration: with what it returns, all the rest can be done.
func accumulate(ctx context.Context, cfg *Config, in *sources, log *journal) (*part.Part, error) {
	a := &accumulation{cfg: cfg, in: in, log: log}
	if err := a.begin(); err != nil {
		return nil, err
	}
	if err := a.read(ctx); err != nil {
		return nil, err
	}
	log.begin("fingerprint")
	return a.part, a.identify(ctx)
}

// begin makes a part of which nothing has been read.
func (a *accumulation) begin() error {
	recipe, err := a.in.recipe(a.cfg)
	if err != nil {
		return err
	}
	a.part = &part.Part{Manifest: part.Manifest{Tool: "mfgs " + Version(), Recipe: *recipe}}
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
	}
	if a.in.train == nil {
		return nil
	}
	a.part.Counts = part.NewCounts(a.in.head)
	a.part.Sums, err = calibrate.NewSums(calibrate.CurvatureConfig{
		Head: a.in.head, Structure: recipe.Structure, Fisher: recipe.Covariance.NeedsFisher(),
		Product: a.in.matrixProduct(),
	})
	return err
}

// shard returns the part's shard of a set.
func (a *accumulation) shard(s *source.Set) *part.Shard {
	return &a.part.Set(bundle.Role(s.Name)).Shards[0]
}

// read reads the sets.
func (a *accumulation) read(ctx context.Context) (err error) {
	if a.in.train != nil {
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
	if a.in.val != nil {
		if a.part.Val, err = a.collect(ctx, a.in.val); err != nil {
			return err
		}
	}
	if a.in.ood != nil {
		a.part.OOD, err = a.collect(ctx, a.in.ood)
	}
	return err
}

// first reports whether the training set is read from its beginning: the head is proven then.
func (a *accumulation) first() bool {
	return a.part.Set(bundle.Train).First(a.shard(a.in.train))
}

// prove compares the head with the model's own outputs.
func (a *accumulation) prove(ctx context.Context) error {
	if !a.first() {
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
	blocks := rows.NewBlocks(func(b *rows.Batch) error {
		start := time.Now()
		defer func() { inCurvature += time.Since(start) }()
		counts.Add(in.head, b)
		shard.Examples = counts.Examples
		return a.part.Sums.AddBlock(b)
	})
	checked := in.cut == nil
	bad := len(a.log.Bad)
	_, _, err = in.train.Stream(ctx, in.head, &a.log.Notes, func(b *rows.Batch) error {
		if !checked {
			if err := a.checkLogits(b, shard); err != nil {
				return err
			}
			checked = true
		}
		return blocks.Add(b)
	})
	if err != nil {
		return err
	}
	shard.Bad = slices.Clone(a.log.Bad[bad:])
	if err := blocks.Flush(); err != nil {
		return fmt.Errorf("train: %w", err)
	}
	a.log.seconds["curvature"] += inCurvature.Seconds()
	return nil
}

// checkLogits proves the head on a batch. What it is like, the first shard tells.
func (a *accumulation) checkLogits(b *rows.Batch, shard *part.Shard) error {
	logitError, err := attach.CheckLogits(a.in.cut.Head, b)
	if err != nil || !a.first() {
		return err
	}
	shard.LogitError = logitError
	if approximation := a.in.cut.Head.Approximation; approximation != "" {
		shard.Warnings = append(shard.Warnings, fmt.Sprintf("approximation %s: φW + b differs from the logits by %.2g of the largest; variances are as approximate", approximation, logitError))
	}
	return nil
}

// collect reads a held-out set.
func (a *accumulation) collect(ctx context.Context, s *source.Set) (*rows.Batch, error) {
	bad := len(a.log.Bad)
	batch, _, err := s.Collect(ctx, a.in.head, &a.log.Notes)
	if err != nil {
		return nil, err
	}
	shard := a.shard(s)
	shard.Examples, shard.Bad = batch.N, slices.Clone(a.log.Bad[bad:])
	return batch, nil
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
