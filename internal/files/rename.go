package files

import (
	"io/fs"
	"os"
	"path/filepath"
)

// Permissions of new files and folders, before the umask.
const (
	FileMode   fs.FileMode = 0o644
	FolderMode fs.FileMode = 0o755
)

// renameNewByNames is renameNew in two steps, for systems without a single one.
func renameNewByNames(from, to string) error {
	if _, err := os.Lstat(to); err == nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: fs.ErrExist}
	}
	return os.Rename(from, to)
}

// exchangeByNames is exchange in two steps, for systems without a single one: what was at b is then at aside.
func exchangeByNames(a, b, aside string) (old string, err error) {
	if err := os.MkdirAll(filepath.Dir(aside), FolderMode); err != nil {
		return "", err
	}
	if err := os.Rename(b, aside); err != nil {
		return "", err
	}
	if err := os.Rename(a, b); err != nil {
		return "", err // and Close puts back what is at aside
	}
	return aside, nil
}
