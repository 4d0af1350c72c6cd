package dataset

import (
	"bytes"
	"context"
	"fmt"
	"hash"
	"io"
	"iter"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/mfgs/mfgs/internal/jsontensor"
)

// A tarSource keeps an index of the images in an archive.
type tarSource struct {
	Base
	f       *File
	members []tarMember // in the order of the archive
}

type tarMember struct {
	name     string
	at, size int64
	label    int
}

// sniffTar also recognises gzipped archives, which openTar refuses, and empty ones, which are all zeros.
func sniffTar(p *Peek) (bool, error) {
	name := strings.ToLower(p.Path)
	return len(p.Head) >= 262 && string(p.Head[257:262]) == "ustar" ||
		!p.Gzip && p.Ext == ".tar" && len(bytes.Trim(p.Head, "\x00")) == 0 ||
		p.Gzip && (strings.HasSuffix(name, ".tar.gz") || strings.HasSuffix(name, ".tgz")), nil
}

func openTar(path string, o Options) (_ Source, err error) {
	s := new(tarSource)
	if s.f, err = s.Open(path); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	magic := make([]byte, 2)
	if _, err := s.f.ReadAt(magic, 0); err != nil && err != io.EOF {
		return nil, pathError(path, err)
	}
	if bytes.Equal(magic, gzipMagic) {
		return nil, fmt.Errorf("%s: a gzipped archive does not allow access to single images: decompress it with gunzip",
			path)
	}
	x, err := indexTar(s.f.f, s.f.Size(), maxMembers)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	s.members, s.Ignored = x.members, x.ignored
	if len(s.members) == 0 {
		return nil, noImages(path, s.Ignored)
	}
	s.Path = path
	switch labels := tarLabelsPath(path); {
	case exists(labels):
		err = s.labelByFile(labels, o)
	case x.labels.classes != nil:
		err = s.labelByMembers(x.labels.classes, classMember, o)
	default:
		if err = s.labelByFolder(o); err == nil && s.Classes == nil && x.labels.json != nil {
			err = s.labelByMembers(x.labels.json, jsonMember, o)
		}
	}
	if err != nil {
		return nil, err
	}
	s.Count = len(s.members)
	return s, nil
}

// tarLabelsPath returns the path of an archive's label file: a-labels.txt for a.tar.
func tarLabelsPath(path string) string {
	return strings.TrimSuffix(path, filepath.Ext(path)) + "-labels.txt"
}

// A tarIndex lists the images in an archive, and the labels beside them.
type tarIndex struct {
	members []tarMember // images, without labels
	labels  memberLabels
	ignored []Ignored
}

// indexTar indexes an archive of at most so many images.
func indexTar(f io.ReaderAt, size int64, most int) (*tarIndex, error) {
	x, l, seen := &tarIndex{}, listing{}, map[string]bool{}
	group := memberGroup{ignore: func(name string) { l.ignore("not PNG or JPEG", name, 1) }}
	for m, err := range walkTar(io.NewSectionReader(f, 0, size)) {
		if err != nil {
			return nil, err
		}
		if isHiddenMember(m.Name) {
			continue
		}
		group.next(m.Name)
		switch {
		case !m.Regular:
			l.ignore("a link or a special file", m.Name, 1)
			continue
		case !isImageName(m.Name):
			read, err := x.labels.read(m)
			if err != nil {
				return nil, err
			}
			if !read {
				group.add(m.Name)
			}
			continue
		case m.Sparse:
			return nil, sparseError(m)
		case seen[m.Name]:
			return nil, fmt.Errorf("two members are called %q", m.Name)
		case len(x.members) == most:
			return nil, fmt.Errorf("holds more than %d images; unpack it and name the folder", most)
		case m.Size > size-m.At:
			return nil, fmt.Errorf("is cut off: %q has %d bytes, and the file has %d of them: create it again", m.Name, m.Size,
				size-m.At)
		}
		group.image, seen[m.Name] = true, true
		x.members = append(x.members, tarMember{m.Name, m.At, m.Size, -1})
	}
	group.next("")
	x.ignored = l.ignored
	return x, nil
}

