// Package archive reads and writes tar files of images in folders by class, or with a file of labels.
package archive

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mfgs/mfgs/internal/files"
)

// Bounds of the archives read: CIFAR-10 has 60,000 files in 50 MB.
const (
	maxImages     = 1 << 18
	maxImage      = 4 << 20
	maxImageTotal = 1 << 30
)

// An Image is an encoded image file of an archive.
type Image struct {
	Name  string // in the archive, with / between folders
	Data  []byte
	Label string // of a label file, as it stands there; "" where the folder tells
}

// class returns the folder of an image.
func (i Image) class() string { return path.Base(path.Dir(i.Name)) }

// Read reads the images of a tar file, gzipped or not, in the order of their names.
func Read(ctx context.Context, file string) ([]Image, error) {
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
	images, err := images(ctx, tar.NewReader(r))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	slices.SortFunc(images, func(a, b Image) int { return cmp.Compare(a.Name, b.Name) })
	return images, nil
}

func images(ctx context.Context, r *tar.Reader) ([]Image, error) {
	var images []Image
	total := int64(0)
	for {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		h, err := r.Next()
		if err == io.EOF {
			return images, nil
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
			return nil, fmt.Errorf("%q leads out of the archive", h.Name)
		case h.Size > maxImage:
			return nil, fmt.Errorf("%s has %d bytes, the most is %d", name, h.Size, maxImage)
		case len(images) == maxImages || total > maxImageTotal:
			return nil, fmt.Errorf("more than %d images, or %d bytes of them", maxImages, maxImageTotal)
		}
		data := make([]byte, h.Size)
		if _, err := io.ReadFull(r, data); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		images = append(images, Image{Name: name, Data: data})
	}
}

// ReadLabels fills in the labels of a label file: lines of path and label.
func ReadLabels(file string, images []Image) error {
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
	for i := range images {
		label, ok := labels[images[i].Name]
		if !ok {
			return fmt.Errorf("%s: no label for %s", file, images[i].Name)
		}
		images[i].Label = label
	}
	return nil
}

// Within returns the images below a folder, by paths relative to it.
func Within(images []Image, folder string) []Image {
	var below []Image
	for _, i := range images {
		if name, ok := strings.CutPrefix(i.Name, folder+"/"); ok {
			i.Name = name
			below = append(below, i)
		}
	}
	return below
}

// Split returns, of every class, the images before position n and those from n on;
// a negative n counts from the end. Images are in the order of their names.
func Split(images []Image, n int) (before, behind []Image, err error) {
	classes := map[string][]Image{}
	var order []string
	for _, i := range images {
		if classes[i.class()] == nil {
			order = append(order, i.class())
		}
		classes[i.class()] = append(classes[i.class()], i)
	}
	for _, c := range order {
		at := n
		if n < 0 {
			at += len(classes[c])
		}
		if at <= 0 || at >= len(classes[c]) {
			return nil, nil, fmt.Errorf("class %s has %d images, which cannot be split at %d", c, len(classes[c]), n)
		}
		before = append(before, classes[c][:at]...)
		behind = append(behind, classes[c][at:]...)
	}
	return before, behind, nil
}

// Write writes a tar file and, where images have labels, its label file,
// for package featurize/dataset to read.
func Write(file string, images []Image) error {
	var b, labels bytes.Buffer
	w := tar.NewWriter(&b)
	for _, i := range images {
		err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: i.Name, Size: int64(len(i.Data)), Mode: 0o644})
		if err == nil {
			_, err = w.Write(i.Data)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if i.Label != "" {
			fmt.Fprintf(&labels, "%s\t%s\n", i.Name, i.Label)
		}
	}
	if err := errors.Join(w.Close(), os.MkdirAll(filepath.Dir(file), files.FolderMode)); err != nil {
		return err
	}
	if labels.Len() > 0 {
		if err := WriteFile(strings.TrimSuffix(file, ".tar")+"-labels.txt", labels.Bytes()); err != nil {
			return err
		}
	}
	return WriteFile(file, b.Bytes())
}

// WriteFile writes a whole file, or none.
func WriteFile(path string, data []byte) error {
	return files.Write(path, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}
