package bundle

import (
	"bytes"
	"encoding/binary"
	"math"
	"reflect"
	"testing"

	"github.com/mfgs/mfgs/internal/safetensors"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// probe is one of two examples for softmax, of two inputs.
func probe() *Probe {
	return &Probe{
		N: 2,
		Inputs: []tensor.Tensor{
			{Name: "x", Shape: []int64{2, 2, 1}, Data: []float32{1, -2, 0.5, 4}},
			{Name: "mask", Shape: []int64{2, 1}, Data: []bool{true, false}},
		},
		Features: []float32{1, 2, 3, 4},
		Logits:   []float32{-1, 0, 1, 3, 2, 1},
	}
}

// A probe is read as it was written, whatever the type of its inputs, and the same one gives the same
// bytes.
func TestAProbeOfEveryTypeIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	all := 0
	for typ := tensor.Undefined; typ < 32; typ++ {
		if typ.Safetensors() == "" {
			continue
		}
		all++
		p := probe()
		size, _ := typ.Bytes(1)
		one := make([]byte, size)
		one[size-1] = 1
		data, err := typ.Make(2)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := binary.Decode(bytes.Repeat(one, 2), binary.LittleEndian, data); err != nil {
			t.Fatal(err)
		}
		p.Inputs[0] = tensor.Tensor{Name: "features", Shape: []int64{2}, Data: data} // as a tensor of the file is called
		var b, again bytes.Buffer
		if err := p.Encode(&b, softmax); err != nil {
			t.Fatalf("%v: %v", typ, err)
		}
		got, err := DecodeProbe(bytes.NewReader(b.Bytes()), int64(b.Len()), softmax)
		if err != nil {
			t.Fatalf("%v: %v", typ, err)
		}
		if !reflect.DeepEqual(got, p) {
			t.Errorf("%v: got %+v, want %+v", typ, got, p)
		}
		if err := got.Encode(&again, softmax); err != nil || !bytes.Equal(again.Bytes(), b.Bytes()) {
			t.Errorf("%v: other bytes, %v", typ, err)
		}
	}
	if all != 13 {
		t.Errorf("%d types", all)
	}
}

func TestAProbeTakesAtMost4MiB(t *testing.T) {
	t.Parallel()
	for bytes, want := range map[int64]int{1: 4, 1 << 20: 4, 1<<20 + 1: 3, 2 << 20: 2, 4 << 20: 1, 4<<20 + 1: 0} {
		if got := ProbeRoom(bytes); got != want {
			t.Errorf("%d examples of %d bytes, want %d", got, bytes, want)
		}
	}
	p := probe()
	p.N, p.Features, p.Logits = 1, p.Features[:2], p.Logits[:3]
	large := func(bytes int) *Probe {
		p.Inputs = []tensor.Tensor{{Name: "x", Shape: []int64{1, int64(bytes)}, Data: make([]byte, bytes)}}
		return p
	}
	if err := large(MaxProbeBytes - 20).Check(softmax); err != nil {
		t.Error(err)
	}
	oneLine(t, large(MaxProbeBytes+probeHeader).Check(softmax), ErrTooLarge, "at most 4194304")
}

