//go:build !windows

package main

import "os"

// showsColours reports whether a terminal understands escape sequences.
func showsColours(*os.File) bool { return true }
