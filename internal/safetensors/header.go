package safetensors

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/mfgs/mfgs/onnx/tensor"
)

// MaxHeader is the length in bytes of the longest header that is read or written: room for about a hundred
// thousand tensors.
const MaxHeader = 16 << 20

// metadataKey is the one name in the header that is not a tensor's.
const metadataKey = "__metadata__"

// Why a file is refused.
var (
	ErrTruncated  = errors.New("the file is cut short")
	ErrHeaderSize = errors.New("the header is too long")
	ErrHeader     = errors.New("the header is malformed")
	ErrDuplicate  = errors.New("the name appears twice")
	ErrDType      = errors.New("the dtype is unknown")
	ErrShape      = errors.New("the shape is impossible")
	ErrSize       = errors.New("the offsets contradict shape and dtype")
	ErrHole       = errors.New("the data has a hole")
	ErrOverlap    = errors.New("two tensors overlap")
	ErrTrailing   = errors.New("bytes follow the last tensor")
	ErrSeal       = errors.New("the file is not as it was written")
)

// Info describes a tensor.
type Info struct {
	Name  string
	Type  tensor.Type
	Shape []int // row-major; empty for a single number

	begin, end int64 // data_offsets
}

// Len is the number of elements.
func (t Info) Len() int {
	n := 1
	for _, d := range t.Shape {
		n *= d
	}
	return n
}

// Bytes is the size of the data in bytes.
func (t Info) Bytes() int64 { return int64(t.Len()) * int64(size(t.Type)) }

// check refuses an unknown type and a shape whose size in bytes overflows. Zeros count as ones, so that no part
// of a shape overflows either.
func (t Info) check() error {
	size := size(t.Type)
	if size == 0 {
		return fmt.Errorf("tensor %q: %w: %s", t.Name, ErrDType, t.Type)
	}
	for _, d := range t.Shape {
		if d < 0 {
			return fmt.Errorf("tensor %q: %w: dimension %d", t.Name, ErrShape, d)
		}
		if d > 0 {
			if size > math.MaxInt/d {
				return fmt.Errorf("tensor %q: %w: its size overflows", t.Name, ErrShape)
			}
			size *= d
		}
	}
	return nil
}

// parseHeader checks a header, without the length before it, against the dataLen bytes of data after it. The
// tensors come in the order of their data.
func parseHeader(header []byte, dataLen int64) ([]Info, map[string]string, error) {
	if len(header) == 0 || header[0] != '{' {
		return nil, nil, fmt.Errorf("%w: want '{' at its start", ErrHeader)
	}
	if !utf8.Valid(header) {
		return nil, nil, fmt.Errorf("%w: not UTF-8", ErrHeader)
	}
	p := parser{json.NewDecoder(bytes.NewReader(header))}
	p.UseNumber()

	var (
		tensors  []Info
		metadata map[string]string
		seen     = map[string]bool{}
	)
	err := p.object(func(name string) error {
		if seen[name] {
			return fmt.Errorf("tensor %q: %w", name, ErrDuplicate)
		}
		seen[name] = true
		if name == metadataKey {
			var err error
			metadata, err = p.metadata()
			return err
		}
		t, err := p.info(name)
		if err == nil {
			tensors = append(tensors, t)
		}
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	if rest := bytes.Trim(header[p.InputOffset():], " "); len(rest) > 0 {
		return nil, nil, fmt.Errorf("%w: %.20q follows the object", ErrHeader, rest)
	}
	return tensors, metadata, cover(tensors, dataLen)
}

// cover sorts tensors by their place and refuses them unless they cover dataLen bytes exactly.
func cover(tensors []Info, dataLen int64) error {
	slices.SortFunc(tensors, func(a, b Info) int {
		return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.end, b.end), cmp.Compare(a.Name, b.Name))
	})
	var at int64
	for _, t := range tensors {
		switch {
		case t.begin > at:
			return fmt.Errorf("tensor %q: %w: it begins at byte %d, the one before ends at %d", t.Name, ErrHole, t.begin, at)
		case t.begin < at:
			return fmt.Errorf("tensor %q: %w: it begins at byte %d, the one before ends at %d", t.Name, ErrOverlap, t.begin, at)
		case t.end > dataLen:
			return fmt.Errorf("tensor %q: %w: it ends at byte %d of %d", t.Name, ErrTruncated, t.end, dataLen)
		}
		at = t.end
	}
	if at < dataLen {
		return fmt.Errorf("%w: the tensors end at byte %d of %d", ErrTrailing, at, dataLen)
	}
	return nil
}

// parser reads the few kinds of values that a header has. Decoding into Go types would accept duplicate names,
// and null for anything.
type parser struct{ *json.Decoder }

// token reads one token, which want describes.
func token[T any](p parser, want string) (T, error) {
	t, err := p.Token()
	if err != nil {
		var zero T
		return zero, fmt.Errorf("%w: %v", ErrHeader, err)
	}
	v, ok := t.(T)
	if !ok {
		return v, fmt.Errorf("%w: byte %d: want %s", ErrHeader, p.InputOffset(), want)
	}
	return v, nil
}

// open reads the delimiter that starts an object or a list.
func (p parser) open(d json.Delim) error {
	got, err := token[json.Delim](p, strconv.Quote(d.String()))
	if err == nil && got != d {
		err = fmt.Errorf("%w: byte %d: want %q", ErrHeader, p.InputOffset(), d)
	}
	return err
}