func sparseError(m tarEntry) error {
	return fmt.Errorf("%q is a sparse file, which is not supported; make the archive without the option --sparse", m.Name)
}

// isHiddenMember reports whether any part of a path is hidden.
func isHiddenMember(name string) bool {
	return slices.ContainsFunc(strings.Split(name, "/"), isHidden)
}

// labelByFolder labels the images by their class folders, if they have any. Folders that contain all
// images do not count.
func (s *tarSource) labelByFolder(o Options) error {
	parent := func(name string) string { return name[:1+strings.LastIndexByte(strings.TrimSuffix(name, "/"), '/')] }
	root := parent(s.members[0].name)
	for _, m := range s.members {
		for !strings.HasPrefix(m.name, root) {
			root = parent(root)
		}
	}
	class := func(m tarMember) string {
		folder, _, ok := strings.Cut(m.name[len(root):], "/")
		if !ok {
			return ""
		}
		return folder
	}
	place := map[string]int{} // in classes
	for _, m := range s.members {
		if c := class(m); c != "" {
			place[c] = 0
		}
	}
	if len(place) == 0 { // a flat, unlabelled archive
		return nil
	}
	l := listing{ignored: s.Ignored}
	s.members = slices.DeleteFunc(s.members, func(m tarMember) bool {
		if class(m) != "" {
			return false
		}
		l.ignore("an image outside the class folders", m.name, 1)
		return true
	})
	classes := slices.Sorted(maps.Keys(place))
	s.Classes, s.Ignored = classes, l.ignored
	if o.Unlabelled {
		return nil
	}
	if err := singleLabels(s.Path, o); err != nil {
		return err
	}
	labels, byOrder, err := mapFolders(classes, o.LabelClasses, o.Classes)
	if err != nil {
		return fmt.Errorf("%s: %w", s.Path, err)
	}
	for i, c := range classes {
		place[c] = labels[i]
	}
	for i, m := range s.members {
		s.members[i].label = place[class(m)]
	}
	s.Labelled, s.Labels, s.ByOrder = true, labels, byOrder
	return nil
}

// labelByMembers labels the images by members beside them.
func (s *tarSource) labelByMembers(texts map[string]string, member string, o Options) error {
	if o.Unlabelled {
		return nil
	}
	if err := singleLabels(s.Path, o); err != nil {
		return err
	}
	parser, known := newLabelParser(o), map[string]int{}
	missing, first := 0, ""
	for i := range s.members {
		m := &s.members[i]
		key, _ := memberKey(m.name)
		text, ok := texts[key]
		if !ok {
			if missing++; missing == 1 {
				first = m.name
			}
			continue
		}
		y, ok := known[text]
		if !ok {
			var err error
			if y, err = besideLabel(parser, text, member == jsonMember); err != nil {
				return fmt.Errorf("%s: %q: %w", s.Path, m.name, err)
			}
			if !o.IgnoreUnknownLabels && (y < 0 || o.Classes > 0 && y >= o.Classes) {
				return labelRangeError(Example{Name: fmt.Sprintf("%s: %q", s.Path, m.name), Label: y}, o.Classes)
			}
			known[text] = y
		}
		m.label = y
	}
	if missing > 0 {
		return fmt.Errorf("%s: %d of %d images have no label in a %s next to them (first: %q)", s.Path, missing, len(s.members),
			member, first)
	}
	s.Labelled = true
	return nil
}

