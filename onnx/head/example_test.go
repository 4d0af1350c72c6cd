package head_test

import (
	"encoding/json"
	"fmt"
	"log"

	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/head"
)

// A classifier is opened, its head found, and the model cut in front of it.
func Example() {
	m, err := onnx.Open("../../testdata/onnx/torch_conv_mean.onnx")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("input: ", m.Inputs()[0])
	h, err := head.Find(m, head.Options{})
	if err != nil {
		log.Fatal(err)
	}
	for _, e := range h.Evidence {
		fmt.Println("-", e)
	}
	c, err := head.Cut(m, h)
	if err != nil {
		log.Fatal(err)
	}
	for _, out := range c.Outputs() {
		fmt.Println("output:", out.Name, out)
	}
	w, b, err := h.Weights()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(w), "weights,", len(b), "biases")
	// Output:
	// input:  [N,2,6,6] float32
	// - Conv "/fc/Conv" is linear in "/Relu_output_0", and its other side "fc.weight" is constant
	// - logits "/ReduceMean_output_0" [N,4] = features [N,6] · Wᵀ + b
	// - ReduceMean "/ReduceMean" commutes with the linear layer and is done on the features
	// - the probabilities are computed from them by ReduceMean, Softmax
	// output: mfgs_features [?,6] float32
	// output: mfgs_logits [?,4] float32
	// 24 weights, 4 biases
}

// The error of a model without a head says why, and what to do.
func ExampleUnsupportedError() {
	m, err := onnx.Open("../../testdata/onnx/named_candidates.onnx")
	if err != nil {
		log.Fatal(err)
	}
	_, err = head.Find(m, head.Options{})
	fmt.Println(err)
	// Output:
	// no classification head: Relu "y" stands between the linear layer Gemm "z" and "y", which Approximate relu would skip; if another layer is meant, name its tensors with Features and Logits: nearest flat and z (Gemm, 6 features, 4 classes)
}

// Head and inputs have the form that mfgs inspect --json gives them.
func ExampleHead_json() {
	m, err := onnx.Open("../../testdata/onnx/torch_binary.onnx")
	if err != nil {
		log.Fatal(err)
	}
	h, err := head.Find(m, head.Options{})
	if err != nil {
		log.Fatal(err)
	}
	for _, v := range []any{h, m.Inputs()} {
		b, err := json.Marshal(v)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(string(b))
	}
	// Output:
	// {"op":"Gemm","node":"/fc/Gemm","features":"/Relu_output_0","logits":"/fc/Gemm_output_0","feature_dim":6,"classes":1,"bias":true,"link":"sigmoid","tail":["Squeeze","Sigmoid"]}
	// [{"name":"x","type":"float32","shape":["N",5]}]
}
