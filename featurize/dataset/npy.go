package dataset

import (
	"archive/zip"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/mfgs/mfgs/featurize/tensor"
	"github.com/mfgs/mfgs/featurize/text"
)

// NumPy's format: magic, two version bytes, a little-endian header length (two
// bytes in version 1, four in 2 and 3), a Python dict literal, the elements.
// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
const (
	npyMagic = "\x93NUMPY"

	maxNPYHeader = 64 << 10 // NumPy itself refuses more than 10,000 bytes by default
	maxNPYDims   = 32       // as many as NumPy 1 allows
)

// An npyHeader is what stands before an array's elements.
type npyHeader struct {
	dtype dtype
	shape []int
	size  int // bytes of the whole header
}

var errNPYEnd = errors.New("the data ends within its .npy header")

// readNPYHeader reads a header. An array in Fortran order is refused unless it
// means the same. unsupported is set, with the rest valid, for an element type
// that is no number.
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

// parseDescr understands descr values such as "<f4". A structured dtype comes
// as "[".
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

func clip(s string) string { return s[:min(len(s), 20)] }

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
		if shape = append(shape, d); len(shape) > maxNPYDims {
			return nil, fmt.Errorf("more than %d dimensions", maxNPYDims)
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

type npySource struct {
	meta  info
	array *arrayFile
	f     *os.File
	size  int64
}

func openNPY(path string) (_ source, err error) {
	f, size, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	a, err := readNPY(path, f, size)
	if err != nil {
		f.Close()
		return nil, err
	}
	return &npySource{info{path: path, format: "npy", count: a.count}, a, f, size}, nil
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
		return nil, fmt.Errorf("%s: corrupt: its header promises %d bytes of data, the file holds %d", name, a.bytes(), size-start)
	}
	a.open = plainData(f, start, size)
	return a, nil
}

func (s *npySource) info() *info  { return &s.meta }
func (s *npySource) Close() error { return s.f.Close() }

func (s *npySource) examples(from, to int, yield func(Example, error) bool) {
	in := namedArray{"", imageLayout(s.array.dtype, s.array.shape), s.array}
	arraySource{base: filepath.Base(s.meta.path), inputs: []namedArray{in}}.examples(from, to, yield)
}

func (s *npySource) hash(ctx context.Context, h hash.Hash, _, _ int) error {
	return hashReader(ctx, h, s.f, s.size)
}

// An npzFile is an open .npz: a zip of .npy members.
type npzFile struct {
	path    string
	f       *os.File
	size    int64
	arrays  map[string]*arrayFile
	names   []string // of arrays, sorted
	ignored []Ignored
	skipped map[string]string // why, by array
}

func (z *npzFile) Close() error { return z.f.Close() }

// openNPZFile opens the arrays of a zip. Those of strings are arrays where they
// are named among texts, or may be labels.
func openNPZFile(path string, texts ...string) (_ *npzFile, err error) {
	f, size, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	z, err := readNPZ(path, f, size, texts)
	if err != nil {
		f.Close()
		return nil, err
	}
	z.f = f
	return z, nil
}

// readNPZ opens the arrays of a zip. Members that are no arrays of numbers are
// ignored, so that metadata may travel along.
func readNPZ(path string, f io.ReaderAt, size int64, texts []string) (*npzFile, error) {
	zr, err := zip.NewReader(f, size)
	if err != nil {
		return nil, fmt.Errorf("%s: broken .npz (a zip of arrays): %w", path, err)
	}
	z := &npzFile{path: path, size: size, arrays: map[string]*arrayFile{}, skipped: map[string]string{}}
	var l listing
	for _, m := range zr.File {
		name, isArray := strings.CutSuffix(m.Name, ".npy")
		if !isArray {
			l.ignore("not an array", m.Name, 1)
			continue
		}
		if z.arrays[name] != nil {
			return nil, fmt.Errorf("%s: array %q stands twice", path, text.Name(name))
		}
		a, reason, err := readNPZMember(path+": "+text.Name(name), m, size, slices.Contains(texts, name) || slices.Contains(labelNames, name))
		if err != nil {
			return nil, err
		}
		if reason != "" {
			l.ignore(reason, name, 1)
			z.skipped[name] = reason
			continue
		}
		z.arrays[name] = a
		z.names = append(z.names, name)
	}
	slices.Sort(z.names)
	z.ignored = l.ignored
	return z, nil
}

// readNPZMember opens one array, or says why it is passed over.
func readNPZMember(name string, m *zip.File, size int64, text bool) (a *arrayFile, ignored string, err error) {
	// The directory's sizes are claims: hold them against the file's own.
	factor := uint64(1)
	if m.Method == zip.Deflate {
		factor = maxInflate
	}
	if m.CompressedSize64 > uint64(size) || m.UncompressedSize64 > m.CompressedSize64*factor || m.UncompressedSize64 > math.MaxInt64 {
		return nil, "", fmt.Errorf("%s: corrupt: %d bytes cannot come from %d in a file of %d", name, m.UncompressedSize64, m.CompressedSize64, size)
	}
	r, err := m.Open()
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", name, err)
	}
	defer r.Close()
	h, unsupported, err := readNPYHeader(r)
	switch {
	case err != nil:
		return nil, "", fmt.Errorf("%s: %w", name, err)
	case unsupported != nil && !(text && h.dtype.isText()):
		return nil, "not an array of numbers", nil
	case len(h.shape) == 0:
		return nil, "a single number, not one for each example", nil
	}
	start := int64(h.size)
	data := int64(m.UncompressedSize64) - start
	if a, err = newArrayFile(name, h.dtype, h.shape, data); err != nil {
		return nil, "", err
	}
	if text && a.item/a.dtype.size > maxStrings {
		return nil, "", fmt.Errorf("%s: one example has %d strings, %d the most", name, a.item/a.dtype.size, maxStrings)
	}
	if a.bytes() != data {
		return nil, "", fmt.Errorf("%s: corrupt: its header promises %d bytes of data, the archive %d", name, a.bytes(), data)
	}
	a.open = func(skip int64) (io.ReadCloser, error) {
		r, err := m.Open()
		if err != nil {
			return nil, err
		}
		if err := discard(r, start+skip); err != nil {
			r.Close()
			return nil, err
		}
		return r, nil
	}
	return a, "", nil
}

