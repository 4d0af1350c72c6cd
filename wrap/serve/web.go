package serve

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"time"
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
		TLSConfig:      s.tls,
		ErrorLog:       slog.NewLogLogger(s.config.Log.Handler(), slog.LevelWarn),
	}
}

// Handler answers HTTP requests, as Run does at Config.HTTP.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v2", s.serverMetadata)
	mux.HandleFunc("GET /v2/health/live", s.live)
	mux.HandleFunc("GET /v2/health/ready", s.serverReady)
	for _, path := range []string{"/v2/models/{model}", "/v2/models/{model}/versions/{version}"} {
		mux.HandleFunc("GET "+path, s.modelMetadata)
		mux.HandleFunc("GET "+path+"/ready", s.modelReady)
		mux.HandleFunc("GET "+path+"/config", s.modelConfig)
		mux.HandleFunc("GET "+path+"/stats", s.modelStatistics)
		mux.HandleFunc("POST "+path+"/infer", s.modelInfer)
	}
	mux.HandleFunc("GET /v2/models/stats", s.modelStatistics)
	mux.HandleFunc("POST /v2/repository/index", s.repositoryIndex)
	mux.HandleFunc("POST /v2/repository/models/{model}/load", s.repositoryLoad)
	mux.HandleFunc("POST /v2/repository/models/{model}/unload", s.repositoryUnload)
	mux.HandleFunc("POST /v1/predict", s.predict)
	mux.Handle("GET /metrics", s.metrics.Handler())
	mux.HandleFunc("/", s.noPath)
	return s.guard(s.observed(mux))
}
