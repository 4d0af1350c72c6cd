//go:build !linux

package main

// watched runs the command line in a second process where memory is limited, and
// reports whether it has.
func watched() (code int, ok bool) { return 0, false }
