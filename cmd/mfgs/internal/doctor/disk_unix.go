//go:build darwin || freebsd || linux

package doctor

import "syscall"

// free returns the free space for this user on the disk of a folder, in bytes.
func free(dir string) (n uint64, ok bool) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, false
	}
	return uint64(st.Bavail) * uint64(st.Bsize), true
}

// mayWrite reports whether files may be made in a folder, without making one.
func mayWrite(dir string) error {
	const write, enter = 2, 1
	return syscall.Access(dir, write|enter)
}
