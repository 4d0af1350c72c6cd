package fuse

import (
	"slices"

	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
)

// rowsOf returns the outputs of a head with steps as they are computed: for rows of all steps of all examples, under
// other names.
func (f *fuser) rowsOf(outputs Outputs) Outputs {
	rows := slices.Clone(outputs)
	for i := range rows {
		rows[i].Name = f.Names.Fresh("mfgs_rows_" + rows[i].Key)
	}
	return rows
}

// spread gives the rows of each output the axes of the examples and steps, whose lengths are in shape. own says that
// the model gives the logits so itself.
func (f *fuser) spread(rows, outputs Outputs, shape string, own bool) {
	for i, o := range outputs {
		if i == Logits && own {
			continue
		}
		to := shape
		if width := o.Shape[len(o.Shape)-1].Value; width >= 0 {
			to = f.op("Concat", []string{shape, f.list(width)}, onnxpb.IntAttribute("axis", 0))
		}
		x := rows[i].Name
		f.as(o.Name, func() string { return f.binary("Reshape", x, to) })
	}
}
