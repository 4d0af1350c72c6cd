package serve

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/mfgs/mfgs/wrap/serve/internal/page"
)

const (
	headerTimeout = 10 * time.Second // for the headers of a request
	idleTimeout   = 2 * time.Minute
	maxHeader     = 64 << 10
)

// webServer returns the HTTP server, whose requests end with ctx at the latest.
func (s *Server) webServer(ctx context.Context) *http.Server {
	return &http.Server{
		Handler:           s.Handler(),
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: headerTimeout,
		// The body has the timeout of the request, and so has the answer: clients that do not read it are cut off.
		ReadTimeout:    s.config.Timeout + headerTimeout,
		WriteTimeout:   2*s.config.Timeout + headerTimeout,
		IdleTimeout:    idleTimeout,
		MaxHeaderBytes: maxHeader,
		TLSConfig:      s.tls.Clone(), // net/http writes to it
		ErrorLog:       slog.NewLogLogger(s.config.Log.Handler(), slog.LevelWarn),
	}
}

// An activity tracks the state of each connection of an HTTP server.
type activity struct {
	mu    sync.Mutex
	state map[net.Conn]http.ConnState
	last  time.Time // of the last change
}

// changed is the http.Server.ConnState hook.
func (a *activity) changed(c net.Conn, state http.ConnState) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.state == nil {
		a.state = map[net.Conn]http.ConnState{}
	}
	if a.last, a.state[c] = time.Now(), state; state == http.StateClosed {
		delete(a.state, c)
	}
}

// snapshot returns how many connections are open, how many of them have a request under way, and the time of the last
// change.
func (a *activity) snapshot() (open, active int, last time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, state := range a.state {
		if state == http.StateActive {
			active++
		}
	}
	return len(a.state), active, a.last
}

// quiet waits until no request is under way and, if connections are open, nothing has changed for the pause. The end of
// ctx ends the wait; it is an error only if requests are under way then.
func (a *activity) quiet(ctx context.Context, pause time.Duration) error {
	begun := time.Now()
	for ; ; time.Sleep(tick) {
		open, active, last := a.snapshot()
		if begun.After(last) {
			last = begun
		}
		late := ctx.Err()
		if open == 0 || active == 0 && (late != nil || time.Since(last) >= pause) {
			return nil
		}
		if late != nil {
			return late
		}
	}
}

// closeNew closes the connections without any request so far.
func (a *activity) closeNew() {
	var all []net.Conn
	a.mu.Lock()
	for c, state := range a.state {
		if state == http.StateNew {
			all = append(all, c)
		}
	}
	a.mu.Unlock()
	for _, c := range all {
		c.Close()
	}
}

// adminServer returns the HTTP server of Config.Admin.
func (s *Server) adminServer() *http.Server {
	mux := http.NewServeMux()
	for _, r := range s.adminRoutes() {
		mux.HandleFunc(r.pattern, r.answer)
	}
	mux.HandleFunc("/", s.noMethod(mux))
	return &http.Server{
		Handler:           s.named(s.admin, "use that name", s.logged(mux)),
		ReadHeaderTimeout: headerTimeout, ReadTimeout: headerTimeout, WriteTimeout: 3 * headerTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		ErrorLog: slog.NewLogLogger(s.config.Log.Handler(), slog.LevelWarn),
	}
}

// A route is a pattern of http.ServeMux and its handler. openapi.json describes all of them.
type route struct {
	pattern string
	answer  http.HandlerFunc
}

// adminRoutes returns the routes of Config.Admin, which Config.HTTP has as well.
func (s *Server) adminRoutes() []route {
	return []route{
		{"GET /v2/health/live", s.live},
		{"GET /v2/health/ready", s.serverReady},
		{"GET /metrics", s.metrics.Handler().ServeHTTP},
	}
}

func (s *Server) routes() []route {
	people := page.Handler(writePacked, s.noPath)
	all := append(s.adminRoutes(), []route{
		{"GET /v2", s.serverMetadata},
		{"GET /v2/models/stats", s.modelStatistics},
		{"POST /v2/repository/index", s.repositoryIndex},
		{"POST /v2/repository/models/{model}/load", s.repositoryLoad},
		{"POST /v2/repository/models/{model}/unload", s.repositoryUnload},
		{"GET /{$}", people},
		{"GET /page/{version}/{name}", people},
		{"GET /openapi.json", s.openAPI},
		{"GET /v1/models", s.list},
		{"POST /v1/predict", s.predict},
	}...)
	for _, path := range []string{"/v2/models/{model}", "/v2/models/{model}/versions/{version}"} {
		all = append(all, []route{
			{"GET " + path, s.modelMetadata},
			{"GET " + path + "/ready", s.modelReady},
			{"GET " + path + "/config", s.modelConfig},
			{"GET " + path + "/stats", s.modelStatistics},
			{"POST " + path + "/infer", s.modelInfer},
		}...)
	}
	return all
}

// Handler answers HTTP requests, as Run does at Config.HTTP.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	for _, r := range s.routes() {
		mux.HandleFunc(r.pattern, r.answer)
	}
	mux.HandleFunc("/", s.noMethod(mux))
	return revived(s.drainBody(s.guard(s.logged(mux))))
}

// revived answers requests on connections whose context net/http has cancelled although the client is still there.
// This happens if a read deadline passes just after the end of a body: net/http still takes requests from the
// connection, but their contexts are cancelled from the start. Such a connection is closed after one more request.
func revived(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if ctx := r.Context(); ctx.Err() != nil && r.ProtoMajor == 1 {
			w.Header().Set("Connection", "close")
			r = r.WithContext(context.WithoutCancel(ctx))
		}
		next.ServeHTTP(w, r)
	})
}

// drainBody reads the rest of a body whose request was answered early: a client that is still sending when the
// connection is closed never sees the answer. If the rest comes soon, it is read before the answer goes out, so
// that the connection stays usable. Otherwise the answer goes out first, and net/http closes the connection
// afterwards.
func (s *Server) drainBody(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := &ended{ReadCloser: r.Body}
		r.Body = body
		next.ServeHTTP(w, r)
		if body.err != nil || r.ContentLength == 0 || r.ProtoMajor != 1 || r.Header.Get("Expect") != "" {
			return
		}
		c := http.NewResponseController(w)
		if c.SetReadDeadline(time.Now().Add(soon)) == nil {
			_, err := io.CopyN(io.Discard, body, s.config.MaxBody)
			_ = c.SetReadDeadline(time.Now().Add(s.config.Timeout))
			if errors.Is(err, io.EOF) {
				return
			}
		}
		_ = c.Flush()
		_, _ = io.CopyN(io.Discard, body, 4*s.config.MaxBody)
	})
}

// soon is how long an answer waits for the rest of a body.
const soon = 250 * time.Millisecond
