package arrays

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/mfgs/mfgs/internal/jsontensor"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// A Type is how an array stores its elements: an element type and byte order or, for String, texts of one
// size, as NumPy's U or S.
type Type struct {
	tensor.Type
	Size  int  // bytes
	utf32 bool // for texts: U, else S
	order binary.ByteOrder
}

// Stored returns the stored form of a type of fixed size.
func Stored(t tensor.Type, order binary.ByteOrder) Type {
	return Type{t, int(t.Bits() / 8), false, order}
}

// decode returns the elements in raw, whose length is a multiple of t.Size, as a slice of the matching Go type, and
// whether it shares raw's memory. 16-bit floats become float32.
func (t Type) decode(raw []byte) (data any, shared bool) {
	n := len(raw) / t.Size
	switch {
	case t.IsText():
		s := make([]string, n)
		for i := range s {
			s[i] = t.text(raw[i*t.Size : (i+1)*t.Size])
		}
		return s, false
	case t.IsBits():
		f := make([]float32, n)
		for i := range f {
			f[i] = tensor.FromFloat16(t.order.Uint16(raw[2*i:]))
		}
		return f, false
	case t.Type != tensor.Bool && (t.Size == 1 || t.order == binary.LittleEndian):
		if data = t.View(raw); data != nil {
			return data, true
		}
	}
	data, err := t.Make(n)
	if err == nil {
		_, err = binary.Decode(raw, t.order, data)
	}
	if err != nil {
		panic(err) // data has exactly the size of raw
	}
	return data, false
}

func (t Type) IsText() bool { return t.Type == tensor.String }

// text returns one string, without the zeros that pad it.
func (t Type) text(raw []byte) string {
	if !t.utf32 {
		return string(bytes.TrimRight(raw, "\x00"))
	}
	var s []byte
	end := len(raw)
	for end > 0 && t.order.Uint32(raw[end-4:]) == 0 {
		end -= 4
	}
	for i := 0; i < end; i += 4 {
		s = utf8.AppendRune(s, rune(t.order.Uint32(raw[i:])))
	}
	return string(s)
}

// NumPy's format: magic, two version bytes, a little-endian header length (two
// bytes in version 1, four in 2 and 3), a Python dict literal, the elements.
// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
const (
	Magic = "\x93NUMPY"

	maxHeader = 64 << 10 // NumPy itself refuses more than 10,000 bytes by default
)

// A header is the header of a .npy array.
type header struct {
	Type  Type
	Shape []int
	Size  int // bytes of the whole header
	// Columns says that the columns of a matrix follow one another: Fortran order, in which pandas has its tables.
	Columns bool
}

var errEnd = errors.New("the data ends within its .npy header")

// readHeader reads a header. Fortran order is refused for more than two axes, unless it makes no difference.
// unsupported is set, with the rest valid, for an element type that is not numeric.
func readHeader(r io.Reader) (h header, unsupported error, err error) {
	lead := make([]byte, 10)
	if _, err := io.ReadFull(r, lead); err != nil {
		return h, nil, eofAs(err, errEnd)
	}
	if string(lead[:6]) != Magic {
		return h, nil, fmt.Errorf("not a .npy array (it begins % x)", lead[:6])
	}
	n := int(binary.LittleEndian.Uint16(lead[8:]))
	h.Size = 10
	switch lead[6] {
	case 1:
	case 2, 3:
		var high [2]byte
		if _, err := io.ReadFull(r, high[:]); err != nil {
			return h, nil, eofAs(err, errEnd)
		}
		n |= int(binary.LittleEndian.Uint16(high[:])) << 16
		h.Size = 12
	default:
		return h, nil, fmt.Errorf(".npy version %d.%d is not known; want 1 to 3", lead[6], lead[7])
	}
	if n > maxHeader {
		return h, nil, fmt.Errorf("a .npy header of %d bytes is too long, want at most %d", n, maxHeader)
	}
	h.Size += n
	text := make([]byte, n)
	if _, err := io.ReadFull(r, text); err != nil {
		return h, nil, eofAs(err, errEnd)
	}
	p := dictParser{rest: string(text)}
	descr, fortran, shape, err := p.header()
	if err != nil {
		return h, nil, fmt.Errorf("broken .npy header: %w", err)
	}
	h.Shape = shape
	if long := slices.IndexFunc(shape, func(d int) bool { return d > 1 }); fortran && long >= 0 &&
		slices.ContainsFunc(shape[long+1:], func(d int) bool { return d > 1 }) {
		if len(shape) != 2 {
			return h, nil, errFortran
		}
		h.Columns = true
	}
	h.Type, unsupported = parseDescr(descr)
	return h, unsupported, nil
}

