package onnx

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"github.com/mfgs/mfgs/internal/files"
)

// copies makes private copies of the files of one model, so that writing to the originals changes nothing.
// Large files are copied to disk, where ONNX Runtime can map them; small ones, or all if the disk cannot
// be written, to memory.
type copies struct {
	ctx     context.Context // while they are made
	draft   *files.Draft    // nil until something is written
	refusal error           // why no file can be written
	held    int64           // bytes in memory
}

// smallCopy is the size of a model that is copied to memory: ONNX Runtime's second copy of it costs less
// than files.
var smallCopy int64 = 8 << 20 // replaced by tests

// folder is the real path of the copies' folder, "" if all are in memory.
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
	if size := info.Size(); c.held+size > smallCopy && c.refusal == nil {
		var copied file
		copied, c.refusal = c.write(files.Reader(c.ctx, io.LimitReader(original, size)), strconv.Itoa(i))
		if err := context.Cause(c.ctx); err != nil {
			return file{}, err
		}
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

// write copies a file to one of the draft.
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
		os.Remove(path) // frees the space at once: TMPDIR may be a tmpfs
		return file{}, err
	}
	return file{at: at, size: n, sum: sum}, nil
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

// hold reads a file into memory.
func (c *copies) hold(original *os.File, name string, size int64) (file, error) {
	if size > maxFile-c.held {
		return file{}, cmp.Or(c.refused(c.held+size), errTooLarge)
	}
	c.held += size
	data := make([]byte, size)
	n, err := io.ReadFull(files.Reader(c.ctx, original), data)
	if err != nil && err != io.ErrUnexpectedEOF && err != io.EOF { // a file that shrinks fails its checksum
		return file{}, err
	}
	return file{name: name, data: data[:n], size: int64(n)}, nil
}

// refused is the error about a model of so many bytes that needs a file, nil if one could be written.
func (c *copies) refused(size int64) error {
	if c.refusal == nil {
		return nil
	}
	return fmt.Errorf("the model has %d bytes, and cannot be copied to %s: %w: set TMPDIR to a folder with enough space",
		size, filepath.Clean(os.TempDir()), c.refusal)
}

// heldBecause says why copies that are not small are in memory, nil if none are.
func (c *copies) heldBecause() error {
	if c.refusal == nil {
		return nil
	}
	return fmt.Errorf("the model is read into memory, which takes several times its %d bytes, since it cannot be copied to %s: %w: set TMPDIR to a folder with enough space",
		c.held, filepath.Clean(os.TempDir()), c.refusal)
}

// close removes the copies. Windows does not remove files that a session has mapped: they are removed by
// the next copies in the same folder.
func (c *copies) close() error {
	if c.draft == nil {
		return nil
	}
	d := c.draft
	c.draft = nil
	return d.Close()
}
