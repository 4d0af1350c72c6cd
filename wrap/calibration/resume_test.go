package calibration_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/calibrate/score"
	"github.com/mfgs/mfgs/models"
	. "github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/bundle"
	. "github.com/mfgs/mfgs/wrap/calibration"
)

// digitsFile is digits in a file that has not changed for long: n of them, over and over.
func digitsFile(t *testing.T, n int) string {
	t.Helper()
	dir := t.TempDir()
	labels, pixels := make([]byte, n), make([]byte, n*8*8)
	rng := rand.New(rand.NewPCG(7, uint64(n)))
	for i := range pixels {
		pixels[i] = byte(rng.Uint32())
	}
	for i := range labels {
		labels[i] = byte(rng.IntN(10))
	}
	write(t, dir, "x-labels-idx1-ubyte", idx(labels, n))
	path := write(t, dir, "x-images-idx3-ubyte", idx(pixels, n, 8, 8))
	age(t, dir)
	return path
}

// age sets the time of change of all files of a folder back by an hour.
func age(t *testing.T, dir string) {
	t.Helper()
	shift(t, dir, time.Now().Add(-time.Hour))
}

// folder is the content of the files of a folder.
func folder(t *testing.T, dir string) map[string]string {
	t.Helper()
	content := map[string]string{}
	for _, name := range list(t, dir) {
		content[name] = string(read(t, filepath.Join(dir, name)))
	}
	return content
}

// A run calibrates, or makes a part.
type run func(context.Context, Config) error

var (
	calibrates run = func(ctx context.Context, c Config) error { _, err := Calibrate(ctx, c); return err }
	shards     run = func(ctx context.Context, c Config) error {
		c.Shard = rows.Shard{Index: 2, Count: 3}
		_, err := Accumulate(ctx, c)
		return err
	}
)

// However often and wherever it is interrupted, what comes in the end is what comes of an undisturbed
// run, to the byte, and nothing else is left.
func TestAnInterruptedCalibrationContinues(t *testing.T) {
	t.Cleanup(CheckpointEvery(0)) // after the parallel cases
	data := digitsFile(t, 3500)
	base := Config{Model: "../../models/digits-mlp/" + models.DigitsModel, Train: data + "[:2000]", Val: data + "[2000:2850]", OOD: data + "[2850:]",
		Settings: bundle.Settings{OODScore: score.Default}}
	for name, test := range map[string]struct {
		run    run
		change func(*testing.T, *Config)
	}{
		"a score is selected": {calibrates, func(_ *testing.T, c *Config) { c.OODScore = "" }},
		"kron, curvature kept": {calibrates, func(_ *testing.T, c *Config) {
			c.Structure, c.KeepCurvature = calibrate.Kronecker, true
		}},
		"a limit, and a score": {calibrates, func(_ *testing.T, c *Config) {
			c.Limit, c.Runtime.Batch, c.OODScore = 1501, 150, "leverage"
		}},
		"a features cache": {calibrates, func(t *testing.T, c *Config) { c.Cache = t.TempDir() }},
		"a shard":          {shards, func(_ *testing.T, c *Config) {}},
		"bad records":      {calibrates, badRecords},
		"precomputed":      {calibrates, precomputed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := quick(base)
			test.change(t, &c)
			c.Out = filepath.Join(t.TempDir(), "b")
			if err := test.run(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			want := folder(t, c.Out)
			if c.Cache != "" {
				c.Cache = t.TempDir()
			}
			c.Out, c.Resume = filepath.Join(t.TempDir(), "b"), true
			rng := rand.New(rand.NewPCG(1, 2))
			interrupted, wentOn := 0, 0
			c.Notice = func(s string) {
				if strings.Contains(s, "resuming after") {
					wentOn++
				}
			}
			for {
				ctx, cancel := context.WithCancelCause(t.Context())
				stop, at, calls := errors.New("stop"), 1+rng.IntN(5), 0
				c.Progress = func(Progress) {
					if calls++; calls > at && interrupted < 6 {
						cancel(stop)
					}
				}
				err := test.run(ctx, c)
				cancel(nil)
				if err == nil {
					break
				}
				if interrupted++; !errors.Is(err, stop) {
					t.Fatal(err)
				}
			}
			if got := folder(t, c.Out); !maps.Equal(got, want) {
				for name := range want {
					if got[name] != want[name] {
						t.Errorf("%s is another", name)
					}
				}
			}
			if left := list(t, filepath.Dir(c.Out)); !slices.Equal(left, []string{"b"}) {
				t.Errorf("there lie %q", left)
			}
			if interrupted < 2 || wentOn < 1 {
				t.Errorf("%d interruptions, %d sets resumed", interrupted, wentOn)
			}
			var done *DoneError
			c.Progress = nil
			if err := test.run(t.Context(), c); !errors.As(err, &done) {
				t.Errorf("once more: %v", err)
			}
		})
	}
}

