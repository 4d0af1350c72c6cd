package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// NewScratch makes a draft for temporary files that only this user can read or change, in a private folder below
// [os.TempDir]. Use its files by [Draft.Path]; Close removes them.
func NewScratch() (*Draft, error) {
	temporary, err := filepath.Abs(os.TempDir())
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(temporary, "mfgs")
	if uid := os.Getuid(); uid >= 0 { // on other systems the temporary folder is the user's own
		dir = fmt.Sprintf("%s-%d", dir, uid)
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	// In a shared folder, another user may have made the folder of that name, and could replace files in it.
	info, err := os.Lstat(dir)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() || !private(info) {
		return nil, fmt.Errorf("%s is not a folder that only this user can access: remove it, or set TMPDIR", dir)
	}
	return NewDraft(dir)
}
