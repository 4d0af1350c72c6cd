package dataset

import (
	"context"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/mfgs/mfgs/featurize/text"
	"github.com/mfgs/mfgs/onnx/files"
)

// maxEncoded bounds the bytes of one image file.
const maxEncoded = 256 << 20

// A folderSource remembers directories and how many images each has, not the
// images: names are listed again during a pass, so that memory is bounded by
// the largest directory.
type folderSource struct {
	meta info
	root string
	dirs []imageDir
}

type imageDir struct {
	path  string // relative to the root; "" is the root
	label int
	count int
}

func openFolder(root string, o Options) (source, error) {
	s := &folderSource{root: root}
	top, err := s.list("")
	if err != nil {
		return nil, err
	}
	classes := top.dirs
	for i, class := range classes {
		if err := s.walk(class, i, &top); err != nil {
			return nil, err
		}
	}
	switch {
	case len(s.dirs) > 0: // classes; images beside them belong to none
		for _, name := range top.images {
			top.ignore("an image outside the class folders", name, 1)
		}
	case len(top.images) > 0: // a flat, unlabelled folder
		s.dirs = []imageDir{{"", -1, len(top.images)}}
		classes = nil
	default:
		return nil, noImages(root, top.ignored)
	}
	s.meta = info{path: root, format: "folder", classes: classes, labelled: classes != nil && !o.Unlabelled, ignored: top.ignored}
	labels := make([]int, len(classes))
	if s.meta.labelled {
		if err := singleLabels(root, o); err != nil {
			return nil, err
		}
		if labels, err = mapClasses(classes, o.LabelClasses, o.Classes); err != nil {
			return nil, fmt.Errorf("%s: %w", root, err)
		}
	}
	for i := range s.dirs {
		d := &s.dirs[i]
		if s.meta.labelled {
			d.label = labels[d.label]
		} else {
			d.label = -1
		}
		s.meta.count += d.count
	}
	return s, nil
}

// noImages refuses a folder or archive that holds only what is ignored.
func noImages(path string, ignored []Ignored) error {
	msg := "no PNG or JPEG files"
	for _, ig := range ignored {
		msg += fmt.Sprintf("; %d ignored, %s (first: %s)", ig.Count, ig.Reason, ig.First)
	}
	return fmt.Errorf("%s: %s", path, msg)
}

// walk notes the images of dir and of the folders within it, for class i.
func (s *folderSource) walk(dir string, class int, top *listing) error {
	l, err := s.list(dir)
	if err != nil {
		return err
	}
	for _, ig := range l.ignored {
		top.ignore(ig.Reason, ig.First, ig.Count)
	}
	if len(l.images) > 0 {
		s.dirs = append(s.dirs, imageDir{dir, class, len(l.images)})
	}
	for _, sub := range l.dirs {
		if err := s.walk(filepath.Join(dir, sub), class, top); err != nil {
			return err
		}
	}
	return nil
}

// A listing is one directory's content, each part in byte-wise order.
type listing struct {
	images  []string // base names
	dirs    []string // base names
	ignored []Ignored
}

func (l *listing) ignore(reason, first string, count int) {
	for i := range l.ignored {
		if l.ignored[i].Reason == reason {
			l.ignored[i].Count += count
			return
		}
	}
	l.ignored = append(l.ignored, Ignored{reason, count, text.Name(first)})
}

// list reads one directory. Links to directories are followed in the root
// only, where they are classes: deeper they could lead in circles.
func (s *folderSource) list(dir string) (listing, error) {
	var l listing
	path := filepath.Join(s.root, dir)
	entries, err := os.ReadDir(path)
	if err != nil {
		return l, fileError(path, err)
	}
	for _, e := range entries {
		name := e.Name()
		link := e.Type()&os.ModeSymlink != 0
		switch {
		case isHidden(name):
		case e.IsDir():
			l.dirs = append(l.dirs, name)
		case isImageName(name) && (link || e.Type().IsRegular()):
			l.images = append(l.images, name)
		case link && dir == "" && isDir(filepath.Join(path, name)):
			l.dirs = append(l.dirs, name)
		default:
			l.ignore("not PNG or JPEG", filepath.ToSlash(filepath.Join(dir, name)), 1)
		}
	}
	return l, nil
}

