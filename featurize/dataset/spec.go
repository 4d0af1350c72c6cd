package dataset

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/mfgs/mfgs/onnx/files"
)

// supported ends the messages that refuse a format.
const supported = "supported are IDX (.gz too), image folders, .tar of images, PNG, JPEG, CIFAR binary, .npy, .npz, .csv and .jsonl"

// laterFormats are recognised so that they are refused by name.
var laterFormats = map[string]string{"parquet": "Parquet"}

// formats are the supported ones, as in format:path.
var formats = []string{"idx", "folder", "tar", "image", "cifar", "cifar10", "cifar100", "npy", "npz", "csv", "jsonl"}

// A parsedSpec is a SPEC taken apart.
type parsedSpec struct {
	format   string // "" to be recognised
	path     string
	from, to int // to is -1 for the end
	sliced   bool
}

var sliceSuffix = regexp.MustCompile(`\[([0-9]*):([0-9]*)\]$`)

// parseSpec takes a SPEC apart. Readings are tried from the most literal on,
// and the first whose path exists wins: the whole string, the string without
// format:, without the slice, without both.
func parseSpec(spec string, exists func(path string) bool) (parsedSpec, error) {
	whole := parsedSpec{path: spec, to: -1}
	if spec == "" {
		return whole, errors.New("the dataset SPEC is empty; want a path")
	}
	format, rest, known := cutFormat(spec)
	if exists(spec) {
		return whole, nil
	}
	if known && exists(rest) {
		return parsedSpec{format: format, path: rest, to: -1}, nil
	}
	last := whole
	if known {
		last.format, last.path = format, rest
	}
	if m := sliceSuffix.FindStringSubmatchIndex(spec); m != nil {
		from, to, err := sliceBounds(spec[m[2]:m[3]], spec[m[4]:m[5]])
		if err != nil {
			return whole, fmt.Errorf("%s: %w", spec, err)
		}
		literal := parsedSpec{path: spec[:m[0]], from: from, to: to, sliced: true}
		if literal.path != "" && exists(literal.path) {
			return literal, nil
		}
		last.from, last.to, last.sliced = from, to, true
		last.path = strings.TrimSuffix(last.path, spec[m[0]:])
	}
	if last.path == "" {
		return whole, fmt.Errorf("%s: no path in this SPEC", spec)
	}
	if exists(last.path) {
		return last, nil
	}
	return whole, notFound(last, exists)
}

// notFound explains why no reading of a SPEC names an existing path.
func notFound(s parsedSpec, exists func(string) bool) error {
	if open := strings.LastIndexByte(s.path, '['); open > 0 && strings.HasSuffix(s.path, "]") && exists(s.path[:open]) {
		return fmt.Errorf("%s: slice %s is not understood; want [a:b], [a:] or [:b] with whole numbers", s.path[:open], s.path[open:])
	}
	if format, rest, ok := strings.Cut(s.path, ":"); ok && len(format) > 1 && exists(rest) {
		return fmt.Errorf("%s: unknown format %q; want one of %s", rest, format, strings.Join(formats, ", "))
	}
	return fmt.Errorf("%s: no such file or folder", s.path)
}

func cutFormat(spec string) (format, rest string, known bool) {
	format, rest, ok := strings.Cut(spec, ":")
	if ok && rest != "" && (slices.Contains(formats, format) || laterFormats[format] != "") {
		return format, rest, true
	}
	return "", spec, false
}

// sliceBounds reads the two sides of [a:b]; an absent b is -1.
func sliceBounds(a, b string) (from, to int, err error) {
	to = -1
	if a != "" {
		if from, err = strconv.Atoi(a); err != nil {
			return 0, 0, fmt.Errorf("slice start %s is too large", a)
		}
	}
	if b != "" {
		if to, err = strconv.Atoi(b); err != nil {
			return 0, 0, fmt.Errorf("slice end %s is too large", b)
		}
		if to <= from {
			return 0, 0, fmt.Errorf("slice [%d:%d] is empty", from, to)
		}
	}
	return from, to, nil
}

// bounds returns the slice in a source of n examples.
func (s parsedSpec) bounds(n int) (from, to int, err error) {
	if !s.sliced {
		return 0, n, nil
	}
	from, to = s.from, s.to
	if to < 0 {
		to = n
	}
	if from >= n || to > n {
		end := ""
		if s.to >= 0 {
			end = strconv.Itoa(s.to)
		}
		return 0, 0, fmt.Errorf("%s: slice [%d:%s] reaches beyond its %d examples", s.path, s.from, end, n)
	}
	return from, to, nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// fileError words what the file system said about path, whose name the
// system's own message repeats.
func fileError(path string, err error) error {
	var pe *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s: no such file or folder", path)
	case errors.As(err, &pe):
		return fmt.Errorf("%s: %w", path, pe.Err)
	}
	return fmt.Errorf("%s: %w", path, err)
}

