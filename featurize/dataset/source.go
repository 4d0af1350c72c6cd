package dataset

import (
	"context"
	"errors"
	"hash"
	"io"
	"iter"
	"os"
	"sync"
	"time"
)

// A Source reads one format. Its type embeds [Base]. Positions are absolute.
type Source interface {
	// Examples reads the examples at positions from…to-1 in order. A *RecordError concerns one
	// example, and the iteration goes on; any other error is the last.
	Examples(from, to int) iter.Seq2[Example, error]
	Close() error

	base() *Base
	hasher
}

// Base is what all sources have: what they know of themselves once opened, and their files.
type Base struct {
	Path     string
	Format   string   // "" is the name that the format was opened by
	Count    int      // examples; -1 of a stream
	Labelled bool     // every example has a label
	Ragged   bool     // examples may differ in their shapes
	Text     bool     // examples are written value by value, or stand in lists of any length
	Classes  []string // names of the class folders
	Labels   []int    // of Classes, where they label the examples; else nil
	Ignored  []Ignored

	files  []*File
	stream *Stream // nil where all can be read again
	digest digest
}

func (b *Base) base() *Base { return b }

// Open opens a non-empty regular file that determines the source's examples.
func (b *Base) Open(path string) (*File, error) {
	f, size, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	file := &File{f, size, len(b.files), &b.digest}
	b.files = append(b.files, file)
	return file, nil
}

// Close closes the source's files.
func (b *Base) Close() error {
	var errs []error
	for _, f := range b.files {
		errs = append(errs, f.f.Close())
	}
	return errors.Join(errs...)
}

// A File is one that a source reads from. While the fingerprint is wanted, what is read of it in
// order is hashed on the way.
type File struct {
	f      *os.File
	size   int64
	part   int // its place among the source's files
	digest *digest
}

// Size returns the bytes that the file had when it was opened.
func (f *File) Size() int64 { return f.size }

// Reader reads the whole file.
func (f *File) Reader() io.Reader { return io.NewSectionReader(f, 0, f.size) }

// ReadAt reads as os.File does.
func (f *File) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.f.ReadAt(p, off)
	f.digest.read(f, off, p[:n])
	return n, err
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func isDir(path string) bool {
	fi, err := os.Stat(path)
	return err == nil && fi.IsDir()
}

// A hasher hashes what determines a source's examples from…to-1: parts in a fixed order, which are
// its files or, of folders and archives of images, its examples.
type hasher interface {
	// hash adds the parts that the digest does not hold yet. The digest is locked.
	hash(ctx context.Context, d *digest, from, to int) error
	// stamp writes for each part what tells that its content may have changed, and returns the time
	// of the latest change.
	stamp(w io.Writer, from, to int) (latest time.Time, err error)
}

// A digest is a SHA-256 over parts, to which whoever reads a part in order adds it on the way. What
// nobody has read is read in the end.
type digest struct {
	mu   sync.Mutex
	h    hash.Hash // nil until the digest is begun
	from int       // the source's position that part 0 is of; for examples only
	to   int       // the position behind the last part's; for examples only
	sum  string    // "" until it is complete
	part int       // the first that is not hashed whole
	at   int64     // bytes of it that are hashed; for files only
	open bool      // its size is hashed; for files only
}
