package serve

import (
	"context"
	"log/slog"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// nowhere is a stream without a connection.
type nowhere struct{ grpc.ServerStream }

func (nowhere) Context() context.Context { return context.Background() }

// A panic of a handler is an error of its call, and not the end of the process.
func TestAPanicOverGRPCIsAnInternalError(t *testing.T) {
	t.Parallel()
	s := &Server{config: Config{Log: slog.New(slog.DiscardHandler)}}
	_, err := s.unary(t.Context(), nil, &grpc.UnaryServerInfo{}, func(context.Context, any) (any, error) { panic("one") })
	if status.Code(err) != codes.Internal {
		t.Errorf("of a call: %v", err)
	}
	err = s.stream(nil, nowhere{}, &grpc.StreamServerInfo{}, func(any, grpc.ServerStream) error { panic("two") })
	if status.Code(err) != codes.Internal {
		t.Errorf("of a stream: %v", err)
	}
}
