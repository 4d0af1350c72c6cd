package dataset

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"time"
)

// begin starts the digest of the examples from…to-1. What is read from now on is added.
func (d *digest) begin(header string, from, to int) {
	if d.h == nil {
		d.h, d.from, d.to = sha256.New(), from, to
		io.WriteString(d.h, header)
	}
}

// lock locks the digest if it has begun, is incomplete and is not locked: readers never wait.
func (d *digest) lock() bool {
	if !d.mu.TryLock() {
		return false
	}
	if d.h == nil || d.sum != "" {
		d.mu.Unlock()
		return false
	}
	return true
}

// maxGap bounds the bytes, such as headers, that are read for the digest alone between two reads.
const maxGap = 64 << 10

// read adds bytes read from a file at an offset, if they follow what is hashed, but for a small gap.
func (d *digest) read(f *File, off int64, p []byte) {
	if !d.lock() {
		return
	}
	defer d.mu.Unlock()
	if f.part != d.part || off > d.at+maxGap {
		return
	}
	if off > d.at {
		gap := make([]byte, off-d.at)
		if _, err := f.f.ReadAt(gap, d.at); err != nil {
			return
		}
		d.write(f, gap)
	}
	p = p[:max(0, min(int64(len(p)), f.size-off))]
	if end := off + int64(len(p)); end > d.at {
		d.write(f, p[d.at-off:])
	}
}

// write adds the next bytes of a file.
func (d *digest) write(f *File, p []byte) {
	if !d.open {
		fmt.Fprintf(d.h, "%d\n", f.size)
		d.open = true
	}
	d.h.Write(p)
	if d.at += int64(len(p)); d.at == f.size {
		d.part, d.at, d.open = d.part+1, 0, false
	}
}

// hash reads the parts of the files that are not hashed yet.
func (b *Base) hash(ctx context.Context, d *digest, _, _ int) error {
	buf := make([]byte, 256<<10)
	for d.part < len(b.files) {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		f := b.files[d.part]
		n, err := f.f.ReadAt(buf[:min(int64(len(buf)), f.size-d.at)], d.at)
		switch {
		case n == 0 && err == io.EOF:
			return fmt.Errorf("%s: changed while in use: it had %d bytes and has %d", f.f.Name(), f.size, d.at)
		case n == 0 && err != nil:
			return fmt.Errorf("%s: %w", f.f.Name(), bareError(err))
		}
		d.write(f, buf[:n])
	}
	return nil
}

func (b *Base) stamp(w io.Writer, _, _ int) (latest time.Time, err error) {
	for _, f := range b.files {
		fi, err := f.f.Stat()
		if err != nil {
			return latest, pathError(f.f.Name(), err)
		}
		path, err := filepath.Abs(f.f.Name())
		if err != nil {
			return latest, err
		}
		latest = stampFile(w, path, fi, latest)
	}
	return latest, nil
}

func stampFile(w io.Writer, path string, fi os.FileInfo, latest time.Time) time.Time {
	fmt.Fprintf(w, "%q %d %d\n", path, fi.Size(), fi.ModTime().UnixNano())
	if fi.ModTime().After(latest) {
		return fi.ModTime()
	}
	return latest
}

