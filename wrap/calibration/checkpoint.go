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

// checkpointEvery is how often a checkpoint is written, at most; tests link another value.
var checkpointEvery = "1m"

// checkpointCost is what a checkpoint may take, 1 % of checkpointEvery. One that takes longer is
// written less often.
const checkpointCost = 600 * time.Millisecond

// A checkpoint is what a calibration has read so far, in the folder OUT.checkpoint beside its
// output: a lock, which its process holds, and the part that is read, see [part.OpenCheckpoint]. The
// part is replaced as a whole, and so is there however the process ends. nil keeps nothing.
type checkpoint struct {
	dir   string
	lock  *files.Growing // nil while there is no folder
	every time.Duration
	last  time.Time     // the last was written, or the first could have been
	cost  time.Duration // of the last
	kept  bool          // there is one

	failing bool // the last could not be written
}

const (
	lockName  = "lock"
	takeTries = 100 // to take a folder that others remove meanwhile
)

// CheckpointDir returns the folder in which a calibration to a folder keeps what it has read.
func CheckpointDir(out string) string { return filepath.Clean(out) + ".checkpoint" }

func (c *checkpoint) part() string { return filepath.Join(c.dir, "part") }

// openCheckpoint opens the checkpoint of an output. One that is there stays with resume, is removed
// with force, and is refused otherwise. One that another process has is always refused.
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
		err = option.Errorf("%s: a calibration to it was interrupted, and %s holds what it had read: "+
			"go on with %s, or start anew with %s", out, c.dir, option.Resume, option.Force)
	default:
		err = c.discard()
	}
	if err != nil {
		c.lock.Close()
		return nil, err
	}
	return c, nil
}

// take makes the folder this process's, which it is until the lock is closed.
func (c *checkpoint) take() (err error) {
	for try := 0; c.lock == nil; try++ {
		if err := os.Mkdir(c.dir, files.FolderMode); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		if s, err := os.Lstat(c.dir); err == nil && !s.IsDir() {
			if s, err := os.Stat(c.dir); err != nil || !s.IsDir() {
				return option.Errorf("%s is no folder, and checkpoints go there: remove it, or choose another %s", c.dir, option.Out)
			}
		}
		c.lock, err = files.Grow(filepath.Join(c.dir, lockName))
		if errors.Is(err, files.ErrInUse) {
			return option.Errorf("another process calibrates to it: wait for it, or choose another %s (%w)", option.Out, err)
		}
		// The process that had the folder may have removed it in between.
		if err != nil && (try == takeTries || !errors.Is(err, fs.ErrNotExist)) {
			return err
		}
	}
	files.Sweep(c.dir)
	return nil
}

// discard removes what was read before.
func (c *checkpoint) discard() error {
	c.kept = false
	return part.Discard(c.part())
}

// due reports whether it is time to save again.
func (c *checkpoint) due() bool {
	return c != nil && float64(time.Since(c.last)) >= float64(c.every)*max(1, c.cost.Seconds()/checkpointCost.Seconds())
}

// write writes what was read so far.
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

// remove takes the folder away.
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
		return nil // it is the next process's already
	}
	return err
}

// close lets other processes have the folder.
func (c *checkpoint) close() {
	if c.lock != nil {
		c.lock.Close()
	}
}

// An InterruptedError says that a calibration ended early, and where what it has read is kept.
type InterruptedError struct {
	Checkpoint string
	Err        error
}

func (e *InterruptedError) Error() string { return e.Unwrap().Error() }

// Unwrap returns an error of the same message, which names the options and wraps e.Err.
func (e *InterruptedError) Unwrap() error {
	format, args := "%w (%s holds what was read: go on with %s", []any{e.Err, e.Checkpoint, option.Resume}
	if short := (*conformal.InsufficientDataError)(nil); errors.As(e.Err, &short) {
		if shown := short.Nearest(); shown != 0 {
			format, args = format+" %s %v", append(args, option.Name(short.Flag), shown)
		} else {
			format, args = format+" and without %s", append(args, option.Name(short.Flag))
		}
	}
	return option.Errorf(format+")", args...)
}
