package rows

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"

	"github.com/mfgs/mfgs/internal/safetensors"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// A store is a file of examples that grows block by block. If its writer is interrupted, the whole blocks can
// still be read. It is a sequence of segments, each a sealed safetensors file (see [safetensors.EncodeSealed])
// after its length:
//
//	bytes       content
//	8           n, the length of the segment, unsigned little-endian
//	n           the segment
//
// The metadata of a segment have its kind under "mfgs.rows", and "version" is "1".
//
//	head        the first. Metadata: the caller's own; no tensors
//	block       the N > 0 examples of one block of 512 positions:
//	            positions I64 [N], features F32 [N,d], logits F32 [N,K], and optionally
//	            labels I64 [N] (-1 for none), targets U8 [N,K] and readings U8 [m], as JSON
//	end         the last, in a complete store. Metadata: "fingerprint" and "labelled", "true" or "false"
//
// A block and the end may have bad U8 [m]: a JSON list of messages about the records skipped since the previous
// block.
const (
	storeVersion = "1"
	headKind     = "head"
	blockKind    = "block"
	endKind      = "end"
)

// End is what is known at the end of a stream.
type End struct {
	Fingerprint string
	Labelled    bool
}

// A Writer writes a store.
type Writer struct {
	w   io.Writer
	buf bytes.Buffer
	cut cutter
	bad []Bad
}

// NewWriter starts a store with the given metadata.
func NewWriter(w io.Writer, metadata map[string]string) (*Writer, error) {
	s := &Writer{w: w}
	return s, s.segment(headKind, nil, metadata)
}

// Add takes the next examples and writes the blocks that they complete, each with one Write.
func (s *Writer) Add(b *Batch) error {
	for _, block := range s.cut.add(b) {
		if err := s.block(block); err != nil {
			return err
		}
	}
	return nil
}

// Bad takes a skipped record. It must be called before a later example is added.
func (s *Writer) Bad(b Bad) { s.bad = append(s.bad, b) }

// End writes the last block and the end, which makes the store complete.
func (s *Writer) End(e End) error {
	if last := s.cut.pending; last != nil {
		s.cut.pending = nil
		if err := s.block(last); err != nil {
			return err
		}
	}
	tensors, err := s.badTensors(len(s.bad))
	if err != nil {
		return err
	}
	return s.segment(endKind, tensors,
		map[string]string{"fingerprint": e.Fingerprint, "labelled": fmt.Sprint(e.Labelled)})
}

// badTensors removes the first n messages about skipped records, and returns them as tensors.
func (s *Writer) badTensors(n int) ([]safetensors.Tensor, error) {
	if n == 0 {
		return nil, nil
	}
	messages := make([]string, n)
	for i, l := range s.bad[:n] {
		messages[i] = l.Message
	}
	s.bad = s.bad[n:]
	bad, err := json.Marshal(messages)
	return []safetensors.Tensor{{Name: "bad", Shape: []int{len(bad)}, Data: bad, Type: tensor.Uint8}}, err
}

func (s *Writer) block(b *Batch) error {
	n := b.N
	tensors := []safetensors.Tensor{
		{Name: "positions", Shape: []int{n}, Data: wide(b.Positions)},
		{Name: "features", Shape: []int{n, len(b.Features) / n}, Data: b.Features},
		{Name: "logits", Shape: []int{n, len(b.Logits) / n}, Data: b.Logits},
	}
	if b.Labels != nil {
		tensors = append(tensors, safetensors.Tensor{Name: "labels", Shape: []int{n}, Data: wide(b.Labels)})
	}
	if b.Targets != nil {
		tensors = append(tensors, safetensors.Tensor{Name: "targets", Shape: []int{n, len(b.Targets) / n}, Data: b.Targets,
			Type: tensor.Uint8})
	}
	if b.Readings != nil {
		readings, err := json.Marshal(b.Readings)
		if err != nil {
			return err
		}
		tensors = append(tensors, safetensors.Tensor{
			Name: readingsName, Shape: []int{len(readings)}, Data: readings, Type: tensor.Uint8,
		})
	}
	before := 0
	for before < len(s.bad) && Block(s.bad[before].Position) <= Block(b.Positions[0]) {
		before++
	}
	bad, err := s.badTensors(before)
	if err != nil {
		return err
	}
	return s.segment(blockKind, append(tensors, bad...), nil)
}

