package oip

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/mfgs/mfgs/internal/oip/inference"
	"github.com/mfgs/mfgs/onnx/tensor"
)

var twoInputs = Metadata{
	Name: "m", Versions: []string{"1"}, Platform: "onnxruntime_onnx",
	Inputs:  []TensorMetadata{{"image", "FP32", []int64{-1, 3, -1, 8}}, {"age", "INT64", []int64{-1}}},
	Outputs: []TensorMetadata{{"probabilities", "FP32", []int64{-1, 10}}, {"ood_score", "FP32", []int64{-1}}},
}

func TestARequestIsCheckedAgainstTheModel(t *testing.T) {
	t.Parallel()
	image := func(shape ...int64) tensor.Tensor {
		return tensor.Tensor{Name: "image", Shape: shape, Data: []float32{}}
	}
	age := func(n int64) tensor.Tensor { return tensor.Tensor{Name: "age", Shape: []int64{n}, Data: []int64{}} }
	for _, c := range []struct {
		inputs  []tensor.Tensor
		outputs []Output
		want    string
	}{
		{[]tensor.Tensor{age(2), image(2, 3, 5, 8)}, []Output{{Name: "ood_score"}}, ""},
		{[]tensor.Tensor{image(2, 3, 5, 8)}, nil, `input "age" is missing: the request has "image"`},
		{nil, nil, `input "image" is missing: the request has none`},
		{[]tensor.Tensor{image(2, 3, 5, 8), age(2), {Name: "other"}}, nil, `input "other": model "m" has no such input, but "image", "age"`},
		{[]tensor.Tensor{image(2, 3, 5, 8), age(3)}, nil, `input "image" has 2 examples and "age" 3`},
		{[]tensor.Tensor{image(0, 3, 5, 8), age(0)}, nil, "shape [0,3,5,8] has no examples"},
		{[]tensor.Tensor{image(2, 3, 5, 9), age(2)}, nil, "shape [2,3,5,9], where the model takes [-1,3,-1,8]"},
		{[]tensor.Tensor{image(3, 5, 8), age(2)}, nil, "shape [3,5,8], where"},
		{[]tensor.Tensor{{Name: "image", Shape: []int64{1, 3, 5, 8}, Data: []float64{}}, age(1)}, nil, "datatype FP64, where the model takes FP32"},
		{[]tensor.Tensor{image(2, 3, 5, 8), age(2)}, []Output{{Name: "logit"}}, `no such output, but "probabilities", "ood_score"`},
	} {
		r := &Request{Inputs: c.inputs, Outputs: c.outputs}
		err := twoInputs.Check(r)
		if c.want == "" {
			if err != nil || r.Inputs[0].Name != "image" || r.Inputs[1].Name != "age" {
				t.Errorf("%v: %v, in the order %s", c.inputs, err, names(r.Inputs))
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || StatusOf(err) != Invalid {
			t.Errorf("%v: %v, want %q", c.inputs, err, c.want)
		}
	}
}

func TestSelectReturnsTheWantedOutputsOrTheirLargestClasses(t *testing.T) {
	t.Parallel()
	all := []tensor.Tensor{
		{Name: "p", Shape: []int64{2, 3}, Data: []float32{.1, .7, .2, .25, .25, .5}},
		{Name: "s", Shape: []int64{2}, Data: []float64{1, 2}},
		{Name: "b", Shape: []int64{2}, Data: []bool{true, false}},
	}
	labels := []string{"a", "b", "c"}
	for _, c := range []struct {
		outputs []Output
		want    string
	}{
		{nil, fmt.Sprint(all)},
		{[]Output{{Name: "b"}, {Name: "s"}}, fmt.Sprint([]tensor.Tensor{all[2], all[1]})},
		{[]Output{{Name: "p", Classes: 2}}, "[{p [2 2] [0.7:1:b 0.2:2:c 0.5:2:c 0.25:0:a]}]"},
		{[]Output{{Name: "p", Classes: 9}}, "[{p [2 3] [0.7:1:b 0.2:2:c 0.1:0:a 0.5:2:c 0.25:0:a 0.25:1:b]}]"},
		{[]Output{{Name: "s", Classes: 1}}, "[{s [1] [2:1]}]"}, // no labels: they are three
		{[]Output{{Name: "b", Classes: 1}}, `output "b": classification is of floats only, not of BOOL`},
		{[]Output{{Name: "x"}}, `output "x": there is no such output, but "p", "s", "b"`},
	} {
		got, err := (&Request{Outputs: c.outputs}).Select(all, labels)
		text := fmt.Sprint(got)
		if err != nil {
			text = err.Error()
		}
		if text != c.want {
			t.Errorf("%v: %s, want %s", c.outputs, text, c.want)
		}
	}
	r := Request{Outputs: []Output{{Name: "p", Binary: true}}}
	if !r.IsBinary("p") || r.IsBinary("s") || !(&Request{Binary: true}).IsBinary("s") {
		t.Error("what is asked for is not what is wanted")
	}
}

func TestDocumentsAreAsClientsReadThem(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		v    any
		want string
	}{
		{Server{"mfgs", "1.2", []string{"a"}}, `{"name":"mfgs","version":"1.2","extensions":["a"]}`},
		{Metadata{Name: "m", Versions: []string{"1"}, Platform: "p",
			Inputs: twoInputs.Inputs[1:], Outputs: twoInputs.Outputs[1:],
			Parameters: Parameters{"sha256": "ab"}},
			`{"name":"m","versions":["1"],"platform":"p","inputs":[{"name":"age","datatype":"INT64","shape":[-1]}],` +
				`"outputs":[{"name":"ood_score","datatype":"FP32","shape":[-1]}],"parameters":{"sha256":"ab"}}`},
		{[]Model{{"m", "1", Ready, ""}, {"n", "", Gone, "broken"}},
			`[{"name":"m","version":"1","state":"READY","reason":""},{"name":"n","state":"UNAVAILABLE","reason":"broken"}]`},
		{twoInputs.Config(8), `{"name":"m","platform":"onnxruntime_onnx","backend":"onnxruntime","max_batch_size":8,` +
			`"input":[{"name":"image","data_type":"TYPE_FP32","dims":[3,-1,8]},{"name":"age","data_type":"TYPE_INT64","dims":[1]}],` +
			`"output":[{"name":"probabilities","data_type":"TYPE_FP32","dims":[10]},` +
			`{"name":"ood_score","data_type":"TYPE_FP32","dims":[1]}]}`},
		{Statistics{[]ModelStatistics{{Name: "m", Version: "1", Inferences: 3,
			Requests: RequestsByStep{Success: Times{2, 5}}}}},
			`{"model_stats":[{"name":"m","version":"1","last_inference":0,"inference_count":3,"execution_count":0,"inference_stats":{` +
				`"success":{"count":2,"ns":5},"fail":{"count":0,"ns":0},"queue":{"count":0,"ns":0},"compute_input":{"count":0,"ns":0},` +
				`"compute_infer":{"count":0,"ns":0},"compute_output":{"count":0,"ns":0}}}]}`},
	} {
		got, err := json.Marshal(c.v)
		if err != nil || string(got) != c.want {
			t.Errorf("%s, %v\nwant\n%s", got, err, c.want)
		}
	}
	config := twoInputs.Config(8).Proto().Config
	if config.Input[1].DataType != inference.DataType_TYPE_INT64 || len(config.Output) != 2 {
		t.Errorf("data types in %v", config)
	}
	if m, err := twoInputs.Proto(); err != nil || len(m.Inputs) != 2 || m.Inputs[0].Shape[0] != -1 {
		t.Errorf("%v, %v", m, err)
	}
}

func TestRepositoryRequestsAreReadAndAModelsNameIsFoundInBothForms(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		"": "false", " \n": "false", "{}": "false", `{"ready":true}`: "true", `{"ready":null,"x":[1]}`: "false",
		`{"ready":1}`: `parameter "ready": want true or false, got 1`, `[`: "want {", `{"ready":true`: "ends within",
	} {
		ready, err := ReadIndex([]byte(body), small)
		if got := fmt.Sprint(ready, err); !strings.Contains(got, want) {
			t.Errorf("%q: %s, want %s", body, got, want)
		}
	}
	for body, want := range map[string]string{
		"": "<nil>", "{}": "<nil>", `{"parameters":{"unload_dependents":false}}`: "<nil>", `{"parameters":null,"a":1}`: "<nil>",
		`{"parameters":{"config":"{}"}}`: `parameter "config": a model is loaded from its bundle`,
		`{"parameters":{"file:1/m":""}}`: `parameter "file:1/m": a model is loaded`, `{"parameters":1}`: "want {",
	} {
		if got := fmt.Sprint(ReadLoad([]byte(body), small)); !strings.Contains(got, want) {
			t.Errorf("%q: %s, want %s", body, got, want)
		}
	}
	config := map[string]*inference.ModelRepositoryParameter{"config": nil}
	for _, c := range []struct {
		m    *inference.RepositoryModelLoadRequest
		want string
	}{
		{&inference.RepositoryModelLoadRequest{RepositoryName: "kserve"}, "kserve <nil>"},
		{&inference.RepositoryModelLoadRequest{ModelName: "triton"}, "triton <nil>"},
		{&inference.RepositoryModelLoadRequest{RepositoryName: "r", ModelName: "triton"}, "triton <nil>"},
		{&inference.RepositoryModelLoadRequest{}, " the request names no model"},
		{&inference.RepositoryModelLoadRequest{ModelName: "m", Parameters: config}, ` parameter "config": a model is loaded from its bundle, and from nothing that comes with the request`},
	} {
		name, err := LoadName(c.m)
		if got := fmt.Sprint(name, " ", err); got != c.want {
			t.Errorf("%v: %q, want %q", c.m, got, c.want)
		}
	}
}

