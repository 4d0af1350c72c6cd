package onnx

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mfgs/mfgs/internal/files"
	"github.com/mfgs/mfgs/internal/onnx/graph"
	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// A store holds a model's bytes: in memory, in files of one folder, or in private copies of such files. Files
// are opened for every read; a file that has changed since is refused.
type store struct {
	folder string  // real path, "" when in memory
	files  []file  // the first is the model itself, the others hold external data
	copies *copies // nil if the original files are read
}

// mayGive bounds the elements computed from what is stored: a small file needs few.
func (s *store) mayGive() int64 {
	const small, times = 1 << 22, 16
	n := int64(small)
	for _, f := range s.files {
		n += min(times*min(f.size, graph.MaxWeightElements), graph.MaxWeightElements)
	}
	return n
}

type file struct {
	name    string // relative to the store's folder
	at      string // the file that is read: its name, or that of its copy
	data    []byte // in memory only
	derived bool   // it is a payload added by Derive, not a file of the model
	size    int64
	modTime time.Time // of the file that is read; not for private copies
	sum     []byte    // SHA-256, if known
}

// openStore opens the model file at path, or a copy of it if there are to be copies.
func openStore(path string, copies *copies) (*store, error) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, err
	}
	if real, err = filepath.Abs(real); err != nil {
		return nil, err
	}
	s := &store{folder: filepath.Dir(real), copies: copies}
	_, err = s.add(filepath.Base(real))
	return s, err
}

// readFrom is the real path of the folder of the files that are read, "" if all are in memory.
func (s *store) readFrom() string {
	if s.copies == nil {
		return s.folder
	}
	return s.copies.folder()
}

// add registers a file by its real path relative to the folder and returns its number.
func (s *store) add(name string) (int, error) {
	if i := slices.IndexFunc(s.files, func(f file) bool { return f.name == name }); i >= 0 {
		return i, nil
	}
	root, err := os.OpenRoot(s.folder)
	if err != nil {
		return 0, err
	}
	defer root.Close()
	info, err := root.Stat(name)
	if err != nil {
		return 0, err
	}
	if !info.Mode().IsRegular() {
		return 0, fmt.Errorf("%q is not a regular file", name)
	}
	added := file{name: name, at: name, size: info.Size(), modTime: info.ModTime()}
	if s.copies != nil {
		original, err := files.OpenIn(root, name)
		if err != nil {
			return 0, err
		}
		defer original.Close()
		if added, err = s.copies.take(original, name, len(s.files)); err != nil {
			return 0, err
		}
	}
	s.files = append(s.files, added)
	return len(s.files) - 1, nil
}

