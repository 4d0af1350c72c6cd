package pretrained

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/mfgs/mfgs/internal/text"
)

// Classes reads class names in label order: one per line; a JSON array; a JSON object of names by label, or of
// labels by name; or a config.json of transformers, by its id2label, or of timm.
//
// Names must differ. Those of id2label, which for ImageNet do not, get their label: "crane (517)".
func Classes(document []byte) ([]string, error) {
	document = bytes.TrimRight(bytes.TrimPrefix(document, []byte("\ufeff")), "\r\n\t ")
	start := bytes.TrimSpace(document)
	var names []string
	var err error
	switch {
	case bytes.HasPrefix(start, []byte("[")):
		if err = json.Unmarshal(document, &names); err != nil {
			err = fmt.Errorf("not a JSON array of class names: %w", err)
		}
	case bytes.HasPrefix(start, []byte("{")):
		names, err = ofObject(document)
	default:
		lines := bufio.NewScanner(bytes.NewReader(document))
		lines.Buffer(nil, len(document)+1)
		for lines.Scan() {
			names = append(names, strings.TrimSpace(lines.Text()))
		}
		err = lines.Err()
	}
	if err != nil {
		return nil, err
	}
	return names, distinct(names)
}

// errNoClasses reports a document without names.
var errNoClasses = errors.New("no class names: want one per line, a JSON array, or a config.json with id2label")

// distinct refuses equal names.
func distinct(names []string) error {
	if len(names) == 0 {
		return errNoClasses
	}
	first := map[string]int{}
	for i, name := range names {
		if strings.TrimSpace(name) == "" {
			return fmt.Errorf("class %d has no name", i)
		}
		if j, dup := first[name]; dup {
			return fmt.Errorf("classes %d and %d are both named %q", j, i, text.Name(name))
		}
		first[name] = i
	}
	return nil
}

// ofObject reads names from a JSON object.
func ofObject(document []byte) ([]string, error) {
	var c struct {
		ID2Label    map[string]json.RawMessage `json:"id2label"`
		Label2ID    map[string]json.RawMessage `json:"label2id"`
		LabelNames  []string                   `json:"label_names"`
		Pretrained  json.RawMessage            `json:"pretrained_cfg"`
		Description json.RawMessage            `json:"label_descriptions"`
	}
	if err := json.Unmarshal(document, &c); err != nil {
		return nil, fmt.Errorf("not a JSON object of class names: %w", err)
	}
	switch {
	case len(c.ID2Label) > 0:
		return byLabel(c.ID2Label)
	case len(c.Label2ID) > 0:
		return byName(c.Label2ID)
	case len(c.LabelNames) > 0: // timm's
		return unique(c.LabelNames), nil
	case len(c.Pretrained) > 0:
		var inner struct {
			LabelNames []string `json:"label_names"`
		}
		if json.Unmarshal(c.Pretrained, &inner) == nil && len(inner.LabelNames) > 0 {
			return unique(inner.LabelNames), nil
		}
		return nil, errNoClasses
	}
	var plain map[string]json.RawMessage
	if err := json.Unmarshal(document, &plain); err != nil {
		return nil, err
	}
	if _, numbered := plain["0"]; numbered {
		return byLabel(plain)
	}
	for _, v := range plain {
		if _, err := strconv.Atoi(string(v)); err != nil {
			return nil, errNoClasses
		}
	}
	return byName(plain)
}

// byLabel reads {"0": "cat", …}, with every label from 0.
func byLabel(m map[string]json.RawMessage) ([]string, error) {
	names := make([]string, len(m))
	for key, raw := range m {
		i, err := strconv.Atoi(key)
		if err != nil || i < 0 || i >= len(m) {
			return nil, fmt.Errorf("label %q of %d names: want each number from 0 to %d", text.Name(key), len(m), len(m)-1)
		}
		var name string
		if err := json.Unmarshal(raw, &name); err != nil {
			return nil, fmt.Errorf("the name of class %d is not a string", i)
		}
		names[i] = name
	}
	return unique(names), nil
}

// byName reads {"cat": 0, …}.
func byName(m map[string]json.RawMessage) ([]string, error) {
	names := make([]string, len(m))
	for name, raw := range m {
		i, err := strconv.Atoi(strings.Trim(string(raw), `"`))
		if err != nil || i < 0 || i >= len(m) {
			return nil, fmt.Errorf("label %s of class %q: want a number from 0 to %d", text.Line(string(raw)), text.Name(name),
				len(m)-1)
		}
		if names[i] != "" {
			return nil, fmt.Errorf("classes %q and %q have the label %d", text.Name(names[i]), text.Name(name), i)
		}
		names[i] = name
	}
	return names, nil
}

// unique trims names, and appends labels to those of several classes.
func unique(names []string) []string {
	out, count := make([]string, len(names)), map[string]int{}
	for i, n := range names {
		out[i] = strings.TrimSpace(n)
		count[out[i]]++
	}
	for i, n := range out {
		if count[n] > 1 && n != "" { // "" is refused later
			out[i] = fmt.Sprintf("%s (%d)", n, i)
		}
	}
	return out
}

// placeholders reports whether all names are transformers' placeholders.
func placeholders(names []string) bool {
	for i, n := range names {
		if n != fmt.Sprintf("LABEL_%d", i) {
			return false
		}
	}
	return true
}
