package serve

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"google.golang.org/grpc"
)

// maxIdle is how long a stream waits for its client.
var maxIdle = idleTimeout

// idleContext is the context of a stream. Its deadline passes when the client is idle for too long.
type idleContext struct {
	context.Context
	idle *time.Timer
}

func withIdle(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(maxIdle, func() { cancel(context.DeadlineExceeded) })
	return &idleContext{ctx, timer}, func() { timer.Stop(); cancel(nil) }
}

// Err returns the error that gRPC reports to the client.
func (c *idleContext) Err() error {
	if c.Context.Err() == nil {
		return nil
	}
	return context.Cause(c.Context)
}

type idleKey struct{}

func (c *idleContext) Value(key any) any {
	if key == (idleKey{}) {
		return c.idle
	}
	return c.Context.Value(key)
}

// unary refuses calls whose message the codec could not read, and recovers panics of handlers.
func (s *Server) unary(ctx context.Context, r any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (
	answer any, err error) {
	defer s.recovered(info.FullMethod, &err)
	if err := unreadOf(r); err != nil {
		return nil, s.failure(err)
	}
	return handler(ctx, r)
}

// stream is unary for streams, and ends idle ones.
func (s *Server) stream(of any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) (
	err error) {
	defer s.recovered(info.FullMethod, &err)
	w := &watched{ServerStream: stream, server: s}
	w.idle, _ = stream.Context().Value(idleKey{}).(*time.Timer)
	return handler(of, w)
}

// recovered turns a panic, which would end the process, into an error.
func (s *Server) recovered(method string, err *error) {
	if v := recover(); v != nil {
		s.config.Log.Error("panic", "error", fmt.Sprint(v), "method", method, "stack", string(debug.Stack()))
		*err = s.failure(errPanicked)
	}
}

// watched is a stream that waits for its client for a limited time, both to send and to receive.
type watched struct {
	grpc.ServerStream
	server *Server
	idle   *time.Timer // nil: no limit
}

func (w *watched) quiet() {
	if w.idle != nil {
		w.idle.Stop() // the client waits for the server now
	}
}

func (w *watched) wait() {
	if w.idle != nil {
		w.idle.Reset(maxIdle)
	}
}

func (w *watched) RecvMsg(m any) error {
	w.wait()
	defer w.quiet()
	if err := w.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	if err := unreadOf(m); err != nil {
		return w.server.failure(err)
	}
	return nil
}

func (w *watched) SendMsg(m any) error {
	w.wait()
	defer w.quiet()
	return w.ServerStream.SendMsg(m)
}
