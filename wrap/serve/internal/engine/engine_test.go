package engine

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mfgs/mfgs/onnx/tensor"
)

// Requests that come while an inference runs become one batch, and each gets its own rows.
func TestABatchAnswersEachWithItsOwnRows(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{took: constant(time.Millisecond)}
		e := New(Config{Run: f.run, MaxBatch: 64})
		start(t, e, one(1))
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				in := rowsOf(float32(10+i), 1+i%3, 4)
				a, err := e.Do(t.Context(), in)
				if err == nil {
					err = verify(a, in)
				}
				if err != nil {
					t.Error(err)
				}
				if a.Batch != 39 || a.Queue != time.Millisecond || a.Compute != time.Millisecond {
					t.Errorf("the batch had %d rows, queue %v, compute %v; want 39, 1 ms and 1 ms", a.Batch, a.Queue, a.Compute)
				}
			})
		}
		wg.Wait()
		closeEngine(t, e)
		if got := f.batches(); !slices.Equal(got, []int{1, 39}) {
			t.Errorf("batches of %v", got)
		}
	})
}

// start runs a request in the background.
func start(t *testing.T, e *Engine, inputs []tensor.Tensor) {
	go func() {
		if _, err := e.Do(context.Background(), inputs); err != nil {
			t.Error(err)
		}
	}()
	synctest.Wait()
}

// Batches have up to MaxBatch examples, in the order of arrival; a larger request runs alone.
func TestBatchesAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{took: constant(time.Millisecond)}
		e := New(Config{Run: f.run, MaxBatch: 4})
		for _, rows := range []int{1, 2, 2, 1, 3, 9, 1, 1, 3, 2, 1} {
			start(t, e, rowsOf(1, rows, 2))
		}
		closeEngine(t, e)
		// Nothing overtakes the 3 and the 2, though there would be room.
		if got := f.batches(); !slices.Equal(got, []int{1, 4, 4, 9, 2, 3, 3}) {
			t.Errorf("batches of %v", got)
		}
	})
}

// One bad example among 64 requests fails its own request only, and costs the others a few inferences; the same with a
// runner that panics.
func TestABadRequestFailsAlone(t *testing.T) {
	t.Parallel()
	var panicked *PanicError
	for _, test := range []struct {
		value float32
		is    func(error) bool
	}{
		{bad, func(err error) bool { return errors.Is(err, errBad) }},
		{wild, func(err error) bool {
			return errors.As(err, &panicked) && strings.Contains(string(panicked.Stack), "(*fake).run")
		}},
	} {
		for _, place := range []int{0, 17, 63} {
			synctest.Test(t, func(t *testing.T) {
				f := &fake{took: constant(time.Millisecond)}
				e := New(Config{Run: f.run, MaxBatch: 64, Delay: time.Second})
				start(t, e, one(1))
				began := time.Now()
				var wg sync.WaitGroup
				for i := range 64 {
					wg.Go(func() {
						in := one(float32(i + 2))
						if i == place {
							in = one(test.value)
						}
						a, err := e.Do(t.Context(), in)
						if i == place {
							if !test.is(err) {
								t.Errorf("the bad request: %v", err)
							}
							return
						}
						if err == nil {
							err = verify(a, in)
						}
						if err != nil {
							t.Errorf("request %d: %v", i, err)
						}
					})
				}
				wg.Wait()
				closeEngine(t, e)
				// None of the 14 waited for more.
				if got := f.batches(); len(got) != 1+1+12 || time.Since(began) != 14*time.Millisecond {
					t.Errorf("it took %v, and batches of %v", time.Since(began), got)
				}
			})
		}
	}
}

