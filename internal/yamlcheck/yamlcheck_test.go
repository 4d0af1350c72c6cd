package yamlcheck_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/internal/yamlcheck"
	"gopkg.in/yaml.v3"
)

type inner struct {
	Words []string `yaml:"words"`
	On    *bool    `yaml:"on"`
}

type document struct {
	inner  `yaml:",inline"`
	Whole  int            `yaml:"whole"`
	Number float64        `yaml:"number"`
	Word   string         `yaml:"word"`
	In     *inner         `yaml:"in"`
	Map    map[string]int `yaml:"map"`
}

func check(t *testing.T, text string) (root *yaml.Node, err error) {
	t.Helper()
	root = new(yaml.Node)
	if err := yaml.Unmarshal([]byte(text), root); err != nil {
		t.Fatal(err)
	}
	return root, yamlcheck.Types(root, reflect.TypeFor[document](), "")
}

func TestValuesOfOtherTypesAreNamed(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"number: 1\nwhole: 2.7":       `line 2: whole is "2.7", want a whole number`,
		"number: x":                   `line 1: number is "x", want a number`,
		"word: [a]":                   "line 1: word is a list, want a string",
		"on: 3":                       `line 1: on is "3", want true or false`,
		"in: {on: x}":                 `line 1: in.on is "x", want true or false`,
		"in: x":                       `line 1: in is "x", want a mapping`,
		"in: {words: {}}":             "line 1: in.words is a mapping, want a list",
		"words:\n  - a\n  - {b: c}":   "line 3: words is a mapping, want a string",
		"map: 1":                      `line 1: map is "1", want a mapping`,
		"word: &a x\nwhole: *a":       `line 1: whole is "x", want a whole number`,
		"- a":                         "line 1: is a list, want a mapping",
		"number: \"\\e[31m\"":         `line 1: number is "\x1b[31m", want a number`,
		"in: {words: [a], on: [yes]}": "line 1: in.on is a list, want true or false",
	} {
		if _, err := check(t, text); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// What passes is decoded without an error.
func TestValuesOfTheirTypesPass(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"whole: 1e3\nnumber: 2\nword: 3\nin: {on: true, words: [a, 1]}\nmap: {a: 1}", "in: null\nwhole: ~", "other: [x]",
		"in: &a {on: false}\nmap: {}",
	} {
		root, err := check(t, text)
		if err == nil {
			err = root.Decode(new(document))
		}
		if err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestMessagesAreOneLineWithoutGoTypes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		message string
		unknown bool
	}{
		"whole: x\nnumber: y": {"line 1: cannot unmarshal !!str `x`; line 2: cannot unmarshal !!str `y`", false},
		"a: 1\nb: 2":          {"line 1: field a; line 2: field b", true},
		"a: [":                {"line 1: did not find expected node content", false},
	} {
		d := yaml.NewDecoder(strings.NewReader(text))
		d.KnownFields(true)
		err := d.Decode(new(document))
		if err == nil {
			t.Errorf("%q is decoded", text)
			continue
		}
		if message, unknown := yamlcheck.Message(err); message != want.message || unknown != want.unknown {
			t.Errorf("%q: %q, %v, want %q, %v", text, message, unknown, want.message, want.unknown)
		}
	}
}
