package serve

import (
	"context"
	"errors"
	"io"
	"math"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	_ "google.golang.org/grpc/encoding/gzip" // clients may compress their messages
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/mfgs/mfgs/internal/oip"
	"github.com/mfgs/mfgs/internal/oip/inference"
)

// maxStreams bounds the requests under way on one connection.
const maxStreams = 256

// streamWindow bounds the bytes of messages that a stream buffers while its handler is busy with an earlier one. A
// message that the handler waits for has its own room. The window of a connection allocates no memory.
const (
	streamWindow = 64 << 10
	connWindow   = 16 << 20
)

// rpcServer returns the gRPC server.
func (s *Server) rpcServer() *grpc.Server {
	o := []grpc.ServerOption{
		grpc.MaxRecvMsgSize(int(min(s.config.MaxBody, math.MaxInt32))),
		grpc.MaxSendMsgSize(math.MaxInt32),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.MaxHeaderListSize(maxHeader),
		grpc.ConnectionTimeout(headerTimeout),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{
			MinTime: 10 * time.Second, PermitWithoutStream: true,
		}),
		grpc.StaticStreamWindowSize(streamWindow),
		grpc.StaticConnWindowSize(connWindow),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: idleTimeout}),
		grpc.InTapHandle(s.admit),
		grpc.UnaryInterceptor(s.unary),
		grpc.StreamInterceptor(s.stream),
	}
	o = append(o, packing()...)
	secure := insecure.NewCredentials()
	if s.tls != nil {
		secure = credentials.NewTLS(s.tls)
	}
	o = append(o, grpc.Creds(s.inbound.Credentials(secure)))
	rpc := grpc.NewServer(o...)
	inference.RegisterGRPCInferenceServiceServer(rpc, &service{Server: s})
	grpc_health_v1.RegisterHealthServer(rpc, s.health)
	reflection.Register(rpc)
	return rpc
}

// A service answers the calls of the protocol.
type service struct {
	inference.UnimplementedGRPCInferenceServiceServer
	*Server
}

// failure turns an error into a gRPC status.
func (s *Server) failure(err error) error {
	err = s.public(err)
	st := status.New(oip.StatusOf(err).GRPC(), err.Error())
	if code := oip.StatusOf(err); code == oip.Overloaded || code == oip.Unavailable {
		if more, e := st.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(retryAfter(err))}); e == nil {
			st = more
		}
	}
	return st.Err()
}

func (s *service) ServerLive(context.Context, *inference.ServerLiveRequest) (
	*inference.ServerLiveResponse, error) {
	return &inference.ServerLiveResponse{Live: true}, nil
}

func (s *service) ServerReady(context.Context, *inference.ServerReadyRequest) (
	*inference.ServerReadyResponse, error) {
	return &inference.ServerReadyResponse{Ready: s.ready()}, nil
}

func (s *service) ModelReady(_ context.Context, r *inference.ModelReadyRequest) (
	*inference.ModelReadyResponse, error) {
	m, err := s.versioned(r.GetName(), r.GetVersion())
	if err != nil {
		return nil, s.failure(err)
	}
	return &inference.ModelReadyResponse{Ready: m.current.Load() != nil}, nil
}

func (s *service) ServerMetadata(context.Context, *inference.ServerMetadataRequest) (
	*inference.ServerMetadataResponse, error) {
	return s.metadata().Proto(), nil
}

func (s *service) ModelMetadata(_ context.Context, r *inference.ModelMetadataRequest) (
	*inference.ModelMetadataResponse, error) {
	rev, err := s.loaded(r.GetName(), r.GetVersion())
	if err != nil {
		return nil, s.failure(err)
	}
	return rev.metadata.Proto()
}

func (s *service) ModelInfer(ctx context.Context, r *inference.ModelInferRequest) (
	*inference.ModelInferResponse, error) {
	_, response, err := s.inferMessage(ctx, r)
	if err != nil {
		return nil, s.failure(err)
	}
	return response, nil
}

// inferMessage answers a request that is not parsed yet, and returns its id as well.
func (s *service) inferMessage(ctx context.Context, unread *inference.ModelInferRequest) (
	id string, answer *inference.ModelInferResponse, err error) {
	memory := s.newReservation()
	defer memory.release()
	message, err := s.read(ctx, unread, &memory)
	if err != nil {
		return "", nil, err
	}
	answer, err = s.inferRead(ctx, message)
	return message.GetId(), answer, err
}

func (s *service) inferRead(ctx context.Context, message *inference.ModelInferRequest) (
	answer *inference.ModelInferResponse, err error) {
	headers, _ := metadata.FromIncomingContext(ctx)
	get := func(header string) string { return one(headers.Get(header)) }
	ctx, c, err := s.begin(ctx, message.GetModelName(), message.GetModelVersion(), get)
	if err != nil {
		return nil, err
	}
	defer func() { c.end(err) }()
	request, err := oip.RequestFromProto(message, s.limitsOf(&c.reservation))
	if err != nil {
		return nil, err
	}
	response, err := c.infer(ctx, request)
	if err != nil {
		return nil, err
	}
	return response.Proto()
}

