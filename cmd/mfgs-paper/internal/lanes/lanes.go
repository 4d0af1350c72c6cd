// Package lanes does several things at once: where one leaves a processor idle, another takes it.
package lanes

import (
	"context"
	"sync"

	"golang.org/x/sync/errgroup"
)

// atOnce is how many things are done at a time.
const atOnce = 2

// Run calls f for 0 to n-1, some of them at the same time, until one fails. It returns the first error when
// all calls have returned.
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