func TestInvalidProbesAreRefused(t *testing.T) {
	t.Parallel()
	nan, infinite := float32(math.NaN()), float32(math.Inf(1))
	for name, test := range map[string]struct {
		change func(map[string]*safetensors.Tensor)
		err    error
		text   string
	}{
		"no logits":   {func(m map[string]*safetensors.Tensor) { delete(m, "logits") }, ErrTensors, "logits"},
		"no features": {func(m map[string]*safetensors.Tensor) { delete(m, "features") }, ErrTensors, "features"},
		"no input": {func(m map[string]*safetensors.Tensor) {
			delete(m, "input.x")
			delete(m, "input.mask")
		}, ErrTensors, "input."},
		"an unknown tensor": {func(m map[string]*safetensors.Tensor) {
			m["x"] = &safetensors.Tensor{Shape: []int{2}, Data: []float32{1, 2}}
		}, ErrTensors, `"x" is unknown`},
		"other logits": {func(m map[string]*safetensors.Tensor) {
			m["logits"] = &safetensors.Tensor{Shape: []int{2, 2}, Data: []float32{1, 2, 3, 4}}
		}, ErrShape, "F32 [2 2], want F32 [2 3]"},
		"wide features": {func(m map[string]*safetensors.Tensor) {
			m["features"].Data = []float64{1, 2, 3, 4}
		}, ErrShape, "F64 [2 2], want F32 [2 2]"},
		"a list of logits": {func(m map[string]*safetensors.Tensor) { m["logits"].Shape = []int{6} }, ErrShape, "[6]"},
		"no examples": {func(m map[string]*safetensors.Tensor) {
			m["logits"] = &safetensors.Tensor{Shape: []int{0, 3}, Data: []float32{}}
		}, ErrShape, "want 1 to 4 rows"},
		"too many examples": {func(m map[string]*safetensors.Tensor) {
			m["logits"] = &safetensors.Tensor{Shape: []int{5, 3}, Data: make([]float32, 15)}
		}, ErrShape, "want 1 to 4 rows"},
		"an input of more examples": {func(m map[string]*safetensors.Tensor) {
			m["input.x"].Shape = []int{4}
		}, ErrShape, "tensor input.x"},
		"an input of nothing": {func(m map[string]*safetensors.Tensor) {
			m["input.x"] = &safetensors.Tensor{Shape: []int{2, 0}, Data: []float32{}}
		}, ErrShape, "tensor input.x"},
		"a scalar": {func(m map[string]*safetensors.Tensor) {
			m["input.x"] = &safetensors.Tensor{Shape: []int{}, Data: []float32{1}}
		}, ErrShape, "tensor input.x"},
		"NaN among features": {func(m map[string]*safetensors.Tensor) {
			m["features"].Data.([]float32)[1] = nan
		}, ErrNotFinite, "features"},
		"infinite logit": {func(m map[string]*safetensors.Tensor) {
			m["logits"].Data.([]float32)[5] = infinite
		}, ErrNotFinite, "element 5 is +Inf"},
		"infinite input": {func(m map[string]*safetensors.Tensor) {
			m["input.x"].Data.([]float32)[2] = float32(math.Inf(1))
		}, ErrNotFinite, "input.x"},
		"infinite input of 16 bits": {func(m map[string]*safetensors.Tensor) {
			m["input.x"] = &safetensors.Tensor{
				Shape: []int{2, 1}, Data: []byte{0, 0, 0, 0x7c}, Type: tensor.Float16,
			}
		}, ErrNotFinite, "element 1"},
	} {
		t.Run(name, func(t *testing.T) {
			m := map[string]*safetensors.Tensor{
				"features":   {Shape: []int{2, 2}, Data: []float32{1, 2, 3, 4}},
				"logits":     {Shape: []int{2, 3}, Data: []float32{1, 2, 3, 4, 5, 6}},
				"input.x":    {Shape: []int{2, 2}, Data: []float32{1, 2, 3, 4}},
				"input.mask": {Shape: []int{2}, Data: []byte{0, 1}, Type: tensor.Bool},
			}
			test.change(m)
			var list []safetensors.Tensor
			for name, tensor := range m {
				tensor.Name = name
				list = append(list, *tensor)
			}
			var data bytes.Buffer
			if err := safetensors.Encode(&data, list, nil); err != nil {
				t.Fatal(err)
			}
			files := inMemory(t, written(t, probed(), withData()))
			withFile(t, files, ProbeName, data.Bytes())
			_, err := OpenFS(files)
			oneLine(t, err, test.err, test.text)
		})
	}
}

func FuzzProbe(f *testing.F) {
	var b bytes.Buffer
	if err := probe().Encode(&b, softmax); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := DecodeProbe(bytes.NewReader(data), int64(len(data)), softmax)
		if err != nil {
			return
		}
		if err := p.Check(softmax); err != nil {
			t.Errorf("%+v is read and cannot be written: %v", p, err)
		}
	})
}
