// Package archive walks through tar archives from outside.
package archive

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
)

// maxName bounds a member's path, as Linux does a file's.
const maxName = 4096

// A Member is a file or link in an archive.
type Member struct {
	Name    string // from the root of the archive, as unpacking takes it, whatever ./, ../ or / it begins with
	Size    int64
	At      int64 // where its content begins in the archive; 0 of a stream
	Regular bool  // neither a link nor a special file
	Sparse  bool  // its content is stored with its zeros left out
}

// Name returns a member's path as unpacking takes it.
func Name(s string) string { return path.Clean("/" + s)[1:] }

// Walk calls each with every member but folders, in their order, and with what reads its content
// until each returns. Its error ends the walk. Where r seeks, contents that are not read are skipped
// so. An archive that lacks the two blocks of zeros at its end is refused, as it may be cut off.
func Walk(r io.Reader, each func(m Member, content io.Reader) error) error {
	const beginning = "its beginning"
	w := &whole{Reader: r}
	seeker, _ := r.(io.Seeker)
	archive, last := tar.NewReader(w), beginning
	if seeker != nil {
		archive = tar.NewReader(&wholeSeeker{w, seeker})
	}
	for {
		h, err := archive.Next()
		if err == io.EOF && !w.short {
			return nil
		}
		if err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) && last != beginning {
			return fmt.Errorf("is cut off: the two blocks of zeros that end an archive are missing behind %s; pack it again",
				last)
		}
		if err != nil && w.err != nil {
			return w.err
		}
		if err != nil && !errors.Is(err, tar.ErrInsecurePath) { // names are never opened
			return fmt.Errorf("not a tar archive, or a broken one, behind %s: %w", last, err)
		}
		if len(h.Name) > maxName {
			return fmt.Errorf("a member's name behind %s has %d bytes; the most is %d", last, len(h.Name), maxName)
		}
		m := Member{Name: Name(h.Name), Size: h.Size, Sparse: isSparse(h)}
		m.Regular = h.Typeflag == tar.TypeReg || h.Typeflag == tar.TypeGNUSparse
		last = fmt.Sprintf("%q", m.Name)
		if h.Typeflag == tar.TypeDir || h.Typeflag == tar.TypeXGlobalHeader {
			continue
		}
		if seeker != nil {
			// The reader takes whole blocks and skips contents by Seek, so that r stands at a
			// member's first byte when its header has been read.
			if m.At, err = seeker.Seek(0, io.SeekCurrent); err != nil {
				return err
			}
		}
		if err := each(m, archive); err != nil {
			return err
		}
	}
}

// A whole notes that less was there than was asked for. A tar.Reader asks for whole blocks, and for
// none behind the end of an archive, but takes the end of the file for that of the archive.
type whole struct {
	io.Reader
	short bool
	err   error // that is not the end
}

func (w *whole) Read(p []byte) (int, error) {
	n, err := io.ReadFull(w.Reader, p)
	switch {
	case err == nil:
	case err == io.ErrUnexpectedEOF || err == io.EOF:
		w.short = true
		if n > 0 {
			err = nil
		} else {
			err = io.EOF
		}
	default:
		w.err = err
	}
	return n, err
}

type wholeSeeker struct {
	*whole
	io.Seeker
}

// isSparse reports whether a member's content is not stored as it is.
func isSparse(h *tar.Header) bool {
	for key := range h.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") {
			return true
		}
	}
	return h.Typeflag == tar.TypeGNUSparse
}
