package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"sync"
	"time"

	"github.com/mfgs/mfgs/internal/oip"
	"github.com/mfgs/mfgs/internal/oip/inference"
	"github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/serve/internal/engine"
	"github.com/mfgs/mfgs/wrap/serve/internal/inbound"
	"github.com/mfgs/mfgs/wrap/serve/internal/telemetry"
	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
)

// New opens the addresses and the bundles. A bundle that cannot be served is an error.
func New(ctx context.Context, c Config) (*Server, error) {
	c, err := c.complete()
	if err != nil {
		return nil, err
	}
	s := &Server{
		config: c, slots: engine.NewSlots(runtime.GOMAXPROCS(0)),
		inFlight: semaphore.NewWeighted(c.InFlight), health: health.NewServer(), limits: oip.Limits{Bytes: c.MaxBody},
		metrics: telemetry.New(telemetry.Config{}),
	}
	// Half of the memory is for requests that are whole, whatever is sent of others.
	s.inbound = inbound.New(s.inFlight, max(c.InFlight/2, c.MaxBody), c.Log)
	// It is asked about the server as a whole, and about the protocol's service.
	name := inference.GRPCInferenceService_ServiceDesc.ServiceName
	s.health.SetServingStatus(name, grpc_health_v1.HealthCheckResponse_SERVING)
	if s.tls, err = c.TLS.load(); err != nil {
		return nil, err
	}
	s.tracing, err = telemetry.NewTracing(ctx, telemetry.TracingConfig{
		Endpoint: c.Traces, Version: wrap.Version(), Log: c.Log,
	})
	if err != nil {
		return nil, err
	}
	most, each := connectionsWithin(fileLimit(), c.MaxPerClient)
	if most < maxConnections {
		c.Log.Warn("few connections: the process may not open more files: raise its limit (ulimit -n)",
			"limit", most, "limit_of_client", each)
	}
	// Addresses come first: that one is taken shows before the work of loading.
	for _, one := range []struct {
		to         **listener
		address    string
		most, each int
	}{
		{&s.http, c.HTTP, most, each}, {&s.grpc, c.GRPC, most, each},
		{&s.admin, c.Admin, maxAdminConnections, maxAdminConnections / 4},
	} {
		if *one.to, err = listen(one.address, one.most, one.each, c.Log); err != nil {
			s.Close()
			return nil, err
		}
	}
	for _, b := range c.Bundles {
		m := &model{Bundle: b, config: &s.config, slots: s.slots, metrics: s.metrics, changed: s.updateHealth}
		s.models = append(s.models, m)
	}
	for _, m := range s.models {
		if err := m.load(ctx, true); err != nil {
			s.Close()
			return nil, err
		}
	}
	return s, nil
}

// Run serves until ctx ends, and then as long as requests are under way, but no longer than Config.Drain.
// It returns nil when all of them were answered. It closes the server.
func (s *Server) Run(ctx context.Context) error {
	defer s.Close()
	// Requests outlive ctx: they have Drain.
	requests, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	failed := make(chan error, 3)
	run := func(serve func() error) (ended <-chan struct{}) {
		done := make(chan struct{})
		go func() { failed <- serve(); close(done) }()
		return done
	}
	var stops []func(context.Context) error
	if s.http != nil {
		web, at := s.webServer(requests), activity{}
		web.ConnState = at.changed
		ended := run(func() error { return serveWeb(web, s.http) })
		stops = append(stops, func(drain context.Context) error {
			s.http.stop(drain)
			<-ended
			return stopWeb(drain, web, &at)
		})
	}
	if s.grpc != nil {
		rpc := s.rpcServer()
		ended := run(func() error { return rpc.Serve(s.grpc) })
		stops = append(stops, func(drain context.Context) error {
			s.grpc.stop(drain)
			<-ended
			s.grpc.awaitFirstByte(drain) // gRPC drops connections that it has not begun to read
			return s.stopRPC(drain, rpc)
		})
	}
	if s.admin != nil {
		admin := s.adminServer()
		run(func() error { return admin.Serve(s.admin) })
		defer admin.Close() // it answers to the last
	}
	var watching sync.WaitGroup
	watching.Go(func() { s.watch(ctx) })
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
		err = fmt.Errorf("the server ended: %w", err)
	}
	s.ending.Store(true)
	s.health.Shutdown() // it says so
	room := max(0, s.config.Drain)
	s.config.Log.Info("ending", "notice", s.config.Notice.String(), "drain", room.String())
	if err == nil {
		time.Sleep(s.config.Notice)
	}
	drain, stop := context.WithTimeout(requests, room)
	defer stop()
	var draining sync.WaitGroup
	left := make([]error, len(stops))
	for i, stop := range stops {
		draining.Go(func() { left[i] = stop(drain) })
	}
	draining.Wait()
	cancel()
	watching.Wait()
	if e := errors.Join(left...); e != nil && err == nil {
		err = fmt.Errorf("requests were still under way after %v, and were cut off", room)
	}
	return err
}

