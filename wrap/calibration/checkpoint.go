package calibration

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/mfgs/mfgs/calibrate/conformal"
	"github.com/mfgs/mfgs/internal/files"
	"github.com/mfgs/mfgs/internal/option"
	"github.com/mfgs/mfgs/wrap/internal/part"
)

// checkpointEvery is the least time between checkpoints; tests set another with -ldflags.
var checkpointEvery = "1m"

// checkpointCost is how long writing a checkpoint may take, 1 % of checkpointEvery. If it takes longer,
// checkpoints are written less often.
const checkpointCost = 600 * time.Millisecond

// A checkpoint is the folder OUT.checkpoint beside an output. It has a lock, held by the process, and a part with
// what was read so far, see [part.OpenCheckpoint]. The part is replaced atomically, so that it survives however
// the process ends. A nil checkpoint saves nothing.
type checkpoint struct {
	dir   string
	lock  *files.Growing // nil until the folder exists
	every time.Duration
	last  time.Time     // when the last one was written, or reading began
	cost  time.Duration // of writing the last one
	kept  bool          // one has been written

	failing bool // the last one could not be written
}

const (
	lockName  = "lock"
	takeTries = 100 // attempts to lock a folder that other processes remove meanwhile
)

// CheckpointDir returns the folder in which a calibration to the folder out keeps what it has read.
func CheckpointDir(out string) string { return filepath.Clean(out) + ".checkpoint" }

func (c *checkpoint) part() string { return filepath.Join(c.dir, "part") }

// openCheckpoint opens the checkpoint of an output. An existing one is kept with resume, removed
// with force, and refused otherwise. One that another process holds is always refused.
func openCheckpoint(out string, resume, force bool) (*checkpoint, error) {
	every, err := time.ParseDuration(checkpointEvery)
	if err != nil {
		return nil, err
	}
	c := &checkpoint{dir: CheckpointDir(out), every: every, last: time.Now()}
	if _, err := os.Lstat(c.dir); errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err := c.take(); err != nil {
		return nil, fmt.Errorf("%s: %w", out, err)
	}
	if _, err := os.Lstat(c.part()); err == nil {
		c.kept = true
	}
	switch {
	case !c.kept || resume:
	case !force:
		err = fmt.Errorf("%s: a calibration was interrupted, and %s has the data read so far: "+
			"continue with %s, or start again with %s", out, c.dir, option.Resume, option.Force)
	default:
		err = c.discard()
	}
	if err != nil {
		c.lock.Close()
		return nil, err
	}
	return c, nil
}

// take locks the folder for this process, and makes it if needed.
func (c *checkpoint) take() (err error) {
	for try := 0; c.lock == nil; try++ {
		if err := os.Mkdir(c.dir, files.FolderMode); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		if s, err := os.Lstat(c.dir); err == nil && !s.IsDir() {
			if s, err := os.Stat(c.dir); err != nil || !s.IsDir() {
				return fmt.Errorf("%s is not a folder, and checkpoints are written there: remove it, or choose another %s", c.dir, option.Out)
			}
		}
		c.lock, err = files.Grow(filepath.Join(c.dir, lockName))
		if errors.Is(err, files.ErrInUse) {
			return fmt.Errorf("another process is writing it: wait, or choose another %s (%w)", option.Out, err)
		}
		// The process that held the folder may have removed it in between.
		if err != nil && (try == takeTries || !errors.Is(err, fs.ErrNotExist)) {
			return err
		}
	}
	files.Sweep(c.dir)
	return nil
}

// discard removes what an earlier process read.
func (c *checkpoint) discard() error {
	c.kept = false
	return part.Discard(c.part())
}

// due reports whether it is time for the next checkpoint.
func (c *checkpoint) due() bool {
	return c != nil && float64(time.Since(c.last)) >= float64(c.every)*max(1, c.cost.Seconds()/checkpointCost.Seconds())
}

// write replaces the checkpoint.
func (c *checkpoint) write(p *part.Part) error {
	start := time.Now()
	err := c.take()
	if err == nil {
		err = part.Write(c.part(), p, part.WriteOptions{Force: true})
	}
	c.last = time.Now()
	c.cost = c.last.Sub(start)
	if err != nil {
		return fmt.Errorf("%s cannot be written: %w", c.dir, err)
	}
	c.kept = true
	return nil
}

// remove removes the folder.
func (c *checkpoint) remove() error {
	if c.lock == nil {
		return nil
	}
	if err := c.discard(); err != nil {
		return err
	}
	if err := c.lock.Remove(); err != nil {
		return err
	}
	err := os.Remove(c.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if _, e := os.Lstat(filepath.Join(c.dir, lockName)); e == nil {
		return nil // another process has taken it
	}
	return err
}

// close unlocks the folder.
func (c *checkpoint) close() {
	if c.lock != nil {
		c.lock.Close()
	}
}

// An InterruptedError says that a calibration ended early, and where the data that it has read are kept.
type InterruptedError struct {
	Checkpoint string
	Err        error
}

func (e *InterruptedError) Error() string {
	instead := ""
	if short := (*conformal.InsufficientDataError)(nil); errors.As(e.Err, &short) {
		instead = fmt.Sprintf(" and without %s", option.Name(short.Option))
		if shown := short.Nearest(); shown != 0 {
			instead = fmt.Sprintf(" %s %v", option.Name(short.Option), shown)
		}
	}
	return fmt.Sprintf("%v (%s has the data read so far: continue with %s%s)", e.Err, e.Checkpoint, option.Resume, instead)
}

func (e *InterruptedError) Unwrap() error { return e.Err }
