package onnx

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
)

// maxFile is the largest model that ONNX Runtime and other protobuf readers accept in one piece.
const maxFile = math.MaxInt32

var errTooLarge = errors.New("the model takes more than 2 GiB in one piece, which no ONNX reader accepts")

// Bytes returns the model in one piece, with all weights. It refuses models above 2 GiB.
func (m *Model) Bytes() ([]byte, error) {
	e, err := m.whole(maxFile)
	if err != nil {
		return nil, err
	}
	return e.bytes()
}

// Runnable returns the model for ONNX Runtime without reading its large weights: the graph refers to them in
// their files, and folder is the value for the session option
// session.model_external_initializers_file_folder_path. Folder is "" if the graph is complete, as for a
// model from memory.
func (m *Model) Runnable() (graph []byte, folder string, err error) {
	if !slices.ContainsFunc(m.store.files, func(f file) bool { return f.data == nil }) {
		if graph, err = m.Bytes(); err != nil && m.store.copies != nil {
			err = cmp.Or(m.store.copies.refused(m.Size()), err)
		}
		return graph, "", err
	}
	for i, f := range m.store.files {
		if f.data != nil {
			continue
		}
		f, err := m.store.open(i) // else a changed file would silently give other weights
		if err != nil {
			return nil, "", err
		}
		f.Close()
	}
	e, err := m.encode(m.store.refer, false)
	if err != nil {
		return nil, "", err
	}
	graph, err = e.bytes()
	return graph, m.store.readFrom(), err
}

// File is one of the files that a model is written as.
type File struct {
	Name string
	Size int64 // in bytes
	// Write writes the content, which it copies from the model's files without holding it in memory.
	Write func(io.Writer) error
}

// Files returns the files of a model called name: one file or, above protobuf's limit of 2 GiB, the model and
// NAME.data with the tensors of 1 KiB and more, as ONNX external data. The model comes first; put it in
// place last, so that no reader finds it without its data.
func (m *Model) Files(name string) ([]File, error) {
	return m.files(name, maxFile)
}

func (m *Model) files(name string, limit int64) ([]File, error) {
	e, err := m.whole(limit)
	if err == nil {
		return []File{{Name: name, Size: e.size, Write: e.writeTo}}, nil
	}
	if !errors.Is(err, errTooLarge) {
		return nil, err
	}
	d := &dataFile{store: m.store, name: name + ".data", at: map[place]int64{}}
	if e, err = m.encode(d.put, false); err != nil {
		return nil, err
	}
	if len(d.spans) == 0 {
		return nil, errTooLarge
	}
	return []File{{Name: name, Size: e.size, Write: e.writeTo}, {Name: d.name, Size: d.size, Write: d.writeTo}}, nil
}

// A dataFile is the layout of the external data that is written.
type dataFile struct {
	store *store
	name  string
	size  int64
	at    map[place]int64
	spans []*onnxpb.Span // in the order of their offsets
}

// place returns the offset of a span. Equal spans are written once.
type place struct {
	file           int32
	offset, length int64
}

// dataAlign divides offsets into external data: a page of memory, so that readers can map the file.
const dataAlign = 4096

// put stores a tensor's payload as external data in d, or in the model if it is small.
func (d *dataFile) put(t *onnxpb.Tensor, span *onnxpb.Span) error {
	if span.GetLength() < spanMin {
		return d.store.load(t, span)
	}
	p := place{span.GetFile(), span.GetOffset(), span.GetLength()}
	at, ok := d.at[p]
	if !ok {
		if p.length > math.MaxInt64-d.size-dataAlign {
			return errors.New("the model's weights take more bytes than a file can have")
		}
		at = (d.size + dataAlign - 1) / dataAlign * dataAlign
		d.at[p] = at
		d.spans = append(d.spans, span)
		d.size = at + p.length
	}
	external(t, d.name, at, p.length)
	return nil
}

func (d *dataFile) writeTo(w io.Writer) error {
	var done int64
	for _, span := range d.spans {
		at := d.at[place{span.GetFile(), span.GetOffset(), span.GetLength()}]
		if _, err := w.Write(make([]byte, at-done)); err != nil {
			return err
		}
		if err := d.store.copy(w, span); err != nil {
			return err
		}
		done = at + span.GetLength()
	}
	return nil
}

// An encoding is a model in wire format, except the large initializers of the main graph, which are copied
// when it is written.
type encoding struct {
	store *store
	parts []part
	size  int64
}

// part is some bytes, followed by those of a span unless it is nil.
type part struct {
	bytes []byte
	span  *onnxpb.Span
}

func (e *encoding) add(p part) {
	e.parts = append(e.parts, p)
	e.size += int64(len(p.bytes)) + p.span.GetLength()
}

func (e *encoding) writeTo(w io.Writer) error {
	for _, p := range e.parts {
		if _, err := w.Write(p.bytes); err != nil {
			return err
		}
		if p.span == nil {
			continue
		}
		if err := e.store.copy(w, p.span); err != nil {
			return err
		}
	}
	return nil
}