// labelByFile labels the images by the lines of a file.
func (s *tarSource) labelByFile(path string, o Options) error {
	if o.Unlabelled {
		return nil
	}
	if err := singleLabels(path, o); err != nil {
		return err
	}
	f, _, err := openRegular(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := labelMembers(s.members, f, o); err != nil {
		return fmt.Errorf("%s: %w", path, bareError(err))
	}
	s.Labelled = true
	return nil
}

// labelMembers labels members by the lines of a label file.
func labelMembers(members []tarMember, r io.Reader, o Options) error {
	position := make(map[string]int, len(members))
	for i, m := range members {
		position[m.name] = i
	}
	parser := newLabelParser(o)
	known := map[string]int{} // labels by their text
	done := make([]bool, len(members))
	strays, firstStray, untabbed := 0, "", false
	err := labelLines(r, func(number int, name, text string, tabs bool) error {
		i, ok := position[name]
		if !ok {
			if strays++; strays == 1 {
				firstStray = fmt.Sprintf("line %d, %q", number, name[:min(len(name), 100)])
			}
			untabbed = untabbed || !tabs
			return nil
		}
		if done[i] {
			return fmt.Errorf("line %d is the second for %q", number, name)
		}
		y, ok := known[text]
		if !ok {
			var err error
			if y, err = parser.fromText(text); err != nil {
				return fmt.Errorf("line %d: %w", number, err)
			}
			if !o.IgnoreUnknownLabels && (y < 0 || o.Classes > 0 && y >= o.Classes) {
				return labelRangeError(Example{Name: fmt.Sprintf("line %d", number), Label: y}, o.Classes)
			}
			known[text] = y
		}
		members[i].label, done[i] = y, true
		return nil
	})
	if err != nil {
		return err
	}
	if strays > 0 {
		hint := ""
		if untabbed && slices.ContainsFunc(members, func(m tarMember) bool { return strings.Contains(m.name, " ") }) {
			hint = "; a path with spaces needs a tab between it and its label"
		}
		return fmt.Errorf("%d of its lines match no image in the archive (first: %s)%s", strays, firstStray, hint)
	}
	missing, first := 0, ""
	for i, ok := range done {
		if !ok {
			if missing++; missing == 1 {
				first = members[i].name
			}
		}
	}
	if missing > 0 {
		return fmt.Errorf("has no line for %d of the archive's %d images (first: %q)", missing, len(members), first)
	}
	return nil
}

// Examples reads one member after another.
func (s *tarSource) Examples(from, to int) iter.Seq2[Example, error] {
	return func(yield func(Example, error) bool) {
		for i := from; i < to; i++ {
			m := s.members[i]
			e := Example{Index: i, Name: m.name, Label: m.label}
			all := func(h hash.Hash) error { return s.hashImage(context.Background(), h, m) }
			if err := checkImageSize(m.size); err != nil {
				s.digest.image(i, m.name, m.label, nil, nil, all)
				if !yield(e, &RecordError{e.Name, i, err}) {
					return
				}
				continue
			}
			e.Encoded = make([]byte, m.size)
			if _, err := s.f.f.ReadAt(e.Encoded, m.at); err != nil {
				yield(Example{Label: -1}, s.readError(m, err))
				return
			}
			s.digest.image(i, m.name, m.label, e.Encoded, nil, all)
			if !yield(e, nil) {
				return
			}
		}
	}
}

func (s *tarSource) hash(ctx context.Context, d *digest, from, to int) error {
	for _, m := range s.members[from+d.part : to] {
		if err := d.whole(s.hashImage(ctx, d.h, m)); err != nil {
			return err
		}
	}
	return nil
}

func (s *tarSource) hashImage(ctx context.Context, h hash.Hash, m tarMember) error {
	fmt.Fprintf(h, imagePart, m.name, m.label)
	if err := hashSized(ctx, h, io.NewSectionReader(s.f.f, m.at, m.size), m.size); err != nil {
		return s.readError(m, err)
	}
	return nil
}

func (s *tarSource) stamp(w io.Writer, from, to int) (time.Time, error) {
	for _, m := range s.members[from:to] {
		fmt.Fprintf(w, imagePart+"%d\n", m.name, m.label, m.at)
	}
	return s.Base.stamp(w, from, to)
}

// readError describes an error in reading a member.
func (s *tarSource) readError(m tarMember, err error) error {
	if err == io.EOF {
		return fmt.Errorf("%s: changed while in use: it ends within %q", s.Path, m.name)
	}
	return fmt.Errorf("%s: %q: %w", s.Path, m.name, bareError(err))
}

// besideLabel parses the label in a .cls member or, as a JSON value, in a .json member.
func besideLabel(l labelParser, text string, isJSON bool) (int, error) {
	if !isJSON {
		return l.fromText(text)
	}
	e := Example{Label: -1}
	_, err := l.fromJSON(&jsontensor.Parser{Text: []byte(text)}, &e)
	return e.Label, err
}
