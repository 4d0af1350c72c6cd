package lanes

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
)

func TestRunCallsAllAndFewAtOnce(t *testing.T) {
	const n = 60
	var done [n]atomic.Int32
	var running, most atomic.Int32
	err := Run(t.Context(), n, func(_ context.Context, i int) error {
		now := running.Add(1)
		defer running.Add(-1)
		for {
			old := most.Load()
			if now <= old || most.CompareAndSwap(old, now) {
				break
			}
		}
		done[i].Add(1)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range done {
		if done[i].Load() != 1 {
			t.Errorf("%d was done %d times", i, done[i].Load())
		}
	}
	if most.Load() > atOnce {
		t.Errorf("%d at once, want at most %d", most.Load(), atOnce)
	}
}

func TestRunGoesOnAtOnce(t *testing.T) {
	var all sync.WaitGroup
	all.Add(atOnce)
	err := Run(t.Context(), atOnce, func(context.Context, int) error {
		all.Done()
		all.Wait() // for the others, which come only if they run at the same time
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestRunEndsWithTheFirstError(t *testing.T) {
	want := errors.New("enough")
	var calls atomic.Int32
	err := Run(t.Context(), 100, func(ctx context.Context, i int) error {
		calls.Add(1)
		if i == 3 {
			return want
		}
		if i > 3 {
			<-ctx.Done()
		}
		return nil
	})
	if n := calls.Load(); !errors.Is(err, want) || n >= 4+atOnce {
		t.Errorf("error %v after %d calls, want %v after 4 and what ran at the same time", err, n, want)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(want)
	if err := Run(ctx, 3, func(context.Context, int) error { return nil }); !errors.Is(err, want) {
		t.Errorf("error %v of a context that has ended, want its cause, %v", err, want)
	}
}

func TestLocksAreByName(t *testing.T) {
	var l Locks
	release := l.Hold("a")
	l.Hold("b")()
	held := make(chan struct{})
	go func() {
		l.Hold("a")()
		close(held)
	}()
	select {
	case <-held:
		t.Error("two hold one lock")
	default:
	}
	release()
	<-held
}