// serveWeb serves by TLS where that is asked for, and HTTP/2 then too.
func serveWeb(web *http.Server, l net.Listener) error {
	if web.TLSConfig != nil {
		return web.ServeTLS(l, "", "")
	}
	return web.Serve(l)
}

// stopWeb ends an HTTP server whose listener is stopped, when all requests are answered and none has come for a
// while on the connections that are left. http.Server.Shutdown drops requests that come after it, and waits for
// connections that are new: it is left with those of HTTP/2, which it sends GOAWAY.
func stopWeb(ctx context.Context, web *http.Server, at *activity) error {
	defer web.Close()
	if err := at.quiet(ctx, linger); err != nil {
		return err
	}
	at.closeNew()
	last, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_ = web.Shutdown(last)
	return at.quiet(ctx, 0) // streams that had begun
}

// stopRPC ends a gRPC server: connections on which nothing is under way, and watches of the server's health, are
// no loss.
func (s *Server) stopRPC(ctx context.Context, rpc *grpc.Server) error {
	done := make(chan struct{})
	go func() { rpc.GracefulStop(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		under := s.calls.Load()
		s.grpc.closeAll() // Stop would wait for handshakes, which have ten seconds
		rpc.Stop()
		<-done
		if under == 0 {
			return nil
		}
		return ctx.Err()
	}
}

// Close releases what New opened. Run does so by itself.
func (s *Server) Close() error {
	var err error
	for _, l := range []*listener{s.http, s.grpc, s.admin} {
		if l != nil {
			if e := l.Close(); !errors.Is(e, net.ErrClosed) {
				err = cmp.Or(err, e)
			}
		}
	}
	for _, m := range s.models {
		err = cmp.Or(err, m.unload())
	}
	last, cancel := context.WithTimeout(context.Background(), tracesTime)
	defer cancel()
	return cmp.Or(err, s.tracing.Shutdown(last))
}

// tracesTime is for the last traces to be sent.
const tracesTime = 5 * time.Second

// Reload looks at all bundles anew: those that have changed take the place of the ones that are served,
// if they can be served.
func (s *Server) Reload(ctx context.Context) error {
	var errs []error
	for _, m := range s.models {
		if m.current.Load() != nil {
			errs = append(errs, m.load(ctx, false))
		}
	}
	return errors.Join(errs...)
}

// longestPause is between two attempts at most to load a bundle that cannot be loaded.
const longestPause = 10 * time.Minute

// watch looks at the bundles every so often. One that cannot be loaded is tried again after pauses that grow,
// and once it has changed: it may have been met while it was copied.
func (s *Server) watch(ctx context.Context) {
	if s.config.Watch == 0 {
		return
	}
	type attempt struct {
		sum   string
		pause time.Duration
		next  time.Time
	}
	failed := map[*model]attempt{}
	ticks := time.NewTicker(s.config.Watch)
	defer ticks.Stop()
	for {
		var now time.Time
		select {
		case <-ctx.Done():
			return
		case now = <-ticks.C:
		}
		for _, m := range s.models {
			rev, sum, last := m.current.Load(), sumOf(m.Dir), failed[m]
			if rev == nil || sum == "" || sum == rev.sha256 || sum == last.sum && now.Before(last.next) {
				continue
			}
			if m.load(ctx, false) == nil { // which says and keeps what went wrong
				delete(failed, m)
				continue
			}
			pause := s.config.Watch
			if sum == last.sum {
				pause = min(2*last.pause, max(longestPause, pause))
			}
			failed[m] = attempt{sum, pause, time.Now().Add(pause)}
		}
	}
}
