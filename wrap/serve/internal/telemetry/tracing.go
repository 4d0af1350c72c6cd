package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
	api "go.opentelemetry.io/otel/trace"
)

// TracingConfig says where spans go.
type TracingConfig struct {
	// Endpoint is the URL that spans are sent to by OTLP over HTTP, such as http://localhost:4318; without a
	// path, to /v1/traces there. "" leaves it to OTEL_EXPORTER_OTLP_TRACES_ENDPOINT and
	// OTEL_EXPORTER_OTLP_ENDPOINT: where these are not set either, nothing is traced.
	Endpoint string
	Version  string       // of the program
	Log      *slog.Logger // of exports that fail; nil: none
}

// Tracing makes spans of requests and sends them. A nil *Tracing makes none and costs nothing.
type Tracing struct {
	provider *trace.TracerProvider
	tracer   api.Tracer
	context  propagation.TraceContext
}

// NewTracing begins to send spans, or returns nil where nobody asks for it, or who does says so by
// OTEL_SDK_DISABLED=true or OTEL_TRACES_EXPORTER=none. Headers, certificates, compression, timeouts,
// sampling, batches and the name of the service are those of OpenTelemetry's environment variables
// OTEL_*. The caller calls Shutdown.
//
// Spans are sent in the background and dropped where the receiver does not keep up or is not there: no
// request waits for it. They have names, times and sizes, and nothing of inputs or predictions.
func NewTracing(ctx context.Context, c TracingConfig) (*Tracing, error) {
	if !asked(c) {
		return nil, nil
	}
	options, err := c.endpoint()
	if err != nil {
		return nil, err
	}
	exporter, err := otlptracehttp.New(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	about, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", "mfgs"), attribute.String("service.version", c.Version)),
		resource.WithTelemetrySDK(), resource.WithFromEnv(), // which comes last, and so counts
	)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err), exporter.Shutdown(ctx))
	}
	provider := trace.NewTracerProvider(
		trace.WithBatcher(&quiet{SpanExporter: exporter, log: c.Log}), trace.WithResource(about),
	)
	return &Tracing{provider: provider, tracer: provider.Tracer("github.com/mfgs/mfgs/wrap/serve")}, nil
}

// asked reports whether somebody asks for traces.
func asked(c TracingConfig) bool {
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		return false
	}
	set := os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != ""
	return c.Endpoint != "" || set && os.Getenv("OTEL_TRACES_EXPORTER") != "none"
}

// endpoint is where spans go, nothing where the environment says it.
func (c TracingConfig) endpoint() ([]otlptracehttp.Option, error) {
	if c.Endpoint == "" {
		for _, name := range []string{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"} {
			switch p := os.Getenv(name); p {
			case "":
				continue
			case "http/protobuf":
				return nil, nil
			default:
				return nil, fmt.Errorf("%s is %.30q, want http/protobuf, which is how spans are sent", name, p)
			}
		}
		return nil, nil
	}
	u, err := url.Parse(c.Endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("traces to %.100q, want a URL such as http://localhost:4318", c.Endpoint)
	}
	if strings.Trim(u.Path, "/") == "" {
		u.Path = "/v1/traces"
	}
	return []otlptracehttp.Option{otlptracehttp.WithEndpointURL(u.String())}, nil
}

// Shutdown sends what is left, and returns when that is done or ctx ends.
func (t *Tracing) Shutdown(ctx context.Context) error {
	if t == nil {
		return nil
	}
	return t.provider.Shutdown(ctx)
}

// A Span is the time of one request. A nil *Span is one that nobody asked for.
type Span struct {
	span   api.Span
	tracer api.Tracer
}

// Request begins the span of a request, as part of the trace that its headers tell of (W3C Trace
// Context); get returns the value of a header, "" without. The context is that of what is done for it.
func (t *Tracing) Request(
	ctx context.Context, name, model string, get func(header string) string,
) (context.Context, *Span) {
	if t == nil {
		return ctx, nil
	}
	ctx = t.context.Extract(ctx, carrier(get))
	ctx, span := t.tracer.Start(ctx, name, api.WithSpanKind(api.SpanKindServer),
		api.WithAttributes(attribute.String("mfgs.model", label(model))))
	return ctx, &Span{span: span, tracer: t.tracer}
}

// Inference adds what an engine answered now: two spans, of the time that the request waited and of
// the inference, with how many examples were in its batch. ctx is the request's.
func (s *Span) Inference(ctx context.Context, queue, compute time.Duration, batch int) {
	if s == nil || !s.span.IsRecording() {
		return
	}
	end := time.Now()
	began := end.Add(-compute)
	_, waited := s.tracer.Start(ctx, "queue", api.WithTimestamp(began.Add(-queue)))
	waited.End(api.WithTimestamp(began))
	_, ran := s.tracer.Start(ctx, "inference", api.WithTimestamp(began),
		api.WithAttributes(attribute.Int("mfgs.batch_size", batch)))
	ran.End(api.WithTimestamp(end))
}

// End ends the span, with the error of the request, whose text is not sent.
func (s *Span) End(err error) {
	if s == nil {
		return
	}
	if err != nil {
		s.span.SetStatus(codes.Error, "")
	}
	s.span.End()
}

// carrier reads headers.
type carrier func(string) string

func (c carrier) Get(key string) string { return c(key) }
func (c carrier) Set(string, string)    {}
func (c carrier) Keys() []string        { return nil }

// quiet logs exports that fail, the first of a row alone, instead of OpenTelemetry's own logger, which
// is one for the whole process.
type quiet struct {
	trace.SpanExporter
	log     *slog.Logger
	failing atomic.Bool
}

func (q *quiet) ExportSpans(ctx context.Context, spans []trace.ReadOnlySpan) error {
	err := q.SpanExporter.ExportSpans(ctx, spans)
	if was := q.failing.Swap(err != nil); q.log != nil && err != nil && !was {
		q.log.Warn("spans not exported", "spans", len(spans), "error", err.Error())
	}
	return nil
}
