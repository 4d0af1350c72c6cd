package telemetry

import (
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mfgs/mfgs/calibrate/conformal"
	"github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/bundle"
)

// A Bundle describes a loaded bundle.
type Bundle struct {
	SHA256  string
	Classes []string // names of the classes, or of the labels; empty if they have none
	// Pending returns how many requests and examples wait for an inference; nil: none ever do.
	Pending func() (requests, examples int)
	// Reference is what drift is detected against; nil: no drift detection.
	Reference *bundle.Reference
}

// An Observer records the requests that a bundle answers. It is safe for concurrent use.
type Observer struct {
	bundle Bundle
	loaded time.Time
	drift  *watch // nil: none

	success, inferences, executions         prometheus.Counter
	failure                                 map[string]prometheus.Counter
	requestMicros, queueMicros, inferMicros prometheus.Counter
	latency, queued, batch                  prometheus.Observer
	confidence, entropy, percentile, set    prometheus.Observer
	uncertain, ood, both                    prometheus.Counter
	classes                                 []prometheus.Counter // by number
	other                                   prometheus.Counter   // for all beyond
}

// observer returns an observer for a model. It creates all series, so that they start at 0.
func (m *Metrics) observer(model string, b Bundle) (*Observer, error) {
	o := &Observer{
		bundle: b, loaded: time.Now(), failure: map[string]prometheus.Counter{},
		success:       m.success.WithLabelValues(model, version),
		inferences:    m.inferences.WithLabelValues(model, version),
		executions:    m.executions.WithLabelValues(model, version),
		requestMicros: m.requestMicros.WithLabelValues(model, version),
		queueMicros:   m.queueMicros.WithLabelValues(model, version),
		inferMicros:   m.inferMicros.WithLabelValues(model, version),
		latency:       m.latency.WithLabelValues(model),
		queued:        m.queued.WithLabelValues(model),
		batch:         m.batch.WithLabelValues(model),
		confidence:    m.confidence.WithLabelValues(model),
		entropy:       m.entropy.WithLabelValues(model),
		percentile:    m.percentile.WithLabelValues(model),
		set:           m.set.WithLabelValues(model),
		uncertain:     m.abstentions.WithLabelValues(model, conformal.ReasonUncertain),
		ood:           m.abstentions.WithLabelValues(model, conformal.ReasonOOD),
		both:          m.abstentions.WithLabelValues(model, conformal.ReasonUncertain+" and "+conformal.ReasonOOD),
	}
	for _, reason := range reasons {
		o.failure[reason] = m.failure.WithLabelValues(model, version, reason)
	}
	if b.Reference != nil {
		var err error
		if o.drift, err = newWatch(b.Reference, m.config); err != nil {
			return nil, err
		}
	}
	labels := classLabels(b)
	if old := m.serving[model]; old != nil && !slices.Equal(labels, classLabels(old.bundle)) {
		m.classes.DeletePartialMatch(prometheus.Labels{"model": model})
	}
	o.other = m.classes.WithLabelValues(model, otherClass)
	for _, l := range labels {
		o.classes = append(o.classes, m.classes.WithLabelValues(model, l))
	}
	return o, nil
}

const (
	mostClasses = 64 // with their own series
	otherClass  = "other"
)

// classLabels returns the label of each class: its name if all names differ, else its number. If there are too many
// classes, those that were predicted most often for the validation data have their own label.
func classLabels(b Bundle) []string {
	labels := make([]string, len(b.Classes))
	seen := map[string]bool{otherClass: true, "": true}
	named := true
	for i, name := range b.Classes {
		labels[i] = label(name)
		named = named && !seen[labels[i]]
		seen[labels[i]] = true
	}
	if b.Reference != nil && len(labels) < len(b.Reference.Classes) {
		labels, named = make([]string, len(b.Reference.Classes)), false
	}
	order := make([]int, len(labels))
	for i := range labels {
		order[i] = i
		if !named {
			labels[i] = strconv.Itoa(i)
		}
	}
	if len(labels) <= mostClasses {
		return labels
	}
	if b.Reference != nil && len(b.Reference.Classes) == len(labels) {
		slices.SortStableFunc(order, func(i, j int) int { return b.Reference.Classes[j] - b.Reference.Classes[i] })
	}
	for _, class := range order[mostClasses:] {
		labels[class] = otherClass
	}
	return labels
}

// Execution counts a successful inference.
func (o *Observer) Execution(examples int) {
	o.executions.Inc()
	o.inferences.Add(float64(examples))
	o.batch.Observe(float64(examples))
}

// Request counts an answered request: its time from the first byte to the last, how long it waited, and how long its
// inference took.
func (o *Observer) Request(total, queue, compute time.Duration) {
	o.success.Inc()
	o.requestMicros.Add(micros(total))
	o.queueMicros.Add(micros(queue))
	o.inferMicros.Add(micros(compute))
	o.latency.Observe(total.Seconds())
	o.queued.Observe(queue.Seconds())
}

func micros(d time.Duration) float64 { return float64(max(0, d)) / float64(time.Microsecond) }

// Failure counts a failed request. An unknown reason counts as Other.
func (o *Observer) Failure(reason string) {
	c := o.failure[reason]
	if c == nil {
		c = o.failure[Other]
	}
	c.Inc()
}

// Predictions records the predictions of a request. They must have the bundle's own method and temperatures: others are
// not comparable with the validation data.
func (o *Observer) Predictions(all []wrap.Prediction) {
	for i := range all {
		p := &all[i]
		observe(o.confidence, p.Confidence)
		observe(o.entropy, p.Entropy)
		if p.OODPercentile != nil {
			observe(o.percentile, *p.OODPercentile)
		}
		if p.PredictionSet != nil {
			o.set.Observe(float64(len(p.PredictionSet)))
		}
		if p.Abstain != nil && *p.Abstain {
			switch p.AbstainReason {
			case conformal.ReasonUncertain:
				o.uncertain.Inc()
			case conformal.ReasonOOD:
				o.ood.Inc()
			default:
				o.both.Inc()
			}
		}
		if p.Labels == nil {
			o.class(p.Class).Inc()
		}
		for _, l := range p.Labels {
			o.class(l).Inc()
		}
	}
	if o.drift != nil {
		o.drift.add(all)
	}
}

// observe leaves out NaN and infinities, which would spoil the sum for ever.
func observe(h prometheus.Observer, v float64) {
	if !math.IsNaN(v) && !math.IsInf(v, 0) {
		h.Observe(v)
	}
}

func (o *Observer) class(k int) prometheus.Counter {
	if k < 0 || k >= len(o.classes) {
		return o.other
	}
	return o.classes[k]
}
