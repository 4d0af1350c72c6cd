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
	do    func(*client, context.Context) (outcome, error)
}

// kinds are the mixed traffic.
var kinds = []kind{
	{"HTTP", 40, func(cl *client, ctx context.Context) (outcome, error) { return cl.inferHTTP(ctx, cl.request(40)) }},
	{"gRPC", 30, func(cl *client, ctx context.Context) (outcome, error) { return cl.inferRPC(ctx, cl.request(40)) }},
	{"gRPC stream", 5, (*client).stream},
	{"/v1/predict", 10, (*client).predict},
	{"cancelled", 15, (*client).cancelled},
	{"wrong", 10, (*client).wrong},
	{"dribbled", 2, (*client).sendSlowly},
	{"HTTP/1.0", 2, (*client).http10},
}

// slowKinds are slow and have their own clients.
var slowKinds = []kind{
	{"stalled", 3, (*client).stall},
	{"stalled gRPC", 1, (*client).stallRPC},
	{"answers not read", 2, (*client).ignoreAnswers},
	{"stream not read", 2, (*client).ignoreRPCAnswers},
	{"dribbled", 4, (*client).sendSlowly},
}

// slowClients is the number of their clients.
const slowClients = 6

// mix runs all kinds of traffic and the reloads until s.until.
func (s *soak) mix(ctx context.Context) error {
	s.until = time.Now().Add(s.lasts)
	return s.runClients(ctx, func(group *sync.WaitGroup, make func(int) *client) {
		for i := range s.workers {
			group.Go(func() { make(i).repeat(ctx, kinds) })
		}
		for i := range slowClients {
			group.Go(func() { make(s.workers+i).repeat(ctx, slowKinds) })
		}
		group.Go(func() { make(s.workers + slowClients).disturb(ctx) })
	})
}

// runClients runs clients and prints progress.
func (s *soak) runClients(ctx context.Context, begin func(*sync.WaitGroup, func(int) *client)) error {
	web := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: s.workers}}
	defer web.CloseIdleConnections()
	conn, err := s.dial() // shared by all
	if err != nil {
		return err
	}
	defer conn.Close()
	done := make(chan struct{})
	var progress sync.WaitGroup
	progress.Go(func() { s.printProgress(done) })
	var group sync.WaitGroup
	begin(&group, func(i int) *client { return s.newClient(i, web, conn) })
	group.Wait()
	close(done)
	progress.Wait()
	fmt.Print(s.tally.table())
	return nil
}

// printProgress prints progress at intervals.
func (s *soak) printProgress(done <-chan struct{}) {
	started, printed, ticks := time.Now(), time.Now(), time.NewTicker(time.Second)
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
		if time.Since(printed) < s.every && !end {
			continue
		}
		printed = time.Now()
		fmt.Printf("%6.0f s  %v; %s\n", time.Since(started).Seconds(), u, s.tally.line())
	}
}

// over reports whether to start no more requests.
func (s *soak) over(ctx context.Context) bool { return ctx.Err() != nil || time.Now().After(s.until) }

// repeat makes requests of some kinds until the soak is over.
func (cl *client) repeat(ctx context.Context, of []kind) {
	all := 0
	for _, k := range of {
		all += k.often
	}
	for !cl.over(ctx) {
		at := cl.rng.IntN(all)
		for _, k := range of {
			if at -= k.often; at < 0 {
				cl.once(ctx, k)
				break
			}
		}
	}
}

func (cl *client) once(ctx context.Context, k kind) {
	n, started := cl.n, time.Now()
	limited, cancel := context.WithTimeout(ctx, late)
	defer cancel()
	o, err := k.do(cl, limited)
	took := time.Since(started)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		cl.tally.fail("%s: %v after %v", k.name, err, took.Round(time.Millisecond))
		_ = sleep(ctx, time.Second)
	default:
		cl.tally.add(k.name, o, cl.n-n, took)
	}
}

// disturb replaces, corrupts, repairs, reloads and unloads bundles.
func (cl *client) disturb(ctx context.Context) {
	acts := []struct {
		name string
		do   func(context.Context) error
	}{
		{"exchanged, watched", func(ctx context.Context) error { return cl.exchange(ctx, func() error { return nil }) }},
		{"exchanged, SIGHUP", func(ctx context.Context) error { return cl.exchange(ctx, cl.server.hangup) }},
		{"exchanged, asked", func(ctx context.Context) error {
			return cl.exchange(ctx, func() error { return cl.load(ctx, swapped) })
		}},
		{"reloaded by HTTP", func(ctx context.Context) error { return cl.load(ctx, steady) }},
		{"reloaded by gRPC", func(ctx context.Context) error {
			_, err := cl.rpc.RepositoryModelLoad(ctx, &inference.RepositoryModelLoadRequest{ModelName: steady})
			return err
		}},
		{"damaged and repaired", cl.damageAndRepair},
		{"exchanged many times", cl.exchangeRepeatedly},
		{"unloaded and loaded", func(ctx context.Context) error {
			if err := cl.manage(ctx, spare, "unload"); err != nil {
				return err
			}
			_ = sleep(ctx, time.Duration(cl.rng.IntN(300))*time.Millisecond)
			return cl.load(context.WithoutCancel(ctx), spare)
		}},
	}
	for !cl.over(ctx) {
		act := acts[cl.rng.IntN(len(acts))]
		limited, cancel := context.WithTimeout(ctx, 2*late)
		if err := act.do(limited); err != nil && ctx.Err() == nil {
			cl.tally.fail("%s: %v", act.name, err)
		} else if ctx.Err() == nil {
			cl.tally.add("bundles "+act.name, reloaded, 0, 0)
		}
		cancel()
		_ = sleep(ctx, time.Duration(cl.rng.IntN(1000))*time.Millisecond)
	}
}