func (s *Writer) segment(kind string, tensors []safetensors.Tensor, metadata map[string]string) error {
	all := map[string]string{"mfgs.rows": kind, "version": storeVersion}
	for k, v := range metadata {
		all[k] = v
	}
	s.buf.Reset()
	s.buf.Write(make([]byte, 8))
	if err := safetensors.EncodeSealed(&s.buf, tensors, all); err != nil {
		return err
	}
	binary.LittleEndian.PutUint64(s.buf.Bytes(), uint64(s.buf.Len()-8))
	_, err := s.w.Write(s.buf.Bytes())
	return err
}

func wide(x []int) []int64 {
	out := make([]int64, len(x))
	for i, v := range x {
		out[i] = int64(v)
	}
	return out
}

// ErrStore reports bytes that are not a store, or are damaged.
var ErrStore = errors.New("damaged, or not a store of examples")

// A Store reads the whole blocks of a store.
type Store struct {
	metadata map[string]string
	blocks   []*safetensors.File
	d, k, n  int
	next     int   // the position after the last block
	whole    int64 // bytes up to there
	bad      []Bad
	end      *End
}

// Metadata reads the metadata given to NewWriter from a store of size bytes.
func Metadata(r io.ReaderAt, size int64) (map[string]string, error) {
	read := &failing{r: r}
	f, _, err := segmentAt(read, 0, size)
	if read.err != nil {
		return nil, read.err
	}
	if err == nil && f.Metadata()["mfgs.rows"] != headKind {
		err = fmt.Errorf("%w: it has no head", ErrStore)
	}
	if err != nil {
		return nil, err
	}
	return f.Metadata(), nil
}

// A failing records the first read error of r, to distinguish it from a truncated store.
type failing struct {
	r   io.ReaderAt
	err error
}

func (f *failing) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.r.ReadAt(p, off)
	if err != nil && err != io.EOF {
		f.err = cmp.Or(f.err, err)
	}
	return n, err
}

// Open reads and checks a store of size bytes. An incomplete store has the blocks up to the first damaged one; see
// [Store.End]. A read error is not [ErrStore].
func Open(r io.ReaderAt, size int64) (*Store, error) {
	f := &failing{r: r}
	s, err := open(f, size)
	if f.err != nil {
		return nil, f.err
	}
	return s, err
}

func open(r io.ReaderAt, size int64) (*Store, error) {
	metadata, err := Metadata(r, size)
	if err != nil {
		return nil, err
	}
	s := &Store{metadata: metadata}
	for {
		f, end, err := segmentAt(r, s.whole, size)
		if err != nil {
			return s, nil // the writer was interrupted here
		}
		if s.whole > 0 {
			bad, err := readBad(f)
			if err != nil {
				return s, nil
			}
			if f.Metadata()["mfgs.rows"] == endKind && end == size {
				m := f.Metadata()
				s.leave(s.next, bad)
				s.end = &End{Fingerprint: m["fingerprint"], Labelled: m["labelled"] == "true"}
				return s, nil
			}
			positions, d, k, err := describe(f)
			if err != nil || positions[0] < s.next || len(s.blocks) > 0 && (d != s.d || k != s.k) {
				return s, nil
			}
			s.blocks, s.d, s.k, s.n = append(s.blocks, f), d, k, s.n+len(positions)
			s.next = (Block(positions[0]) + 1) * BlockSize
			s.leave(s.next-BlockSize, bad)
		}
		s.whole = end
	}
}

