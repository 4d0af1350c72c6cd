package onnx

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/mfgs/mfgs/onnx/tensor"
)

func TestValueInfoSurvivesJSON(t *testing.T) {
	t.Parallel()
	for _, v := range []ValueInfo{
		{Name: "image", Type: tensor.Float32, Shape: []Dim{{Value: -1, Param: "N"}, {Value: 3}, {Value: -1}}},
		{Name: "scalar", Type: tensor.BFloat16, Shape: []Dim{}},
		{Name: "of no rank", Type: tensor.Int64},
		{Name: "map"},
	} {
		data, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		var got ValueInfo
		if err := json.Unmarshal(data, &got); err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		if !reflect.DeepEqual(got, v) {
			t.Errorf("%+v became %s and %+v", v, data, got)
		}
	}
	var d tensor.Type
	if err := json.Unmarshal([]byte(`"float33"`), &d); err == nil {
		t.Error("float33 was taken for a type")
	}
}
