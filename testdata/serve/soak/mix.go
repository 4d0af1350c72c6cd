//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/mfgs/mfgs/internal/oip/inference"
)

// A kind is a kind of request, with its relative frequency.
type kind struct {
	name  string
	often int
	do    func(*asker, context.Context) (outcome, error)
}

// kinds are the mixed traffic.
var kinds = []kind{
	{"HTTP", 40, func(a *asker, ctx context.Context) (outcome, error) { return a.inferHTTP(ctx, a.question(40)) }},
	{"gRPC", 30, func(a *asker, ctx context.Context) (outcome, error) { return a.inferRPC(ctx, a.question(40)) }},
	{"gRPC stream", 5, (*asker).stream},
	{"/v1/predict", 10, (*asker).predict},
	{"cancelled", 15, (*asker).cancelled},
	{"wrong", 10, (*asker).wrong},
	{"dribbled", 2, (*asker).dribble},
	{"HTTP/1.0", 2, (*asker).http10},
}

// slowKinds are slow and have their own clients.
var slowKinds = []kind{
	{"stalled", 3, (*asker).stall},
	{"stalled gRPC", 1, (*asker).stallRPC},
	{"answers not read", 2, (*asker).deaf},
	{"stream not read", 2, (*asker).deafRPC},
	{"dribbled", 4, (*asker).dribble},
}

// slowAskers is the number of their clients.
const slowAskers = 6

// mix runs all kinds of traffic and the reloads until s.until.
func (s *soak) mix(ctx context.Context) error {
	s.until = time.Now().Add(s.lasts)
	return s.askAll(ctx, func(group *sync.WaitGroup, make func(int) *asker) {
		for i := range s.workers {
			group.Go(func() { make(i).repeat(ctx, kinds) })
		}
		for i := range slowAskers {
			group.Go(func() { make(s.workers+i).repeat(ctx, slowKinds) })
		}
		group.Go(func() { make(s.workers + slowAskers).disturb(ctx) })
	})
}

// askAll runs clients and prints progress.
func (s *soak) askAll(ctx context.Context, begin func(*sync.WaitGroup, func(int) *asker)) error {
	web := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: s.workers}}
	defer web.CloseIdleConnections()
	conn, err := s.dial() // shared by all
	if err != nil {
		return err
	}
	defer conn.Close()
	done := make(chan struct{})
	var telling sync.WaitGroup
	telling.Go(func() { s.tell(done) })
	var group sync.WaitGroup
	begin(&group, func(i int) *asker { return s.newAsker(i, web, conn) })
	group.Wait()
	close(done)
	telling.Wait()
	fmt.Print(s.tally.table())
	return nil
}

// tell prints progress at intervals.
func (s *soak) tell(done <-chan struct{}) {
	started, told, ticks := time.Now(), time.Now(), time.NewTicker(time.Second)
	defer ticks.Stop()
	for end := false; !end; {
		select {
		case <-ticks.C:
		case <-done:
			end = true
		}
		u, err := s.server.usage()
		if err != nil {
			s.tally.fail("the server is gone: %v", err)
			return
		}
		s.rss = append(s.rss, u.rss)
		if time.Since(told) < s.every && !end {
			continue
		}
		told = time.Now()
		fmt.Printf("%6.0f s  %v; %s\n", time.Since(started).Seconds(), u, s.tally.line())
	}
}

// over reports whether to start no more requests.
func (s *soak) over(ctx context.Context) bool { return ctx.Err() != nil || time.Now().After(s.until) }

// repeat makes requests of some kinds until the soak is over.
func (a *asker) repeat(ctx context.Context, of []kind) {
	all := 0
	for _, k := range of {
		all += k.often
	}
	for !a.over(ctx) {
		at := a.rng.IntN(all)
		for _, k := range of {
			if at -= k.often; at < 0 {
				a.once(ctx, k)
				break
			}
		}
	}
}

func (a *asker) once(ctx context.Context, k kind) {
	n, started := a.n, time.Now()
	limited, cancel := context.WithTimeout(ctx, late)
	defer cancel()
	o, err := k.do(a, limited)
	took := time.Since(started)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		a.tally.fail("%s: %v after %v", k.name, err, took.Round(time.Millisecond))
		_ = sleep(ctx, time.Second)
	default:
		a.tally.add(k.name, o, a.n-n, took)
	}
}

// disturb replaces, corrupts, repairs, reloads and unloads bundles.
func (a *asker) disturb(ctx context.Context) {
	acts := []struct {
		name string
		do   func(context.Context) error
	}{
		{"exchanged, watched", func(ctx context.Context) error { return a.exchange(ctx, func() error { return nil }) }},
		{"exchanged, SIGHUP", func(ctx context.Context) error { return a.exchange(ctx, a.server.hangup) }},
		{"exchanged, asked", func(ctx context.Context) error {
			return a.exchange(ctx, func() error { return a.load(ctx, swapped) })
		}},
		{"reloaded by HTTP", func(ctx context.Context) error { return a.load(ctx, steady) }},
		{"reloaded by gRPC", func(ctx context.Context) error {
			_, err := a.rpc.RepositoryModelLoad(ctx, &inference.RepositoryModelLoadRequest{ModelName: steady})
			return err
		}},
		{"damaged and mended", a.damageAndMend},
		{"exchanged many times", a.flutter},
		{"unloaded and loaded", func(ctx context.Context) error {
			if err := a.manage(ctx, spare, "unload"); err != nil {
				return err
			}
			_ = sleep(ctx, time.Duration(a.rng.IntN(300))*time.Millisecond)
			return a.load(context.WithoutCancel(ctx), spare)
		}},
	}
	for !a.over(ctx) {
		act := acts[a.rng.IntN(len(acts))]
		limited, cancel := context.WithTimeout(ctx, 2*late)
		if err := act.do(limited); err != nil && ctx.Err() == nil {
			a.tally.fail("%s: %v", act.name, err)
		} else if ctx.Err() == nil {
			a.tally.add("bundles "+act.name, reloaded, 0, 0)
		}
		cancel()
		_ = sleep(ctx, time.Duration(a.rng.IntN(1000))*time.Millisecond)
	}
}

