package main

import (
	"os"
	"runtime/debug"
	"syscall"
)

// limitHeap has Go's heap collected before it takes more than half of a limited address space (ulimit -v),
// of which the runtime's reservations, the model and the threads need the rest. GOMEMLIMIT overrides it.
func limitHeap() {
	var space syscall.Rlimit
	const unlimited = 1 << 62
	if err := syscall.Getrlimit(syscall.RLIMIT_AS, &space); err == nil && space.Cur < unlimited && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(int64(space.Cur / 2))
	}
}
