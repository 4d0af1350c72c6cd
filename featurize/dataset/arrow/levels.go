package arrow

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/mfgs/mfgs/featurize/dataset"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// levelBatch is how many values are decoded at once. Byte values stay in their page.
const levelBatch = 4096

// A pageOf reads the values of a column, P by type, with their definition and repetition levels.
type pageOf[P any] interface {
	file.ColumnChunkReader
	ReadBatchInPage(n int64, values []P, def, rep []int16) (levels int64, read int, err error)
}

// levels assembles rows from a column's values, of type P, and levels. Elements have type T.
type levels[P, T any] struct {
	*leaf
	guard   *pageGuard
	in      pageOf[P]
	element func(P) T
	most    int // elements of a row

	values   []P
	def, rep []int16
	n, at    int // levels decoded and used
	value    int // values used
	last     int // elements of the previous row
}

// newLevels returns the column of a leaf, whose type matches that of in.
func newLevels(l *leaf, guard *pageGuard, in file.ColumnChunkReader) column {
	switch r := in.(type) {
	case *file.BooleanColumnChunkReader:
		return levelsOf(l, guard, r, same[bool])
	case *file.Int32ColumnChunkReader:
		switch l.elem {
		case tensor.Int8:
			return levelsOf(l, guard, r, func(v int32) int8 { return int8(v) })
		case tensor.Int16:
			return levelsOf(l, guard, r, func(v int32) int16 { return int16(v) })
		case tensor.Uint8:
			return levelsOf(l, guard, r, func(v int32) uint8 { return uint8(v) })
		case tensor.Uint16:
			return levelsOf(l, guard, r, func(v int32) uint16 { return uint16(v) })
		case tensor.Uint32:
			return levelsOf(l, guard, r, func(v int32) uint32 { return uint32(v) })
		}
		return levelsOf(l, guard, r, same[int32])
	case *file.Int64ColumnChunkReader:
		if l.elem == tensor.Uint64 {
			return levelsOf(l, guard, r, func(v int64) uint64 { return uint64(v) })
		}
		return levelsOf(l, guard, r, same[int64])
	case *file.Float32ColumnChunkReader:
		return levelsOf(l, guard, r, same[float32])
	case *file.Float64ColumnChunkReader:
		return levelsOf(l, guard, r, same[float64])
	case *file.FixedLenByteArrayColumnChunkReader: // only float16
		return levelsOf(l, guard, r, func(v parquet.FixedLenByteArray) float32 {
			return tensor.FromFloat16(uint16(v[0]) | uint16(v[1])<<8)
		})
	case *file.ByteArrayColumnChunkReader:
		if l.bytes {
			return bytesColumn{levelsOf(l, guard, r, func(v parquet.ByteArray) []byte { return bytes.Clone(v) })}
		}
		return levelsOf(l, guard, r, func(v parquet.ByteArray) string { return string(v) })
	}
	panic(fmt.Sprintf("arrow: a column of type %T", in)) // elementOf refuses others
}

func same[T any](v T) T { return v }

func levelsOf[P, T any](l *leaf, guard *pageGuard, in pageOf[P], element func(P) T) *levels[P, T] {
	c := &levels[P, T]{leaf: l, guard: guard, in: in, element: element}
	if c.most = dataset.MaxItem / 8; l.elem == tensor.String {
		c.most = dataset.MaxStrings
	}
	c.values, c.def, c.rep = make([]P, levelBatch), make([]int16, levelBatch), make([]int16, levelBatch)
	return c
}

// bytesColumn returns one []byte per row, not a list of them.
type bytesColumn struct {
	*levels[parquet.ByteArray, []byte]
}

func (b bytesColumn) next() (cell, error) {
	c, err := b.levels.next()
	if list, ok := c.data.([][]byte); ok {
		c.data = list[0]
	}
	return c, err
}

// more decodes the next levels if all have been used. Values are valid until then.
func (c *levels[P, T]) more() error {
	if c.at < c.n {
		return nil
	}
	if !c.in.HasNext() {
		if err := c.in.Err(); err != nil {
			return err
		}
		return io.EOF
	}
	n := levelBatch
	if c.guard.single {
		n = 1
	}
	levels, read, err := c.in.ReadBatchInPage(int64(n), c.values[:n], c.def[:n], c.rep[:n])
	if err != nil {
		return err
	}
	if levels == 0 {
		return io.ErrUnexpectedEOF
	}
	c.n, c.at, c.value = int(levels), 0, 0
	largest, present := c.column.MaxDefinitionLevel(), 0
	for i := range c.n {
		if largest == 0 || c.def[i] == largest {
			present++
		}
		if largest > 0 && (c.def[i] < 0 || c.def[i] > largest) ||
			c.depth > 0 && (c.rep[i] < 0 || int(c.rep[i]) > c.depth) {
			return fmt.Errorf("levels %d and %d; the largest are %d and %d", c.def[i], c.rep[i], largest, c.depth)
		}
	}
	if present != read {
		return fmt.Errorf("%d values, want %d", read, present)
	}
	return nil
}

// take uses the next level. It says whether the level begins a row, or an element within lists, and whether
// there is a value or, if not, an empty list.
func (c *levels[P, T]) take() (repeated int, v P, present, empty bool) {
	if c.depth > 0 {
		repeated = int(c.rep[c.at])
	}
	def := c.column.MaxDefinitionLevel()
	present = def == 0 || c.def[c.at] == def
	if present {
		v = c.values[c.value]
		c.value++
	} else {
		empty = !c.nulls[c.def[c.at]]
	}
	c.at++
	return repeated, v, present, empty
}

