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

// New opens the addresses and the bundles. It fails if a bundle cannot be served.
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
	// Half of the memory is for complete requests, whatever is sent of incomplete ones.
	s.inbound = inbound.New(s.inFlight, max(c.InFlight/2, c.MaxBody), c.Log)
	// Clients ask about the server as a whole, "", and about the protocol's service.
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
		c.Log.Warn("few connections: the limit of open files is low: raise it (ulimit -n)",
			"limit", most, "limit_of_client", each)
	}
	// Addresses come first: an occupied one is found before the bundles are loaded.
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

// Run serves until ctx ends, and then until all requests under way are answered, for Config.Drain at most. It
// returns nil if all were answered, and closes the server.
func (s *Server) Run(ctx context.Context) error {
	defer s.Close()
	// Requests outlive ctx, for Config.Drain.
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
			s.grpc.awaitFirstByte(drain) // gRPC drops connections that it has not read from
			return s.stopRPC(drain, rpc)
		})
	}
	if s.admin != nil {
		admin := s.adminServer()
		run(func() error { return admin.Serve(s.admin) })
		defer admin.Close() // it answers until the end
	}
	var watching sync.WaitGroup
	watching.Go(func() { s.watch(ctx) })
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
		err = fmt.Errorf("the server stopped: %w", err)
	}
	s.ending.Store(true)
	s.health.Shutdown() // reports NOT_SERVING
	room := max(0, s.config.Drain)
	s.config.Log.Info("shutting down", "notice", s.config.Notice.String(), "drain", room.String())
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
		err = fmt.Errorf("requests still in progress after %v were cut off", room)
	}
	return err
}

// serveWeb serves with TLS and HTTP/2 if TLS is configured.
func serveWeb(web *http.Server, l net.Listener) error {
	if web.TLSConfig != nil {
		return web.ServeTLS(l, "", "")
	}
	return web.Serve(l)
}

// stopWeb ends an HTTP server whose listener is stopped, once all requests are answered and none has come on the open
// connections for a while. http.Server.Shutdown alone would drop requests that come after it, and wait for new
// connections: it is used for HTTP/2 only, where it sends GOAWAY.
func stopWeb(ctx context.Context, web *http.Server, at *activity) error {
	defer web.Close()
	if err := at.quiet(ctx, linger); err != nil {
		return err
	}
	at.closeNew()
	last, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_ = web.Shutdown(last)
	return at.quiet(ctx, 0) // waits for streams that had begun
}

// stopRPC ends a gRPC server. Idle connections and health watches may be cut off.
func (s *Server) stopRPC(ctx context.Context, rpc *grpc.Server) error {
	done := make(chan struct{})
	go func() { rpc.GracefulStop(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		under := s.calls.Load()
		s.grpc.closeAll() // Stop would wait up to ten seconds for handshakes
		rpc.Stop()
		<-done
		if under == 0 {
			return nil
		}
		return ctx.Err()
	}
}

// Close releases what New opened. Run calls it.
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

// tracesTime is how long the last traces may take to be sent.
const tracesTime = 5 * time.Second

// Reload reloads the bundles that have changed. One that cannot be loaded is an error, and the one before stays.
func (s *Server) Reload(ctx context.Context) error {
	var errs []error
	for _, m := range s.models {
		if m.current.Load() != nil {
			errs = append(errs, m.load(ctx, false))
		}
	}
	return errors.Join(errs...)
}

// longestPause is the longest time between two attempts to load a broken bundle.
const longestPause = 10 * time.Minute

// watch checks the bundles every Config.Watch. A bundle that cannot be loaded, perhaps because it is still being
// copied, is tried again after growing pauses, and once it has changed.
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
			if m.load(ctx, false) == nil { // load logs and keeps the error
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
