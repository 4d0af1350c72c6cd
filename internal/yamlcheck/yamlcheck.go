// Package yamlcheck says what is wrong with YAML in the words of its file: line, key, what it is and what it should be.
// Package yaml names Go types instead.
package yamlcheck

import (
	"encoding"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/mfgs/mfgs/internal/option"
	"github.com/mfgs/mfgs/internal/text"
	"gopkg.in/yaml.v3"
)

// Types refuses values that cannot be decoded into type t, among them 2.7 for an int, which package yaml truncates.
// Unknown keys are left to others. at is the node's own key.
func Types(n *yaml.Node, t reflect.Type, at string) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	switch to := reflect.New(t).Interface().(type) {
	case yaml.Unmarshaler:
		return nil
	case encoding.TextUnmarshaler:
		if n.Kind == yaml.ScalarNode && n.ShortTag() != "!!null" {
			if err := to.UnmarshalText([]byte(n.Value)); err != nil {
				err = option.Respell(err, func(option.Name) string { return text.Name(at) })
				return fmt.Errorf("line %d: %w", n.Line, err)
			}
		}
		return nil
	}
	if n.Kind == yaml.DocumentNode {
		return Types(n.Content[0], t, at)
	}
	if want := wanted(n, t); want != "" {
		is := map[yaml.Kind]string{yaml.MappingNode: "a mapping", yaml.SequenceNode: "a list"}[n.Kind]
		if is == "" {
			is = fmt.Sprintf("%.70q", n.Value)
		}
		if at != "" {
			at = text.Name(at) + " "
		}
		return fmt.Errorf("line %d: %sis %s, want %s", n.Line, at, is, want)
	}
	switch {
	case n.Kind == yaml.SequenceNode && (t.Kind() == reflect.Slice || t.Kind() == reflect.Array):
		for _, item := range n.Content {
			if err := Types(item, t.Elem(), at); err != nil {
				return err
			}
		}
	case n.Kind == yaml.MappingNode && t.Kind() == reflect.Map:
		for i := 0; i < len(n.Content); i += 2 {
			value, key := n.Content[i+1], strings.TrimPrefix(at+"."+n.Content[i].Value, ".")
			if value.ShortTag() == "!!null" {
				return fmt.Errorf("line %d: %s has no value", value.Line, text.Name(key))
			}
			if err := Types(value, t.Elem(), key); err != nil {
				return err
			}
		}
	case n.Kind == yaml.MappingNode && t.Kind() == reflect.Struct:
		fields := Fields(t)
		for i := 0; i < len(n.Content); i += 2 {
			key := n.Content[i].Value
			if field, ok := fields[key]; ok {
				if err := Types(n.Content[i+1], field, strings.TrimPrefix(at+"."+key, ".")); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// wanted says what a node should be to be decoded into type t, "" if it is.
func wanted(n *yaml.Node, t reflect.Type) string {
	scalar, tag := n.Kind == yaml.ScalarNode, n.ShortTag()
	if scalar && tag == "!!null" {
		return ""
	}
	want, ok := "", true
	switch t.Kind() {
	case reflect.Int:
		want, ok = "a whole number", scalar && (tag == "!!int" || tag == "!!float" && isWhole(n))
	case reflect.Float64:
		want, ok = "a number", scalar && (tag == "!!int" || tag == "!!float")
	case reflect.Bool:
		want, ok = "true or false", scalar && n.Decode(new(bool)) == nil
	case reflect.String:
		want, ok = "a string", scalar
	case reflect.Slice, reflect.Array:
		want, ok = "a list", n.Kind == yaml.SequenceNode
	case reflect.Struct, reflect.Map:
		want, ok = "a mapping", n.Kind == yaml.MappingNode
	}
	if ok {
		return ""
	}
	return want
}

// isWhole reports whether a number such as 1e3 fits an int.
func isWhole(n *yaml.Node) bool {
	var v float64
	return n.Decode(&v) == nil && v == math.Trunc(v) && math.Abs(v) < 1<<62
}

// Fields returns the types of a struct's fields, by their YAML keys.
func Fields(t reflect.Type) map[string]reflect.Type {
	fields := map[string]reflect.Type{}
	for i := range t.NumField() {
		switch key, option, _ := strings.Cut(t.Field(i).Tag.Get("yaml"), ","); {
		case option == "inline" && t.Field(i).Type.Kind() == reflect.Struct:
			maps.Copy(fields, Fields(t.Field(i).Type))
		case key != "" && key != "-":
			fields[key] = t.Field(i).Type
		}
	}
	return fields
}

// goType matches the Go types in package yaml's errors.
var goType = regexp.MustCompile(`(?s) into .*$`)

var unknownField = regexp.MustCompile(`field (.+?) not found in type \S+`)

// Message rewords an error of package yaml on one line, and reports whether it is about an unknown field.
func Message(err error) (message string, unknown bool) {
	lines := []string{strings.TrimPrefix(err.Error(), "yaml: ")}
	var t *yaml.TypeError
	if errors.As(err, &t) {
		lines = slices.Clone(t.Errors[:min(len(t.Errors), 10)])
	}
	for i, line := range lines {
		unknown = unknown || unknownField.MatchString(line)
		lines[i] = unknownField.ReplaceAllString(goType.ReplaceAllString(line, ""), "field $1")
	}
	return text.Line(strings.Join(strings.Fields(strings.Join(lines, "; ")), " ")), unknown
}
