package onnx

import (
	"encoding/binary"
	"fmt"
	"io"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/mfgs/mfgs/onnx/tensor"
)

// Bounds on a file. They are far above any real model (the largest unrolled language models have some 10⁵
// nodes) and far below what would do harm: a message takes a few hundred bytes of memory, but perhaps only
// two bytes of the file.
const (
	maxMessages   = 1 << 22 // protobuf messages in one file: nodes, attributes, tensors, dimensions, …
	maxGraphNodes = 1 << 17 // nodes among them, which cost the most
	maxDepth      = 100     // nesting of messages; a subgraph inside a node takes three levels
	maxSkeleton   = 1 << 29 // bytes of a file without its large tensors
)

// spanMin is the size in bytes from which a tensor's payload stays in the file.
const spanMin = 1 << 10

// Field numbers that the scanner needs; the others are read by the generated code.
const (
	tensorDataType   = 2
	tensorFloatData  = 4
	tensorRawData    = 9
	tensorDoubleData = 10
	tensorSpan       = 536870911
)

// A kind is a message type that the scanner descends into: those that can contain a tensor, and those whose
// number determines the memory of decoding. Everything else is copied.
type kind struct {
	name     string
	children map[protowire.Number]*kind
}

var (
	tensorKind = &kind{name: "tensor"} // handled by scanner.tensor
	entryKind  = &kind{name: "metadata entry"}
	opsetKind  = &kind{name: "operator set"}
	typeKind   = &kind{"type", map[protowire.Number]*kind{
		1: {"tensor type", map[protowire.Number]*kind{
			2: {"shape", map[protowire.Number]*kind{
				1: {name: "dimension"}}}}}}}
	valueInfoKind = &kind{"value info", map[protowire.Number]*kind{2: typeKind}}
	sparseKind    = &kind{"sparse tensor", map[protowire.Number]*kind{1: tensorKind, 2: tensorKind}}
	attributeKind = &kind{name: "attribute"} // children set in init: it holds graphs
	nodeKind      = &kind{"node", map[protowire.Number]*kind{5: attributeKind}}
	graphKind     = &kind{"graph", map[protowire.Number]*kind{
		1: nodeKind, 5: tensorKind, 11: valueInfoKind, 12: valueInfoKind, 13: valueInfoKind, 15: sparseKind}}
	functionKind = &kind{"function", map[protowire.Number]*kind{7: nodeKind, 9: opsetKind, 11: attributeKind}}
	modelKind    = &kind{"model", map[protowire.Number]*kind{7: graphKind, 8: opsetKind, 14: entryKind,
		25: functionKind}}
)

func init() {
	attributeKind.children = map[protowire.Number]*kind{
		5: tensorKind, 6: graphKind, 10: tensorKind, 11: graphKind, 22: sparseKind, 23: sparseKind}
}

// scan reads a model's wire format and returns it without the large tensor payloads: each is replaced by a
// span, its position in r. Memory is bounded by the size of what remains, whatever the file claims.
func scan(r io.ReaderAt, size int64) ([]byte, error) {
	s := &scanner{r: r}
	if err := s.message(modelKind, 0, size, 0); err != nil {
		return nil, err
	}
	return s.out, nil
}

type scanner struct {
	r        io.ReaderAt
	win      [1 << 14]byte // the bytes of r from winOff on, winLen of them
	winOff   int64
	winLen   int
	out      []byte
	messages int
	nodes    int
}

// field is one field of a message in the file: its tag is at start, its value (without a length prefix) in
// [value,end).
type field struct {
	num               protowire.Number
	typ               protowire.Type
	start, value, end int64
}

// message appends the message in [start,end) to the skeleton.
func (s *scanner) message(k *kind, start, end int64, depth int) error {
	if s.messages++; s.messages > maxMessages {
		return fmt.Errorf("more than %d protobuf messages", maxMessages)
	}
	if k == nodeKind {
		if s.nodes++; s.nodes > maxGraphNodes {
			return errNodes
		}
	}
	if depth > maxDepth {
		return fmt.Errorf("messages nested more than %d deep", maxDepth)
	}
	if k == tensorKind {
		return s.tensor(start, end, depth)
	}
	return s.fields(k, start, end, func(f field) error {
		child := k.children[f.num]
		if child == nil || f.typ != protowire.BytesType {
			return s.copy(f.start, f.end)
		}
		return s.nested(f, child, depth)
	})
}

// nested appends a field that is a message. Its length is unknown at first, so its prefix is a varint padded
// to five bytes, which every protobuf decoder reads.
func (s *scanner) nested(f field, k *kind, depth int) error {
	s.out = protowire.AppendTag(s.out, f.num, protowire.BytesType)
	at := len(s.out)
	s.out = append(s.out, make([]byte, 5)...)
	if err := s.message(k, f.value, f.end, depth+1); err != nil {
		return err
	}
	if len(s.out) > maxSkeleton {
		return errSkeleton
	}
	n := len(s.out) - at - 5
	for i := range 5 {
		s.out[at+i] = byte(n>>(7*i))&0x7f | 0x80
	}
	s.out[at+4] &= 0x7f
	return nil
}

