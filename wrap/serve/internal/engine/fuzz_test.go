package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mfgs/mfgs/onnx/tensor"
)

// FuzzEngine has requests of many kinds come, leave and fail, and engines close, in an order that
// the fuzzer chooses and on a clock that does not run by itself. A simple oracle knows what each
// request may be answered: its own rows, once, or an error that there was reason for.
func FuzzEngine(f *testing.F) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 15))
		program := make([]byte, 8+rng.IntN(300))
		for i := range program {
			program[i] = byte(rng.Uint32())
		}
		f.Add(program)
	}
	f.Fuzz(func(t *testing.T, program []byte) {
		if len(program) < 8 || len(program) > 1000 {
			return
		}
		synctest.Test(t, func(t *testing.T) { newWorld(t, program[:8]).play(program[8:]) })
	})
}

const (
	good     = iota
	wrong    // the model refuses it
	panicky  // the model panics
	allKinds // how many there are
)

// A sent is a request, and all that the oracle knows of it. Its rows have its number and its kind
// in front.
type sent struct {
	engine, rows, width, kind int
	ctx                       context.Context

	ran int // inferences that gave outputs
}

// A world is some engines on the same slots, and the oracle.
type world struct {
	t       *testing.T
	slots   *Slots
	engines []*Engine
	configs []Config
	largest int // batch that the models have memory for
	wg      sync.WaitGroup

	mu      sync.Mutex
	sent    []*sent
	taken   int // slots
	closing []bool
	aborted []bool
}

func newWorld(t *testing.T, c []byte) *world {
	w := &world{t: t, slots: NewSlots(1 + int(c[0])%3), largest: 4 + int(c[1])%8}
	for i := range 1 + int(c[2])%3 {
		config := Config{
			MaxBatch: 1 + int(c[3])%8, MaxQueue: 1 + int(c[4])%32, MaxQueueBytes: 100 + int64(c[5])*16,
			Delay: time.Duration(c[6]) * 10 * time.Microsecond, Slots: w.slots,
			Width: 1 + (i+int(c[7]>>1))%w.slots.count,
		}
		config.Run = func(ctx context.Context, in []tensor.Tensor) ([]tensor.Tensor, error) {
			return w.model(ctx, i, int(c[7])&1 == 0, in)
		}
		w.configs = append(w.configs, config)
		w.engines = append(w.engines, New(config))
	}
	w.closing, w.aborted = make([]bool, len(w.engines)), make([]bool, len(w.engines))
	return w
}

// model gives each row's sum, after it has checked what it is asked to run.
func (w *world) model(ctx context.Context, engine int, heeds bool, in []tensor.Tensor) ([]tensor.Tensor, error) {
	x, n, width := in[0].Data.([]float32), int(in[0].Shape[0]), int(in[0].Shape[1])
	w.mu.Lock()
	if w.taken += w.configs[engine].Width; w.taken > w.slots.count {
		w.t.Errorf("inferences take %d of %d slots", w.taken, w.slots.count)
	}
	var members []*sent
	for row := range slices.Chunk(x, width) {
		s := w.sent[int(row[0])]
		if !slices.Contains(members, s) {
			members = append(members, s)
		}
		if s.engine != engine || s.width != width {
			w.t.Errorf("a request of engine %d and width %d runs in %d and %d", s.engine, s.width, engine, width)
		}
		if d, ok := s.ctx.Deadline(); ok && d.Before(time.Now()) {
			w.t.Errorf("a request runs %v after its deadline", time.Since(d))
		}
	}
	if n > w.configs[engine].MaxBatch && len(members) > 1 {
		w.t.Errorf("%d requests run as a batch of %d examples", len(members), n)
	}
	w.mu.Unlock()
	var cancelled <-chan struct{}
	if heeds {
		cancelled = ctx.Done()
	}
	var err error
	select {
	case <-time.After(500*time.Microsecond + time.Duration(n)*100*time.Microsecond):
	case <-cancelled:
		err = context.Cause(ctx)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.taken -= w.configs[engine].Width
	out := make([]float32, n)
	for i := range n {
		row := x[i*width : (i+1)*width]
		switch int(row[1]) {
		case wrong:
			err = errBad
		case panicky:
			panic(errBad)
		}
		out[i] = row[0] + 0.5
	}
	if n > w.largest {
		err = errors.New("out of memory")
	}
	if err != nil {
		return nil, err
	}
	for _, s := range members {
		s.ran++
	}
	return []tensor.Tensor{{Name: "out", Shape: []int64{int64(n)}, Data: out}}, nil
}

// play runs a program of two bytes a step, and closes everything.
func (w *world) play(program []byte) {
	for step := range slices.Chunk(program, 2) {
		if len(step) < 2 {
			break
		}
		a, b := int(step[0]), int(step[1])
		switch {
		case a < 80:
			time.Sleep(time.Duration(b) * 20 * time.Microsecond)
		case a < 83:
			w.close(a%len(w.engines), time.Duration(b)*50*time.Microsecond)
		case a < 90:
			synctest.Wait()
		default:
			w.send(&sent{engine: a % len(w.engines), rows: 1 + a%5, width: 2 + a%2, kind: max(0, b%16-13)}, b/16)
		}
	}
	for i := range w.engines {
		w.close(i, time.Hour)
	}
	w.wg.Wait()
	synctest.Wait()
	for i, e := range w.engines {
		if requests, examples := e.Depth(); requests != 0 || examples != 0 || e.queue.bytes != 0 || e.running != 0 ||
			e.inLine || e.window.armed || e.ctx.Err() == nil {
			w.t.Errorf("engine %d is closed: %+v", i, e)
		}
	}
	if w.slots.free != w.slots.count || len(w.slots.line) != 0 || len(w.slots.kept) > 2*w.slots.count {
		w.t.Errorf("the slots are free: %+v", w.slots)
	}
}

func (w *world) close(engine int, patience time.Duration) {
	w.wg.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		w.mu.Lock()
		w.closing[engine] = true
		w.mu.Unlock()
		context.AfterFunc(ctx, func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.aborted[engine] = true
		})
		if err := w.engines[engine].Close(ctx); err != nil && ctx.Err() == nil {
			w.t.Errorf("Close: %v", err)
		}
	})
}

