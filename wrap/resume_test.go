package wrap_test

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
	"github.com/mfgs/mfgs/models"
	. "github.com/mfgs/mfgs/wrap"
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

// age sets the time of change of all files of a folder back.
func age(t *testing.T, dir string) {
	t.Helper()
	ago := time.Now().Add(-time.Hour)
	for _, name := range list(t, dir) {
		if err := os.Chtimes(filepath.Join(dir, name), ago, ago); err != nil {
			t.Fatal(err)
		}
	}
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
func TestAnInterruptedCalibrationGoesOn(t *testing.T) {
	defer CheckpointEvery(0)()
	data := digitsFile(t, 7000)
	base := Config{Model: "../models/digits-mlp/" + models.DigitsModel, Train: data + "[:4000]", Val: data + "[4000:5700]", OOD: data + "[5700:]"}
	for name, test := range map[string]struct {
		run    run
		change func(*testing.T, *Config)
	}{
		"full": {calibrates, func(_ *testing.T, c *Config) {}},
		"kron, curvature kept": {calibrates, func(_ *testing.T, c *Config) {
			c.Structure, c.KeepCurvature = calibrate.Kronecker, true
		}},
		"a limit":          {calibrates, func(_ *testing.T, c *Config) { c.Limit, c.Batch = 3001, 100 }},
		"a features cache": {calibrates, func(t *testing.T, c *Config) { c.Cache = t.TempDir() }},
		"a shard":          {shards, func(_ *testing.T, c *Config) {}},
		"bad records":      {calibrates, badRecords},
		"ready made":       {calibrates, readyMade},
	} {
		t.Run(name, func(t *testing.T) {
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
				if strings.Contains(s, "going on behind") {
					wentOn++
				}
			}
			for {
				ctx, cancel := context.WithCancelCause(t.Context())
				stop, at, calls := errors.New("stop"), 1+rng.IntN(5), 0
				c.Progress = func(Progress) {
					if calls++; calls > at && interrupted < 12 {
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
				t.Errorf("%d interruptions, %d sets gone on with", interrupted, wentOn)
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

// readyMade takes features.
func readyMade(t *testing.T, c *Config) {
	n, d, k := 3000, 6, 3
	logits, dir := random(2, n*k), t.TempDir()
	file := write(t, dir, "x.npz", npz(t, map[string]array{
		"features": {random(1, n*d), []int{n, d}}, "logits": {logits, []int{n, k}}, "labels": {sampled(logits, n), []int{n}},
	}))
	age(t, dir)
	*c = quick(Config{ReadyMade: true, Train: file + "[:1800]", Val: file + "[1800:2400]", OOD: file + "[2400:]"})
}

// interrupted leaves a checkpoint of a calibration to a folder that it makes.
func interrupted(t *testing.T, c Config) Config {
	t.Helper()
	c.Out = filepath.Join(t.TempDir(), "b")
	ctx, cancel := context.WithCancel(t.Context())
	before := c.Progress
	c.Progress = func(p Progress) {
		if p.Stage == "val" {
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
	data := digitsFile(t, 3000)
	base := quick(Config{Model: "../models/digits-mlp/" + models.DigitsModel, Train: data + "[:2000]", Val: data + "[2000:]"})
	c := interrupted(t, base)
	_, err := Calibrate(t.Context(), c)
	says(t, err, "b.checkpoint", "--resume", "--force")
	for name, test := range map[string]struct {
		change func(*Config)
		words  []string
	}{
		"another SPEC":       {func(c *Config) { c.Train = data + "[:1999]" }, []string{"sets.train.", "1999"}},
		"another covariance": {func(c *Config) { c.Covariance = calibrate.Fisher }, []string{"recipe.covariance", "hessian", "fisher"}},
		"another limit":      {func(c *Config) { c.Limit = 7 }, []string{"recipe.limit", "0", "7"}},
		"more data":          {func(c *Config) { c.OOD = data }, []string{"sets.ood"}},
	} {
		t.Run(name, func(t *testing.T) {
			other := c
			test.change(&other)
			other.Resume = true
			_, err := Calibrate(t.Context(), other)
			says(t, err, append(test.words, "b.checkpoint", "is of another calibration", "--force")...)
		})
	}
	if left := list(t, filepath.Dir(c.Out)); !slices.Equal(left, []string{"b.checkpoint"}) {
		t.Fatalf("there lie %q", left)
	}
	// More bad records may be allowed, and another one may start anew.
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

// Data that have changed are read anew, and so are those of which nothing tells.
func TestChangedDataAreReadAnew(t *testing.T) {
	data := digitsFile(t, 3000)
	base := quick(Config{Model: "../models/digits-mlp/" + models.DigitsModel, Train: data + "[:2000]", Val: data + "[2000:]"})
	for name, changes := range map[string]bool{"their content": true, "their time only": false} {
		t.Run(name, func(t *testing.T) {
			c := interrupted(t, base)
			pixels := read(t, data)
			if changes {
				pixels[len(pixels)-3000*32] ^= 0x55
			}
			write(t, filepath.Dir(data), filepath.Base(data), pixels)
			var told []string
			c.Resume, c.Notice = true, func(s string) { told = append(told, s) }
			if _, err := Calibrate(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			if anew := strings.Contains(strings.Join(told, "\n"), "train: whether"); anew != changes {
				t.Errorf("it says %q", told)
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

func TestAnotherResultIsNotTakenForOurs(t *testing.T) {
	data := digitsFile(t, 3000)
	c := quick(Config{Model: "../models/digits-mlp/" + models.DigitsModel, Train: data + "[:2000]", Val: data + "[2000:]",
		Out: filepath.Join(t.TempDir(), "b"), Resume: true})
	mustCalibrate(t, c)
	for name, test := range map[string]struct {
		change func(*Config)
		words  []string
	}{
		"another SPEC":       {func(c *Config) { c.Train = data + "[:1999]" }, []string{"train.", "1999"}},
		"another covariance": {func(c *Config) { c.Covariance = calibrate.Fisher }, []string{"covariance is hessian, want fisher"}},
		"without its model":  {func(c *Config) { c.NoModel = true }, []string{"kept model is true, want false"}},
		"other data": {func(*Config) {
			pixels := read(t, data)
			pixels[100] ^= 1
			write(t, filepath.Dir(data), filepath.Base(data), pixels)
		}, []string{"train fingerprint"}},
	} {
		other := c
		test.change(&other)
		_, err := Calibrate(t.Context(), other)
		says(t, err, append(test.words, "b is not the result of this calibration", "--force")...)
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
			says(t, err, "b: another process calibrates to it")
		}
	}
	mustCalibrate(t, c)
	if left := list(t, filepath.Dir(c.Out)); !tried || !slices.Equal(left, []string{"b"}) {
		t.Errorf("there lie %q", left)
	}
}
