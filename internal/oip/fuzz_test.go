package oip

import (
	"bytes"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/mfgs/mfgs/internal/oip/inference"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// checkTaken fails for an accepted request that exceeds the limits or is inconsistent.
func checkTaken(t *testing.T, r *Request, l Limits) {
	t.Helper()
	elements := int64(0)
	for i, x := range r.Inputs {
		n, err := tensor.Elements(x.Shape)
		if err != nil || int64(x.Len()) != n || x.Name == "" || Datatype(x.Type()) == "" {
			t.Fatalf("an input that is not sound: %v", x)
		}
		elements += n
		if slices.ContainsFunc(r.Inputs[:i], func(o tensor.Tensor) bool { return o.Name == x.Name }) {
			t.Fatalf("%q comes twice", x.Name)
		}
	}
	if elements > l.Elements || len(r.Inputs) > l.Tensors || len(r.Outputs) > l.Tensors ||
		len(r.Parameters) > maxParameters {
		t.Fatalf("%d elements of %d inputs, %d outputs", elements, len(r.Inputs), len(r.Outputs))
	}
}

// checkRefused fails for an error without a client status, or that is not one line of sensible length.
func checkRefused(t *testing.T, err error) {
	t.Helper()
	if s := StatusOf(err); s != Invalid && s != TooLarge && s != Unsupported {
		t.Fatalf("status %d: %v", s, err)
	}
	if text := err.Error(); strings.Contains(text, "\n") || len(text) > 2000 {
		t.Fatalf("an error of %d bytes: %q", len(text), text)
	}
}

// oneNaN makes all NaN the one that JSON has.
func oneNaN(all []tensor.Tensor) {
	for _, x := range all {
		switch d := x.Data.(type) {
		case []float32:
			for i, v := range d {
				if math.IsNaN(float64(v)) {
					d[i] = float32(math.NaN())
				}
			}
		case []float64:
			for i, v := range d {
				if math.IsNaN(v) {
					d[i] = math.NaN()
				}
			}
		}
	}
}

// Requests that ReadRequest accepts are consistent, within the limits, and the same when they are written and read
// again.
func FuzzReadRequest(f *testing.F) {
	for _, s := range []string{
		`{"id":"a","parameters":{"a":1,"b":-1.5,"binary_data_output":true},"inputs":[{"name":"x","shape":[2,1],"datatype":"FP32","data":[[1],[2e-3]]}],"outputs":[{"name":"p","parameters":{"binary_data":true,"classification":2}}]}`,
		`{"inputs":[{"data":["é\n"],"name":"s","shape":[1],"datatype":"BYTES"},{"name":"b","shape":[2],"datatype":"BOOL","data":[true,false]}]}`,
		`{"inputs":[{"name":"i","shape":[],"datatype":"INT64","data":[-9223372036854775808]},{"name":"u","shape":[1],"datatype":"UINT8","data":[1e2]}]}`,
	} {
		f.Add([]byte(s), "")
	}
	f.Add([]byte(`{"inputs":[{"name":"f","shape":[3],"datatype":"FP64","data":[NaN,Infinity,-Infinity]}]}`), "")
	text := `{"inputs":[{"name":"h","shape":[2],"datatype":"BF16","parameters":{"binary_data_size":4}},{"name":"s","shape":[1],"datatype":"BYTES","parameters":{"binary_data_size":5}}]}`
	f.Add([]byte(text+"\x00\x3c\x00\xc0\x01\x00\x00\x00a"), strconv.Itoa(len(text)))
	f.Fuzz(func(t *testing.T, body []byte, header string) {
		r, err := ReadRequest(body, header, small)
		if err != nil {
			checkRefused(t, err)
			return
		}
		checkTaken(t, r, small)
		for _, binary := range []bool{true, false} {
			if !binary {
				oneNaN(r.Inputs)
			}
			again, header, err := r.Body(func(string) bool { return binary })
			if err != nil {
				if binary {
					t.Fatal(err)
				}
				continue // what has no form in JSON came as bytes
			}
			wide := small
			wide.Bytes *= 10 // numbers may be spelled longer
			got, err := ReadRequest(again, header, wide)
			if err != nil || !same(got.Inputs, r.Inputs) || got.ID != r.ID || !slices.Equal(got.Outputs, r.Outputs) ||
				got.Binary != r.Binary || len(got.Parameters) != len(r.Parameters) {
				t.Fatalf("%q is read again as %+v, %v; want %+v", again, got, err, r)
			}
		}
	})
}

// Bytes that are taken are those that the elements are written as.
func FuzzBinaryTensor(f *testing.F) {
	f.Add(byte(1), uint16(1), []byte("\x00\x00\x80\x3f"))
	f.Add(byte(8), uint16(2), []byte("\x01\x00\x00\x00a\x00\x00\x00\x00"))
	f.Add(byte(9), uint16(2), []byte("\x01\x00"))
	f.Add(byte(10), uint16(1), []byte("\x00\x3c"))
	f.Fuzz(func(t *testing.T, typ byte, n uint16, raw []byte) {
		x := tensor.Type(typ)
		if Datatype(x) == "" {
			return
		}
		b := Limits{}.withDefaults().budget()
		data, err := b.decode(x, int64(n), raw)
		if err != nil {
			return
		}
		got := tensor.Tensor{Data: data}
		back, err := encode(nil, got)
		if err != nil || !bytes.Equal(back, raw) || got.Len() != int(n) || got.Type() != x {
			t.Fatalf("%s of %q: %v, written as %q, %v", x, raw, data, back, err)
		}
	})
}

// Requests that RequestFromProto accepts are consistent, within the limits, and the same when they are sent again.
func FuzzRequestFromProto(f *testing.F) {
	for _, r := range []*Request{
		{ID: "a", Model: "m", Parameters: Parameters{"a": int64(1), "b": 1.5, "c": "d", "e": true},
			Outputs: []Output{{Name: "p", Classes: 2}},
			Inputs:  []tensor.Tensor{{Name: "x", Shape: []int64{1, 2}, Data: []float32{1, 2}}}},
		{Inputs: []tensor.Tensor{
			{Name: "s", Shape: []int64{1}, Data: []string{"a"}}, {Name: "b", Shape: []int64{1}, Data: []bool{true}}}},
	} {
		m, err := r.Proto()
		if err != nil {
			f.Fatal(err)
		}
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	for _, data := range []any{[]int8{1, 2}, []uint64{1, 2}, []float64{1, 2}, []string{"a", ""}} {
		b, err := proto.Marshal(typedRequest(tensor.TypeOf(data), data))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m := &inference.ModelInferRequest{}
		if proto.Unmarshal(b, m) != nil {
			return
		}
		r, err := RequestFromProto(m, small)
		if err != nil {
			checkRefused(t, err)
			return
		}
		checkTaken(t, r, small)
		sent, err := r.Proto()
		if err != nil {
			t.Fatal(err)
		}
		got, err := RequestFromProto(sent, small)
		if err != nil || !same(got.Inputs, r.Inputs) || !slices.Equal(got.Outputs, r.Outputs) || got.ID != r.ID ||
			len(got.Parameters) != len(r.Parameters) {
			t.Fatalf("%v is received again as %+v, %v; want %+v", sent, got, err, r)
		}
	})
}

// FuzzMessageSize: the estimate is at least the memory of the elements once the message is parsed.
func FuzzMessageSize(f *testing.F) {
	for _, m := range []*inference.ModelInferRequest{
		{ModelName: "m", Id: "q", RawInputContents: [][]byte{{1, 2, 3}, nil}},
		{Inputs: []*inference.ModelInferRequest_InferInputTensor{{
			Name: "x", Shape: []int64{1, 2, 3},
			Contents: &inference.InferTensorContents{
				Int64Contents: []int64{1, 2, -3}, BytesContents: [][]byte{nil, []byte("a")}, BoolContents: []bool{true},
			},
		}}},
		{Outputs: []*inference.ModelInferRequest_InferRequestedOutputTensor{{Name: "y"}}},
	} {
		raw, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		size, err := MessageSize(raw, small)
		var m inference.ModelInferRequest
		if err != nil || proto.Unmarshal(raw, &m) != nil {
			return
		}
		takes := 0
		for _, in := range m.GetInputs() {
			c := in.GetContents()
			takes += 8 * (len(in.GetShape()) + len(c.GetInt64Contents()) + len(c.GetUint64Contents()))
			takes += 8*len(c.GetFp64Contents()) + 4*(len(c.GetIntContents())+len(c.GetUintContents()))
			takes += 4*len(c.GetFp32Contents()) + len(c.GetBoolContents())
			for _, b := range c.GetBytesContents() {
				takes += 24 + len(b)
			}
		}
		for _, b := range m.GetRawInputContents() {
			takes += len(b)
		}
		most := small.withDefaults().Tensors
		if len(m.GetInputs()) > most || len(m.GetOutputs()) > most || len(m.GetParameters()) > maxParameters {
			t.Errorf("more than there may be: %v", &m)
		}
		if int64(takes) > size {
			t.Errorf("a message that takes %d is reported to take %d: %v", takes, size, &m)
		}
	})
}
