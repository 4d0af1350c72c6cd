// Package ort runs ONNX graphs through ONNX Runtime, and sees to it that there
// is an ONNX Runtime to run them.
//
//  1. [Find] looks for the shared library: the path the user gave, the
//     variable ONNXRUNTIME_SHARED_LIBRARY_PATH, the folder of the executable,
//     the user's cache, the system's library folders, a Python installation, a
//     Node installation. What the user chose explicitly is taken or refused,
//     never passed over; what merely lies about is passed over when it is too
//     old, broken or made for another machine.
//  2. [Install] puts the pinned official build into the user's cache: from the
//     GitHub release, else the PyPI wheel, else the npm package. Each archive
//     is known by its SHA-256, and the library appears under its final name
//     only when it is whole. [Ensure] is Find, then Install where allowed.
//  3. [Load] loads the library, once in a process.
//  4. [NewSession] prepares a graph, [Session.Run] and [Session.RunInto]
//     evaluate it on [Tensor] values whose data are ordinary Go slices.
//
// The file of a library is examined before it is loaded: its format, machine,
// completeness, version and entry point are read from its headers, because the
// dynamic linker answers a truncated or foreign file with anything from a
// riddle to a crash.
//
// # Telemetry
//
// The official builds report to their maker by default. [Load] turns that off; a
// user who wants it sets ORT_DISABLE_TELEMETRY=0.
//
// # Threads
//
// A session uses SessionConfig.Threads threads for one call of Run. They do not
// spin while they wait for work unless SessionConfig.Spin is set: the packages
// above decode images and accumulate curvature while the next batch runs, and a
// spinning thread takes exactly the core that this work needs. Run may be called
// from many goroutines at once.
//
// # Signals
//
// The CUDA provider, and TensorRT with it, may install signal handlers of its own
// in place of those of the Go runtime, without the flag (SA_ONSTACK) that Go wants
// of them: a signal such as SIGINT may then end the process with "non-Go code set
// up signal handler without SA_ONSTACK flag", rather than reach os/signal. A
// program that uses it should not rely on os/signal after the first such session
// was made: end calls through their context, and keep nothing half done that a
// sudden end would spoil.
package ort
