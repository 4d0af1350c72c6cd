package images

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mfgs/mfgs/internal/files"
)

// Limits on an archive. CIFAR-10 has 60,000 files in 50 MB.
const (
	maxImages     = 1 << 18
	maxImage      = 4 << 20
	maxImageTotal = 1 << 30
)

// A File is an encoded image file of an archive.
type File struct {
	Name  string // in the archive, with / between folders
	Data  []byte
	Label string // from a label file, verbatim; "" if the folder is the class
}

// class returns the folder of an image.
func (f File) class() string { return path.Base(path.Dir(f.Name)) }

// ReadArchive reads the images of a tar file, gzipped or not, sorted by name.
func ReadArchive(ctx context.Context, file string) ([]File, error) {
	f, err := files.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var r io.Reader = f
	if strings.HasSuffix(file, ".gz") {
		z, err := gzip.NewReader(f)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		r = z
	}
	all, err := readTar(ctx, tar.NewReader(r))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	slices.SortFunc(all, func(a, b File) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}

func readTar(ctx context.Context, r *tar.Reader) ([]File, error) {
	var all []File
	total := int64(0)
	for {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		h, err := r.Next()
		if err == io.EOF {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		name := path.Clean(h.Name)
		if h.Typeflag != tar.TypeReg {
			continue
		}
		switch strings.ToLower(path.Ext(name)) {
		case ".jpg", ".jpeg", ".png":
		default:
			continue
		}
		total += h.Size
		switch {
		case !filepath.IsLocal(name):
			return nil, fmt.Errorf("%q is outside the archive", h.Name)
		case h.Size > maxImage:
			return nil, fmt.Errorf("%s has %d bytes, want at most %d", name, h.Size, maxImage)
		case len(all) == maxImages || total > maxImageTotal:
			return nil, fmt.Errorf("more than %d images, or %d bytes of them", maxImages, maxImageTotal)
		}
		data := make([]byte, h.Size)
		if _, err := io.ReadFull(r, data); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, File{Name: name, Data: data})
	}
}

// ReadLabels sets the labels from a label file, whose lines are a path and a label.
func ReadLabels(file string, all []File) error {
	text, err := files.Read(file, 1<<30)
	if err != nil {
		return err
	}
	labels := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 1 {
			labels[f[0]] = f[1]
		}
	}
	for i := range all {
		label, ok := labels[all[i].Name]
		if !ok {
			return fmt.Errorf("%s: no label for %s", file, all[i].Name)
		}
		all[i].Label = label
	}
	return nil
}

// Under returns the images below a folder, with paths relative to it.
func Under(all []File, folder string) []File {
	var below []File
	for _, f := range all {
		if name, ok := strings.CutPrefix(f.Name, folder+"/"); ok {
			f.Name = name
			below = append(below, f)
		}
	}
	return below
}

// Split divides each class at position n of its images, which are sorted by name.
// A negative n counts from the end.
func Split(all []File, n int) (before, after []File, err error) {
	classes := map[string][]File{}
	var order []string
	for _, f := range all {
		if classes[f.class()] == nil {
			order = append(order, f.class())
		}
		classes[f.class()] = append(classes[f.class()], f)
	}
	for _, c := range order {
		at := n
		if n < 0 {
			at += len(classes[c])
		}
		if at <= 0 || at >= len(classes[c]) {
			return nil, nil, fmt.Errorf("class %s has %d images: cannot split it at %d", c, len(classes[c]), n)
		}
		before = append(before, classes[c][:at]...)
		after = append(after, classes[c][at:]...)
	}
	return before, after, nil
}

// WriteArchive writes a tar file and, if images have labels, a label file beside it, as package
// featurize/dataset reads them.
func WriteArchive(file string, all []File) error {
	var b, labels bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range all {
		err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: f.Name, Size: int64(len(f.Data)), Mode: 0o644})
		if err == nil {
			_, err = w.Write(f.Data)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if f.Label != "" {
			fmt.Fprintf(&labels, "%s\t%s\n", f.Name, f.Label)
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	if labels.Len() > 0 {
		if err := WriteFile(strings.TrimSuffix(file, ".tar")+"-labels.txt", labels.Bytes()); err != nil {
			return err
		}
	}
	return WriteFile(file, b.Bytes())
}

// WriteFile writes a file atomically and creates its folder if needed.
func WriteFile(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), files.FolderMode); err != nil {
		return err
	}
	return files.Write(path, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}
