package oip_test

import (
	"fmt"

	"github.com/mfgs/mfgs/internal/oip"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// A request comes as the body of POST /v2/models/NAME/infer, and its response goes the way back.
func Example() {
	model := oip.Metadata{
		Name:    "iris",
		Inputs:  []oip.TensorMetadata{{Name: "x", Datatype: "FP32", Shape: []int64{-1, 2}}},
		Outputs: []oip.TensorMetadata{{Name: "probabilities", Datatype: "FP32", Shape: []int64{-1, 3}}},
	}
	for _, body := range []string{
		`{"id":"7","inputs":[{"name":"x","shape":[1,2],"datatype":"FP32","data":[5.1,0.2]}]}`,
		`{"id":"8","inputs":[{"name":"x","shape":[1,3],"datatype":"FP32","data":[5.1,0.2,3]}]}`,
	} {
		request, err := oip.ReadRequest([]byte(body), "", oip.Limits{})
		if err == nil {
			err = model.Check(request)
		}
		if err != nil {
			fmt.Println(oip.StatusOf(err).HTTP(), string(oip.ErrorDocument(err)))
			continue
		}
		all := []tensor.Tensor{{Name: "probabilities", Shape: []int64{1, 3}, Data: []float32{.9, .08, .02}}}
		outputs, err := request.Select(all, []string{"setosa", "versicolor", "virginica"})
		if err != nil {
			panic(err)
		}
		response := oip.Response{Model: model.Name, Version: "1", ID: request.ID, Outputs: outputs}
		answer, _, err := response.Body(request.IsBinary)
		if err != nil {
			panic(err)
		}
		fmt.Println(string(answer))
	}
	// Output:
	// {"model_name":"iris","model_version":"1","id":"7","outputs":[{"name":"probabilities","datatype":"FP32","shape":[1,3],"data":[0.9,0.08,0.02]}]}
	// 400 {"error":"input \"x\": shape [1,3], where the model takes [-1,2]"}
}
