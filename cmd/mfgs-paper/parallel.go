package main

import (
	"context"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
)

// maxParallel is how many tasks run at once: while one leaves processors idle, another uses them.
const maxParallel = 2

// threadsPerTask divides the processors among the tasks that run at once.
func threadsPerTask() int { return max(1, runtime.NumCPU()/maxParallel) }

// runParallel calls f for 0 to n-1 in order, up to maxParallel at once, until one fails. It returns the first error
// after all calls have returned.
func runParallel(ctx context.Context, n int, f func(ctx context.Context, i int) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(maxParallel)
	for i := range n {
		g.Go(func() error {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return f(ctx, i)
		})
	}
	return g.Wait()
}

// runGrouped is runParallel for tasks of which the first of each group prepares what the others use. The first
// task of each group runs before the others of its group, and the tasks of group "" run after the first of all groups.
func runGrouped(ctx context.Context, n int, group func(i int) string, f func(ctx context.Context, i int) error) error {
	var first, others, last []int
	done := map[string]chan struct{}{} // by group, closed when f has returned for the first
	for i := range n {
		switch g := group(i); {
		case g == "":
			last = append(last, i)
		case done[g] != nil:
			others = append(others, i)
		default:
			done[g] = make(chan struct{})
			first = append(first, i)
		}
	}
	order := slices.Concat(first, others, last)
	return runParallel(ctx, n, func(ctx context.Context, at int) error {
		i := order[at]
		if at < len(first) {
			defer close(done[group(i)])
			return f(ctx, i)
		}
		for g, d := range done {
			if own := group(i); own != "" && own != g {
				continue
			}
			select {
			case <-d:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		return f(ctx, i)
	})
}

// namedLocks are mutexes by name. The zero value is ready to use.
type namedLocks struct {
	mu    sync.Mutex
	named map[string]*sync.Mutex
}

// lock acquires the lock of a name and returns the function that releases it.
func (l *namedLocks) lock(name string) (release func()) {
	l.mu.Lock()
	if l.named == nil {
		l.named = map[string]*sync.Mutex{}
	}
	lock := l.named[name]
	if lock == nil {
		lock = new(sync.Mutex)
		l.named[name] = lock
	}
	l.mu.Unlock()
	lock.Lock()
	return lock.Unlock
}
