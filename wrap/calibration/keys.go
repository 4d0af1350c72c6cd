package calibration

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/mfgs/mfgs/internal/text"
	"github.com/mfgs/mfgs/wrap/bundle"
	"github.com/mfgs/mfgs/wrap/internal/folder"
)

// hasKey reports whether a document is a mapping with a key.
func hasKey(root *yaml.Node, key string) bool {
	if len(root.Content) == 0 || root.Content[0].Kind != yaml.MappingNode {
		return false
	}
	fields := root.Content[0].Content
	for i := 0; i < len(fields); i += 2 {
		if fields[i].Value == key {
			return true
		}
	}
	return false
}

// checkKeys refuses keys that a job does not have, and names those near them.
func checkKeys(root *yaml.Node) error {
	if len(root.Content) == 0 || root.Content[0].Kind != yaml.MappingNode {
		return fmt.Errorf("%w: a job is a mapping of keys such as model and datasets", folder.ErrYAML)
	}
	return keysOf(root.Content[0], reflect.TypeFor[document](), "")
}

// keysOf checks the keys of a node, which is decoded into a type; at is the key that leads to it.
func keysOf(n *yaml.Node, t reflect.Type, at string) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case n.Kind == yaml.SequenceNode && t.Kind() == reflect.Slice:
		for _, item := range n.Content {
			if err := keysOf(item, t.Elem(), at); err != nil {
				return err
			}
		}
	case n.Kind == yaml.MappingNode && t.Kind() == reflect.Struct:
		fields := fieldsOf(t)
		for i := 0; i < len(n.Content); i += 2 {
			key := n.Content[i]
			field, ok := fields[key.Value]
			if !ok {
				return unknown(key, fields, at)
			}
			if err := keysOf(n.Content[i+1], field, strings.TrimPrefix(at+"."+key.Value, ".")); err != nil {
				return err
			}
		}
	}
	return nil
}

// fieldsOf are the types of the fields of a struct, by their keys.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	fields := map[string]reflect.Type{}
	for i := range t.NumField() {
		switch key, option, _ := strings.Cut(t.Field(i).Tag.Get("yaml"), ","); {
		case option == "inline" && t.Field(i).Type.Kind() == reflect.Struct:
			maps.Copy(fields, fieldsOf(t.Field(i).Type))
		case key != "" && key != "-":
			fields[key] = t.Field(i).Type
		}
	}
	return fields
}

// unknown refuses a key.
func unknown(key *yaml.Node, fields map[string]reflect.Type, at string) error {
	names := slices.Sorted(maps.Keys(fields))
	name, hint := strings.TrimPrefix(at+"."+text.Name(key.Value), "."), ""
	if near := text.Nearest(key.Value, names); near != nil {
		hint = ": did you mean " + strings.Join(near, " or ") + "?"
	} else if _, ok := fieldsOf(reflect.TypeFor[bundle.Manifest]())[key.Value]; ok && at == "" {
		hint = ", as it is what a calibration finds out: leave it out"
	}
	return fmt.Errorf("line %d: %s is no key of a job%s", key.Line, name, hint)
}
