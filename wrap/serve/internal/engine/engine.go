package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/mfgs/mfgs/onnx/tensor"
)

// A Runner runs a model on a batch. The first axis of every input and output counts examples, and the
// outputs of an example do not depend on the others.
//
// It does not change the inputs, keep them after it returns, or return outputs that share their
// memory, which is reused. The outputs belong to the callers of Do. It returns soon after ctx has
// ended.
type Runner func(ctx context.Context, inputs []tensor.Tensor) ([]tensor.Tensor, error)

// Config says how an Engine runs a model.
type Config struct {
	// Run runs the model. As many calls of it run at once as there are slots.
	Run Runner
	// MaxBatch is the most examples in a batch, 32 if it is 0. A larger request runs alone.
	MaxBatch int
	// MaxQueue is the most examples that wait, 1024 if it is 0. An empty queue takes one request
	// of any size: the caller bounds the size of requests.
	MaxQueue int
	// MaxQueueBytes is the most memory of waiting inputs, 256 MiB if it is 0; else as MaxQueue.
	MaxQueueBytes int64
	// Delay is the longest that requests wait for others to join them; see the package documentation.
	// Nothing waits if it is 0.
	Delay time.Duration
	// Slots are shared with other engines; nil is one slot for this engine alone.
	Slots *Slots
	// Width is the number of slots that one inference takes, 1 if it is 0; all of them if an inference
	// keeps all processors busy.
	Width int
}

// An Answer is the result of one request.
type Answer struct {
	// Outputs are the request's rows of the batch's outputs, in the Runner's order. They share the
	// batch's memory and keep all of it alive; they are read-only.
	Outputs []tensor.Tensor
	// Queue is the time from the call of Do until the inference that gave the answer began, and
	// Compute the time that it took.
	Queue, Compute time.Duration
	// Batch is the number of examples in that inference, the request's own included.
	Batch int
}

// ErrClosed is the error of requests to a closed engine, and of those that [Engine.Close] gave up.
var ErrClosed = errors.New("the model is being unloaded")

// An OverloadError refuses a request for which the queue has no room.
type OverloadError struct {
	// RetryAfter estimates when the queue will be empty, from the speed of the last batches; it is a
	// second until one has ended. It is at least the time since the last batch began, so that a stuck
	// one does not count as fast.
	RetryAfter time.Duration
	reason     string
}

func (e *OverloadError) Error() string {
	return fmt.Sprintf("the model is overloaded: %s; try again in %v", e.reason, e.RetryAfter.Round(time.Millisecond))
}

// An Engine batches the requests for one model. It is safe for concurrent use.
type Engine struct {
	config Config
	ctx    context.Context // of inferences
	abort  context.CancelCauseFunc

	mu       sync.Mutex
	queue    queue
	inLine   bool          // waits for slots
	running  int           // batches
	examples int           // in running batches
	parts    int           // number of parts of failed batches so far
	closing  bool          // new requests are refused
	closed   bool          // and nothing is queued or running
	drained  chan struct{} // closed when closed is set
	window   batchWindow
	speed    speed
}

// New returns an engine. It holds no resources while it has no request. New panics without a Runner, for
// negative limits, and if Width exceeds the number of slots.
func New(c Config) *Engine {
	if c.Run == nil {
		panic("engine: no Runner")
	}
	if c.MaxBatch < 0 || c.MaxQueue < 0 || c.MaxQueueBytes < 0 || c.Delay < 0 || c.Width < 0 {
		panic("engine: a negative limit")
	}
	if c.MaxBatch == 0 {
		c.MaxBatch = 32
	}
	if c.MaxQueue == 0 {
		c.MaxQueue = 1024
	}
	if c.MaxQueueBytes == 0 {
		c.MaxQueueBytes = 256 << 20
	}
	if c.Slots == nil {
		c.Slots = NewSlots(1)
	}
	if c.Width == 0 {
		c.Width = 1
	}
	if c.Width > c.Slots.count {
		panic("engine: an inference takes more slots than there are")
	}
	e := &Engine{config: c, drained: make(chan struct{})}
	e.ctx, e.abort = context.WithCancelCause(context.Background())
	return e
}