func (cl *client) manage(ctx context.Context, model, what string) error {
	_, _, err := cl.post(ctx, "/v2/repository/models/"+model+"/"+what, nil)
	return err
}

func (cl *client) load(ctx context.Context, model string) error { return cl.manage(ctx, model, "load") }

// exchange replaces the bundle of swapped by the other one, and waits until it is served.
func (cl *client) exchange(ctx context.Context, hint func() error) error {
	how, err := cl.bundles.put(cl.rng, 1-cl.bundles.current)
	if err != nil {
		return fmt.Errorf("%s: %w", how, err)
	}
	if err := hint(); err != nil {
		return fmt.Errorf("%s: %w", how, err)
	}
	if err := cl.awaitCurrent(ctx); err != nil {
		return fmt.Errorf("%s: %w", how, err)
	}
	return nil
}

// awaitCurrent waits until the bundle on disk is served.
func (cl *client) awaitCurrent(ctx context.Context) error {
	want := cl.bundles.made[cl.bundles.current].sha256
	for {
		got, err := cl.serving(ctx)
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
func (cl *client) serving(ctx context.Context) (string, error) {
	m, err := cl.rpc.ModelMetadata(ctx, &inference.ModelMetadataRequest{Name: swapped})
	return m.GetParameters()["bundle_sha256"].GetStringParam(), err
}

// exchangeRepeatedly replaces the bundle several times, faster than it can be loaded.
func (cl *client) exchangeRepeatedly(ctx context.Context) error {
	for range 2 + cl.rng.IntN(5) {
		if how, err := cl.bundles.put(cl.rng, 1-cl.bundles.current); err != nil {
			return fmt.Errorf("%s: %w", how, err)
		}
		_ = sleep(ctx, time.Duration(cl.rng.IntN(60))*time.Millisecond)
	}
	return cl.awaitCurrent(ctx)
}

// damageAndRepair corrupts the bundle on disk. The one in memory must stay in use.
func (cl *client) damageAndRepair(ctx context.Context) error {
	// Wait for a load of the previous bundle that may be in progress.
	if err := cl.load(ctx, swapped); err != nil {
		return err
	}
	was, err := cl.serving(ctx)
	if err != nil {
		return err
	}
	how, err := cl.bundles.damage(cl.rng)
	if err != nil {
		return err
	}
	repair := func(err error) error {
		_, e := cl.bundles.put(cl.rng, cl.rng.IntN(2))
		return errors.Join(err, e)
	}
	switch cl.rng.IntN(3) {
	case 0:
		err = mustRefuse(cl.load(ctx, swapped))
	case 1:
		err = cl.server.hangup()
	}
	if err != nil {
		return repair(fmt.Errorf("a bundle of which one %s: %w", how, err))
	}
	_ = sleep(ctx, time.Duration(cl.rng.IntN(500))*time.Millisecond)
	if got, err := cl.serving(ctx); err != nil || got != was {
		return repair(fmt.Errorf("one %s, and %.12s serves in the place of %.12s: %v", how, got, was, err))
	}
	if err := repair(nil); err != nil {
		return err
	}
	return cl.awaitCurrent(ctx)
}

// count runs until the requested numbers of requests and reloads.
func (s *soak) count(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ask := []kind{
		{"HTTP", 1, func(cl *client, ctx context.Context) (outcome, error) { return cl.inferHTTP(ctx, cl.request(2)) }},
		{"gRPC", 3, func(cl *client, ctx context.Context) (outcome, error) { return cl.inferRPC(ctx, cl.request(2)) }},
	}
	more := func() bool { return ctx.Err() == nil && s.tally.wrong() < 20 }
	return s.runClients(ctx, func(group *sync.WaitGroup, make func(int) *client) {
		for i := range s.workers {
			group.Go(func() {
				for cl := make(i); more() && (s.exchanges > 0 || s.tally.count(answered) < s.requests); {
					for range 50 {
						cl.once(ctx, ask[min(1, cl.rng.IntN(4))])
						if s.exchanges > 0 {
							pause(cl.rng, 40) // leave the server time to open bundles
						}
					}
				}
			})
		}
		if s.reloads > 0 {
			group.Go(func() {
				for cl := make(s.workers); more() && s.tally.count(reloaded) < s.reloads; {
					cl.once(ctx, kind{"reload", 1, func(cl *client, ctx context.Context) (outcome, error) {
						if cl.n++; cl.n%10 > 0 {
							return reloaded, cl.load(ctx, swapped)
						}
						return reloaded, cl.exchange(ctx, func() error { return cl.load(ctx, swapped) })
					}})
				}
			})
		}
		if s.exchanges > 0 {
			group.Go(func() {
				defer cancel() // ends the requests, too
				for cl := make(s.workers); more() && s.tally.count(reloaded) < s.exchanges; {
					cl.once(ctx, kind{"exchange", 1, func(cl *client, ctx context.Context) (outcome, error) {
						load := func() error { return cl.load(ctx, swapped) }
						hints := []func() error{load, cl.server.hangup, func() error { return nil }}
						return reloaded, cl.exchange(ctx, hints[cl.rng.IntN(len(hints))])
					}})
				}
			})
		}
	})
}
