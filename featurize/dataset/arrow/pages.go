package arrow

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	pqschema "github.com/apache/arrow-go/v18/parquet/schema"
)

// A pageGuard refuses pages that have more values than their bytes can encode, for which the library would
// allocate.
type pageGuard struct {
	file.PageReader
	column *pqschema.Column
	single bool // decode values one by one: each may be as long as the page
	err    error
}

// Next goes to the next page.
func (g *pageGuard) Next() bool {
	if g.err != nil || !g.PageReader.Next() {
		return false
	}
	g.err = g.check(g.Page())
	return g.err == nil
}

// Err returns why there is no next page.
func (g *pageGuard) Err() error { return errors.Join(g.err, g.PageReader.Err()) }

func (g *pageGuard) check(p file.Page) error {
	var levels int64
	switch p := p.(type) {
	case *file.DictionaryPage:
		if int64(p.NumValues()) > int64(len(p.Data())) {
			return fmt.Errorf("a dictionary of %d values in %d bytes", p.NumValues(), len(p.Data()))
		}
		return nil
	case *file.DataPageV2:
		levels = int64(p.RepetitionLevelByteLen()) + int64(p.DefinitionLevelByteLen())
	case *file.DataPageV1:
		var err error
		if levels, err = g.levelBytes(p); err != nil {
			return err
		}
	default:
		return nil
	}
	g.single = false
	encoding, data := parquet.Encoding(p.Encoding()), p.Data()
	switch encoding {
	case parquet.Encodings.DeltaBinaryPacked, parquet.Encodings.DeltaLengthByteArray, parquet.Encodings.DeltaByteArray:
	default:
		return nil
	}
	if levels > int64(len(data)) {
		return errPage
	}
	data, most := data[levels:], maxDeltaTexts
	if encoding == parquet.Encodings.DeltaBinaryPacked {
		most = int(p.NumValues())
	}
	rest, err := checkDeltas(data, most)
	if err == nil && encoding == parquet.Encodings.DeltaByteArray {
		g.single = true
		_, err = checkDeltas(rest, most)
	}
	return err
}

var errPage = errors.New("a broken page")

// levelBytes returns the bytes of the levels before a page's values.
func (g *pageGuard) levelBytes(p *file.DataPageV1) (int64, error) {
	data, n := p.Data(), int64(0)
	for _, l := range []struct {
		largest  int16
		encoding parquet.Encoding
	}{
		{g.column.MaxRepetitionLevel(), p.RepetitionLevelEncoding()},
		{g.column.MaxDefinitionLevel(), p.DefinitionLevelEncoding()},
	} {
		switch {
		case l.largest == 0:
		case l.encoding == parquet.Encodings.BitPacked:
			n += (int64(p.NumValues())*int64(bits.Len16(uint16(l.largest))) + 7) / 8
		case n > int64(len(data))-4:
			return 0, errPage
		default:
			n += 4 + int64(binary.LittleEndian.Uint32(data[n:]))
		}
	}
	return n, nil
}

// checkDeltas checks values in the encoding DELTA_BINARY_PACKED, at most so many, and returns what follows
// them.
func checkDeltas(data []byte, most int) ([]byte, error) {
	next := func() uint64 {
		v, n := binary.Uvarint(data)
		if n <= 0 {
			data = nil
			return 0
		}
		data = data[n:]
		return v
	}
	block, minis, total := next(), next(), next()
	next() // the first value
	if block == 0 || block > maxDeltaBlock || minis == 0 || minis > block || block%minis != 0 || total > uint64(most) {
		return nil, fmt.Errorf("%w: %d deltas in blocks of %d, of %d parts", errPage, total, block, minis)
	}
	for left := int64(total) - 1; left > 0; {
		next() // the least delta
		if uint64(len(data)) < minis {
			return nil, errPage
		}
		widths := data[:minis]
		data = data[minis:]
		for _, width := range widths {
			if left <= 0 {
				break
			}
			size := uint64(width) * (block / minis) / 8
			if width > 64 || size > uint64(len(data)) {
				return nil, errPage
			}
			data = data[size:]
			left -= int64(block / minis)
		}
	}
	return data, nil
}
