package oip

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/mfgs/mfgs/internal/oip/inference"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// RequestFromProto reads a gRPC request. Elements are raw bytes, for all inputs, or in the fields of their datatypes,
// whose memory the tensors share if possible; 16-bit floats have no field. The size of m itself must be bounded where
// it is received.
func RequestFromProto(m *inference.ModelInferRequest, l Limits) (*Request, error) {
	r, err := requestFromProto(m, l.withDefaults())
	if err != nil {
		return nil, classified("request", err)
	}
	return r, nil
}

func requestFromProto(m *inference.ModelInferRequest, l Limits) (*Request, error) {
	r := &Request{Model: m.GetModelName(), Version: m.GetModelVersion(), ID: m.GetId()}
	var err error
	if r.Parameters, err = parametersFromProto(m.GetParameters()); err != nil {
		return nil, err
	}
	if err := cmp.Or(checkLength(r.Model), checkLength(r.Version), checkLength(r.ID)); err != nil {
		return nil, err
	}
	fields := make([]field, len(m.GetInputs()))
	for i, in := range m.GetInputs() {
		fields[i] = in
		if _, ok := in.GetParameters()[sharedRegion]; ok {
			return nil, Errorf(Unsupported, "input %s: shared memory is not supported: send the data", show(in.GetName()))
		}
	}
	if r.Inputs, err = tensorsFromProto("input", fields, m.GetRawInputContents(), l); err != nil {
		return nil, err
	}
	if n := len(m.GetOutputs()); n > l.Tensors {
		return nil, Errorf(TooLarge, "%d outputs: at most %d are taken", n, l.Tensors)
	}
	var outputs []wantedOutput
	for _, o := range m.GetOutputs() {
		p, err := parametersFromProto(o.GetParameters())
		if err = cmp.Or(err, checkLength(o.GetName())); err != nil {
			return nil, fmt.Errorf("output %s: %w", show(o.GetName()), err)
		}
		outputs = append(outputs, wantedOutput{o.GetName(), p})
	}
	return r, r.setOutputs(outputs)
}

// ResponseFromProto reads a gRPC response, as RequestFromProto does a request.
func ResponseFromProto(m *inference.ModelInferResponse, l Limits) (*Response, error) {
	r := &Response{Model: m.GetModelName(), Version: m.GetModelVersion(), ID: m.GetId()}
	p, err := parametersFromProto(m.GetParameters())
	if err != nil {
		return nil, classified("response", err)
	}
	fields := make([]field, len(m.GetOutputs()))
	for i, out := range m.GetOutputs() {
		fields[i] = out
	}
	r.Parameters = p
	if r.Outputs, err = tensorsFromProto("output", fields, m.GetRawOutputContents(), l.withDefaults()); err != nil {
		return nil, classified("response", err)
	}
	return r, nil
}

// field is a tensor of a request or of a response.
type field interface {
	GetName() string
	GetDatatype() string
	GetShape() []int64
	GetContents() *inference.InferTensorContents
}

// tensorsFromProto reads tensors whose elements are raw, or in the fields if raw is empty.
func tensorsFromProto(what string, fields []field, raw [][]byte, l Limits) ([]tensor.Tensor, error) {
	if len(fields) > l.Tensors {
		return nil, Errorf(TooLarge, "%d %ss: at most %d are taken", len(fields), what, l.Tensors)
	}
	if len(raw) > 0 && len(raw) != len(fields) {
		return nil, fmt.Errorf("raw_%s_contents has %d entries for %d %ss: want one for each, or none at all",
			what, len(raw), len(fields), what)
	}
	budget := l.budget()
	var all []tensor.Tensor
	for i, f := range fields {
		t := tensor.Tensor{Name: f.GetName(), Shape: slices.Clone(f.GetShape())}
		if t.Name == "" {
			return nil, fmt.Errorf("%s %d has no name", what, i)
		}
		if slices.ContainsFunc(all, func(o tensor.Tensor) bool { return o.Name == t.Name }) {
			return nil, fmt.Errorf("%s %s comes twice", what, show(t.Name))
		}
		var own []byte
		if len(raw) > 0 {
			own = raw[i]
		}
		var err error
		if t.Data, err = dataFromProto(f, own, len(raw) > 0, &budget); err != nil {
			return nil, fmt.Errorf("%s %s: %w", what, show(t.Name), err)
		}
		all = append(all, t)
	}
	return all, nil
}