// Do runs the model on one request, alone or together with others. Each input has the request's
// examples along its first axis, at least one. When Do returns, nothing reads the inputs any more.
//
// Do fails at once for invalid inputs, with an *OverloadError or [ErrClosed], and later with a
// *PanicError or the error of the Runner for this request alone. When ctx ends, the error is
// context.Cause(ctx): at once or, if the request is running alone, when the Runner has returned.
func (e *Engine) Do(ctx context.Context, inputs []tensor.Tensor) (Answer, error) {
	r, err := newRequest(ctx, inputs)
	if err != nil {
		return Answer{}, err
	}
	if ctx.Err() != nil {
		return Answer{}, context.Cause(ctx)
	}
	if err := e.admit(r); err != nil {
		return Answer{}, err
	}
	select {
	case <-r.done:
	case <-ctx.Done():
		if e.leave(r) {
			return Answer{}, context.Cause(ctx)
		}
		if <-r.done; r.err != nil {
			return Answer{}, context.Cause(ctx)
		}
	}
	if r.err != nil {
		return Answer{}, r.err
	}
	return r.batch.answer(r), nil
}

// Full returns the *OverloadError with which a request of one example would be refused now, or nil.
func (e *Engine) Full() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if q := &e.queue; q.requests > 0 && q.examples >= e.config.MaxQueue {
		return e.overload("examples", int64(q.examples), 1, int64(e.config.MaxQueue), time.Now())
	}
	return nil
}

// Depth returns the numbers of waiting requests and of their examples.
func (e *Engine) Depth() (requests, examples int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.queue.requests, e.queue.examples
}

// Close refuses new requests and returns when all others have been answered. If ctx ends before that,
// the inference is cancelled, the requests fail with ErrClosed, and Close returns context.Cause(ctx)
// when the Runner has returned. It may be called again, and concurrently.
func (e *Engine) Close(ctx context.Context) error {
	e.mu.Lock()
	e.closing = true
	e.proceed(time.Now())
	e.mu.Unlock()
	select {
	case <-e.drained:
		return nil
	case <-ctx.Done():
	}
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return nil
	}
	e.abort(ErrClosed)
	for r := e.queue.head; r != nil; r = e.queue.head {
		e.queue.remove(r, answered)
		r.err = ErrClosed
		close(r.done)
	}
	e.proceed(time.Now())
	e.mu.Unlock()
	<-e.drained
	return context.Cause(ctx)
}

// admit puts a request into the queue.
func (e *Engine) admit(r *request) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	r.since = time.Now()
	if e.closing {
		return ErrClosed
	}
	if q := &e.queue; q.requests > 0 {
		if q.examples+r.rows > e.config.MaxQueue {
			return e.overload("examples", int64(q.examples), int64(r.rows), int64(e.config.MaxQueue), r.since)
		}
		if q.bytes+r.bytes > e.config.MaxQueueBytes {
			return e.overload("bytes", q.bytes, r.bytes, e.config.MaxQueueBytes, r.since)
		}
	}
	e.queue.append(r)
	e.proceed(r.since)
	return nil
}

func (e *Engine) overload(what string, wait, more, most int64, now time.Time) error {
	reason := fmt.Sprintf("%d %s wait, and %d more are beyond %d", wait, what, more, most)
	begun := e.speed.last
	if begun.IsZero() {
		begun = e.queue.head.since
	}
	return &OverloadError{max(e.speed.left(e.queue.examples), now.Sub(begun)), reason}
}

// proceed is called after every change: it queues for slots, or starts the timer of a wait, or reports
// that a closing engine is empty. e.mu is held.
func (e *Engine) proceed(now time.Time) {
	q := &e.queue
	if q.requests == 0 {
		e.speed.full = false
		if e.closing && e.running == 0 && !e.closed {
			e.closed = true
			close(e.drained)
			e.window.stop()
			e.abort(ErrClosed) // releases the context
		}
		return
	}
	if e.inLine {
		return
	}
	if !e.wait(now) {
		e.inLine = true
		e.config.Slots.enter(e)
	}
}

// wait reports whether the queued requests wait for more.
func (e *Engine) wait(now time.Time) bool {
	q := &e.queue
	may := q.requests > 0 && !e.closing && q.head.part == 0 && q.head.layout == e.window.layout &&
		q.examples < e.config.MaxBatch
	return may && e.window.wait(q.requests, now, e.overdue)
}