// badRecords takes JSON lines some of which are none.
func badRecords(t *testing.T, c *Config) {
	var lines strings.Builder
	rng := rand.New(rand.NewPCG(3, 3))
	for i := range 3000 {
		if i%601 == 5 || i == 2999 {
			lines.WriteString("no line\n")
			continue
		}
		pixels := make([]string, 64)
		for j := range pixels {
			pixels[j] = fmt.Sprint(rng.Float32())
		}
		fmt.Fprintf(&lines, `{"label":%d,"image":[[`+"%s]]}\n", rng.IntN(10), "["+strings.Join(pixels[:8], ",")+"],["+strings.Join(pixels[8:16], ",")+"],["+
			strings.Join(pixels[16:24], ",")+"],["+strings.Join(pixels[24:32], ",")+"],["+strings.Join(pixels[32:40], ",")+"],["+
			strings.Join(pixels[40:48], ",")+"],["+strings.Join(pixels[48:56], ",")+"],["+strings.Join(pixels[56:], ",")+"]")
	}
	dir := t.TempDir()
	path := write(t, dir, "x.jsonl", []byte(lines.String()))
	age(t, dir)
	c.Train, c.Val, c.OOD, c.MaxBad = path+"[:2000]", path+"[2000:]", "", 10
}

// precomputed takes features.
func precomputed(t *testing.T, c *Config) {
	n, d, k := 3000, 6, 3
	logits, dir := random(2, n*k), t.TempDir()
	file := write(t, dir, "x.npz", npz(t, map[string]array{
		"features": arrayOf(random(1, n*d), n, d), "logits": arrayOf(logits, n, k), "labels": arrayOf(sampled(logits, n), n),
	}))
	age(t, dir)
	*c = quick(Config{PrecomputedFeatures: true, Train: file + "[:1800]", Val: file + "[1800:2400]", OOD: file + "[2400:]", Settings: c.Settings})
}

// interrupted leaves a checkpoint of a calibration to a folder that it makes.
func interrupted(t *testing.T, c Config) Config {
	t.Helper()
	return interruptedAt(t, c, "val")
}

// interruptedAt interrupts at a stage.
func interruptedAt(t *testing.T, c Config, stage string) Config {
	t.Helper()
	return interruptedWhen(t, c, func(p Progress) bool { return p.Stage == stage })
}

// interruptedWhen interrupts when progress is as it is wanted.
func interruptedWhen(t *testing.T, c Config, when func(Progress) bool) Config {
	t.Helper()
	c.Out = filepath.Join(t.TempDir(), "b")
	ctx, cancel := context.WithCancel(t.Context())
	before := c.Progress
	c.Progress = func(p Progress) {
		if when(p) {
			cancel()
		}
	}
	_, err := Calibrate(ctx, c)
	var e *InterruptedError
	if !errors.As(err, &e) || e.Checkpoint != CheckpointDir(c.Out) {
		t.Fatalf("it ends with %v", err)
	}
	c.Progress = before
	return c
}