// hashSized adds size and content to h.
func hashSized(ctx context.Context, h hash.Hash, r io.ReaderAt, size int64) error {
	fmt.Fprintf(h, "%d\n", size)
	buf := make([]byte, min(size, 256<<10))
	src := io.NewSectionReader(r, 0, size)
	for {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		n, err := src.Read(buf)
		h.Write(buf[:n])
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// imagePart is the format of the path and label that precede the size and content of an image.
const imagePart = "%q %d "

// image adds the image at a position, with its label map if that is not nil, if it is the next part. If it could not be
// read and content is nil, all adds it, reading as much as it can.
func (d *digest) image(position int, name string, label int, content, labels []byte, all func(hash.Hash) error) {
	if !d.lock() {
		return
	}
	defer d.mu.Unlock()
	if d.from+d.part != position || position >= d.to {
		return
	}
	if content == nil {
		_ = d.whole(all(d.h)) // an error occurs again when the digest is completed
		return
	}
	fmt.Fprintf(d.h, imagePart+"%d\n", name, label, len(content))
	d.h.Write(content)
	if labels != nil {
		fmt.Fprintf(d.h, "%d\n", len(labels))
		d.h.Write(labels)
	}
	d.part++
}

// whole records that a part was added, or drops the digest if half of it may have been.
func (d *digest) whole(err error) error {
	if err != nil {
		d.h = nil
		return err
	}
	d.part++
	return nil
}

// opened is an open source and the selected slice of it.
type opened struct {
	spec     string
	src      Source
	slice    struct{ from, to int }
	from, to int    // the shard of the slice
	header   string // first part of the fingerprint
	keep     bool   // Options.Fingerprint
}

// open determines the slice and its shard, and begins the fingerprint if it is wanted. A stream is one
// shard.
func (o *opened) open(s Spec, count int, format string, opts Options) (err error) {
	if err := opts.Shard.Validate(); err != nil {
		return err
	}
	if o.stream() != nil {
		o.slice.to = max(1, opts.Shard.Count) * StreamPositions
		o.from = max(0, opts.Shard.Index-1) * StreamPositions
		o.to = o.from + StreamPositions
		o.header = fmt.Sprintf("stream %s %t\n", format, o.HasLabels())
		return nil
	}
	if o.slice.from, o.slice.to, err = s.bounds(count); err != nil {
		return err
	}
	o.from, o.to = opts.Shard.Range(o.slice.from, o.slice.to)
	o.header, o.keep = fmt.Sprintf("%s %t %d %d\n", format, o.HasLabels(), o.from, o.to), opts.Fingerprint
	if o.keep {
		o.src.base().digest.begin(o.header, o.from, o.to)
	}
	return nil
}

// Spec returns the SPEC that was opened.
func (o *opened) Spec() string { return o.spec }

// Path returns the file or folder that holds the examples.
func (o *opened) Path() string { return o.src.base().Path }

// Slice returns the positions of the examples in the source, from…to-1. For a stream to is an upper
// bound.
func (o *opened) Slice() (from, to int) { return o.slice.from, o.slice.to }

// Len returns the number of examples in the slice, over all shards, or -1 for a stream.
func (o *opened) Len() int {
	if o.stream() != nil {
		return -1
	}
	return o.slice.to - o.slice.from
}

func (o *opened) stream() *Stream { return o.src.base().stream }

// Range returns the positions of the shard, from…to-1, which may be empty: those that are read and that
// the fingerprint covers.
func (o *opened) Range() (from, to int) { return o.from, o.to }

// HasLabels reports whether every example has a label.
func (o *opened) HasLabels() bool { return o.src.base().Labelled }

// Close releases the source's files. Passes still running fail.
func (o *opened) Close() error { return o.src.base().Close() }

// Fingerprint returns a SHA-256 in hex of everything that determines the examples: the bounds of the
// shard, the content of the files (for folders and archives: relative paths, labels and contents of the
// files in the slice), and whether there are labels. It does not depend on where the files are.
//
// It reads all of the files, or under Options.Fingerprint those that no pass over the examples has
// read. For a stream it covers all bytes, and is available once these have been read.
func (o *opened) Fingerprint(ctx context.Context) (string, error) {
	if s := o.stream(); s != nil {
		return s.fingerprint(o.header)
	}
	d := &o.src.base().digest
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.sum != "" {
		return d.sum, nil
	}
	if d.h == nil {
		d.part, d.at, d.open = 0, 0, false
		d.begin(o.header, o.from, o.to)
	}
	if err := o.src.hash(ctx, d, o.from, o.to); err != nil {
		return "", err
	}
	sum := hex.EncodeToString(d.h.Sum(nil))
	d.h = nil
	if o.keep {
		d.sum = sum
	}
	return sum, nil
}

// Skip announces that no pass will read what is before a position. Under Options.Fingerprint it is
// hashed now, so that a pass can add what follows.
func (o *opened) Skip(ctx context.Context, position int) error {
	d := &o.src.base().digest
	if position <= o.from || !d.lock() {
		return nil
	}
	defer d.mu.Unlock()
	return o.src.hash(ctx, d, o.from, min(position, o.to))
}

// settled is how old a file's last change must be for its size and time to identify its content: a
// change within the clock's resolution would not show.
const settled = 2 * time.Second

// Stamp returns a SHA-256 in hex of what Fingerprint covers, with the path, size and modification time
// of each file in place of its content: while it is the same, so is the fingerprint. It is "" if a file
// has just changed, and for a stream. It reads no file.
func (o *opened) Stamp() (string, error) {
	if o.stream() != nil {
		return "", nil
	}
	h := sha256.New()
	io.WriteString(h, o.header)
	latest, err := o.src.stamp(h, o.from, o.to)
	if err != nil || time.Since(latest) < settled {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// Remember sets the fingerprint, which was computed when the stamp was the same.
func (o *opened) Remember(fingerprint string) {
	d := &o.src.base().digest
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sum = fingerprint
}

// hashFile adds size and content of a file. One that cannot be read is a bad record, not an error.
func hashFile(ctx context.Context, h hash.Hash, path string) error {
	f, size, err := openRegular(path)
	if err != nil {
		fmt.Fprintln(h, "unreadable")
		return context.Cause(ctx)
	}
	defer f.Close()
	return hashSized(ctx, h, f, size)
}

// stampPath stamps the file at a path.
func stampPath(w io.Writer, path string, latest time.Time) time.Time {
	info, err := os.Stat(path)
	if err != nil {
		fmt.Fprintln(w, "unreadable")
		return latest
	}
	return stampFile(w, path, info, latest)
}
