package jsontensor

import (
	"errors"
	"fmt"

	"github.com/mfgs/mfgs/onnx/tensor"
)

// Typed reads the elements of a tensor of known type and shape: one list in row-major order, or lists nested like the
// shape. Integers must be within their range; bools are true and false; floats are rounded to the nearest, and may be
// NaN, Infinity and -Infinity, but not null. 16-bit floats have no form in JSON. Nothing is allocated for a shape with
// more elements than the text can hold.
func (p *Parser) Typed(t tensor.Type, shape []int64) (any, error) {
	n, err := tensor.Elements(shape)
	if err != nil {
		return nil, err
	}
	if room := int64(len(p.Text)-p.Pos) / 2; n > room { // a digit and a comma
		return nil, fmt.Errorf("%d elements are more than the text has room for", n)
	}
	data, err := t.Make(int(n))
	if err != nil {
		return nil, err
	}
	switch d := data.(type) {
	case []float32:
		return d, fill(p, d, shape, readFloat32)
	case []float64:
		return d, fill(p, d, shape, readFloat64)
	case []uint8:
		return d, fill(p, d, shape, readInteger[uint8])
	case []int8:
		return d, fill(p, d, shape, readInteger[int8])
	case []uint16:
		return d, fill(p, d, shape, readInteger[uint16])
	case []int16:
		return d, fill(p, d, shape, readInteger[int16])
	case []uint32:
		return d, fill(p, d, shape, readInteger[uint32])
	case []int32:
		return d, fill(p, d, shape, readInteger[int32])
	case []uint64:
		return d, fill(p, d, shape, readInteger[uint64])
	case []int64:
		return d, fill(p, d, shape, readInteger[int64])
	case []bool:
		return d, fill(p, d, shape, readBool)
	case []string:
		return d, fill(p, d, shape, (*Parser).String)
	}
	return nil, fmt.Errorf("%s has no form in JSON", t)
}

// fill reads elements into dst, as many as shape has.
func fill[T any](p *Parser, dst []T, shape []int64, element func(*Parser) (T, error)) error {
	if p.Peek() != '[' {
		return p.wrong("a list")
	}
	l := lists[T]{p: p, rest: dst, element: element}
	start := p.Pos
	p.Pos++
	nested := p.Peek() == '['
	p.Pos = start
	if nested && len(shape) > 1 {
		return l.nested(shape)
	}
	return l.row(int64(len(dst)))
}

// lists reads elements into rest, and advances it.
type lists[T any] struct {
	p       *Parser
	rest    []T
	element func(*Parser) (T, error)
}

// nested reads lists nested like shape.
func (l *lists[T]) nested(shape []int64) error {
	if len(shape) == 1 {
		return l.row(shape[0])
	}
	if !l.p.take('[') {
		return fmt.Errorf("lists nested in other ways than the shape says: %w", l.p.wrong("a list"))
	}
	left := shape[0]
	n, err := l.p.Elements(func() error {
		if left--; left < 0 {
			return fmt.Errorf("a list has more than the %d entries that the shape says", shape[0])
		}
		return l.nested(shape[1:])
	})
	if err == nil && int64(n) != shape[0] {
		return fmt.Errorf("a list has %d entries, where the shape says %d", n, shape[0])
	}
	return err
}

// row reads a list of n elements.
func (l *lists[T]) row(n int64) error {
	p := l.p
	if !p.take('[') {
		return fmt.Errorf("lists nested in other ways than the shape says: %w", p.wrong("a list"))
	}
	dst := l.rest[:n]
	for i := range dst {
		c := p.Peek()
		if c == ']' && p.Pos < len(p.Text) {
			return fmt.Errorf("a list has %d elements, where the shape says %d", i, n)
		}
		if i > 0 {
			if c != ',' {
				return p.wrong("a comma or ]")
			}
			p.Pos++
			c = p.Peek()
		}
		if c == '[' {
			return errors.New("lists nested in other ways than the shape says")
		}
		v, err := l.element(p)
		if err != nil {
			return fmt.Errorf("element %d: %w", i, err)
		}
		dst[i] = v
	}
	l.rest = l.rest[n:]
	if p.take(']') {
		return nil
	}
	if c := p.Peek(); c == ',' || n == 0 && p.Pos < len(p.Text) {
		return fmt.Errorf("a list has more than the %d elements that the shape says", n)
	}
	return p.wrong("a comma or ]")
}

func readFloat32(p *Parser) (float32, error) {
	if v, ok := p.notFinite(); ok {
		return float32(v), nil
	}
	d, err := p.scan()
	if err != nil {
		return 0, err
	}
	v, ok := d.float32()
	if !ok {
		return 0, fmt.Errorf("%s is too large for float32", clip(d.text))
	}
	return v, nil
}

func readFloat64(p *Parser) (float64, error) {
	if v, ok := p.notFinite(); ok {
		return v, nil
	}
	d, err := p.scan()
	if err != nil {
		return 0, err
	}
	v, ok := d.float64()
	if !ok {
		return 0, fmt.Errorf("%s is too large for float64", clip(d.text))
	}
	return v, nil
}

func readInteger[T uint8 | int8 | uint16 | int16 | uint32 | int32 | uint64 | int64](p *Parser) (T, error) {
	d, err := p.scan()
	if err != nil {
		return 0, err
	}
	u, ok := d.whole()
	v := T(u)
	if d.negative {
		v = -v
	}
	switch {
	case !ok:
	case d.negative && (v < 0 || u == 0), !d.negative && v >= 0:
		// Converting back shows whether all bits were kept.
		if back := uint64(v); d.negative && -back == u || !d.negative && back == u {
			return v, nil
		}
	}
	return 0, fmt.Errorf("%s is no whole number that fits %s", clip(d.text), tensor.TypeOf([]T{}))
}

func readBool(p *Parser) (bool, error) {
	switch {
	case p.Literal("true"):
		return true, nil
	case p.Literal("false"):
		return false, nil
	}
	return false, p.wrong("true or false")
}