func dataFromProto(f field, raw []byte, isRaw bool, b *budget) (any, error) {
	typ, err := typeOf(f.GetDatatype())
	if err = cmp.Or(err, checkLength(f.GetName())); err != nil {
		return nil, err
	}
	n, err := b.take(typ, f.GetShape())
	if err != nil {
		return nil, err
	}
	if !isRaw {
		if err := keepTyped(typ, n, f.GetContents(), b); err != nil {
			return nil, err
		}
		return typed(typ, n, f.GetContents())
	}
	if count(f.GetContents()) > 0 {
		return nil, errors.New("both raw contents and contents: want one of them")
	}
	return b.decode(typ, n, raw)
}

// keepTyped reserves the memory of elements that typed does not share with a message.
func keepTyped(t tensor.Type, n int64, c *inference.InferTensorContents, b *budget) error {
	text := 0
	switch t {
	case tensor.Int8, tensor.Int16, tensor.Uint8, tensor.Uint16:
	case tensor.String:
		for _, one := range c.GetBytesContents() {
			text += len(one)
		}
	default:
		return nil
	}
	return b.keep(t, min(n, count(c)), int64(text))
}

// count returns the number of elements in all fields.
func count(c *inference.InferTensorContents) int64 {
	return int64(len(c.GetBoolContents()) + len(c.GetIntContents()) + len(c.GetInt64Contents()) +
		len(c.GetUintContents()) + len(c.GetUint64Contents()) + len(c.GetFp32Contents()) +
		len(c.GetFp64Contents()) + len(c.GetBytesContents()))
}

// typed returns the n elements in the field of a type.
func typed(t tensor.Type, n int64, c *inference.InferTensorContents) (any, error) {
	switch all := count(c); {
	case t.IsBits():
		return nil, fmt.Errorf("%s has no contents but raw ones", Datatype(t))
	case all != n:
		return nil, fmt.Errorf("contents of %d elements, where the shape says %d", all, n)
	}
	switch t {
	case tensor.Bool:
		return own(c.GetBoolContents(), n)
	case tensor.Int8:
		return narrow[int8](c.GetIntContents(), n)
	case tensor.Int16:
		return narrow[int16](c.GetIntContents(), n)
	case tensor.Int32:
		return own(c.GetIntContents(), n)
	case tensor.Int64:
		return own(c.GetInt64Contents(), n)
	case tensor.Uint8:
		return narrow[uint8](c.GetUintContents(), n)
	case tensor.Uint16:
		return narrow[uint16](c.GetUintContents(), n)
	case tensor.Uint32:
		return own(c.GetUintContents(), n)
	case tensor.Uint64:
		return own(c.GetUint64Contents(), n)
	case tensor.Float32:
		return own(c.GetFp32Contents(), n)
	case tensor.Float64:
		return own(c.GetFp64Contents(), n)
	}
	texts, err := own(c.GetBytesContents(), n)
	if err != nil {
		return nil, err
	}
	data := make([]string, n)
	for i, b := range texts.([][]byte) {
		data[i] = string(b)
	}
	return data, nil
}

// own returns a field, which must hold all n elements.
func own[T any](field []T, n int64) (any, error) {
	if int64(len(field)) != n {
		return nil, errors.New("contents in the field of another datatype")
	}
	return field, nil
}

// narrow converts the elements of a field to a smaller type, which they must fit.
func narrow[T uint8 | uint16 | int8 | int16, F uint32 | int32](field []F, n int64) (any, error) {
	if _, err := own(field, n); err != nil {
		return nil, err
	}
	data := make([]T, n)
	for i, v := range field {
		if data[i] = T(v); F(data[i]) != v {
			return nil, fmt.Errorf("element %d: %d does not fit %s", i, v, Datatype(tensor.TypeOf(data)))
		}
	}
	return data, nil
}

