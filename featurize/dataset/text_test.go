package dataset

import (
	"fmt"
	"testing"

	"github.com/mfgs/mfgs/onnx/tensor"
)

// Integers may have a decimal point, and a sign if their type has one.
func TestTextBecomesNumbers(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		cell string
		elem tensor.Type
		want string // "" where it is refused
	}{
		{"-3.0", tensor.Int64, "[-3]"}, {" 7 ", tensor.Int32, "[7]"}, {"3.5", tensor.Int64, ""}, {"", tensor.Int64, ""},
		{"3.0", tensor.Uint8, "[3]"}, {"0", tensor.Uint8, "[0]"}, {"-3.0", tensor.Uint64, ""}, {"-3", tensor.Uint8, ""},
		{"-3.5", tensor.Float32, "[-3.5]"}, {"", tensor.Float64, "[NaN]"}, {"x", tensor.Float32, ""},
		{"true", tensor.Bool, "[true]"}, {"yes", tensor.Bool, ""}, {" x", tensor.String, "[ x]"},
	} {
		got, err := Text{Cells: []string{tc.cell}, Columns: []string{"c"}}.As(tc.elem)
		if (err == nil) != (tc.want != "") || err == nil && fmt.Sprint(got) != tc.want {
			t.Errorf("%q as %v: %v, %v, want %q", tc.cell, tc.elem, got, err, tc.want)
		}
	}
}
