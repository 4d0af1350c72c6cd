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

// A Source reads one format. Its type embeds [Base]. Positions are those in the source, not in a slice.
type Source interface {
	// Examples reads the examples at positions from…to-1 in order. A *RecordError concerns one
	// example, and the iteration goes on; any other error is the last.
	Examples(from, to int) iter.Seq2[Example, error]
	Close() error

	base() *Base
	hasher
}

// Base is what all sources have in common: what is known once they are open, and their files.
type Base struct {
	Path     string
	Format   string   // "" is the name of the row that opened it
	Count    int      // examples; -1 of a stream
	Labelled bool     // every example has a label
	Ragged   bool     // examples may have different shapes
	Text     bool     // examples are written value by value, or as lists of any length
	Columns  []string // of a table, which feed the model's only input together; nil if there are none, or too many
	Classes  []string // names of the class folders
	Labels   []int    // the labels of Classes; nil if these do not label the examples
	ByOrder  bool     // Labels are the order of Classes, for want of a better rule
	Ignored  []Ignored

	files  []*File
	stream *Stream // nil for files
	digest digest
}

func (b *Base) base() *Base { return b }

// Open opens a non-empty regular file and adds it to the source's files, which the fingerprint covers.
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

// A File is a file that a source reads. If the fingerprint is wanted, what is read in order is hashed.
type File struct {
	f      *os.File
	size   int64
	part   int // its index in the source's files
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

// A hasher hashes what determines a source's examples from…to-1, in parts of a fixed order: its files
// or, for folders and archives of images, its examples.
type hasher interface {
	// hash adds the parts that are missing from the digest, which is locked.
	hash(ctx context.Context, d *digest, from, to int) error
	// stamp writes path, size and modification time of each part, and returns the latest of these times.
	stamp(w io.Writer, from, to int) (latest time.Time, err error)
}

// A digest is a SHA-256 over parts. A pass that reads the next part adds it; parts that no pass has
// added are read at the end.
type digest struct {
	mu   sync.Mutex
	h    hash.Hash // nil until the digest is begun
	from int       // position of part 0, if parts are examples
	to   int       // position after the last part, if parts are examples
	sum  string    // "" until it is complete
	part int       // the first part that is not hashed completely
	at   int64     // bytes of it that are hashed, if it is a file
	open bool      // its size is hashed, if it is a file
}