// Proto returns r as a gRPC message, with raw inputs.
func (r *Request) Proto() (*inference.ModelInferRequest, error) {
	m := &inference.ModelInferRequest{ModelName: r.Model, ModelVersion: r.Version, Id: r.ID}
	var err error
	if m.Parameters, err = parametersProto(r.Parameters); err != nil {
		return nil, err
	}
	if r.Binary {
		m.Parameters[binaryAll], _ = parameterProto(true)
	}
	for _, t := range r.Inputs {
		raw, err := encode(nil, t)
		if err != nil {
			return nil, fmt.Errorf("input %q: %w", t.Name, err)
		}
		m.RawInputContents = append(m.RawInputContents, raw)
		m.Inputs = append(m.Inputs, &inference.ModelInferRequest_InferInputTensor{
			Name: t.Name, Datatype: Datatype(t.Type()), Shape: t.Shape})
	}
	for _, o := range r.Outputs {
		p := Parameters{binaryOne: o.Binary}
		if o.Classes > 0 {
			p[classes] = int64(o.Classes)
		}
		values, err := parametersProto(p)
		if err != nil {
			return nil, err
		}
		m.Outputs = append(m.Outputs, &inference.ModelInferRequest_InferRequestedOutputTensor{
			Name: o.Name, Parameters: values})
	}
	return m, nil
}

// Proto returns r as a gRPC message, with raw outputs.
func (r *Response) Proto() (*inference.ModelInferResponse, error) {
	m := &inference.ModelInferResponse{ModelName: r.Model, ModelVersion: r.Version, Id: r.ID}
	var err error
	if m.Parameters, err = parametersProto(r.Parameters); err != nil {
		return nil, err
	}
	for _, t := range r.Outputs {
		raw, err := encode(nil, t)
		if err != nil {
			return nil, fmt.Errorf("output %q: %w", t.Name, err)
		}
		m.RawOutputContents = append(m.RawOutputContents, raw)
		m.Outputs = append(m.Outputs, &inference.ModelInferResponse_InferOutputTensor{
			Name: t.Name, Datatype: Datatype(t.Type()), Shape: t.Shape})
	}
	return m, nil
}

func parametersFromProto(m map[string]*inference.InferParameter) (Parameters, error) {
	if len(m) > maxParameters {
		return nil, fmt.Errorf("%d parameters: at most %d are taken", len(m), maxParameters)
	}
	p := Parameters{}
	for key, v := range m {
		switch x := v.GetParameterChoice().(type) {
		case *inference.InferParameter_BoolParam:
			p[key] = x.BoolParam
		case *inference.InferParameter_Int64Param:
			p[key] = x.Int64Param
		case *inference.InferParameter_StringParam:
			p[key] = x.StringParam
		case *inference.InferParameter_DoubleParam:
			if x.DoubleParam-x.DoubleParam != 0 {
				return nil, fmt.Errorf("parameter %s is %v: want a finite number", show(key), x.DoubleParam)
			}
			p[key] = x.DoubleParam
		case *inference.InferParameter_Uint64Param:
			if p[key] = int64(x.Uint64Param); x.Uint64Param >= 1<<63 {
				p[key] = x.Uint64Param
			}
		}
	}
	return p, nil
}

func parametersProto(p Parameters) (map[string]*inference.InferParameter, error) {
	m := map[string]*inference.InferParameter{}
	for key, v := range p {
		var err error
		if m[key], err = parameterProto(v); err != nil {
			return nil, fmt.Errorf("parameter %q: %w", key, err)
		}
	}
	return m, nil
}

