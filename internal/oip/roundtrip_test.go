package oip

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/mfgs/mfgs/onnx/tensor"
)

// randomTensor returns a tensor of arbitrary values of its type; if plain, only of NaN and strings that JSON can hold.
func randomTensor(rng *rand.Rand, name string, t tensor.Type, plain bool) tensor.Tensor {
	shape := make([]int64, rng.IntN(4))
	n := 1
	for i := range shape {
		shape[i] = rng.Int64N(4)
		n *= int(shape[i])
	}
	data, err := t.Make(n)
	if err != nil {
		panic(err)
	}
	special := []float64{math.Copysign(0, -1), math.NaN(), math.Inf(1), math.Inf(-1)}
	v := reflect.ValueOf(data)
	for i := range n {
		e := v.Index(i)
		switch bits := rng.Uint64() >> rng.IntN(64); {
		case e.CanUint():
			e.SetUint(bits & (1<<e.Type().Bits() - 1))
		case e.CanInt():
			e.SetInt(int64(bits) << (64 - e.Type().Bits()) >> (64 - e.Type().Bits()))
		case t == tensor.Float32:
			f := math.Float32frombits(rng.Uint32())
			if plain && f-f != 0 || rng.IntN(8) == 0 {
				f = float32(special[rng.IntN(len(special))])
			}
			data.([]float32)[i] = f
		case t == tensor.Float64:
			f := math.Float64frombits(rng.Uint64())
			if plain && f-f != 0 || rng.IntN(8) == 0 {
				f = special[rng.IntN(len(special))]
			}
			data.([]float64)[i] = f
		case t == tensor.Bool:
			e.SetBool(bits&1 == 1)
		default:
			s := make([]rune, rng.IntN(6))
			for i := range s {
				s[i] = []rune{'a', '"', '\\', '\n', 0, 0x7f, 'é', '😀', 0x2028, 0xfffd}[rng.IntN(10)]
			}
			e.SetString(string(s))
			if !plain && rng.IntN(3) == 0 {
				e.SetString(string(s) + "\xff")
			}
		}
	}
	return tensor.Tensor{Name: name, Shape: shape, Data: data}
}

// same compares tensors bit by bit: NaN is itself, and -0 is not 0.
func same(a, b []tensor.Tensor) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		x, errX := encode(nil, a[i])
		y, errY := encode(nil, b[i])
		if a[i].Name != b[i].Name || fmt.Sprint(a[i].Shape) != fmt.Sprint(b[i].Shape) || a[i].Type() != b[i].Type() ||
			errX != nil || errY != nil || string(x) != string(y) {
			return false
		}
	}
	return true
}

// Every datatype reads back the same, as JSON and as binary data.
func TestFilesReadBackAsTheyWereWritten(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(7, 8))
	seen := map[string]int{}
	for range 1000 {
		binary := map[string]bool{}
		var all []tensor.Tensor
		for datatype, typ := range byDatatype {
			if rng.IntN(3) == 0 {
				asBytes := typ.IsBits() || rng.IntN(2) == 0
				x := randomTensor(rng, datatype+"é\"", typ, !asBytes)
				binary[x.Name] = asBytes
				all = append(all, x)
				seen[fmt.Sprint(datatype, asBytes)]++
			}
		}
		isBinary := func(name string) bool { return binary[name] }
		in := Request{ID: "q\n",
			Parameters: Parameters{"t_act": 0.3, "method": "mf0", "n": int64(-1), "u": uint64(1<<64 - 1), "b": true},
			Inputs:     all,
			Outputs:    []Output{{Name: "p", Binary: true, Classes: 2}, {Name: "q", Classes: 1}, {Name: "r"}},
			Binary:     rng.IntN(2) == 0}
		body, header, err := in.Body(isBinary)
		if err != nil {
			t.Fatal(err)
		}
		got, err := ReadRequest(body, header, Limits{})
		if err != nil {
			t.Fatalf("%q: %v", body, err)
		}
		if !same(got.Inputs, all) {
			t.Fatalf("%q:\n%v\nwant\n%v", body, got.Inputs, all)
		}
		got.Inputs = in.Inputs
		if !reflect.DeepEqual(*got, in) {
			t.Fatalf("%q:\n%v\nwant\n%v", body, *got, in)
		}

		out := Response{Model: "m", Version: "1", ID: "<&>", Parameters: Parameters{"sha256": "ab"}, Outputs: all}
		body, header, err = out.Body(isBinary)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := ReadResponse(body, header, Limits{})
		if err != nil {
			t.Fatalf("%q: %v", body, err)
		}
		if !same(answer.Outputs, all) {
			t.Fatalf("%q:\n%v\nwant\n%v", body, answer.Outputs, all)
		}
		answer.Outputs = out.Outputs
		if !reflect.DeepEqual(*answer, out) {
			t.Fatalf("%q:\n%v\nwant\n%v", body, *answer, out)
		}
	}
	for datatype, typ := range byDatatype {
		if seen[fmt.Sprint(datatype, true)] < 100 || !typ.IsBits() && seen[fmt.Sprint(datatype, false)] < 100 {
			t.Errorf("%s came too seldom: %v", datatype, seen)
		}
	}
	if len(byDatatype) != 14 {
		t.Errorf("%d datatypes, where the protocol and BF16 are 14: %v", len(byDatatype), byDatatype)
	}
}

// The same for gRPC messages with raw elements, through their wire format.
func TestMessagesSurviveARoundTrip(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(9, 10))
	for range 500 {
		var all []tensor.Tensor
		for datatype, typ := range byDatatype {
			if rng.IntN(2) == 0 {
				all = append(all, randomTensor(rng, datatype, typ, false))
			}
		}
		in := Request{Model: "m", Version: "1", ID: "q", Inputs: all,
			Parameters: Parameters{"t_act": 0.3, "method": "mf0", "n": int64(-1), "u": uint64(1<<64 - 1), "b": true},
			Outputs:    []Output{{Name: "p", Binary: true, Classes: 2}, {Name: "q", Classes: 1}, {Name: "r"}},
			Binary:     rng.IntN(2) == 0}
		sent, err := in.Proto()
		if err != nil {
			t.Fatal(err)
		}
		got, err := RequestFromProto(wire(t, sent), Limits{})
		if err != nil || !same(got.Inputs, all) {
			t.Fatalf("%v, %v\nwant\n%v", got, err, all)
		}
		got.Inputs = in.Inputs
		if !reflect.DeepEqual(*got, in) {
			t.Fatalf("%v\nwant\n%v", *got, in)
		}

		out := Response{Model: "m", Version: "1", ID: "q", Parameters: Parameters{"sha256": "ab"}, Outputs: all}
		answer, err := out.Proto()
		if err != nil {
			t.Fatal(err)
		}
		back, err := ResponseFromProto(wire(t, answer), Limits{})
		if err != nil || !same(back.Outputs, all) {
			t.Fatalf("%v, %v\nwant\n%v", back, err, all)
		}
		back.Outputs = out.Outputs
		if !reflect.DeepEqual(*back, out) {
			t.Fatalf("%v\nwant\n%v", *back, out)
		}
	}
}

// wire returns a message as it arrives.
func wire[M proto.Message](t *testing.T, m M) M {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	got := m.ProtoReflect().New().Interface()
	if err := proto.Unmarshal(b, got); err != nil {
		t.Fatal(err)
	}
	return got.(M)
}
