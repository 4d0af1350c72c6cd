// Package stamp tells whether what a program made before is what it would make now.
package stamp

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Of identifies the running program, all files below folders by their paths, sizes and times of change,
// and what else it is told: 16 hexadecimal digits. A link is what it leads to.
func Of(dirs []string, more ...any) (string, error) {
	h := sha256.New()
	program, err := os.Executable()
	if err != nil {
		return "", err
	}
	f, err := os.Open(program)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	fmt.Fprintln(h, more...)
	for _, dir := range dirs {
		fmt.Fprintln(h, dir)
		if err := list(h, dir, 0); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:8]), nil
}

// mostLinks is how many links lead from one to the next, before they are taken to lead in a circle.
const mostLinks = 8

// list writes a line for each file below a path.
func list(w io.Writer, dir string, links int) error {
	root, err := filepath.EvalSymlinks(dir)
	if errors.Is(err, fs.ErrNotExist) && links > 0 {
		fmt.Fprintln(w, dir, "leads nowhere") // which matters to nothing that can be read
		return nil
	}
	if err != nil {
		return err
	}
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || d.IsDir():
			return err
		case d.Type()&fs.ModeSymlink != 0 && links == mostLinks:
			return fmt.Errorf("%s: a link behind %d others", path, links)
		case d.Type()&fs.ModeSymlink != 0:
			return list(w, path, links+1)
		}
		info, err := d.Info()
		if err == nil {
			fmt.Fprintln(w, path, info.Size(), info.ModTime().UnixNano())
		}
		return err
	})
}
