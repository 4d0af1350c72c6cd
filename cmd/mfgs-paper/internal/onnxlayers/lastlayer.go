package onnxlayers

import (
	"google.golang.org/protobuf/proto"

	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// LastLayerInput is the input of the model of LastLayer.
const LastLayerInput = "features"

// LastLayer returns a model file of φWᵀ + b alone, with w [k,d] and b [k].
func LastLayer(w, b []float32, k, d int) ([]byte, error) {
	value := func(name string, width int) *onnxpb.ValueInfo {
		v := onnxpb.TensorInfo(name, tensor.Float32, -1, int64(width))
		v.Type.TensorType.Shape.Dim[0].Value = &onnxpb.Dimension_DimParam{DimParam: "N"}
		return v
	}
	constant := func(name string, data []float32, dims ...int64) *onnxpb.Tensor {
		return &onnxpb.Tensor{Name: &name, DataType: proto.Int32(int32(tensor.Float32)), Dims: dims, FloatData: data}
	}
	return proto.Marshal(&onnxpb.Model{
		IrVersion: proto.Int64(7), OpsetImport: []*onnxpb.OperatorSet{{Version: proto.Int64(14)}},
		Graph: &onnxpb.Graph{
			Name: proto.String("last layer"),
			Node: []*onnxpb.Node{{
				OpType: proto.String("Gemm"), Input: []string{LastLayerInput, "weight", "bias"}, Output: []string{"logits"},
				Attribute: []*onnxpb.Attribute{onnxpb.IntAttribute("transB", 1)},
			}},
			Initializer: []*onnxpb.Tensor{constant("weight", w, int64(k), int64(d)), constant("bias", b, int64(k))},
			Input:       []*onnxpb.ValueInfo{value(LastLayerInput, d)}, Output: []*onnxpb.ValueInfo{value("logits", k)},
		},
	})
}
