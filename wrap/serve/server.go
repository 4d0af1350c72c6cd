package serve

import (
	"crypto/tls"
	"net"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/mfgs/mfgs/internal/oip"
	"github.com/mfgs/mfgs/internal/oip/inference"
	"github.com/mfgs/mfgs/internal/option"
	"github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/serve/internal/engine"
	"github.com/mfgs/mfgs/wrap/serve/internal/inbound"
	"github.com/mfgs/mfgs/wrap/serve/internal/telemetry"
)

// A Server serves bundles over HTTP and gRPC. New makes it, and Run runs and closes it.
type Server struct {
	config Config
	slots  *engine.Slots
	models []*model // in the order of Config.Bundles

	http, grpc, admin *listener // nil: none

	tls      *tls.Config // nil: none
	inFlight *semaphore.Weighted
	inbound  *inbound.Counter // of incomplete gRPC messages, in inFlight
	calls    atomic.Int64     // gRPC calls under way, without watches and probes
	watches  atomic.Int64
	probes   atomic.Int64
	health   *health.Server
	limits   oip.Limits
	metrics  *telemetry.Metrics
	tracing  *telemetry.Tracing // nil: none
	ending   atomic.Bool
}

// HTTPAddr returns the address of HTTP, nil if there is none.
func (s *Server) HTTPAddr() net.Addr { return addr(s.http) }

// GRPCAddr returns the address of gRPC, nil if there is none.
func (s *Server) GRPCAddr() net.Addr { return addr(s.grpc) }

// AdminAddr returns the address of Config.Admin, nil if there is none.
func (s *Server) AdminAddr() net.Addr { return addr(s.admin) }

func addr(l *listener) net.Addr {
	if l == nil {
		return nil
	}
	return l.Addr()
}

// model returns a model by name.
func (s *Server) model(name string) (*model, error) {
	i := slices.IndexFunc(s.models, func(m *model) bool { return m.Name == name })
	if i < 0 {
		return nil, notFound("there is no model %.70q; there are %q", name, s.names())
	}
	return s.models[i], nil
}

func (s *Server) names() []string {
	names := make([]string, len(s.models))
	for i, m := range s.models {
		names[i] = m.Name
	}
	return names
}

// ready reports whether all bundles are loaded, and the server is not ending.
func (s *Server) ready() bool {
	return !s.ending.Load() && !slices.ContainsFunc(s.models, func(m *model) bool { return m.current.Load() == nil })
}

// TLS reports whether clients must speak TLS.
func (s *Server) TLS() bool { return s.tls != nil }

// InFlight returns how many bytes of memory all requests together may take.
func (s *Server) InFlight() int64 { return s.config.InFlight }

// Sequences returns how many bytes of memory the states of the open sequences of all loaded models together may take.
func (s *Server) Sequences() (bytes int64) {
	for _, m := range s.models {
		_ = m.use(func(_ *revision, p *wrap.Predictor) error {
			_, most := p.MaxStreams()
			bytes += most
			return nil
		})
	}
	return bytes
}

// Models returns the names under which bundles are served.
func (s *Server) Models() []string { return s.names() }

// updateHealth makes gRPC's health service report what ready does.
func (s *Server) updateHealth() {
	status := grpc_health_v1.HealthCheckResponse_NOT_SERVING
	if s.ready() {
		status = grpc_health_v1.HealthCheckResponse_SERVING
	}
	s.health.SetServingStatus("", status)
	s.health.SetServingStatus(inference.GRPCInferenceService_ServiceDesc.ServiceName, status)
}

// bodyTooLarge returns the error of a body or message that is too large.
func (s *Server) bodyTooLarge(what string) error {
	return tooLarge("the %s has more than %d bytes, the limit: send fewer examples at a time, or start the server with a larger %s",
		what, s.config.MaxBody, option.MaxBody)
}

// limitsOf returns the limits of a request, whose tensors take their memory from a reservation.
func (s *Server) limitsOf(memory *reservation) oip.Limits {
	l := s.limits
	l.Reserve = memory.add
	return l
}

func (s *Server) newReservation() reservation {
	return reservation{of: s.inFlight, limit: s.config.InFlight}
}
