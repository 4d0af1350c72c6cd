package arrow

import (
	"fmt"
	"io"

	"github.com/mfgs/mfgs/featurize/dataset"
)

// A column yields its values row by row. An error ends it; io.EOF is the end.
type column interface {
	next() (cell, error)
	skip(rows int) error
}

// skip skips the next rows of all columns.
func skip(columns []column, rows int) error {
	if rows == 0 {
		return nil
	}
	for _, c := range columns {
		if err := c.skip(rows); err != nil {
			return err
		}
	}
	return nil
}

// rows yields the next rows of the columns, at positions from…to-1. It returns false if no more are wanted.
func (p *plan) rows(b *dataset.Base, columns []column, file string, from, to int,
	yield func(dataset.Example, error) bool) (more bool, err error) {
	row := make([]cell, len(columns))
	for i := from; i < to; i++ {
		e := dataset.Example{Index: i, Name: dataset.RecordName(file, i), Label: -1}
		var bad error
		err := guarded(func() (err error) {
			for j, c := range columns {
				if row[j], err = c.next(); err != nil {
					if err == io.EOF {
						err = fmt.Errorf("ends after %d rows of %d", i-from, to-from)
					}
					return fmt.Errorf("column %q: %w", p.fields[p.used[j]].name, err)
				}
			}
			bad = p.fill(&e, row)
			return nil
		})
		if err != nil {
			return false, err
		}
		if bad != nil {
			e.Inputs, e.Encoded = nil, nil
			bad = b.Broken(&e, bad)
			_, record := bad.(*dataset.RecordError)
			if !yield(e, bad) || !record {
				return false, nil
			}
			continue
		}
		if !yield(e, nil) {
			return false, nil
		}
	}
	return true, nil
}