// While a failed batch runs again, it is not mixed with new requests, and other engines have their turns.
func TestAFailedBatchLetsOtherEnginesRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slots := NewSlots(1)
		f, g := &fake{took: constant(time.Millisecond)}, &fake{took: constant(time.Millisecond)}
		e, other := New(Config{Run: f.run, Slots: slots}), New(Config{Run: g.run, Slots: slots})
		start(t, e, one(1))
		for range 16 {
			go e.Do(t.Context(), one(bad))
		}
		time.Sleep(1500 * time.Microsecond)
		go func() {
			if a, err := e.Do(t.Context(), one(2)); err != nil || a.Batch != 1 || a.Queue < 31*time.Millisecond {
				t.Errorf("what has come since waited %v, in a batch of %d (%v)", a.Queue, a.Batch, err)
			}
		}()
		a, err := other.Do(t.Context(), one(3))
		if err != nil || a.Queue > time.Millisecond {
			t.Errorf("another engine waited %v (%v), want the rest of one inference", a.Queue, err)
		}
		closeEngine(t, e)
		closeEngine(t, other)
		if got := len(f.batches()); got != 1+31+1 {
			t.Errorf("16 bad requests took %d batches, want 31", got-2)
		}
	})
}

// A request of a rare shape runs in its turn, however many others come.
func TestOtherShapesAreNotStarved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{took: constant(time.Millisecond)}
		e := New(Config{Run: f.run, MaxBatch: 4, Delay: time.Millisecond})
		ctx, stop := context.WithCancel(t.Context())
		for range 16 {
			go func() {
				for ctx.Err() == nil {
					if _, err := e.Do(context.Background(), one(1)); err != nil {
						t.Error(err)
					}
				}
			}()
		}
		time.Sleep(20 * time.Millisecond)
		for _, other := range [][]tensor.Tensor{
			rowsOf(3, 1, 7), // another size
			{{Name: "y", Shape: []int64{1, 4}, Data: make([]float32, 4)}},    // another name
			{{Name: "x", Shape: []int64{1, 2, 2}, Data: make([]float32, 4)}}, // another rank
		} {
			a, err := e.Do(t.Context(), other)
			if err != nil || a.Batch != 1 || a.Queue > 5*time.Millisecond {
				t.Errorf("it waited %v for a batch of %d (%v), want the 4 batches before it and one of its own", a.Queue, a.Batch, err)
			}
		}
		stop()
		closeEngine(t, e)
	})
}

// An engine whose queue is always full takes turns with the others, each with one batch.
func TestEnginesTakeTurns(t *testing.T) {
	t.Parallel()
	for _, places := range []int{1, 3} {
		synctest.Test(t, func(t *testing.T) {
			slots := NewSlots(places)
			var mu sync.Mutex
			var order []int
			var engines []*Engine
			for i := range 5 {
				f := &fake{took: constant(time.Millisecond)}
				run := func(ctx context.Context, in []tensor.Tensor) ([]tensor.Tensor, error) {
					mu.Lock()
					order = append(order, i)
					mu.Unlock()
					return f.run(ctx, in)
				}
				engines = append(engines, New(Config{Slots: slots, MaxBatch: 2, Run: run}))
			}
			for i, e := range engines {
				for range []int{200, 3, 20, 9, 1}[i] {
					go e.Do(context.Background(), one(1))
				}
				synctest.Wait()
			}
			for _, e := range engines {
				closeEngine(t, e)
			}
			// Of any two engines with work, neither runs twice while the other waits: after the first batches,
			// which all are of the first engine, each runs once in any five. What begins at one time is noted in
			// no order, so that whole times are looked at.
			times := (len(engines) + places - 1) / places
			different := func(runs []int) int { return len(slices.Compact(slices.Sorted(slices.Values(runs)))) }
			next := order[places:]
			if different(next[:places]) < places || different(next[:times*places]) < len(engines) {
				t.Errorf("%d places: the engines ran in the order %v", places, order)
			}
		})
	}
}

