package dataset

import (
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/mfgs/mfgs/featurize/dataset/internal/archive"
	"github.com/mfgs/mfgs/featurize/dataset/internal/jsontensor"
)

// WebDataset stores a sample as the members of an archive that have the same key: the path up to
// the first dot of the file's name. https://github.com/webdataset/webdataset

const (
	// maxMembers bounds the images of an archive, which are remembered one by one, and the labels beside
	// them: about half a gigabyte. ImageNet's training set has 1.3 million.
	maxMembers = 1 << 22

	// maxClassMember and maxJSONMember bound the bytes of the members that hold a label.
	maxClassMember = maxLabelText
	maxJSONMember  = 1 << 20

	classMember, jsonMember = ".cls", ".json"
)

// sampleKey takes a path apart.
func sampleKey(name string) (key, ext string) {
	folder, base := path.Split(name)
	base, ext, _ = strings.Cut(base, ".")
	return folder + base, strings.ToLower(ext)
}

// A sampleGroup is the members of one key, while they come. Those that are not read are passed over
// with a word where no image has their key.
type sampleGroup struct {
	*listing
	key   string
	image bool     // one is an image
	kept  []string // members that are not read
}

// next begins a group where a member has another key.
func (g *sampleGroup) next(name string) {
	key, _ := sampleKey(name)
	if key == g.key {
		return
	}
	if !g.image {
		for _, name := range g.kept {
			g.ignore("not PNG or JPEG", name, 1)
		}
	}
	g.key, g.image, g.kept = key, false, g.kept[:0]
}

func (g *sampleGroup) unread(name string) {
	if g.image || len(g.kept) == maxBeside {
		if !g.image {
			g.ignore("not PNG or JPEG", name, 1)
		}
		return
	}
	g.kept = append(g.kept, name)
}

// maxBeside bounds the members of one key whose names are kept.
const maxBeside = 1000

// sidecars are the labels that stand beside images, by key, as they are written. A label that many
// have is kept once.
type sidecars struct {
	classes map[string]string // of .cls members; nil where there are none
	json    map[string]string // values of a label in .json members
	texts   map[string]string
}

// read keeps the label in a member, and reports whether it was such a member.
func (s *sidecars) read(m archive.Member, content io.Reader) (bool, error) {
	label, isJSON, err := labelMember(m, content)
	if err != nil || label == "" {
		return false, err
	}
	key, _ := sampleKey(m.Name)
	if isJSON {
		return true, s.keep(&s.json, m.Name, key, label)
	}
	return true, s.keep(&s.classes, m.Name, key, label)
}

// labelMember returns the label in a member as it is written, and whether as JSON; "" if it is no
// member that holds one.
func labelMember(m archive.Member, content io.Reader) (label string, isJSON bool, err error) {
	_, ext := sampleKey(m.Name)
	isJSON = ext == "json"
	if !m.Regular || !(isJSON && m.Size <= maxJSONMember || "."+ext == classMember && m.Size <= maxClassMember) {
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

func (s *sidecars) keep(in *map[string]string, name, key, text string) error {
	if *in == nil {
		*in = map[string]string{}
	}
	if s.texts == nil {
		s.texts = map[string]string{}
	}
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

// besideLabel returns the label that is written in a .cls member or, where it is one, as JSON.
func besideLabel(l labelParser, text string, isJSON bool) (int, error) {
	if !isJSON {
		return l.fromText(text)
	}
	e := Example{Label: -1}
	_, err := l.fromJSON(&jsontensor.Parser{Text: []byte(text)}, &e)
	return e.Label, err
}
