//go:build unix

package serve

import "syscall"

// fileLimit is how many files this process may have open, connections among them.
func fileLimit() uint64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return unlimited
	}
	return uint64(limit.Cur)
}
