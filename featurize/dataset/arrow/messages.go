package arrow

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	flatbuffers "github.com/google/flatbuffers/go"
)

// An Arrow stream is a sequence of messages: a schema, dictionaries and batches of rows. Each has metadata, in
// FlatBuffers, and a body. A file is such a stream between two magics, followed by a footer with the positions
// of the messages; it is read like a stream.

// continuation precedes messages.
const continuation = 0xffffffff

// fileMagic begins a file, and fileTail ends it.
var (
	fileMagic = []byte("ARROW1\x00\x00")
	fileTail  = fileMagic[:6]
)

// Kinds of messages.
const (
	schemaMessage = 1 + iota
	dictionaryMessage
	batchMessage
)

// A head is the metadata of a message.
type head struct {
	kind  byte
	body  int64
	rows  int64 // of a batch
	delta bool  // a dictionary that extends the previous one
}

var (
	errMessage = errors.New("a broken message")
	errCut     = errors.New("is cut off")
	errNoEnd   = fmt.Errorf("%w: the mark that ends an Arrow stream is missing", errCut)
)

// cut turns an early end of the file into errCut, and keeps other errors.
func cut(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return errCut
	}
	return err
}

// readHead reads the length of a message's metadata; io.EOF at the end marker. The marker is optional in the
// format, but all writers write it; without it a stream whose writer was killed between two messages would
// look complete.
func readHead(r io.Reader) (int, error) {
	var prefix [4]byte
	if _, err := io.ReadFull(r, prefix[:]); err != nil {
		if err == io.EOF {
			return 0, errNoEnd
		}
		return 0, cut(err)
	}
	n := binary.LittleEndian.Uint32(prefix[:])
	if n == continuation {
		if _, err := io.ReadFull(r, prefix[:]); err != nil {
			return 0, cut(err)
		}
		n = binary.LittleEndian.Uint32(prefix[:])
	}
	switch {
	case n == 0:
		return 0, io.EOF
	case n > maxMetadata:
		return 0, fmt.Errorf("%w: %d bytes of metadata, want at most %d", errMessage, n, maxMetadata)
	}
	return int(n), nil
}

// firstRoom is allocated at once for data to come.
const firstRoom = 8 << 20

// readFull reads n bytes, allocating as they arrive.
func readFull(r io.Reader, n int64) ([]byte, error) {
	var b bytes.Buffer
	b.Grow(int(min(n, firstRoom)) + bytes.MinRead) // room to see the end without growing
	got, err := io.CopyN(&b, r, n)
	if err == io.EOF {
		return nil, fmt.Errorf("%w: %d bytes of %d", errCut, got, n)
	}
	return b.Bytes(), err
}

// A table is a FlatBuffers table. Its methods panic if it is out of bounds.
type table struct{ flatbuffers.Table }

func root(metadata []byte) table {
	return table{flatbuffers.Table{Bytes: metadata, Pos: flatbuffers.GetUOffsetT(metadata)}}
}

func slot(i int) flatbuffers.VOffsetT { return flatbuffers.VOffsetT(4 + 2*i) }

// table returns the table in a slot.
func (t table) table(i int) (table, bool) {
	o := flatbuffers.UOffsetT(t.Offset(slot(i)))
	if o == 0 {
		return t, false
	}
	return table{flatbuffers.Table{Bytes: t.Bytes, Pos: t.Indirect(o + t.Pos)}}, true
}

// vector returns the offset of the elements in a slot, and their number.
func (t table) vector(i int) (start flatbuffers.UOffsetT, n int) {
	o := flatbuffers.UOffsetT(t.Offset(slot(i)))
	if o == 0 {
		return 0, 0
	}
	return t.Vector(o), t.VectorLen(o)
}

// text returns the length of the text in a slot.
func (t table) text(i int) int {
	o := flatbuffers.UOffsetT(t.Offset(slot(i)))
	if o == 0 {
		return 0
	}
	return len(t.ByteVector(o + t.Pos))
}