func isDir(path string) bool {
	fi, err := os.Stat(path)
	return err == nil && fi.IsDir()
}

// isHidden reports whether a file or folder of this name is passed over without
// a word.
func isHidden(name string) bool { return strings.HasPrefix(name, ".") || name == "__MACOSX" }

func isImageName(name string) bool {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".png", ".jpg", ".jpeg", ".jpe", ".jfif":
		return true
	}
	return false
}

func (s *folderSource) info() *info  { return &s.meta }
func (s *folderSource) Close() error { return nil }

// files visits the files at positions from…to-1 in order, until visit returns
// false or an error.
func (s *folderSource) files(from, to int, visit func(i int, name string, label int) (bool, error)) error {
	start := 0
	for _, d := range s.dirs {
		end := start + d.count
		if end > from && start < to {
			l, err := s.list(d.path)
			if err != nil {
				return err
			}
			if len(l.images) != d.count {
				return fmt.Errorf("%s: changed while in use: it had %d images and has %d", filepath.Join(s.root, d.path), d.count, len(l.images))
			}
			for i := max(from, start); i < min(to, end); i++ {
				ok, err := visit(i, filepath.Join(d.path, l.images[i-start]), d.label)
				if err != nil || !ok {
					return err
				}
			}
		}
		start = end
	}
	return nil
}

func (s *folderSource) examples(from, to int, yield func(Example, error) bool) {
	err := s.files(from, to, func(i int, name string, label int) (bool, error) {
		e := Example{Index: i, Name: filepath.ToSlash(name), Label: label}
		encoded, err := readImageFile(filepath.Join(s.root, name))
		if err != nil {
			return yield(e, &RecordError{e.Name, i, err}), nil
		}
		e.Encoded = encoded
		return yield(e, nil), nil
	})
	if err != nil {
		yield(Example{Label: -1}, err)
	}
}

func (s *folderSource) hash(ctx context.Context, h hash.Hash, from, to int) error {
	return s.files(from, to, func(_ int, name string, label int) (bool, error) {
		fmt.Fprintf(h, "%q %d ", filepath.ToSlash(name), label)
		f, size, err := openRegular(filepath.Join(s.root, name))
		if err != nil {
			// A file that cannot be read is a bad record, not the end.
			fmt.Fprintln(h, "unreadable")
			return true, context.Cause(ctx)
		}
		defer f.Close()
		return true, hashReader(ctx, h, f, size)
	})
}

// readImageFile reads a bounded regular file. Its errors leave out the path.
func readImageFile(path string) ([]byte, error) {
	f, err := files.Open(path)
	if err != nil {
		return nil, bareError(err)
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return nil, bareError(err)
	}
	if err := checkEncoded(fi.Size()); err != nil {
		return nil, err
	}
	b := make([]byte, fi.Size())
	if _, err := io.ReadFull(f, b); err != nil {
		return nil, bareError(err)
	}
	return b, nil
}

// checkEncoded refuses an image file of no bytes or too many.
func checkEncoded(size int64) error {
	switch {
	case size == 0:
		return errors.New("the file is empty")
	case size > maxEncoded:
		return fmt.Errorf("%d bytes are too many for an image, %d the most", size, maxEncoded)
	}
	return nil
}