func (e *encoding) bytes() ([]byte, error) {
	b := bytes.NewBuffer(make([]byte, 0, e.size))
	if err := e.writeTo(b); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func (s *store) copy(w io.Writer, span *onnxpb.Span) error {
	r, err := s.reader(span)
	if err != nil {
		return err
	}
	defer r.Close()
	n, err := io.Copy(w, r)
	if err == nil && n != span.GetLength() {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// whole lays the model out in one piece of at most limit bytes.
func (m *Model) whole(limit int64) (*encoding, error) {
	left := limit
	err := eachTensor(m.pb, func(t *onnxpb.Tensor) error {
		if left -= min(left+1, t.GetSpan().GetLength()); left < 0 {
			return errTooLarge // before any of it is read
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	e, err := m.encode(m.store.load, true)
	if err == nil && e.size > limit {
		err = errTooLarge
	}
	return e, err
}

// encode lays the model out: everything but the graph, then the graph, its initializers last and one by one.
// place replaces the payloads of tensors in files, except that with copied set the initializers of the main
// graph, which can be large, are copied when the encoding is written.
func (m *Model) encode(place func(*onnxpb.Tensor, *onnxpb.Span) error, copied bool) (*encoding, error) {
	pb, g := onnxpb.Shallow(m.pb), onnxpb.Shallow(m.pb.GetGraph())
	initializers := g.Initializer
	pb.Graph, g.Initializer = nil, nil
	// Only initializers of the main graph can be copied in later.
	complete := func(t *onnxpb.Tensor, span *onnxpb.Span) error {
		err := place(t, span)
		if left := t.Span; err == nil && left != nil {
			t.Span = nil
			err = m.store.load(t, left)
		}
		return err
	}
	var err error
	if g.Node, err = placed(g.Node, complete); err != nil {
		return nil, err
	}
	if g.SparseInitializer, err = placed(g.SparseInitializer, complete); err != nil {
		return nil, err
	}
	if pb.Functions, err = placed(pb.Functions, complete); err != nil {
		return nil, err
	}

	inner := &encoding{store: m.store}
	b, err := encoded(g)
	if err != nil {
		return nil, err
	}
	inner.add(part{bytes: b})
	for _, t := range initializers {
		span := t.GetSpan()
		if span != nil {
			t = onnxpb.Shallow(t)
			t.Span = nil
			if !copied {
				if err := place(t, span); err != nil {
					return nil, err
				}
				span, t.Span = t.Span, nil // what place does not replace is copied
			}
		}
		b, err := encoded(t)
		if err != nil {
			return nil, err
		}
		size := int64(len(b))
		var raw []byte
		if span != nil {
			raw = protowire.AppendTag(nil, tensorRawData, protowire.BytesType)
			raw = protowire.AppendVarint(raw, uint64(span.GetLength()))
			size += int64(len(raw)) + span.GetLength()
		}
		head := protowire.AppendTag(nil, 5, protowire.BytesType)
		head = protowire.AppendVarint(head, uint64(size))
		inner.add(part{slices.Concat(head, b, raw), span})
		if inner.size > maxFile {
			return nil, errTooLarge
		}
	}
	e := &encoding{store: m.store}
	if b, err = encoded(pb); err != nil {
		return nil, err
	}
	b = protowire.AppendTag(b, 7, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(inner.size))
	e.add(part{bytes: b})
	for _, p := range inner.parts {
		e.add(p)
	}
	if e.size > maxFile {
		return nil, errTooLarge
	}
	return e, nil
}

// encoded is proto.Marshal that checks the bound first: messages share parts, so that a model can be much
// larger in a file than in memory.
func encoded(m proto.Message) ([]byte, error) {
	if proto.Size(m) > maxFile {
		return nil, errTooLarge
	}
	return proto.Marshal(m)
}

// placed returns the messages with do called for every tensor in a file. Messages without such tensors are
// shared, the others copied first, as a model is immutable.
func placed[M proto.Message](list []M, do func(*onnxpb.Tensor, *onnxpb.Span) error) ([]M, error) {
	stored := func(t *onnxpb.Tensor) bool { return t.Span != nil }
	out := slices.Clone(list)
	for i, m := range out {
		if !slices.ContainsFunc(tensors(nil, m), stored) {
			continue
		}
		out[i] = proto.Clone(m).(M)
		for _, t := range tensors(nil, out[i]) {
			if span := t.Span; span != nil {
				t.Span = nil
				if err := do(t, span); err != nil {
					return nil, err
				}
			}
		}
	}
	return out, nil
}

// load reads a tensor's payload into memory.
func (s *store) load(t *onnxpb.Tensor, span *onnxpb.Span) error {
	if span.GetLength() > maxFile {
		return errTooLarge
	}
	b := bytes.NewBuffer(make([]byte, 0, span.GetLength()))
	if err := s.copy(b, span); err != nil {
		return fmt.Errorf("tensor %q: %w", t.GetName(), err)
	}
	t.RawData = b.Bytes()
	return nil
}

// refer makes a tensor in a file ONNX external data that refers to that file.
func (s *store) refer(t *onnxpb.Tensor, span *onnxpb.Span) error {
	if s.files[span.GetFile()].data != nil {
		t.Span = span
		return nil
	}
	external(t, filepath.ToSlash(s.files[span.GetFile()].at), span.GetOffset(), span.GetLength())
	return nil
}

func external(t *onnxpb.Tensor, location string, offset, length int64) {
	entry := func(key, value string) *onnxpb.Entry { return &onnxpb.Entry{Key: &key, Value: &value} }
	t.DataLocation = proto.Int32(1)
	t.ExternalData = []*onnxpb.Entry{
		entry("location", location),
		entry("offset", strconv.FormatInt(offset, 10)),
		entry("length", strconv.FormatInt(length, 10)),
	}
}
