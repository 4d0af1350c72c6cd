package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// fingerprint hashes what results depend on: the running program, the paths, sizes and modification times of all files
// below dirs, and the other arguments. It returns 16 hexadecimal digits. Symbolic links are followed.
func fingerprint(dirs []string, more ...any) (string, error) {
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
		if err := listFiles(h, dir, 0); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:8]), nil
}

// maxLinks bounds chains of symbolic links: longer ones are taken as circular.
const maxLinks = 8

// listFiles writes a line for each file below a path.
func listFiles(w io.Writer, dir string, links int) error {
	root, err := filepath.EvalSymlinks(dir)
	if errors.Is(err, fs.ErrNotExist) && links > 0 {
		fmt.Fprintln(w, dir, "leads nowhere") // nothing reads a dangling link
		return nil
	}
	if err != nil {
		return err
	}
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || d.IsDir():
			return err
		case d.Type()&fs.ModeSymlink != 0 && links == maxLinks:
			return fmt.Errorf("%s: a link behind %d others", path, links)
		case d.Type()&fs.ModeSymlink != 0:
			return listFiles(w, path, links+1)
		}
		info, err := d.Info()
		if err == nil {
			fmt.Fprintln(w, path, info.Size(), info.ModTime().UnixNano())
		}
		return err
	})
}
