package serve_test

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/mfgs/mfgs/internal/oip"
	pb "github.com/mfgs/mfgs/internal/oip/inference"
	"github.com/mfgs/mfgs/internal/wraptest"
	"github.com/mfgs/mfgs/onnx/tensor"
	"github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/serve"
)

// dial connects to a gRPC server.
func (r *running) dial() *grpc.ClientConn {
	r.t.Helper()
	c, err := grpc.NewClient(r.GRPCAddr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { c.Close() })
	return c
}

// message returns a request for digits.
func message(t *testing.T, from, to int) *pb.ModelInferRequest {
	t.Helper()
	x := wraptest.DigitTensor(t, from, to)
	x.Name = "image"
	m, err := (&oip.Request{Model: "digits", ID: "q", Inputs: []tensor.Tensor{x}}).Proto()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestTheProtocolIsSpokenOverGRPC(t *testing.T) {
	t.Parallel()
	dir := digits(t)
	r := start(t, serve.Config{Bundles: []serve.Bundle{{Dir: dir}}})
	c := pb.NewGRPCInferenceServiceClient(r.dial())
	ctx := t.Context()
	live, err := c.ServerLive(ctx, &pb.ServerLiveRequest{})
	if err != nil || !live.GetLive() {
		t.Errorf("live: %v, %v", live, err)
	}
	ready, err := c.ModelReady(ctx, &pb.ModelReadyRequest{Name: "digits"})
	if err != nil || !ready.GetReady() {
		t.Errorf("ready: %v, %v", ready, err)
	}
	about, err := c.ModelMetadata(ctx, &pb.ModelMetadataRequest{Name: "digits"})
	if err != nil || len(about.GetInputs()) != 1 ||
		!slices.Equal(about.GetInputs()[0].GetShape(), []int64{-1, 1, 8, 8}) {
		t.Errorf("metadata: %v, %v", about, err)
	}

	p := wraptest.Opened(t, dir, wrap.Options{})
	want, err := p.Run(ctx, []wrap.Tensor{wraptest.DigitTensor(t, 1500, 1503)})
	if err != nil {
		t.Fatal(err)
	}
	answer, err := c.ModelInfer(ctx, message(t, 1500, 1503))
	if err != nil {
		t.Fatal(err)
	}
	got, err := oip.ResponseFromProto(answer, oip.Limits{})
	if err != nil || got.ID != "q" || len(got.Outputs) != 9 {
		t.Fatalf("answer %+v, %v", got, err)
	}
	for i, w := range want {
		if got.Outputs[i].Name != w.Name || !slices.Equal(got.Outputs[i].Shape, w.Shape) {
			t.Errorf("output %d is %s %v, want %s %v", i, got.Outputs[i].Name, got.Outputs[i].Shape, w.Name, w.Shape)
		}
	}

	stream, err := c.ModelStreamInfer(ctx)
	if err != nil {
		t.Fatal(err)
	}
	wrong := message(t, 1500, 1501)
	wrong.Inputs[0].Name = "picture"
	for _, m := range []*pb.ModelInferRequest{wrong, message(t, 1500, 1501)} {
		if err := stream.Send(m); err != nil {
			t.Fatal(err)
		}
	}
	first, err := stream.Recv()
	if err != nil || !strings.Contains(first.GetErrorMessage(), "image") || first.GetInferResponse().GetId() != "q" {
		t.Errorf("the answer to a wrong request of a stream is %v, %v", first, err)
	}
	second, err := stream.Recv()
	if err != nil || second.GetErrorMessage() != "" || len(second.GetInferResponse().GetOutputs()) != 9 {
		t.Errorf("the next answer is %v, %v", second, err)
	}

	h, err := grpc_health_v1.NewHealthClient(r.dial()).Check(ctx, &grpc_health_v1.HealthCheckRequest{})
	if err != nil || h.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Errorf("health: %v, %v", h, err)
	}
}

