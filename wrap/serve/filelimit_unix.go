//go:build unix

package serve

import "syscall"

// fileLimit returns how many files this process may open, connections included.
func fileLimit() uint64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return unlimited
	}
	return uint64(limit.Cur)
}
