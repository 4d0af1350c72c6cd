package main

import (
	"os"
	"runtime/debug"
	"syscall"
)

// limitHeap sets Go's memory limit to half of a limited address space (ulimit -v): reservations of the runtime, the
// model and threads need the rest. GOMEMLIMIT overrides it.
func limitHeap() {
	var space syscall.Rlimit
	const unlimited = 1 << 62
	if err := syscall.Getrlimit(syscall.RLIMIT_AS, &space); err == nil && space.Cur < unlimited && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(int64(space.Cur / 2))
	}
}
