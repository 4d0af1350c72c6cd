package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// clients runs c clients for some time. Each sends a request, waits for the answer, and sends the next after the time
// that think returns.
func clients(t *testing.T, e *Engine, c int, span time.Duration, think func(client int) time.Duration) {
	t.Helper()
	var wg sync.WaitGroup
	start := time.Now()
	for i := range c {
		wg.Go(func() {
			for n := 0; time.Since(start) < span; n++ {
				in := one(float32(1 + i*1000 + n))
				a, err := e.Do(t.Context(), in)
				if err == nil {
					err = verify(a, in)
				}
				if err != nil {
					t.Errorf("client %d: %v", i, err)
					return
				}
				time.Sleep(think(i))
			}
		})
	}
	wg.Wait()
}

func noThinking(int) time.Duration { return 0 }

// An inference of n rows takes 2 ms, and 20 µs per row.
func affine(n int) time.Duration { return 2*time.Millisecond + time.Duration(n)*20*time.Microsecond }

// Clients that send, wait and send again soon run all together, whatever their number, and not as one and all others.
func TestAClosedLoopSettlesAtAllItsClients(t *testing.T) {
	t.Parallel()
	for _, c := range []int{1, 2, 3, 8, 31, 64} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fake{took: affine}
				e := New(Config{Run: f.run, MaxBatch: 64, Delay: 2 * time.Millisecond})
				rng := rand.New(rand.NewPCG(1, uint64(c)))
				var mu sync.Mutex
				clients(t, e, c, 300*time.Millisecond, func(int) time.Duration {
					mu.Lock()
					defer mu.Unlock()
					return time.Duration(50+rng.IntN(200)) * time.Microsecond
				})
				closeEngine(t, e)
				got := f.batches()
				// The first alone, then those that came meanwhile, and from then on all.
				if len(got) < 50 {
					t.Fatalf("%d clients had %d batches", c, len(got))
				}
				for i, n := range got[2 : len(got)-2] {
					if n != c {
						t.Fatalf("batch %d of %d clients has %d requests: %v", i+2, c, n, got)
					}
				}
			})
		})
	}
}

// Without a delay, the same clients run as 1, C-1, 1, C-1.
func TestWithoutDelayAClosedLoopAlternates(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{took: affine}
		e := New(Config{Run: f.run})
		clients(t, e, 8, 40*time.Millisecond, func(client int) time.Duration {
			return time.Duration(1+client) * time.Microsecond
		})
		closeEngine(t, e)
		got := f.batches()
		if !slices.Contains(got[10:], 1) || !slices.Contains(got[10:], 7) {
			t.Errorf("batches are %v, want 1, 7, 1, 7: is there no need for the rule?", got)
		}
	})
}

// A request that finds no other runs at once, whatever happened before.
func TestASingleClientNeverWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{took: constant(5 * time.Millisecond)}
		e := New(Config{Run: f.run, Delay: time.Second})
		lone := func(what string) {
			t.Helper()
			start := time.Now()
			a, err := e.Do(t.Context(), one(1))
			if err != nil || time.Since(start) != 5*time.Millisecond || a.Queue != 0 {
				t.Errorf("%s: a request took %v, of which %v in the queue (%v); want 5 ms and none",
					what, time.Since(start), a.Queue, err)
			}
		}
		lone("the first")
		lone("right after the first")
		time.Sleep(time.Microsecond)
		lone("soon after")
		clients(t, e, 16, 50*time.Millisecond, noThinking)
		time.Sleep(5 * time.Millisecond / 4)
		lone("when the others have gone")
		lone("and after that")
		closeEngine(t, e)
	})
}

// Clients that do not return cost those that do a quarter of an inference, or the delay, once.
func TestTheWaitEnds(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ delay, want time.Duration }{
		{time.Second, 10 * time.Millisecond},
		{3 * time.Millisecond, 3 * time.Millisecond},
		{0, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := &fake{took: constant(40 * time.Millisecond)}
			e := New(Config{Run: f.run, Delay: test.delay})
			clients(t, e, 8, 100*time.Millisecond, noThinking)
			// A batch of 8 has just ended. One client is back, the others are not.
			for i, want := range []time.Duration{test.want, 0} {
				a, err := e.Do(t.Context(), one(1))
				if err != nil || a.Queue != want {
					t.Errorf("delay %v: request %d waited %v (%v), want %v", test.delay, i, a.Queue, err, want)
				}
			}
			closeEngine(t, e)
			if got := f.batches(); !slices.Equal(got[len(got)-2:], []int{1, 1}) {
				t.Errorf("delay %v: batches of %v", test.delay, got)
			}
		})
	}
}

