package main

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"

	"google.golang.org/protobuf/encoding/protowire"
)

const featureDim = 2048

// A network is an ONNX graph under construction: the fields of onnx.proto's GraphProto.
type network struct {
	rng   *rand.Rand
	graph []byte
	last  string // input tensor of the next layer
	count int
}

// resnet50 builds torchvision's ResNet-50, version 1.5, up to its features. Batch normalisation is folded into the
// convolutions, as by exporters.
func resnet50(rng *rand.Rand) *network {
	n := &network{rng: rng, last: "image"}
	n.conv(3, 64, 7, 2, 1)
	n.node("Relu", nil, n.last)
	n.node("MaxPool", append(ints("kernel_shape", 3, 3), append(ints("strides", 2, 2), ints("pads", 1, 1, 1, 1)...)...), n.last)
	in := 64
	for stage, blocks := range []int{3, 4, 6, 3} {
		width := 64 << stage
		for block := range blocks {
			stride := 1
			if block == 0 && stage > 0 {
				stride = 2
			}
			n.bottleneck(in, width, stride, block == 0)
			in = 4 * width
		}
	}
	n.node("GlobalAveragePool", nil, n.last)
	n.node("Flatten", nil, n.last)
	return n
}

// bottleneck adds a residual block of three convolutions. The last of them has small weights, so that the signal
// neither grows nor vanishes.
func (n *network) bottleneck(in, width, stride int, project bool) {
	straight := n.last
	n.conv(in, width, 1, 1, 1)
	n.node("Relu", nil, n.last)
	n.conv(width, width, 3, stride, 1)
	n.node("Relu", nil, n.last)
	n.conv(width, 4*width, 1, 1, 0.4)
	branch := n.last
	if project {
		n.last = straight
		n.conv(in, 4*width, 1, stride, 0.7)
		straight = n.last
	}
	n.node("Add", nil, branch, straight)
	n.node("Relu", nil, n.last)
}

// conv adds a convolution with normal weights of variance 2·gain²/inputs and a tiny bias.
func (n *network) conv(in, out, size, stride int, gain float64) {
	weights := make([]float32, out*in*size*size)
	deviation := gain * math.Sqrt(2/float64(in*size*size))
	for i := range weights {
		weights[i] = float32(deviation * n.rng.NormFloat64())
	}
	pad := size / 2
	attributes := append(ints("kernel_shape", size, size), ints("strides", stride, stride)...)
	attributes = append(attributes, ints("pads", pad, pad, pad, pad)...)
	n.node("Conv", attributes, n.last, n.constant(weights, out, in, size, size), n.constant(make([]float32, out), out))
}

// linear adds the last layer: weights [len(bias)][featureDim].
func (n *network) linear(weights, bias []float32) {
	transB := field(nil, 1, []byte("transB")) // AttributeProto: name, i, type INT
	transB = varint(varint(transB, 3, 1), 20, 2)
	n.node("Gemm", [][]byte{transB}, n.last, n.constant(weights, len(bias), featureDim), n.constant(bias, len(bias)))
}

// node adds a NodeProto whose output is the input of the next.
func (n *network) node(op string, attributes [][]byte, inputs ...string) {
	n.count++
	n.last = fmt.Sprintf("%s_%d", op, n.count)
	var node []byte
	for _, in := range inputs {
		node = field(node, 1, []byte(in))
	}
	node = field(node, 2, []byte(n.last))
	node = field(node, 4, []byte(op))
	for _, a := range attributes {
		node = field(node, 5, a)
	}
	n.graph = field(n.graph, 1, node)
}

// constant adds a TensorProto of float32, and returns its name.
func (n *network) constant(values []float32, dims ...int) string {
	n.count++
	name := fmt.Sprintf("weights_%d", n.count)
	raw := make([]byte, 4*len(values))
	for i, v := range values {
		binary.LittleEndian.PutUint32(raw[4*i:], math.Float32bits(v))
	}
	var t []byte
	for _, d := range dims {
		t = varint(t, 1, d)
	}
	t = field(varint(t, 2, 1), 8, []byte(name))
	n.graph = field(n.graph, 5, field(t, 9, raw))
	return name
}

// model returns the network as a ModelProto with output name [N, width].
func (n *network) model(name string, width int) []byte {
	rename := field(field(field(nil, 1, []byte(n.last)), 2, []byte(name)), 4, []byte("Identity"))
	graph := field(append([]byte(nil), n.graph...), 1, rename)
	graph = field(graph, 2, []byte("resnet50"))
	graph = field(graph, 11, valueInfo("image", 3, crop, crop))
	graph = field(graph, 12, valueInfo(name, width))
	model := field(varint(nil, 1, 8), 2, []byte("testdata/firstrun"))
	model = field(model, 8, varint(nil, 2, 17)) // operator set 17
	return field(model, 7, graph)
}

// valueInfo is a ValueInfoProto of float32 [N, dims...].
func valueInfo(name string, dims ...int) []byte {
	shape := field(nil, 1, field(nil, 2, []byte("N")))
	for _, d := range dims {
		shape = field(shape, 1, varint(nil, 1, d))
	}
	tensor := field(varint(nil, 1, 1), 2, shape)
	return field(field(nil, 1, []byte(name)), 2, field(nil, 1, tensor))
}

// ints is an AttributeProto of integers.
func ints(name string, values ...int) [][]byte {
	a := field(nil, 1, []byte(name))
	for _, v := range values {
		a = varint(a, 8, v)
	}
	return [][]byte{varint(a, 20, 7)}
}

func field(b []byte, number protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, number, protowire.BytesType), value)
}

func varint(b []byte, number protowire.Number, value int) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, number, protowire.VarintType), uint64(value))
}