func TestACheckpointIsForTheSameCalibration(t *testing.T) {
	t.Parallel()
	data := digitsFile(t, 3000)
	base := quick(Config{Model: "../../models/digits-mlp/" + models.DigitsModel, Train: data + "[:2000]", Val: data + "[2000:]"})
	c := interrupted(t, base)
	_, err := Calibrate(t.Context(), c)
	says(t, err, "b.checkpoint", "continue with Resume", "with Force")
	for name, test := range map[string]struct {
		change func(*Config)
		words  []string
	}{
		"another SPEC":       {func(c *Config) { c.Train = data + "[:1999]" }, []string{"sets.train.", "1999"}},
		"another covariance": {func(c *Config) { c.Covariance = calibrate.Fisher }, []string{"Covariance was hessian, and is now fisher"}},
		"another limit":      {func(c *Config) { c.Limit = 7 }, []string{"Limit was 300, and is now 7"}},
		"more data":          {func(c *Config) { c.OOD = data }, []string{"sets.ood"}},
	} {
		t.Run(name, func(t *testing.T) {
			other := c
			test.change(&other)
			other.Resume = true
			_, err := Calibrate(t.Context(), other)
			says(t, err, append(test.words, "b.checkpoint", "belongs to another calibration", "with Force")...)
			if strings.Contains(err.Error(), "Resume") {
				t.Errorf("resuming is refused and advised: %v", err)
			}
		})
	}
	if left := list(t, filepath.Dir(c.Out)); !slices.Equal(left, []string{"b.checkpoint"}) {
		t.Fatalf("there lie %q", left)
	}
	// More bad records may be allowed, and another one may start again.
	again := c
	again.Resume, again.MaxBad = true, 3
	if _, err := Calibrate(t.Context(), again); err != nil {
		t.Error(err)
	}
	other := interrupted(t, base)
	other.Covariance, other.Force = calibrate.Fisher, true
	if _, err := Calibrate(t.Context(), other); err != nil {
		t.Error(err)
	}
	if left := list(t, filepath.Dir(other.Out)); !slices.Equal(left, []string{"b"}) {
		t.Errorf("there lie %q", left)
	}
}

// Data that have changed are read again, and so are those that may have.
func TestChangedDataAreReadAgain(t *testing.T) {
	t.Parallel()
	data := digitsFile(t, 3000)
	base := quick(Config{Model: "../../models/digits-mlp/" + models.DigitsModel, Train: data + "[:2000]", Val: data + "[2000:]"})
	for name, changes := range map[string]bool{"their content": true, "their time only": false} {
		t.Run(name, func(t *testing.T) {
			c := interrupted(t, base)
			pixels := read(t, data)
			if changes {
				pixels[len(pixels)-3000*32] ^= 0x55
			}
			write(t, filepath.Dir(data), filepath.Base(data), pixels)
			var notices []string
			c.Resume, c.Notice = true, func(s string) { notices = append(notices, s) }
			if _, err := Calibrate(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			if again := strings.Contains(strings.Join(notices, "\n"), "train: the data may have changed"); again != changes {
				t.Errorf("it says %q", notices)
			}
			want := base
			want.Out = filepath.Join(t.TempDir(), "b")
			if _, err := Calibrate(t.Context(), want); err != nil {
				t.Fatal(err)
			}
			if !maps.Equal(folder(t, c.Out), folder(t, want.Out)) {
				t.Error("another bundle")
			}
		})
	}
}

// A clock that is set back, or forward, changes nothing in what comes: the times of files then lie in the future,
// or are older than they were, and data that may have changed are read again.
func TestAClockThatJumps(t *testing.T) {
	t.Parallel()
	const hour = time.Hour
	now := time.Now()
	for name, test := range map[string]struct {
		before, data, kept time.Duration // times of the data when it is interrupted, and of all when it goes on
		changes, goesOn    bool
	}{
		"nothing jumps":                          {-hour, -hour, 0, false, true},
		"the checkpoint is of the future":        {-hour, -hour, 48 * hour, false, true},
		"the checkpoint is of long ago":          {-hour, -hour, -1000 * hour, false, true},
		"the data are of the future":             {hour, hour, 0, false, false},
		"the data are older, and the same":       {-hour, -2 * hour, 0, false, false},
		"the data are older, and others":         {-hour, -2 * hour, 0, true, false},
		"the data are of the future, and others": {-hour, 2 * hour, 0, true, false},
		"they were of the future before as well": {hour, 2 * hour, 0, true, false},
	} {
		for _, cached := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", cache ", cached), func(t *testing.T) {
				t.Parallel()
				data := digitsFile(t, 3000)
				c := quick(Config{Model: "../../models/digits-mlp/" + models.DigitsModel, Train: data + "[:2000]", Val: data + "[2000:]"})
				if cached {
					c.Cache = t.TempDir()
				}
				shift(t, filepath.Dir(data), now.Add(test.before))
				// In the midst of the training data: nothing of them but their stamp is known yet.
				c.Runtime.Batch, c.Limit = 100, 0
				c = interruptedWhen(t, c, func(p Progress) bool { return p.Stage == "train" && p.Done >= 1000 })
				if test.changes {
					pixels := read(t, data)
					pixels[20] ^= 0x55
					write(t, filepath.Dir(data), filepath.Base(data), pixels)
				}
				shift(t, filepath.Dir(data), now.Add(test.data))
				shift(t, filepath.Join(CheckpointDir(c.Out), "part"), now.Add(test.kept))
				if cached {
					shift(t, c.Cache, now.Add(test.kept))
				}
				var notices []string
				c.Resume, c.Notice = true, func(s string) { notices = append(notices, s) }
				mustCalibrate(t, c)
				if said := strings.Join(notices, "\n"); strings.Contains(said, "resuming after") != test.goesOn ||
					strings.Contains(said, "may have changed") == test.goesOn {
					t.Errorf("it says %q", notices)
				}
				want := c
				want.Resume, want.Cache, want.Out = false, "", filepath.Join(t.TempDir(), "b")
				mustCalibrate(t, want)
				if !maps.Equal(folder(t, c.Out), folder(t, want.Out)) {
					t.Error("another bundle")
				}
			})
		}
	}
}

