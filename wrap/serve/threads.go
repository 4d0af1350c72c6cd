package serve

import (
	"context"
	"runtime"
	"time"

	"github.com/mfgs/mfgs/wrap"
)

// A bundle whose network answers an example in less than smallNetwork with all processors is tried with one
// of them. If the answer comes no later than worthWaiting after the other, one thread it is: as many
// inferences run at a time as there are processors, none of which waits for another to end its part of an
// operation. A ResNet-20 answers 1.2 times as many requests by two threads apart as by two together.
const (
	smallNetwork = 5 * time.Millisecond
	worthWaiting = 250 * time.Microsecond
	latencyRoom  = 30 * time.Millisecond
)

// openThreaded opens the bundle with the threads that serve it best, unless a number is given, and returns
// how many there are, which is no more than the processors.
func (m *model) openThreaded(ctx context.Context) (p *wrap.Predictor, threads int, err error) {
	processors := runtime.GOMAXPROCS(0)
	options := wrap.Options{Model: m.Model, Runtime: m.config.Runtime, FreeMemory: true}
	options.Warn = func(message string) {
		m.config.Log.Warn("bundle opened at a cost", "model", m.Name, "bundle", m.Dir, "reason", message)
	}
	if p, err = wrap.Open(ctx, m.Dir, options); err != nil {
		return nil, 0, err
	}
	if n := options.Threads; n > 0 {
		return p, min(n, processors), nil
	}
	together, err := p.Latency(ctx, latencyRoom)
	if err != nil || together > smallNetwork || processors == 1 || !options.OnCPU() {
		return p, processors, nil // what is wrong with the bundle, its probe tells
	}
	options.Threads, options.Warn = 1, nil
	narrow, err := wrap.Open(ctx, m.Dir, options)
	if err != nil {
		return p, processors, nil
	}
	if alone, err := narrow.Latency(ctx, latencyRoom); err != nil || alone > together+worthWaiting {
		narrow.Close()
		return p, processors, nil
	}
	p.Close()
	return narrow, 1, nil
}
