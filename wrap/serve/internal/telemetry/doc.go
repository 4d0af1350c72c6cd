// Package telemetry shows a server from outside: metrics for Prometheus and traces for OpenTelemetry.
//
//  1. [New] makes the metrics of a process, in a registry of their own; [Metrics.Handler] serves them.
//  2. [Metrics.Load] says that a bundle serves from now on, under the name of a model. Its [Observer] takes
//     what happens to the requests: Execution, Request and Predictions.
//  3. [NewTracing] exports spans, where that is asked for. A nil *Tracing does nothing.
//
// # Metrics
//
// Those that begin with nv_inference_ are Triton's in name, labels and meaning: what dashboards have. They
// are counters without _total, of microseconds where they are durations. Ours begin with mfgs_ and
// follow Prometheus' conventions: base units, _total for counters.
//
// Every series of a model has its name as label, and is removed by [Metrics.Unload]. Classes are labels
// too, 64 of them at most: those that most held-out examples were predicted as, and "other" for all the
// rest. What clients send is never a label.
//
// # Drift
//
// Where a bundle says how its held-out examples were predicted, the predictions are compared with them as
// package drift does: an index over the last [Config.Window] examples, which says how much has
// changed, and for confidence, entropy and score of unfamiliarity a test each, which alarm together
// with probability [Config.FalseAlarm] at most, for each bundle that is loaded and however long it serves.
// That holds of requests that are independent of each other, and alike to the held-out examples; an
// alarm stays until the bundle is loaded again.
package telemetry