// shift sets the time of change of all files of a folder.
func shift(t *testing.T, dir string, at time.Time) {
	t.Helper()
	for _, name := range list(t, dir) {
		if err := os.Chtimes(filepath.Join(dir, name), at, at); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTheResultOfAnotherCalibrationIsNotAccepted(t *testing.T) {
	t.Parallel()
	data := digitsFile(t, 3000)
	c := quick(Config{Model: "../../models/digits-mlp/" + models.DigitsModel, Train: data + "[:2000]", Val: data + "[2000:]",
		Out: filepath.Join(t.TempDir(), "b"), Resume: true})
	mustCalibrate(t, c)
	for name, test := range map[string]struct {
		change func(*Config)
		words  []string
	}{
		"another SPEC":       {func(c *Config) { c.Train = data + "[:1999]" }, []string{"train.", "1999"}},
		"another covariance": {func(c *Config) { c.Covariance = calibrate.Fisher }, []string{"its Covariance is hessian, want fisher"}},
		"without its model":  {func(c *Config) { c.NoModel = true }, []string{"its NoModel is false, want true"}},
		"other data": {func(*Config) {
			pixels := read(t, data)
			pixels[100] ^= 1
			write(t, filepath.Dir(data), filepath.Base(data), pixels)
		}, []string{"train fingerprint"}},
	} {
		other := c
		test.change(&other)
		_, err := Calibrate(t.Context(), other)
		says(t, err, append(test.words, "b is not the result of this calibration", "use Force")...)
		if name == "other data" {
			continue
		}
		if _, err := os.Stat(CheckpointDir(c.Out)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: a checkpoint is there, %v", name, err)
		}
	}
	c.Force = true
	mustCalibrate(t, c)
}

func TestTwoProcessesDoNotCalibrateToOneFolder(t *testing.T) {
	defer CheckpointEvery(0)()
	c := quick(config(t, filepath.Join(t.TempDir(), "b")))
	second := c
	tried := false
	c.Progress = func(p Progress) {
		if p.Stage != "val" || tried {
			return
		}
		tried = true
		for _, resume := range []bool{false, true} {
			second.Resume = resume
			_, err := Calibrate(t.Context(), second)
			says(t, err, "b: another process is writing it")
		}
	}
	mustCalibrate(t, c)
	if left := list(t, filepath.Dir(c.Out)); !tried || !slices.Equal(left, []string{"b"}) {
		t.Errorf("there lie %q", left)
	}
}

// What lies at the checkpoint's place, or in it, is refused at once where it cannot be used.
func TestACheckpointIsAFolder(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		make func(path string) error
		want string
	}{
		"a dangling link":    {func(p string) error { return os.Symlink(filepath.Join(p, "none"), p) }, "is not a folder"},
		"a file":             {func(p string) error { return os.WriteFile(p, nil, 0o666) }, "is not a folder"},
		"a dangling lock":    {lockedBy("none"), "not a regular file but a link"},
		"a lock that is one": {lockedBy("."), "not a regular file but a link"},
	} {
		out := filepath.Join(t.TempDir(), "b")
		if err := test.make(CheckpointDir(out)); err != nil {
			t.Fatal(err)
		}
		_, err := Calibrate(t.Context(), quick(config(t, out)))
		says(t, err, "b.checkpoint", test.want)
		if name == "a dangling link" {
			says(t, err, "another Out")
		}
	}
}

// lockedBy makes a checkpoint whose lock is a link.
func lockedBy(target string) func(string) error {
	return func(path string) error {
		return errors.Join(os.Mkdir(path, 0o777), os.Symlink(target, filepath.Join(path, "lock")))
	}
}

// A bundle that was merged is the result of the calibration that was cut into shards.
func TestAMergedBundleIsTheResult(t *testing.T) {
	t.Parallel()
	file := classified(t, 4000, 6, 4)
	c := Config{PrecomputedFeatures: true, Train: file + "[:2500]", Val: file + "[2500:]"}
	c.Out, c.Resume = merged(t, parts(t, c, 3)...), true
	var done *DoneError
	if _, err := Calibrate(t.Context(), c); !errors.As(err, &done) {
		t.Errorf("it ends with %v", err)
	}
	write(t, filepath.Dir(file), filepath.Base(file), npz(t, map[string]array{
		"features": arrayOf(random(8, 4000*6), 4000, 6), "logits": arrayOf(random(9, 4000*4), 4000, 4),
		"labels": arrayOf(make([]int64, 4000), 4000),
	}))
	_, err := Calibrate(t.Context(), c)
	says(t, err, "its train fingerprint is", "from other data")
}

// An update is not lost by what a message advises.
func TestAnUpdatedBundleIsNotReplaced(t *testing.T) {
	t.Parallel()
	file := classified(t, 4000, 6, 4)
	c := Config{PrecomputedFeatures: true, Train: file + "[:1024]", Val: file + "[3000:]", KeepCurvature: true,
		Out: filepath.Join(t.TempDir(), "b")}
	mustCalibrate(t, c)
	if _, err := Update(t.Context(), UpdateConfig{Bundle: c.Out, Train: file + "[1024:2048]"}); err != nil {
		t.Fatal(err)
	}
	updated := folder(t, c.Out)
	c.Resume = true
	for _, train := range []string{c.Train, file + "[1024:2048]"} {
		c.Train = train
		_, err := Calibrate(t.Context(), c)
		says(t, err, "b was updated with more training data", "[1024:2048]", "another Out")
		if strings.Contains(err.Error(), "Force") {
			t.Errorf("it says %v", err)
		}
		if !maps.Equal(folder(t, c.Out), updated) {
			t.Error("it was replaced")
		}
	}
	c.Force = true
	mustCalibrate(t, c)
	if maps.Equal(folder(t, c.Out), updated) {
		t.Error("it stays in spite of Force")
	}
}

// Of two processes that began before either had a checkpoint, the slower one has nothing to do.
func TestTheSlowerOfTwoProcessesHasNothingToDo(t *testing.T) {
	t.Parallel()
	for name, run := range map[string]run{"a bundle": calibrates, "a part": shards} {
		for same, change := range map[bool]func(*Config){
			true: func(*Config) {}, false: func(c *Config) { c.Lambda0 = 0.5 },
		} {
			c := quick(config(t, filepath.Join(t.TempDir(), "b")))
			c.Resume = true
			first, tried := c, false
			change(&first)
			c.Progress = func(p Progress) {
				if p.Stage != "val" || tried {
					return
				}
				tried = true
				if err := run(t.Context(), first); err != nil {
					t.Error(err)
				}
			}
			err := run(t.Context(), c)
			var done *DoneError
			if !tried || same != errors.As(err, &done) {
				t.Errorf("%s, the same %v: it ends with %v", name, same, err)
			}
			if !same {
				says(t, err, "is not the result of this calibration", "lambda0 is 0.5")
			}
			if left := list(t, filepath.Dir(c.Out)); !slices.Equal(left, []string{"b"}) {
				t.Errorf("%s: there lie %q", name, left)
			}
		}
	}
}

// A file of others in a checkpoint fails nothing, and is not lost.
func TestACheckpointWithAForeignFileIsLeft(t *testing.T) {
	t.Parallel()
	data := digitsFile(t, 3000)
	base := quick(Config{Model: "../../models/digits-mlp/" + models.DigitsModel, Train: data + "[:2000]", Val: data + "[2000:]"})
	for name, path := range map[string]string{"its part": "part/foreign", "itself": "foreign"} {
		c := interrupted(t, base)
		write(t, filepath.Dir(filepath.Join(CheckpointDir(c.Out), path)), "foreign", []byte("mine"))
		var notices []string
		c.Resume, c.Notice = true, func(s string) { notices = append(notices, s) }
		mustCalibrate(t, c)
		if said := strings.Join(notices, "\n"); !strings.Contains(said, "b.checkpoint could not be removed") {
			t.Errorf("%s: it says %q", name, said)
		}
		if got := read(t, filepath.Join(CheckpointDir(c.Out), path)); string(got) != "mine" {
			t.Errorf("%s: it holds %q", name, got)
		}
		var done *DoneError
		if _, err := Calibrate(t.Context(), c); !errors.As(err, &done) || strings.Contains(err.Error(), "foreign") {
			t.Errorf("%s: once more: %v", name, err)
		}
	}
}

// If no checkpoint can be written, there is one notice, and the calibration continues.
func TestACalibrationContinuesWithoutCheckpoints(t *testing.T) {
	defer CheckpointEvery(0)()
	data := digitsFile(t, 3000)
	c := quick(Config{Model: "../../models/digits-mlp/" + models.DigitsModel, Train: data + "[:2000]", Val: data + "[2000:]"})
	c.Limit, c.Runtime.Batch, c.Out = 0, 100, filepath.Join(t.TempDir(), "b")
	if err := os.MkdirAll(filepath.Join(CheckpointDir(c.Out), "part"), 0o777); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(CheckpointDir(c.Out), "part"), "foreign", []byte("mine"))
	said := 0
	c.Resume, c.Notice = true, func(s string) {
		if strings.HasSuffix(s, "continuing without it") {
			said++
			if !strings.Contains(s, CheckpointDir(c.Out)+" cannot be written: ") || !strings.Contains(s, "foreign") {
				t.Errorf("it says %q", s)
			}
		}
	}
	mustCalibrate(t, c)
	if said != 1 {
		t.Errorf("it is reported %d times, want once", said)
	}
}

