package telemetry

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// version is the version of every model.
const version = "1"

// Triton's reasons for which requests fail.
const (
	Rejected = "REJECTED" // by a full queue, or a limit
	Canceled = "CANCELED" // by the client, or by a timeout
	Backend  = "BACKEND"  // by the inference
	Other    = "OTHER"
)

var reasons = []string{Rejected, Canceled, Backend, Other}

// Config configures drift detection.
type Config struct {
	// FalseAlarm is the probability that a model ever alarms without drift, 0.01 if it is 0.
	FalseAlarm float64
	// Window is the number of latest examples that the index covers, 1000 if it is 0.
	Window int
}

// Metrics are the metrics of a process. They are safe for concurrent use.
type Metrics struct {
	config   Config
	registry *prometheus.Registry
	byModel  []vector // those with a label "model"

	success, inferences, executions         *prometheus.CounterVec
	failure                                 *prometheus.CounterVec
	requestMicros, queueMicros, inferMicros *prometheus.CounterVec

	latency, queued, batch               *prometheus.HistogramVec
	confidence, entropy, percentile, set *prometheus.HistogramVec
	abstentions, classes                 *prometheus.CounterVec
	loads, loadFailures                  *prometheus.CounterVec

	mu      sync.Mutex
	serving map[string]*Observer // the newest, by model
}

// A vector is a family of metrics.
type vector interface {
	prometheus.Collector
	DeletePartialMatch(prometheus.Labels) int
}

// New returns the metrics of a process in which no model is loaded. It panics if the configuration is out of range.
func New(c Config) *Metrics {
	if c.FalseAlarm == 0 {
		c.FalseAlarm = 0.01
	}
	if c.Window == 0 {
		c.Window = 1000
	}
	if !(c.FalseAlarm > 0 && c.FalseAlarm < 1) || c.Window < 1 || c.Window > maxWindow {
		panic(fmt.Sprintf("telemetry: false alarms %v and a window of %d examples, want 0 to 1 and 1 to %d",
			c.FalseAlarm, c.Window, maxWindow))
	}
	m := &Metrics{config: c, registry: prometheus.NewRegistry(), serving: map[string]*Observer{}}
	m.registry.MustRegister(
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collectors.NewBuildInfoCollector(), (*state)(m),
	)
	m.triton()
	m.ours()
	return m
}

const maxWindow = 1 << 20

// triton makes the metrics with Triton's names.
func (m *Metrics) triton() {
	m.success = m.counter("nv_inference_request_success", "Requests that were answered.", "version")
	m.failure = m.counter("nv_inference_request_failure", "Requests that were not answered.", "version", "reason")
	m.inferences = m.counter("nv_inference_count", "Examples in inferences.", "version")
	m.executions = m.counter("nv_inference_exec_count", "Inferences, each a batch of examples.", "version")
	m.requestMicros = m.counter("nv_inference_request_duration_us", "Duration of answered requests, in microseconds.", "version")
	m.queueMicros = m.counter("nv_inference_queue_duration_us", "Queue time of answered requests, in microseconds.", "version")
	m.inferMicros = m.counter("nv_inference_compute_infer_duration_us", "Inference time of answered requests, in microseconds.", "version")
}

// times are the bounds of durations, in seconds.
var times = []float64{0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30}

// ours makes the others.
func (m *Metrics) ours() {
	m.latency = m.histogram("mfgs_request_duration_seconds", "Duration of answered requests.", times)
	m.queued = m.histogram("mfgs_queue_duration_seconds", "Queue time of answered requests.", times)
	m.batch = m.histogram("mfgs_inference_batch_size", "Examples in an inference.",
		[]float64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024})
	m.confidence = m.histogram("mfgs_prediction_confidence", "The largest probability.",
		[]float64{0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.999, 1})
	m.entropy = m.histogram("mfgs_prediction_entropy_nats", "Entropy of the probabilities.",
		[]float64{0.001, 0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5})
	m.percentile = m.histogram("mfgs_prediction_ood_percentile_ratio", "Fraction of validation examples with a lower OOD score.",
		[]float64{0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.975, 0.99, 0.995, 0.999, 1})
	m.set = m.histogram("mfgs_prediction_set_size", "Classes in the prediction set.",
		[]float64{0, 1, 2, 3, 4, 5, 7, 10, 20, 50, 100})
	m.abstentions = m.counter("mfgs_abstentions_total", "Examples on which the model abstained.", "reason")
	m.classes = m.counter("mfgs_predicted_class_total", "Examples by predicted class, or labels.", "class")
	m.loads = m.counter("mfgs_bundle_loads_total", "Bundles that were loaded.")
	m.loadFailures = m.counter("mfgs_bundle_load_failures_total", "Bundles that could not be loaded.")
}

func (m *Metrics) counter(name, help string, labels ...string) *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, append([]string{"model"}, labels...))
	m.add(v)
	return v
}

func (m *Metrics) histogram(name, help string, bounds []float64) *prometheus.HistogramVec {
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: bounds}, []string{"model"})
	m.add(v)
	return v
}

func (m *Metrics) add(v vector) {
	m.registry.MustRegister(v)
	m.byModel = append(m.byModel, v)
}

// Handler serves the metrics in Prometheus' text format. OpenMetrics is not offered: it requires counters to end in
// _total, which dashboards for Triton do not know.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 8, Timeout: 10 * time.Second})
}

// LoadFailed counts a bundle that could not be loaded for a model.
func (m *Metrics) LoadFailed(model string) {
	m.loadFailures.WithLabelValues(label(model)).Inc()
}

// Load records that a model has a new bundle, and returns its observer. The model's counters go on; drift detection
// starts again. The observer of the bundle before stays usable.
func (m *Metrics) Load(model string, b Bundle) (*Observer, error) {
	model = label(model)
	m.mu.Lock()
	defer m.mu.Unlock()
	o, err := m.observer(model, b)
	if err != nil {
		return nil, err
	}
	m.loads.WithLabelValues(model).Inc()
	m.loadFailures.WithLabelValues(model) // so that it reads 0
	m.serving[model] = o
	return o, nil
}

// Unload removes all series of a model.
func (m *Metrics) Unload(model string) {
	model = label(model)
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.serving, model)
	for _, v := range m.byModel {
		v.DeletePartialMatch(prometheus.Labels{"model": model})
	}
}

// label makes a string a valid label value.
func label(s string) string {
	const most = 128
	if len(s) > most {
		s = s[:most]
	}
	return strings.ToValidUTF8(s, "�")
}
