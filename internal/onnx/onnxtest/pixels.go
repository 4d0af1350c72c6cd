package onnxtest

import (
	"google.golang.org/protobuf/proto"

	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// PixelClasses is K of the network of [Pixels].
const PixelClasses = 3

// Weights of Pixels: [4,3] from colours to features, and [3,4] from these to logits.
var (
	pixelFeatures = []float64{1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, -1}
	pixelLogits   = []float64{5, 0, 0, -1, 0, 5, 0, 0, 0, 0, 5, -1}
)

// Pixels is a network that classifies each pixel of an image [N,3,H,W] by its colour, without looking at others, as
// logits [N,3,H/stride,W/stride].
func Pixels(stride int64) *onnxpb.Model {
	logits := onnxpb.TensorInfo("logits", tensor.Float32, -1, PixelClasses, -1, -1)
	return &onnxpb.Model{
		IrVersion:   proto.Int64(8),
		OpsetImport: []*onnxpb.OperatorSet{{Version: proto.Int64(13)}},
		Graph: &onnxpb.Graph{
			Name: proto.String("pixels"),
			Node: []*onnxpb.Node{
				Node("Conv", "image w", "mixed", onnxpb.IntsAttribute("strides", stride, stride)),
				Node("Relu", "mixed", "features"),
				Node("Conv", "features v", "logits"),
			},
			Initializer: []*onnxpb.Tensor{FloatTensor("w", pixelFeatures, 4, 3, 1, 1),
				FloatTensor("v", pixelLogits, PixelClasses, 4, 1, 1)},
			Input:  []*onnxpb.ValueInfo{onnxpb.TensorInfo("image", tensor.Float32, -1, 3, -1, -1)},
			Output: []*onnxpb.ValueInfo{logits},
		},
	}
}

// PixelsFile is the file of Pixels.
func PixelsFile(stride int64) []byte {
	b, err := proto.Marshal(Pixels(stride))
	if err != nil {
		panic(err)
	}
	return b
}

// PixelLogits returns the logits for a colour in [0,1]³.
func PixelLogits(colour [3]float64) (logits [PixelClasses]float64) {
	for j := range 4 {
		feature := 0.0
		for i, v := range colour {
			feature += pixelFeatures[3*j+i] * v
		}
		for k := range logits {
			logits[k] += pixelLogits[4*k+j] * max(feature, 0)
		}
	}
	return logits
}
