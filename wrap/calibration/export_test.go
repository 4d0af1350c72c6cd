package calibration

import (
	"context"
	"testing"
	"time"

	"github.com/mfgs/mfgs/calibrate/conformal"
	"github.com/mfgs/mfgs/calibrate/rows"
)

// What tests of the package's door reach inside.

// A ModelOutput is one of a model's own outputs for some examples.
type ModelOutput struct {
	Name    string
	Integer bool
	Values  []float32
}

// ModelOutputs returns the logits of the first training examples, and the model's own outputs for them.
func ModelOutputs(t testing.TB, cfg Config) (logits []float32, outputs []ModelOutput) {
	in, _ := openedSources(t, &cfg)
	logits, own, err := modelOutputs(t.Context(), &cfg, in)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range own {
		outputs = append(outputs, ModelOutput{o.Name, o.Integer, o.Values})
	}
	return logits, outputs
}

// ValidationSet opens the sets of a calibration and reads the validation set.
func ValidationSet(t testing.TB, cfg Config) (warnings []string, set *rows.Batch, n int) {
	in, log := openedSources(t, &cfg)
	a := &accumulation{cfg: &cfg, in: in, log: log}
	err := a.begin()
	if err == nil {
		set = a.part.Val
		err = a.collect(t.Context(), in.val)
	}
	if err != nil {
		t.Fatal(err)
	}
	return subsampled(a.part), set, a.shard(in.val).Examples
}

// Accumulation returns a function that makes one pass over the training set.
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
	log := newJournal(cfg.Progress, cfg.Notice)
	in, err := openSources(t.Context(), cfg, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(in.close)
	return in, log
}

// CheckpointEvery sets how often checkpoints are written, until back is called.
func CheckpointEvery(d time.Duration) (back func()) {
	before := checkpointEvery
	checkpointEvery = d.String()
	return func() { checkpointEvery = before }
}

// Checkpointed reads the training set of a calibration, and returns a function that writes a checkpoint of it.
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

// SetThresholds reports which of n validation examples set the thresholds of decisions.
func SetThresholds(n int) []bool {
	val := &rows.Batch{N: n, Positions: make([]int, n)}
	for i := range val.Positions {
		val.Positions[i] = i
	}
	tuning, thresholds := split(val, conformal.Plan{Alpha: 0.1})
	sets := make([]bool, n)
	for _, i := range thresholds.Positions {
		sets[i] = true
	}
	for _, i := range tuning.Positions {
		if sets[i] {
			panic("an example tunes and sets thresholds")
		}
	}
	if tuning.N+thresholds.N != n {
		panic("an example neither tunes nor sets thresholds")
	}
	return sets
}
