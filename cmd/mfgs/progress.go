package main

import (
	"io"
	"os"
	"sync"
	"time"

	"github.com/mfgs/mfgs/featurize/ort"
	"github.com/mfgs/mfgs/wrap"
	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// isTerminal reports whether somebody looks at what is written to w.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb"
}

// A progress shows how far the work is, with rate and remaining time, on a
// terminal; elsewhere it keeps quiet. Stages follow one another, and the bar of
// a finished one is wiped, so that what remains on the screen is the result.
type progress struct {
	w    io.Writer
	mute bool

	mu    sync.Mutex
	stage string
	max   int64
	bar   *progressbar.ProgressBar // nil between stages
}

// progress returns a progress on standard error.
func (p *program) progress() *progress {
	return &progress{w: p.stderr, mute: !isTerminal(p.stderr)}
}

// work shows the stages of calibration and evaluation.
func (p *progress) work(r wrap.Progress) {
	p.show(r.Stage, int64(r.Done), int64(r.Total), progressbar.OptionShowIts(), progressbar.OptionSetItsString(r.Unit))
}

// install shows the installation of ONNX Runtime.
func (p *progress) install(r ort.Progress) {
	p.show(r.Stage, r.Done, r.Total, progressbar.OptionShowBytes(true))
}

// show moves the bar of a stage to done of total; a total of 0 is not known.
func (p *progress) show(stage string, done, total int64, options ...progressbar.Option) {
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
		p.stage, p.max = stage, total
	}
	if total > 0 && done >= total {
		p.wipe()
		return
	}
	if p.bar == nil {
		options = append(options,
			progressbar.OptionSetWriter(p.w),
			progressbar.OptionSetDescription(stage),
			progressbar.OptionShowCount(),
			progressbar.OptionSetPredictTime(true),
			progressbar.OptionUseANSICodes(true),
			progressbar.OptionClearOnFinish(),
			progressbar.OptionThrottle(100*time.Millisecond),
			progressbar.OptionSetSpinnerChangeInterval(0), // or it draws from a goroutine that nobody ends
			progressbar.OptionSetTheme(progressbar.Theme{Saucer: "=", SaucerHead: ">", SaucerPadding: " ", BarStart: "[", BarEnd: "]"}),
		)
		p.bar = progressbar.NewOptions64(total, options...)
	}
	// A bar that cannot be drawn is no reason to stop working.
	_ = p.bar.Set64(done)
}

// done wipes the bar; the terminal is free for other output.
func (p *progress) done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wipe()
}

func (p *progress) wipe() {
	if p.bar != nil {
		_ = p.bar.Clear()
		_ = p.bar.Exit()
		p.bar = nil
	}
}
