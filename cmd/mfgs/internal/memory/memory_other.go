//go:build !linux

package memory

// Watched runs the command line in a second process where memory is limited, and
// reports whether it has.
func Watched() (code int, ok bool) { return 0, false }
