package telemetry

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	spans "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// A receiver collects spans.
type receiver struct {
	*httptest.Server
	mu       sync.Mutex
	paths    []string
	headers  []http.Header
	resource map[string]string
	spans    []*spans.Span
}

func receive(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.paths, r.headers = append(r.paths, q.URL.Path), append(r.headers, q.Header)
		body := io.Reader(q.Body)
		if q.Header.Get("Content-Encoding") == "gzip" {
			z, err := gzip.NewReader(body)
			if err != nil {
				t.Error(err)
				return
			}
			body = z
		}
		raw, err := io.ReadAll(body)
		message := &collector.ExportTraceServiceRequest{}
		if err == nil {
			err = proto.Unmarshal(raw, message)
		}
		if err != nil {
			t.Error(err)
			return
		}
		for _, rs := range message.ResourceSpans {
			r.resource = texts(rs.Resource.Attributes)
			for _, ss := range rs.ScopeSpans {
				r.spans = append(r.spans, ss.Spans...)
			}
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(r.Close)
	return r
}

func texts(attributes []*common.KeyValue) map[string]string {
	m := map[string]string{}
	for _, a := range attributes {
		m[a.Key] = a.Value.GetStringValue()
	}
	return m
}

// noEnvironment unsets the environment variables of tracing.
func noEnvironment(t *testing.T) {
	for _, name := range []string{
		"OTEL_SDK_DISABLED", "OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
		"OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_TRACES_SAMPLER", "OTEL_SERVICE_NAME",
		"OTEL_RESOURCE_ATTRIBUTES", "OTEL_EXPORTER_OTLP_HEADERS",
	} {
		t.Setenv(name, "")
	}
}

func tracing(t *testing.T, c TracingConfig) *Tracing {
	t.Helper()
	tr, err := NewTracing(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if tr == nil {
		t.Fatal("nothing is traced")
	}
	return tr
}

const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// A request with a trace in its headers becomes a span of that trace, with child spans for its wait and its
// inference. It has arrived when Shutdown returns.
func TestSpansArriveInTheTraceOfTheRequest(t *testing.T) {
	noEnvironment(t)
	r := receive(t)
	tr := tracing(t, TracingConfig{Endpoint: r.URL, Version: "1.2"})
	request := httptest.NewRequest("POST", "/v2/models/pets/infer", nil)
	request.Header.Set("Traceparent", parent)
	ctx, span := tr.Request(t.Context(), "infer", "pets", request.Header.Get)
	span.Inference(ctx, 40*time.Millisecond, 20*time.Millisecond, 8)
	span.End(nil)
	_, failed := tr.Request(t.Context(), "infer", "pets", func(string) string { return "" })
	failed.End(errors.New("secret of a client"))
	if err := tr.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(r.spans) != 4 || r.paths[0] != "/v1/traces" {
		t.Fatalf("%d spans to %v, want 4", len(r.spans), r.paths)
	}
	byName := map[string]*spans.Span{}
	for _, s := range r.spans[:3] {
		byName[s.Name] = s
		if got := hex.EncodeToString(s.TraceId); got != parent[3:35] {
			t.Errorf("span %s is of trace %s, want that of the request, %s", s.Name, got, parent[3:35])
		}
	}
	top, queue, inference := byName["infer"], byName["queue"], byName["inference"]
	if top == nil || queue == nil || inference == nil {
		t.Fatalf("spans %v", r.spans)
	}
	if hex.EncodeToString(top.ParentSpanId) != parent[36:52] || top.Kind != spans.Span_SPAN_KIND_SERVER ||
		texts(top.Attributes)["mfgs.model"] != "pets" || top.Status.GetCode() != spans.Status_STATUS_CODE_UNSET {
		t.Errorf("the span of the request is %v", top)
	}
	for _, s := range []*spans.Span{queue, inference} {
		if !bytes.Equal(s.ParentSpanId, top.SpanId) {
			t.Errorf("%s is not below the request", s.Name)
		}
	}
	if queue.EndTimeUnixNano-queue.StartTimeUnixNano != 40e6 ||
		inference.EndTimeUnixNano-inference.StartTimeUnixNano != 20e6 ||
		queue.EndTimeUnixNano != inference.StartTimeUnixNano || inference.Attributes[0].Value.GetIntValue() != 8 {
		t.Errorf("the engine's spans are %v and %v", queue, inference)
	}
	last := r.spans[3]
	if last.Status.GetCode() != spans.Status_STATUS_CODE_ERROR || len(last.ParentSpanId) != 0 ||
		strings.Contains(last.String(), "secret") {
		t.Errorf("the span of a request that failed is %v", last)
	}
	if r.resource["service.name"] != "mfgs" || r.resource["service.version"] != "1.2" {
		t.Errorf("the resource is %v", r.resource)
	}
}

func TestTheEnvironmentTurnsTracingOn(t *testing.T) {
	r := receive(t)
	for name, c := range map[string]struct {
		environment map[string]string
		config      TracingConfig
		path        string // "" : nothing is traced
	}{
		"nobody asks":       {},
		"other signals":     {environment: map[string]string{"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": r.URL, "OTEL_SERVICE_NAME": "x"}},
		"a base":            {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": r.URL + "/base"}, TracingConfig{}, "/base/v1/traces"},
		"for traces":        {map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": r.URL + "/in"}, TracingConfig{}, "/in"},
		"protocol":          {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": r.URL, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}, TracingConfig{}, "/v1/traces"},
		"disabled":          {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": r.URL, "OTEL_SDK_DISABLED": "TRUE"}, TracingConfig{}, ""},
		"no exporter":       {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": r.URL, "OTEL_TRACES_EXPORTER": "none"}, TracingConfig{}, ""},
		"asked, disabled":   {map[string]string{"OTEL_SDK_DISABLED": "true"}, TracingConfig{Endpoint: r.URL}, ""},
		"asked over it":     {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://192.0.2.1"}, TracingConfig{Endpoint: r.URL + "/mine"}, "/mine"},
		"asked with a path": {nil, TracingConfig{Endpoint: r.URL + "/"}, "/v1/traces"},
	} {
		t.Run(name, func(t *testing.T) {
			noEnvironment(t)
			for k, v := range c.environment {
				t.Setenv(k, v)
			}
			r.paths = nil
			goroutines := runtime.NumGoroutine()
			tr, err := NewTracing(t.Context(), c.config)
			if err != nil {
				t.Fatal(err)
			}
			ctx, span := tr.Request(t.Context(), "infer", "m", func(string) string { return parent })
			span.Inference(ctx, 1, 1, 1)
			span.End(nil)
			if c.path == "" {
				if tr != nil || span != nil || ctx != t.Context() || runtime.NumGoroutine() > goroutines {
					t.Errorf("something is traced: %v", tr)
				}
			}
			if err := tr.Shutdown(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(r.paths, " "); got != c.path {
				t.Errorf("spans were sent to %q, want %q", got, c.path)
			}
		})
	}
}

func TestTheEnvironmentConfiguresTracing(t *testing.T) {
	noEnvironment(t)
	r := receive(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", r.URL)
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=abc")
	t.Setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
	t.Setenv("OTEL_SERVICE_NAME", "classifier")
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test,service.name=no")
	t.Setenv("OTEL_TRACES_SAMPLER", "parentbased_always_off")
	tr := tracing(t, TracingConfig{})
	ctx, mine := tr.Request(t.Context(), "unsampled", "m", func(string) string { return "" })
	mine.Inference(ctx, 1, 1, 1)
	mine.End(nil)
	_, theirs := tr.Request(t.Context(), "sampled", "m", func(string) string { return parent })
	theirs.End(nil)
	if err := tr.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(r.spans) != 1 || r.spans[0].Name != "sampled" || r.headers[0].Get("Api-Key") != "abc" ||
		r.headers[0].Get("Content-Encoding") != "gzip" || r.resource["service.name"] != "classifier" || r.resource["deployment.environment"] != "test" {
		t.Errorf("spans %v of %v with %v", r.spans, r.resource, r.headers)
	}
}

func TestTracesThatCannotBeSentAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		environment map[string]string
		endpoint    string
	}{
		"no URL":       {nil, "localhost:4318"},
		"no host":      {nil, "http:///v1"},
		"other scheme": {nil, "grpc://localhost:4317"},
		"control":      {nil, "http://local\x7fhost"},
		"grpc":         {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, ""},
		"traces grpc": {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
			"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "grpc"}, ""},
		"attributes": {map[string]string{"OTEL_RESOURCE_ATTRIBUTES": "no value"}, "http://localhost:4318"},
	} {
		t.Run(name, func(t *testing.T) {
			noEnvironment(t)
			for k, v := range c.environment {
				t.Setenv(k, v)
			}
			if tr, err := NewTracing(t.Context(), TracingConfig{Endpoint: c.endpoint}); err == nil {
				tr.Shutdown(t.Context())
				t.Error("taken")
			}
		})
	}
}

// Spans that cannot be sent delay neither requests nor, beyond its deadline, Shutdown.
func TestAnUnresponsiveReceiverBlocksNoRequest(t *testing.T) {
	noEnvironment(t)
	release := make(chan struct{})
	stuck := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-release
	}))
	defer stuck.Close()
	defer close(release)
	tr := tracing(t, TracingConfig{Endpoint: stuck.URL})
	for range 5000 {
		ctx, span := tr.Request(t.Context(), "infer", "m", func(string) string { return "" })
		span.Inference(ctx, 1, 1, 1)
		span.End(nil)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	start := time.Now()
	if err := tr.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Shutdown: %v, want that its time is over", err)
	}
	if d := time.Since(start); d > 5*time.Second {
		t.Errorf("Shutdown took %v, want 0.2 s", d)
	}
}

func TestFailedExportsAreLoggedOnce(t *testing.T) {
	noEnvironment(t)
	refusing := httptest.NewServer(http.NotFoundHandler())
	defer refusing.Close()
	t.Setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "2")
	var log bytes.Buffer
	tr := tracing(t, TracingConfig{Endpoint: refusing.URL, Log: slog.New(slog.NewJSONHandler(&log, nil))})
	for range 10 {
		_, span := tr.Request(t.Context(), "infer", "m", func(string) string { return "" })
		span.End(nil)
	}
	if err := tr.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if n := strings.Count(log.String(), "spans not exported"); n != 1 || !strings.Contains(log.String(), "404") {
		t.Errorf("it is logged %d times: %s", n, log.String())
	}
}
