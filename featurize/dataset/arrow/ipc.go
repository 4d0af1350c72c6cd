package arrow

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"iter"
	"math"
	"path/filepath"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/mfgs/mfgs/featurize/dataset"
)

// An ipcSource reads an Arrow file, or a stream in a file, batch by batch.
type ipcSource struct {
	dataset.Base
	f        *dataset.File
	plan     *plan
	schema   []byte  // the schema message, if it is only in the footer
	messages []place // except batches without rows
}

// A place is the position of a message in the file.
type place struct {
	at   int64
	kind byte
	rows int // of a batch
	row  int // the position of its first row
}

func openIPC(path string, o dataset.Options) (_ dataset.Source, err error) {
	s := &ipcSource{}
	if s.f, err = s.Open(path); err != nil {
		return nil, err
	}
	if err := guarded(func() error { return s.open(o) }); err != nil {
		s.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	s.Path = path
	return s, nil
}

func (s *ipcSource) open(o dataset.Options) error {
	if err := s.index(); err != nil {
		return err
	}
	if s.Count == 0 {
		return dataset.ErrNoExamples
	}
	schema, err := readSchema(s.reader(0, 1))
	if err != nil {
		return err
	}
	if s.plan, err = planOf(schema, o); err != nil {
		return err
	}
	s.plan.tell(&s.Base)
	return nil
}

// planOf decides how the columns of a schema are used.
func planOf(schema *arrow.Schema, o dataset.Options) (*plan, error) {
	fields := make([]field, schema.NumFields())
	for i, f := range schema.Fields() {
		fields[i] = fieldOf(f)
	}
	metadata := schema.Metadata()
	if text, ok := metadata.GetValue(huggingFace); ok {
		describe(fields, text)
	}
	return newPlan(fields, o)
}

// index finds the messages: in a stream one after another, in a file by its footer.
func (s *ipcSource) index() error {
	magic := make([]byte, len(fileMagic))
	if _, err := s.f.ReadAt(magic, 0); err != nil && err != io.EOF {
		return err
	}
	if bytes.Equal(magic, fileMagic) {
		return s.readFooter()
	}
	for at := int64(0); ; {
		h, end, err := s.message(at)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if (h.kind == schemaMessage) != (len(s.messages) == 0) {
			return errMessage
		}
		if err := s.add(at, h); err != nil {
			return err
		}
		at = end
	}
}

// message reads the metadata of the message at an offset, and returns where it ends.
func (s *ipcSource) message(at int64) (h head, end int64, err error) {
	r := &counter{io.NewSectionReader(s.f, at, s.f.Size()-at), 0}
	n, err := readHead(r)
	if err != nil {
		return h, 0, err
	}
	metadata, err := readFull(r, int64(n))
	if err != nil {
		return h, 0, err
	}
	if h, err = inspect(metadata); err != nil {
		return h, 0, err
	}
	if h.body > s.f.Size()-at-r.n {
		return h, 0, fmt.Errorf("%w: a message of %d bytes where there are %d", errCut, h.body, s.f.Size()-at-r.n)
	}
	return h, at + r.n + h.body, nil
}

// add adds a message to the index.
func (s *ipcSource) add(at int64, h head) error {
	if h.rows > int64(math.MaxInt-s.Count) {
		return fmt.Errorf("%w: a batch of %d rows", errMessage, h.rows)
	}
	if h.kind != batchMessage || h.rows > 0 {
		s.messages = append(s.messages, place{at, h.kind, int(h.rows), s.Count})
	}
	s.Count += int(h.rows)
	return nil
}

// readFooter reads the schema of a file, and the positions of its messages, from the footer: not all writers
// also write them as a stream.
func (s *ipcSource) readFooter() error {
	tail := make([]byte, 4+len(fileTail))
	size := s.f.Size() - int64(len(tail))
	if size < int64(len(fileMagic)) {
		return errCut
	}
	if _, err := s.f.ReadAt(tail, size); err != nil {
		return cut(err)
	}
	if !bytes.Equal(tail[4:], fileTail) {
		return errCut
	}
	n := int64(int32(binary.LittleEndian.Uint32(tail)))
	if n <= 0 || n > min(maxMetadata, size-int64(len(fileMagic))) {
		return fmt.Errorf("%w: %d bytes in a file of %d", errFooter, n, s.f.Size())
	}
	footer := make([]byte, n)
	if _, err := s.f.ReadAt(footer, size-n); err != nil {
		return err
	}
	schema, blocks, err := inspectFooter(footer)
	if err != nil {
		return err
	}
	s.schema, s.messages = schema, []place{{kind: schemaMessage}}
	for _, b := range blocks {
		if b.at < int64(len(fileMagic)) || b.at >= size-n {
			return fmt.Errorf("%w: a message at %d of %d bytes", errFooter, b.at, s.f.Size())
		}
		h, _, err := s.message(b.at)
		if err == nil && h.kind != b.kind {
			err = fmt.Errorf("%w: a message at %d is of another kind", errFooter, b.at)
		}
		if err == nil {
			err = s.add(b.at, h)
		}
		if err != nil {
			if err == io.EOF {
				err = errMessage
			}
			return err
		}
	}
	return nil
}

// A counter counts what is read.
type counter struct {
	io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += int64(n)
	return n, err
}

// reader reads the messages from…to-1, after the schema and dictionaries before them.
func (s *ipcSource) reader(from, to int) *messageReader {
	m, next := &messageReader{memo: &room{}, schema: s.schema}, 0
	if s.schema != nil {
		next = 1
	}
	m.seek = func() error {
		for next < from && s.messages[next].kind == batchMessage {
			next++
		}
		if next >= to {
			return io.EOF
		}
		at := s.messages[next].at
		m.r = io.NewSectionReader(s.f, at, s.f.Size()-at)
		next++
		return nil
	}
	return m
}

// Examples reads the batches that hold some of the rows.
func (s *ipcSource) Examples(from, to int) iter.Seq2[dataset.Example, error] {
	return func(yield func(dataset.Example, error) bool) {
		first, last := 0, 0 // messages
		for i, m := range s.messages {
			if m.kind != batchMessage {
				continue
			}
			if m.row+m.rows <= from {
				first = i + 1
			}
			if m.row < to {
				last = i + 1
			}
		}
		b := &batches{m: s.reader(first, last), plan: s.plan}
		defer b.close()
		base := filepath.Base(s.Path)
		for i := first; i < last; i++ {
			m := s.messages[i]
			if m.kind != batchMessage {
				continue
			}
			columns, n, err := b.next()
			if err == nil && n != m.rows {
				err = fmt.Errorf("changed while in use: a batch had %d rows and has %d", m.rows, n)
			}
			if err == nil {
				err = skip(columns, max(0, from-m.row))
			}
			more := false
			if err == nil {
				more, err = s.plan.rows(&s.Base, columns, base, max(from, m.row), min(to, m.row+m.rows), yield)
			}
			if err != nil {
				if err == io.EOF {
					err = errCut
				}
				yield(dataset.Example{Label: -1}, fmt.Errorf("%s: rows from %d on: %w", s.Path, m.row, err))
				return
			}
			if !more {
				return
			}
		}
	}
}

// An ipcStream reads standard input.
type ipcStream struct {
	dataset.Base
	in   *dataset.Stream
	plan *plan
}

// streamIPC reads the schema, the first message.
func streamIPC(in *dataset.Stream, o dataset.Options) (dataset.Source, error) {
	s := &ipcStream{in: in}
	err := guarded(func() error {
		m, err := s.messages()
		if err != nil {
			return err
		}
		schema, err := readSchema(m)
		if err != nil {
			return err
		}
		s.plan, err = planOf(schema, o)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", in.Name(), err)
	}
	s.plan.tell(&s.Base)
	return s, nil
}

// messages reads from the beginning, after the magic of a file.
func (s *ipcStream) messages() (*messageReader, error) {
	in, err := s.in.Reader()
	if err != nil {
		return nil, err
	}
	r := bufio.NewReaderSize(in, pageBuffer)
	if magic, err := r.Peek(len(fileMagic)); err == nil && bytes.Equal(magic, fileMagic) {
		_, _ = r.Discard(len(fileMagic))
	}
	return &messageReader{r: r, memo: &room{}}, nil
}

// Examples reads batch by batch, until the stream ends.
func (s *ipcStream) Examples(from, to int) iter.Seq2[dataset.Example, error] {
	return func(yield func(dataset.Example, error) bool) {
		m, err := s.messages()
		b := &batches{m: m, plan: s.plan}
		defer b.close()
		for at := from; err == nil && at < to; {
			columns, n, failed := b.next()
			if failed == io.EOF {
				return
			}
			more := true
			if err = failed; err == nil {
				more, err = s.plan.rows(&s.Base, columns, s.Path, at, min(to, at+n), yield)
			}
			if !more && err == nil {
				return
			}
			at += n
		}
		if err != nil {
			yield(dataset.Example{Label: -1}, fmt.Errorf("%s: %w", s.Path, err))
		}
	}
}

// batches reads one batch after another.
type batches struct {
	m    *messageReader
	r    *ipc.Reader
	plan *plan
}

// next returns the used columns of the next batch, and its number of rows; io.EOF after the last. The columns
// are valid until the next call.
func (b *batches) next() (columns []column, rows int, err error) {
	err = guarded(func() error {
		if b.r == nil {
			var err error
			b.r, err = ipc.NewReaderFromMessageReader(b.m, ipc.WithAllocator(b.m.memo),
				ipc.WithEnsureNativeEndian(false))
			if err != nil {
				b.r = nil
				return err
			}
		}
		if !b.r.Next() {
			if err := b.r.Err(); err != nil {
				return err
			}
			return io.EOF
		}
		batch := b.r.RecordBatch()
		rows = int(batch.NumRows())
		for _, c := range b.plan.used {
			a := batch.Column(c)
			if a.Len() != rows {
				return fmt.Errorf("column %q has %d rows of %d", b.plan.fields[c].name, a.Len(), rows)
			}
			columns = append(columns, &arrayColumn{array: a, field: &b.plan.fields[c]})
		}
		return nil
	})
	return columns, rows, err
}

func (b *batches) close() {
	if b.r != nil {
		b.r.Release()
	}
}