// An engine whose inferences take all slots runs alone, and one that takes one of them runs as many at a
// time as there are. Neither keeps the other waiting for longer than what is running.
func TestWidths(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slots := NewSlots(3)
		var mu sync.Mutex
		taken, wide, narrow := 0, 0, 0
		var order []string
		engineOf := func(name string, width int, most *int) *Engine {
			f := &fake{took: constant(time.Millisecond)}
			running := 0
			run := func(ctx context.Context, in []tensor.Tensor) ([]tensor.Tensor, error) {
				mu.Lock()
				order = append(order, name)
				running++
				*most = max(*most, running)
				if taken += width; taken > 3 {
					t.Errorf("inferences take %d of 3 slots", taken)
				}
				mu.Unlock()
				defer func() {
					mu.Lock()
					running--
					taken -= width
					mu.Unlock()
				}()
				return f.run(ctx, in)
			}
			return New(Config{Slots: slots, Width: width, MaxBatch: 1, Run: run})
		}
		a, b := engineOf("wide", 3, &wide), engineOf("narrow", 1, &narrow)
		begun := time.Now()
		for range 12 {
			go a.Do(context.Background(), one(1))
			go b.Do(context.Background(), one(1))
		}
		synctest.Wait()
		closeEngine(t, a)
		closeEngine(t, b)
		if wide != 1 || narrow != 3 {
			t.Errorf("%d wide and %d narrow inferences ran at once, want 1 and 3", wide, narrow)
		}
		// As long as both have work, no more than six narrow ones run in a row, three that have begun when the
		// wide one comes and three that pass it, and no more than two wide ones: one may be in line again
		// before the first narrow one comes.
		both := min(lastOf(order, "wide"), lastOf(order, "narrow"))
		for i, run := 0, 0; i <= both; i++ {
			if run++; i > 0 && order[i] != order[i-1] {
				run = 1
			}
			if most := map[string]int{"wide": 2, "narrow": 6}[order[i]]; run > most {
				t.Errorf("the engines ran in the order %v", order)
				break
			}
		}
		if took := time.Since(begun); took > 24*time.Millisecond {
			t.Errorf("%v for 12 wide inferences of 1 ms and 12 narrow ones", took)
		}
	})
}

// An inference that waits for all slots is passed by inferences that take as many slots, one after another, and by
// no more.
func TestAWideInferenceIsPassedByABoundedNumberOfSlots(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slots := NewSlots(2)
		engineOf := func(width int, took time.Duration) (*Engine, *fake) {
			f := &fake{took: constant(took)}
			return New(Config{Slots: slots, Width: width, MaxBatch: 1, Run: f.run}), f
		}
		long, _ := engineOf(1, 10*time.Millisecond)
		wide, ofWide := engineOf(2, time.Millisecond)
		narrow, ofNarrow := engineOf(1, time.Millisecond)
		start(t, long, one(1))
		start(t, wide, one(1))
		for range 4 {
			start(t, narrow, one(1))
		}
		for _, e := range []*Engine{long, wide, narrow} {
			closeEngine(t, e)
		}
		passed := 0
		for _, from := range ofNarrow.from {
			if from.Before(ofWide.from[0]) {
				passed++
			}
		}
		if passed != 2 {
			t.Errorf("%d narrow inferences passed a wide one that waited for 2 slots, want 2", passed)
		}
	})
}

// lastOf returns where s is for the last time.
func lastOf(list []string, s string) int {
	for i := len(list) - 1; i >= 0; i-- {
		if list[i] == s {
			return i
		}
	}
	return -1
}

// A full queue refuses at once, and says when to retry.
func TestOverload(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		c       Config
		reason  string
		waiting int
	}{
		{"examples", Config{MaxBatch: 4, MaxQueue: 40}, "40 examples wait, and 1 more are beyond 40", 40},
		{"bytes", Config{MaxBatch: 4, MaxQueueBytes: 20 * 16}, "320 bytes wait, and 16 more are beyond 320", 20},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fake{took: func(n int) time.Duration { return time.Duration(n) * 5 * time.Millisecond }}
				test.c.Run = f.run
				e := New(test.c)
				for range 4 + 16 { // so that there is a speed: 5 ms an example
					start(t, e, one(1))
				}
				time.Sleep(time.Second)
				for range 1 + test.waiting {
					start(t, e, one(1))
				}
				began := time.Now()
				_, err := e.Do(t.Context(), one(1))
				var overload *OverloadError
				if !errors.As(err, &overload) || !strings.Contains(err.Error(), test.reason) {
					t.Fatalf("a full queue: %v", err)
				}
				if !time.Now().Equal(began) {
					t.Error("it was not refused at once")
				}
				if requests, examples := e.Depth(); requests != test.waiting || examples != test.waiting {
					t.Errorf("%d requests wait with %d examples", requests, examples)
				}
				// What is refused now finds the queue empty after RetryAfter, and not long before.
				want := time.Duration(test.waiting) * 5 * time.Millisecond
				if r := overload.RetryAfter; r < want*8/10 || r > want*12/10 {
					t.Errorf("retry after %v, want about %v", r, want)
				}
				time.Sleep(overload.RetryAfter + 5*time.Millisecond)
				if _, examples := e.Depth(); examples > 4 {
					t.Errorf("%d examples wait after %v", examples, overload.RetryAfter)
				}
				closeEngine(t, e)
			})
		})
	}
}

