package onnx

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"github.com/mfgs/mfgs/onnx/files"
)

// copies makes private copies of the files of one model: what is in them changes no more, whatever is
// written to the originals. It copies into files, which ONNX Runtime can map, and into memory what is
// small, and what it cannot write.
type copies struct {
	draft   *files.Draft // nil until something is written
	refusal error        // why no file can be written
}

// smallCopy is the size in bytes up to which a file is copied into memory: a model of which ONNX Runtime
// then keeps a copy of its own costs less than files do.
var smallCopy int64 = 8 << 20 // replaced by tests

// folder is the real path of where the copies lie, "" if all are in memory.
func (c *copies) folder() string {
	if c.draft == nil {
		return ""
	}
	return c.draft.Path("")
}

// take copies a file, the i-th of its model.
func (c *copies) take(original *os.File, name string, i int) (file, error) {
	info, err := original.Stat()
	if err != nil {
		return file{}, err
	}
	if size := info.Size(); size > smallCopy && c.refusal == nil {
		var copied file
		copied, c.refusal = c.write(io.LimitReader(original, size), strconv.Itoa(i))
		if c.refusal == nil {
			copied.name = name
			return copied, nil
		}
		if _, err := original.Seek(0, io.SeekStart); err != nil {
			return file{}, err
		}
	}
	return c.hold(original, name, info.Size())
}

// write copies what can be read of a file into one of the draft.
func (c *copies) write(original io.Reader, at string) (file, error) {
	if c.draft == nil {
		draft, err := files.NewScratch()
		if err != nil {
			return file{}, err
		}
		c.draft = draft
	}
	path := c.draft.Path(at)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return file{}, err
	}
	n, sum, err := copyHashed(f, original)
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		os.Remove(path) // the memory is wanted: that folder may be memory too
		return file{}, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return file{}, err
	}
	return file{at: at, size: n, modTime: info.ModTime(), sum: sum}, nil
}

// copyHashed copies all of r and returns its SHA-256, which is computed while it is written.
func copyHashed(w io.Writer, r io.Reader) (n int64, sum []byte, err error) {
	const chunk = 1 << 20
	out, in := io.Pipe()
	h, hashed := sha256.New(), make(chan error, 1)
	go func() {
		_, err := io.CopyBuffer(h, out, make([]byte, chunk))
		hashed <- err
	}()
	n, err = io.CopyBuffer(io.MultiWriter(w, in), r, make([]byte, chunk))
	in.Close()
	if e := <-hashed; err == nil {
		err = e
	}
	return n, h.Sum(nil), err
}

// hold reads a file of a size into memory.
func (c *copies) hold(original *os.File, name string, size int64) (file, error) {
	if size > maxFile {
		return file{}, c.refused(size)
	}
	data := make([]byte, size)
	n, err := io.ReadFull(original, data)
	if err != nil && err != io.ErrUnexpectedEOF && err != io.EOF { // what shrinks meanwhile is another file
		return file{}, err
	}
	return file{name: name, data: data[:n], size: int64(n)}, nil
}

// refused says that a model of so many bytes needs a file, nil if one could be written.
func (c *copies) refused(size int64) error {
	if c.refusal == nil {
		return nil
	}
	return fmt.Errorf("the model has %d bytes, of which no copy can be made in %s: %w: set TMPDIR to a folder with that much room",
		size, filepath.Clean(os.TempDir()), c.refusal)
}

// close removes the copies.
func (c *copies) close() error {
	if c.draft == nil {
		return nil
	}
	d := c.draft
	c.draft = nil
	return d.Close()
}
