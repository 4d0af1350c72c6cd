package wrap

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/wrap/internal/source"
)

const (
	// sampleTime is how long a set is read to know its pace, and longer until there are sampleBatches.
	sampleTime    = time.Second
	sampleBatches = 3
	// sampleFew and sampleMost are how many held-out examples tuning is tried on.
	sampleFew, sampleMost = 64, 512
	// tuningRoom is how many times its features and logits an example takes while temperatures are
	// tuned, as measured for docs/cost.md.
	tuningRoom = 4
)

// Estimate is what a calibration would take, by stage.
type Estimate struct {
	Structure string          `json:"structure"`
	Stages    []StageEstimate `json:"stages"` // train, val, ood, tuning
	// Seconds is the sum of the stages', null where one is not known, and Bytes the most memory.
	Seconds *float64 `json:"seconds"`
	Bytes   int64    `json:"bytes"`
}

// StageEstimate is what a stage would take.
type StageEstimate struct {
	Stage     string   `json:"stage"`
	Examples  *int     `json:"examples"` // null of standard input, whose length is not known
	PerSecond float64  `json:"examples_per_second"`
	Seconds   *float64 `json:"seconds"`
	Bytes     int64    `json:"bytes"` // of the process
}

// EstimateCalibration says what Calibrate, or Accumulate, would take: it opens everything, times some
// batches of each set through the network, blocks of curvature, and tuning on some of the held-out
// examples, and scales that up. A features cache is not looked at. Nothing is written, and cfg.Out may
// be empty.
//
// Memory is what the process has when it has tried everything, and the held-out examples beside that.
func EstimateCalibration(ctx context.Context, cfg Config) (*Estimate, error) {
	cfg = cfg.withDefaults()
	if err := cfg.check(); err != nil {
		return nil, err
	}
	cfg.Cache = ""
	log := newJournal(cfg.Progress)
	in, err := openSources(ctx, &cfg, log)
	if err != nil {
		return nil, err
	}
	defer in.close()
	a := &accumulation{cfg: &cfg, in: in, log: log}
	if err := a.begin(); err != nil {
		return nil, err
	}
	e := &estimator{accumulation: a, Estimate: &Estimate{Structure: string(a.part.Recipe.Structure)}}
	if err := e.estimate(ctx); err != nil {
		return nil, err
	}
	return e.Estimate, nil
}

type estimator struct {
	*accumulation
	*Estimate
	kept int64 // bytes of the held-out examples of stages before
}

func (e *estimator) estimate(ctx context.Context) error {
	in := e.in
	if in.train != nil {
		sample, each, err := e.sample(ctx, in.train)
		if err != nil {
			return err
		}
		curvature := 0.0
		if sample.N > 0 {
			if curvature, err = e.addBlocks(sample); err != nil {
				return err
			}
		}
		e.add("train", in.train.Wanted(), each+curvature, 0)
	}
	var held [3]*rows.Batch
	examples := 0
	for i, s := range []*source.Set{in.val, in.ood, in.standIns} {
		if s == nil {
			continue
		}
		sample, each, err := e.sample(ctx, s)
		if err != nil {
			return err
		}
		held[i] = sample.Slice(0, min(sample.N, sampleMost))
		n := s.Wanted()
		e.kept += int64(max(0, n)) * int64(4*(in.head.Features+in.head.Logits)+16)
		e.add(s.Name, n, each, 0)
		if examples += n; n < 0 {
			examples = -1
		}
	}
	if in.train != nil && in.val != nil && e.cfg.Shard == (rows.Shard{}) {
		fixed, each, err := e.tune(ctx, held[0], held[1])
		if err != nil {
			return err
		}
		e.kept *= tuningRoom
		e.add("tuning", examples, each, fixed)
	}
	total := 0.0
	for _, s := range e.Stages {
		e.Bytes = max(e.Bytes, s.Bytes)
		if s.Seconds == nil {
			return nil
		}
		total += *s.Seconds
	}
	e.Seconds = &total
	return nil
}