// labelNames are those of the array that holds the labels.
var labelNames = []string{"labels", "label", "y"}

// labelsArray takes the labels out of the archive: their name and array, or nil.
// Their shape must be what o asks for, for k targets an example under
// MultiLabel, or any number where k is 0. Numbers come before names, which may
// stand beside them.
func (z *npzFile) labelsArray(o Options, k int) (string, *arrayFile, error) {
	var found, names string
	for _, name := range labelNames {
		a := z.arrays[name]
		if a == nil || a.dtype.isText() && slices.Contains(o.Inputs, name) {
			continue
		}
		at := &found
		if a.dtype.isText() {
			at = &names
		}
		if *at != "" {
			return "", nil, fmt.Errorf("%s: both %q and %q could be the labels", z.path, *at, name)
		}
		*at = name
	}
	if found == "" {
		found = names
	} else if names != "" {
		delete(z.arrays, names)
		z.names = slices.DeleteFunc(z.names, func(n string) bool { return n == names })
	}
	if found == "" {
		for _, name := range labelNames {
			if reason := z.skipped[name]; reason != "" && !o.Unlabelled {
				return "", nil, fmt.Errorf("%s: %s is %s: labels are whole numbers from 0, or class names as NumPy's strings: labels.astype(str)", z.path, name, reason)
			}
		}
		return "", nil, nil
	}
	a := z.arrays[found]
	shape := append([]int{a.count}, a.shape...)
	switch {
	case o.Unlabelled:
	case o.MultiLabel && a.dtype.isText():
		return "", nil, fmt.Errorf("%s: strings; want %s, [N,K]", a.name, wantTargets(k))
	case o.MultiLabel && (len(a.shape) != 1 || k > 0 && a.shape[0] != k):
		return "", nil, fmt.Errorf("%s: shape %v; want %s, [N,K]", a.name, shape, wantTargets(k))
	case !o.MultiLabel && a.item != a.dtype.size: // neither [N] nor [N,1]
		return "", nil, fmt.Errorf("%s: shape %v; want one label an example, [N], for a head whose classes exclude each other", a.name, shape)
	case a.dtype.isText() && a.item > maxLabelText:
		return "", nil, fmt.Errorf("%s: class names of %d bytes, %d the most", a.name, a.item, maxLabelText)
	}
	return found, a, nil
}

type npzSource struct {
	meta info
	z    *npzFile
	arraySource
}

func openNPZ(path string, o Options) (_ source, err error) {
	z, err := openNPZFile(path, o.Inputs...)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			z.Close()
		}
	}()
	labelName, labels, err := z.labelsArray(o, o.Classes)
	if err != nil {
		return nil, err
	}
	names := slices.DeleteFunc(slices.Clone(z.names), func(n string) bool { return labels != nil && n == labelName })
	if len(names) == 0 {
		reasons := make([]string, 0, len(z.skipped))
		for _, name := range slices.Sorted(maps.Keys(z.skipped)) {
			reasons = append(reasons, fmt.Sprintf("; %q is %s", name, z.skipped[name]))
		}
		return nil, fmt.Errorf("%s: no input arrays, only %q%s", path, z.names, strings.Join(reasons[:min(3, len(reasons))], ""))
	}
	if len(names) > 1 && o.Inputs != nil {
		for _, want := range o.Inputs {
			if !slices.Contains(names, want) {
				return nil, fmt.Errorf("%s: no array named %q for the model's input; there are %s", path, want, some(names))
			}
		}
		names = o.Inputs
	}
	s := &npzSource{z: z, arraySource: arraySource{base: filepath.Base(path), text: newLabelParser(o), multi: o.MultiLabel}}
	for _, name := range names {
		a := z.arrays[name]
		if first := z.arrays[names[0]]; a.count != first.count {
			return nil, fmt.Errorf("%s: %q has %d examples, %q has %d", path, names[0], first.count, name, a.count)
		}
		s.inputs = append(s.inputs, namedArray{name, imageLayout(a.dtype, a.shape), a})
	}
	if len(names) == 1 {
		s.inputs[0].name = ""
	}
	count := s.inputs[0].count
	if labels != nil && !o.Unlabelled {
		if labels.count != count {
			return nil, fmt.Errorf("%s: %d labels for %d examples", path, labels.count, count)
		}
		s.labels = labels
	}
	s.meta = info{path: path, format: "npz", count: count, labelled: s.labels != nil, ignored: z.ignored}
	return s, nil
}

func (s *npzSource) info() *info  { return &s.meta }
func (s *npzSource) Close() error { return s.z.Close() }

func (s *npzSource) hash(ctx context.Context, h hash.Hash, _, _ int) error {
	return hashReader(ctx, h, s.z.f, s.z.size)
}