func TestErrorsOfGRPCHaveTheirCodes(t *testing.T) {
	t.Parallel()
	r := start(t, serve.Config{Bundles: []serve.Bundle{{Dir: digits(t)}}, MaxBody: 4096, Token: "s3cret"})
	c := pb.NewGRPCInferenceServiceClient(r.dial())
	known := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer s3cret")
	other := message(t, 1500, 1501)
	other.ModelName = "letters"
	for _, x := range []struct {
		name string
		m    *pb.ModelInferRequest
		code codes.Code
		says string
	}{
		{"another model", other, codes.NotFound, "letters"},
		{"nothing", &pb.ModelInferRequest{ModelName: "digits"}, codes.InvalidArgument, "image"},
		{"too large", message(t, 1500, 1600), codes.ResourceExhausted, "4096"},
	} {
		_, err := c.ModelInfer(known, x.m)
		if status.Code(err) != x.code || !strings.Contains(err.Error(), x.says) {
			t.Errorf("%s: %v, want %v", x.name, err, x.code)
		}
	}
	if _, err := c.ModelInfer(t.Context(), message(t, 1500, 1501)); status.Code(err) != codes.Unauthenticated {
		t.Errorf("without a token: %v", err)
	}
	if _, err := c.ModelInfer(known, message(t, 1500, 1501)); err != nil {
		t.Error(err)
	}
	if _, err := c.RepositoryModelUnload(known, &pb.RepositoryModelUnloadRequest{RepositoryName: "digits"}); err != nil {
		t.Error(err)
	}
	h, err := grpc_health_v1.NewHealthClient(r.dial()).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	if err != nil || h.GetStatus() != grpc_health_v1.HealthCheckResponse_NOT_SERVING {
		t.Errorf("health of a server whose model is unloaded: %v, %v", h, err)
	}
	_, err = c.ModelInfer(known, message(t, 1500, 1501))
	if status.Code(err) != codes.Unavailable || len(status.Convert(err).Details()) != 1 {
		t.Errorf("of an unloaded model: %v", err)
	} else if _, ok := status.Convert(err).Details()[0].(*errdetails.RetryInfo); !ok {
		t.Errorf("details %v", status.Convert(err).Details())
	}
}

// Health watches and idle streams do not block other calls.
func TestIdleStreamsDoNotBlockOtherCalls(t *testing.T) {
	t.Parallel()
	r := start(t, serve.Config{Bundles: []serve.Bundle{{Dir: digits(t)}}, Drain: -1})
	health := grpc_health_v1.NewHealthClient(r.dial())
	var group sync.WaitGroup
	var watching atomic.Int64
	for range 1024 {
		group.Go(func() {
			w, err := health.Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{})
			if err == nil {
				_, err = w.Recv()
			}
			if err == nil {
				watching.Add(1)
			} else if status.Code(err) != codes.ResourceExhausted {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if n := watching.Load(); n == 0 || n > 128 {
		t.Errorf("%d are notified of the server's health", n)
	}
	_, err := pb.NewGRPCInferenceServiceClient(r.dial()).ModelInfer(t.Context(), message(t, 1500, 1501))
	if err != nil {
		t.Error(err)
	}
}

func TestProbesWithoutATokenAreChecksOnly(t *testing.T) {
	t.Parallel()
	r := start(t, serve.Config{Bundles: []serve.Bundle{{Dir: digits(t)}}, Token: "s3cret"})
	c := r.dial()
	health := grpc_health_v1.NewHealthClient(c)
	if _, err := health.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{}); err != nil {
		t.Error(err)
	}
	w, err := health.Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	if err == nil {
		_, err = w.Recv()
	}
	if status.Code(err) != codes.Unauthenticated {
		t.Errorf("Watch without a token: %v", err)
	}
	// Stalled checks leave room for clients with the token.
	const check = grpc_health_v1.Health_Check_FullMethodName
	for range 5 {
		probes := r.dial()
		for range 250 {
			if _, err := probes.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true}, check); err != nil {
				t.Fatal(err)
			}
		}
	}
	known := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer s3cret")
	if _, err := pb.NewGRPCInferenceServiceClient(r.dial()).ModelInfer(known, message(t, 1500, 1501)); err != nil {
		t.Error(err)
	}
}

