// Package jsontensor reads JSON texts whose lists are tensors.
package jsontensor

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth bounds the nesting of skipped values.
const maxDepth = 1000

// MaxDims bounds the dimensions of a tensor, as in NumPy 1.
const MaxDims = 32

// A Parser reads one JSON text (RFC 8259) whose arrays are tensors. Beyond the standard it accepts NaN, Infinity and
// -Infinity, which Python writes. Package encoding/json would need float64, or an allocation for each number.
type Parser struct {
	Text []byte
	Pos  int // of the next byte

	// Strict refuses strings that are not valid Unicode. Otherwise U+FFFD replaces the invalid parts.
	Strict bool
}

var errEnd = errors.New("broken JSON: it ends within a value")

func (p *Parser) wrong(want string) error {
	if p.Pos >= len(p.Text) {
		return errEnd
	}
	return fmt.Errorf("broken JSON: want %s at byte %d, got %q", want, p.Pos, clip(p.Text[p.Pos:]))
}

// Peek skips white space and returns the next byte, 0 at the end.
func (p *Parser) Peek() byte {
	for ; p.Pos < len(p.Text); p.Pos++ {
		switch c := p.Text[p.Pos]; c {
		case ' ', '\t', '\r', '\n':
		default:
			return c
		}
	}
	return 0
}

func (p *Parser) take(c byte) bool {
	if p.Peek() != c || p.Pos >= len(p.Text) {
		return false
	}
	p.Pos++
	return true
}

// Literal reads a word such as true if it comes next, and reports whether it did.
func (p *Parser) Literal(word string) bool {
	if len(p.Text)-p.Pos < len(word) || string(p.Text[p.Pos:p.Pos+len(word)]) != word {
		return false
	}
	p.Pos += len(word)
	return true
}

// Object reads the whole text, which must be an object. member reads the value of a key.
func (p *Parser) Object(member func(key string) error) error {
	if err := p.Members(member); err != nil {
		return err
	}
	if p.Peek(); p.Pos < len(p.Text) {
		return p.wrong("the end of the text")
	}
	return nil
}

// Members reads an object. member reads the value of a key.
func (p *Parser) Members(member func(key string) error) error {
	if !p.take('{') {
		return p.wrong("{, the begin of an object")
	}
	for first := true; !p.take('}'); first = false {
		if !first && !p.take(',') {
			return p.wrong("a comma or }")
		}
		p.Peek()
		key, err := p.String()
		if err != nil {
			return err
		}
		if !p.take(':') {
			return p.wrong("a colon")
		}
		if err := member(key); err != nil {
			return err
		}
	}
	return nil
}

// Elements reads the elements of an array, after its [, and returns their number.
func (p *Parser) Elements(element func() error) (n int, err error) {
	for ; !p.take(']'); n++ {
		if n > 0 && !p.take(',') {
			return n, p.wrong("a comma or ]")
		}
		if err := element(); err != nil {
			return n, err
		}
	}
	return n, nil
}

// String reads a string.
func (p *Parser) String() (string, error) {
	if p.Pos >= len(p.Text) || p.Text[p.Pos] != '"' {
		return "", p.wrong("a string")
	}
	plain := true
	for i := p.Pos + 1; i < len(p.Text); i++ {
		switch c := p.Text[i]; {
		case c == '\\':
			plain = false
			i++
		case c == '"':
			quoted := p.Text[p.Pos : i+1]
			p.Pos = i + 1
			return p.unquote(quoted, plain)
		case c < ' ':
			plain = false // Unmarshal refuses it
		}
	}
	return "", errEnd
}

// unquote decodes a string; plain says that it has no escapes.
func (p *Parser) unquote(quoted []byte, plain bool) (string, error) {
	valid := utf8.Valid(quoted)
	if plain && valid {
		return string(quoted[1 : len(quoted)-1]), nil
	}
	var s string
	if err := json.Unmarshal(quoted, &s); err != nil {
		return "", fmt.Errorf("broken JSON: the string %q: %w", clip(quoted), err)
	}
	if p.Strict && (!valid || strings.ContainsRune(s, utf8.RuneError) && halfPair(quoted)) {
		return "", fmt.Errorf("the string %q is no Unicode", clip(quoted))
	}
	return s, nil
}

// halfPair reports whether a well-formed string has an escaped surrogate without its other half.
func halfPair(quoted []byte) bool {
	unit := func(at int) rune {
		if at+6 > len(quoted) || quoted[at] != '\\' || quoted[at+1] != 'u' {
			return 0
		}
		v, err := strconv.ParseUint(string(quoted[at+2:at+6]), 16, 16)
		if err != nil {
			return 0
		}
		return rune(v)
	}
	for i := 0; i < len(quoted); i++ {
		if quoted[i] != '\\' {
			continue
		}
		if r := unit(i); utf16.IsSurrogate(r) {
			if utf16.DecodeRune(r, unit(i+6)) == utf8.RuneError {
				return true
			}
			i += 6
		}
		i++ // the escaped byte
	}
	return false
}

// Skip skips a value.
func (p *Parser) Skip(depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("nested deeper than %d levels", maxDepth)
	}
	switch c := p.Peek(); {
	case c == '{':
		return p.Members(func(string) error { return p.Skip(depth + 1) })
	case c == '[':
		p.Pos++
		_, err := p.Elements(func() error { return p.Skip(depth + 1) })
		return err
	case c == '"':
		_, err := p.String()
		return err
	case p.Literal("true"), p.Literal("false"), p.Literal("null"):
		return nil
	}
	if _, ok := p.notFinite(); ok {
		return nil
	}
	_, err := p.scan()
	return err
}

