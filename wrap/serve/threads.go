package serve

import (
	"context"
	"runtime"
	"time"

	"github.com/mfgs/mfgs/wrap"
)

// A network that takes less than smallNetwork for an example on all processors is also timed on one. If that is at
// most worthWaiting slower, inferences use one thread each, and as many run at a time as there are processors: none
// waits for another thread to finish its part of an operation. A ResNet-20 answers 1.2 times as many requests with
// two inferences of one thread as with one of two.
const (
	smallNetwork = 5 * time.Millisecond
	worthWaiting = 250 * time.Microsecond
	latencyTime  = 30 * time.Millisecond // of a measurement
)

// openThreaded opens the bundle with the configured number of threads or, if that is 0, with the better of one and all.
// It returns that number, at most the number of processors.
func (m *model) openThreaded(ctx context.Context) (p *wrap.Predictor, threads int, err error) {
	processors := runtime.GOMAXPROCS(0)
	options := wrap.Options{Model: m.Model, Runtime: m.config.Runtime, FreeMemory: true}
	options.Warn = func(message string) {
		m.config.Log.Warn("bundle needs extra resources", "model", m.Name, "bundle", m.Dir, "reason", message)
	}
	if p, err = wrap.Open(ctx, m.Dir, options); err != nil {
		return nil, 0, err
	}
	if n := options.Runtime.Threads; n > 0 {
		return p, min(n, processors), nil
	}
	together, err := p.Latency(ctx, latencyTime)
	if err != nil || together > smallNetwork || processors == 1 || !options.Runtime.OnCPU() {
		return p, processors, nil // the probe will report an error of the bundle
	}
	options.Runtime.Threads, options.Warn = 1, nil
	narrow, err := wrap.Open(ctx, m.Dir, options)
	if err != nil {
		return p, processors, nil
	}
	if alone, err := narrow.Latency(ctx, latencyTime); err != nil || alone > together+worthWaiting {
		narrow.Close()
		return p, processors, nil
	}
	p.Close()
	return narrow, 1, nil
}
