package safetensors_test

import (
	"bytes"
	"fmt"
	"log"

	"github.com/mfgs/mfgs/internal/safetensors"
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
		fmt.Println(t.Name, t.Type, t.Shape)
	}
	weights, err := safetensors.Read[float64](f, "weights")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(weights)
	// Output:
	// weights float64 [2 3]
	// [1 2 3 4 5 6]
}
