package dataset

import (
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/mfgs/mfgs/internal/jsontensor"
)

// In a WebDataset the members of an archive with the same key, the path up to the first dot of the
// file's name, are one sample. https://github.com/webdataset/webdataset

const (
	// maxMembers bounds the images of an archive and the labels beside them, all of which are kept in
	// memory: about half a gigabyte. ImageNet's training set has 1.3 million images.
	maxMembers = 1 << 22

	// maxClassMember and maxJSONMember bound the bytes of the members that hold a label.
	maxClassMember = maxLabelText
	maxJSONMember  = 1 << 20

	// classMember and jsonMember are their extensions.
	classMember, jsonMember = ".cls", ".json"
)

// memberKey splits a path into its key and its extension, which is in lower case.
func memberKey(name string) (key, ext string) {
	folder, base := path.Split(name)
	base, ext, _ = strings.Cut(base, ".")
	return folder + base, strings.ToLower(ext)
}

// A memberGroup collects the members of one key that are not read. They count as ignored unless an
// image has the same key.
type memberGroup struct {
	ignore func(name string)
	key    string
	image  bool     // one of the members is an image
	unread []string // names
}

// maxBeside bounds the members of one key whose names are kept.
const maxBeside = 1000

// next begins a new group if the member has another key.
func (g *memberGroup) next(name string) {
	key, _ := memberKey(name)
	if key == g.key {
		return
	}
	if !g.image {
		for _, name := range g.unread {
			g.ignore(name)
		}
	}
	g.key, g.image, g.unread = key, false, g.unread[:0]
}

// add adds a member that is not read.
func (g *memberGroup) add(name string) {
	switch {
	case g.image:
	case len(g.unread) == maxBeside:
		g.ignore(name)
	default:
		g.unread = append(g.unread, name)
	}
}

// memberLabels are the labels in members beside images, by key and as text. Equal labels share one
// string.
type memberLabels struct {
	classes map[string]string // from .cls members; nil if there are none
	json    map[string]string // JSON values of label in .json members; nil if there are none
	texts   map[string]string
}

// read keeps the label in a member, and reports whether it held one.
func (s *memberLabels) read(m tarEntry) (bool, error) {
	label, isJSON, err := memberLabel(m)
	if err != nil || label == "" {
		return false, err
	}
	if isJSON {
		return true, s.keep(&s.json, m.Name, label)
	}
	return true, s.keep(&s.classes, m.Name, label)
}

func (s *memberLabels) keep(in *map[string]string, name, text string) error {
	if *in == nil {
		*in = map[string]string{}
	}
	if s.texts == nil {
		s.texts = map[string]string{}
	}
	key, _ := memberKey(name)
	if _, twice := (*in)[key]; twice {
		return fmt.Errorf("two members are called %q", name)
	}
	if len(*in) == maxMembers {
		return fmt.Errorf("holds more than %d labels", maxMembers)
	}
	known, ok := s.texts[text]
	if !ok {
		known, s.texts[text] = text, text
	}
	(*in)[key] = known
	return nil
}

// memberLabel returns the text of the label in a member, and whether it is a JSON value; "" if the
// member holds no label.
func memberLabel(m tarEntry) (label string, isJSON bool, err error) {
	_, ext := memberKey(m.Name)
	isJSON = ext == "json"
	if !m.Regular || !(isJSON && m.Size <= maxJSONMember || "."+ext == classMember && m.Size <= maxClassMember) {
		return "", false, nil
	}
	text := make([]byte, m.Size)
	if _, err := io.ReadFull(m.Content, text); err != nil {
		return "", false, fmt.Errorf("is cut off within %q: %w", m.Name, err)
	}
	if isJSON {
		return jsonLabel(text), true, nil
	}
	return strings.TrimSpace(string(text)), false, nil
}

// jsonLabel returns the JSON text of an object's label, "" if there is none or the text is not an object.
func jsonLabel(text []byte) (label string) {
	p := &jsontensor.Parser{Text: text}
	err := p.Object(func(key string) error {
		p.Peek()
		from := p.Pos
		if err := p.Skip(0); err != nil {
			return err
		}
		if slices.Contains(jsonLabelNames, key) && label == "" {
			label = string(text[from:p.Pos])
		}
		return nil
	})
	if err != nil || label == "null" || len(label) > maxLabelText {
		return ""
	}
	return label
}

// readGrowing reads size bytes, allocating as they arrive: size is a claim.
func readGrowing(r io.Reader, size int64) ([]byte, error) {
	const atOnce = 1 << 20
	b := make([]byte, 0, min(size, atOnce))
	for int64(len(b)) < size {
		if len(b) == cap(b) {
			grown := make([]byte, len(b), min(size, 2*int64(len(b))))
			copy(grown, b)
			b = grown
		}
		n, err := io.ReadFull(r, b[len(b):cap(b)])
		if b = b[:len(b)+n]; err != nil {
			return nil, err
		}
	}
	return b, nil
}
