//go:build !linux

package bundle

// exchange gives temp the name dir, and returns where what was at dir is now.
func exchange(temp, dir string) (old string, err error) {
	return exchangeByNames(temp, dir)
}