// The estimated speed counts other engines: two that share a slot are each half as fast.
func TestRetryAfterKnowsOfOtherEngines(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{took: constant(10 * time.Millisecond)}
		c := Config{Run: f.run, MaxBatch: 1, MaxQueue: 60, Slots: NewSlots(1)}
		e, other := New(c), New(c)
		for range 61 {
			go e.Do(context.Background(), one(1))
			go other.Do(context.Background(), one(1))
		}
		time.Sleep(400 * time.Millisecond)
		synctest.Wait()
		_, waiting := e.Depth()
		e.config.MaxQueue = waiting
		var overload *OverloadError
		_, err := e.Do(t.Context(), one(1))
		want := time.Duration(waiting) * 20 * time.Millisecond
		if !errors.As(err, &overload) || overload.RetryAfter < want*9/10 || overload.RetryAfter > want*11/10 {
			t.Errorf("%v, want about %v", err, want)
		}
		closeEngine(t, e)
		closeEngine(t, other)
	})
}

// Before its speed is known, and while an inference is stuck, an engine does not suggest to retry soon, whether the
// stuck one is its own or another's.
func TestRetryAfterIsNotTooHopeful(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{took: constant(time.Hour)}
		c := Config{Run: f.run, MaxQueue: 1, Slots: NewSlots(1)}
		e, other := New(c), New(c)
		start(t, e, one(1)) // runs
		start(t, e, one(1))
		start(t, other, one(1))
		for _, want := range []time.Duration{time.Second, 10 * time.Minute, 20 * time.Minute} {
			for _, busy := range []*Engine{e, other} {
				var overload *OverloadError
				if _, err := busy.Do(t.Context(), one(1)); !errors.As(err, &overload) || overload.RetryAfter != want {
					t.Errorf("got %v, want %v", err, want)
				}
			}
			time.Sleep(10 * time.Minute)
		}
		closeEngine(t, e)
		closeEngine(t, other)
	})
}

// A request larger than the queue's limit is accepted by an empty queue only.
func TestAnEmptyQueueTakesAnyRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{took: constant(time.Millisecond)}
		e := New(Config{Run: f.run, MaxBatch: 2, MaxQueue: 3, MaxQueueBytes: 1000})
		start(t, e, rowsOf(1, 100, 100))
		start(t, e, rowsOf(1, 100, 100))
		var overload *OverloadError
		if _, err := e.Do(t.Context(), one(1)); !errors.As(err, &overload) {
			t.Errorf("behind it: %v", err)
		}
		closeEngine(t, e)
	})
}

// A request whose context has ended never runs, wherever it is at that moment.
func TestCancelledRequestsAreNotRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{took: constant(time.Millisecond)}
		e := New(Config{Run: f.run})
		gone, cancel := context.WithCancelCause(t.Context())
		cause := errors.New("the caller has gone")
		cancel(cause)
		if _, err := e.Do(gone, one(1)); err != cause {
			t.Errorf("before the queue: %v", err)
		}
		start(t, e, one(1))
		leaving, cancel := context.WithCancelCause(t.Context())
		left := make(chan error)
		for range 3 {
			go func() {
				_, err := e.Do(leaving, one(1))
				left <- err
			}()
		}
		start(t, e, one(2))
		start(t, e, one(3))
		began := time.Now()
		cancel(cause)
		for range 3 {
			if err := <-left; err != cause {
				t.Errorf("in the queue: %v", err)
			}
		}
		if !time.Now().Equal(began) {
			t.Error("they did not leave at once")
		}
		if requests, examples := e.Depth(); requests != 2 || examples != 2 || e.queue.bytes != 32 {
			t.Errorf("%d requests wait, %d examples, %d bytes", requests, examples, e.queue.bytes)
		}
		closeEngine(t, e)
		if got := f.batches(); !slices.Equal(got, []int{1, 2}) {
			t.Errorf("batches of %v", got)
		}
	})
}

