package dataset

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/mfgs/mfgs/onnx/tensor"
)

// Text is the Data of an Array whose elements are written as text, without a
// type: cells of a table. What they are the model's input decides.
type Text struct {
	Cells   []string
	Columns []string // their names; not to be modified
}

// As returns the cells as elements for a tensor of a type: []float64 for real numbers, []int64 or
// []uint64 for whole ones, []bool, or []string. Whether a number is in the type's range is not
// checked. An empty cell is NaN among real numbers, and refused for the others but strings.
func (t Text) As(elem tensor.Type) (any, error) {
	switch name := elem.String(); {
	case elem == tensor.String:
		return slices.Clone(t.Cells), nil
	case elem == tensor.Bool:
		return cells(t, "true or false", strconv.ParseBool)
	case strings.HasPrefix(name, "int"):
		return cells(t, "a whole number", func(s string) (int64, error) { return wholeText(s, strconv.ParseInt) })
	case strings.HasPrefix(name, "uint"):
		return cells(t, "a whole number from 0",
			func(s string) (uint64, error) { return wholeText(s, strconv.ParseUint) })
	}
	return cells(t, "a number", func(s string) (float64, error) {
		if s == "" {
			s = "NaN"
		}
		return strconv.ParseFloat(s, 64)
	})
}

func cells[T any](t Text, want string, parse func(string) (T, error)) ([]T, error) {
	out := make([]T, len(t.Cells))
	for i, s := range t.Cells {
		var err error
		if out[i], err = parse(strings.TrimSpace(s)); err != nil {
			return nil, fmt.Errorf("column %q is %q; want %s", t.Columns[i], clip(s), want)
		}
	}
	return out, nil
}