// tensor appends a tensor, its payload replaced by a span if it is large. Packed float_data and
// double_data have the bytes of raw_data, so they are treated alike.
func (s *scanner) tensor(start, end int64, depth int) error {
	var dataType uint64
	payloads := 0
	err := s.fields(tensorKind, start, end, func(f field) error {
		switch {
		case f.num == tensorDataType && f.typ == protowire.VarintType:
			v, _, err := s.varint(tensorKind, f.value, end)
			dataType = v
			return err
		case f.num == tensorFloatData || f.num == tensorDoubleData || f.num == tensorRawData:
			payloads++
		}
		return nil
	})
	if err != nil {
		return err
	}
	large := func(f field) bool {
		if f.typ != protowire.BytesType || f.end-f.value < spanMin || payloads > 1 {
			return false
		}
		switch f.num {
		case tensorRawData:
			return true
		case tensorFloatData:
			return dataType == uint64(tensor.Float32)
		case tensorDoubleData:
			return dataType == uint64(tensor.Float64)
		}
		return false
	}
	return s.fields(tensorKind, start, end, func(f field) error {
		switch {
		case f.num == tensorSpan:
			return nil
		case f.num == 13 && f.typ == protowire.BytesType:
			return s.nested(f, entryKind, depth)
		case large(f):
			var span []byte
			span = protowire.AppendTag(span, 2, protowire.VarintType)
			span = protowire.AppendVarint(span, uint64(f.value))
			span = protowire.AppendTag(span, 3, protowire.VarintType)
			span = protowire.AppendVarint(span, uint64(f.end-f.value))
			s.out = protowire.AppendTag(s.out, tensorSpan, protowire.BytesType)
			s.out = protowire.AppendBytes(s.out, span)
			return nil
		default:
			return s.copy(f.start, f.end)
		}
	})
}

// fields calls do for every field of the message of kind k in [pos,end).
func (s *scanner) fields(k *kind, pos, end int64, do func(field) error) error {
	for pos < end {
		f := field{start: pos}
		tag, p, err := s.varint(k, pos, end)
		if err != nil {
			return err
		}
		f.num, f.typ = protowire.DecodeTag(tag)
		if f.num < protowire.MinValidNumber {
			return fmt.Errorf("invalid protobuf tag in a %s at byte %d", k.name, pos)
		}
		f.value = p
		var size uint64
		switch f.typ {
		case protowire.VarintType:
			_, q, err := s.varint(k, p, end)
			if err != nil {
				return err
			}
			size = uint64(q - p)
		case protowire.Fixed32Type:
			size = 4
		case protowire.Fixed64Type:
			size = 8
		case protowire.BytesType:
			if size, f.value, err = s.varint(k, p, end); err != nil {
				return err
			}
		default:
			return fmt.Errorf("invalid protobuf wire type %d in a %s at byte %d", f.typ, k.name, pos)
		}
		if size > uint64(end-f.value) {
			return fmt.Errorf("cut short: field %d of a %s at byte %d needs %d bytes and %d are left", f.num, k.name,
				pos, size, end-f.value)
		}
		f.end = f.value + int64(size)
		if err := do(f); err != nil {
			return err
		}
		pos = f.end
	}
	return nil
}

// varint reads a varint at pos and returns it and the position after it, at most end.
func (s *scanner) varint(k *kind, pos, end int64) (uint64, int64, error) {
	b, err := s.peek(pos, int(min(binary.MaxVarintLen64, end-pos)))
	if err != nil {
		return 0, 0, err
	}
	v, n := protowire.ConsumeVarint(b)
	if n < 0 {
		if len(b) < binary.MaxVarintLen64 {
			return 0, 0, fmt.Errorf("cut short: a %s ends inside a number at byte %d", k.name, pos)
		}
		return 0, 0, fmt.Errorf("invalid protobuf number in a %s at byte %d", k.name, pos)
	}
	return v, pos + int64(n), nil
}

// peek returns the n bytes at pos, n at most the window's size. They stay valid until the next
// call.
func (s *scanner) peek(pos int64, n int) ([]byte, error) {
	if pos < s.winOff || pos+int64(n) > s.winOff+int64(s.winLen) {
		m, err := s.r.ReadAt(s.win[:], pos)
		if m < n {
			return nil, fmt.Errorf("reading at byte %d: %w", pos, unexpectedEOF(err))
		}
		s.winOff, s.winLen = pos, m
	}
	return s.win[pos-s.winOff:][:n], nil
}

var errNodes = fmt.Errorf("the model has more than %d nodes, more than supported", maxGraphNodes)

var errSkeleton = fmt.Errorf("more than %d MiB besides the weights", maxSkeleton>>20)

// copy appends the bytes [start,end) of the file.
func (s *scanner) copy(start, end int64) error {
	n := end - start
	if n > maxSkeleton-int64(len(s.out)) {
		return errSkeleton
	}
	if n <= int64(len(s.win)) {
		b, err := s.peek(start, int(n))
		s.out = append(s.out, b...)
		return err
	}
	at := len(s.out)
	s.out = append(s.out, make([]byte, n)...)
	if m, err := s.r.ReadAt(s.out[at:], start); int64(m) < n {
		return fmt.Errorf("reading at byte %d: %w", start, unexpectedEOF(err))
	}
	return nil
}

func unexpectedEOF(err error) error {
	if err == nil || err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