// send sends a request that has so much patience: none leaves with 0, and the unit is 0.4 ms.
func (w *world) send(s *sent, patience int) {
	cancel := func() {}
	s.ctx = context.Background()
	if patience > 0 {
		s.ctx, cancel = context.WithTimeout(s.ctx, time.Duration(patience)*400*time.Microsecond)
	}
	w.mu.Lock()
	number := len(w.sent)
	w.sent = append(w.sent, s)
	w.mu.Unlock()
	data := make([]float32, s.rows*s.width)
	for i := range s.rows {
		data[i*s.width], data[i*s.width+1] = float32(number), float32(s.kind)
	}
	e, c := w.engines[s.engine], w.configs[s.engine]
	w.wg.Go(func() {
		defer cancel()
		requests, _ := e.Depth()
		a, err := e.Do(s.ctx, []tensor.Tensor{{Name: "x", Shape: []int64{int64(s.rows), int64(s.width)}, Data: data}})
		clear(data) // whoever still read it would run another request
		w.mu.Lock()
		defer w.mu.Unlock()
		if problem := w.judge(s, number, a, err); problem != nil {
			w.t.Errorf("request %d of %d rows, kind %d, on %+v with %d before it: %v", number, s.rows, s.kind, c, requests, problem)
		}
	})
}

// judge is the oracle.
func (w *world) judge(s *sent, number int, a Answer, err error) error {
	var overload *OverloadError
	var panicked *PanicError
	fails := s.kind == wrong || s.kind == panicky || s.rows > w.largest
	switch {
	case err == nil:
		if fails || s.ran != 1 || len(a.Outputs) != 1 || len(a.Outputs[0].Data.([]float32)) != s.rows {
			return fmt.Errorf("it ran %d times and was answered %v", s.ran, a)
		}
		for _, v := range a.Outputs[0].Data.([]float32) {
			if v != float32(number)+0.5 {
				return fmt.Errorf("it was answered %v", a)
			}
		}
		return nil
	case s.ctx.Err() != nil && err == context.DeadlineExceeded:
		return nil // it may or may not have run
	case errors.As(err, &overload):
		if overload.RetryAfter < time.Millisecond || overload.RetryAfter > time.Minute {
			return err
		}
	case err == ErrClosed:
		if !w.closing[s.engine] {
			return err
		}
		if w.aborted[s.engine] {
			return nil
		}
	case s.kind == wrong && err == errBad, s.kind == panicky && errors.As(err, &panicked):
	case s.rows > w.largest && err.Error() == "out of memory":
	default:
		return err
	}
	if s.ran != 0 {
		return fmt.Errorf("it ran %d times, and the error is %w", s.ran, err)
	}
	return nil
}