// A request that runs alone cancels its inference when its context ends.
func TestALoneInferenceIsCancelled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{took: constant(time.Hour)}
		e := New(Config{Run: f.run})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if _, err := e.Do(ctx, one(1)); err != context.DeadlineExceeded || time.Since(began) != time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		closeEngine(t, e)
	})
}

// deaf is a context whose end the caller of Do has not noticed yet.
type deaf struct {
	context.Context
	ended atomic.Bool
}

func (d *deaf) Err() error {
	if d.ended.Load() {
		return context.Canceled
	}
	return nil
}

func (d *deaf) Value(any) any { return nil }

// What counts is whether the context has ended when a batch is formed, not who is scheduled first.
func TestRequestsCancelledBeforeTheirBatchAreNotRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{took: constant(time.Millisecond)}
		e := New(Config{Run: f.run})
		start(t, e, one(1))
		hears, cancel := context.WithCancel(t.Context())
		about := &deaf{Context: hears}
		left := make(chan error)
		go func() {
			_, err := e.Do(about, one(wild))
			left <- err
		}()
		start(t, e, one(2))
		about.ended.Store(true)
		time.Sleep(time.Hour)
		cancel()
		if err := <-left; err != context.Canceled {
			t.Error(err)
		}
		closeEngine(t, e)
		if got := f.batches(); !slices.Equal(got, []int{1, 1}) {
			t.Errorf("batches of %v", got)
		}
	})
}

// An inference goes on while one request waits for it, and is cancelled when the last leaves. A request that leaves
// does not wait for the others.
func TestAnInferenceThatNobodyWaitsForIsCancelled(t *testing.T) {
	t.Parallel()
	for _, stays := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f := &fake{took: constant(time.Second)}
			e := New(Config{Run: f.run})
			start(t, e, one(1))
			var wg sync.WaitGroup
			began := time.Now()
			for i := range 3 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second+time.Duration(1+i)*100*time.Millisecond)
				if stays && i == 1 {
					ctx = t.Context()
				}
				wg.Go(func() {
					defer cancel()
					in := one(float32(5 + i))
					a, err := e.Do(ctx, in)
					want := time.Second + time.Duration(1+i)*100*time.Millisecond
					if stays && i == 1 {
						want = 2 * time.Second
						if err == nil {
							err = verify(a, in)
						}
						if err != nil {
							t.Errorf("who stayed: %v", err)
						}
					} else if !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("who left: %v", err)
					}
					if got := time.Since(began); got != want {
						t.Errorf("request %d took %v, want %v", i, got, want)
					}
				})
			}
			wg.Wait()
			closeEngine(t, e)
			want := 1300 * time.Millisecond
			if stays {
				want = 2 * time.Second
			}
			if got := f.to[1].Sub(began); got != want {
				t.Errorf("the inference ended after %v, want %v", got, want)
			}
			if !slices.Equal(f.batches(), []int{1, 3}) {
				t.Errorf("batches of %v", f.rows)
			}
		})
	}
}

// When Do returns, nothing reads its inputs, whether it was answered or left: the race detector checks that against
// writes of the callers.
func TestNothingReadsTheInputsAfterDo(t *testing.T) {
	t.Parallel()
	f := &fake{took: constant(50 * time.Microsecond)}
	e := New(Config{Run: f.run, MaxBatch: 8, Delay: time.Millisecond, Slots: NewSlots(2)})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			in := rowsOf(1, 1, 1000)
			data := in[0].Data.([]float32)
			for round := range 200 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(round)*time.Microsecond)
				e.Do(ctx, in)
				cancel()
				for j := range data {
					data[j] = float32(i)
				}
			}
		})
	}
	wg.Wait()
	closeEngine(t, e)
}

