package dataset

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
)

// A Peek is what a format is recognised by.
type Peek struct {
	Path   string
	Folder bool
	Stream bool // only the beginning can be read: Size is -1
	// The rest is set for files and streams.
	Ext  string // the name's extension, in lower case, without .gz if it is gzipped
	Head []byte // the first bytes, at most 512, decompressed if it is gzipped
	Gzip bool
	Size int64
	io.ReaderAt
}

// peek reads the beginning of the file.
func (p *Peek) peek() error {
	p.Ext = strings.ToLower(filepath.Ext(p.Path))
	p.Head = make([]byte, 512)
	n, err := p.ReadAt(p.Head, 0)
	if err != nil && err != io.EOF {
		return pathError(p.Path, err)
	}
	p.Head = p.Head[:n]
	if !bytes.HasPrefix(p.Head, gzipMagic) {
		return nil
	}
	p.Gzip = true
	z, err := gzip.NewReader(bytes.NewReader(p.Head))
	if err != nil {
		return fmt.Errorf("%s: broken gzip header: %w", p.Path, err)
	}
	p.Head = make([]byte, 512)
	n, _ = io.ReadFull(z, p.Head)
	p.Head, p.Ext = p.Head[:n], strings.ToLower(filepath.Ext(strings.TrimSuffix(p.Path, filepath.Ext(p.Path))))
	return nil
}

// magic recognises files by their first bytes.
func magic(begins ...string) func(*Peek) (bool, error) {
	return func(p *Peek) (bool, error) {
		begin := func(m string) bool { return bytes.HasPrefix(p.Head, []byte(m)) }
		return !p.Gzip && slices.ContainsFunc(begins, begin), nil
	}
}

// named recognises files by their extensions.
func named(exts ...string) func(*Peek) (bool, error) {
	return func(p *Peek) (bool, error) { return slices.Contains(exts, p.Ext), nil }
}
