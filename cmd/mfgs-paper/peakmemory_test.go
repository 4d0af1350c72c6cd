package main

import (
	"runtime"
	"testing"
)

func TestPeakMemoryFollowsAllocations(t *testing.T) {
	if _, known := peakMemory(); !known {
		if runtime.GOOS == "linux" {
			t.Error("the most memory is not known on Linux")
		}
		return
	}
	resetPeakMemory()
	before, _ := peakMemory()
	const size = 64 << 20
	used := make([]byte, size)
	for i := 0; i < size; i += 512 {
		used[i] = 1
	}
	after, _ := peakMemory()
	if after < before+size/2 {
		t.Errorf("%v bytes after %d more than %v", after, size, before)
	}
	runtime.KeepAlive(used)
}
