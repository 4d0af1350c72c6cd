package oip

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/internal/oip/inference"
	"github.com/mfgs/mfgs/onnx/tensor"
)

func TestContentsAreTakenFromTheFieldOfTheirDatatype(t *testing.T) {
	t.Parallel()
	for _, want := range []any{
		[]bool{true, false}, []int8{-128, 127}, []int16{-32768, 32767}, []int32{math.MinInt32, 5},
		[]int64{math.MinInt64, 5},
		[]uint8{255, 0}, []uint16{65535, 0}, []uint32{math.MaxUint32, 0}, []uint64{math.MaxUint64, 0},
		[]float32{1.5, -0}, []float64{1.5, math.Inf(1)}, []string{"a\xff", ""},
	} {
		typ := tensor.TypeOf(want)
		got, err := RequestFromProto(typedRequest(typ, want), small)
		if err != nil || !reflect.DeepEqual(got.Inputs[0].Data, want) {
			t.Errorf("%s: %v, %v; want %v", typ, got, err, want)
		}
	}
}

// typedRequest puts two elements of a type into the field that it has.
func typedRequest(typ tensor.Type, data any) *inference.ModelInferRequest {
	c := &inference.InferTensorContents{}
	v := reflect.ValueOf(data)
	for i := range v.Len() {
		switch e := v.Index(i); {
		case typ == tensor.Int64:
			c.Int64Contents = append(c.Int64Contents, e.Int())
		case typ == tensor.Uint64:
			c.Uint64Contents = append(c.Uint64Contents, e.Uint())
		case e.CanInt():
			c.IntContents = append(c.IntContents, int32(e.Int()))
		case e.CanUint():
			c.UintContents = append(c.UintContents, uint32(e.Uint()))
		case typ == tensor.Float32:
			c.Fp32Contents = append(c.Fp32Contents, float32(e.Float()))
		case typ == tensor.Float64:
			c.Fp64Contents = append(c.Fp64Contents, e.Float())
		case typ == tensor.Bool:
			c.BoolContents = append(c.BoolContents, e.Bool())
		default:
			c.BytesContents = append(c.BytesContents, []byte(e.String()))
		}
	}
	return &inference.ModelInferRequest{Inputs: []*inference.ModelInferRequest_InferInputTensor{
		{Name: "x", Datatype: Datatype(typ), Shape: []int64{2}, Contents: c}}}
}

func TestInvalidMessagesAreRefusedWithTheReason(t *testing.T) {
	t.Parallel()
	type contents = inference.InferTensorContents
	type request = inference.ModelInferRequest
	type input = inference.ModelInferRequest_InferInputTensor
	type output = inference.ModelInferRequest_InferRequestedOutputTensor
	type parameters = map[string]*inference.InferParameter
	one := func(datatype string, shape []int64, c *contents, raw ...[]byte) *request {
		in := &input{Name: "x", Datatype: datatype, Shape: shape, Contents: c}
		return &request{Inputs: []*input{in}, RawInputContents: raw}
	}
	text := func(s string) *inference.InferParameter {
		return &inference.InferParameter{ParameterChoice: &inference.InferParameter_StringParam{StringParam: s}}
	}
	nan := &inference.InferParameter{ParameterChoice: &inference.InferParameter_DoubleParam{DoubleParam: math.NaN()}}
	many := parameters{}
	for i := range 300 {
		many[fmt.Sprint(i)] = text("")
	}
	f := &contents{Fp32Contents: []float32{1}}
	for _, c := range []struct {
		m      *request
		want   string
		status Status
	}{
		{one("FP31", []int64{1}, f), `input "x": datatype "FP31": want one of`, Invalid},
		{one("", []int64{1}, f), `datatype ""`, Invalid},
		{one("FP32", []int64{1}, nil), "contents of 0 elements, where the shape says 1", Invalid},
		{one("FP32", []int64{2}, f), "contents of 1 elements, where the shape says 2", Invalid},
		{one("FP64", []int64{1}, f), "in the field of another datatype", Invalid},
		{one("BYTES", []int64{1}, f), "in the field of another datatype", Invalid},
		{one("INT8", []int64{1}, f), "in the field of another datatype", Invalid},
		{one("FP32", []int64{1}, &contents{Fp32Contents: []float32{1}, IntContents: []int32{1}}), "contents of 2 elements", Invalid},
		{one("FP16", []int64{1}, f), "FP16 has no contents but raw ones", Invalid},
		{one("INT8", []int64{1}, &contents{IntContents: []int32{128}}), "128 does not fit INT8", Invalid},
		{one("UINT16", []int64{1}, &contents{UintContents: []uint32{1 << 16}}), "65536 does not fit UINT16", Invalid},
		{one("FP32", []int64{1}, f, []byte("1234")), "both raw contents and contents", Invalid},
		{one("FP32", []int64{1}, nil, []byte("123")), "3 bytes of data, where 1 elements of FP32 take 4", Invalid},
		{one("FP32", []int64{1}, nil, []byte("1234"), nil), "has 2 entries for 1 inputs", Invalid},
		{one("FP32", []int64{-1}, f), "negative dimension", Invalid},
		{one("FP32", []int64{1 << 40, 1 << 40}, f), "too many elements", Invalid},
		{one("FP32", []int64{1001}, f), "at most 1000 elements", TooLarge},
		{one("FP32", make([]int64, 33), f), "33 dimensions", Invalid},
		{&request{Inputs: []*input{{Datatype: "FP32"}}}, "input 0 has no name", Invalid},
		{&request{Inputs: []*input{nil}}, "input 0 has no name", Invalid},
		{&request{Inputs: append(one("FP32", []int64{1}, f).Inputs, one("FP32", []int64{1}, f).Inputs...)}, `"x" comes twice`, Invalid},
		{&request{Inputs: make([]*input, 5)}, "5 inputs: at most 4", TooLarge},
		{&request{Outputs: make([]*output, 5)}, "5 outputs: at most 4", TooLarge},
		{&request{Outputs: []*output{{}}}, `"name" is missing`, Invalid},
		{&request{Outputs: []*output{{Name: "a"}, {Name: "a"}}}, "requested twice", Invalid},
		{&request{Outputs: []*output{{Name: "a", Parameters: parameters{"shared_memory_region": text("r")}}}}, "shared memory", Unsupported},
		{&request{Inputs: []*input{{Name: "a", Parameters: parameters{"shared_memory_region": text("r")}}}}, "shared memory", Unsupported},
		{&request{Parameters: parameters{"binary_data_output": text("r")}}, "want true or false", Invalid},
		{&request{Parameters: parameters{"a": nan}}, `parameter "a" is NaN`, Invalid},
		{&request{Parameters: many}, "300 parameters: at most 256", Invalid},
		{&request{ModelName: strings.Repeat("x", 2000)}, "2000 bytes, where at most 1024", Invalid},
	} {
		_, err := RequestFromProto(c.m, small)
		if err == nil || !strings.Contains(err.Error(), c.want) || StatusOf(err) != c.status {
			t.Errorf("%.200v: %v (%d), want %q (%d)", c.m, err, StatusOf(err), c.want, c.status)
		}
	}
}