// object reads an object, and calls value after every key to read its value.
func (p parser) object(value func(key string) error) error {
	if err := p.open('{'); err != nil {
		return err
	}
	for p.More() {
		key, err := token[string](p, "a name")
		if err != nil {
			return err
		}
		if err := value(key); err != nil {
			return err
		}
	}
	_, err := token[json.Delim](p, `"}"`)
	return err
}

func (p parser) metadata() (map[string]string, error) {
	m := map[string]string{}
	return m, p.object(func(key string) error {
		if _, ok := m[key]; ok {
			return fmt.Errorf("metadata %q: %w", key, ErrDuplicate)
		}
		v, err := token[string](p, "a string")
		m[key] = v
		return err
	})
}

// numbers reads a list of integers from 0 to limit; other numbers are the error invalid.
func (p parser) numbers(limit int64, invalid error) ([]int64, error) {
	if err := p.open('['); err != nil {
		return nil, err
	}
	list := []int64{}
	for p.More() {
		n, err := token[json.Number](p, "a number")
		if err != nil {
			return nil, err
		}
		v, err := strconv.ParseUint(n.String(), 10, 63)
		if err != nil || int64(v) > limit {
			return nil, fmt.Errorf("%w: %.30s", invalid, n)
		}
		list = append(list, int64(v))
	}
	_, err := token[json.Delim](p, `"]"`)
	return list, err
}

func (p parser) info(name string) (Info, error) {
	t := Info{Name: name}
	var dtype string
	var shape, offsets []int64
	seen := map[string]bool{}
	err := p.object(func(key string) (err error) {
		if seen[key] {
			return fmt.Errorf("%q: %w", key, ErrDuplicate)
		}
		seen[key] = true
		switch key {
		case "dtype":
			dtype, err = token[string](p, "a string")
		case "shape":
			shape, err = p.numbers(math.MaxInt, ErrShape)
		case "data_offsets":
			offsets, err = p.numbers(math.MaxInt64, ErrSize)
		default:
			err = fmt.Errorf("%w: field %q is unknown", ErrHeader, key)
		}
		return err
	})
	if err != nil {
		return t, fmt.Errorf("tensor %q: %w", name, err)
	}
	for _, key := range []string{"dtype", "shape", "data_offsets"} {
		if !seen[key] {
			return t, fmt.Errorf("tensor %q: %w: field %q is missing", name, ErrHeader, key)
		}
	}
	if t.Type = tensor.FromSafetensors(dtype); t.Type == tensor.Undefined {
		return t, fmt.Errorf("tensor %q: %w: %.20q", name, ErrDType, dtype)
	}
	t.Shape = make([]int, len(shape))
	for i, d := range shape {
		t.Shape[i] = int(d)
	}
	if err := t.check(); err != nil {
		return t, err
	}
	if len(offsets) != 2 || offsets[1]-offsets[0] != t.Bytes() {
		return t, fmt.Errorf("tensor %q: %w: %v for %s %v, which takes %d bytes", name, ErrSize, offsets, t.Type.Safetensors(), t.Shape, t.Bytes())
	}
	t.begin, t.end = offsets[0], offsets[1]
	return t, nil
}

// formatHeader returns the bytes of a file up to the data, with tensors in the given order. It is built by hand
// because encoding/json sorts names.
func formatHeader(tensors []Info, metadata map[string]string) ([]byte, error) {
	var b bytes.Buffer
	b.Write(make([]byte, 8))
	separator := byte('{')
	member := func(name string, value any) {
		b.WriteByte(separator)
		separator = ','
		writeJSON(&b, name)
		b.WriteByte(':')
		writeJSON(&b, value)
	}

	if len(metadata) > 0 {
		for _, k := range slices.Sorted(maps.Keys(metadata)) {
			if !utf8.ValidString(k) || !utf8.ValidString(metadata[k]) {
				return nil, fmt.Errorf("metadata %q: not UTF-8", k)
			}
		}
		member(metadataKey, metadata)
	}
	seen := map[string]bool{metadataKey: true}
	var at int64
	for _, t := range tensors {
		if !utf8.ValidString(t.Name) {
			return nil, fmt.Errorf("tensor %q: its name is not UTF-8", t.Name)
		}
		if seen[t.Name] {
			return nil, fmt.Errorf("tensor %q: %w", t.Name, ErrDuplicate)
		}
		seen[t.Name] = true
		if err := t.check(); err != nil {
			return nil, err
		}
		if t.Bytes() > math.MaxInt64-at {
			return nil, fmt.Errorf("tensor %q: %w: the sizes overflow", t.Name, ErrShape)
		}
		member(t.Name, struct {
			DType   string   `json:"dtype"`
			Shape   []int    `json:"shape"`
			Offsets [2]int64 `json:"data_offsets"`
		}{t.Type.Safetensors(), append([]int{}, t.Shape...), [2]int64{at, at + t.Bytes()}})
		at += t.Bytes()
	}
	if separator == '{' {
		b.WriteByte('{')
	}
	b.WriteByte('}')
	for b.Len()%8 != 0 {
		b.WriteByte(' ')
	}
	header := b.Bytes()
	if len(header)-8 > MaxHeader {
		return nil, fmt.Errorf("%w: %d bytes, at most %d can be read", ErrHeaderSize, len(header)-8, MaxHeader)
	}
	binary.LittleEndian.PutUint64(header, uint64(len(header)-8))
	return header, nil
}

// writeJSON appends v, which has strings and numbers only, without newline and HTML escapes.
func writeJSON(b *bytes.Buffer, v any) {
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("safetensors: " + err.Error())
	}
	b.Truncate(b.Len() - 1)
}
