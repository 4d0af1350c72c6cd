// Package install sees to it that there is an ONNX Runtime on this machine.
//
//  1. [Find] looks for the shared library: the path the user gave, the
//     variable ONNXRUNTIME_SHARED_LIBRARY_PATH, the folder of the executable,
//     the user's cache, the system's library folders, a Python
//     installation. What the user chose explicitly is taken or refused,
//     never passed over; what merely lies about is passed over when it is too
//     old, broken or made for another machine.
//  2. [Install] puts the pinned official build into the user's cache: from the
//     GitHub release, else the PyPI wheel. Each archive
//     is known by its SHA-256, and the library appears under its final name
//     only when it is whole. [Ensure] is Find, then Install where allowed.
//
// The file of a library is examined before it is loaded: its format, machine, completeness, version
// and entry point are read from its headers, because the dynamic linker answers a truncated or
// foreign file with anything from a riddle to a crash.
package install
