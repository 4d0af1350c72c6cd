package oip

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"google.golang.org/grpc/codes"
)

// A Status says what became of a request, and what HTTP and gRPC call that.
type Status int

const (
	OK              Status = iota
	Invalid                // the request is wrong, and will be so the next time
	TooLarge               // beyond a limit
	Unauthenticated        // no token, or not the right one
	Forbidden              // not for who asks
	NotFound               // no such model, version or path
	NotAllowed             // a path that is there, and not for this method of HTTP
	Overloaded             // shed: the queue is full
	Unavailable            // the model or the server is not ready, or going
	Timeout                // not done in time
	Canceled               // the client went away
	Unsupported            // part of the protocol, but not of this server
	Internal               // not the client's fault
)

// statuses has a row for each Status.
var statuses = [...]struct {
	http int
	grpc codes.Code
}{
	OK:              {http.StatusOK, codes.OK},
	Invalid:         {http.StatusBadRequest, codes.InvalidArgument},
	TooLarge:        {http.StatusRequestEntityTooLarge, codes.InvalidArgument}, // what is exhausted is tried again
	Unauthenticated: {http.StatusUnauthorized, codes.Unauthenticated},
	Forbidden:       {http.StatusForbidden, codes.PermissionDenied},
	NotFound:        {http.StatusNotFound, codes.NotFound},
	NotAllowed:      {http.StatusMethodNotAllowed, codes.Unimplemented},
	Overloaded:      {http.StatusTooManyRequests, codes.ResourceExhausted},
	Unavailable:     {http.StatusServiceUnavailable, codes.Unavailable},
	Timeout:         {http.StatusGatewayTimeout, codes.DeadlineExceeded},
	Canceled:        {499, codes.Canceled}, // as nginx says; nobody reads it
	Unsupported:     {http.StatusNotImplemented, codes.Unimplemented},
	Internal:        {http.StatusInternalServerError, codes.Internal},
}

// HTTP returns the status code of a response.
func (s Status) HTTP() int { return statuses[s].http }

// GRPC returns the code of gRPC.
func (s Status) GRPC() codes.Code { return statuses[s].grpc }

// An Error is an error with its Status. Its text is for the client.
type Error struct {
	Status Status
	Err    error
}

func (e *Error) Error() string { return e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }

// Errorf returns an Error whose text is formatted as fmt.Errorf does it.
func Errorf(s Status, format string, args ...any) error {
	return &Error{s, fmt.Errorf(format, args...)}
}

// StatusOf returns the Status of an error: OK for nil, that of an Error in its chain, Timeout and
// Canceled for those of a context, and Internal for all others.
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

// ErrorDocument returns the body of a response that is an error, as clients parse it: {"error":"…"}.
func ErrorDocument(err error) []byte {
	return append(appendString([]byte(`{"error":`), err.Error()), '}')
}
