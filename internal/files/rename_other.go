//go:build !linux

package files

// renameNew gives from the name to, which must be free.
func renameNew(from, to string) error { return renameNewByNames(from, to) }

// exchange gives a the name b, and returns where what was at b is now.
func exchange(a, b, aside string) (old string, err error) { return exchangeByNames(a, b, aside) }