// A part without the model is not the one with it.
func TestAPartWithoutItsModelIsAnother(t *testing.T) {
	t.Parallel()
	c := quick(config(t, filepath.Join(t.TempDir(), "b")))
	c.Resume, c.NoModel = true, true
	for index, want := range map[int]string{1: "its NoModel is true, want false", 2: "nothing to do"} {
		c.Shard, c.NoModel = rows.Shard{Index: index, Count: 2}, true
		c.Out = filepath.Join(t.TempDir(), "p")
		if _, err := Accumulate(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		c.NoModel = false
		_, err := Accumulate(t.Context(), c)
		says(t, err, want)
	}
}

// What fails before all was taken over from a checkpoint leaves it as it is.
func TestACheckpointKeepsWhatWasNotTakenOver(t *testing.T) {
	t.Parallel()
	data, held := digitsFile(t, 2000), digitsFile(t, 3000)
	c := interruptedAt(t, quick(Config{Model: "../../models/digits-mlp/" + models.DigitsModel, Train: data,
		Val: held + "[:1000]", OOD: held + "[1000:]"}), "ood")
	write(t, filepath.Dir(held), filepath.Base(held), read(t, held)) // its fingerprint is asked for, then
	before := folder(t, filepath.Join(CheckpointDir(c.Out), "part"))
	ctx, cancel := context.WithCancel(t.Context())
	c.Resume, c.Notice = true, func(string) { cancel() }
	_, err := Calibrate(ctx, c)
	if e := (*InterruptedError)(nil); !errors.As(err, &e) {
		t.Fatalf("it ends with %v", err)
	}
	if !maps.Equal(folder(t, filepath.Join(CheckpointDir(c.Out), "part")), before) {
		t.Error("the checkpoint is another")
	}
	var notices []string
	c.Notice = func(s string) { notices = append(notices, s) }
	mustCalibrate(t, c)
	if said := strings.Join(notices, "\n"); !strings.Contains(said, "val: resuming after 1000 examples") {
		t.Errorf("it says %q", said)
	}
}
