//go:build unix

package files

import (
	"io/fs"
	"os"
	"syscall"
)

// private reports whether a file is owned by this user and closed to all others.
func private(info fs.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(s.Uid) == os.Getuid() && info.Mode().Perm()&0o077 == 0
}
