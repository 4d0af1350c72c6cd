package serve

import (
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"
)

// logged logs requests at level Debug and panics at level Error, and answers requests whose handler panics.
func (s *Server) logged(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		started, status := time.Now(), &statusWriter{ResponseWriter: w}
		defer func() {
			if v := recover(); v != nil {
				if v == http.ErrAbortHandler {
					panic(v)
				}
				s.config.Log.Error("panic", "error", fmt.Sprint(v), "path", r.URL.Path, "stack", string(debug.Stack()))
				if status.code == 0 {
					s.refuse(status, errPanicked)
				}
			}
			if s.config.Log.Enabled(r.Context(), slog.LevelDebug) {
				s.config.Log.Debug("request", "method", r.Method, "path", r.URL.Path, "status", status.code,
					"seconds", time.Since(started).Seconds(), "client", r.RemoteAddr)
			}
		}()
		next.ServeHTTP(status, r)
	})
}

// A statusWriter records the status of a response.
type statusWriter struct {
	http.ResponseWriter
	code int // 0: nothing is written yet
}

func (w *statusWriter) WriteHeader(code int) {
	if w.code == 0 {
		w.code = code
	}
	w.ResponseWriter.WriteHeader(code)
}

func (w *statusWriter) Write(b []byte) (int, error) {
	if w.code == 0 {
		w.code = http.StatusOK
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