func (c *levels[P, T]) next() (cell, error) {
	if err := c.more(); err != nil {
		return cell{}, err
	}
	repeated, v, present, empty := c.take()
	if c.depth == 0 {
		if !present {
			return cell{null: true}, nil
		}
		return cell{data: []T{c.element(v)}}, nil
	}
	if repeated != 0 {
		return cell{}, errors.New("a row begins within a list")
	}
	return c.list(v, present, empty)
}

// list assembles the row that begins with a value.
func (c *levels[P, T]) list(v P, present, empty bool) (cell, error) {
	// A null list and a null in a list have different levels.
	if !present && !empty && c.outside(c.def[c.at-1]) {
		return cell{null: true}, c.endOfRow()
	}
	out := make([]T, 0, c.last)
	s := newShape(c.depth)
	var bad error
	for {
		switch {
		case present:
			out = append(out, c.element(v))
		case !empty:
			bad = errNullInList
		default:
			s.empty = true
		}
		n := c.run()
		out = c.appendRun(out, n)
		if s.all += n; len(out) > c.most {
			return cell{}, fmt.Errorf("more than %d elements in a row", c.most)
		}
		s.open[c.depth-1] += n
		if err := c.more(); err == io.EOF {
			break
		} else if err != nil {
			return cell{}, err
		}
		if c.rep[c.at] == 0 {
			break
		}
		var repeated int
		repeated, v, present, empty = c.take()
		if s.add(repeated); s.elements() > c.most {
			return cell{}, fmt.Errorf("more than %d elements in a row", c.most)
		}
	}
	c.last = len(out)
	shape, err := s.end()
	if bad == nil {
		bad = err
	}
	return cell{data: out, shape: shape, bad: bad}, nil
}

// run returns how many of the next elements continue the innermost list, as almost all do.
func (c *levels[P, T]) run() int {
	largest, n := c.column.MaxDefinitionLevel(), 0
	for at := c.at; at < c.n && int(c.rep[at]) == c.depth && c.def[at] == largest; at++ {
		n++
	}
	return n
}

// appendRun appends a run of elements.
func (c *levels[P, T]) appendRun(out []T, n int) []T {
	values := c.values[c.value : c.value+n]
	c.at, c.value = c.at+n, c.value+n
	if ready, ok := any(values).([]T); ok {
		return append(out, ready...)
	}
	for _, v := range values {
		out = append(out, c.element(v))
	}
	return out
}

// outside reports whether a definition level means that the outermost list is null.
func (c *levels[P, T]) outside(def int16) bool {
	for _, null := range c.nulls[:def] {
		if !null { // an existing list
			return false
		}
	}
	return true
}

// endOfRow checks that a row has no more values.
func (c *levels[P, T]) endOfRow() error {
	if err := c.more(); err != nil {
		if err == io.EOF {
			return nil
		}
		return err
	}
	if c.rep[c.at] != 0 {
		return errors.New("a null list continues")
	}
	return nil
}

func (c *levels[P, T]) skip(rows int) error {
	for rows > 0 {
		if err := c.more(); err != nil {
			if err == io.EOF {
				return fmt.Errorf("column %q: ends %d rows too early", c.name, rows)
			}
			return fmt.Errorf("column %q: %w", c.name, err)
		}
		c.take()
		if c.depth == 0 {
			rows--
			continue
		}
		err := c.more()
		if err != nil && err != io.EOF {
			return fmt.Errorf("column %q: %w", c.name, err)
		}
		if err == io.EOF || c.rep[c.at] == 0 {
			rows--
		}
	}
	return nil
}

var errRagged = errors.New("lists of different lengths within one row")

// A shape collects the shape of nested lists, whose lengths show as their elements are read.
type shape struct {
	dims  []int // -1 until the first list at this depth has ended
	open  []int // elements so far of the open lists
	empty bool  // a list has no elements
	wrong bool
	all   int
}

// newShape returns the shape of nested lists with one element each.
func newShape(depth int) *shape {
	s := &shape{dims: make([]int, depth), open: make([]int, depth), all: 1}
	for i := range depth {
		s.dims[i], s.open[i] = -1, 1
	}
	return s
}

func (s *shape) elements() int { return s.all }

// add adds an element to the list at a depth: the outermost is 1.
func (s *shape) add(list int) {
	s.all++
	s.close(list)
	s.open[list-1]++
}

// close ends the lists within the one that continues; new ones begin with one element each.
func (s *shape) close(within int) {
	for i := len(s.dims) - 1; i >= within; i-- {
		if s.dims[i] < 0 {
			s.dims[i] = s.open[i]
		}
		s.wrong = s.wrong || s.dims[i] != s.open[i]
		s.open[i] = 1
	}
}

// end returns the shape. That of lists without elements is unknown.
func (s *shape) end() ([]int, error) {
	s.close(0)
	switch {
	case s.empty && s.all == 1 && len(s.dims) == 1:
		return []int{0}, nil
	case s.empty:
		return nil, errEmpty
	case s.wrong:
		return nil, errRagged
	}
	return s.dims, nil
}

var errEmpty = errors.New("a list without elements")
