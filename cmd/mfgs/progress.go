package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mfgs/mfgs/internal/text"
	"github.com/mfgs/mfgs/wrap"
	"github.com/schollz/progressbar/v3"
)

// A progress shows progress with rate and remaining time: as a bar on a terminal, else as a plain line now and
// then. The bar of a finished stage is wiped, so that only the result stays on the screen.
type progress struct {
	w     io.Writer
	mute  bool
	plain bool             // w is no terminal
	now   func() time.Time // replaced by tests

	mu      sync.Mutex
	stage   string
	unit    string // "" in a stage of which only the name is known
	count   int64
	max     int64
	options []progressbar.Option
	bar     *progressbar.ProgressBar // nil between stages
	beats   chan struct{}            // closed to stop beat; nil if it is stopped

	begun, stageBegun time.Time
	stageFrom         int64     // done when the stage began, as after a resume
	next              time.Time // time of the next plain line
}

// firstLine is the time before the first plain line, and the shortest between two; the longest is lineEvery.
const (
	firstLine = 10 * time.Second
	lineEvery = time.Minute
)

// progress returns a progress on standard error.
func (p *program) progress() *progress {
	return newProgress(p.stderr, !isTerminal(p.stderr), time.Now)
}

func newProgress(w io.Writer, plain bool, now func() time.Time) *progress {
	begun := now()
	return &progress{w: w, plain: plain, now: now, begun: begun, next: begun.Add(firstLine)}
}

// work shows a stage of a calibration or an evaluation.
func (p *progress) work(r wrap.Progress) {
	if r.Unit == "bytes" {
		p.install(r.Stage, int64(r.Done), int64(r.Total))
		return
	}
	var options []progressbar.Option
	if r.Unit != "" {
		options = []progressbar.Option{progressbar.OptionShowIts(), progressbar.OptionSetItsString(r.Unit)}
	}
	p.show(r.Stage, r.Unit, int64(r.Done), int64(r.Total), options...)
}

// install shows the installation of ONNX Runtime, or other work on bytes.
func (p *progress) install(stage string, done, total int64) {
	p.show(stage, "bytes", done, total, progressbar.OptionShowBytes(true))
}

// show sets the bar of a stage to done of total; 0 is an unknown total.
func (p *progress) show(stage, unit string, done, total int64, options ...progressbar.Option) {
	if p.mute {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if total <= 0 {
		total = -1
	}
	if p.stage != stage || p.max != total {
		p.wipe()
		p.stage, p.max, p.stageBegun, p.stageFrom = stage, total, p.now(), done
	}
	p.unit, p.count, p.options = unit, done, options
	if p.beats == nil {
		p.beats = make(chan struct{})
		go p.beat(p.beats)
	}
	switch {
	case p.plain:
		p.line()
	case total > 0 && done >= total:
		p.wipe()
	case unit != "":
		p.draw()
	}
}

// beat shows progress every second, since a long step reports none itself, until stop is closed. Other stages than
// those without a unit are shown at once.
func (p *progress) beat(stop chan struct{}) {
	ticks := time.NewTicker(time.Second)
	defer ticks.Stop()
	for {
		select {
		case <-stop:
			return
		case <-ticks.C:
		}
		p.mu.Lock()
		switch {
		case p.beats != stop:
		case p.plain:
			p.line()
		case p.bar != nil || p.unit == "":
			p.draw()
		}
		p.mu.Unlock()
	}
}

// draw draws the bar.
func (p *progress) draw() {
	if p.bar == nil {
		options := append(slices.Clone(p.options),
			progressbar.OptionSetWriter(p.w),
			progressbar.OptionSetDescription(p.stage),
			progressbar.OptionSetPredictTime(true),
			progressbar.OptionUseANSICodes(true),
			progressbar.OptionClearOnFinish(),
			progressbar.OptionThrottle(100*time.Millisecond),
			progressbar.OptionSetSpinnerChangeInterval(0), // else it starts a goroutine that never ends
			progressbar.OptionSetTheme(progressbar.Theme{Saucer: "=", SaucerHead: ">", SaucerPadding: " ",
				BarStart: "[", BarEnd: "]"}),
		)
		if p.unit != "" {
			options = append(options, progressbar.OptionShowCount())
		}
		p.bar = progressbar.NewOptions64(p.max, options...)
	}
	// Ignore errors: progress must not stop the work.
	if p.unit == "" {
		_ = p.bar.RenderBlank()
		return
	}
	_ = p.bar.Set64(p.count)
}

// line writes a plain line if one is due. They become rarer the longer the run.
func (p *progress) line() {
	now, done := p.now(), p.count
	if now.Before(p.next) {
		return
	}
	p.next = now.Add(min(max(now.Sub(p.begun), firstLine), lineEvery))
	line := "mfgs: progress: " + p.stage
	if p.unit != "" {
		line += ": " + text.Count(int(done))
	}
	if p.max > 0 {
		line += fmt.Sprintf(" of %s", text.Count(int(p.max)))
	}
	line = strings.TrimRight(line+" "+p.unit, " ")
	if p.max > 0 {
		line += fmt.Sprintf(" (%d%%)", 100*done/p.max)
	}
	if p.max > done && done > p.stageFrom {
		left := now.Sub(p.stageBegun).Seconds() * float64(p.max-done) / float64(done-p.stageFrom)
		line += fmt.Sprintf(", about %v left", time.Duration(math.Ceil(left))*time.Second)
	}
	// Ignore errors: progress must not stop the work.
	_, _ = io.WriteString(p.w, oneLine(line)+"\n")
}

// say writes a line above the bar.
func (p *progress) say(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wipe()
	fmt.Fprintln(p.w, "mfgs:", oneLine(line))
}

// done wipes the bar, for other output.
func (p *progress) done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wipe()
	if p.beats != nil {
		close(p.beats)
		p.beats = nil
	}
}

func (p *progress) wipe() {
	if p.bar != nil {
		_ = p.bar.Clear()
		_ = p.bar.Exit()
		p.bar = nil
	}
}
