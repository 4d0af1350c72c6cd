package ort

import (
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/mfgs/mfgs/onnx/tensor"
)

// An Info describes one input or output of a graph, as the graph declares it.
type Info struct {
	Name  string
	Type  tensor.Type // Undefined if it is not a tensor, or Go slices cannot hold its elements
	Shape []int64     // -1 for an open dimension; nil if even the rank is open
}

func (i Info) String() string {
	if i.Shape == nil {
		return fmt.Sprintf("%s [...] %s", i.Name, i.Type)
	}
	return fmt.Sprintf("%s %s %s", i.Name, tensor.FormatShape(i.Shape), i.Type)
}

var errNotONNX = errors.New("not an ONNX model")

// readInfos returns the inputs (without initializers) and outputs that the ONNX model in data declares. The binding
// returns them only by a second session from the same bytes, which costs as much time and memory as the first.
func readInfos(data []byte) (inputs, outputs []Info, err error) {
	const modelGraph, graphInitializer, graphInput, graphOutput, tensorName = 7, 5, 11, 12, 8
	initializers := map[string]bool{}
	err = messages(data, func(num protowire.Number, graph []byte) error {
		if num != modelGraph {
			return nil
		}
		return messages(graph, func(num protowire.Number, v []byte) error {
			switch num {
			case graphInitializer:
				return messages(v, func(num protowire.Number, name []byte) error {
					if num == tensorName {
						initializers[string(name)] = true
					}
					return nil
				})
			case graphInput, graphOutput:
				info, err := readInfo(v)
				if err != nil {
					return err
				}
				if num == graphInput {
					inputs = append(inputs, info)
				} else {
					outputs = append(outputs, info)
				}
			}
			return nil
		})
	})
	inputs = slices.DeleteFunc(inputs, func(i Info) bool { return initializers[i.Name] })
	if err == nil && len(outputs) == 0 {
		err = errNotONNX
	}
	return inputs, outputs, err
}

// readInfo decodes a ValueInfoProto.
func readInfo(b []byte) (Info, error) {
	const valueName, valueType, typeTensor, tensorElem, tensorShape, shapeDim, dimValue = 1, 2, 1, 1, 2, 1, 1
	var info Info
	err := messages(b, func(num protowire.Number, v []byte) error {
		switch num {
		case valueName:
			info.Name = string(v)
		case valueType:
			return messages(v, func(num protowire.Number, typ []byte) error {
				if num != typeTensor {
					return nil
				}
				return fields(typ, func(num protowire.Number, elem uint64, shape []byte) error {
					switch {
					case num == tensorElem && shape == nil:
						if t := tensor.Type(elem); t.Holds() {
							info.Type = t
						}
					case num == tensorShape && shape != nil:
						info.Shape = []int64{}
						return messages(shape, func(num protowire.Number, dim []byte) error {
							if num != shapeDim {
								return nil
							}
							d := int64(-1)
							err := fields(dim, func(num protowire.Number, value uint64, _ []byte) error {
								if num == dimValue && int64(value) >= 0 {
									d = int64(value)
								}
								return nil
							})
							info.Shape = append(info.Shape, d)
							return err
						})
					}
					return nil
				})
			})
		}
		return nil
	})
	return info, err
}

// messages calls f with each length-delimited field of a message.
func messages(b []byte, f func(num protowire.Number, v []byte) error) error {
	return fields(b, func(num protowire.Number, _ uint64, v []byte) error {
		if v == nil {
			return nil
		}
		return f(num, v)
	})
}

// fields calls f with each field of a message: v is a length-delimited one, and nil for a varint, which is n. Fields
// of other types are skipped.
func fields(b []byte, f func(num protowire.Number, n uint64, v []byte) error) error {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return errNotONNX
		}
		b = b[n:]
		var varint uint64
		var bytes []byte
		switch typ {
		case protowire.VarintType:
			varint, n = protowire.ConsumeVarint(b)
		case protowire.BytesType:
			bytes, n = protowire.ConsumeBytes(b)
			if n >= 0 && bytes == nil {
				bytes = []byte{}
			}
		default:
			n = protowire.ConsumeFieldValue(num, typ, b)
		}
		if n < 0 {
			return errNotONNX
		}
		b = b[n:]
		if typ == protowire.VarintType || typ == protowire.BytesType {
			if err := f(num, varint, bytes); err != nil {
				return err
			}
		}
	}
	return nil
}