// leave adds records that were skipped in the block of a position, or before it.
func (s *Store) leave(position int, messages []string) {
	for _, m := range messages {
		s.bad = append(s.bad, Bad{position, m})
	}
}

// segmentAt reads and checks the segment at an offset, and returns the offset of the next.
func segmentAt(r io.ReaderAt, at, size int64) (*safetensors.File, int64, error) {
	var prefix [8]byte
	if size-at < int64(len(prefix)) {
		return nil, 0, fmt.Errorf("%w: it ends at byte %d", ErrStore, size)
	}
	if _, err := r.ReadAt(prefix[:], at); err != nil && err != io.EOF {
		return nil, 0, err
	}
	at += int64(len(prefix))
	n := binary.LittleEndian.Uint64(prefix[:])
	if n > uint64(size-at) {
		return nil, 0, fmt.Errorf("%w: a segment of %d bytes at byte %d of %d", ErrStore, n, at, size)
	}
	f, err := safetensors.NewSealedFile(io.NewSectionReader(r, at, int64(n)), int64(n))
	if err != nil {
		return nil, 0, fmt.Errorf("%w: %v", ErrStore, err)
	}
	if v := f.Metadata()["version"]; v != storeVersion {
		return nil, 0, fmt.Errorf("%w: format version %.20q, want %q", ErrStore, v, storeVersion)
	}
	return f, at + int64(n), nil
}

// readBad reads the messages of a segment about skipped records.
func readBad(f *safetensors.File) (messages []string, err error) {
	if !slices.ContainsFunc(f.Tensors(), func(t safetensors.Info) bool { return t.Name == "bad" }) {
		return nil, nil
	}
	bad, err := readBytes(f, "bad")
	if err == nil {
		err = json.Unmarshal(bad, &messages)
	}
	return messages, err
}

func readBytes(f *safetensors.File, name string) ([]byte, error) {
	t, err := f.Lookup(name)
	if err != nil {
		return nil, err
	}
	if t.Type != tensor.Uint8 {
		return nil, fmt.Errorf("%w: tensor %q is %s, want U8", ErrStore, name, t.Type.Safetensors())
	}
	section, err := f.Section(name)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(section)
}

// describe checks a block and returns its positions, d and K.
func describe(f *safetensors.File) (positions []int, d, k int, err error) {
	if kind := f.Metadata()["mfgs.rows"]; kind != blockKind {
		return nil, 0, 0, fmt.Errorf("%w: a segment %.20q, want %q", ErrStore, kind, blockKind)
	}
	if positions, err = readInts(f, "positions"); err != nil {
		return nil, 0, 0, err
	}
	n := len(positions)
	for i, p := range positions {
		if p < 0 || Block(p) >= MaxBlocks || Block(p) != Block(positions[0]) || i > 0 && p <= positions[i-1] {
			return nil, 0, 0, fmt.Errorf("%w: positions that are not ascending in one block", ErrStore)
		}
	}
	width := map[string]int{}
	for _, t := range f.Tensors() {
		if t.Name == "bad" || t.Name == readingsName {
			continue
		}
		want := map[string]tensor.Type{
			"positions": tensor.Int64, "labels": tensor.Int64,
			"features": tensor.Float32, "logits": tensor.Float32, "targets": tensor.Uint8,
		}[t.Name]
		axes := 2
		if want == tensor.Int64 {
			axes = 1
		}
		if n == 0 || t.Type != want || len(t.Shape) != axes || t.Shape[0] != n {
			return nil, 0, 0, fmt.Errorf("%w: tensor %q is %s %v in a block of %d examples", ErrStore, t.Name, t.Type.Safetensors(), t.Shape, n)
		}
		width[t.Name] = t.Shape[axes-1]
	}
	d, k = width["features"], width["logits"]
	if w, ok := width["targets"]; ok && w != k {
		return nil, 0, 0, fmt.Errorf("%w: a block of %d targets for %d logits", ErrStore, w, k)
	}
	if _, ok := width["features"]; !ok || k == 0 {
		return nil, 0, 0, fmt.Errorf("%w: a block of %d features and %d logits", ErrStore, d, k)
	}
	return positions, d, k, nil
}

