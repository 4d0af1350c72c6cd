// Package ort runs ONNX graphs by ONNX Runtime, whose library package install finds or installs.
//
//  1. [Load] loads the library, once in a process.
//  2. [NewSession] prepares a graph, [Session.Run] and [Session.RunInto]
//     evaluate it on tensors whose data are ordinary Go slices.
//
// # Telemetry
//
// The official builds send telemetry by default. [Load] turns that off, unless ORT_DISABLE_TELEMETRY=0 is set.
//
// # Threads
//
// A session uses SessionConfig.Threads threads per call of Run. Idle threads do not spin unless SessionConfig.Spin is
// set: while a batch runs, the packages above decode images and accumulate curvature, and a spinning thread takes the
// core that this work needs. Run may be called concurrently.
//
// # Signals
//
// The CUDA and TensorRT providers may replace the signal handlers of the Go runtime by their own, without the flag
// SA_ONSTACK that Go requires: a signal such as SIGINT may then end the process with "non-Go code set up signal handler
// without SA_ONSTACK flag" instead of reaching os/signal. After the first such session a program should not rely on
// os/signal: end calls through their context, and be prepared for a sudden end.
package ort
