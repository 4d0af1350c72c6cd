package serve

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/mfgs/mfgs/internal/oip"
	"github.com/mfgs/mfgs/wrap/serve/internal/engine"
)

// A refusal reveals no internals, and says when to retry if that helps.
func TestRefusalsSayWhyAndWhenToRetry(t *testing.T) {
	t.Parallel()
	const internal = "internal error: see the log of the server"
	busy := func(after time.Duration) error {
		return runError(t.Context(), &engine.OverloadError{RetryAfter: after})
	}
	panicked := &engine.PanicError{Value: "secret", Stack: []byte("secret.go:1")}
	for name, c := range map[string]struct {
		err    error
		http   int
		after  string // Retry-After, in seconds
		grpc   codes.Code
		delay  time.Duration // of RetryInfo; 0: none
		says   string
		logged bool
	}{
		"a fault":           {errors.New("secret"), 500, "", codes.Internal, 0, internal, true},
		"a panic":           {runError(t.Context(), panicked), 500, "", codes.Internal, 0, internal, true},
		"a short queue":     {busy(20 * time.Millisecond), 429, "1", codes.ResourceExhausted, 20 * time.Millisecond, "overloaded", false},
		"no queue":          {busy(0), 429, "1", codes.ResourceExhausted, 0, "overloaded", false},
		"a long queue":      {busy(2100 * time.Millisecond), 429, "3", codes.ResourceExhausted, 2100 * time.Millisecond, "overloaded", false},
		"no memory":         {errBusy, 429, "1", codes.ResourceExhausted, time.Second, "all the memory", false},
		"a model not there": {notReady("not loaded"), 503, "1", codes.Unavailable, time.Second, "not loaded", false},
		"an ended engine":   {runError(t.Context(), engine.ErrClosed), 503, "1", codes.Unavailable, time.Second, "was unloaded", false},
		"no token":          {errNoToken, 401, "", codes.Unauthenticated, 0, "token", false},
		"a wrong request":   {invalid("wrong"), 400, "", codes.InvalidArgument, 0, "wrong", false},
		"too much":          {tooLarge("large"), 413, "", codes.InvalidArgument, 0, "large", false},
		"too late":          {context.DeadlineExceeded, 504, "", codes.DeadlineExceeded, 0, "within the limit of 7s", false},
		"gone":              {context.Canceled, 499, "", codes.Canceled, 0, "was cancelled", false},
	} {
		var log bytes.Buffer
		s := &Server{config: Config{Timeout: 7 * time.Second, Log: slog.New(slog.NewTextHandler(&log, nil))}}
		w := httptest.NewRecorder()
		s.refuse(w, c.err)
		answer := w.Result()
		if w.Code != c.http || answer.Header.Get("Retry-After") != c.after || !strings.Contains(w.Body.String(), c.says) {
			t.Errorf("%s: %d, Retry-After %q, %s; want %d, %q, %q",
				name, w.Code, answer.Header.Get("Retry-After"), w.Body, c.http, c.after, c.says)
		}
		if (answer.Header.Get("WWW-Authenticate") != "") != (c.http == 401) {
			t.Errorf("%s: WWW-Authenticate %q", name, answer.Header.Get("WWW-Authenticate"))
		}
		st := status.Convert(s.failure(c.err))
		delay := time.Duration(0)
		for _, detail := range st.Details() {
			if info, ok := detail.(*errdetails.RetryInfo); ok {
				delay = info.GetRetryDelay().AsDuration()
			}
		}
		if st.Code() != c.grpc || delay != c.delay || !strings.Contains(st.Message(), c.says) {
			t.Errorf("%s: %v, to be tried again after %v; want %v, %v, %q", name, st, delay, c.grpc, c.delay, c.says)
		}
		if strings.Contains(w.Body.String()+st.Message(), "secret") || strings.Contains(log.String(), "secret") != c.logged ||
			strings.Contains(log.String(), "secret.go:1") != (name == "a panic") {
			t.Errorf("%s: clients get %s and %s, the log has %s", name, w.Body, st.Message(), log.String())
		}
		if oip.StatusOf(s.public(c.err)).HTTP() != c.http {
			t.Errorf("%s: the status becomes another", name)
		}
	}
}
