//go:build !linux

package files

// renameNew renames from to to, which must not exist.
func renameNew(from, to string) error { return renameNewByNames(from, to) }

// exchange renames a to b, and returns the new path of what was at b.
func exchange(a, b, aside string) (old string, err error) { return exchangeByNames(a, b, aside) }