// inspect reads the metadata of a message, and checks sizes that the library would trust.
func inspect(metadata []byte) (h head, err error) {
	defer func() {
		if recover() != nil {
			err = fmt.Errorf("%w: its metadata refer to what is not there", errMessage)
		}
	}()
	message := root(metadata)
	h.kind = message.GetByteSlot(slot(1), 0)
	h.body = message.GetInt64Slot(slot(3), 0)
	if h.body < 0 || h.body > maxBody {
		return h, fmt.Errorf("%w: %d bytes, want at most %d", errMessage, h.body, int64(maxBody))
	}
	texts := budget{maxMetadata}
	if err := texts.pairs(message, 4); err != nil {
		return h, err
	}
	content, ok := message.table(2)
	if !ok {
		return h, fmt.Errorf("%w: it says nothing", errMessage)
	}
	switch h.kind {
	case schemaMessage:
		if content.GetInt16Slot(slot(0), 0) != 0 {
			return h, errors.New("big-endian numbers are not supported")
		}
		if err := texts.pairs(content, 2); err != nil {
			return h, err
		}
		columns := maxColumns
		return h, texts.fields(content, 1, 0, &columns)
	case dictionaryMessage:
		h.delta = content.GetBoolSlot(slot(2), false)
		data, ok := content.table(1)
		if !ok {
			return h, errMessage
		}
		return h, checkBatch(data)
	case batchMessage:
		if h.rows = content.GetInt64Slot(slot(0), 0); h.rows < 0 || h.rows > maxBody {
			return h, fmt.Errorf("%w: a batch of %d rows", errMessage, h.rows)
		}
		return h, checkBatch(content)
	}
	return h, fmt.Errorf("%w: it is neither a schema, a dictionary nor rows", errMessage)
}

// A block is the position of a message, in a footer.
type block struct {
	at   int64
	kind byte
}

// inspectFooter returns the schema in the footer of a file, as a message, and the positions of the
// dictionaries and then the batches.
func inspectFooter(footer []byte) (schema []byte, blocks []block, err error) {
	defer func() {
		if recover() != nil {
			err = fmt.Errorf("%w: it refers to what is not there", errFooter)
		}
	}()
	t := root(footer)
	content, ok := t.table(1)
	if !ok {
		return nil, nil, fmt.Errorf("%w: no schema", errFooter)
	}
	schema = schemaOf(footer, content.Pos)
	if _, err := inspect(schema); err != nil {
		return nil, nil, err
	}
	const size = 24 // of a block: its offset and two lengths
	for slot, kind := range map[int]byte{2: dictionaryMessage, 3: batchMessage} {
		start, n := t.vector(slot)
		for i := range n {
			blocks = append(blocks, block{t.GetInt64(start + flatbuffers.UOffsetT(size*i)), kind})
		}
	}
	slices.SortStableFunc(blocks, func(a, b block) int { return int(a.kind) - int(b.kind) })
	return schema, blocks, nil
}

// schemaOf makes a message of the schema at an offset in a footer: a table that refers to it, followed by the
// footer.
func schemaOf(footer []byte, at flatbuffers.UOffsetT) []byte {
	const (
		vtable = 4  // after the offset of the root
		table  = 16 // after the offsets of three fields
		header = table + 8
		end    = 32
		v5     = 4
	)
	b := make([]byte, end, end+len(footer))
	le := binary.LittleEndian
	le.PutUint32(b, table)
	for i, v := range []uint16{10, 12, 4, 6, header - table} { // sizes, and where version, type and header are
		le.PutUint16(b[vtable+2*i:], v)
	}
	le.PutUint32(b[table:], table-vtable)
	le.PutUint16(b[table+4:], v5)
	b[table+6] = schemaMessage
	le.PutUint32(b[header:], end+uint32(at)-header)
	return append(b, footer...)
}

// checkBatch refuses a batch whose columns need more buffers than it has.
func checkBatch(batch table) error {
	_, buffers := batch.vector(2)
	start, n := batch.vector(4)
	for i := range n {
		if v := batch.GetInt64(start + flatbuffers.UOffsetT(8*i)); v < 0 || v > int64(buffers) {
			return fmt.Errorf("%w: a column of %d buffers, and there are %d", errMessage, v, buffers)
		}
	}
	return nil
}

// A budget bounds the bytes of texts: tables may refer to the same one many times.
type budget struct{ left int }

func (b *budget) take(n int) error {
	if b.left -= n; b.left < 0 {
		return fmt.Errorf("%w: more than %d bytes of names and texts", errMessage, maxMetadata)
	}
	return nil
}

// pairs charges for the keys and values in a slot.
func (b *budget) pairs(t table, i int) error {
	start, n := t.vector(i)
	for j := range n {
		pair := table{flatbuffers.Table{Bytes: t.Bytes, Pos: t.Indirect(start + flatbuffers.UOffsetT(4*j))}}
		if err := b.take(32 + pair.text(0) + pair.text(1)); err != nil {
			return err
		}
	}
	return nil
}

