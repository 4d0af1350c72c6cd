// Package install finds or installs ONNX Runtime.
//
//  1. [Find] looks for the shared library: the path that the user gave, the variable
//     ONNXRUNTIME_SHARED_LIBRARY_PATH, the folder of the executable, the user's cache, the system's library
//     folders, a Python installation. An explicit choice that cannot be used is an error; other libraries are
//     skipped if they are too old, broken or built for another machine.
//  2. [Install] installs the pinned official build in the user's cache: from the GitHub release, else from the PyPI
//     wheel. Archives are verified by their SHA-256, and the library gets its final name only when it is complete.
//     [Ensure] is Find, then Install if that is allowed.
//
// A library's file is examined before it is loaded: format, machine, completeness, version and entry point are read
// from its headers, because the dynamic linker reports a truncated or foreign file obscurely, or crashes.
package install