// If waiting never succeeds, the engine nearly stops waiting.
func TestWaitsInVainBecomeRare(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{took: constant(40 * time.Millisecond)}
		e := New(Config{Run: f.run, Delay: time.Second})
		// Three clients, each of which stays away for longer than the engine would wait.
		clients(t, e, 3, 20*time.Second, func(client int) time.Duration {
			return time.Duration(15+client*17) * time.Millisecond
		})
		closeEngine(t, e)
		waits := 0
		for i := range f.from[1:] {
			if f.from[i+1].Sub(f.to[i]) == 10*time.Millisecond {
				waits++
			}
		}
		if n := len(f.rows); waits > n/20+5 || waits == 0 {
			t.Errorf("%d of %d batches waited in vain", waits, n)
		}
	})
}

// Whatever comes and goes, a slot is never free for longer than the window while a request waits.
func TestNoRequestWaitsBeyondTheDeadline(t *testing.T) {
	t.Parallel()
	var waited time.Duration
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			n := 1 + int(seed)%3
			rng := rand.New(rand.NewPCG(seed, 3))
			f := &fake{took: affine}
			const delay = 400 * time.Microsecond
			e := New(Config{Run: f.run, MaxBatch: 8, Delay: delay, Slots: NewSlots(n)})
			start := time.Now()
			var wg sync.WaitGroup
			var mu sync.Mutex
			var arrivals, begins []time.Time
			for range 300 {
				wg.Go(func() {
					came := time.Now()
					a, err := e.Do(t.Context(), one(1))
					if err != nil {
						t.Error(err)
					}
					mu.Lock()
					defer mu.Unlock()
					arrivals, begins = append(arrivals, came), append(begins, came.Add(a.Queue))
				})
				if rng.IntN(3) == 0 {
					time.Sleep(time.Duration(rng.ExpFloat64() * float64(time.Millisecond)))
				}
			}
			wg.Wait()
			closeEngine(t, e)
			for i, from := range f.from {
				// One slot at least is free since the last end of a batch before which none was.
				free := start
				for j, end := range f.to {
					busy := 0
					for k := range f.to {
						if k != i && f.from[k].Before(end) && !f.to[k].Before(end) {
							busy++
						}
					}
					if j != i && busy == n && !end.After(from) && end.After(free) {
						free = end
					}
				}
				// A request has waited since then, or since it came.
				first := from
				for j, begin := range begins {
					if begin.Equal(from) && arrivals[j].Before(first) {
						first = arrivals[j]
					}
				}
				if first.Before(free) {
					first = free
				}
				if idle := from.Sub(first); idle > delay {
					t.Errorf("seed %d, %d slots: batch %d began %v after it could", seed, n, i, idle)
				}
				waited = max(waited, from.Sub(first))
			}
		})
	}
	if waited == 0 {
		t.Error("nobody ever waited: the test tries nothing")
	}
}

// A request of another shape does not wait for requests that cannot join it.
func TestAnotherShapeDoesNotWaitForOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{took: constant(40 * time.Millisecond)}
		e := New(Config{Run: f.run, Delay: time.Second})
		clients(t, e, 8, 100*time.Millisecond, noThinking)
		// A request of the same shape would wait now.
		a, err := e.Do(context.Background(), rowsOf(1, 1, 9))
		if err != nil || a.Queue != 0 {
			t.Errorf("it waited %v (%v)", a.Queue, err)
		}
		closeEngine(t, e)
	})
}

// If more requests wait than a batch holds, the slot is never free.
func TestAFullQueueDoesNotWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{took: affine}
		e := New(Config{Run: f.run, MaxBatch: 8, Delay: time.Second})
		clients(t, e, 20, 50*time.Millisecond, func(int) time.Duration { return 100 * time.Microsecond })
		closeEngine(t, e)
		for i := range f.from[1 : len(f.from)-3] {
			if !f.from[i+1].Equal(f.to[i]) {
				t.Errorf("the slot was free for %v before batch %d of %v", f.from[i+1].Sub(f.to[i]), i+1, f.rows)
			}
		}
	})
}

