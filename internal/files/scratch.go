package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// NewScratch makes a draft for temporary files that nobody but this user can read or change. It
// lies in a folder of the user's own below [os.TempDir], which TMPDIR chooses. Its files are for
// [Draft.Path], not to be moved: Close removes them.
func NewScratch() (*Draft, error) {
	temporary, err := filepath.Abs(os.TempDir())
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(temporary, "mfgs")
	if uid := os.Getuid(); uid >= 0 { // elsewhere the folder for temporary files is the user's own
		dir = fmt.Sprintf("%s-%d", dir, uid)
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	// Anybody may make a folder of that name where all write: what lies in one of somebody else's
	// can be exchanged by them.
	info, err := os.Lstat(dir)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() || !private(info) {
		return nil, fmt.Errorf("%s is not a folder that only its owner, this user, has access to: remove it, or set TMPDIR", dir)
	}
	return NewDraft(dir)
}