// Whole returns v as an integer if it is one, and small enough for float64 to hold its neighbours too.
func Whole(v float64) (int64, bool) {
	if v != math.Trunc(v) || math.Abs(v) > 1<<53 || v == 0 && math.Signbit(v) {
		return 0, false
	}
	return int64(v), true
}

// A Tensor collects nested lists of numbers, bools or strings.
type Tensor struct {
	Shape []int // -1 for a dimension whose first list has not ended
	depth int   // of the elements, -1 if unknown

	kind    byte // of elements: 'i', 'u', 'f', 'b', 's', or 0 before the first
	ints    []int64
	uints   []uint64
	floats  []float64
	bools   []bool
	strings []string
}

// Tensor reads a value as a tensor: lists of equal lengths, or a scalar.
func (p *Parser) Tensor() (*Tensor, error) {
	t := &Tensor{depth: -1}
	if err := t.read(p, 0); err != nil {
		return nil, err
	}
	if t.kind == 0 {
		return nil, errors.New("an empty list")
	}
	return t, nil
}

var errRagged = errors.New("lists of different lengths within one example")

func (t *Tensor) read(p *Parser, depth int) error {
	if p.Peek() == '[' {
		if depth == MaxDims {
			return fmt.Errorf("more than %d dimensions", MaxDims)
		}
		if t.depth >= 0 && depth >= t.depth {
			return errRagged
		}
		p.Pos++
		if len(t.Shape) == depth {
			t.Shape = append(t.Shape, -1)
		}
		n, err := p.Elements(func() error { return t.read(p, depth+1) })
		if err != nil {
			return err
		}
		if t.Shape[depth] < 0 {
			t.Shape[depth] = n
		}
		if t.Shape[depth] != n {
			return errRagged
		}
		return nil
	}
	if t.depth < 0 && depth == len(t.Shape) {
		t.depth = depth
	}
	if depth != t.depth {
		return errRagged
	}
	return t.element(p)
}

// element reads and stores one element.
func (t *Tensor) element(p *Parser) error {
	kind := byte(0)
	var v number
	var err error
	switch c := p.Peek(); {
	case c == '"':
		kind = 's'
	case c == 't', c == 'f':
		kind = 'b'
	case p.Literal("null"): // pandas writes it for NaN
		v = number{kind: 'f', f: math.NaN()}
	default:
		if v, err = p.readNumber(); err != nil {
			return err
		}
	}
	if kind == 0 {
		kind = v.kind
	}
	if t.kind == 0 {
		t.kind = kind
	}
	isNumber := func(k byte) bool { return k == 'i' || k == 'u' || k == 'f' }
	if t.kind != kind && !(isNumber(t.kind) && isNumber(kind)) {
		return errors.New("a list that mixes numbers, truth values and strings")
	}
	switch kind {
	case 's':
		s, err := p.String()
		if err != nil {
			return err
		}
		t.strings = append(t.strings, s)
	case 'b':
		yes := p.Literal("true")
		if !yes && !p.Literal("false") {
			return p.wrong("a value")
		}
		t.bools = append(t.bools, yes)
	default:
		t.number(v)
	}
	return nil
}

// number stores a number, and converts those before it if a wider type is needed.
func (t *Tensor) number(v number) {
	if t.kind == 'i' && v.kind == 'u' {
		t.toUint()
	}
	switch {
	case t.kind == v.kind:
	case t.kind == 'u' && v.kind == 'i' && v.i >= 0:
		v = number{kind: 'u', u: uint64(v.i)}
	default:
		t.toFloat()
	}
	switch t.kind {
	case 'i':
		t.ints = append(t.ints, v.i)
	case 'u':
		t.uints = append(t.uints, v.u)
	default:
		t.floats = append(t.floats, v.float())
	}
}

func (v number) float() float64 {
	switch v.kind {
	case 'i':
		return float64(v.i)
	case 'u':
		return float64(v.u)
	}
	return v.f
}

// toUint converts the integers to unsigned ones, if none is negative.
func (t *Tensor) toUint() {
	uints := make([]uint64, len(t.ints), len(t.ints)+1)
	for i, v := range t.ints {
		if v < 0 {
			return
		}
		uints[i] = uint64(v)
	}
	t.kind, t.ints, t.uints = 'u', nil, uints
}

func (t *Tensor) toFloat() {
	for _, v := range t.ints {
		t.floats = append(t.floats, float64(v))
	}
	for _, v := range t.uints {
		t.floats = append(t.floats, float64(v))
	}
	t.kind, t.ints, t.uints = 'f', nil, nil
}

// Data returns the elements: []int64, []uint64, []float64, []bool or []string.
func (t *Tensor) Data() any {
	switch t.kind {
	case 'i':
		return t.ints
	case 'u':
		return t.uints
	case 'f':
		return t.floats
	case 'b':
		return t.bools
	}
	return t.strings
}

// IsText reports whether the elements are strings.
func (t *Tensor) IsText() bool { return t.kind == 's' }

func clip(s []byte) string { return string(s[:min(len(s), 20)]) }
