package dataset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/mfgs/mfgs/internal/text"
)

// A folderSource remembers directories and how many images each has, not the images: names are
// listed again during a pass, so that memory is bounded by the largest directory.
type folderSource struct {
	Base
	root  string
	dirs  []imageDir
	texts bool // the label of an image is the text in a file beside it
	stray bool // an image may lack one

	maps   *mapFolder // the label of an image is a label map in a parallel folder; nil for other labels
	labels labelParser
}

// sniffFolder accepts all folders but those of CIFAR batches.
func sniffFolder(p *Peek) (bool, error) {
	first, err := firstCIFAR(p.Path)
	return first == "", err
}

type imageDir struct {
	path         string // relative to the root; "" is the root
	label, count int
}

func openFolder(root string, o Options) (Source, error) {
	s := &folderSource{root: root, texts: o.Texts && !o.Unlabelled, stray: o.IgnoreUnknownLabels}
	if o.Steps {
		s.labels = newLabelParser(o)
		s.root, s.maps = findMaps(root, !o.Unlabelled)
	}
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
	case s.maps != nil:
		if len(top.images) > 0 {
			s.dirs = append([]imageDir{{"", -1, len(top.images)}}, s.dirs...)
		}
		if len(s.dirs) == 0 {
			return nil, s.noMaps(top.ignored)
		}
		classes = nil
	case s.texts && len(top.images) > 0:
		s.dirs = append([]imageDir{{"", -1, len(top.images)}}, s.dirs...)
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
	s.Classes, s.Labelled, s.Ignored = classes, classes != nil && !o.Unlabelled, top.ignored
	if s.maps != nil {
		s.Labelled = s.maps.root != ""
	} else if s.texts {
		if err := s.labelByTexts(o); err != nil {
			return nil, err
		}
	} else if s.Labelled {
		if err := singleLabels(root, o); err != nil {
			return nil, err
		}
		if s.Labels, s.ByOrder, err = mapFolders(classes, o.LabelClasses, o.Classes); err != nil {
			return nil, fmt.Errorf("%s: %w", root, err)
		}
	}
	for i := range s.dirs {
		d := &s.dirs[i]
		class := d.label
		switch d.label = -1; {
		case (s.texts || s.maps != nil) && s.Labelled:
			d.label = 0
		case s.Labelled:
			d.label = s.Labels[class]
		}
		s.Count += d.count
	}
	return s, nil
}

