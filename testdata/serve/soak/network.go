//go:build linux

package main

import (
	"encoding/binary"
	"math"
	"math/rand/v2"

	"google.golang.org/protobuf/encoding/protowire"
)

// Each position of the brightest pixel selects one row of the network's table.
const (
	classes   = 10
	rowStride = 700
	tableRows = (pixels-1)*rowStride + 1
)

// network returns an ONNX model of images [N,1,8,8] with random weights: it adds a row of a table of more than 10 MB to
// the pixels, followed by a dense layer. ONNX Runtime uses such a table in place without copying, so that answers
// reveal changes of the file. Each seed gives a different file size.
func network(seed uint64) []byte {
	rng := rand.New(rand.NewPCG(seed, 0))
	message := func(b []byte, field protowire.Number, m []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), m)
	}
	number := func(b []byte, field protowire.Number, v int) []byte {
		return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), uint64(v))
	}
	text := func(b []byte, field protowire.Number, s string) []byte { return message(b, field, []byte(s)) }
	value := func(name string, dims ...int) []byte {
		shape := message(nil, 1, text(nil, 2, "N"))
		for _, d := range dims {
			shape = message(shape, 1, number(nil, 1, d))
		}
		return message(text(nil, 1, name), 2, message(nil, 1, message(number(nil, 1, 1), 2, shape)))
	}
	node := func(op, out string, in ...string) (b []byte) {
		for _, name := range in {
			b = text(b, 1, name)
		}
		b = text(text(b, 2, out), 4, op)
		if op == "ArgMax" {
			attribute := func(name string, v int) []byte { return number(number(text(nil, 1, name), 3, v), 20, 2) }
			b = message(message(b, 5, attribute("axis", 1)), 5, attribute("keepdims", 0))
		}
		return b
	}
	floats := func(name string, scale float64, dims ...int) []byte {
		var b, raw []byte
		n := 1
		for _, d := range dims {
			b, n = number(b, 1, d), n*d
		}
		for range n {
			raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(float32(scale*rng.NormFloat64())))
		}
		return message(text(number(b, 2, 1), 8, name), 9, raw)
	}
	stride := message(text(number(nil, 2, 7), 8, "stride"), 9, binary.LittleEndian.AppendUint64(nil, rowStride))

	graph := text(nil, 2, "network")
	for _, n := range [][]byte{
		node("Flatten", "x", "image"), node("ArgMax", "brightest", "x"), node("Mul", "row", "brightest", "stride"),
		node("Gather", "added", "table", "row"), node("Add", "features", "x", "added"),
		node("MatMul", "logits", "features", "weights"),
	} {
		graph = message(graph, 1, n)
	}
	for _, t := range [][]byte{
		stride, floats("table", 0.3, tableRows+int(seed), pixels), floats("weights", 1, pixels, classes),
	} {
		graph = message(graph, 5, t)
	}
	graph = message(message(graph, 11, value("image", 1, 8, 8)), 12, value("logits", classes))
	return message(message(number(nil, 1, 8), 7, graph), 8, number(nil, 2, 13))
}
