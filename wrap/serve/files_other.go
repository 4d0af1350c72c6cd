//go:build !unix

package serve

// fileLimit is how many files this process may have open, which this system does not limit.
func fileLimit() uint64 { return unlimited }
