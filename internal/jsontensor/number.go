package jsontensor

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
)

// A decimal is a number as written: ±digits · 10^exp.
type decimal struct {
	text     []byte
	digits   uint64
	exp      int
	negative bool
	integer  bool // neither a point nor an exponent
	long     bool // it has more digits than fit
}

// scan reads a number.
func (p *Parser) scan() (d decimal, err error) {
	text, at := p.Text, p.Pos
	if at < len(text) && text[at] == '-' {
		d.negative = true
		at++
	}
	first, digits := at, uint64(0)
	for ; at < len(text) && text[at]-'0' <= 9; at++ {
		digits = 10*digits + uint64(text[at]-'0')
	}
	if at == first || text[first] == '0' && at > first+1 {
		return d, p.wrong("a number")
	}
	d.integer = true
	if at < len(text) && text[at] == '.' {
		d.integer = false
		at++
		point := at
		for ; at < len(text) && text[at]-'0' <= 9; at++ {
			digits = 10*digits + uint64(text[at]-'0')
		}
		if d.exp = point - at; d.exp == 0 {
			p.Pos = at
			return d, p.wrong("a digit")
		}
	}
	d.digits = digits
	d.long = at-first > 19 && long(text[first:at])
	if at < len(text) && text[at]|0x20 == 'e' {
		d.integer = false
		if at, err = p.exponent(at+1, &d); err != nil {
			return d, err
		}
	}
	d.text, p.Pos = text[p.Pos:at], at
	return d, nil
}

// long reports whether there are more digits, apart from leading zeros and a point, than any uint64 holds.
func long(digits []byte) bool {
	digits = bytes.TrimLeft(digits, "0.")
	n := len(digits)
	if bytes.IndexByte(digits, '.') >= 0 {
		n--
	}
	return n > 19
}

// exponent reads the exponent after an e, and returns where it ends.
func (p *Parser) exponent(at int, d *decimal) (end int, err error) {
	text := p.Text
	negative := false
	if at < len(text) && (text[at] == '+' || text[at] == '-') {
		negative = text[at] == '-'
		at++
	}
	first, e := at, 0
	for ; at < len(text) && text[at]-'0' <= 9; at++ {
		e = min(10*e+int(text[at]-'0'), 1e9)
	}
	if at == first {
		p.Pos = at
		return at, p.wrong("a digit")
	}
	if negative {
		e = -e
	}
	d.exp += e
	return at, nil
}

// powers of ten that a float64 holds exactly.
var powers = [...]float64{1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14,
	1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22}

// near returns a float64 within two units in the last place of the number; ok is false if there is no cheap one. If
// exact is true, it was rounded once and is the nearest.
func (d *decimal) near() (v float64, exact, ok bool) {
	if d.long || d.exp < -22 || d.exp > 22 {
		return 0, false, false
	}
	if v = float64(d.digits); d.exp < 0 {
		v /= powers[-d.exp]
	} else {
		v *= powers[d.exp]
	}
	if d.negative {
		v = -v
	}
	return v, d.digits <= 1<<53, true
}

// float64 returns the nearest float64, and false if the number is beyond the largest.
func (d *decimal) float64() (float64, bool) {
	if v, exact, ok := d.near(); ok && exact {
		return v, true
	}
	v, err := strconv.ParseFloat(string(d.text), 64)
	return v, err == nil
}

// float32 returns the nearest float32, and false if the number is beyond the largest. Rounding a float64 that is off by
// up to two units finds it, unless the middle between two float32 is as close.
func (d *decimal) float32() (float32, bool) {
	if v, _, ok := d.near(); ok {
		const half = 1 << 28 // of a unit of float32, in units of float64
		rest := int64(math.Float64bits(v) & (2*half - 1))
		if size := math.Abs(v); v == 0 || size > 0x1p-126 && size < 0x1p127 && (rest < half-4 || rest > half+4) {
			return float32(v), true
		}
	}
	v, err := strconv.ParseFloat(string(d.text), 32)
	return float32(v), err == nil
}

// whole returns the digits of an integer, however it is written: 20 for 2e1. It returns false for a number that is not
// an integer, or that no uint64 holds.
func (d *decimal) whole() (uint64, bool) {
	v, exp := d.digits, d.exp
	if d.long {
		if !d.integer {
			return 0, false
		}
		text := d.text
		if d.negative {
			text = text[1:]
		}
		v, err := strconv.ParseUint(string(text), 10, 64)
		return v, err == nil
	}
	if v == 0 {
		return 0, true
	}
	for ; exp < 0 && v%10 == 0; exp++ {
		v /= 10
	}
	for ; exp > 0 && v <= math.MaxUint64/10; exp-- {
		v *= 10
	}
	return v, exp == 0
}

// A number holds a number as exactly as Go's types can: integers as int64 or uint64, others as float64.
type number struct {
	kind byte // 'i', 'u' or 'f'
	i    int64
	u    uint64
	f    float64
}

// readNumber reads a number. An integer may be written in any way, such as 1.0; negative zero is not one.
func (p *Parser) readNumber() (number, error) {
	if v, ok := p.notFinite(); ok {
		return number{kind: 'f', f: v}, nil
	}
	d, err := p.scan()
	if err != nil {
		return number{}, err
	}
	if d.integer {
		switch v, ok := d.whole(); {
		case ok && d.negative && v == 0:
			return number{kind: 'f', f: math.Copysign(0, -1)}, nil
		case ok && d.negative && v <= 1<<63:
			return number{kind: 'i', i: -int64(v)}, nil
		case ok && !d.negative && v < 1<<63:
			return number{kind: 'i', i: int64(v)}, nil
		case ok && !d.negative:
			return number{kind: 'u', u: v}, nil
		}
	}
	v, ok := d.float64()
	if !ok {
		return number{}, fmt.Errorf("number %s is too large", clip(d.text))
	}
	if i, ok := Whole(v); ok && !d.integer {
		return number{kind: 'i', i: i}, nil
	}
	return number{kind: 'f', f: v}, nil
}

// notFinite reads one of Python's words for NaN and infinities.
func (p *Parser) notFinite() (float64, bool) {
	if p.Pos < len(p.Text) && p.Text[p.Pos] <= '9' && (p.Pos+1 >= len(p.Text) || p.Text[p.Pos+1] != 'I') {
		return 0, false
	}
	switch {
	case p.Literal("NaN"):
		return math.NaN(), true
	case p.Literal("Infinity"):
		return math.Inf(1), true
	case p.Literal("-Infinity"):
		return math.Inf(-1), true
	}
	return 0, false
}

// Scalar reads a value that is neither a list nor an object: nil, bool, string, or a number as int64 or uint64 if
// that holds it, else float64.
func (p *Parser) Scalar() (any, error) {
	switch c := p.Peek(); {
	case c == '"':
		return p.String()
	case p.Literal("null"):
		return nil, nil
	case p.Literal("true"):
		return true, nil
	case p.Literal("false"):
		return false, nil
	}
	v, err := p.readNumber()
	switch {
	case err != nil:
		return nil, err
	case v.kind == 'i':
		return v.i, nil
	case v.kind == 'u':
		return v.u, nil
	}
	return v.f, nil
}
