package serve

import (
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/mfgs/mfgs/internal/oip"
	"github.com/mfgs/mfgs/wrap/serve/internal/engine"
)

// public returns the error that the client may see. Internal errors are logged, and their text is not sent.
func (s *Server) public(err error) error {
	switch oip.StatusOf(err) {
	case oip.Timeout:
		return oip.Errorf(oip.Timeout, "the request was not answered within the limit of %v", s.config.Timeout)
	case oip.Canceled:
		return oip.Errorf(oip.Canceled, "the request was cancelled")
	case oip.Internal:
		stack := ""
		if panicked := (*engine.PanicError)(nil); errors.As(err, &panicked) {
			stack = string(panicked.Stack)
		}
		s.config.Log.Error("internal error", "error", err.Error(), "stack", stack)
		return oip.Errorf(oip.Internal, "internal error: see the log of the server")
	}
	return err
}

// retryAfter returns how long a client should wait before it sends a refused request again.
func retryAfter(err error) time.Duration {
	if busy := (*engine.OverloadError)(nil); errors.As(err, &busy) {
		return busy.RetryAfter
	}
	return time.Second
}

// refuse answers a request with an error, in the form of the protocol.
func (s *Server) refuse(w http.ResponseWriter, err error) {
	err = s.public(err)
	status := oip.StatusOf(err)
	switch status {
	case oip.Overloaded, oip.Unavailable:
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(max(1, retryAfter(err).Seconds())))))
	case oip.Unauthenticated:
		w.Header().Set("WWW-Authenticate", `Bearer realm="mfgs"`)
	}
	text := oip.ErrorDocument(err)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(status.HTTP())
	_, _ = w.Write(text)
}
