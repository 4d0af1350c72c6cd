package safetensors_test

import (
	"bytes"
	"fmt"
	"log"

	"github.com/mfgs/mfgs/calibrate/safetensors"
)

func Example() {
	var b bytes.Buffer
	err := safetensors.Encode(&b, []safetensors.Tensor{
		{Name: "weights", Shape: []int{2, 3}, Data: []float64{1, 2, 3, 4, 5, 6}},
	}, map[string]string{"made by": "an example"})
	if err != nil {
		log.Fatal(err)
	}

	f, err := safetensors.NewFile(bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil {
		log.Fatal(err)
	}
	for _, t := range f.Tensors() {
		fmt.Println(t.Name, t.DType, t.Shape)
	}
	second := make([]float64, 3)
	if err := safetensors.ReadRowsTo(second, f, "weights", 1); err != nil {
		log.Fatal(err)
	}
	fmt.Println(second)
	// Output:
	// weights F64 [2 3]
	// [4 5 6]
}

// A Writer needs the shapes first and the data never at once.
func ExampleWriter() {
	var b bytes.Buffer
	w, err := safetensors.NewWriter(&b, []safetensors.Info{
		{Name: "squares", DType: safetensors.F64, Shape: []int{1000}},
	}, nil)
	if err != nil {
		log.Fatal(err)
	}
	for i := range 1000 {
		if err := safetensors.Write(w, "squares", []float64{float64(i * i)}); err != nil {
			log.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		log.Fatal(err)
	}
	fmt.Println(b.Len()%8, b.Len() > 8000)
	// Output: 0 true
}
