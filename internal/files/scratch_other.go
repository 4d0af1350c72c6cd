//go:build !unix

package files

import "io/fs"

// private reports whether only this user can access a file, which this system's temporary folder ensures.
func private(fs.FileInfo) bool { return true }
