package dataset

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/mfgs/mfgs/featurize/dataset/internal/jsontensor"
	"github.com/mfgs/mfgs/featurize/tensor"
)

// NumPy's format: magic, two version bytes, a little-endian header length (two
// bytes in version 1, four in 2 and 3), a Python dict literal, the elements.
// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
const (
	npyMagic = "\x93NUMPY"

	maxNPYHeader = 64 << 10 // NumPy itself refuses more than 10,000 bytes by default
)

// An npyHeader is what stands before an array's elements.
type npyHeader struct {
	dtype dtype
	shape []int
	size  int // bytes of the whole header
}

var errNPYEnd = errors.New("the data ends within its .npy header")

// readNPYHeader reads a header. An array in Fortran order is refused unless it means the same.
// unsupported is set, with the rest valid, for an element type that is no number.
func readNPYHeader(r io.Reader) (h npyHeader, unsupported error, err error) {
	lead := make([]byte, 10)
	if _, err := io.ReadFull(r, lead); err != nil {
		return h, nil, eofAs(err, errNPYEnd)
	}
	if string(lead[:6]) != npyMagic {
		return h, nil, fmt.Errorf("not a .npy array (it begins % x)", lead[:6])
	}
	n := int(binary.LittleEndian.Uint16(lead[8:]))
	h.size = 10
	switch lead[6] {
	case 1:
	case 2, 3:
		var high [2]byte
		if _, err := io.ReadFull(r, high[:]); err != nil {
			return h, nil, eofAs(err, errNPYEnd)
		}
		n |= int(binary.LittleEndian.Uint16(high[:])) << 16
		h.size = 12
	default:
		return h, nil, fmt.Errorf(".npy version %d.%d is not known; want 1 to 3", lead[6], lead[7])
	}
	if n > maxNPYHeader {
		return h, nil, fmt.Errorf("a .npy header of %d bytes is too long, %d the most", n, maxNPYHeader)
	}
	h.size += n
	text := make([]byte, n)
	if _, err := io.ReadFull(r, text); err != nil {
		return h, nil, eofAs(err, errNPYEnd)
	}
	p := dictParser{rest: string(text)}
	descr, fortran, shape, err := p.header()
	if err != nil {
		return h, nil, fmt.Errorf("broken .npy header: %w", err)
	}
	h.shape = shape
	if long := slices.IndexFunc(shape, func(d int) bool { return d > 1 }); fortran && long >= 0 &&
		slices.ContainsFunc(shape[long+1:], func(d int) bool { return d > 1 }) {
		return h, nil, errors.New("the array is in Fortran order; save numpy.ascontiguousarray of it")
	}
	h.dtype, unsupported = parseDescr(descr)
	return h, unsupported, nil
}

func eofAs(err, as error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return as
	}
	return err
}

// parseDescr understands descr values such as "<f4". A structured dtype comes as "[".
func parseDescr(descr string) (dtype, error) {
	bad := fmt.Errorf("elements of type %q are not supported; want bool, int8–64, uint8–64 or float16–64", descr)
	if t, ok := textType(descr); ok {
		return t, bad // but where strings are wanted
	}
	if strings.HasPrefix(descr, "[") {
		return dtype{}, errors.New("structured arrays are not supported; save one array for each field")
	}
	if len(descr) != 3 {
		return dtype{}, bad
	}
	t := stored(tensor.FromNumPy(descr[1:]), binary.LittleEndian)
	order := descr[0]
	if order == '>' {
		t.order = binary.BigEndian
	}
	if t.Type == tensor.Undefined || !strings.ContainsRune("<|=>", rune(order)) || order == '|' && t.size != 1 {
		return dtype{}, bad
	}
	return t, nil
}

// textType understands "<U5", strings of 5 code points, and "|S5", of 5 bytes.
func textType(descr string) (dtype, bool) {
	if len(descr) < 3 {
		return dtype{}, false
	}
	n, err := strconv.ParseUint(descr[2:], 10, 24)
	if err != nil || n == 0 {
		return dtype{}, false
	}
	switch {
	case descr[1] == 'U' && descr[0] == '<':
		return dtype{tensor.String, int(4 * n), true, binary.LittleEndian}, true
	case descr[1] == 'U' && descr[0] == '>':
		return dtype{tensor.String, int(4 * n), true, binary.BigEndian}, true
	case descr[1] == 'S' && descr[0] == '|':
		return dtype{tensor.String, int(n), false, binary.LittleEndian}, true
	}
	return dtype{}, false
}

// A dictParser reads the subset of Python literals that NumPy writes:
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
			return "", false, nil, fmt.Errorf("%q stands twice", key)
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

// str reads a string in either kind of quotes, without escapes.
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

// descr reads a type name. Structured types, lists of tuples, are skipped up
// to their end and come as "[".
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

func openNPY(path string, _ Options) (_ Source, err error) {
	s := &arraySource{names: filepath.Base(path)}
	f, err := s.Open(path)
	if err != nil {
		return nil, err
	}
	a, err := readNPY(path, f, f.Size())
	if err != nil {
		s.Close()
		return nil, err
	}
	s.Count, s.inputs = a.count, []namedArray{{"", imageLayout(a.dtype, a.shape), a}}
	return s, nil
}

// readNPY opens the array in a plain .npy file.
func readNPY(name string, f io.ReaderAt, size int64) (*arrayFile, error) {
	h, unsupported, err := readNPYHeader(io.NewSectionReader(f, 0, size))
	if err = errors.Join(err, unsupported); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(h.shape) == 0 {
		return nil, fmt.Errorf("%s: holds a single number; want an array with examples along its first axis", name)
	}
	start := int64(h.size)
	a, err := newArrayFile(name, h.dtype, h.shape, size-start)
	if err != nil {
		return nil, err
	}
	if a.bytes() != size-start {
		return nil, fmt.Errorf("%s: corrupt: its header promises %d bytes of data, the file holds %d", name, a.bytes(),
			size-start)
	}
	a.open = plainData(f, start, size)
	return a, nil
}
