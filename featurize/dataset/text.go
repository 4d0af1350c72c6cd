package dataset

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/mfgs/mfgs/onnx/tensor"
)

// Text is the Data of an Array of untyped text, such as cells of a table. The model's input decides the
// type.
type Text struct {
	Cells   []string
	Columns []string // their names; not to be modified
}

// As converts the cells for a tensor of a type: to []float64 for floating point, []int64 or []uint64 for
// integers, []bool, or []string. It does not check the type's range. An empty cell is NaN for floating
// point, and an error for integers and booleans.
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
