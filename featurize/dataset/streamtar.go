package dataset

import (
	"errors"
	"fmt"
	"iter"
	"strings"
)

// A tarStream reads an archive sequentially, one sample at a time. The first sample with an image
// decides where labels are.
type tarStream struct {
	Base
	o      Options
	labels labelParser
	beside string // the extension of the member with the label, classMember or jsonMember; "" for none
	depth  int    // of the class folder in a path, -1 for none
}

func streamTar(in *Stream, o Options) (Source, error) {
	s := &tarStream{o: o, labels: newLabelParser(o), depth: -1}
	s.Path, s.stream = in.Name(), in
	for t, err := range s.samples() {
		if err != nil {
			return nil, err
		}
		if len(t.images) == 0 {
			continue
		}
		s.learn(t)
		if s.Labelled {
			err = singleLabels(s.Path, o)
		}
		return s, err
	}
	return nil, noImages(s.Path, nil)
}

// A tarSample is the members of one key.
type tarSample struct {
	key    string
	images []tarImage
	label  [2]string // text in .cls and .json
}

type tarImage struct {
	name    string
	encoded []byte
	err     error // why encoded is nil
}

// samples reads one sample after another. An error is the last.
func (s *tarStream) samples() iter.Seq2[*tarSample, error] {
	return func(yield func(*tarSample, error) bool) {
		in, err := s.stream.Reader()
		if err != nil {
			yield(nil, fmt.Errorf("%s: %w", s.Path, err))
			return
		}
		var t *tarSample
		for m, err := range walkTar(in) {
			if err == nil {
				if isHiddenMember(m.Name) || !m.Regular {
					continue
				}
				if key, _ := memberKey(m.Name); t == nil || key != t.key {
					if t != nil && !yield(t, nil) {
						return
					}
					t = &tarSample{key: key}
				}
				err = t.add(m)
			}
			if err != nil {
				yield(nil, fmt.Errorf("%s: %w", s.Path, err))
				return
			}
		}
		if t != nil {
			yield(t, nil)
		}
	}
}

// add reads a member of the sample.
func (t *tarSample) add(m tarEntry) error {
	if !isImageName(m.Name) {
		label, isJSON, err := memberLabel(m)
		if label != "" && isJSON {
			t.label[1] = label
		} else if label != "" {
			t.label[0] = label
		}
		return err
	}
	switch {
	case m.Sparse:
		return sparseError(m)
	case len(t.images) == maxBeside:
		return fmt.Errorf("more than %d images are called %q", maxBeside, t.key)
	}
	image := tarImage{name: m.Name}
	if image.err = checkImageSize(m.Size); image.err == nil {
		var err error
		if image.encoded, err = readGrowing(m.Content, m.Size); err != nil {
			return fmt.Errorf("is cut off within %q: %w", m.Name, err)
		}
	}
	t.images = append(t.images, image)
	return nil
}

// learn decides where labels are: in a .cls member, else in the first folder that names a class, else in
// a .json member.
func (s *tarStream) learn(t *tarSample) {
	if s.o.Unlabelled {
		return
	}
	folders := strings.Split(t.images[0].name, "/")
	s.Labelled = true
	if t.label[0] != "" {
		s.beside = classMember
		return
	}
	for i, folder := range folders[:len(folders)-1] {
		if _, err := s.folderLabel(folder); err == nil {
			s.depth = i
			return
		}
	}
	if t.label[1] != "" {
		s.beside = jsonMember
		return
	}
	s.Labelled = false
}

// folderLabel returns the label of a class folder, which names a class or a number: with an unknown
// number of folders their order says nothing.
func (s *tarStream) folderLabel(folder string) (int, error) {
	y, err := s.labels.fromText(folder)
	if err == nil && (y < 0 || s.o.Classes > 0 && y >= s.o.Classes) {
		err = errors.New(labelRange(y, s.o.Classes))
	}
	return y, err
}

// labelOf returns the label of an image in a sample.
func (s *tarStream) labelOf(t *tarSample, image *tarImage) (y int, err error) {
	switch {
	case !s.Labelled:
		return -1, nil
	case s.depth >= 0:
		folders := strings.Split(image.name, "/")
		if len(folders) < s.depth+2 {
			return -1, errors.New("it is in no class folder, and the first image is")
		}
		if y, err = s.folderLabel(folders[s.depth]); err != nil && s.o.IgnoreUnknownLabels {
			return -1, nil
		}
		return y, err
	}
	text := t.label[0]
	if s.beside == jsonMember {
		text = t.label[1]
	}
	if text == "" && !s.o.IgnoreUnknownLabels {
		return -1, fmt.Errorf("it has no label in a %s next to it, and the first image has one", s.beside)
	}
	if text == "" {
		return -1, nil
	}
	return besideLabel(s.labels, text, s.beside == jsonMember)
}

// Examples reads the archive.
func (s *tarStream) Examples(from, to int) iter.Seq2[Example, error] {
	return func(yield func(Example, error) bool) {
		at := from
		for t, err := range s.samples() {
			if err != nil {
				yield(Example{Label: -1}, err)
				return
			}
			for i := range t.images {
				image := &t.images[i]
				e := Example{Index: at, Name: image.name, Label: -1, Encoded: image.encoded}
				if e.Label, err = s.labelOf(t, image); err != nil {
					yield(Example{Label: -1}, fmt.Errorf("%s: %q: %w", s.Path, image.name, err))
					return
				}
				if image.err != nil {
					err = &RecordError{e.Name, at, image.err}
				}
				if at++; !yield(e, err) || at == to {
					return
				}
			}
		}
	}
}