func parameterProto(v any) (*inference.InferParameter, error) {
	p := &inference.InferParameter{}
	switch v := v.(type) {
	case bool:
		p.ParameterChoice = &inference.InferParameter_BoolParam{BoolParam: v}
	case int64:
		p.ParameterChoice = &inference.InferParameter_Int64Param{Int64Param: v}
	case uint64:
		p.ParameterChoice = &inference.InferParameter_Uint64Param{Uint64Param: v}
	case string:
		p.ParameterChoice = &inference.InferParameter_StringParam{StringParam: v}
	case float64:
		p.ParameterChoice = &inference.InferParameter_DoubleParam{DoubleParam: v}
	default:
		return nil, fmt.Errorf("a %T", v)
	}
	return p, nil
}

// The repeated fields of inference.ModelInferRequest, and those that hold repeated fields.
const (
	requestParameters, requestInputs, requestOutputs, requestRaw = 4, 5, 6, 7

	inputParameters, inputContents = 4, 5
	outputParameters               = 2
	bytesContents                  = 8
)

// MessageSize estimates the memory of a gRPC request once it is parsed, in bytes: a few bytes of an empty tensor, or
// of small numbers, become many times as many. It refuses more tensors and parameters than a request may have.
func MessageSize(raw []byte, l Limits) (int64, error) {
	l = l.withDefaults()
	size := int64(len(raw))
	var inputs, outputs, contents, parameters int
	err := fields(raw, func(field protowire.Number, value []byte) error {
		switch field {
		case requestParameters:
			return few(&parameters, maxParameters, "parameters")
		case requestInputs:
			if err := few(&inputs, l.Tensors, "inputs"); err != nil {
				return err
			}
			more, err := inputSize(value)
			size += more
			return err
		case requestOutputs:
			if err := few(&outputs, l.Tensors, "outputs"); err != nil {
				return err
			}
			n := 0
			return fields(value, func(field protowire.Number, _ []byte) error {
				if field != outputParameters {
					return nil
				}
				return few(&n, maxParameters, "parameters of an output")
			})
		case requestRaw:
			return few(&contents, l.Tensors, "raw_input_contents")
		}
		return nil
	})
	return size, classified("request", err)
}

// Memory of elements. The text of a string is counted already, without its header; a number in a field of its own takes
// at most numberBytes; in a packed field, each byte counts as the smallest number that it can be.
const (
	textBytes   = 48
	numberBytes = 8
)

var packedBytes = [...]int64{
	1: 1, // bool_contents
	2: 4, 3: 8, 4: 4, 5: 8,
	6: 1, 7: 1, // fp32_contents and fp64_contents, whose size is the same here and there
}

// inputSize returns the memory of the elements of an input, without the text of strings.
func inputSize(input []byte) (size int64, err error) {
	parameters := 0
	err = fields(input, func(field protowire.Number, value []byte) error {
		switch field {
		case inputParameters:
			return few(&parameters, maxParameters, "parameters of an input")
		case inputContents:
			return fields(value, func(field protowire.Number, value []byte) error {
				switch {
				case field == bytesContents:
					size += textBytes
				case value != nil && int(field) < len(packedBytes):
					size += packedBytes[field] * int64(len(value))
				default:
					size += numberBytes
				}
				return nil
			})
		}
		size += numberBytes * int64(len(value)) // includes the sizes of a shape
		return nil
	})
	return size, err
}

// few counts up, and refuses more than a maximum.
func few(n *int, most int, what string) error {
	if *n++; *n > most {
		return Errorf(TooLarge, "request: more than %d %s", most, what)
	}
	return nil
}

// fields calls f for each field of a message, with the bytes of length-delimited ones.
func fields(message []byte, f func(field protowire.Number, value []byte) error) error {
	for len(message) > 0 {
		field, typ, n := protowire.ConsumeTag(message)
		if n < 0 {
			return broken(n)
		}
		message = message[n:]
		if n = protowire.ConsumeFieldValue(field, typ, message); n < 0 {
			return broken(n)
		}
		var value []byte
		if typ == protowire.BytesType {
			value, _ = protowire.ConsumeBytes(message)
		}
		if err := f(field, value); err != nil {
			return err
		}
		message = message[n:]
	}
	return nil
}

func broken(code int) error {
	return fmt.Errorf("no message of protobuf: %w", protowire.ParseError(code))
}
