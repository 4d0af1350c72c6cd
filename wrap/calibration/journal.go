package calibration

import (
	"fmt"
	"time"

	"github.com/mfgs/mfgs/internal/source"
	"github.com/mfgs/mfgs/wrap"
)

// journal gathers what the report says of the way of a calibration.
type journal struct {
	source.Notes
	tell     func(string) // may be nil
	warnings []string
	seconds  map[string]float64 // by stage
	started  time.Time
	stage    string
	since    time.Time // the stage began
}

func newJournal(progress func(wrap.Progress)) *journal {
	return &journal{
		Notes: source.Notes{Progress: step(progress)}, warnings: []string{},
		seconds: map[string]float64{}, started: time.Now(),
	}
}

// step returns what hands progress on, nil where nobody asks for it.
func step(report func(wrap.Progress)) func(stage, unit string, done, total int) {
	if report == nil {
		return nil
	}
	return func(stage, unit string, done, total int) {
		report(wrap.Progress{Stage: stage, Unit: unit, Done: done, Total: total})
	}
}

// begin ends the stage before, and begins another.
func (j *journal) begin(stage string) {
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

// notice tells at once what need not be in the report.
func (j *journal) notice(format string, args ...any) {
	if j.tell != nil {
		j.tell(fmt.Sprintf(format, args...))
	}
}

func (j *journal) warn(warnings ...string) {
	for _, w := range warnings {
		if w != "" {
			j.warnings = append(j.warnings, w)
		}
	}
}
