package oip

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/mfgs/mfgs/onnx/tensor"
)

// Body returns the body of the request, and the value of [Header], "" if it must be absent. binary selects the inputs
// that are sent as bytes after the JSON.
func (r *Request) Body(binary func(input string) bool) (body []byte, header string, err error) {
	b := []byte{'{'}
	if r.ID != "" {
		b = append(appendString(append(b, `"id":`...), r.ID), ',')
	}
	p := Parameters{}
	for k, v := range r.Parameters {
		p[k] = v
	}
	if r.Binary {
		p[binaryAll] = true
	}
	if len(p) > 0 {
		if b, err = appendParameters(append(b, `"parameters":`...), p); err != nil {
			return nil, "", err
		}
		b = append(b, ',')
	}
	b, tail, err := appendTensors(append(b, `"inputs":[`...), "input", r.Inputs, binary)
	if err != nil {
		return nil, "", err
	}
	if len(r.Outputs) > 0 {
		b = append(b, `,"outputs":[`...)
		for i, o := range r.Outputs {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendString(append(b, `{"name":`...), o.Name)
			p := Parameters{binaryOne: o.Binary}
			if o.Classes > 0 {
				p[classes] = int64(o.Classes)
			}
			if b, err = appendParameters(append(b, `,"parameters":`...), p); err != nil {
				return nil, "", err
			}
			b = append(b, '}')
		}
		b = append(b, ']')
	}
	body, header = join(append(b, '}'), tail)
	return body, header, nil
}

// Body returns the body of the response, and the value of [Header], "" if it must be absent. binary selects the outputs
// that are sent as bytes after the JSON ([Request.IsBinary]). Others are one list in row-major order: floats as the
// shortest text that reads back as the same number, or NaN, Infinity and -Infinity as Triton writes them, which is not
// JSON. 16-bit floats and strings that are not UTF-8 have no form in JSON, which is an error of status Invalid: clients
// can ask for bytes.
func (r *Response) Body(binary func(output string) bool) (body []byte, header string, err error) {
	b := appendString([]byte(`{"model_name":`), r.Model)
	b = appendString(append(b, `,"model_version":`...), r.Version)
	if r.ID != "" {
		b = appendString(append(b, `,"id":`...), r.ID)
	}
	if len(r.Parameters) > 0 {
		if b, err = appendParameters(append(b, `,"parameters":`...), r.Parameters); err != nil {
			return nil, "", err
		}
	}
	b, tail, err := appendTensors(append(b, `,"outputs":[`...), "output", r.Outputs, binary)
	if err != nil {
		return nil, "", err
	}
	body, header = join(append(b, '}'), tail)
	return body, header, nil
}

// join appends the bytes of binary tensors to the JSON. tail is nil if there are none.
func join(text, tail []byte) (body []byte, header string) {
	if tail == nil {
		return text, ""
	}
	return append(text, tail...), strconv.Itoa(len(text))
}

// appendTensors appends tensors, up to the ] of their list, to dst, and the elements of binary ones to tail.
func appendTensors(
	dst []byte, what string, all []tensor.Tensor, binary func(name string) bool,
) (text, tail []byte, err error) {
	for i, t := range all {
		if i > 0 {
			dst = append(dst, ',')
		}
		name := Datatype(t.Type())
		if name == "" {
			return nil, nil, fmt.Errorf("%s %q: the protocol has no name for %s", what, t.Name, t.Type())
		}
		dst = appendString(append(dst, `{"name":`...), t.Name)
		dst = appendString(append(dst, `,"datatype":`...), name)
		dst = append(dst, `,"shape":[`...)
		for i, d := range t.Shape {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = strconv.AppendInt(dst, d, 10)
		}
		dst = append(dst, ']')
		if binary(t.Name) {
			if tail == nil {
				tail = []byte{}
			}
			before := len(tail)
			if tail, err = encode(tail, t); err == nil {
				dst = append(dst, `,"parameters":{"`+binarySize+`":`...)
				dst = append(strconv.AppendInt(dst, int64(len(tail)-before), 10), '}')
			}
		} else {
			dst, err = appendData(append(dst, `,"data":[`...), t)
			dst = append(dst, ']')
		}
		if err != nil {
			return nil, nil, fmt.Errorf("%s %q: %w", what, t.Name, err)
		}
		dst = append(dst, '}')
	}
	return append(dst, ']'), tail, nil
}

