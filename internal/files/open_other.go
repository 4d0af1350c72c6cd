//go:build !unix

package files

const nonblock = 0

func busy(error) bool { return false }
