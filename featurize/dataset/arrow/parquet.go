package arrow

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"path/filepath"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/metadata"
	"github.com/mfgs/mfgs/featurize/dataset"
)

// pageBuffer is how much of a file is read at a time.
const pageBuffer = 256 << 10

var (
	parquetMagic   = []byte("PAR1")
	encryptedMagic = []byte("PARE")
)

// A parquetSource reads a Parquet file, row group by row group.
//
// The library reads pages and decodes values; rows are assembled here and not by its package pqarrow. That
// accepts no page reader of ours, so that pages could not be checked before they are decoded, and it builds
// whole batches: it takes 2.3 GB for 719 bytes in which 256 rows refer to one image of 4 MB.
type parquetSource struct {
	dataset.Base
	f      *dataset.File
	meta   *metadata.FileMetaData
	plan   *plan
	leaves []leaf // of the used columns
	starts []int  // first position of each row group, and the end of the last
	end    int64  // row groups must end before this offset
}

func openParquet(path string, o dataset.Options) (_ dataset.Source, err error) {
	s := &parquetSource{}
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

func (s *parquetSource) open(o dataset.Options) error {
	footer, err := s.footer()
	if err != nil {
		return err
	}
	if err := checkFooter(footer); err != nil {
		return err
	}
	if s.meta, err = metadata.NewFileMetaData(footer, nil); err != nil {
		return fmt.Errorf("%w: %w", errFooter, err)
	}
	if s.meta.IsSetEncryptionAlgorithm() {
		return errEncrypted
	}
	s.meta.SetSourceFileSize(s.f.Size())
	leaves := leavesOf(s.meta)
	fields := make([]field, len(leaves))
	for i := range leaves {
		fields[i] = *leaves[i].field
	}
	if s.plan, err = newPlan(fields, o); err != nil {
		return err
	}
	for _, c := range s.plan.used {
		s.leaves = append(s.leaves, leaves[c])
	}
	s.starts = []int{0}
	for i, g := range s.meta.RowGroups {
		n := g.GetNumRows()
		if n < 0 || n > int64(math.MaxInt-s.Count) {
			return fmt.Errorf("%w: row group %d has %d rows", errFooter, i, n)
		}
		s.Count += int(n)
		s.starts = append(s.starts, s.Count)
	}
	if s.Count == 0 {
		return dataset.ErrNoExamples
	}
	s.plan.tell(&s.Base)
	return nil
}

var errEncrypted = errors.New("is encrypted, which is not supported")

// footer reads the bytes that describe the file.
func (s *parquetSource) footer() ([]byte, error) {
	const tail = 8 // the footer's length and the magic
	size := s.f.Size()
	end := make([]byte, tail)
	if size < tail+int64(len(parquetMagic)) {
		return nil, fmt.Errorf("not a Parquet file: %d bytes", size)
	}
	if _, err := s.f.ReadAt(end, size-tail); err != nil {
		return nil, err
	}
	switch length := int64(binary.LittleEndian.Uint32(end)); {
	case bytes.Equal(end[4:], encryptedMagic):
		return nil, errEncrypted
	case !bytes.Equal(end[4:], parquetMagic):
		return nil, errors.New("truncated, or not a Parquet file")
	case length > maxFooter:
		return nil, fmt.Errorf("%w: %d bytes, want at most %d", errFooter, length, maxFooter)
	case length > size-tail-int64(len(parquetMagic)):
		return nil, fmt.Errorf("%w: %d bytes in a file of %d", errFooter, length, size)
	default:
		s.end = size - tail - length
		footer := make([]byte, length)
		_, err := s.f.ReadAt(footer, s.end)
		return footer, err
	}
}

// Examples reads the row groups that hold some of the rows.
func (s *parquetSource) Examples(from, to int) iter.Seq2[dataset.Example, error] {
	return func(yield func(dataset.Example, error) bool) {
		base := filepath.Base(s.Path)
		for g := range len(s.starts) - 1 {
			start, end := s.starts[g], s.starts[g+1]
			if end <= from || start >= to || start == end {
				continue
			}
			var columns []column
			err := guarded(func() (err error) {
				if columns, err = s.columns(g); err == nil {
					err = skip(columns, max(0, from-start))
				}
				return err
			})
			if err == nil {
				var more bool
				more, err = s.plan.rows(&s.Base, columns, base, max(from, start), min(to, end), yield)
				if err == nil && !more {
					return
				}
			}
			if err != nil {
				yield(dataset.Example{Label: -1}, fmt.Errorf("%s: row group %d: %w", s.Path, g, err))
				return
			}
		}
	}
}

// columns opens the columns of a row group.
func (s *parquetSource) columns(group int) ([]column, error) {
	g := s.meta.RowGroup(group)
	largest := int64(0)
	for _, l := range s.leaves {
		chunk, err := g.ColumnChunk(l.index)
		if err == nil {
			err = s.check(chunk)
		}
		if err != nil {
			return nil, fmt.Errorf("column %q: %w", l.name, err)
		}
		largest = max(largest, chunk.TotalCompressedSize())
	}
	props := parquet.NewReaderProperties(memory.DefaultAllocator)
	props.BufferedStreamEnabled, props.PageStreamingEnabled, props.BufferSize = true, true, pageBuffer
	props.MaxCompressedPageSize = min(maxPage, largest)
	props.MaxUncompressedPageSize = min(maxPage, max(freePage, maxRatio*largest))
	r, err := file.NewParquetReader(io.NewSectionReader(s.f, 0, s.end), file.WithMetadata(s.meta),
		file.WithReadProps(props))
	if err != nil {
		return nil, err
	}
	columns := make([]column, len(s.leaves))
	for i, l := range s.leaves {
		pages, err := r.RowGroup(group).GetColumnPageReader(l.index)
		if err != nil {
			return nil, fmt.Errorf("column %q: %w", l.name, err)
		}
		guard := &pageGuard{PageReader: pages, column: l.column}
		//lint:ignore SA1019 no other API allows checking pages before their values are decoded
		in := file.NewColumnReader(l.column, guard, memory.DefaultAllocator, r.BufferPool())
		columns[i] = newLevels(&l, guard, in)
	}
	return columns, nil
}

// check refuses a column chunk outside of the file.
func (s *parquetSource) check(c *metadata.ColumnChunkMetaData) error {
	start, size := c.DataPageOffset(), c.TotalCompressedSize()
	if c.HasDictionaryPage() && c.DictionaryPageOffset() > 0 {
		start = min(start, c.DictionaryPageOffset())
	}
	switch {
	case c.CryptoMetadata() != nil:
		return errEncrypted
	case c.FilePath() != "":
		return errors.New("is in another file, which is not supported")
	case start < int64(len(parquetMagic)), size <= 0, start > s.end || size > s.end-start, c.NumValues() < 0,
		c.DataPageOffset() >= start+size:
		return fmt.Errorf("%w: %d bytes at %d for %d values, in a file of %d", errFooter, size, start, c.NumValues(),
			s.f.Size())
	}
	return nil
}
