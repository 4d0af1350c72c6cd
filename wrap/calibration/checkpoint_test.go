package calibration

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/mfgs/mfgs/wrap/internal/part"
)

// Checkpoints are due after a time on the monotonic clock, so that a system clock that is set back delays none;
// those that take long are due less often.
func TestCheckpointsAreDueByTheMonotonicClock(t *testing.T) {
	t.Parallel()
	c, err := openCheckpoint(filepath.Join(t.TempDir(), "b"), false, false)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	monotonic := func(when string) {
		t.Helper()
		if c.last == c.last.Round(0) { // which strips the monotonic reading
			t.Errorf("%s the time of the last checkpoint is that of the system clock", when)
		}
	}
	monotonic("at first")
	if err := c.write(&part.Part{}); err == nil || c.cost <= 0 {
		t.Errorf("an empty part was written: %v, in %v", err, c.cost)
	}
	monotonic("after writing")
	for _, test := range []struct {
		since, cost time.Duration
		want        bool
	}{
		{59 * time.Second, 0, false},
		{61 * time.Second, 0, true},
		{61 * time.Second, checkpointCost / 2, true},
		{90 * time.Second, 2 * checkpointCost, false},
		{121 * time.Second, 2 * checkpointCost, true},
	} {
		c.every, c.last, c.cost = time.Minute, time.Now().Add(-test.since), test.cost
		if got := c.due(); got != test.want {
			t.Errorf("after %v, where one takes %v: due %t", test.since, test.cost, got)
		}
	}
	if (*checkpoint)(nil).due() {
		t.Error("one that keeps nothing is due")
	}
}
