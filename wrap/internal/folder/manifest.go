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

	"gopkg.in/yaml.v3"

	"github.com/mfgs/mfgs/featurize/text"
)

// What can be wrong with a manifest.
var (
	ErrSeal         = errors.New("the seal is broken")
	ErrYAML         = errors.New("the manifest is malformed")
	ErrUnknownField = errors.New("the manifest has an unknown field")
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

// Parse reads a document, which is one, without anchors and aliases.
func Parse(document []byte) (*yaml.Node, error) {
	var root yaml.Node
	d := yaml.NewDecoder(bytes.NewReader(document))
	if err := d.Decode(&root); err != nil {
		return nil, Error(err)
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: more than one document", ErrYAML)
	}
	return &root, plain(&root)
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

// plain refuses anchors and aliases: a few lines of them stand for gigabytes.
func plain(n *yaml.Node) error {
	if n.Kind == yaml.AliasNode || n.Anchor != "" {
		return fmt.Errorf("%w: line %d: anchors and aliases are not allowed", ErrYAML, n.Line)
	}
	for _, c := range n.Content {
		if err := plain(c); err != nil {
			return err
		}
	}
	return nil
}

var unknownField = regexp.MustCompile(`field (.+?) not found in type \S+`)

// Error puts an error of package yaml on one line, keys of several lines in it too.
func Error(err error) error {
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: it is empty", ErrYAML)
	}
	s := strings.TrimPrefix(err.Error(), "yaml: ")
	var t *yaml.TypeError
	if errors.As(err, &t) {
		s = strings.Join(t.Errors, "; ")
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
