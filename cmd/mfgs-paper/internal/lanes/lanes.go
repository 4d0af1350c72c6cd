// Package lanes does several things at once: where one leaves a processor idle, another takes it.
package lanes

import (
	"context"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
)

// atOnce is how many things are done at a time.
const atOnce = 2

// Threads is how many threads each thing may have, so that they are as many as processors in all, unless things
// do several at once themselves.
func Threads() int { return max(1, runtime.NumCPU()/atOnce) }

// Run calls f for 0 to n-1 in this order, some of them at the same time, until one fails. It returns the
// first error when all calls have returned.
func Run(ctx context.Context, n int, f func(ctx context.Context, i int) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
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

// Grouped is Run in another order: f is called for the first of each group, which may leave what others take;
// when it has returned for these, of the same group; and when it has for the first of all groups, for those of
// the group "".
func Grouped(ctx context.Context, n int, group func(i int) string, f func(ctx context.Context, i int) error) error {
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
	return Run(ctx, n, func(ctx context.Context, at int) error {
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

// Locks are locks by name. The zero value has none that is held.
type Locks struct {
	mu    sync.Mutex
	named map[string]*sync.Mutex
}

// Hold waits until nobody holds the lock of a name, and returns what releases it.
func (l *Locks) Hold(name string) (release func()) {
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
