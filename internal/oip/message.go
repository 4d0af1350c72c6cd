package oip

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/mfgs/mfgs/onnx/tensor"
)

// Header is the HTTP header that says how long the JSON at the begin of a body is, where bytes of
// tensors follow it.
const Header = "Inference-Header-Content-Length"

// Limits bound what a request may ask for. A field that is 0 has its default.
type Limits struct {
	Bytes    int64 // of a body or message, and of its tensors; default 64 MiB
	Elements int64 // of all tensors together; default 16 Mi
	Tensors  int   // inputs, and as many outputs; default 64

	// Reserve is asked for the memory of tensors before they are made, and its error ends the reading. It is
	// not for what tensors share with a message. Nil: nobody counts it.
	Reserve func(bytes int64) error
}

// What no request has more of, whatever the limits.
const (
	maxDims       = 32   // of a tensor
	maxParameters = 256  // of a request, of each tensor
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

// Parameters are named values: bool, int64, float64 or string. (A whole number beyond int64 is a
// float64.)
type Parameters map[string]any

// Number returns a parameter that is a number, or a string that holds one, as KServe's gRPC client
// has no other way to send a fraction. ok is false where there is none.
func (p Parameters) Number(key string) (v float64, ok bool, err error) {
	switch x := p[key].(type) {
	case nil:
		return 0, false, nil
	case int64:
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

// Text returns a parameter that is a string, "" where there is none.
func (p Parameters) Text(key string) (string, error) {
	switch x := p[key].(type) {
	case nil:
		return "", nil
	case string:
		return x, nil
	}
	return "", Errorf(Invalid, "parameter %q: want a string, got %s", key, show(p[key]))
}

// Bool returns a parameter that is true or false, false where there is none.
func (p Parameters) Bool(key string) (bool, error) {
	switch x := p[key].(type) {
	case nil:
		return false, nil
	case bool:
		return x, nil
	}
	return false, Errorf(Invalid, "parameter %q: want true or false, got %s", key, show(p[key]))
}

// names returns the keys in order.
func (p Parameters) names() []string { return slices.Sorted(maps.Keys(p)) }

// A Request asks a model for an inference.
type Request struct {
	// Model and Version are what a message of gRPC names; in HTTP the path does.
	Model, Version string
	ID             string // comes back in the response
	Parameters     Parameters
	Inputs         []tensor.Tensor
	Outputs        []Output // what is asked for; none: all outputs that the model has
	Binary         bool     // whether outputs that are not among Outputs come as bytes behind the JSON
}

// An Output is one that a request asks for.
type Output struct {
	Name   string
	Binary bool // as bytes behind the JSON
	// Classes asks, where it is above 0, for as many classes instead of the tensor, those of the
	// largest values first: Classify.
	Classes int
}

// A Response answers a Request.
type Response struct {
	Model, Version string
	ID             string
	Parameters     Parameters
	Outputs        []tensor.Tensor
}

// Datatype returns the protocol's name of an element type, "" where it has none: FP32, BYTES.
func Datatype(t tensor.Type) string {
	if t == tensor.String {
		return "BYTES"
	}
	return strings.TrimPrefix(t.Triton(), "TYPE_")
}

// byDatatype finds element types by the protocol's names.
var byDatatype = func() map[string]tensor.Type {
	m := map[string]tensor.Type{}
	for t := tensor.Undefined; t <= tensor.BFloat16; t++ {
		if name := Datatype(t); name != "" {
			m[name] = t
		}
	}
	return m
}()

// typeOf returns the element type of a name of the protocol's.
func typeOf(datatype string) (tensor.Type, error) {
	if t, ok := byDatatype[datatype]; ok {
		return t, nil
	}
	return 0, Errorf(Invalid, "datatype %s: want one of %s", show(datatype),
		strings.Join(slices.Sorted(maps.Keys(byDatatype)), ", "))
}
