package dataset

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"iter"
	"path"
	"strconv"
	"strings"
)

// maxMemberName bounds a member's path, as Linux does a file's.
const maxMemberName = 4096

// A tarEntry is a file or link in an archive.
type tarEntry struct {
	Name    string // from the root of the archive, without a leading ./, ../ or /
	Size    int64
	At      int64     // offset of its content in the archive; 0 in a stream
	Regular bool      // neither a link nor a special file
	Sparse  bool      // its content is stored with its zeros left out
	Content io.Reader // valid until the next member
}

// unpackedPath returns where unpacking would write a member.
func unpackedPath(s string) string { return path.Clean("/" + s)[1:] }

// walkTar reads an archive member by member, in order and without its folders. Content that is not
// read is skipped, by seeking where r can. An archive without the two blocks of zeros at its end may
// be cut off, and is refused. An error is the last.
func walkTar(r io.Reader) iter.Seq2[tarEntry, error] {
	return func(yield func(tarEntry, error) bool) {
		w := &wholeReader{Reader: r}
		seeker, _ := r.(io.Seeker)
		archive := tar.NewReader(w)
		if seeker != nil {
			archive = tar.NewReader(&wholeSeeker{w, seeker})
		}
		last, begun := "", false
		for {
			h, err := archive.Next()
			if err == io.EOF && !w.short {
				return
			}
			var m tarEntry
			if err = w.headerError(h, err, last, begun); err == nil {
				m = tarEntry{Name: unpackedPath(h.Name), Size: h.Size, Sparse: isSparse(h), Content: archive}
				m.Regular = h.Typeflag == tar.TypeReg || h.Typeflag == tar.TypeGNUSparse
				last, begun = m.Name, true
				if h.Typeflag == tar.TypeDir || h.Typeflag == tar.TypeXGlobalHeader {
					continue
				}
				if seeker != nil {
					// The reader takes whole blocks and skips content by Seek, so r is at the member's
					// first byte once its header has been read.
					m.At, err = seeker.Seek(0, io.SeekCurrent)
				}
			}
			if !yield(m, err) || err != nil {
				return
			}
		}
	}
}

// headerError says what is wrong with the header after the member called last, which is "" for the folder itself, or
// with the first header if no other was read.
func (w *wholeReader) headerError(h *tar.Header, err error, last string, begun bool) error {
	place := "its beginning"
	if begun {
		place = strconv.Quote(last)
	}
	switch {
	case err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) && begun:
		return fmt.Errorf("is cut off: the two blocks of zeros that end an archive are missing after %s: create it again",
			place)
	case err != nil && w.err != nil:
		return w.err
	case err != nil && !errors.Is(err, tar.ErrInsecurePath): // names are never opened
		return fmt.Errorf("not a tar archive, or a damaged one, after %s: %w", place, err)
	case len(h.Name) > maxMemberName:
		return fmt.Errorf("a member's name after %s has %d bytes; want at most %d", place, len(h.Name), maxMemberName)
	}
	return nil
}

// A wholeReader notes short reads. A tar.Reader asks for whole blocks, and for none after the end of
// an archive, but takes the end of the file for that of the archive.
type wholeReader struct {
	io.Reader
	short bool
	err   error // other than the end
}

func (w *wholeReader) Read(p []byte) (int, error) {
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
	*wholeReader
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