// open opens a registered file on disk.
func (s *store) open(i int) (*os.File, error) {
	want := s.files[i]
	root, err := os.OpenRoot(s.readFrom())
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := files.OpenIn(root, want.at)
	if err != nil {
		return nil, err
	}
	got, err := f.Stat()
	if err == nil && (!got.Mode().IsRegular() || got.Size() != want.size ||
		s.copies == nil && !got.ModTime().Equal(want.modTime)) {
		err = fmt.Errorf("%s has changed since it was opened", filepath.Join(s.readFrom(), want.at))
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// sum returns the hash that identifies the model.
func (s *store) sum() (string, error) {
	sums := make([][]byte, len(s.files))
	for i := range s.files {
		if sums[i] = s.files[i].sum; sums[i] != nil {
			continue
		}
		size := s.files[i].size
		r, err := s.section(i, 0, size)
		if err != nil {
			return "", err
		}
		h := sha256.New()
		n, err := io.Copy(h, r)
		r.Close()
		if err == nil && n != size {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return "", err
		}
		sums[i] = h.Sum(nil)
	}
	if len(sums) == 1 {
		return hex.EncodeToString(sums[0]), nil
	}
	all := sha256.Sum256(bytes.Join(sums, nil))
	return hex.EncodeToString(all[:]), nil
}

// reader returns the bytes of a span.
func (s *store) reader(span *onnxpb.Span) (io.ReadCloser, error) {
	return s.section(int(span.GetFile()), span.GetOffset(), span.GetLength())
}

// A section is a part of a file.
type section struct {
	*io.SectionReader
	io.Closer
}

// section returns length bytes of a file from offset on.
func (s *store) section(i int, offset, length int64) (section, error) {
	if data := s.files[i].data; data != nil {
		return section{io.NewSectionReader(bytes.NewReader(data), offset, length), io.NopCloser(nil)}, nil
	}
	f, err := s.open(i)
	if err != nil {
		return section{}, err
	}
	return section{io.NewSectionReader(f, offset, length), f}, nil
}

// external finds the file of external data at location. Hub caches keep model and data as symbolic links into
// one folder, so links are followed, starting in the folder that the user named or in that of the real
// model file; but the target must be in the latter. A file with several hard links is refused, as in
// ONNX's own loader, because another name of it may be outside of that folder.
func (s *store) external(given, location string) (int, error) {
	switch {
	case s.folder == "":
		return 0, errors.New("a model read from memory cannot have external data; open it from its folder")
	case location == "":
		return 0, errors.New("external data without a location")
	case strings.Contains(location, "_ORT_MEM_ADDR_"):
		return 0, fmt.Errorf("external data location %q names a memory address", location)
	}
	// Locations have the same meaning on every system: backslashes and drives are refused everywhere.
	if strings.ContainsAny(location, "\\\x00") || len(location) > 1 && location[1] == ':' && isLetter(location[0]) {
		return 0, fmt.Errorf("external data location %q is not a relative path with forward slashes", location)
	}
	local := filepath.FromSlash(location)
	if !filepath.IsLocal(local) || slices.Contains(strings.Split(filepath.ToSlash(local), "/"), "..") {
		return 0, fmt.Errorf("external data location %q leaves the model's folder", location)
	}
	for _, folder := range []string{given, s.folder} {
		real, err := filepath.EvalSymlinks(filepath.Join(folder, local))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return 0, err
		}
		if real, err = filepath.Abs(real); err != nil {
			return 0, err
		}
		name, err := filepath.Rel(s.folder, real)
		if err != nil || !filepath.IsLocal(name) {
			return 0, fmt.Errorf("external data location %q is a link that leaves the model's folder %s", location,
				s.folder)
		}
		info, err := os.Lstat(real)
		if err != nil {
			return 0, err
		}
		if n := hardLinks(info); n > 1 && info.Mode().IsRegular() {
			return 0, fmt.Errorf("external data file %q has %d hard links, of which some may be outside the model's folder; replace it with a copy",
				location, n)
		}
		return s.add(name)
	}
	return 0, fmt.Errorf("external data file %q is missing next to the model", location)
}

func isLetter(b byte) bool { return 'a' <= b|0x20 && b|0x20 <= 'z' }

// resolve replaces t's external data entries by a span.
func (s *store) resolve(given string, t *onnxpb.Tensor) error {
	var location string
	offset, length := int64(0), int64(-1)
	for _, e := range t.GetExternalData() {
		var err error
		switch e.GetKey() {
		case "location":
			location = e.GetValue()
		case "offset":
			offset, err = parseSize(e.GetValue())
		case "length":
			length, err = parseSize(e.GetValue())
		}
		if err != nil {
			return fmt.Errorf("external data %s %q is not a size", e.GetKey(), e.GetValue())
		}
	}
	i, err := s.external(given, location)
	if err != nil {
		return err
	}
	size := s.files[i].size
	if length < 0 {
		n, ok := onnxpb.Elements(t.GetDims())
		if ok {
			length, ok = tensor.Type(t.GetDataType()).Bytes(n)
		}
		if !ok {
			return errors.New("external data without a length")
		}
	}
	if offset > size || length > size-offset {
		return fmt.Errorf("external data reaches to byte %d+%d and %q has %d", offset, length, location, size)
	}
	file := int32(i)
	t.Span = &onnxpb.Span{File: &file, Offset: &offset, Length: &length}
	t.ExternalData, t.DataLocation = nil, nil
	return nil
}

func parseSize(s string) (int64, error) {
	n, err := strconv.ParseUint(s, 10, 63)
	return int64(n), err
}
