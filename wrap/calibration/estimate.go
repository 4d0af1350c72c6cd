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
	// A set is timed for at least sampleTime and sampleBatches.
	sampleTime    = time.Second
	sampleBatches = 3
	// Tuning is timed with sampleFew and with sampleMost examples of each set.
	sampleFew, sampleMost = 64, 512
	// tuningMemory is the memory of an example during tuning, as a multiple of its features and logits: measured for
	// docs/evidence/cost.md.
	tuningMemory = 4
)

// Estimate is the expected cost of a calibration, by stage.
type Estimate struct {
	Structure string          `json:"structure"`
	Stages    []StageEstimate `json:"stages"` // train, val, ood, tuning, scores
	// Seconds is the sum over the stages, null if one is unknown. Bytes is the peak memory.
	Seconds *float64 `json:"seconds"`
	Bytes   int64    `json:"bytes"`
}

// StageEstimate is the expected cost of a stage.
type StageEstimate struct {
	Stage     string   `json:"stage"`
	Examples  *int     `json:"examples"` // null for standard input, whose length is unknown
	PerSecond float64  `json:"examples_per_second"`
	Seconds   *float64 `json:"seconds"`
	Bytes     int64    `json:"bytes"` // of the process
}

// EstimateCalibration estimates the cost of Calibrate or Accumulate. It opens everything, times some
// batches of each set through the network, two blocks of curvature, and tuning and the choice of a score
// on some of the examples, and extrapolates. It does not use a features cache. It writes nothing,
// and cfg.Out may be empty.
//
// Memory is that of the process after all this, plus the validation and OOD examples.
func EstimateCalibration(ctx context.Context, cfg Config) (*Estimate, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.complete()
	cfg.Cache = ""
	log := newJournal(cfg.Progress, cfg.Notice)
	in, err := openSources(ctx, &cfg, log)
	if err != nil {
		return nil, err
	}
	defer in.close()
	a := &accumulation{cfg: &cfg, in: in, log: log}
	if err := a.begin(); err != nil {
		return nil, err
	}
	e := &estimator{accumulation: a, Estimate: &Estimate{}}
	if in.external == nil {
		e.Structure = string(a.part.Recipe.Structure())
	}
	if err := e.estimate(ctx); err != nil {
		return nil, err
	}
	return e.Estimate, nil
}

type estimator struct {
	*accumulation
	*Estimate
	kept int64 // bytes of the examples kept by earlier stages
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
	var tuning [3]*rows.Batch // val, ood, synthetic
	examples, compared := 0, 0
	for i, s := range []*source.Set{in.val, in.ood, in.synthetic} {
		if s == nil {
			continue
		}
		sample, each, err := e.sample(ctx, s)
		if err != nil {
			return err
		}
		tuning[i] = sample.Slice(0, min(sample.N, sampleMost))
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
	if (in.train != nil || e.cfg.untrained()) && in.val != nil && e.cfg.Shard == (rows.Shard{}) {
		fit, scores, err := e.tune(ctx, train, tuning)
		if err != nil {
			return err
		}
		e.kept *= tuningMemory
		e.add("tuning", examples, fit.each, fit.fixed)
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

// compared returns on how many of n examples scores are compared. A configured score is measured on all.
func (e *estimator) compared(n int) int {
	if e.cfg.OODScore != "" {
		return n
	}
	return min(n, score.MostCompared)
}

// add adds a stage with the seconds per example and fixed ones. examples is negative if unknown.
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

// sample reads the beginning of a set, and returns it with the seconds per example.
func (e *estimator) sample(ctx context.Context, s *source.Set) (*rows.Batch, float64, error) {
	out, batches := &rows.Batch{}, 0
	begun, warm, cold := time.Now(), time.Time{}, 0
	for b, err := range s.Batches(ctx) {
		if err != nil {
			return nil, 0, err
		}
		b.Names = nil
		if out.Append(b); batches == 0 {
			warm, cold = time.Now(), b.N // the first batch warms up
		}
		if batches++; batches > sampleBatches && time.Since(warm) > sampleTime || out.N >= 8*rows.BlockSize {
			break
		}
	}
	if out.N == 0 && e.cfg.Shard != (rows.Shard{}) {
		return out, 0, nil // a shard may be empty
	}
	if out.N == 0 {
		return nil, 0, fmt.Errorf("%s: no examples could be read of %s", s.Name, s.Spec)
	}
	if out.N == cold {
		return out, time.Since(begun).Seconds() / float64(out.N), nil
	}
	return out, time.Since(warm).Seconds() / float64(out.N-cold), nil
}

// addBlocks adds two blocks to the sums, made by repeating the sample, and returns the seconds per
// example of the second.
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

// cost is in seconds: a fixed one, and one per example.
type cost struct{ fixed, each float64 }

// tune fits temperatures and compares scores on sampleFew and on sampleMost examples, and returns the cost of
// either. That of scores is zero if none are compared or fitted.
func (e *estimator) tune(ctx context.Context, train *rows.Batch, sets [3]*rows.Batch) (tuning, scores cost, err error) {
	var curvature *calibrate.Curvature
	if e.part.Sums != nil {
		if curvature, err = e.part.Sums.Finish(); err != nil {
			return tuning, scores, err
		}
	}
	var known *score.Training
	if curvature != nil && needsTraining(&e.cfg.Settings, e.in.head, sets[1], sets[2]) {
		if known, err = e.training(curvature, train); err != nil {
			return tuning, scores, err
		}
	}
	var tuned, compared, n [2]float64
	for i, most := range []int{sampleFew, sampleMost} {
		few := sets
		for j, b := range few {
			if b != nil {
				few[j] = b.Slice(0, min(b.N, most))
				n[i] += float64(few[j].N)
			}
		}
		start := time.Now()
		o := fitOptions(&e.cfg.Settings, few[2])
		o.Training = known
		o.Progress = func(stage string, done, _ int) {
			if stage == "scores" && done == 0 {
				compared[i] = time.Since(start).Seconds()
			}
		}
		f, err := fitHead(ctx, e.in.head, curvature, e.in.external, few[0], few[1], o)
		if err == nil {
			compared[i] = time.Since(start).Seconds() - compared[i]
			_, _, err = measureValidation(ctx, f, &f.Calibration, few[0], few[1], newJournal(nil, nil))
		}
		if err != nil {
			return tuning, scores, fmt.Errorf("tuning on the first validation examples: %w", err)
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

// training returns training data for scores, made by repeating the sample.
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

// resident returns the resident memory of the process, or Go's own figure if /proc is missing.
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
