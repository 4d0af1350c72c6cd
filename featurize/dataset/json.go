package dataset

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"
)

// maxDepth bounds the nesting of values that are passed over.
const maxDepth = 1000

// A jsonParser reads one JSON text (RFC 8259) whose arrays are tensors. Beyond
// the standard it takes NaN, Infinity and -Infinity, which Python writes.
// Encoding/json would go through float64 or an allocation for each number.
type jsonParser struct {
	text []byte
	pos  int
}

var errJSONEnd = errors.New("broken JSON: the line ends within a value")

func (p *jsonParser) wrong(want string) error {
	if p.pos >= len(p.text) {
		return errJSONEnd
	}
	return fmt.Errorf("broken JSON: want %s at byte %d, got %q", want, p.pos,
		clip(string(p.text[p.pos:min(len(p.text), p.pos+20)])))
}

// peek skips blanks and returns the byte that follows, 0 at the end.
func (p *jsonParser) peek() byte {
	for ; p.pos < len(p.text); p.pos++ {
		switch c := p.text[p.pos]; c {
		case ' ', '\t', '\r', '\n':
		default:
			return c
		}
	}
	return 0
}

func (p *jsonParser) take(c byte) bool {
	if p.peek() != c || p.pos >= len(p.text) {
		return false
	}
	p.pos++
	return true
}

// literal takes a word such as true.
func (p *jsonParser) literal(word string) bool {
	if len(p.text)-p.pos < len(word) || string(p.text[p.pos:p.pos+len(word)]) != word {
		return false
	}
	p.pos += len(word)
	return true
}

// object reads the whole text, which is an object. member reads one value.
func (p *jsonParser) object(member func(key string) error) error {
	if !p.take('{') {
		return p.wrong("{, the begin of an object")
	}
	if err := p.members(member); err != nil {
		return err
	}
	if p.peek(); p.pos < len(p.text) {
		return p.wrong("the end of the line")
	}
	return nil
}

