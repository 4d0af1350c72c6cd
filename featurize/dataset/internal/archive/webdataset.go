package archive

import (
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/mfgs/mfgs/internal/jsontensor"
)

// WebDataset stores a sample as the members of an archive that have the same key: the path up to
// the first dot of the file's name. https://github.com/webdataset/webdataset

const (
	// MaxMembers bounds the images of an archive, which are remembered one by one, and the labels beside
	// them: about half a gigabyte. ImageNet's training set has 1.3 million.
	MaxMembers = 1 << 22

	// maxClassMember and maxJSONMember bound the bytes of the members that hold a label.
	maxClassMember = MaxLabel
	maxJSONMember  = 1 << 20

	// ClassMember and JSONMember are the ends of their names.
	ClassMember, JSONMember = ".cls", ".json"

	// MaxLabel bounds the bytes of a label.
	MaxLabel = 4 << 10
)

// Key takes a path apart.
func Key(name string) (key, ext string) {
	folder, base := path.Split(name)
	base, ext, _ = strings.Cut(base, ".")
	return folder + base, strings.ToLower(ext)
}

// A Group is the members of one key, while they come. Those that are not read are passed over
// with a word where no image has their key.
type Group struct {
	Ignore func(name string) // is told of them
	key    string
	Image  bool     // one is an image
	kept   []string // members that are not read
}

// Next begins a group where a member has another key.
func (g *Group) Next(name string) {
	key, _ := Key(name)
	if key == g.key {
		return
	}
	if !g.Image {
		for _, name := range g.kept {
			g.Ignore(name)
		}
	}
	g.key, g.Image, g.kept = key, false, g.kept[:0]
}

// Unread adds a member that is not read.
func (g *Group) Unread(name string) {
	if g.Image || len(g.kept) == MaxBeside {
		if !g.Image {
			g.Ignore(name)
		}
		return
	}
	g.kept = append(g.kept, name)
}

// MaxBeside bounds the members of one key whose names are kept.
const MaxBeside = 1000

// Labels are those that stand beside images, by key, as they are written. A label that many
// have is kept once.
type Labels struct {
	Classes map[string]string // of .cls members; nil where there are none
	JSON    map[string]string // values of a label in .json members
	texts   map[string]string
}

// Read keeps the label in a member, and reports whether it was such a member.
func (s *Labels) Read(m Member, content io.Reader) (bool, error) {
	label, isJSON, err := LabelOf(m, content)
	if err != nil || label == "" {
		return false, err
	}
	key, _ := Key(m.Name)
	if isJSON {
		return true, s.keep(&s.JSON, m.Name, key, label)
	}
	return true, s.keep(&s.Classes, m.Name, key, label)
}

// LabelOf returns the label in a member as it is written, and whether as JSON; "" if it is no
// member that holds one.
func LabelOf(m Member, content io.Reader) (label string, isJSON bool, err error) {
	_, ext := Key(m.Name)
	isJSON = ext == "json"
	if !m.Regular || !(isJSON && m.Size <= maxJSONMember || "."+ext == ClassMember && m.Size <= maxClassMember) {
		return "", false, nil
	}
	text := make([]byte, m.Size)
	if _, err := io.ReadFull(content, text); err != nil {
		return "", false, fmt.Errorf("is cut off within %q: %w", m.Name, err)
	}
	if isJSON {
		return jsonLabel(text), true, nil
	}
	return strings.TrimSpace(string(text)), false, nil
}

func (s *Labels) keep(in *map[string]string, name, key, text string) error {
	if *in == nil {
		*in = map[string]string{}
	}
	if s.texts == nil {
		s.texts = map[string]string{}
	}
	if _, twice := (*in)[key]; twice {
		return fmt.Errorf("two members are called %q", name)
	}
	if len(*in) == MaxMembers {
		return fmt.Errorf("holds more than %d labels", MaxMembers)
	}
	known, ok := s.texts[text]
	if !ok {
		known, s.texts[text] = text, text
	}
	(*in)[key] = known
	return nil
}

// labelNames are the keys of an object that hold the label.
var labelNames = []string{"label", "labels"}

// jsonLabel returns the value of an object's label as it is written, "" where there is none or the
// text is no object.
func jsonLabel(text []byte) (label string) {
	p := &jsontensor.Parser{Text: text}
	err := p.Object(func(key string) error {
		p.Peek()
		from := p.Pos
		if err := p.Skip(0); err != nil {
			return err
		}
		if slices.Contains(labelNames, key) && label == "" {
			label = string(text[from:p.Pos])
		}
		return nil
	})
	if err != nil || label == "null" || len(label) > MaxLabel {
		return ""
	}
	return label
}

// ReadGrowing reads so many bytes, for which room is made as they come.
func ReadGrowing(r io.Reader, size int64) ([]byte, error) {
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
