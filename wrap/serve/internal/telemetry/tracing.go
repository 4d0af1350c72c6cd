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

// TracingConfig configures tracing.
type TracingConfig struct {
	// Endpoint is the URL to which spans are sent by OTLP over HTTP, such as http://localhost:4318; without a
	// path, to /v1/traces there. "" takes OTEL_EXPORTER_OTLP_TRACES_ENDPOINT or OTEL_EXPORTER_OTLP_ENDPOINT: if
	// these are not set either, nothing is traced.
	Endpoint string
	Version  string       // of the program
	Log      *slog.Logger // of failed exports; nil: none
}

// Tracing makes spans of requests and sends them. A nil *Tracing makes none and costs nothing.
type Tracing struct {
	provider *trace.TracerProvider
	tracer   api.Tracer
	context  propagation.TraceContext
}

// NewTracing starts tracing. It returns nil if no endpoint is configured, or if OTEL_SDK_DISABLED=true or
// OTEL_TRACES_EXPORTER=none turns it off. Headers, certificates, compression, timeouts, sampling, batches and the name
// of the service come from OpenTelemetry's environment variables OTEL_*. The caller must call Shutdown.
//
// Spans are sent in the background, and dropped if the receiver does not keep up or is not there: no request waits for
// it. They hold names, times and sizes, and nothing of inputs or predictions.
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
		resource.WithTelemetrySDK(), resource.WithFromEnv(), // the last one wins
	)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err), exporter.Shutdown(ctx))
	}
	provider := trace.NewTracerProvider(
		trace.WithBatcher(&quiet{SpanExporter: exporter, log: c.Log}), trace.WithResource(about),
	)
	return &Tracing{provider: provider, tracer: provider.Tracer("github.com/mfgs/mfgs/wrap/serve")}, nil
}

// asked reports whether tracing is configured.
func asked(c TracingConfig) bool {
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		return false
	}
	set := os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != ""
	return c.Endpoint != "" || set && os.Getenv("OTEL_TRACES_EXPORTER") != "none"
}

// endpoint returns the options for the endpoint, none if the environment sets it.
func (c TracingConfig) endpoint() ([]otlptracehttp.Option, error) {
	if c.Endpoint == "" {
		for _, name := range []string{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"} {
			switch p := os.Getenv(name); p {
			case "":
				continue
			case "http/protobuf":
				return nil, nil
			default:
				return nil, fmt.Errorf("%s is %.30q, want http/protobuf", name, p)
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

// Shutdown sends the remaining spans, and returns when that is done or ctx ends.
func (t *Tracing) Shutdown(ctx context.Context) error {
	if t == nil {
		return nil
	}
	return t.provider.Shutdown(ctx)
}

// A Span covers one request. A nil *Span records nothing.
type Span struct {
	span   api.Span
	tracer api.Tracer
}

// Request begins the span of a request, as part of the trace in its headers (W3C Trace Context); get returns the value
// of a header, or "". The context that it returns is for the work on the request.
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

// Inference adds two spans for an inference that has just ended: the time that the request waited, and the inference
// with the size of its batch. ctx is the request's.
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

// End ends the span, and marks it if the request failed. The text of the error is not sent.
func (s *Span) End(err error) {
	if s == nil {
		return
	}
	if err != nil {
		s.span.SetStatus(codes.Error, "")
	}
	s.span.End()
}

// carrier gives OpenTelemetry access to headers.
type carrier func(string) string

func (c carrier) Get(key string) string { return c(key) }
func (c carrier) Set(string, string)    {}
func (c carrier) Keys() []string        { return nil }

// quiet logs failed exports, only the first of a series, in place of OpenTelemetry's own logger, which is global.
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
