package serve

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Each request is logged with its status, and a panic is answered if nothing has been written yet.
func TestRequestsAreLoggedAndPanicsAnswered(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		code    int
		body    string
		logged  []string
	}{
		"an answer": {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "yes") },
			200, "yes", []string{"msg=request method=PUT path=/a/b status=200 "}},
		"a status": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404); _, _ = io.WriteString(w, "no") },
			404, "no", []string{"path=/a/b status=404 "}},
		"a panic": {func(http.ResponseWriter, *http.Request) { panic("oh") },
			500, `{"error":"internal error: see the log of the server"}`, []string{"msg=panic error=oh path=/a/b stack=", "status=500 "}},
		"a panic within an answer": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(202); panic("oh") },
			202, "", []string{"msg=panic error=oh", "status=202 "}},
	} {
		for level, all := range map[slog.Level]bool{slog.LevelDebug: true, slog.LevelInfo: false} {
			var log bytes.Buffer
			s := &Server{config: Config{Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: level}))}}
			w := httptest.NewRecorder()
			s.logged(c.handler).ServeHTTP(w, httptest.NewRequest("PUT", "/a/b", nil))
			if w.Code != c.code || w.Body.String() != c.body {
				t.Errorf("%s: %d %s, want %d %s", name, w.Code, w.Body, c.code, c.body)
			}
			for _, want := range c.logged {
				if !strings.Contains(log.String(), want) && (all || strings.Contains(want, "panic")) {
					t.Errorf("%s: the log has %s, and no %q", name, log.String(), want)
				}
			}
			if strings.Contains(log.String(), "msg=request") != all {
				t.Errorf("%s: the log of level %v has %s", name, level, log.String())
			}
		}
	}
	defer func() {
		if v := recover(); v != http.ErrAbortHandler {
			t.Errorf("a handler that gives up leaves %v, want net/http to see it", v)
		}
	}()
	s := &Server{config: Config{Log: slog.New(slog.DiscardHandler)}}
	abort := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	s.logged(abort).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
}
