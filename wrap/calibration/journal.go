package calibration

import (
	"fmt"
	"io"
	"time"

	"github.com/mfgs/mfgs/internal/source"
	"github.com/mfgs/mfgs/wrap"
)

// journal collects warnings and timings for the report, and passes on progress and notices.
type journal struct {
	source.Notes
	notify   func(string) // may be nil
	warnings []string
	seconds  map[string]float64 // by stage
	started  time.Time
	stage    string
	since    time.Time // start of the stage
}

// newJournal starts a journal. Both functions may be nil.
func newJournal(progress func(wrap.Progress), notify func(string)) *journal {
	j := &journal{notify: notify, warnings: []string{}, seconds: map[string]float64{}, started: time.Now()}
	j.Warn = func(w string) { j.notice("%s", w) } // not in the report, nor in the bundle: it concerns this run
	if progress != nil {
		j.Progress = func(stage, unit string, done, total int) {
			progress(wrap.Progress{Stage: stage, Unit: unit, Done: done, Total: total})
		}
	}
	return j
}

// silentStages are the names of stages that report no further progress, or not at once.
var silentStages = map[string]string{
	"open": "opening", "fingerprint": "fingerprint", "read": "reading", "tuning": "tuning", "write": "writing",
}

// begin ends the current stage and begins another.
func (j *journal) begin(stage string) {
	if name := silentStages[stage]; name != "" {
		j.Step(name, "", 0, 0)
	}
	now := time.Now()
	if j.stage != "" {
		j.seconds[j.stage] += now.Sub(j.since).Seconds()
	}
	j.stage, j.since = stage, now
}

// end ends the last stage and returns the seconds of each, and of all.
func (j *journal) end() map[string]float64 {
	j.begin("")
	j.seconds["total"] = time.Since(j.started).Seconds()
	return j.seconds
}

// copying returns write with progress. It writes a number of bytes, 0 if that is unknown.
func (j *journal) copying(write func(io.Writer) error, size int64) func(io.Writer) error {
	return func(w io.Writer) error {
		return write(&counted{w: w, step: func(n int) { j.Step("writing", "bytes", n, int(size)) }})
	}
}

// counted counts what is written.
type counted struct {
	w    io.Writer
	n    int
	step func(n int)
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += n
	c.step(c.n)
	return n, err
}

// notice passes on at once what the report need not repeat.
func (j *journal) notice(format string, args ...any) {
	if j.notify != nil {
		j.notify(fmt.Sprintf(format, args...))
	}
}

// warn adds warnings to the report; "" is none.
func (j *journal) warn(warnings ...string) {
	for _, w := range warnings {
		if w != "" {
			j.warnings = append(j.warnings, w)
		}
	}
}
