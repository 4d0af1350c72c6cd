package arrow

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// A footer describes a Parquet file, in Thrift's compact protocol. The library that decodes it trusts the
// lengths of lists and the numbers of children, so they are first checked against the bytes of the footer.

// Types of the compact protocol.
const (
	thriftTrue = 1 + iota
	thriftFalse
	thriftByte
	thriftI16
	thriftI32
	thriftI64
	thriftDouble
	thriftBinary
	thriftList
	thriftSet
	thriftMap
	thriftStruct
)

var errFooter = errors.New("broken footer")

// A thriftReader walks through a structure.
type thriftReader struct{ rest []byte }

// checkFooter refuses a footer with lists longer than itself, or a schema that is not a tree.
func checkFooter(footer []byte) error {
	r := &thriftReader{footer}
	var schema []int64 // children of each element
	err := r.structure(0, func(id int16, kind byte) (bool, error) {
		if id != 2 || kind != thriftList { // FileMetaData.schema
			return false, nil
		}
		n, elem, err := r.list()
		if err != nil || elem != thriftStruct || schema != nil || n > maxColumns {
			return true, fmt.Errorf("%w: a schema of %d elements, want at most %d", errFooter, n, maxColumns)
		}
		schema = make([]int64, n)
		for i := range schema {
			err := r.structure(1, func(id int16, kind byte) (bool, error) {
				if id != 5 || kind != thriftI32 { // SchemaElement.num_children
					return false, nil
				}
				var err error
				schema[i], err = r.zigzag()
				return true, err
			})
			if err != nil {
				return true, err
			}
		}
		return true, nil
	})
	if err != nil {
		return err
	}
	return checkTree(schema)
}

// checkTree checks the numbers of children of a tree's nodes, in depth-first order.
func checkTree(children []int64) error {
	var open []int64 // children still to come, by depth
	for i, n := range children {
		if n < 0 || n > int64(len(children)-i-1) || len(open) > maxNesting || i > 0 && len(open) == 0 {
			return fmt.Errorf("%w: element %d of the schema has %d children, or is %d deep", errFooter, i, n, len(open))
		}
		if len(open) > 0 {
			open[len(open)-1]--
		}
		if n > 0 {
			open = append(open, n)
		}
		for len(open) > 0 && open[len(open)-1] == 0 {
			open = open[:len(open)-1]
		}
	}
	if len(open) > 0 || len(children) == 0 {
		return fmt.Errorf("%w: the schema is cut off", errFooter)
	}
	return nil
}

// structure walks through the fields of a structure. field reads the value of one, or returns false.
func (r *thriftReader) structure(depth int, field func(id int16, kind byte) (bool, error)) error {
	if depth > maxNesting {
		return fmt.Errorf("%w: nested deeper than %d levels", errFooter, maxNesting)
	}
	id := int16(0)
	for {
		head, err := r.byte()
		if err != nil || head == 0 {
			return err
		}
		if delta := head >> 4; delta != 0 {
			id += int16(delta)
		} else {
			v, err := r.zigzag()
			if err != nil {
				return err
			}
			id = int16(v)
		}
		kind, read := head&15, false
		if field != nil {
			if read, err = field(id, kind); err != nil {
				return err
			}
		}
		if read || kind == thriftTrue || kind == thriftFalse { // whose value is its type
			continue
		}
		if err := r.skip(kind, depth+1); err != nil {
			return err
		}
	}
}

// skip skips a value.
func (r *thriftReader) skip(kind byte, depth int) error {
	var err error
	switch kind {
	case thriftTrue, thriftFalse, thriftByte: // as elements of lists
		_, err = r.byte()
	case thriftI16, thriftI32, thriftI64:
		_, err = r.uvarint()
	case thriftDouble:
		err = r.drop(8)
	case thriftBinary:
		var n uint64
		if n, err = r.uvarint(); err == nil {
			err = r.drop(n)
		}
	case thriftList, thriftSet:
		var n int
		var elem byte
		if n, elem, err = r.list(); err != nil {
			return err
		}
		err = r.many(n, depth, elem)
	case thriftMap:
		var n int
		if n, err = r.count(); err != nil || n == 0 {
			return err
		}
		var kinds byte
		if kinds, err = r.byte(); err == nil {
			err = r.many(n, depth, kinds>>4, kinds&15)
		}
	case thriftStruct:
		err = r.structure(depth, nil)
	default:
		err = fmt.Errorf("%w: unknown type %d", errFooter, kind)
	}
	return err
}

// many skips n values of each kind.
func (r *thriftReader) many(n, depth int, kinds ...byte) error {
	if depth > maxNesting {
		return fmt.Errorf("%w: nested deeper than %d levels", errFooter, maxNesting)
	}
	for range n {
		for _, kind := range kinds {
			if err := r.skip(kind, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// list reads the header of a list.
func (r *thriftReader) list() (n int, elem byte, err error) {
	head, err := r.byte()
	if err != nil {
		return 0, 0, err
	}
	if n = int(head >> 4); n == 15 {
		n, err = r.count()
	} else if n > len(r.rest) {
		err = errFooter
	}
	return n, head & 15, err
}

// count reads a number of elements, each of which takes at least a byte.
func (r *thriftReader) count() (int, error) {
	n, err := r.uvarint()
	if err == nil && n > uint64(len(r.rest)) {
		err = fmt.Errorf("%w: a list of %d elements in %d bytes", errFooter, n, len(r.rest))
	}
	return int(n), err
}

func (r *thriftReader) byte() (byte, error) {
	if len(r.rest) == 0 {
		return 0, fmt.Errorf("%w: it is cut off", errFooter)
	}
	b := r.rest[0]
	r.rest = r.rest[1:]
	return b, nil
}

func (r *thriftReader) uvarint() (uint64, error) {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		return 0, fmt.Errorf("%w: it is cut off", errFooter)
	}
	r.rest = r.rest[n:]
	return v, nil
}

func (r *thriftReader) zigzag() (int64, error) {
	v, err := r.uvarint()
	return int64(v>>1) ^ -int64(v&1), err
}

func (r *thriftReader) drop(n uint64) error {
	if n > uint64(len(r.rest)) {
		return fmt.Errorf("%w: a text of %d bytes where there are %d", errFooter, n, len(r.rest))
	}
	r.rest = r.rest[n:]
	return nil
}