// bareError drops the operation and path from a file system error.
func bareError(err error) error {
	var pe *os.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

// An imageSource is a single image.
type imageSource struct {
	meta info
	f    *os.File
	size int64
}

func openImage(path string) (source, error) {
	f, size, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	if err := checkEncoded(size); err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &imageSource{info{path: path, format: "image", count: 1}, f, size}, nil
}

func (s *imageSource) info() *info  { return &s.meta }
func (s *imageSource) Close() error { return s.f.Close() }

func (s *imageSource) examples(_, _ int, yield func(Example, error) bool) {
	e := Example{Name: filepath.Base(s.meta.path), Label: -1, Encoded: make([]byte, s.size)}
	if _, err := s.f.ReadAt(e.Encoded, 0); err != nil {
		e.Encoded = nil
		yield(e, &RecordError{e.Name, 0, bareError(err)})
		return
	}
	yield(e, nil)
}

func (s *imageSource) hash(ctx context.Context, h hash.Hash, _, _ int) error {
	return hashReader(ctx, h, s.f, s.size)
}

// mapClasses returns the label of each folder, whose names are sorted; see the
// package documentation for the rules. names (the model's) may be nil, k may be
// 0 for unknown.
func mapClasses(folders, names []string, k int) ([]int, error) {
	if labels, err := byClassName(folders, names); labels != nil || err != nil {
		return labels, err
	}
	if labels, err := byInteger(folders, k); labels != nil || err != nil {
		return labels, err
	}
	if k == 0 {
		k = len(names)
	}
	if k != 0 && len(folders) != k {
		return nil, fmt.Errorf("%d class folders (%s) for %d classes: name the folders by class name or by integer label, or give the class names with --classes",
			len(folders), some(folders), k)
	}
	labels := make([]int, len(folders))
	for i := range labels {
		labels[i] = i
	}
	return labels, nil
}

// byClassName returns nil labels where no folder is named like a class. Case
// matters only where the class names need it to be told apart.
func byClassName(folders, names []string) ([]int, error) {
	exact, folded, twice := map[string]int{}, map[string]int{}, map[string]int{}
	for i, n := range names {
		if _, dup := exact[n]; dup {
			twice[n] = i // no matter unless a folder is called so
		} else {
			exact[n] = i
		}
		if _, dup := folded[strings.ToLower(n)]; dup {
			folded[strings.ToLower(n)] = -1
		} else {
			folded[strings.ToLower(n)] = i
		}
	}
	labels := make([]int, len(folders))
	taken := map[int]string{}
	var unknown []string
	for i, f := range folders {
		y, ok := exact[f]
		if !ok {
			y, ok = folded[strings.ToLower(f)]
		}
		if !ok || y < 0 {
			unknown = append(unknown, f)
			continue
		}
		if j, dup := twice[names[y]]; dup {
			return nil, fmt.Errorf("folder %s: the class name %q stands for both %d and %d; name the folders by integer label", f, names[y], y, j)
		}
		if other, dup := taken[y]; dup {
			return nil, fmt.Errorf("folders %s and %s are both class %q", other, f, names[y])
		}
		taken[y] = f
		labels[i] = y
	}
	switch {
	case len(unknown) == len(folders):
		return nil, nil
	case len(unknown) > 0:
		return nil, fmt.Errorf("%d of %d class folders are not among the %d class names: %s", len(unknown), len(folders), len(names), some(unknown))
	}
	return labels, nil
}

// byInteger returns nil labels where a folder is not named by an integer.
func byInteger(folders []string, k int) ([]int, error) {
	labels := make([]int, len(folders))
	taken := map[int]string{}
	for i, f := range folders {
		y, err := strconv.Atoi(f)
		if err != nil || f[0] == '+' || f[0] == '-' {
			return nil, nil
		}
		labels[i] = y
		if other, dup := taken[y]; dup {
			return nil, fmt.Errorf("folders %s and %s are both class %d", other, f, y)
		}
		taken[y] = f
	}
	if k == 0 {
		return labels, nil
	}
	if i := slices.IndexFunc(labels, func(y int) bool { return y >= k }); i >= 0 {
		return nil, fmt.Errorf("class folder %s is outside [0,%d), the model's classes", folders[i], k)
	}
	return labels, nil
}

// some lists at most the first five names.
func some(names []string) string {
	short := make([]string, 0, 6)
	for i, name := range names {
		if i == 5 {
			short = append(short, "…")
			break
		}
		short = append(short, text.Name(name))
	}
	return strings.Join(short, ", ")
}
