package oip

import (
	"encoding/json"
	"math/rand/v2"
	"testing"

	"github.com/mfgs/mfgs/onnx/tensor"
)

// picture is a request for one picture of 3x224x224 float32, which a client written in Python spells
// with the digits of float64.
func picture(b *testing.B, binary bool) (body []byte, header string) {
	rng := rand.New(rand.NewPCG(1, 2))
	data := make([]float32, 3*224*224)
	for i := range data {
		data[i] = float32(rng.NormFloat64())
	}
	r := Request{Inputs: []tensor.Tensor{{Name: "x", Shape: []int64{1, 3, 224, 224}, Data: data}}}
	if !binary {
		wide := make([]float64, len(data))
		for i, v := range data {
			wide[i] = float64(v)
		}
		text, err := json.Marshal(wide)
		if err != nil {
			b.Fatal(err)
		}
		const begin, end = `{"inputs":[{"name":"x","shape":[1,3,224,224],"datatype":"FP32","data":`, `}]}`
		return []byte(begin + string(text) + end), ""
	}
	body, header, err := r.Body(func(string) bool { return binary })
	if err != nil {
		b.Fatal(err)
	}
	return body, header
}

func BenchmarkReadPicture(b *testing.B) {
	for _, c := range []struct {
		name   string
		binary bool
		read   func(body []byte, header string) error
	}{
		{"json", false, func(body []byte, header string) error {
			_, err := ReadRequest(body, header, Limits{})
			return err
		}},
		{"json/encoding-json", false, func(body []byte, _ string) error {
			var r struct {
				Inputs []struct {
					Name, Datatype string
					Shape          []int64
					Data           []float32
				}
			}
			return json.Unmarshal(body, &r)
		}},
		{"binary", true, func(body []byte, header string) error {
			_, err := ReadRequest(body, header, Limits{})
			return err
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			body, header := picture(b, c.binary)
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if err := c.read(body, header); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
