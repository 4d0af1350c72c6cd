package folder

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"github.com/mfgs/mfgs/internal/yamlcheck"
)

// Errors of manifests, and of jobs.
var (
	ErrSeal         = errors.New("the seal is broken")
	ErrYAML         = errors.New("invalid YAML")
	ErrUnknownField = errors.New("the manifest has an unknown field")
	ErrTooMuch      = errors.New("the YAML is too large")
)

// Render returns the document of a manifest, without a seal. comments has the comments above its
// fields.
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

// Seal appends the last line, with the SHA-256 of the document.
func Seal(document []byte) []byte {
	sum := sha256.Sum256(document)
	return fmt.Appendf(bytes.Clone(document), "%s%x\n", sealPrefix, sum)
}

// Unseal returns the document before its last line, if that is its seal. hint ends the message of an
// [ErrSeal].
func Unseal(data []byte, hint string) ([]byte, error) {
	const length = len(sealPrefix) + 2*sha256.Size + 1
	n := len(data) - length
	if n < 1 || data[n-1] != '\n' || !bytes.HasPrefix(data[n:], []byte(sealPrefix)) {
		return nil, fmt.Errorf("%w: want %q and 64 digits as its last line; %s", ErrSeal, sealPrefix, hint)
	}
	if sealed := Seal(data[:n]); !bytes.Equal(sealed, data) {
		return nil, fmt.Errorf("%w: the content has changed; %s", ErrSeal, hint)
	}
	return data[:n], nil
}

// SealLine matches a seal, wherever an edit has moved it.
var SealLine = regexp.MustCompile(`(?m)^# sha256: [0-9a-f]{64}\r?(\n|\z)`)

const (
	// maxEntries bounds the nodes of a document, each of which takes package yaml some
	// 200 bytes. It is enough for the shards and bad records of a part, or the classes of a bundle.
	maxEntries = 1 << 20
	// maxPairs bounds the pairs of keys that package yaml compares to find duplicates.
	maxPairs = 10_000_000
)

// entries counts the characters that begin nodes. No YAML has more than two nodes for each.
func entries(document []byte) (n int) {
	blank := func(i int) bool { return i < len(document) && (document[i] == ' ' || document[i] == '\t') }
	begun := false // the line is not blank so far
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

// Parse reads a single document without anchors and aliases. It refuses what would take package yaml
// long or much memory.
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

// Format returns the version of a document, nil if it has none. Check it first: the fields of another version may be
// others.
func Format(root *yaml.Node) (*int, error) {
	var d struct {
		Format *int `yaml:"format"`
	}
	if err := yamlcheck.Types(root, reflect.TypeOf(d), ""); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrYAML, err)
	}
	if err := root.Decode(&d); err != nil {
		return nil, Error(err)
	}
	return d.Format, nil
}

// Decode reads a document, whose root is parsed, into a manifest, and refuses unknown fields.
func Decode(document []byte, root *yaml.Node, manifest any) error {
	if err := yamlcheck.Types(root, reflect.TypeOf(manifest), ""); err != nil {
		return fmt.Errorf("%w: %w", ErrYAML, err)
	}
	d := yaml.NewDecoder(bytes.NewReader(document))
	d.KnownFields(true)
	if err := d.Decode(manifest); err != nil {
		return Error(err)
	}
	return nil
}

// plain refuses anchors and aliases, a few lines of which can stand for gigabytes, and too
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

// Error turns an error of package yaml into one of this package, on one line.
func Error(err error) error {
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: it is empty", ErrYAML)
	}
	message, unknown := yamlcheck.Message(err)
	if unknown {
		return fmt.Errorf("%w: %s", ErrUnknownField, message)
	}
	return fmt.Errorf("%w: %s", ErrYAML, message)
}

// IsHash reports whether s is a SHA-256 in lower-case hexadecimal.
func IsHash(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == sha256.Size && s == strings.ToLower(s)
}