var errFortran = errors.New("the array is in Fortran order; save numpy.ascontiguousarray of it")

// ReadNPY opens the array in a plain .npy file.
func ReadNPY(name string, f io.ReaderAt, size int64) (*Array, error) {
	h, unsupported, err := readHeader(io.NewSectionReader(f, 0, size))
	if err = errors.Join(err, unsupported); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(h.Shape) == 0 {
		return nil, fmt.Errorf("%s: holds a single number; want an array with examples along its first axis", name)
	}
	start := int64(h.Size)
	a, err := NewArray(name, h.Type, h.Shape, size-start)
	if err != nil {
		return nil, err
	}
	if a.Bytes() != size-start {
		return nil, fmt.Errorf("%s: corrupt: its header declares %d bytes of data, the file holds %d", name, a.Bytes(),
			size-start)
	}
	a.Open = Plain(f, start, size)
	if h.Columns {
		a.Open = func(skip int64) (io.ReadCloser, error) {
			m := &columnReader{f: f, start: start, rows: a.Count, columns: h.Shape[1], element: a.Type.Size,
				row: int(skip / int64(a.Item))}
			return io.NopCloser(m), nil
		}
	}
	return a, nil
}

// columnReader reads the rows of a matrix whose columns follow one another in a file.
type columnReader struct {
	f             io.ReaderAt
	start         int64
	rows, columns int
	element       int // bytes
	row           int // the next to be read
	block, rest   []byte
}

func (m *columnReader) Read(p []byte) (int, error) {
	if len(m.rest) == 0 {
		if err := m.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(p, m.rest)
	m.rest = m.rest[n:]
	return n, nil
}

// fill reads the next rows, about columnBlock bytes.
func (m *columnReader) fill() error {
	const columnBlock = 1 << 20
	item := m.columns * m.element
	n := min(max(1, columnBlock/item), m.rows-m.row)
	if n == 0 {
		return io.EOF
	}
	if m.block == nil {
		m.block = make([]byte, n*item)
	}
	column := make([]byte, n*m.element)
	for j := range m.columns {
		at := m.start + (int64(j)*int64(m.rows)+int64(m.row))*int64(m.element)
		if got, err := m.f.ReadAt(column, at); got < len(column) {
			return eofAs(err, io.ErrUnexpectedEOF)
		}
		for i := range n {
			copy(m.block[i*item+j*m.element:], column[i*m.element:(i+1)*m.element])
		}
	}
	m.row += n
	m.rest = m.block[:n*item]
	return nil
}

func eofAs(err, as error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return as
	}
	return err
}

// parseDescr parses descr values such as "<f4". A structured dtype is "[".
func parseDescr(descr string) (Type, error) {
	bad := fmt.Errorf("elements of type %q are not supported; want bool, int8–64, uint8–64 or float16–64", descr)
	if t, ok := textType(descr); ok {
		return t, bad // unless strings are wanted
	}
	if strings.HasPrefix(descr, "[") {
		return Type{}, errors.New("structured arrays are not supported; save one array for each field")
	}
	if len(descr) != 3 {
		return Type{}, bad
	}
	t := Stored(tensor.FromNumPy(descr[1:]), binary.LittleEndian)
	order := descr[0]
	if order == '>' {
		t.order = binary.BigEndian
	}
	if t.Type == tensor.Undefined || !strings.ContainsRune("<|=>", rune(order)) || order == '|' && t.Size != 1 {
		return Type{}, bad
	}
	return t, nil
}

// textType parses "<U5", strings of 5 code points, and "|S5", of 5 bytes.
func textType(descr string) (Type, bool) {
	if len(descr) < 3 {
		return Type{}, false
	}
	n, err := strconv.ParseUint(descr[2:], 10, 24)
	if err != nil || n == 0 {
		return Type{}, false
	}
	switch {
	case descr[1] == 'U' && descr[0] == '<':
		return Type{tensor.String, int(4 * n), true, binary.LittleEndian}, true
	case descr[1] == 'U' && descr[0] == '>':
		return Type{tensor.String, int(4 * n), true, binary.BigEndian}, true
	case descr[1] == 'S' && descr[0] == '|':
		return Type{tensor.String, int(n), false, binary.LittleEndian}, true
	}
	return Type{}, false
}