func TestErrorsHaveTheStatusThatClientsExpect(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		http int
		grpc codes.Code
	}{
		{nil, http.StatusOK, codes.OK},
		{errors.New("x"), http.StatusInternalServerError, codes.Internal},
		{Errorf(Overloaded, "x"), http.StatusTooManyRequests, codes.ResourceExhausted},
		{fmt.Errorf("a: %w", Errorf(NotFound, "b: %w", context.Canceled)), http.StatusNotFound, codes.NotFound},
		{fmt.Errorf("a: %w", context.DeadlineExceeded), http.StatusGatewayTimeout, codes.DeadlineExceeded},
		{context.Canceled, 499, codes.Canceled},
	} {
		s := StatusOf(c.err)
		if s.HTTP() != c.http || s.GRPC() != c.grpc {
			t.Errorf("%v: %d, %v", c.err, s.HTTP(), s.GRPC())
		}
	}
	for s := OK; s <= Internal; s++ {
		if s.HTTP() == 0 || (s.GRPC() == codes.OK) != (s == OK) {
			t.Errorf("status %d has no row", s)
		}
	}
}

func TestParametersOfAnotherKindAreRefused(t *testing.T) {
	t.Parallel()
	p := Parameters{"i": int64(2), "f": 1.5, "s": "2.5", "t": "x", "b": true, "nan": "NaN"}
	for _, c := range []struct{ got, want string }{
		{fmt.Sprint(p.Number("i")), "2 true <nil>"},
		{fmt.Sprint(p.Number("f")), "1.5 true <nil>"},
		{fmt.Sprint(p.Number("s")), "2.5 true <nil>"},
		{fmt.Sprint(p.Number("none")), "0 false <nil>"},
		{fmt.Sprint(p.Number("t")), `0 false parameter "t": want a number, got "x"`},
		{fmt.Sprint(p.Number("nan")), `0 false parameter "nan": want a number, got "NaN"`},
		{fmt.Sprint(p.Number("b")), `0 false parameter "b": want a number, got true`},
		{fmt.Sprint(p.Text("t")), "x<nil>"},
		{fmt.Sprint(p.Text("i")), `parameter "i": want a string, got 2`},
		{fmt.Sprint(p.Bool("b")), "true <nil>"},
		{fmt.Sprint(p.Bool("s")), `false parameter "s": want true or false, got "2.5"`},
	} {
		if c.got != c.want {
			t.Errorf("%s, want %s", c.got, c.want)
		}
	}
}
