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
	headerTimeout = 10 * time.Second // for the head of a request
	idleTimeout   = 2 * time.Minute
	maxHeader     = 64 << 10
)

// webServer is the HTTP server, whose requests end with ctx at the latest.
func (s *Server) webServer(ctx context.Context) *http.Server {
	return &http.Server{
		Handler:           s.Handler(),
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: headerTimeout,
		// A body has the time of its request, and so has the answer: who does not read it is cut off.
		ReadTimeout:    s.config.Timeout + headerTimeout,
		WriteTimeout:   2*s.config.Timeout + headerTimeout,
		IdleTimeout:    idleTimeout,
		MaxHeaderBytes: maxHeader,
		TLSConfig:      s.tls.Clone(), // which is written to when serving begins
		ErrorLog:       slog.NewLogLogger(s.config.Log.Handler(), slog.LevelWarn),
	}
}

// An activity is the state of each connection of an HTTP server.
type activity struct {
	mu    sync.Mutex
	state map[net.Conn]http.ConnState
	last  time.Time // that one of them changed
}

// changed is http.Server.ConnState.
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

// snapshot returns how many connections are open, on how many of them a request is under way, and when one of them
// last came, went, or began or ended a request.
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

// quiet waits until no request is under way, and none has come for the pause where connections are open, which it
// does not wait for beyond ctx. It is an error if requests are under way then.
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

// closeNew closes the connections on which no request has begun.
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

// adminServer is the HTTP server of Config.Admin.
func (s *Server) adminServer() *http.Server {
	mux := http.NewServeMux()
	for _, r := range s.adminRoutes() {
		mux.HandleFunc(r.pattern, r.answer)
	}
	mux.HandleFunc("/", s.noMethod(mux))
	return &http.Server{
		Handler:           s.named(s.admin, "use that name", s.observed(mux)),
		ReadHeaderTimeout: headerTimeout, ReadTimeout: headerTimeout, WriteTimeout: 3 * headerTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		ErrorLog: slog.NewLogLogger(s.config.Log.Handler(), slog.LevelWarn),
	}
}

// A route is a pattern of http.ServeMux, and what answers it. openapi.json describes all of them.
type route struct {
	pattern string
	answer  http.HandlerFunc
}

// adminRoutes are those of Config.Admin, which Config.HTTP has as well.
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
	return revived(s.drainBody(s.guard(s.observed(mux))))
}

// revived answers requests on connections whose context net/http has ended though their clients are there: it
// does so when a deadline for reading passes in the moment after the end of a body, and takes requests from the
// connection all the same, whose contexts are then ended from the beginning. Such a connection takes one more.
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
// connection is closed never sees the answer. What comes soon is read first, so that the connection stays
// usable. Otherwise the answer goes out first, and net/http closes the connection in the end.
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
