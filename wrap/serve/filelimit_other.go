//go:build !unix

package serve

// fileLimit returns how many files this process may open: this system has no limit.
func fileLimit() uint64 { return unlimited }