// ModelStreamInfer answers requests one after another. The error of a request is in its answer, and the stream goes on.
func (s *service) ModelStreamInfer(stream inference.GRPCInferenceService_ModelStreamInferServer) error {
	for {
		message, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		answer := &inference.ModelStreamInferResponse{}
		var id string
		if id, answer.InferResponse, err = s.inferMessage(stream.Context(), message); err != nil {
			answer.ErrorMessage = s.public(err).Error()
			answer.InferResponse = &inference.ModelInferResponse{Id: id}
		}
		if err := stream.Send(answer); err != nil {
			return err
		}
	}
}

func (s *service) RepositoryIndex(_ context.Context, r *inference.RepositoryIndexRequest) (
	*inference.RepositoryIndexResponse, error) {
	return oip.IndexProto(s.index(r.GetReady())), nil
}

func (s *service) RepositoryModelLoad(ctx context.Context, r *inference.RepositoryModelLoadRequest) (
	*inference.RepositoryModelLoadResponse, error) {
	name, err := oip.LoadName(r)
	if err == nil {
		err = s.loadModel(ctx, name)
	}
	if err != nil {
		return nil, s.failure(err)
	}
	return &inference.RepositoryModelLoadResponse{ModelName: name, IsLoaded: true}, nil
}

func (s *service) RepositoryModelUnload(_ context.Context, r *inference.RepositoryModelUnloadRequest) (
	*inference.RepositoryModelUnloadResponse, error) {
	name, err := oip.LoadName(r)
	if err == nil {
		err = s.unloadModel(name)
	}
	if err != nil {
		return nil, s.failure(err)
	}
	return &inference.RepositoryModelUnloadResponse{ModelName: name, IsUnloaded: true}, nil
}

func (s *service) ModelConfig(_ context.Context, r *inference.ModelConfigRequest) (
	*inference.ModelConfigResponse, error) {
	rev, err := s.loaded(r.GetName(), r.GetVersion())
	if err != nil {
		return nil, s.failure(err)
	}
	return rev.metadata.Config(rev.batch).Proto(), nil
}

func (s *service) ModelStatistics(_ context.Context, r *inference.ModelStatisticsRequest) (
	*inference.ModelStatisticsResponse, error) {
	all, err := s.statistics(r.GetName(), r.GetVersion())
	if err != nil {
		return nil, s.failure(err)
	}
	return all.Proto(), nil
}

// Limits of the calls under way, whose messages are in memory before anything is known about them.
const (
	maxCalls   = 1024
	maxWatches = 128 // health watches, counted separately
	maxProbes  = 128 // calls without a token if one is set, counted separately
)

// admit accepts or refuses a call by its headers. A call that is not a stream and loads no model has the timeout of a
// request, and of its headers.
func (s *Server) admit(ctx context.Context, info *tap.Info) (context.Context, error) {
	name, ended := info.FullMethodName, ctx
	calls, most, limit := &s.calls, int64(maxCalls), s.config.Timeout+headerTimeout
	allowed := s.allowed(one(info.Header.Get("authorization")))
	switch {
	case !allowed && !openCall(name):
		return ctx, s.failure(errNoToken)
	case !allowed:
		calls, most, limit = &s.probes, maxProbes, headerTimeout
	case name == grpc_health_v1.Health_Watch_FullMethodName:
		calls, most = &s.watches, maxWatches
	}
	if calls.Add(1) > most {
		calls.Add(-1)
		return ctx, s.failure(oip.Errorf(oip.Overloaded, "%d calls are in progress, the limit: try again", most))
	}
	var cancel func()
	switch {
	case endless(name):
		ctx, cancel = withIdle(ctx)
	case name == inference.GRPCInferenceService_RepositoryModelLoad_FullMethodName:
		ctx, cancel = context.WithCancel(ctx) // opening a large bundle takes its time
	default:
		ctx, cancel = context.WithTimeout(ctx, limit)
	}
	context.AfterFunc(ended, func() { cancel(); calls.Add(-1) })
	return ctx, nil
}

// endless reports whether a method is a stream, which lasts as long as it is not idle.
func endless(method string) bool {
	return method == grpc_health_v1.Health_Watch_FullMethodName ||
		method == inference.GRPCInferenceService_ModelStreamInfer_FullMethodName || strings.HasPrefix(method, "/grpc.reflection.")
}

// openCall reports whether a method needs no token, as probes have none.
func openCall(method string) bool {
	switch method {
	case grpc_health_v1.Health_Check_FullMethodName, inference.GRPCInferenceService_ServerLive_FullMethodName,
		inference.GRPCInferenceService_ServerReady_FullMethodName:
		return true
	}
	return false
}

// one returns the only value of a list, or "".
func one(values []string) string {
	if len(values) != 1 {
		return ""
	}
	return values[0]
}