// At most 1,024 calls run at a time, and 256 per connection: the next is refused, and accepted when another ends.
func TestCallsAreBounded(t *testing.T) {
	t.Parallel()
	r := start(t, serve.Config{Bundles: []serve.Bundle{{Dir: digits(t)}}})
	var last pb.GRPCInferenceService_ModelStreamInferClient
	for range 4 {
		c := pb.NewGRPCInferenceServiceClient(r.dial())
		for range 256 {
			stream, err := c.ModelStreamInfer(t.Context())
			if err == nil {
				err = stream.Send(&pb.ModelInferRequest{ModelName: "none"})
			}
			if err == nil {
				_, err = stream.Recv() // the server has it
			}
			if err != nil {
				t.Fatal(err)
			}
			last = stream
		}
	}
	c := pb.NewGRPCInferenceServiceClient(r.dial())
	_, err := c.ServerLive(t.Context(), &pb.ServerLiveRequest{})
	if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "1024 calls are in progress") {
		t.Errorf("beside 1,024 calls: %v", err)
	}
	if err := last.CloseSend(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a place is free", func() bool {
		_, err := c.ServerLive(t.Context(), &pb.ServerLiveRequest{})
		return err == nil
	})
}

func TestMetadataOfACallIsBounded(t *testing.T) {
	t.Parallel()
	r := start(t, serve.Config{Bundles: []serve.Bundle{{Dir: digits(t)}}})
	c := pb.NewGRPCInferenceServiceClient(r.dial())
	for size, ok := range map[int]bool{10_000: true, 100_000: false} {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "x", strings.Repeat("x", size))
		if _, err := c.ServerLive(ctx, &pb.ServerLiveRequest{}); (err == nil) != ok {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

func TestIdleStreamsEnd(t *testing.T) {
	const idle = 600 * time.Millisecond
	defer serve.SetMaxIdle(idle)()
	r := start(t, serve.Config{Bundles: []serve.Bundle{{Dir: digits(t)}}, Drain: -1})
	c := pb.NewGRPCInferenceServiceClient(r.dial())
	watch, err := grpc_health_v1.NewHealthClient(r.dial()).Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := watch.Recv(); err != nil {
		t.Fatal(err)
	}
	stream, err := c.ModelStreamInfer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		time.Sleep(idle / 2)
		if err := stream.Send(message(t, 1500, 1501)); err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := stream.Recv(); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("a stream on which nothing comes: %v", err)
	}
	// Health watches still receive changes.
	if _, err := c.RepositoryModelUnload(t.Context(), &pb.RepositoryModelUnloadRequest{RepositoryName: "digits"}); err != nil {
		t.Fatal(err)
	}
	if h, err := watch.Recv(); err != nil || h.GetStatus() != grpc_health_v1.HealthCheckResponse_NOT_SERVING {
		t.Errorf("health: %v, %v", h, err)
	}
}

func TestOversizedControlMessagesAreRefused(t *testing.T) {
	t.Parallel()
	r := start(t, serve.Config{Bundles: []serve.Bundle{{Dir: digits(t)}}})
	c := pb.NewGRPCInferenceServiceClient(r.dial())
	m := &pb.RepositoryModelLoadRequest{RepositoryName: strings.Repeat("x", 70_000)}
	for says, options := range map[string][]grpc.CallOption{
		"want at most 65536":                    nil,
		"decompresses to more than 65536 bytes": {grpc.UseCompressor("gzip")},
	} {
		_, err := c.RepositoryModelLoad(t.Context(), m, options...)
		if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
	m.RepositoryName = "digits"
	if _, err := c.RepositoryModelLoad(t.Context(), m, grpc.UseCompressor("gzip")); err != nil {
		t.Error(err)
	}
}
