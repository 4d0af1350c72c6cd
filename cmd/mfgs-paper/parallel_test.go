package main

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
)

func TestRunParallelCallsAllWithBoundedParallelism(t *testing.T) {
	t.Parallel()
	const n = 60
	var done [n]atomic.Int32
	var running, most atomic.Int32
	err := runParallel(t.Context(), n, func(_ context.Context, i int) error {
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
	if most.Load() > maxParallel {
		t.Errorf("%d at once, want at most %d", most.Load(), maxParallel)
	}
}

func TestRunParallelRunsTasksAtOnce(t *testing.T) {
	t.Parallel()
	var all sync.WaitGroup
	all.Add(maxParallel)
	err := runParallel(t.Context(), maxParallel, func(context.Context, int) error {
		all.Done()
		all.Wait() // for the others, which come only if they run at the same time
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestRunParallelEndsWithTheFirstError(t *testing.T) {
	t.Parallel()
	want := errors.New("enough")
	var calls atomic.Int32
	err := runParallel(t.Context(), 100, func(ctx context.Context, i int) error {
		calls.Add(1)
		if i == 3 {
			return want
		}
		if i > 3 {
			<-ctx.Done()
		}
		return nil
	})
	if n := calls.Load(); !errors.Is(err, want) || n >= 4+maxParallel {
		t.Errorf("error %v after %d calls, want %v after 4 and what ran at the same time", err, n, want)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(want)
	if err := runParallel(ctx, 3, func(context.Context, int) error { return nil }); !errors.Is(err, want) {
		t.Errorf("error %v of a context that has ended, want its cause, %v", err, want)
	}
}

func TestRunGroupedBeginsWithTheFirstOfEachGroup(t *testing.T) {
	t.Parallel()
	groups := []string{"", "a", "b", "a", "", "c", "b", "a"}
	group := func(i int) string { return groups[i] }
	for range 200 {
		var mu sync.Mutex
		var begun []int
		ended := map[int]bool{}
		err := runGrouped(t.Context(), len(groups), group, func(_ context.Context, i int) error {
			mu.Lock()
			defer mu.Unlock()
			begun = append(begun, i)
			for first, g := range map[int]string{1: "a", 2: "b", 5: "c"} {
				if first != i && (groups[i] == g || groups[i] == "") && !ended[first] {
					t.Errorf("%d of group %q before %d", i, groups[i], first)
				}
			}
			ended[i] = true
			return nil
		})
		if slices.Sort(begun); err != nil || !slices.Equal(begun, []int{0, 1, 2, 3, 4, 5, 6, 7}) {
			t.Fatalf("%v, error %v", begun, err)
		}
	}
	want := errors.New("enough")
	for failing := range groups {
		err := runGrouped(t.Context(), len(groups), group, func(_ context.Context, i int) error {
			if i == failing {
				return want
			}
			return nil
		})
		if !errors.Is(err, want) {
			t.Errorf("%d fails: error %v", failing, err)
		}
	}
}

func TestLocksAreIndependentByName(t *testing.T) {
	t.Parallel()
	var l namedLocks
	release := l.lock("a")
	l.lock("b")() // which is another
	release()
	var inside, most atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 200 {
				release := l.lock("a")
				if now := inside.Add(1); now > most.Load() {
					most.Store(now)
				}
				runtime.Gosched()
				inside.Add(-1)
				release()
			}
		})
	}
	all.Wait()
	if most.Load() != 1 {
		t.Errorf("%d hold one lock", most.Load())
	}
}