// overdue is called by the timer when requests have waited long enough.
func (e *Engine) overdue() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.window.armed = false
	e.proceed(time.Now())
}

// leave removes a request whose context has ended. It returns false if the request has been answered or
// will be soon: a request that runs alone reads the caller's memory until the Runner returns.
func (e *Engine) leave(r *request) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch r.state {
	case queued:
		e.queue.remove(r, left)
		e.proceed(time.Now())
	case running:
		b := r.batch
		if len(b.requests) == 1 {
			b.cancel()
			return false
		}
		r.state = left
		if b.waiting--; b.waiting == 0 {
			b.cancel()
		}
		e.mu.Unlock()
		<-b.copied
		e.mu.Lock()
	}
	return r.state != answered
}

// form takes the next batch from the queue: the first request, and those behind it that can join it, up
// to the first that does not fit. It returns nil if there is none, or if requests wait for more.
func (e *Engine) form() *batch {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	e.inLine = false
	if e.wait(now) { // a batch may have ended since the engine queued for slots
		return nil
	}
	b := &batch{}
	b.requests = b.one[:0]
	// With several slots, a batch is an even share of what is queued and running.
	places := e.running + 1 + e.config.Slots.unused(e.config.Width)
	share := min(e.config.MaxBatch, (e.queue.examples+e.examples+places-1)/places)
	var next *request
	for r := e.queue.head; r != nil; r = next {
		next = r.next
		if r.ctx.Err() != nil {
			e.queue.remove(r, left)
			continue
		}
		if b.rows > 0 {
			head := b.requests[0]
			if r.part != head.part || !r.joins(head) {
				continue
			}
			if b.rows+r.rows > share {
				break
			}
		}
		e.queue.remove(r, running)
		r.batch, r.first = b, b.rows
		b.requests = append(b.requests, r)
		b.rows += r.rows
	}
	e.window.stop()
	if b.rows > 0 {
		b.waiting = len(b.requests)
		if len(b.requests) > 1 {
			b.copied = make(chan struct{})
		}
		b.ctx, b.cancel = context.WithCancel(e.ctx)
		e.running++
		e.examples += b.rows
		e.speed.began(b.rows, e.queue.requests > 0, now)
	}
	e.proceed(now)
	if b.rows == 0 {
		return nil
	}
	return b
}

// run runs a batch and answers its requests.
func (e *Engine) run(b *batch) {
	defer b.cancel()
	inputs := b.requests[0].inputs
	var memory buffers
	if len(b.requests) > 1 {
		inputs, memory = b.gather(e.config.Slots)
		close(b.copied)
	}
	b.start = time.Now()
	outputs, err := e.config.Run.call(b.ctx, inputs)
	end := time.Now()
	b.took = end.Sub(b.start)
	if memory != nil {
		e.config.Slots.keep(memory)
	}
	if b.outputs = outputs; err == nil {
		err = b.check()
	}
	for _, r := range e.finish(b, err, end) {
		close(r.done)
	}
}

// finish returns the requests that are answered, and puts those of a failed batch back into the queue.
func (e *Engine) finish(b *batch, err error, now time.Time) (done []*request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.running--
	e.examples -= b.rows
	waiting := b.requests
	if b.waiting < len(waiting) {
		waiting = slices.DeleteFunc(slices.Clone(waiting), func(r *request) bool { return r.state == left })
	}
	again := err != nil && len(b.requests) > 1 && e.ctx.Err() == nil
	switch {
	case again:
		e.retry(waiting)
	default:
		if err != nil && e.ctx.Err() != nil {
			err = ErrClosed
		}
		for _, r := range waiting {
			r.state, r.err = answered, err
		}
		done = waiting
		if err == nil {
			e.speed.ended(b.rows, b.took)
		}
		e.window.expect(len(waiting), e.queue.requests, b.requests[0].layout, now, min(e.config.Delay, b.took/4))
	}
	e.proceed(now)
	return done
}

// retry puts the halves of a batch that has failed at the head of the queue.
func (e *Engine) retry(failed []*request) {
	head := e.queue.head
	half := (len(failed) + 1) / 2
	for i, r := range failed {
		if i == 0 || i == half {
			e.parts++
		}
		r.part, r.batch = e.parts, nil
		e.queue.insert(r, head)
	}
}
