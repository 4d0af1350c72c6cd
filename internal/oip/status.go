package oip

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"google.golang.org/grpc/codes"
)

// A Status is the outcome of a request, which maps to codes of HTTP and gRPC.
type Status int

const (
	OK              Status = iota
	Invalid                // the request is invalid, and would be again
	TooLarge               // beyond a limit
	Unauthenticated        // no token, or a wrong one
	Forbidden              // not allowed for this client
	NotFound               // no such model, version or path
	NotAllowed             // the path has other HTTP methods
	Overloaded             // the queue or the memory is full
	Unavailable            // the model or the server is not ready, or shutting down
	Timeout                // not answered in time
	Canceled               // by the client
	Unsupported            // in the protocol, but not in this server
	Internal               // a fault of the server
)

// statuses has a row for each Status.
var statuses = [...]struct {
	http int
	grpc codes.Code
}{
	OK:              {http.StatusOK, codes.OK},
	Invalid:         {http.StatusBadRequest, codes.InvalidArgument},
	TooLarge:        {http.StatusRequestEntityTooLarge, codes.InvalidArgument}, // ResourceExhausted would be retried
	Unauthenticated: {http.StatusUnauthorized, codes.Unauthenticated},
	Forbidden:       {http.StatusForbidden, codes.PermissionDenied},
	NotFound:        {http.StatusNotFound, codes.NotFound},
	NotAllowed:      {http.StatusMethodNotAllowed, codes.Unimplemented},
	Overloaded:      {http.StatusTooManyRequests, codes.ResourceExhausted},
	Unavailable:     {http.StatusServiceUnavailable, codes.Unavailable},
	Timeout:         {http.StatusGatewayTimeout, codes.DeadlineExceeded},
	Canceled:        {499, codes.Canceled}, // nginx's code for it; nobody reads it
	Unsupported:     {http.StatusNotImplemented, codes.Unimplemented},
	Internal:        {http.StatusInternalServerError, codes.Internal},
}

// HTTP returns the status code of a response.
func (s Status) HTTP() int { return statuses[s].http }

// GRPC returns the gRPC code.
func (s Status) GRPC() codes.Code { return statuses[s].grpc }

// An Error is an error with its Status. Its text is for the client.
type Error struct {
	Status Status
	Err    error
}

func (e *Error) Error() string { return e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }

// Errorf returns an Error with a text formatted as by fmt.Errorf.
func Errorf(s Status, format string, args ...any) error {
	return &Error{s, fmt.Errorf(format, args...)}
}

// StatusOf returns the Status of an error: OK for nil, that of an Error in its chain, Timeout or Canceled for errors
// of a context, and Internal for all others.
func StatusOf(err error) Status {
	var e *Error
	switch {
	case err == nil:
		return OK
	case errors.As(err, &e):
		return e.Status
	case errors.Is(err, context.DeadlineExceeded):
		return Timeout
	case errors.Is(err, context.Canceled):
		return Canceled
	}
	return Internal
}

// ErrorDocument returns the body of an error response: {"error":"…"}.
func ErrorDocument(err error) []byte {
	return append(appendString([]byte(`{"error":`), err.Error()), '}')
}
