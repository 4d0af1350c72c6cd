package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/mfgs/mfgs/internal/text"
	"github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/calibration"
	"github.com/urfave/cli/v2"
)

// dryRun estimates the time and memory of a calibration.
func (p *program) dryRun(c *cli.Context, bar *progress, config calibration.Config) error {
	config.Progress = func(r wrap.Progress) { bar.work(wrap.Progress{Stage: "trying " + r.Stage}) } // of parts of the data
	estimate, err := calibration.EstimateCalibration(c.Context, config)
	bar.done()
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return writeJSON(p.stdout, estimate)
	}
	return writeEstimate(p.stdout, estimate)
}

// writeEstimate writes the estimate of each stage as a table.
func writeEstimate(w io.Writer, e *calibration.Estimate) error {
	t := table{align: "lrrrr"}
	t.row("stage", "examples", "per second", "time", "memory")
	for _, s := range e.Stages {
		examples := "unknown"
		if s.Examples != nil {
			examples = text.Count(*s.Examples)
		}
		t.row(strings.ReplaceAll(s.Stage, "_", " "), examples, text.Count(int(s.PerSecond)), about(s.Seconds),
			megabytes(s.Bytes))
	}
	t.row("all", "", "", about(e.Seconds), megabytes(e.Bytes))
	var b strings.Builder
	if err := t.write(&b); err != nil {
		return err
	}
	with := ""
	if e.Structure != "" {
		with = fmt.Sprintf(", with the %s structure", e.Structure)
	}
	fmt.Fprintf(&b, "\n%s", wrapText("", fmt.Sprintf("Times are estimated from a short trial of each stage%s. Nothing was written.", with)))
	_, err := io.WriteString(w, b.String())
	return err
}

// about writes an estimated time.
func about(seconds *float64) string {
	if seconds == nil {
		return "unknown"
	}
	d := time.Duration(*seconds * float64(time.Second))
	switch {
	case d == 0:
		return "0s"
	case d < 50*time.Millisecond:
		return "<0.1s"
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", *seconds)
	case d < time.Hour:
		d = d.Round(time.Second)
	default:
		d = d.Round(time.Minute)
	}
	words := d.String() // as 1h0m0s
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(words, zero) {
			words = words[:len(words)-2]
		}
	}
	return words
}

func megabytes(n int64) string { return text.Count(int(n>>20)) + " MiB" }