// members reads what is behind the { of an object.
func (p *jsonParser) members(member func(key string) error) error {
	for first := true; !p.take('}'); first = false {
		if !first && !p.take(',') {
			return p.wrong("a comma or }")
		}
		p.peek()
		key, err := p.str()
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

// elements reads what is behind the [ of an array and returns how many there are.
func (p *jsonParser) elements(element func() error) (n int, err error) {
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

// str reads a string.
func (p *jsonParser) str() (string, error) {
	if p.pos >= len(p.text) || p.text[p.pos] != '"' {
		return "", p.wrong("a string")
	}
	plain := true
	for i := p.pos + 1; i < len(p.text); i++ {
		switch c := p.text[i]; {
		case c == '\\':
			plain = false
			i++
		case c == '"':
			quoted := p.text[p.pos : i+1]
			p.pos = i + 1
			if plain && utf8.Valid(quoted) {
				return string(quoted[1 : len(quoted)-1]), nil
			}
			var s string
			if err := json.Unmarshal(quoted, &s); err != nil {
				return "", fmt.Errorf("broken JSON: the string %q: %w", clip(string(quoted)), err)
			}
			return s, nil
		case c < ' ':
			plain = false // which Unmarshal refuses
		}
	}
	return "", errJSONEnd
}

// skip passes over a value.
func (p *jsonParser) skip(depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("nested deeper than %d levels", maxDepth)
	}
	switch c := p.peek(); {
	case c == '{':
		p.pos++
		return p.members(func(string) error { return p.skip(depth + 1) })
	case c == '[':
		p.pos++
		_, err := p.elements(func() error { return p.skip(depth + 1) })
		return err
	case c == '"':
		_, err := p.str()
		return err
	case p.literal("true"), p.literal("false"), p.literal("null"):
		return nil
	}
	_, err := p.number()
	return err
}

// A jsonNumber is a number as exact as Go's types can hold it: whole ones as
// int64 or uint64, others as float64.
type jsonNumber struct {
	kind byte // 'i', 'u' or 'f'
	i    int64
	u    uint64
	f    float64
}

// number reads a number. One that is whole is so however it is written, 1.0
// too; negative zero is not.
func (p *jsonParser) number() (jsonNumber, error) {
	if p.pos < len(p.text) && p.text[p.pos] > '9' || p.pos+1 < len(p.text) && p.text[p.pos+1] == 'I' {
		switch {
		case p.literal("NaN"):
			return jsonNumber{kind: 'f', f: math.NaN()}, nil
		case p.literal("Infinity"):
			return jsonNumber{kind: 'f', f: math.Inf(1)}, nil
		case p.literal("-Infinity"):
			return jsonNumber{kind: 'f', f: math.Inf(-1)}, nil
		}
	}
	start := p.pos
	digits := func() bool {
		first := p.pos
		for p.pos < len(p.text) && p.text[p.pos]-'0' <= 9 {
			p.pos++
		}
		return p.pos > first
	}
	negative := p.literal("-")
	whole := p.pos
	if !digits() || p.text[whole] == '0' && p.pos > whole+1 {
		p.pos = start
		return jsonNumber{}, p.wrong("a number")
	}
	integer := true
	if p.literal(".") {
		if integer = false; !digits() {
			return jsonNumber{}, p.wrong("a digit")
		}
	}
	if p.literal("e") || p.literal("E") {
		integer = false
		if !p.literal("+") {
			p.literal("-")
		}
		if !digits() {
			return jsonNumber{}, p.wrong("a digit")
		}
	}
	text := p.text[start:p.pos]
	if n := p.pos - whole; integer && n <= 18 {
		var v int64
		for _, c := range p.text[whole:p.pos] {
			v = 10*v + int64(c-'0')
		}
		if negative {
			if v = -v; v == 0 {
				return jsonNumber{kind: 'f', f: math.Copysign(0, -1)}, nil
			}
		}
		return jsonNumber{kind: 'i', i: v}, nil
	}
	if integer {
		if v, err := strconv.ParseInt(string(text), 10, 64); err == nil {
			return jsonNumber{kind: 'i', i: v}, nil
		}
		if v, err := strconv.ParseUint(string(text), 10, 64); err == nil {
			return jsonNumber{kind: 'u', u: v}, nil
		}
	}
	v, err := strconv.ParseFloat(string(text), 64)
	if err != nil {
		return jsonNumber{}, fmt.Errorf("number %s is too large", clip(string(text)))
	}
	if i, ok := wholeNumber(v); ok && !integer {
		return jsonNumber{kind: 'i', i: i}, nil
	}
	return jsonNumber{kind: 'f', f: v}, nil
}

// wholeNumber returns v as an integer if it is one that float64 tells from its neighbours.
func wholeNumber(v float64) (int64, bool) {
	if v != math.Trunc(v) || math.Abs(v) > 1<<53 || v == 0 && math.Signbit(v) {
		return 0, false
	}
	return int64(v), true
}

// A jsonTensor gathers nested lists of numbers, of truth values or of strings.
type jsonTensor struct {
	shape []int // -1 where the first list has not ended
	depth int   // at which the elements are, -1 unknown

	kind    byte // of elements: 'i', 'u', 'f', 'b', 's', or 0 before the first
	ints    []int64
	uints   []uint64
	floats  []float64
	bools   []bool
	strings []string
}

// tensor reads a value as a tensor: lists of equal lengths, or a scalar.
func (p *jsonParser) tensor() (*jsonTensor, error) {
	t := &jsonTensor{depth: -1}
	if err := t.read(p, 0); err != nil {
		return nil, err
	}
	if t.kind == 0 {
		return nil, errors.New("an empty list")
	}
	return t, nil
}

var errRagged = errors.New("lists of different lengths within one example")

func (t *jsonTensor) read(p *jsonParser, depth int) error {
	if p.peek() == '[' {
		if depth == maxDims {
			return fmt.Errorf("more than %d dimensions", maxDims)
		}
		if t.depth >= 0 && depth >= t.depth {
			return errRagged
		}
		p.pos++
		if len(t.shape) == depth {
			t.shape = append(t.shape, -1)
		}
		n, err := p.elements(func() error { return t.read(p, depth+1) })
		if err != nil {
			return err
		}
		if t.shape[depth] < 0 {
			t.shape[depth] = n
		}
		if t.shape[depth] != n {
			return errRagged
		}
		return nil
	}
	if t.depth < 0 && depth == len(t.shape) {
		t.depth = depth
	}
	if depth != t.depth {
		return errRagged
	}
	return t.element(p)
}

// element reads and keeps one element.
func (t *jsonTensor) element(p *jsonParser) error {
	kind := byte(0)
	var v jsonNumber
	var err error
	switch c := p.peek(); {
	case c == '"':
		kind = 's'
	case c == 't', c == 'f':
		kind = 'b'
	case p.literal("null"): // what pandas writes for NaN
		v = jsonNumber{kind: 'f', f: math.NaN()}
	default:
		if v, err = p.number(); err != nil {
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
		s, err := p.str()
		if err != nil {
			return err
		}
		t.strings = append(t.strings, s)
	case 'b':
		yes := p.literal("true")
		if !yes && !p.literal("false") {
			return p.wrong("a value")
		}
		t.bools = append(t.bools, yes)
	default:
		t.number(v)
	}
	return nil
}

// number keeps a number, changing the type of those before it where no other holds them all.
func (t *jsonTensor) number(v jsonNumber) {
	if t.kind == 'i' && v.kind == 'u' {
		t.toUint()
	}
	switch {
	case t.kind == v.kind:
	case t.kind == 'u' && v.kind == 'i' && v.i >= 0:
		v = jsonNumber{kind: 'u', u: uint64(v.i)}
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

func (v jsonNumber) float() float64 {
	switch v.kind {
	case 'i':
		return float64(v.i)
	case 'u':
		return float64(v.u)
	}
	return v.f
}

// toUint makes the integers unsigned, if none is negative.
func (t *jsonTensor) toUint() {
	uints := make([]uint64, len(t.ints), len(t.ints)+1)
	for i, v := range t.ints {
		if v < 0 {
			return
		}
		uints[i] = uint64(v)
	}
	t.kind, t.ints, t.uints = 'u', nil, uints
}

func (t *jsonTensor) toFloat() {
	for _, v := range t.ints {
		t.floats = append(t.floats, float64(v))
	}
	for _, v := range t.uints {
		t.floats = append(t.floats, float64(v))
	}
	t.kind, t.ints, t.uints = 'f', nil, nil
}

// data returns the elements: []int64, []uint64, []float64, []bool or []string.
func (t *jsonTensor) data() any {
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

func clip(s string) string { return s[:min(len(s), 20)] }
