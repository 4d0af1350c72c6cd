package dataset

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/mfgs/mfgs/featurize/dataset/internal/archive"
)

// A tarStream reads an archive as it comes: the images of one key, and what stands beside them, at a
// time. The first decide where labels are.
type tarStream struct {
	Base
	o      Options
	labels labelParser
	beside string // the member that holds the label, archive.ClassMember or archive.JSONMember; "" for none
	depth  int    // of the class folder in a path, -1 for none
}

var errEnough = errors.New("enough is read")

func streamTar(in *Stream, o Options) (Source, error) {
	s := &tarStream{o: o, labels: newLabelParser(o), depth: -1}
	s.Path, s.stream = in.Name(), in
	none := true
	err := s.samples(func(t *tarSample) error {
		if len(t.images) == 0 {
			return nil
		}
		none = false
		s.learn(t)
		return errEnough
	})
	switch {
	case err != nil && err != errEnough:
		return nil, err
	case none:
		return nil, noImages(s.Path, nil)
	case s.Labelled:
		err = singleLabels(s.Path, o)
	default:
		err = nil
	}
	return s, err
}

// A tarSample is what an archive holds under a key.
type tarSample struct {
	key    string
	images []tarImage
	label  [2]string // in .cls and .json, as they are written
}

type tarImage struct {
	name    string
	encoded []byte
	err     error // why it is not there
}

// samples calls each with one sample after another, until it returns an error.
func (s *tarStream) samples(each func(*tarSample) error) error {
	in, err := s.stream.Reader()
	if err != nil {
		return fmt.Errorf("%s: %w", s.Path, err)
	}
	t, begun := &tarSample{}, false
	err = archive.Walk(in, func(m archive.Member, content io.Reader) error {
		if isHiddenMember(m.Name) || !m.Regular {
			return nil
		}
		if key, _ := archive.Key(m.Name); key != t.key {
			if begun {
				if err := each(t); err != nil {
					return err
				}
			}
			t = &tarSample{key: key}
		}
		begun = true
		return t.add(m, content)
	})
	if err == nil && begun {
		err = each(t)
	}
	if err != nil && err != errEnough {
		err = fmt.Errorf("%s: %w", s.Path, err)
	}
	return err
}

// add reads a member of the sample.
func (t *tarSample) add(m archive.Member, content io.Reader) error {
	if !isImageName(m.Name) {
		label, isJSON, err := archive.LabelOf(m, content)
		if label != "" && isJSON {
			t.label[1] = label
		} else if label != "" {
			t.label[0] = label
		}
		return err
	}
	switch {
	case m.Sparse:
		return fmt.Errorf("%q is stored with its zeros left out, which is not read; make the archive without its option sparse",
			m.Name)
	case len(t.images) == archive.MaxBeside:
		return fmt.Errorf("more than %d images are called %q", archive.MaxBeside, t.key)
	}
	image := tarImage{name: m.Name}
	if image.err = checkImageSize(m.Size); image.err == nil {
		var err error
		if image.encoded, err = archive.ReadGrowing(content, m.Size); err != nil {
			return fmt.Errorf("is cut off within %q: %w", m.Name, err)
		}
	}
	t.images = append(t.images, image)
	return nil
}

// learn decides where labels are: in a .cls member, in the first folder that is called like a class
// or, in an archive without, in a .json member.
func (s *tarStream) learn(t *tarSample) {
	if s.o.Unlabelled {
		return
	}
	folders := strings.Split(t.images[0].name, "/")
	s.Labelled = true
	if t.label[0] != "" {
		s.beside = archive.ClassMember
		return
	}
	for i, folder := range folders[:len(folders)-1] {
		if _, err := s.folderLabel(folder); err == nil {
			s.depth = i
			return
		}
	}
	if t.label[1] != "" {
		s.beside = archive.JSONMember
		return
	}
	s.Labelled = false
}

// folderLabel returns the label of a class folder. How many there are is not known, so that neither
// is a place among them.
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
			return -1, errors.New("it lies in no class folder, as the first image does")
		}
		if y, err = s.folderLabel(folders[s.depth]); err != nil && s.o.IgnoreUnknownLabels {
			return -1, nil
		}
		return y, err
	}
	text := t.label[0]
	if s.beside == archive.JSONMember {
		text = t.label[1]
	}
	if text == "" && !s.o.IgnoreUnknownLabels {
		return -1, fmt.Errorf("there is no label in a %s beside it, as the first image has", s.beside)
	}
	if text == "" {
		return -1, nil
	}
	return besideLabel(s.labels, text, s.beside == archive.JSONMember)
}

// Examples reads the archive.
func (s *tarStream) Examples(from, to int, yield func(Example, error) bool) {
	at := from
	err := s.samples(func(t *tarSample) error {
		for i := range t.images {
			image := &t.images[i]
			e := Example{Index: at, Name: image.name, Label: -1, Encoded: image.encoded}
			var err error
			if e.Label, err = s.labelOf(t, image); err != nil {
				return fmt.Errorf("%q: %w", image.name, err)
			}
			if image.err != nil {
				err = &RecordError{e.Name, at, image.err}
			}
			if at++; !yield(e, err) || at == to {
				return errEnough
			}
		}
		return nil
	})
	if err != nil && err != errEnough {
		yield(Example{Label: -1}, err)
	}
}