// add adds a stage of so many examples, fewer than none where that is not known, of so many seconds
// each.
func (e *estimator) add(stage string, examples int, each, fixed float64) {
	s := StageEstimate{Stage: stage, Bytes: resident() + e.kept}
	if each > 0 {
		s.PerSecond = 1 / each
	}
	if examples >= 0 {
		seconds := fixed + float64(examples)*each
		s.Examples, s.Seconds = &examples, &seconds
		if fixed > 0 {
			s.PerSecond = float64(examples) / seconds
		}
	}
	e.Stages = append(e.Stages, s)
}

// sample reads the beginning of a set, and returns what it has read and how long an example takes.
func (e *estimator) sample(ctx context.Context, s *source.Set) (*rows.Batch, float64, error) {
	out, batches := &rows.Batch{}, 0
	begun, warm, cold := time.Now(), time.Time{}, 0
	_, _, err := s.Stream(ctx, e.in.head, &e.log.Notes, func(b *rows.Batch) error {
		b.Names = nil
		if out.Append(b); batches == 0 {
			warm, cold = time.Now(), b.N // the first pays for what later ones find there
		}
		if batches++; batches > sampleBatches && time.Since(warm) > sampleTime || out.N >= 8*rows.BlockSize {
			return errEnough
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return nil, 0, err
	}
	if out.N == 0 && e.cfg.Shard != (rows.Shard{}) {
		return out, 0, nil // a shard may have none
	}
	if out.N == 0 {
		return nil, 0, fmt.Errorf("%s: no examples could be read of %s", s.Name, s.Spec)
	}
	if out.N == cold {
		return out, time.Since(begun).Seconds() / float64(out.N), nil
	}
	return out, time.Since(warm).Seconds() / float64(out.N-cold), nil
}

// addBlocks adds two blocks to the sums, of what there is again and again, and returns how long an
// example of the second takes.
func (e *estimator) addBlocks(sample *rows.Batch) (each float64, err error) {
	for i := range 2 {
		block := &rows.Batch{}
		for block.N < rows.BlockSize {
			block.Append(sample.Slice(0, min(sample.N, rows.BlockSize-block.N)))
		}
		for j := range block.Positions {
			block.Positions[j] = i*rows.BlockSize + j
		}
		start := time.Now()
		if err := e.part.Sums.AddBlock(block); err != nil {
			return 0, fmt.Errorf("train: %w", err)
		}
		each = time.Since(start).Seconds() / rows.BlockSize
	}
	return each, nil
}

// tune fits temperatures to few and to more examples, and returns what both take and what an example
// adds.
func (e *estimator) tune(ctx context.Context, val, ood *rows.Batch) (fixed, each float64, err error) {
	curvature, err := e.part.Sums.Finish()
	if err != nil {
		return 0, 0, err
	}
	var seconds [2]float64
	var n [2]int
	for i, most := range []int{sampleFew, sampleMost} {
		few := func(b *rows.Batch) *rows.Batch {
			if b == nil {
				return nil
			}
			b = b.Slice(0, min(b.N, most))
			n[i] += b.N
			return b
		}
		start := time.Now()
		_, err := calibrate.Fit(ctx, curvature, few(val), few(ood), calibrate.FitOptions{
			Covariance: e.part.Recipe.Covariance, Damping: e.cfg.Damping, Lambda0: e.cfg.Lambda0,
		})
		if err != nil {
			return 0, 0, fmt.Errorf("tuning on the first held-out examples: %w", err)
		}
		seconds[i] = time.Since(start).Seconds()
	}
	if n[1] > n[0] {
		each = max(0, (seconds[1]-seconds[0])/float64(n[1]-n[0]))
	}
	return max(0, slices.Min(seconds[:])-each*float64(n[0])), each, nil
}

// resident returns the memory that the process has, as far as the system tells.
func resident() int64 {
	if text, err := os.ReadFile("/proc/self/statm"); err == nil {
		var size, pages int64
		if n, _ := fmt.Sscan(string(text), &size, &pages); n == 2 {
			return pages * int64(os.Getpagesize())
		}
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.Sys)
}
