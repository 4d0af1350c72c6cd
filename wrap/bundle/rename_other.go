//go:build !linux

package bundle

// renameNew gives the folder temp the name dir, which must be free.
func renameNew(temp, dir string) error {
	return renameNewByNames(temp, dir)
}

// exchange gives the folder temp the name dir, and returns where what was at
// dir is now.
func exchange(temp, dir string) (old string, err error) {
	return exchangeByNames(temp, dir)
}
