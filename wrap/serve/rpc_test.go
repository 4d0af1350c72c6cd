package serve_test

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/mfgs/mfgs/featurize/tensor"
	"github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/internal/wraptest"
	"github.com/mfgs/mfgs/wrap/serve"
	"github.com/mfgs/mfgs/wrap/serve/oip"
	pb "github.com/mfgs/mfgs/wrap/serve/oip/inference"
)

// dial connects to a server by gRPC.
func (r *running) dial() *grpc.ClientConn {
	r.t.Helper()
	c, err := grpc.NewClient(r.GRPCAddr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { c.Close() })
	return c
}

// message is a request for digits.
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
	if err != nil || got.ID != "q" || len(got.Outputs) != 8 {
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
	if err != nil || second.GetErrorMessage() != "" || len(second.GetInferResponse().GetOutputs()) != 8 {
		t.Errorf("the answer behind it is %v, %v", second, err)
	}

	h, err := grpc_health_v1.NewHealthClient(r.dial()).Check(ctx, &grpc_health_v1.HealthCheckRequest{})
	if err != nil || h.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Errorf("health: %v, %v", h, err)
	}
}

func TestErrorsOfGRPCHaveTheirCodes(t *testing.T) {
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
