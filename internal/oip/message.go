package oip

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/mfgs/mfgs/onnx/tensor"
)

// Header is the HTTP header with the length of the JSON at the beginning of a body that binary tensors follow.
const Header = "Inference-Header-Content-Length"

// Limits bound a request. A field that is 0 has its default.
type Limits struct {
	Bytes    int64 // of a body or message, and of its tensors; default 64 MiB
	Elements int64 // of all tensors together; default 16 Mi
	Tensors  int   // inputs, and outputs, each; default 64

	// Reserve reserves memory for tensors before they are allocated; its error ends reading. Memory that tensors
	// share with the message is not reserved. Nil: nothing is reserved.
	Reserve func(bytes int64) error
}

// Fixed limits of every request.
const (
	maxDims       = 32   // of a tensor
	maxParameters = 256  // of a request, and of each tensor
	maxName       = 1024 // bytes of a name, an id, a key
)

func (l Limits) withDefaults() Limits {
	if l.Bytes == 0 {
		l.Bytes = 64 << 20
	}
	if l.Elements == 0 {
		l.Elements = 16 << 20
	}
	if l.Tensors == 0 {
		l.Tensors = 64
	}
	return l
}

// Parameters are named values: bool, int64, float64 or string, or uint64 for a whole number beyond int64.
type Parameters map[string]any

// Number returns a numeric parameter, which may be a string, as KServe's gRPC client has no other way to send a
// fraction. ok is false if it is absent.
func (p Parameters) Number(key string) (v float64, ok bool, err error) {
	switch x := p[key].(type) {
	case nil:
		return 0, false, nil
	case int64:
		return float64(x), true, nil
	case uint64:
		return float64(x), true, nil
	case float64:
		return x, true, nil
	case string:
		if v, err := strconv.ParseFloat(x, 64); err == nil && !math.IsNaN(v) && !math.IsInf(v, 0) {
			return v, true, nil
		}
	}
	return 0, false, Errorf(Invalid, "parameter %q: want a number, got %s", key, show(p[key]))
}

// Text returns a string parameter, "" if it is absent.
func (p Parameters) Text(key string) (string, error) {
	switch x := p[key].(type) {
	case nil:
		return "", nil
	case string:
		return x, nil
	}
	return "", Errorf(Invalid, "parameter %q: want a string, got %s", key, show(p[key]))
}

// Bool returns a boolean parameter, false if it is absent.
func (p Parameters) Bool(key string) (bool, error) {
	switch x := p[key].(type) {
	case nil:
		return false, nil
	case bool:
		return x, nil
	}
	return false, Errorf(Invalid, "parameter %q: want true or false, got %s", key, show(p[key]))
}

// names returns the sorted keys.
func (p Parameters) names() []string { return slices.Sorted(maps.Keys(p)) }

// A Request asks a model for an inference.
type Request struct {
	// Model and Version are set for gRPC; in HTTP they are in the path.
	Model, Version string
	ID             string // repeated in the response
	Parameters     Parameters
	Inputs         []tensor.Tensor
	Outputs        []Output // the outputs that are asked for; none: all of the model
	Binary         bool     // outputs not among Outputs are sent as bytes after the JSON
}

// An Output is an output that a request asks for.
type Output struct {
	Name   string
	Binary bool // as bytes after the JSON
	// Classes, if positive, asks for so many classes with the largest values instead of the tensor: the
	// classification extension.
	Classes int
}

// A Response answers a Request.
type Response struct {
	Model, Version string
	ID             string
	Parameters     Parameters
	Outputs        []tensor.Tensor
}

// Datatype returns the protocol's name of an element type, such as FP32 or BYTES, or "" if it has none.
func Datatype(t tensor.Type) string {
	if t == tensor.String {
		return "BYTES"
	}
	return strings.TrimPrefix(t.Triton(), "TYPE_")
}

// byDatatype maps the protocol's names to element types.
var byDatatype = func() map[string]tensor.Type {
	m := map[string]tensor.Type{}
	for t := tensor.Undefined; t <= tensor.BFloat16; t++ {
		if name := Datatype(t); name != "" {
			m[name] = t
		}
	}
	return m
}()

// typeOf returns the element type with a name of the protocol.
func typeOf(datatype string) (tensor.Type, error) {
	if t, ok := byDatatype[datatype]; ok {
		return t, nil
	}
	return 0, Errorf(Invalid, "datatype %s: want one of %s", show(datatype),
		strings.Join(slices.Sorted(maps.Keys(byDatatype)), ", "))
}
