package serve

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"google.golang.org/grpc"
)

// maxIdle is for how long what a stream waits for from its client may not come.
var maxIdle = idleTimeout

// idleContext is the context of a stream that is past its deadline where nothing comes on it.
type idleContext struct {
	context.Context
	idle *time.Timer
}

func withIdle(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(maxIdle, func() { cancel(context.DeadlineExceeded) })
	return &idleContext{ctx, timer}, func() { timer.Stop(); cancel(nil) }
}

// Err is what gRPC tells the client.
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

// unary answers calls whose message cannot be read, or whose handler panics.
func (s *Server) unary(ctx context.Context, r any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (
	answer any, err error) {
	defer s.recovered(info.FullMethod, &err)
	if err := unreadOf(r); err != nil {
		return nil, s.failure(err)
	}
	return handler(ctx, r)
}

// stream is as unary, and ends a stream on which nothing happens.
func (s *Server) stream(of any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) (
	err error) {
	defer s.recovered(info.FullMethod, &err)
	w := &watched{ServerStream: stream, server: s}
	w.idle, _ = stream.Context().Value(idleKey{}).(*time.Timer)
	return handler(of, w)
}

// recovered makes an error of a panic, which would end the process.
func (s *Server) recovered(method string, err *error) {
	if v := recover(); v != nil {
		s.config.Log.Error("panic", "error", fmt.Sprint(v), "method", method, "stack", string(debug.Stack()))
		*err = s.failure(errPanicked)
	}
}

// watched is a stream whose client must not be waited for too long, be it to send or to take.
type watched struct {
	grpc.ServerStream
	server *Server
	idle   *time.Timer // nil: for ever
}

func (w *watched) quiet() {
	if w.idle != nil {
		w.idle.Stop() // what takes its time now is the server, or what it tells of
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