// appendData appends elements, separated by commas.
func appendData(dst []byte, t tensor.Tensor) ([]byte, error) {
	switch d := t.Data.(type) {
	case []float32:
		return appendFloats(dst, d, 32), nil
	case []float64:
		return appendFloats(dst, d, 64), nil
	case []uint8:
		return appendUints(dst, d), nil
	case []uint16:
		return appendUints(dst, d), nil
	case []uint32:
		return appendUints(dst, d), nil
	case []uint64:
		return appendUints(dst, d), nil
	case []int8:
		return appendInts(dst, d), nil
	case []int16:
		return appendInts(dst, d), nil
	case []int32:
		return appendInts(dst, d), nil
	case []int64:
		return appendInts(dst, d), nil
	case []bool:
		for i, v := range d {
			dst = strconv.AppendBool(comma(dst, i), v)
		}
		return dst, nil
	case []string:
		for i, v := range d {
			if !utf8.ValidString(v) {
				return nil, Errorf(Invalid, "element %d is no UTF-8, which has no form in JSON: ask for binary data", i)
			}
			dst = appendString(comma(dst, i), v)
		}
		return dst, nil
	}
	return nil, Errorf(Invalid, "%s has no form in JSON: ask for binary data", Datatype(t.Type()))
}

func comma(dst []byte, i int) []byte {
	if i > 0 {
		return append(dst, ',')
	}
	return dst
}

func appendUints[T uint8 | uint16 | uint32 | uint64](dst []byte, d []T) []byte {
	for i, v := range d {
		dst = strconv.AppendUint(comma(dst, i), uint64(v), 10)
	}
	return dst
}

func appendInts[T int8 | int16 | int32 | int64](dst []byte, d []T) []byte {
	for i, v := range d {
		dst = strconv.AppendInt(comma(dst, i), int64(v), 10)
	}
	return dst
}

func appendFloats[T float32 | float64](dst []byte, d []T, bits int) []byte {
	for i, v := range d {
		dst = appendFloat(comma(dst, i), float64(v), bits)
	}
	return dst
}

// appendFloat appends the shortest text of a number, with an exponent instead of many zeros.
func appendFloat(dst []byte, v float64, bits int) []byte {
	switch {
	case math.IsNaN(v):
		return append(dst, "NaN"...)
	case math.IsInf(v, 1):
		return append(dst, "Infinity"...)
	case math.IsInf(v, -1):
		return append(dst, "-Infinity"...)
	}
	if size := math.Abs(v); size != 0 && (size < 1e-6 || size >= 1e21) {
		return strconv.AppendFloat(dst, v, 'e', -1, bits)
	}
	return strconv.AppendFloat(dst, v, 'f', -1, bits)
}

// appendParameters appends an object of scalars.
func appendParameters(dst []byte, p Parameters) ([]byte, error) {
	dst = append(dst, '{')
	for i, key := range p.names() {
		dst = append(appendString(comma(dst, i), key), ':')
		switch v := p[key].(type) {
		case bool:
			dst = strconv.AppendBool(dst, v)
		case int64:
			dst = strconv.AppendInt(dst, v, 10)
		case uint64:
			dst = strconv.AppendUint(dst, v, 10)
		case string:
			dst = appendString(dst, v)
		case float64:
			if v-v != 0 {
				return nil, fmt.Errorf("parameter %q is %v, which has no form in JSON", key, v)
			}
			dst = appendFloat(dst, v, 64)
		default:
			return nil, fmt.Errorf("parameter %q is a %T", key, v)
		}
	}
	return append(dst, '}'), nil
}

// appendString appends a JSON string, with U+FFFD for invalid UTF-8.
func appendString(dst []byte, s string) []byte {
	plain := utf8.ValidString(s)
	for i := 0; plain && i < len(s); i++ {
		plain = s[i] >= ' ' && s[i] != '"' && s[i] != '\\'
	}
	if plain {
		return append(append(append(dst, '"'), s...), '"')
	}
	b := bytes.NewBuffer(dst)
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // encoding a string into memory cannot fail
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