// fields charges for the fields in a slot and all below them, at most so many.
func (b *budget) fields(t table, i, depth int, most *int) error {
	start, n := t.vector(i)
	if *most -= n; *most < 0 || depth > maxNesting {
		return fmt.Errorf("%w: more than %d columns, or nested deeper than %d", errMessage, maxColumns, maxNesting)
	}
	for j := range n {
		f := table{flatbuffers.Table{Bytes: t.Bytes, Pos: t.Indirect(start + flatbuffers.UOffsetT(4*j))}}
		if err := b.take(f.text(0)); err != nil {
			return err
		}
		if err := b.pairs(f, 6); err != nil {
			return err
		}
		if err := b.fields(f, 5, depth+1, most); err != nil {
			return err
		}
	}
	return nil
}

// A messageReader reads the messages of a stream for the library.
type messageReader struct {
	r      io.Reader // at a message
	memo   *room
	schema []byte // the first message, unless nil
	// seek, unless nil, sets r to the next message.
	seek func() error
	last *ipc.Message
}

// Message returns the next message, which is valid until the next call.
func (m *messageReader) Message() (*ipc.Message, error) {
	if m.schema != nil {
		m.last = ipc.NewMessage(memory.NewBufferBytes(m.schema), memory.NewBufferBytes(nil))
		m.schema = nil
		return m.last, nil
	}
	if m.seek != nil {
		if err := m.seek(); err != nil {
			return nil, err
		}
	}
	n, err := readHead(m.r)
	if err != nil {
		return nil, err
	}
	metadata, err := readFull(m.r, int64(n))
	if err != nil {
		return nil, err
	}
	h, err := inspect(metadata)
	if err != nil {
		return nil, err
	}
	if err := m.memo.begin(h); err != nil {
		return nil, err
	}
	body, err := m.body(h)
	if err != nil {
		return nil, err
	}
	m.Release()
	meta := memory.NewBufferBytes(metadata)
	m.last = ipc.NewMessage(meta, memory.NewBufferBytes(body))
	return m.last, nil
}

// body reads the body of a message.
func (m *messageReader) body(h head) ([]byte, error) {
	if m.seek == nil {
		return readFull(m.r, h.body)
	}
	b := make([]byte, h.body) // at most as long as the file
	if _, err := io.ReadFull(m.r, b); err != nil {
		return nil, cut(err)
	}
	return b, nil
}

// Retain does nothing: there is one owner.
func (m *messageReader) Retain() {}

// Release releases the last message.
func (m *messageReader) Release() {
	if m.last != nil {
		m.last.Release()
		m.last = nil
	}
}

// room is an allocator that bounds the memory of decompressed bodies.
type room struct {
	memory.GoAllocator
	left   int64
	deltas int64 // used by all extended dictionaries, over all messages
	delta  bool
}

var errRoom = fmt.Errorf("what is compressed has more than %d times its size, or %d bytes", maxRatio, int64(maxBody))

// begin resets the room for a message.
func (r *room) begin(h head) error {
	r.left, r.delta = min(maxBody, max(freePage, maxRatio*h.body)), h.delta
	if r.delta {
		r.deltas += h.body
	}
	if r.deltas > maxBody {
		return fmt.Errorf("%w: dictionaries of more than %d bytes", errMessage, int64(maxBody))
	}
	return nil
}

// Allocate panics if the room is exhausted, which guarded turns into an error.
func (r *room) Allocate(size int) []byte {
	if size < 0 || int64(size) > r.left {
		panic(errRoom)
	}
	r.left -= int64(size)
	if r.delta {
		r.deltas += int64(size)
	}
	return r.GoAllocator.Allocate(size)
}

// Reallocate is Allocate for a growing buffer.
func (r *room) Reallocate(size int, b []byte) []byte {
	if cap(b) >= size {
		return b[:size]
	}
	grown := r.Allocate(size)
	copy(grown, b)
	return grown
}

// decodeSchema reads a schema alone.
func decodeSchema(message []byte) (*arrow.Schema, error) {
	return readSchema(&messageReader{r: bytes.NewReader(message), memo: &room{}})
}

func readSchema(m *messageReader) (*arrow.Schema, error) {
	r, err := ipc.NewReaderFromMessageReader(m, ipc.WithEnsureNativeEndian(false))
	if err != nil {
		return nil, err
	}
	defer r.Release()
	return r.Schema(), nil
}
