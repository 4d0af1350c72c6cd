// Package telemetry has metrics for Prometheus and traces for OpenTelemetry.
//
//  1. [New] makes the metrics of a process, in their own registry; [Metrics.Handler] serves them.
//  2. [Metrics.Load] is called when a bundle is loaded under the name of a model. The [Observer] that it returns
//     records the bundle's requests: Execution, Request and Predictions.
//  3. [NewTracing] exports spans if it is configured. A nil *Tracing does nothing.
//
// # Metrics
//
// Metrics that begin with nv_inference_ have the names, labels and meaning of Triton's, which dashboards know. They are
// counters without _total; durations are in microseconds. Those that begin with mfgs_ follow Prometheus' conventions:
// base units, _total for counters.
//
// Every series of a model has the model's name as a label, and is removed by [Metrics.Unload]. Classes are labels too,
// at most 64: those that were predicted most often for the validation data, and "other" for the rest. Nothing that
// clients send becomes a label.
//
// # Drift
//
// If a bundle has a reference, the predictions of its validation data, package drift compares the predictions with it:
// by an index over the last [Config.Window] examples, which says how much has changed, and by a test each for
// confidence, entropy and OOD score. If requests are independent and distributed like the validation data, the
// probability that any of the tests ever alarms is at most [Config.FalseAlarm] for each loaded bundle. An alarm stays
// until the bundle is loaded again.
package telemetry
