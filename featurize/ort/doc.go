// Package ort runs ONNX graphs through ONNX Runtime, whose library package
// install finds or installs.
//
//  1. [Load] loads the library, once in a process.
//  2. [NewSession] prepares a graph, [Session.Run] and [Session.RunInto]
//     evaluate it on tensors whose data are ordinary Go slices.
//
// # Telemetry
//
// The official builds report to their maker by default. [Load] turns that off; a
// user who wants it sets ORT_DISABLE_TELEMETRY=0.
//
// # Threads
//
// A session uses SessionConfig.Threads threads for one call of Run. They do not spin while they
// wait for work unless SessionConfig.Spin is set: the packages above decode images and accumulate
// curvature while the next batch runs, and a spinning thread takes exactly the core that this work
// needs. Run may be called from many goroutines at once.
//
// # Signals
//
// The CUDA provider, and TensorRT with it, may install signal handlers of its own in place of those
// of the Go runtime, without the flag (SA_ONSTACK) that Go wants of them: a signal such as SIGINT
// may then end the process with "non-Go code set up signal handler without SA_ONSTACK flag", rather
// than reach os/signal. A program that uses it should not rely on os/signal after the first such
// session was made: end calls through their context, and keep nothing half done that a sudden end
// would spoil.
package ort
