package folder

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"github.com/mfgs/mfgs/internal/text"
)

// What can be wrong with a manifest.
var (
	ErrSeal         = errors.New("the seal is broken")
	ErrYAML         = errors.New("the manifest is malformed")
	ErrUnknownField = errors.New("the manifest has an unknown field")
	ErrTooMuch      = errors.New("the manifest holds too much")
)

// Render returns the document of a manifest, without its seal. Comments stand above fields of the
// mapping, by name.
func Render(manifest any, comments map[string]string) ([]byte, error) {
	var all yaml.Node
	if err := all.Encode(manifest); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	for i := 0; i < len(all.Content); i += 2 {
		key := all.Content[i].Value
		if c := comments[key]; c != "" {
			if i > 0 {
				b.WriteByte('\n')
			}
			b.WriteString("# " + c + "\n")
		}
		e := yaml.NewEncoder(&b)
		e.SetIndent(2)
		if err := e.Encode(&yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Content: all.Content[i : i+2]}); err != nil {
			return nil, err
		}
		if err := e.Close(); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}

const sealPrefix = "# sha256: "

// Seal appends the last line.
func Seal(document []byte) []byte {
	sum := sha256.Sum256(document)
	return fmt.Appendf(bytes.Clone(document), "%s%x\n", sealPrefix, sum)
}

// Unseal returns what stands before the last line, if that is its seal. hint ends the message of an
// [ErrSeal].
func Unseal(data []byte, hint string) ([]byte, error) {
	const length = len(sealPrefix) + 2*sha256.Size + 1
	n := len(data) - length
	if n < 1 || data[n-1] != '\n' || !bytes.HasPrefix(data[n:], []byte(sealPrefix)) {
		return nil, fmt.Errorf("%w: want %q and 64 digits as its last line; %s", ErrSeal, sealPrefix, hint)
	}
	if sealed := Seal(data[:n]); !bytes.Equal(sealed, data) {
		return nil, fmt.Errorf("%w: the content is not what was sealed; %s", ErrSeal, hint)
	}
	return data[:n], nil
}

// SealLine is a seal, wherever an edit may have moved it.
var SealLine = regexp.MustCompile(`(?m)^# sha256: [0-9a-f]{64}\r?(\n|\z)`)

const (
	// maxEntries bounds lines, and what stands on one, of which package yaml makes nodes of some
	// 200 bytes. There is room for the shards and bad records of a part, or the classes of a bundle.
	maxEntries = 1 << 20
	// maxPairs bounds the pairs of keys of mappings, which package yaml compares with each other.
	maxPairs = 10_000_000
)

// entries counts what nodes stand behind: there are no more than two for each, of whatever YAML.
func entries(document []byte) (n int) {
	blank := func(i int) bool { return i < len(document) && (document[i] == ' ' || document[i] == '\t') }
	begun := false // the line has more than blanks
	for i, c := range document {
		switch c {
		case '\n', '\r', 0x85, 0xa8, 0xa9: // the last three end line breaks of Unicode
			n++
			begun = false
			continue
		case ',', '[', '{', '?':
			n++
		case '-', ':':
			if begun && blank(i+1) {
				n++
			}
		}
		begun = begun || !blank(i)
	}
	return n
}

// Parse reads a document, which is one, without anchors and aliases. What would take package yaml
// long, or much memory, is refused before it does.
func Parse(document []byte) (*yaml.Node, error) {
	if !utf8.Valid(document) {
		return nil, fmt.Errorf("%w: not UTF-8", ErrYAML)
	}
	if n := entries(document); n > maxEntries {
		return nil, fmt.Errorf("%w: %d lines and entries, at most %d can be read", ErrTooMuch, n, maxEntries)
	}
	var root yaml.Node
	d := yaml.NewDecoder(bytes.NewReader(document))
	if err := d.Decode(&root); err != nil {
		return nil, Error(err)
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: more than one document", ErrYAML)
	}
	pairs := 0
	return &root, plain(&root, &pairs)
}

// Decode reads a document into a manifest, and refuses fields that it does not have.
func Decode(document []byte, manifest any) error {
	d := yaml.NewDecoder(bytes.NewReader(document))
	d.KnownFields(true)
	if err := d.Decode(manifest); err != nil {
		return Error(err)
	}
	return nil
}

// plain refuses anchors and aliases: a few lines of them stand for gigabytes. Neither are there too
// many pairs of keys.
func plain(n *yaml.Node, pairs *int) error {
	if n.Kind == yaml.AliasNode || n.Anchor != "" {
		return fmt.Errorf("%w: line %d: anchors and aliases are not allowed", ErrYAML, n.Line)
	}
	if n.Kind == yaml.MappingNode {
		keys := len(n.Content) / 2
		if *pairs += keys * keys / 2; *pairs > maxPairs {
			return fmt.Errorf("%w: line %d: a mapping has %d keys", ErrTooMuch, n.Line, keys)
		}
	}
	for _, c := range n.Content {
		if err := plain(c, pairs); err != nil {
			return err
		}
	}
	return nil
}

var unknownField = regexp.MustCompile(`field (.+?) not found in type \S+`)

// goType is what package yaml says of the type that a value does not fit, which no reader of a file knows.
var goType = regexp.MustCompile(`(?s) into .*$`)

// Error puts an error of package yaml on one line, keys of several lines in it too.
func Error(err error) error {
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: it is empty", ErrYAML)
	}
	s := strings.TrimPrefix(err.Error(), "yaml: ")
	var t *yaml.TypeError
	if errors.As(err, &t) {
		for i, line := range t.Errors {
			t.Errors[i] = goType.ReplaceAllString(line, "")
		}
		s = strings.Join(t.Errors[:min(len(t.Errors), 10)], "; ")
	}
	s = text.Line(strings.Join(strings.Fields(s), " "))
	if unknownField.MatchString(s) {
		return fmt.Errorf("%w: %s", ErrUnknownField, unknownField.ReplaceAllString(s, "field $1"))
	}
	return fmt.Errorf("%w: %s", ErrYAML, s)
}

// IsHash reports whether s is a SHA-256 in lower-case hexadecimal.
func IsHash(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == sha256.Size && s == strings.ToLower(s)
}