func (a *asker) manage(ctx context.Context, model, what string) error {
	_, _, err := a.post(ctx, "/v2/repository/models/"+model+"/"+what, nil)
	return err
}

func (a *asker) load(ctx context.Context, model string) error { return a.manage(ctx, model, "load") }

// exchange replaces the bundle of swapped by the other one, and waits until it is served.
func (a *asker) exchange(ctx context.Context, hint func() error) error {
	how, err := a.bundles.put(a.rng, 1-a.bundles.current)
	if err != nil {
		return fmt.Errorf("%s: %w", how, err)
	}
	if err := hint(); err != nil {
		return fmt.Errorf("%s: %w", how, err)
	}
	if err := a.awaitCurrent(ctx); err != nil {
		return fmt.Errorf("%s: %w", how, err)
	}
	return nil
}

// awaitCurrent waits until the bundle on disk is served.
func (a *asker) awaitCurrent(ctx context.Context) error {
	want := a.bundles.made[a.bundles.current].sha256
	for {
		got, err := a.serving(ctx)
		if err == nil && got == want {
			return nil
		}
		if err != nil {
			return err
		}
		if sleep(ctx, 10*time.Millisecond) != nil {
			return fmt.Errorf("the bundle on disk, %.12s, does not serve, but %.12s does", want, got)
		}
	}
}

// serving returns the hash of the bundle served as swapped.
func (a *asker) serving(ctx context.Context) (string, error) {
	m, err := a.rpc.ModelMetadata(ctx, &inference.ModelMetadataRequest{Name: swapped})
	return m.GetParameters()["bundle_sha256"].GetStringParam(), err
}

// flutter replaces the bundle several times, faster than it can be loaded.
func (a *asker) flutter(ctx context.Context) error {
	for range 2 + a.rng.IntN(5) {
		if how, err := a.bundles.put(a.rng, 1-a.bundles.current); err != nil {
			return fmt.Errorf("%s: %w", how, err)
		}
		_ = sleep(ctx, time.Duration(a.rng.IntN(60))*time.Millisecond)
	}
	return a.awaitCurrent(ctx)
}

// damageAndMend corrupts the bundle on disk. The one in memory must stay in use.
func (a *asker) damageAndMend(ctx context.Context) error {
	// Wait for a load of the previous bundle that may be in progress.
	if err := a.load(ctx, swapped); err != nil {
		return err
	}
	was, err := a.serving(ctx)
	if err != nil {
		return err
	}
	how, err := a.bundles.damage(a.rng)
	if err != nil {
		return err
	}
	mend := func(err error) error {
		_, e := a.bundles.put(a.rng, a.rng.IntN(2))
		return errors.Join(err, e)
	}
	switch a.rng.IntN(3) {
	case 0:
		err = mustRefuse(a.load(ctx, swapped))
	case 1:
		err = a.server.hangup()
	}
	if err != nil {
		return mend(fmt.Errorf("a bundle of which one %s: %w", how, err))
	}
	_ = sleep(ctx, time.Duration(a.rng.IntN(500))*time.Millisecond)
	if got, err := a.serving(ctx); err != nil || got != was {
		return mend(fmt.Errorf("one %s, and %.12s serves in the place of %.12s: %v", how, got, was, err))
	}
	if err := mend(nil); err != nil {
		return err
	}
	return a.awaitCurrent(ctx)
}

// count runs until the requested numbers of requests and reloads.
func (s *soak) count(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ask := []kind{
		{"HTTP", 1, func(a *asker, ctx context.Context) (outcome, error) { return a.inferHTTP(ctx, a.question(2)) }},
		{"gRPC", 3, func(a *asker, ctx context.Context) (outcome, error) { return a.inferRPC(ctx, a.question(2)) }},
	}
	more := func() bool { return ctx.Err() == nil && s.tally.wrong() < 20 }
	return s.askAll(ctx, func(group *sync.WaitGroup, make func(int) *asker) {
		for i := range s.workers {
			group.Go(func() {
				for a := make(i); more() && (s.exchanges > 0 || s.tally.count(answered) < s.requests); {
					for range 50 {
						a.once(ctx, ask[min(1, a.rng.IntN(4))])
						if s.exchanges > 0 {
							pause(a.rng, 40) // leave the server time to open bundles
						}
					}
				}
			})
		}
		if s.reloads > 0 {
			group.Go(func() {
				for a := make(s.workers); more() && s.tally.count(reloaded) < s.reloads; {
					a.once(ctx, kind{"reload", 1, func(a *asker, ctx context.Context) (outcome, error) {
						if a.n++; a.n%10 > 0 {
							return reloaded, a.load(ctx, swapped)
						}
						return reloaded, a.exchange(ctx, func() error { return a.load(ctx, swapped) })
					}})
				}
			})
		}
		if s.exchanges > 0 {
			group.Go(func() {
				defer cancel() // ends the requests, too
				for a := make(s.workers); more() && s.tally.count(reloaded) < s.exchanges; {
					a.once(ctx, kind{"exchange", 1, func(a *asker, ctx context.Context) (outcome, error) {
						hints := []func() error{
							func() error { return a.load(ctx, swapped) }, a.server.hangup, func() error { return nil },
						}
						return reloaded, a.exchange(ctx, hints[a.rng.IntN(len(hints))])
					}})
				}
			})
		}
	})
}
