package calibration

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/calibrate/score"
	"github.com/mfgs/mfgs/internal/source"
	"github.com/mfgs/mfgs/wrap/internal/part"
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
	Stages    []StageEstimate `json:"stages"` // train, val, ood, tuning, scores
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
// batches of each set through the network, blocks of curvature, and tuning and the choice between scores
// on some of the held-out examples, and scales that up. A features cache is not looked at. Nothing is
// written, and cfg.Out may be empty.
//
// Memory is what the process has when it has tried everything, and the held-out examples beside that.
func EstimateCalibration(ctx context.Context, cfg Config) (*Estimate, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.Settings = cfg.Complete()
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
	e := &estimator{accumulation: a, Estimate: &Estimate{Structure: string(a.part.Recipe.Structure())}}
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
	var train *rows.Batch
	if in.train != nil {
		sample, each, err := e.sample(ctx, in.train)
		if err != nil {
			return err
		}
		train = sample
		curvature := 0.0
		if sample.N > 0 {
			if curvature, err = e.addBlocks(sample); err != nil {
				return err
			}
		}
		e.add("train", in.train.Wanted(), each+curvature, 0)
	}
	var held [3]*rows.Batch
	examples, compared := 0, 0
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
		if n < 0 {
			examples, compared = -1, -1
		}
		if examples >= 0 {
			examples, compared = examples+n, compared+e.compared(n)
		}
	}
	if in.train != nil && in.val != nil && e.cfg.Shard == (rows.Shard{}) {
		tuning, scores, err := e.tune(ctx, train, held)
		if err != nil {
			return err
		}
		e.kept *= tuningRoom
		e.add("tuning", examples, tuning.each, tuning.fixed)
		if scores != (cost{}) {
			e.add("scores", compared, scores.each, scores.fixed)
		}
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

// compared returns on how many of n examples scores are compared: all, of one that is asked for.
func (e *estimator) compared(n int) int {
	if e.cfg.OODScore != "" {
		return n
	}
	return min(n, score.MostCompared)
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
	for b, err := range s.Batches(ctx, e.in.head, &e.log.Notes) {
		if err != nil {
			return nil, 0, err
		}
		b.Names = nil
		if out.Append(b); batches == 0 {
			warm, cold = time.Now(), b.N // the first pays for what later ones find there
		}
		if batches++; batches > sampleBatches && time.Since(warm) > sampleTime || out.N >= 8*rows.BlockSize {
			break
		}
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

// cost is seconds: of any number of examples, and of each.
type cost struct{ fixed, each float64 }

// tune fits temperatures to few and to more examples and has scores compared on them, and returns what
// either costs; the latter is zero where there is nothing to compare or to fit.
func (e *estimator) tune(ctx context.Context, train *rows.Batch, held [3]*rows.Batch) (tuning, scores cost, err error) {
	curvature, err := e.part.Sums.Finish()
	if err != nil {
		return tuning, scores, err
	}
	var known *score.Training
	if asked, _ := score.Find(e.cfg.OODScore); held[1] != nil || held[2] != nil || asked != nil && asked.Learns() {
		if known, err = e.training(curvature, train); err != nil {
			return tuning, scores, err
		}
	}
	var tuned, compared, n [2]float64
	for i, most := range []int{sampleFew, sampleMost} {
		few := held
		for j, b := range few {
			if b != nil {
				few[j] = b.Slice(0, min(b.N, most))
				n[i] += float64(few[j].N)
			}
		}
		start := time.Now()
		f, err := calibrate.Fit(ctx, curvature, few[0], few[1], calibrate.FitOptions{
			Covariance: e.cfg.Covariance, Damping: e.cfg.Damping, Lambda0: e.cfg.Lambda0, Score: e.cfg.OODScore,
			Training: known, Synthetic: few[2],
			Progress: func(stage string, done, _ int) {
				if stage == "scores" && done == 0 {
					compared[i] = time.Since(start).Seconds()
				}
			},
		})
		if err == nil {
			compared[i] = time.Since(start).Seconds() - compared[i]
			_, _, err = measureHeldOut(ctx, f, few[0], few[1])
		}
		if err != nil {
			return tuning, scores, fmt.Errorf("tuning on the first held-out examples: %w", err)
		}
		tuned[i] = time.Since(start).Seconds() - compared[i]
	}
	if n[1] > n[0] {
		tuning.each = max(0, (tuned[1]-tuned[0])/(n[1]-n[0]))
	}
	tuning.fixed = max(0, slices.Min(tuned[:])-tuning.each*n[0])
	if known != nil {
		scores.each = compared[1] / n[1] // what is fitted once was fitted the first time
		scores.fixed = max(0, compared[0]-scores.each*n[0])
	}
	return tuning, scores, nil
}

// training is what scores would be fitted to, of what there is again and again.
func (e *estimator) training(c *calibrate.Curvature, train *rows.Batch) (*score.Training, error) {
	size := rows.SampleSize(e.in.head.Features)
	if n := e.in.train.Wanted(); n >= 0 {
		size = min(size, n)
	}
	p := &part.Part{Sample: &rows.Sample{}}
	for at := 0; at < size; at += train.N {
		some := train.Slice(0, min(train.N, size-at))
		some.Positions = nil
		for i := range some.N {
			some.Positions = append(some.Positions, at+i)
		}
		p.Sample.Add(some)
	}
	if e.in.cut == nil {
		return training(c, p, nil)
	}
	return training(c, p, e.in.cut.Head.Weights)
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