// A dictParser parses the subset of Python literals that NumPy writes:
// {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
type dictParser struct{ rest string }

func (p *dictParser) header() (descr string, fortran bool, shape []int, err error) {
	if !p.take("{") {
		return "", false, nil, p.want("{")
	}
	seen := map[string]bool{}
	for !p.take("}") {
		key, err := p.str()
		if err != nil {
			return "", false, nil, err
		}
		if seen[key] {
			return "", false, nil, fmt.Errorf("%q appears twice", key)
		}
		seen[key] = true
		if !p.take(":") {
			return "", false, nil, p.want(":")
		}
		switch key {
		case "descr":
			descr, err = p.descr()
		case "fortran_order":
			fortran, err = p.boolean()
		case "shape":
			shape, err = p.tuple()
		default:
			err = fmt.Errorf("unknown key %q", key)
		}
		if err != nil {
			return "", false, nil, err
		}
		if !p.take(",") {
			if !p.take("}") {
				return "", false, nil, p.want("}")
			}
			break
		}
	}
	if p.space(); p.rest != "" {
		return "", false, nil, fmt.Errorf("text after the dict: %q", clip(p.rest))
	}
	for _, key := range []string{"descr", "fortran_order", "shape"} {
		if !seen[key] {
			return "", false, nil, fmt.Errorf("%q is missing", key)
		}
	}
	return descr, fortran, shape, nil
}

func (p *dictParser) want(token string) error {
	return fmt.Errorf("want %s, got %q", token, clip(p.rest))
}

func (p *dictParser) space() { p.rest = strings.TrimLeft(p.rest, " \t\n") }

func (p *dictParser) take(token string) bool {
	p.space()
	rest, ok := strings.CutPrefix(p.rest, token)
	p.rest = rest
	return ok
}

// str parses a string in either kind of quotes, without escapes.
func (p *dictParser) str() (string, error) {
	for _, q := range []string{"'", `"`} {
		if p.take(q) {
			s, rest, ok := strings.Cut(p.rest, q)
			if !ok || strings.ContainsRune(s, '\\') {
				return "", errors.New("unterminated string")
			}
			p.rest = rest
			return s, nil
		}
	}
	return "", p.want("a string")
}

// descr parses a type name. Structured types, which are lists of tuples, are skipped and become "[".
func (p *dictParser) descr() (string, error) {
	if !p.take("[") {
		return p.str()
	}
	for depth := 1; depth > 0; {
		switch {
		case p.take("[") || p.take("("):
			depth++
		case p.take("]") || p.take(")"):
			depth--
		case strings.HasPrefix(p.rest, "'") || strings.HasPrefix(p.rest, `"`):
			if _, err := p.str(); err != nil {
				return "", err
			}
		case p.rest == "":
			return "", errors.New("unterminated list")
		default:
			p.rest = p.rest[1:]
		}
	}
	return "[", nil
}

func (p *dictParser) boolean() (bool, error) {
	switch {
	case p.take("True"):
		return true, nil
	case p.take("False"):
		return false, nil
	}
	return false, p.want("True or False")
}

func (p *dictParser) tuple() ([]int, error) {
	if !p.take("(") {
		return nil, p.want("(")
	}
	shape := []int{}
	for !p.take(")") {
		p.space()
		n := strings.IndexFunc(p.rest, func(r rune) bool { return r < '0' || r > '9' })
		if n <= 0 {
			return nil, p.want("a dimension")
		}
		d, err := strconv.Atoi(p.rest[:n])
		if err != nil {
			return nil, fmt.Errorf("dimension %s is too large", clip(p.rest[:n]))
		}
		if shape = append(shape, d); len(shape) > jsontensor.MaxDims {
			return nil, fmt.Errorf("more than %d dimensions", jsontensor.MaxDims)
		}
		p.rest = strings.TrimPrefix(p.rest[n:], "L") // Python 2 wrote 60000L
		if !p.take(",") {
			if !p.take(")") {
				return nil, p.want(")")
			}
			break
		}
	}
	return shape, nil
}

func clip(s string) string { return s[:min(len(s), 20)] }
