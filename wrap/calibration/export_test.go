package calibration

import (
	"context"
	"testing"
	"time"

	"github.com/mfgs/mfgs/calibrate/conformal"
	"github.com/mfgs/mfgs/calibrate/rows"
)

// What the tests of this package reach inside.

// An ModelOutput is one of a model's own outputs for some examples.
type ModelOutput struct {
	Name    string
	Integer bool
	Values  []float32
}

// ModelOutputs returns the logits of the first training examples, and what the model itself makes
// of them.
func ModelOutputs(t testing.TB, cfg Config) (logits []float32, outputs []ModelOutput) {
	in, _ := openedSources(t, &cfg)
	logits, owns, err := modelOutputs(t.Context(), &cfg, in)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range owns {
		outputs = append(outputs, ModelOutput{o.Name, o.Integer, o.Values})
	}
	return logits, outputs
}

// HeldOutSet opens the sets of a calibration and reads the validation set.
func HeldOutSet(t testing.TB, cfg Config) (warnings []string, set *rows.Batch, n int) {
	in, log := openedSources(t, &cfg)
	a := &accumulation{cfg: &cfg, in: in, log: log}
	err := a.begin()
	if err == nil {
		set = a.part.Val
		err = a.collect(t.Context(), in.val, set)
	}
	if err != nil {
		t.Fatal(err)
	}
	return thinned(a.part), set, a.shard(in.val).Examples
}

// Accumulation returns what makes one pass over the training set.
func Accumulation(t testing.TB, cfg Config) func(context.Context) error {
	in, log := openedSources(t, &cfg)
	return func(ctx context.Context) error {
		a := &accumulation{cfg: &cfg, in: in, log: log}
		if err := a.begin(); err != nil {
			return err
		}
		return a.readTrain(ctx)
	}
}

func openedSources(t testing.TB, cfg *Config) (*sources, *journal) {
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	cfg.Settings = cfg.Complete()
	log := newJournal(cfg.Progress)
	in, err := openSources(t.Context(), cfg, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(in.close)
	return in, log
}

// CheckpointEvery sets how often checkpoints are written. It returns what sets it back.
func CheckpointEvery(d time.Duration) (back func()) {
	before := checkpointEvery
	checkpointEvery = d.String()
	return func() { checkpointEvery = before }
}

// Checkpointed reads the training set of a calibration, and returns what writes a checkpoint of it.
func Checkpointed(t testing.TB, cfg Config) (write func() error, dir string) {
	in, log := openedSources(t, &cfg)
	c, err := openCheckpoint(cfg.Out, false, true)
	a := &accumulation{cfg: &cfg, in: in, log: log, checkpoint: c}
	if err == nil {
		err = a.begin()
	}
	if err == nil {
		err = a.readTrain(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.close)
	return func() error { return c.write(a.soFar()) }, c.part()
}

// SetThresholds reports which of n held-out examples set the thresholds of decisions.
func SetThresholds(n int) []bool {
	val := &rows.Batch{N: n, Positions: make([]int, n)}
	for i := range val.Positions {
		val.Positions[i] = i
	}
	tune, held := divide(val, conformal.Plan{Alpha: 0.1})
	sets := make([]bool, n)
	for _, i := range held.Positions {
		sets[i] = true
	}
	for _, i := range tune.Positions {
		if sets[i] {
			panic("an example tunes and sets thresholds")
		}
	}
	if tune.N+held.N != n {
		panic("an example neither tunes nor sets thresholds")
	}
	return sets
}
