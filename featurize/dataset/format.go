package dataset

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/mfgs/mfgs/featurize/dataset/internal/arrays"
)

// A Format is a way to store examples. Formats that need large modules are in packages of their own,
// which call Register and which the command imports.
type Format struct {
	Name string // as in name:path
	Doc  string // its name in the list of supported formats; "" if another row's Doc covers it
	// Files and Folders say what a path of this format can be.
	Files, Folders bool
	// Sniff reports whether a file or folder is of this format. An error ends the search. A format
	// without Sniff must be named.
	Sniff func(*Peek) (bool, error)
	// Open opens the path. A format without Open is recognised and refused.
	Open func(path string, o Options) (Source, error)
	// Stream opens a stream, reading no more than it takes to know whether there are labels. Each pass
	// over the source calls in.Reader() again, yields positions starting at from, and ends with the
	// stream. A format without Stream cannot be read sequentially.
	Stream func(in *Stream, o Options) (Source, error)
}

// formats are tried in order: those recognised by content come before those recognised by name.
var formats []Format

func init() {
	formats = []Format{
		{"idx", "IDX (.gz too)", true, false, sniffIDX, openIDX, nil},
		{"folder", "image folders", false, true, sniffFolder, openFolder, nil},
		{"tar", ".tar of images", true, false, sniffTar, openTar, streamTar},
		{"image", "PNG, JPEG", true, false, sniffImage, openImage, nil},
		{"cifar10", "", true, true, sniffCIFAR(cifar10), openCIFAR(cifar10), nil},
		{"cifar100", "", true, true, sniffCIFAR(cifar100), openCIFAR(cifar100), nil},
		{"cifar", "CIFAR binary", true, true, nil, openAnyCIFAR, nil},
		{"npy", ".npy", true, false, magic(arrays.Magic), openNPY, nil},
		{"npz", ".npz", true, false, magic("PK\x03\x04", "PK\x05\x06"), openNPZ, nil},
		{"parquet", "Parquet", true, false, magic("PAR1"), nil, nil},
		{"csv", ".csv", true, false, named(".csv", ".tsv"), openCSV, nil},
		{"jsonl", ".jsonl", true, false, sniffJSONL, openJSONL, streamJSONL},
	}
}

// Register adds a format before all others, in place of one with the same name. Call it from init.
func Register(f Format) {
	formats = slices.DeleteFunc(formats, func(other Format) bool { return other.Name == f.Name })
	formats = slices.Insert(formats, 0, f)
}

// formatOf returns the format of a name, or nil.
func formatOf(name string) *Format {
	if i := slices.IndexFunc(formats, func(f Format) bool { return f.Name == name }); i >= 0 {
		return &formats[i]
	}
	return nil
}

// Formats returns the format names that a SPEC may have.
func Formats() []string { return namesOf(func(f Format) bool { return f.Open != nil }) }

func streamNames() []string { return namesOf(func(f Format) bool { return f.Stream != nil }) }

func namesOf(wanted func(Format) bool) (names []string) {
	for _, f := range formats {
		if wanted(f) {
			names = append(names, f.Name)
		}
	}
	return names
}

// supported lists the formats, for messages.
func supported() string {
	var docs []string
	for _, f := range formats {
		if f.Doc != "" && f.Open != nil {
			docs = append(docs, f.Doc)
		}
	}
	last := len(docs) - 1
	return "supported are " + strings.Join(docs[:last], ", ") + " and " + docs[last]
}

// sniff detects the format of an existing file or folder.
func sniff(path string) (*Format, error) {
	fi, err := os.Stat(path)
	if err != nil {
		return nil, pathError(path, err)
	}
	p := &Peek{Path: path, Folder: fi.IsDir()}
	if !p.Folder {
		f, size, err := openRegular(path)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		p.ReaderAt, p.Size = f, size
		if err := p.peek(); err != nil {
			return nil, err
		}
	}
	for i := range formats {
		f := &formats[i]
		if f.Sniff == nil || p.Folder && !f.Folders || !p.Folder && !f.Files {
			continue
		}
		if ok, err := f.Sniff(p); ok || err != nil {
			return f, err
		}
	}
	return nil, p.unknown()
}

// openFile opens a file or folder, and detects its format if f is nil.
func openFile(path string, f *Format, o Options) (Source, error) {
	if f == nil {
		var err error
		if f, err = sniff(path); err != nil {
			return nil, err
		}
	}
	if f.Open == nil {
		return nil, fmt.Errorf("%s: %s is not supported: %s", path, f.Doc, supported())
	}
	fi, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, pathError(path, err)
	case fi.IsDir() && !f.Folders:
		return nil, fmt.Errorf("%s: a folder, not a file of format %s", path, f.Name)
	case !fi.IsDir() && !f.Files:
		return nil, fmt.Errorf("%s: a file, not a folder of images", path)
	}
	src, err := f.Open(path, o)
	if err != nil {
		return nil, err
	}
	b := src.base()
	b.Path = path
	if b.Format == "" {
		b.Format = f.Name
	}
	return src, nil
}

// sniffStream detects the format of a stream from its first bytes.
func sniffStream(s *Stream) (*Format, error) {
	r, err := s.Reader()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.Name(), err)
	}
	p := &Peek{Path: s.Name(), Stream: true, Head: make([]byte, 0, 512), Size: -1}
	for err == nil && len(p.Head) < cap(p.Head) { // read no more than is needed
		var n int
		n, err = r.Read(p.Head[len(p.Head):cap(p.Head)])
		p.Head = p.Head[:len(p.Head)+n]
		p.ReaderAt = bytes.NewReader(p.Head)
		for i := range formats {
			f := &formats[i]
			if n == 0 || f.Stream == nil || f.Sniff == nil {
				continue
			}
			if ok, err := f.Sniff(p); ok || err != nil {
				return f, err
			}
		}
	}
	switch {
	case err != nil && err != io.EOF:
		return nil, fmt.Errorf("%s: %w", s.Name(), bareError(err))
	case len(p.Head) == 0:
		return nil, fmt.Errorf("%s: nothing comes on standard input", s.Name())
	}
	return nil, fmt.Errorf("%s: format not recognised: want one of %s, as in jsonl:-", s.Name(), strings.Join(streamNames(), ", "))
}

// unknown says why a file has no known format.
func (p *Peek) unknown() error {
	switch {
	case p.Gzip:
		return fmt.Errorf("%s: no format recognised inside the gzip: %s", p.Path, supported())
	case p.Ext == ".json":
		return fmt.Errorf("%s: JSON is read as lines: write one object per line to a .jsonl file", p.Path)
	case slices.Contains([]string{".png", ".jpg", ".jpeg", ".npy", ".npz", ".tar", ".parquet", ".arrow", ".arrows", ".feather",
		".gz"}, p.Ext):
		return fmt.Errorf("%s: not a %s file by its content (it begins % x)", p.Path, p.Ext,
			p.Head[:min(4, len(p.Head))])
	}
	return fmt.Errorf("%s: format not recognised: %s", p.Path, supported())
}

// openAnyCIFAR detects which of the two formats it is.
func openAnyCIFAR(path string, o Options) (Source, error) {
	f, err := sniff(path)
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(f.Name, "cifar") {
		return nil, fmt.Errorf("%s: not CIFAR binary: no .bin file of records of 3073 or 3074 bytes", path)
	}
	return f.Open(path, o)
}
