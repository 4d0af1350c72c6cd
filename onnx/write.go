package onnx

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/mfgs/mfgs/onnx/internal/onnxpb"
)

// maxFile is the largest model that ONNX Runtime and other protobuf readers take in one piece.
const maxFile = math.MaxInt32

var errTooLarge = errors.New("the model takes more than 2 GiB in one piece, which no ONNX reader takes")

// Bytes returns the model in one piece, with all weights. It refuses models above 2 GiB.
func (m *Model) Bytes() ([]byte, error) {
	e, err := m.encode(inline)
	if err != nil {
		return nil, err
	}
	b := bytes.NewBuffer(make([]byte, 0, e.size))
	if err := e.writeTo(b); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// Runnable returns the model for ONNX Runtime without reading its large weights: the graph refers to them where they
// lie, and folder is what the session option session.model_external_initializers_file_folder_path must say. Folder is ""
// when the graph is complete, as for a model from memory.
func (m *Model) Runnable() (graph []byte, folder string, err error) {
	if m.store.folder == "" {
		graph, err = m.Bytes()
		return graph, "", err
	}
	for i := range m.store.files {
		f, err := m.store.open(i) // a changed file would otherwise give other weights without a word
		if err != nil {
			return nil, "", err
		}
		f.Close()
	}
	e, err := m.encode(external)
	if err != nil {
		return nil, "", err
	}
	b := bytes.NewBuffer(make([]byte, 0, e.size))
	if err := e.writeTo(b); err != nil {
		return nil, "", err
	}
	return b.Bytes(), m.store.folder, nil
}

// WriteFile writes the model in one piece to path, which either keeps what it had or has all of the model. Weights are copied
// from file to file.
func (m *Model) WriteFile(path string) error {
	e, err := m.encode(inline)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	err = e.writeTo(f)
	if err == nil {
		err = f.Chmod(0o644) // CreateTemp gives 0600
	}
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// placement says where large tensors go.
type placement int

const (
	inline   placement = iota // into the model
	external                  // they stay where they are
)

// An encoding is a model in wire format, with the large initializers of the main graph still to be copied in.
type encoding struct {
	store *store
	parts []part
	size  int64
}

// part is some bytes, and then those of a span if it is not nil.
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

// encode lays the model out: everything but the graph, then the graph, its initializers last and one by one.
func (m *Model) encode(p placement) (*encoding, error) {
	place := m.store.load
	if p == external {
		place = m.store.refer
	}
	pb, g := shallow(m.pb), shallow(m.pb.GetGraph())
	initializers := g.Initializer
	pb.Graph, g.Initializer = nil, nil
	var err error
	if g.Node, err = placed(g.Node, place); err != nil {
		return nil, err
	}
	if g.SparseInitializer, err = placed(g.SparseInitializer, place); err != nil {
		return nil, err
	}
	if pb.Functions, err = placed(pb.Functions, place); err != nil {
		return nil, err
	}

	inner := &encoding{store: m.store}
	b, err := proto.Marshal(g)
	if err != nil {
		return nil, err
	}
	inner.add(part{bytes: b})
	for _, t := range initializers {
		span := t.GetSpan()
		if span != nil {
			t = shallow(t)
			t.Span = nil
		}
		if span != nil && p == external {
			m.store.refer(t, span)
			span = nil
		}
		b, err := proto.Marshal(t)
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
	if b, err = proto.Marshal(pb); err != nil {
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

// placed returns the messages with do called for every tensor in them that lies in a file. Those with none are shared,
// the others copied first, as a model is never changed.
func placed[M interface {
	*onnxpb.Node | *onnxpb.Function | *onnxpb.SparseTensor
	proto.Message
}](list []M, do func(*onnxpb.Tensor, *onnxpb.Span) error) ([]M, error) {
	each := func(m M, do func(*onnxpb.Tensor) error) error {
		switch m := any(m).(type) {
		case *onnxpb.Node:
			return eachTensorOfNodes([]*onnxpb.Node{m}, do)
		case *onnxpb.Function:
			return eachTensorOfFunction(m, do)
		case *onnxpb.SparseTensor:
			return eachTensorOfSparse(m, do)
		}
		return nil
	}
	out := slices.Clone(list)
	for i, m := range out {
		found := false
		each(m, func(t *onnxpb.Tensor) error { found = found || t.Span != nil; return nil })
		if !found {
			continue
		}
		out[i] = proto.Clone(m).(M)
		err := each(out[i], func(t *onnxpb.Tensor) error {
			span := t.Span
			if span == nil {
				return nil
			}
			t.Span = nil
			return do(t, span)
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// load gives a tensor its payload in memory.
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

// refer gives a tensor its payload as ONNX external data.
func (s *store) refer(t *onnxpb.Tensor, span *onnxpb.Span) error {
	entry := func(key, value string) *onnxpb.Entry { return &onnxpb.Entry{Key: &key, Value: &value} }
	t.DataLocation = proto.Int32(1)
	t.ExternalData = []*onnxpb.Entry{
		entry("location", filepath.ToSlash(s.files[span.GetFile()].name)),
		entry("offset", strconv.FormatInt(span.GetOffset(), 10)),
		entry("length", strconv.FormatInt(span.GetLength(), 10)),
	}
	return nil
}