// Close refuses new requests, answers the others without waiting for more, and then returns.
func TestCloseDrains(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{took: constant(40 * time.Millisecond)}
		e := New(Config{Run: f.run, MaxBatch: 8, Delay: time.Second})
		clients(t, e, 8, 100*time.Millisecond, noThinking)
		start(t, e, one(1)) // waits for seven more
		began := time.Now()
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() { closeEngine(t, e) })
		}
		synctest.Wait()
		if _, err := e.Do(t.Context(), one(1)); err != ErrClosed {
			t.Errorf("a closed engine: %v", err)
		}
		wg.Wait()
		if got := time.Since(began); got != 40*time.Millisecond {
			t.Errorf("Close took %v", got)
		}
		closeEngine(t, e)
	})
}

// When its context ends, Close cancels running inferences and fails queued requests.
func TestCloseDoesNotWaitForever(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{took: constant(time.Hour)}
		e := New(Config{Run: f.run, MaxBatch: 2})
		start(t, e, one(1))
		var wg sync.WaitGroup
		for range 7 {
			wg.Go(func() {
				if _, err := e.Do(t.Context(), one(1)); err != ErrClosed {
					t.Errorf("got %v", err)
				}
			})
		}
		time.Sleep(time.Hour + time.Minute) // the first has ended, two run
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if err := e.Close(ctx); err != context.DeadlineExceeded || time.Since(began) != time.Second {
			t.Errorf("Close: %v after %v", err, time.Since(began))
		}
		wg.Wait()
		closeEngine(t, e)
		if got := f.batches(); !slices.Equal(got, []int{1, 2}) {
			t.Errorf("batches of %v", got)
		}
		for range 20 {
			if err := e.Close(ctx); err != nil { // nothing is left to be cancelled
				t.Error(err)
			}
		}
	})
}

// A single request runs on its own memory; buffers of batches are reused, and their number is bounded.
func TestBuffersAreReusedAndBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var seen []uintptr
		slots := NewSlots(1)
		for range 10 {
			f := &fake{took: constant(time.Millisecond)}
			e := New(Config{Slots: slots, Run: func(ctx context.Context, in []tensor.Tensor) ([]tensor.Tensor, error) {
				seen = append(seen, reflect.ValueOf(in[0].Data).Pointer())
				return f.run(ctx, in)
			}})
			alone := one(1)
			start(t, e, alone)
			for range 7 {
				go e.Do(t.Context(), one(1))
			}
			time.Sleep(10 * time.Millisecond)
			closeEngine(t, e)
			if seen[len(seen)-2] != reflect.ValueOf(alone[0].Data).Pointer() {
				t.Error("a request that was alone was copied")
			}
		}
		for i := 3; i < len(seen); i += 2 {
			if seen[i] != seen[1] {
				t.Error("the memory of a batch was not used again")
			}
		}
		for i := range 10 { // ten sizes, none of which fits what is kept
			types := []reflect.Type{reflect.TypeFor[[]float32](), reflect.TypeFor[[]int64]()}
			slots.keep(slots.take(types, []int{1000 + i, 5}))
		}
		if len(slots.kept) > 2 {
			t.Errorf("%d batches are kept, want at most two a slot", len(slots.kept))
		}
	})
}