func readInts(f *safetensors.File, name string) ([]int, error) {
	wide, err := safetensors.Read[int64](f, name)
	if err != nil {
		return nil, err
	}
	out := make([]int, len(wide))
	for i, v := range wide {
		out[i] = int(v)
	}
	return out, nil
}

// readBlock reads a block that describe has checked.
func readBlock(f *safetensors.File) (*Batch, error) {
	b := &Batch{}
	var err error
	for _, t := range f.Tensors() {
		switch t.Name {
		case "positions":
			b.Positions, err = readInts(f, t.Name)
		case "features":
			b.Features, err = safetensors.Read[float32](f, t.Name)
		case "logits":
			b.Logits, err = safetensors.Read[float32](f, t.Name)
		case "labels":
			b.Labels, err = readInts(f, t.Name)
		case "targets":
			b.Targets, err = readBytes(f, t.Name)
		case readingsName:
			b.Readings, err = readReadings(f)
		}
		if err != nil {
			return nil, err
		}
	}
	if b.N = len(b.Positions); b.Readings != nil && len(b.Readings) != b.N {
		return nil, fmt.Errorf("%w: %d readings in a block of %d examples", ErrStore, len(b.Readings), b.N)
	}
	return b, nil
}

// readingsName is the tensor of a block's readings, as JSON.
const readingsName = "readings"

func readReadings(f *safetensors.File) (list []Reading, err error) {
	data, err := readBytes(f, readingsName)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, fmt.Errorf("%w: readings: %w", ErrStore, err)
	}
	return list, nil
}

// Metadata returns the metadata given to NewWriter.
func (s *Store) Metadata() map[string]string { return s.metadata }

// End returns what was known at the end of the stream, or nil for an incomplete store.
func (s *Store) End() *End { return s.end }

// Bad returns the skipped records. Their positions are upper bounds, up to the block.
func (s *Store) Bad() []Bad { return s.bad }

// Next returns the position after the last block, where an incomplete store continues.
func (s *Store) Next() int { return s.next }

// Size returns the size of the head and the whole blocks in bytes. An incomplete store must be truncated to it before
// more is appended.
func (s *Store) Size() int64 { return s.whole }

// Append returns a Writer that continues an incomplete store, where w appends to its first [Store.Size] bytes. Add
// it the examples from [Store.Next] on. The bytes will be those of a store written without interruption.
func (s *Store) Append(w io.Writer) *Writer {
	if s.end != nil {
		panic("rows: more is appended to a store that is complete")
	}
	return &Writer{w: w}
}

// Features returns d, or 0 without blocks.
func (s *Store) Features() int { return s.d }

// Logits returns K, or 0 without blocks.
func (s *Store) Logits() int { return s.k }

// Len returns the number of examples.
func (s *Store) Len() int { return s.n }

// Labelled reports whether every example is known to have a label or targets.
func (s *Store) Labelled() bool { return s.end != nil && s.end.Labelled }

// Fingerprint returns the fingerprint of the data, "" for an incomplete store.
func (s *Store) Fingerprint() string {
	if s.end == nil {
		return ""
	}
	return s.end.Fingerprint
}

// Blocks reads the blocks; the receiver owns them. It ends with the first error, such as that of ctx.
func (s *Store) Blocks(ctx context.Context) iter.Seq2[*Batch, error] {
	return func(yield func(*Batch, error) bool) {
		for _, f := range s.blocks {
			err := context.Cause(ctx)
			var b *Batch
			if err == nil {
				b, err = readBlock(f)
			}
			if !yield(b, err) || err != nil {
				return
			}
		}
	}
}