// The rule by itself: how many waits are skipped after some in vain, and after some that succeed.
func TestHowManyWaitsAreSkipped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var g batchWindow
		// round ends a batch, after which two are expected: one is there, and the other in time or not.
		round := func(inTime bool) (waited bool) {
			g.expect(1, 1, 0, time.Now(), time.Millisecond)
			defer g.stop()
			if !g.wait(1, time.Now(), func() { g.armed = false }) {
				return false
			}
			if inTime {
				g.wait(2, time.Now(), nil)
			} else {
				time.Sleep(time.Millisecond)
				synctest.Wait()
				g.wait(1, time.Now(), nil)
			}
			return true
		}
		next := func(inTime bool) (leftOut int) {
			for !round(inTime) {
				leftOut++
			}
			return leftOut
		}
		for i, step := range []struct {
			inTime  bool
			leftOut int // before the wait
		}{
			{false, 0}, {false, 1}, {false, 3}, {false, 7}, {false, 15}, {false, 31}, {false, 31},
			{true, 31}, {true, 0}, {false, 0}, {true, 15}, {true, 0}, {true, 0}, {true, 0}, {false, 0}, {false, 1},
		} {
			// Batches after which no wait would be do not count.
			g.expect(1, 0, 0, time.Now(), time.Millisecond)
			if got := next(step.inTime); got != step.leftOut {
				t.Errorf("step %d: %d waits were left out, want %d", i, got, step.leftOut)
			}
		}
	})
}

// With random arrivals at half of the model's capacity, nearly all requests are answered soon, and the delay does no
// harm.
func TestHalfLoadAtRandom(t *testing.T) {
	t.Parallel()
	median := map[time.Duration]time.Duration{}
	for _, delay := range []time.Duration{0, 2 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(5, 5))
			f := &fake{took: affine}
			e := New(Config{Run: f.run, MaxBatch: 32, Delay: delay})
			var wg sync.WaitGroup
			var mu sync.Mutex
			var latencies []time.Duration
			for range 5000 { // 32 in 2.64 ms would be 12,100 a second
				time.Sleep(time.Duration(rng.ExpFloat64() / 6050 * float64(time.Second)))
				wg.Go(func() {
					began := time.Now()
					if _, err := e.Do(t.Context(), one(1)); err != nil {
						t.Error(err)
					}
					mu.Lock()
					defer mu.Unlock()
					latencies = append(latencies, time.Since(began))
				})
			}
			wg.Wait()
			closeEngine(t, e)
			slices.Sort(latencies)
			p50, p99 := latencies[len(latencies)/2], latencies[len(latencies)*99/100]
			median[delay] = p50
			t.Logf("delay %v: median %v, 99 of 100 within %v, %d batches", delay, p50, p99, len(f.rows))
			if p99 > 2*p50 {
				t.Errorf("delay %v: 99 of 100 are answered within %v, the median is %v", delay, p99, p50)
			}
		})
	}
	if with, without := median[2*time.Millisecond], median[0]; with > without*105/100 {
		t.Errorf("the median is %v with a delay and %v without", with, without)
	}
}

// Clients share several slots evenly: no slot runs single requests while another runs all others.
func TestSlotsShareAClosedLoop(t *testing.T) {
	t.Parallel()
	for _, n := range []int{2, 4} {
		synctest.Test(t, func(t *testing.T) {
			f := &fake{took: affine}
			e := New(Config{Run: f.run, MaxBatch: 64, Delay: 2 * time.Millisecond, Slots: NewSlots(n)})
			rng := rand.New(rand.NewPCG(1, 1))
			var mu sync.Mutex
			clients(t, e, 64, 300*time.Millisecond, func(int) time.Duration {
				mu.Lock()
				defer mu.Unlock()
				return time.Duration(50+rng.IntN(200)) * time.Microsecond
			})
			closeEngine(t, e)
			for i, got := range f.rows[20 : len(f.rows)-n] {
				if got < 64/n/2 || got > 64/n {
					t.Fatalf("%d slots: batch %d has %d of 64 requests: %v", n, 20+i, got, f.rows)
				}
			}
		})
	}
}