// Strings are batched as numbers are, with inputs of several types.
func TestInputsOfSeveralTypes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slots := NewSlots(1)
		e := New(Config{Slots: slots, Run: func(_ context.Context, in []tensor.Tensor) ([]tensor.Tensor, error) {
			time.Sleep(time.Millisecond)
			texts, half, flags := in[0].Data.([]string), in[1].Data.(tensor.Float16Bits), in[2].Data.([]bool)
			out := make([]string, len(texts))
			for i := range out {
				out[i] = fmt.Sprint(texts[i], half[2*i:2*i+2], flags[i])
			}
			return []tensor.Tensor{{Name: "out", Shape: in[0].Shape, Data: out}}, nil
		}})
		start(t, e, mixed(0))
		var wg sync.WaitGroup
		for i := range 5 {
			wg.Go(func() {
				a, err := e.Do(t.Context(), mixed(i))
				want := []string{fmt.Sprintf("text %d[%d 7] %t", i, i, i%2 == 0), fmt.Sprintf("more[9 %d] true", i)}
				if err != nil || a.Batch != 10 || !slices.Equal(a.Outputs[0].Data.([]string), want) {
					t.Errorf("got %v (%v), want %q", a, err, want)
				}
			})
		}
		wg.Wait()
		closeEngine(t, e)
		for _, s := range slots.kept[0][0].Interface().([]string) {
			if s != "" {
				t.Errorf("the memory of the batch holds on to %q", s)
			}
		}
	})
}

func mixed(i int) []tensor.Tensor {
	return []tensor.Tensor{
		{Name: "text", Shape: []int64{2}, Data: []string{fmt.Sprint("text ", i), "more"}},
		{Name: "half", Shape: []int64{2, 2}, Data: tensor.Float16Bits{uint16(i), 7, 9, uint16(i)}},
		{Name: "flag", Shape: []int64{2}, Data: []bool{i%2 == 0, true}},
	}
}

// Invalid requests are refused before they are queued.
func TestRefusedRequests(t *testing.T) {
	t.Parallel()
	e := New(Config{Run: (&fake{}).run})
	x := func(data any, shape ...int64) tensor.Tensor {
		return tensor.Tensor{Name: "x", Shape: shape, Data: data}
	}
	f := make([]float32, 6)
	for _, test := range []struct {
		inputs []tensor.Tensor
		want   string
	}{
		{nil, "the request has no inputs"},
		{[]tensor.Tensor{x(struct{}{}, 1)}, "elements of type struct {}"},
		{[]tensor.Tensor{x(f[:1])}, "is a scalar"},
		{[]tensor.Tensor{x(f, -2, 3)}, "negative dimension"},
		{[]tensor.Tensor{x(f, 1<<40, 1<<40)}, "too many elements"},
		{[]tensor.Tensor{x(f, 2, 2)}, "has 6 elements, want 4 for its shape [2,2]"},
		{[]tensor.Tensor{x(f[:0], 0, 3)}, "has 0 examples"},
		{[]tensor.Tensor{x(f, 2, 3), x(f, 3, 2)}, "has 3 examples, want as many as the others"},
	} {
		if _, err := e.Do(t.Context(), test.inputs); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v: %v, want %q", test.inputs, err, test.want)
		}
	}
	closeEngine(t, e)
}

// Outputs without one row per example are an error, and never another request's rows.
func TestOutputsOfTheWrongShapeAreRefused(t *testing.T) {
	t.Parallel()
	for _, out := range []tensor.Tensor{
		{Name: "out", Shape: []int64{3}, Data: make([]float32, 3)},
		{Name: "out", Shape: nil, Data: make([]float32, 1)},
		{Name: "out", Shape: []int64{2, 2}, Data: make([]float32, 2)},
	} {
		e := New(Config{Run: func(context.Context, []tensor.Tensor) ([]tensor.Tensor, error) {
			return []tensor.Tensor{out}, nil
		}})
		if _, err := e.Do(t.Context(), rowsOf(1, 2, 2)); err == nil || !strings.Contains(err.Error(), `output "out" of shape`) {
			t.Errorf("shape %v: %v", out.Shape, err)
		}
		closeEngine(t, e)
	}
}

func TestMisusePanics(t *testing.T) {
	t.Parallel()
	run := (&fake{}).run
	for name, f := range map[string]func(){
		"no runner": func() { New(Config{}) },
		"delay":     func() { New(Config{Run: run, Delay: -1}) },
		"narrow":    func() { New(Config{Run: run, Width: -1}) },
		"wide":      func() { New(Config{Run: run, Width: 3, Slots: NewSlots(2)}) },
		"slots":     func() { NewSlots(0) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			f()
		}()
	}
}
