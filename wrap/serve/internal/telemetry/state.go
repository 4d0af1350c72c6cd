package telemetry

import (
	"math"

	"github.com/prometheus/client_golang/prometheus"
)

// state collects gauges whose values are read at each scrape.
type state Metrics

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, append([]string{"model"}, labels...), nil)
}

var (
	pendingRequests = desc("nv_inference_pending_request_count", "Requests waiting for inference.", "version")
	pendingExamples = desc("mfgs_pending_examples", "Examples waiting for inference.")
	bundleInfo      = desc("mfgs_bundle_info", "The loaded bundle, by its SHA-256; always 1.", "version", "sha256")
	bundleLoaded    = desc("mfgs_bundle_loaded_timestamp_seconds", "When the loaded bundle was loaded.")

	driftPSI = desc("mfgs_drift_psi",
		"Population stability index of the last examples against the validation examples.", "quantity")
	driftExpected = desc("mfgs_drift_psi_expected", "Mean of mfgs_drift_psi without drift.", "quantity")
	driftLevel    = desc("mfgs_drift_psi_level95",
		"The value that mfgs_drift_psi exceeds in 5 % of windows without drift.", "quantity")
	driftWindow = desc("mfgs_drift_window_examples", "Examples in the window of mfgs_drift_psi.", "quantity")
	driftLog10  = desc("mfgs_drift_log10_martingale",
		"Decimal logarithm of the evidence for drift.", "quantity")
	driftAlarmLevel = desc("mfgs_drift_log10_alarm_level",
		"The alarm threshold of mfgs_drift_log10_martingale.", "quantity")
	driftAlarm = desc("mfgs_drift_alarm",
		"1 if the evidence for drift has reached the alarm threshold since the bundle was loaded, else 0.", "quantity")
)

// Describe implements prometheus.Collector.
func (s *state) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		pendingRequests, pendingExamples, bundleInfo, bundleLoaded,
		driftPSI, driftExpected, driftLevel, driftWindow, driftLog10, driftAlarmLevel, driftAlarm,
	} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (s *state) Collect(to chan<- prometheus.Metric) {
	s.mu.Lock()
	serving := make(map[string]*Observer, len(s.serving))
	for model, o := range s.serving {
		serving[model] = o
	}
	s.mu.Unlock()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for model, o := range serving {
		requests, examples := 0, 0
		if o.bundle.Pending != nil {
			requests, examples = o.bundle.Pending()
		}
		gauge(pendingRequests, float64(requests), model, version)
		gauge(pendingExamples, float64(examples), model)
		gauge(bundleInfo, 1, model, version, label(o.bundle.SHA256))
		gauge(bundleLoaded, float64(o.loaded.UnixMilli())/1000, model)
		if o.drift == nil {
			continue
		}
		tests := float64(len(o.drift.quantities))
		for _, q := range o.drift.standings() {
			gauge(driftPSI, q.PSI, model, q.quantity)
			gauge(driftExpected, q.Expected, model, q.quantity)
			gauge(driftLevel, q.Level95, model, q.quantity)
			gauge(driftWindow, float64(q.Examples), model, q.quantity)
			if !q.tested {
				continue
			}
			alarm := 0.0
			if q.alarm {
				alarm = 1
			}
			gauge(driftLog10, q.log10, model, q.quantity)
			gauge(driftAlarmLevel, math.Log10(tests/s.config.FalseAlarm), model, q.quantity)
			gauge(driftAlarm, alarm, model, q.quantity)
		}
	}
}