// openRegular opens a non-empty regular file.
func openRegular(path string) (*os.File, int64, error) {
	f, err := files.Open(path)
	if err != nil {
		return nil, 0, fileError(path, err)
	}
	fi, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, 0, fileError(path, err)
	}
	if fi.Size() == 0 {
		f.Close()
		return nil, 0, fmt.Errorf("%s: the file is empty", path)
	}
	return f, fi.Size(), nil
}

// sniff recognises the format of an existing file or folder by its content.
func sniff(path string) (string, error) {
	fi, err := os.Stat(path)
	if err != nil {
		return "", fileError(path, err)
	}
	if fi.IsDir() {
		return sniffFolder(path)
	}
	f, size, err := openRegular(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	head := make([]byte, 512)
	n, err := io.ReadFull(f, head)
	if err != nil && err != io.ErrUnexpectedEOF {
		return "", fileError(path, err)
	}
	head = head[:n]
	ext := strings.ToLower(filepath.Ext(path))
	// CIFAR has no magic number, and a dark picture of class 0 may look like
	// IDX's.
	if ext == ".bin" {
		format, err := sniffCIFAR(path, f, size)
		if err != nil && isIDX(head) {
			return "idx", nil
		}
		return format, err
	}
	if format := sniffBytes(head); format != "" {
		return format, nil
	}
	if ext == ".tar" && len(bytes.Trim(head, "\x00")) == 0 { // an archive of nothing is all zeros
		return "tar", nil
	}
	if bytes.HasPrefix(head, gzipMagic) {
		return sniffGzip(path, head)
	}
	switch ext {
	case ".jsonl", ".ndjson":
		return "jsonl", nil
	case ".json":
		return "", fmt.Errorf("%s: JSON is read as lines: write one object a line into a .jsonl file", path)
	case ".csv", ".tsv":
		return "csv", nil
	case ".png", ".jpg", ".jpeg", ".npy", ".npz", ".tar", ".parquet", ".gz":
		return "", fmt.Errorf("%s: not a %s file by its content (it begins % x)", path, ext, head[:min(4, len(head))])
	}
	return "", fmt.Errorf("%s: format not recognised: %s", path, supported)
}

var gzipMagic = []byte{0x1f, 0x8b}

// sniffBytes recognises formats that carry a magic number.
func sniffBytes(head []byte) string {
	switch {
	case isPNG(head), isJPEG(head):
		return "image"
	case bytes.HasPrefix(head, []byte(npyMagic)):
		return "npy"
	case bytes.HasPrefix(head, []byte("PK\x03\x04")), bytes.HasPrefix(head, []byte("PK\x05\x06")):
		return "npz"
	case bytes.HasPrefix(head, []byte("PAR1")):
		return "parquet"
	case len(head) >= 262 && string(head[257:262]) == "ustar":
		return "tar"
	case isIDX(head):
		return "idx"
	}
	return ""
}

func sniffGzip(path string, head []byte) (string, error) {
	z, err := gzip.NewReader(bytes.NewReader(head))
	if err != nil {
		return "", fmt.Errorf("%s: broken gzip header: %w", path, err)
	}
	inner := make([]byte, 262)
	n, _ := io.ReadFull(z, inner)
	switch format := sniffBytes(inner[:n]); format {
	case "idx", "tar":
		return format, nil
	}
	if name := strings.ToLower(path); strings.HasSuffix(name, ".tar.gz") || strings.HasSuffix(name, ".tgz") {
		return "tar", nil
	}
	switch inner, _ := strings.CutSuffix(strings.ToLower(path), ".gz"); filepath.Ext(inner) {
	case ".csv", ".tsv":
		return "csv", nil
	case ".jsonl", ".ndjson":
		return "jsonl", nil
	}
	return "", fmt.Errorf("%s: no format recognised inside the gzip: %s", path, supported)
}

// sniffFolder tells a folder of CIFAR batches from a folder of images.
func sniffFolder(path string) (string, error) {
	l, err := (&folderSource{root: path}).list("")
	if err != nil {
		return "", err
	}
	train, test, err := cifarFiles(path)
	if files := append(train, test...); err == nil && len(files) > 0 && len(l.images)+len(l.dirs) == 0 {
		f, size, err := openRegular(files[0])
		if err != nil {
			return "", err
		}
		defer f.Close()
		return sniffCIFAR(files[0], f, size)
	}
	return "folder", err
}