// labelByTexts finds out whether there are files with texts beside the images: whether the first has one.
func (s *folderSource) labelByTexts(o Options) error {
	classes := s.Classes
	s.Classes, s.Labelled = nil, false
	l, err := s.list(s.dirs[0].path)
	if err != nil {
		return err
	}
	_, err = s.text(filepath.Join(s.dirs[0].path, l.images[0]))
	s.Labelled = err == nil
	if errors.Is(err, fs.ErrNotExist) && len(classes) > 0 {
		return singleLabels(s.root, o)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// textExts end the names of files with the text of the image beside them, in the place of the image's extension: the
// first as Tesseract's training data have it.
var textExts = []string{".gt.txt", ".txt"}

// text returns the text of an image, by its path from the root.
func (s *folderSource) text(image string) (string, error) {
	stem := filepath.Join(s.root, strings.TrimSuffix(image, filepath.Ext(image)))
	for _, ext := range textExts {
		if _, err := os.Stat(stem + ext); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		f, size, err := openRegular(stem + ext)
		if err != nil {
			return "", err
		}
		defer f.Close()
		if size > maxLabelText {
			return "", fmt.Errorf("%s has %d bytes, want a text of at most %d", stem+ext, size, maxLabelText)
		}
		data, err := io.ReadAll(io.LimitReader(f, maxLabelText))
		if err == nil && !utf8.Valid(data) {
			return "", fmt.Errorf("%s: %w", stem+ext, errNoUTF8)
		}
		return strings.TrimSpace(strings.TrimPrefix(string(data), "\ufeff")), err
	}
	return "", fmt.Errorf("no text beside it, in %s or %s: %w", filepath.Base(stem+textExts[0]), filepath.Base(stem+textExts[1]), fs.ErrNotExist)
}

// noMaps is the error about a folder of images without images or, if these are to have some, label maps.
func (s *folderSource) noMaps(ignored []Ignored) error {
	for _, ig := range ignored {
		if ig.Reason == noMap {
			return fmt.Errorf("%s: none of %s has a label map; that of %s would be %s", s.root, text.Plural(ig.Count, "image"),
				ig.First, filepath.Join(s.maps.root, s.maps.of(filepath.FromSlash(ig.First))))
		}
	}
	return noImages(s.root, ignored)
}

// noMap is why an image of a folder with label maps is not read.
const noMap = "without a label map"

// noImages is the error about a folder or archive without images.
func noImages(path string, ignored []Ignored) error {
	msg := "no PNG or JPEG files"
	for _, ig := range ignored {
		msg += fmt.Sprintf("; %d ignored, %s (first: %s)", ig.Count, ig.Reason, ig.First)
	}
	return fmt.Errorf("%s: %s", path, msg)
}

// walk counts the images in dir and its sub-folders, for class i.
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

// A listing is the content of one directory, each part in byte-wise order.
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

// list reads one directory. Links to directories are followed in the root only, where they are classes:
// deeper ones could form cycles.
func (s *folderSource) list(dir string) (listing, error) {
	var l listing
	path := filepath.Join(s.root, dir)
	entries, err := os.ReadDir(path)
	if err != nil {
		return l, pathError(path, err)
	}
	for _, e := range entries {
		name := e.Name()
		link := e.Type()&os.ModeSymlink != 0
		switch {
		case isHidden(name):
		case e.IsDir():
			l.dirs = append(l.dirs, name)
		case isImageName(name) && (link || e.Type().IsRegular()):
			if s.maps.lacks(filepath.Join(dir, name)) && !s.stray {
				l.ignore(noMap, filepath.ToSlash(filepath.Join(dir, name)), 1)
			} else {
				l.images = append(l.images, name)
			}
		case link && dir == "" && isDir(filepath.Join(path, name)):
			l.dirs = append(l.dirs, name)
		case s.texts && strings.HasSuffix(name, textExts[1]):
		default:
			l.ignore("not PNG or JPEG", filepath.ToSlash(filepath.Join(dir, name)), 1)
		}
	}
	return l, nil
}

// An imageFile is one image below the root.
type imageFile struct {
	position int
	name     string // path from the root, as the file system writes it
	label    int
	text     string // under texts
	labels   string // path of the label map from the root of these, or ""
	bad      error  // why there is none
}

// identity is what the digest says of an image beside its class and its file.
func (f *imageFile) identity() string {
	name := filepath.ToSlash(f.name)
	switch {
	case f.labels != "":
		return name + "\x00" + filepath.ToSlash(f.labels)
	case f.text == "":
		return name
	}
	return name + "\x00" + f.text
}

// files lists the images at positions from…to-1 in order. An error is the last.
func (s *folderSource) files(from, to int) iter.Seq2[imageFile, error] {
	return func(yield func(imageFile, error) bool) {
		start := 0
		for _, d := range s.dirs {
			end := start + d.count
			if end > from && start < to {
				l, err := s.list(d.path)
				if err == nil && len(l.images) != d.count {
					err = fmt.Errorf("%s: changed while in use: it had %d images and has %d",
						filepath.Join(s.root, d.path), d.count, len(l.images))
				}
				if err != nil {
					yield(imageFile{}, err)
					return
				}
				for i := max(from, start); i < min(to, end); i++ {
					f := imageFile{position: i, name: filepath.Join(d.path, l.images[i-start]), label: d.label}
					if s.texts && s.Labelled {
						f.text, f.bad = s.text(f.name)
						if s.stray && errors.Is(f.bad, fs.ErrNotExist) {
							f.label, f.bad = -1, nil
						}
					}
					if s.maps != nil && s.Labelled {
						if f.labels = s.maps.of(f.name); s.stray && s.maps.lacks(f.name) {
							f.label, f.labels = -1, ""
						}
					}
					if !yield(f, nil) {
						return
					}
				}
			}
			start = end
		}
	}
}

// Examples reads one file after another.
func (s *folderSource) Examples(from, to int) iter.Seq2[Example, error] {
	return func(yield func(Example, error) bool) {
		for f, err := range s.files(from, to) {
			if err != nil {
				yield(Example{Label: -1}, err)
				return
			}
			e := Example{Index: f.position, Name: filepath.ToSlash(f.name), Label: f.label, Text: f.text}
			if f.labels != "" {
				e.labelMap = s.labels.newLabelMap(filepath.ToSlash(f.labels))
			}
			if e.Encoded, err = readImageFile(filepath.Join(s.root, f.name)); err == nil {
				err = f.bad
			}
			image, labels, mapErr := e.readLabels(func(path string) ([]byte, error) {
				return readImageFile(filepath.Join(s.maps.root, filepath.FromSlash(path)))
			})
			if err = cmp.Or(err, mapErr); err != nil {
				err = &RecordError{e.Name, e.Index, err}
			}
			s.digest.image(e.Index, f.identity(), e.Label, image, labels, func(h hash.Hash) error {
				return s.hashImage(context.Background(), h, f)
			})
			if !yield(e, err) {
				return
			}
		}
	}
}

func (s *folderSource) hash(ctx context.Context, d *digest, from, to int) error {
	for f, err := range s.files(from+d.part, to) {
		if err == nil {
			err = d.whole(s.hashImage(ctx, d.h, f))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *folderSource) hashImage(ctx context.Context, h hash.Hash, image imageFile) error {
	fmt.Fprintf(h, imagePart, image.identity(), image.label)
	err := hashFile(ctx, h, filepath.Join(s.root, image.name))
	if err == nil && image.labels != "" {
		err = hashFile(ctx, h, filepath.Join(s.maps.root, image.labels))
	}
	return err
}

func (s *folderSource) stamp(w io.Writer, from, to int) (latest time.Time, err error) {
	root, err := filepath.Abs(s.root)
	if err != nil {
		return latest, err
	}
	for f, err := range s.files(from, to) {
		if err != nil {
			return latest, err
		}
		fmt.Fprintf(w, imagePart, f.identity(), f.label)
		latest = stampPath(w, filepath.Join(root, f.name), latest)
		if f.labels != "" {
			latest = stampPath(w, filepath.Join(s.maps.root, f.labels), latest)
		}
	}
	return latest, nil
}

// firstCIFAR returns the first .bin file of a folder of CIFAR batches, "" for a folder of images.
func firstCIFAR(folder string) (string, error) {
	l, err := (&folderSource{root: folder}).list("")
	if err != nil {
		return "", err
	}
	train, test, err := cifarFiles(folder)
	if parts := append(train, test...); err == nil && len(parts) > 0 && len(l.images)+len(l.dirs) == 0 {
		return parts[0], nil
	}
	return "", err
}

// cifarFiles returns the .bin files of a folder, apart for training and test.
func cifarFiles(folder string) (train, test []string, err error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, nil, pathError(folder, err)
	}
	for _, e := range entries {
		name := e.Name()
		if e.IsDir() || strings.HasPrefix(name, ".") || filepath.Ext(name) != ".bin" {
			continue
		}
		path := filepath.Join(folder, name)
		if strings.HasPrefix(name, "test") {
			test = append(test, path)
		} else {
			train = append(train, path)
		}
	}
	return train, test, nil
}
