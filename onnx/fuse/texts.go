package fuse

import (
	"google.golang.org/protobuf/proto"

	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/head"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// texts computes the outputs of text or tags from the numbers of symbols, with -1 for none, and their probabilities.
func (f *fuser) texts(outputs Outputs, text, probabilities string, d *head.Decoding) {
	last := outputs[len(outputs)-2:]
	f.as(last[1].Name, func() string { return f.unary("Identity", probabilities) })
	if !f.mf.Strings {
		f.as(last[0].Name, func() string { return f.unary("Identity", text) })
		return
	}
	name := f.Names.Fresh("mfgs_alphabet")
	symbols := &onnxpb.Tensor{
		Name: &name, DataType: proto.Int32(int32(tensor.String)), Dims: []int64{int64(len(d.Alphabet))},
	}
	for _, s := range d.Alphabet {
		symbols.StringData = append(symbols.StringData, []byte(s))
	}
	none := d.Blank // its text is ""
	if d.Tags() {
		none = len(d.Alphabet)
		symbols.StringData, symbols.Dims = append(symbols.StringData, nil), []int64{int64(none) + 1}
	}
	f.Consts = append(f.Consts, symbols)
	at := f.op("Where", []string{f.binary("Less", text, f.list(0)), f.list(int64(none)), text})
	f.as(last[0].Name, func() string { return f.op("Gather", []string{name, at}) })
}

// declareSteps corrects the declaration of an output with numbers for each step that claims to have another rank than
// 3, as ddddocr's: ONNX Runtime warns of that in the model itself, and refuses operators that follow.
func declareSteps(outputs []*onnxpb.ValueInfo, name string) {
	for i, v := range outputs {
		if info := onnx.InfoOf(v); info.Name == name && info.Shape != nil && len(info.Shape) != 3 {
			outputs[i] = onnxpb.TensorInfo(name, info.Type, -1, -1, -1)
		}
	}
}
