//go:build !(darwin || freebsd || linux || windows)

package doctor

// free is unknown on this system.
func free(string) (n uint64, ok bool) { return 0, false }

// mayWrite cannot tell without making a file.
func mayWrite(string) error { return nil }
