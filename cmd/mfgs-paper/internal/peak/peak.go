// Package peak tells the most memory that a process used.
package peak

import (
	"os"
	"strconv"
	"strings"
)

// Reset has the kernel forget the most memory that was used, where it is Linux.
func Reset() { _ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) }

// Memory returns the most memory used since, in bytes.
func Memory() (float64, bool) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 64)
			return kib * 1024, err == nil
		}
	}
	return 0, false
}
