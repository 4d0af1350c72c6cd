package dataset

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
)

const (
	// maxText bounds the bytes of one example as text: 3×512×512 numbers of 20 digits have 16 million.
	maxText = 64 << 20
)

// errLong is the error about a longer example.
var errLong = fmt.Errorf("more than %d bytes of text for one example", maxText)

// A lineReader reads lines and skips blank ones.
type lineReader struct {
	src  *bufio.Reader
	line []byte
	At   int64 // bytes read so far
}

// newLineReader reads lines from r.
func newLineReader(r io.Reader) *lineReader { return &lineReader{src: bufio.NewReaderSize(r, 256<<10)} }

// Next returns the next line without its end, valid until the next call. For a line that is too long it
// returns errLong, and the next call continues after it. At the end of the text it returns io.EOF.
func (l *lineReader) Next() ([]byte, error) {
	for {
		l.line = l.line[:0]
		long := false
		for {
			part, err := l.src.ReadSlice('\n')
			l.At += int64(len(part))
			if len(l.line)+len(part) > maxText {
				long = true
			} else {
				l.line = append(l.line, part...)
			}
			if err == nil || err == io.EOF && (len(l.line) > 0 || long) {
				break
			}
			if err != bufio.ErrBufferFull {
				return nil, err
			}
		}
		switch line := bytes.TrimSpace(l.line); {
		case long:
			return nil, errLong
		case len(line) > 0:
			return line, nil
		}
	}
}

var byteOrderMark = []byte("\xef\xbb\xbf")

// A csvReader reads records of comma-separated values, each of a bounded size.
type csvReader struct {
	*csv.Reader
	bound *boundedReader
	start int64 // offset of its input in the text
}

// newCSVReader reads from r, which is the text from byte start on.
func newCSVReader(r io.Reader, comma rune, start int64) *csvReader {
	b := &boundedReader{r: r, left: maxText}
	c := &csvReader{csv.NewReader(b), b, start}
	c.Comma = comma
	c.FieldsPerRecord = -1 // fill counts them, and can name the record
	return c
}

// Place returns the offset of the next record in the text.
func (c *csvReader) Place() int64 { return c.start + c.InputOffset() }

// Next returns a record. A *csv.ParseError concerns this record only.
func (c *csvReader) Next() ([]string, error) {
	c.bound.left = maxText
	return c.Read()
}

// A boundedReader fails when more is read than is left.
type boundedReader struct {
	r    io.Reader
	left int
}

func (b *boundedReader) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("%w: is a quote left open?", errLong)
	}
	n, err := b.r.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// isParseError reports whether an error concerns one record only.
func isParseError(err error) bool {
	var p *csv.ParseError
	return errors.As(err, &p)
}

// bareParseError drops the line number, which may not count from the beginning of the file.
func bareParseError(err error) error {
	var p *csv.ParseError
	if errors.As(err, &p) {
		return fmt.Errorf("broken CSV: %w", p.Err)
	}
	return err
}
