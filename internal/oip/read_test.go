package oip

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/onnx/tensor"
)

// NaN and infinities are numbers, whether the datatype comes before or after the data.
func TestFloatsMayBeNaNOrInfinite(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		`{"inputs":[{"name":"x","shape":[3],"datatype":"FP32","data":[NaN,Infinity,-Infinity]}],"more":[NaN]}`,
		`{"inputs":[{"data":[NaN,Infinity,-Infinity],"name":"x","shape":[3],"datatype":"FP32"}]}`,
		`{"inputs":[{"name":"x","shape":[3,1],"datatype":"FP64","data":[[NaN],[Infinity],[-Infinity]]}]}`,
	} {
		got, err := ReadRequest([]byte(body), "", small)
		if err != nil {
			t.Errorf("%s: %v", body, err)
			continue
		}
		if data := fmt.Sprint(got.Inputs[0].Data); data != "[NaN +Inf -Inf]" {
			t.Errorf("%s: %s", body, data)
		}
		again, _, err := got.Body(func(string) bool { return false })
		if err != nil || !strings.Contains(string(again), `"data":[NaN,Infinity,-Infinity]`) {
			t.Errorf("%s is written as %s, %v", body, again, err)
		}
	}
}

// small are limits that tests reach.
var small = Limits{Bytes: 1 << 20, Elements: 1000, Tensors: 4}

func TestRequestsAreReadFromTheirBodies(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		json, tail string
		want       Request
	}{
		{`{"inputs":[{"name":"x","shape":[2,2],"datatype":"FP32","data":[1,2.5,-3,0]}]}`, "",
			Request{Inputs: []tensor.Tensor{{Name: "x", Shape: []int64{2, 2}, Data: []float32{1, 2.5, -3, 0}}}}},
		// The order of keys, the nesting of data and unknown keys do not matter.
		{` {"model_name":"m", "x-y":{"a":[{}]}, "id":"7", "parameters":{"a":1,"b":1.5,"c":"s","d":true,"e":null}, "outputs": null,
			"inputs":[{"data":[[[1],[0]]],"parameters":null,"more":[[]],"datatype":"UINT8","shape":[1,2,1],"name":"x"}]} `, "",
			Request{ID: "7", Parameters: Parameters{"a": int64(1), "b": 1.5, "c": "s", "d": true},
				Inputs: []tensor.Tensor{{Name: "x", Shape: []int64{1, 2, 1}, Data: []uint8{1, 0}}}}},
		{`{"inputs":[],"parameters":{"binary_data_output":true,"big":18446744073709551615}}`, "",
			Request{Binary: true, Parameters: Parameters{"big": uint64(1<<64 - 1)}}},
		{`{"inputs":[],"outputs":[{"name":"a"},{"name":"b","parameters":{"binary_data":false,"classification":3}}],
			"parameters":{"binary_data_output":true}}`, "",
			Request{Binary: true, Parameters: Parameters{},
				Outputs: []Output{{Name: "a", Binary: true}, {Name: "b", Classes: 3}}}},
		{`{"inputs":[],"outputs":[{"name":"a","parameters":{"classification":0}},{"name":"b","parameters":{"classification":1048576}}]}`, "",
			Request{Outputs: []Output{{Name: "a"}, {Name: "b", Classes: 1 << 20}}}},
		{`{"inputs":[{"name":"s","shape":[2],"datatype":"BYTES","data":["é",""]}]}`, "",
			Request{Inputs: []tensor.Tensor{{Name: "s", Shape: []int64{2}, Data: []string{"é", ""}}}}},
		// Bytes after the JSON come in the order of the inputs; KServe's client writes data as null beside none.
		{`{"inputs":[{"name":"h","shape":[1,2],"datatype":"FP16","parameters":{"binary_data_size":4}},
			{"name":"j","shape":[1],"datatype":"BOOL","data":[true]},
			{"name":"s","shape":[2],"datatype":"BYTES","parameters":{"binary_data_size":10}},
			{"name":"e","shape":[0],"datatype":"FP32","data":null,"parameters":{"binary_data_size":0}}]}`,
			"\x00\x3c\x00\xc0" + "\x02\x00\x00\x00a\xff" + "\x00\x00\x00\x00",
			Request{Inputs: []tensor.Tensor{
				{Name: "h", Shape: []int64{1, 2}, Data: tensor.Float16Bits{0x3c00, 0xc000}},
				{Name: "j", Shape: []int64{1}, Data: []bool{true}},
				{Name: "s", Shape: []int64{2}, Data: []string{"a\xff", ""}},
				{Name: "e", Shape: []int64{0}, Data: []float32{}}}}},
	} {
		header := ""
		if c.tail != "" {
			header = fmt.Sprint(len(c.json))
		}
		got, err := ReadRequest([]byte(c.json+c.tail), header, small)
		if err != nil {
			t.Errorf("%s: %v", c.json, err)
			continue
		}
		if len(got.Inputs) == 0 {
			got.Inputs = nil
		}
		if len(got.Parameters) == 0 {
			got.Parameters = c.want.Parameters
		}
		if !reflect.DeepEqual(*got, c.want) {
			t.Errorf("%s:\n%#v\nwant\n%#v", c.json, *got, c.want)
		}
	}
}

func TestInvalidRequestsAreRefusedWithTheReason(t *testing.T) {
	t.Parallel()
	one := func(members string) string { return `{"inputs":[{"name":"x",` + members + `}]}` }
	deep := strings.Repeat("[", 2000) + strings.Repeat("]", 2000)
	for _, c := range []struct {
		json, tail, want string
		status           Status
	}{
		{``, "", "ends within a value", Invalid},
		{`{`, "", "ends within a value", Invalid},
		{`[]`, "", "want {", Invalid},
		{`{}`, "", `"inputs" is missing`, Invalid},
		{`{"inputs": 3}`, "", "want a list", Invalid},
		{`{"inputs": null}`, "", "want a list", Invalid},
		{`{"inputs":[]}{}`, "", "something follows", Invalid},
		{`{"inputs":[3]}`, "", "want {", Invalid},
		{`{"inputs":[],"inputs":[]}`, "", `"inputs" comes twice`, Invalid},
		{`{"inputs":[],"id":7}`, "", `"id": broken JSON: want a string`, Invalid},
		{`{"inputs":[],"id":"` + strings.Repeat("x", 2000) + `"}`, "", "2000 bytes, where at most 1024", Invalid},
		{`{"inputs":[],"parameters":3}`, "", "want {", Invalid},
		{`{"inputs":[],"parameters":{"a":[1]}}`, "", `"a": want a string, a number`, Invalid},
		{`{"inputs":[],"parameters":{"a":NaN}}`, "", `"a": want a finite number, got NaN`, Invalid},
		{`{"inputs":[],"parameters":{"a":-Infinity}}`, "", `"a": want a finite number, got -Inf`, Invalid},
		{`{"inputs":[],"parameters":{"a":1,"a":2}}`, "", `"a" comes twice`, Invalid},
		{`{"inputs":[],"parameters":{"binary_data_output":1}}`, "", "want true or false", Invalid},
		{`{"inputs":[],"outputs":[{}]}`, "", `"name" is missing`, Invalid},
		{`{"inputs":[],"outputs":[{"name":"a"},{"name":"a"}]}`, "", "requested twice", Invalid},
		{`{"inputs":[],"outputs":[{"name":"a","parameters":{"classification":-1}}]}`, "", "how many classes", Invalid},
		{`{"inputs":[],"outputs":[{"name":"a","parameters":{"classification":1048577}}]}`, "", "how many classes", Invalid},
		{`{"inputs":[],"outputs":[{"name":"a","parameters":{"shared_memory_region":"r"}}]}`, "", "shared memory", Unsupported},
		{`{"inputs":[],"deep":` + deep + `}`, "", "nested deeper", Invalid},
		{one(`"shape":[1],"data":` + deep + `,"datatype":"FP32"`), "", "nested deeper", Invalid},
		{one(`"shape":[1],"datatype":"FP32","data":` + deep), "", "nested in other ways", Invalid},
		{`{"inputs":[{"shape":[1],"datatype":"FP32","data":[1]}]}`, "", `input 0: "name" is missing`, Invalid},
		{`{"inputs":[{"name":"x","name":"x"}]}`, "", `"name" comes twice`, Invalid},
		{`{"inputs":[` + strings.Repeat(`{"name":"x","shape":[1],"datatype":"FP32","data":[1]},`, 2) + `]}`, "", `"x" comes twice`, Invalid},
		{`{"inputs":[{},{}]}`, "", `"name" is missing`, Invalid},
		{one(`"shape":[1],"data":[1]`), "", `"datatype" is missing`, Invalid},
		{one(`"datatype":"FP32","data":[1]`), "", `"shape" is missing`, Invalid},
		{one(`"datatype":"FP32","shape":[1]`), "", `input "x": neither "data" nor "binary_data_size"`, Invalid},
		{one(`"datatype":"FP32","shape":[1],"data":null`), "", "neither", Invalid},
		{one(`"datatype":"FP31","shape":[1],"data":[1]`), "", `datatype "FP31": want one of BF16, BOOL, BYTES, FP16`, Invalid},
		{one(`"datatype":"","shape":[1],"data":[1]`), "", `datatype ""`, Invalid},
		{one(`"datatype":"FP32","shape":3`), "", "shape: want a list", Invalid},
		{one(`"datatype":"FP32","shape":[1.5]`), "", "shape: want whole numbers, got 1.5", Invalid},
		{one(`"datatype":"FP32","shape":["1"]`), "", "shape: want whole numbers", Invalid},
		{one(`"datatype":"FP32","shape":[null]`), "", "shape: want whole numbers", Invalid},
		{one(`"datatype":"FP32","shape":[99999999999999999999]`), "", "shape: want whole numbers", Invalid},
		{one(`"datatype":"FP32","shape":[1` + strings.Repeat(",1", 32) + `]`), "", "more than 32 dimensions", Invalid},
		{one(`"datatype":"FP32","shape":[-1],"data":[1]`), "", "negative dimension", Invalid},
		{one(`"datatype":"FP32","shape":[4294967296,4294967296,4294967296],"data":[1]`), "", "too many elements", Invalid},
		{one(`"datatype":"FP32","shape":[1001],"data":[1]`), "", "at most 1000 elements in all", TooLarge},
		{one(`"datatype":"FP32","shape":[600],"data":[1]`), "", "more than the text has room for", Invalid},
		{one(`"datatype":"FP32","shape":[2],"data":[1]`), "", "has 1 elements, where the shape says 2", Invalid},
		{one(`"datatype":"FP32","shape":[2],"data":[1,2,3]`), "", "more than the 2 elements", Invalid},
		{one(`"datatype":"FP32","shape":[1],"data":[1e39]`), "", "element 0: 1e39 is too large for float32", Invalid},
		{one(`"datatype":"FP32","shape":[1],"data":[null]`), "", "want a number", Invalid},
		{one(`"datatype":"INT64","shape":[1],"data":[NaN]`), "", "want a number", Invalid},
		{one(`"datatype":"FP32","shape":[NaN],"data":[1]`), "", "want whole numbers, got NaN", Invalid},
		{one(`"datatype":"UINT8","shape":[1],"data":[256]`), "", "no whole number that fits uint8", Invalid},
		{one(`"datatype":"FP16","shape":[1],"data":[1]`), "", "FP16 has no form in JSON: send it as binary data", Invalid},
		{one(`"datatype":"BF16","data":[1],"shape":[1]`), "", "BF16 has no form in JSON: send it as binary data", Invalid},
		{one(`"datatype":"FP32","shape":[1],"parameters":{"shared_memory_region":"r"}`), "", "shared memory is not supported", Unsupported},
		{one(`"datatype":"FP32","shape":[1],"data":[1],"parameters":{"binary_data_size":4}`), "\x00\x00\x00\x00", "both", Invalid},
		{one(`"data":[1],"datatype":"FP32","shape":[1],"parameters":{"binary_data_size":4}`), "\x00\x00\x00\x00", "both", Invalid},
		{one(`"datatype":"FP32","shape":[1],"parameters":{"binary_data_size":"4"}`), "\x00\x00\x00\x00", "want a number of bytes", Invalid},
		{one(`"datatype":"FP32","shape":[1],"parameters":{"binary_data_size":-4}`), "\x00\x00\x00\x00", "want a number of bytes", Invalid},
		{one(`"datatype":"FP32","shape":[1],"parameters":{"binary_data_size":4}`), "\x00\x00\x00", "only 3 bytes are left", Invalid},
		{one(`"datatype":"FP32","shape":[1],"parameters":{"binary_data_size":4}`), "", "only 0 bytes are left", Invalid},
		{one(`"datatype":"FP32","shape":[1],"parameters":{"binary_data_size":3}`), "\x00\x00\x00", "3 bytes of data, where 1 elements of FP32 take 4", Invalid},
		{one(`"datatype":"FP32","shape":[1],"parameters":{"binary_data_size":4}`), "\x00\x00\x00\x00\x00", "1 bytes are left", Invalid},
		{one(`"datatype":"FP32","shape":[1],"data":[1]`), "\x00", "1 bytes are left", Invalid},
		{one(`"datatype":"BOOL","shape":[1],"parameters":{"binary_data_size":1}`), "\x02", "BOOL has 0 or 1", Invalid},
		{one(`"datatype":"BYTES","shape":[1],"parameters":{"binary_data_size":5}`), "\x02\x00\x00\x00a", "ends after the data", Invalid},
		{one(`"datatype":"BYTES","shape":[1],"parameters":{"binary_data_size":5}`), "\x00\x00\x00\x00a", "1 bytes are left after 1 elements", Invalid},
		{one(`"datatype":"BYTES","shape":[1],"parameters":{"binary_data_size":4}`), "\xff\xff\xff\xff", "ends after the data", Invalid},
		{one(`"datatype":"BYTES","shape":[900],"parameters":{"binary_data_size":1}`), "\x00", "take at least 3600", Invalid},
		{one(`"datatype":"BYTES","shape":[1],"data":["\ud83d"]`), "", "no Unicode", Invalid},
		{`{"inputs":[` + strings.Repeat(`{},`, 5) + `{}]}`, "", `"name" is missing`, Invalid},
		{`{"inputs":[],"outputs":[` + strings.Repeat(`{"name":"x"},`, 5) + `{}]}`, "", "more than 4 entries", TooLarge},
		{`{"inputs":[],"id":"` + strings.Repeat("x", 1<<20) + `"}`, "", "at most 1048576 are taken", TooLarge},
	} {
		header := ""
		if c.tail != "" {
			header = fmt.Sprint(len(c.json))
		}
		_, err := ReadRequest([]byte(c.json+c.tail), header, small)
		if err == nil || !strings.Contains(err.Error(), c.want) || StatusOf(err) != c.status {
			t.Errorf("%.200s: %v (%d), want %q (%d)", c.json, err, StatusOf(err), c.want, c.status)
			continue
		}
		if len(err.Error()) > 400 || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.200s: an error that is too long: %v", c.json, err)
		}
		var document map[string]string
		if json.Unmarshal(ErrorDocument(err), &document) != nil || len(document) != 1 || document["error"] != err.Error() {
			t.Errorf("the document of %v is %s", err, ErrorDocument(err))
		}
	}
	for _, header := range []string{"3", "-1", "x", "99999999999999999999", "1e1", " 2"} {
		if _, err := ReadRequest([]byte("{}"), header, small); err == nil || !strings.Contains(err.Error(), Header) {
			t.Errorf("header %q: %v", header, err)
		}
	}
}

// Unknown members are skipped, down to 1,000 levels of nesting.
func TestUnknownMembersMayBeNested(t *testing.T) {
	t.Parallel()
	request := func(body string) error { _, err := ReadRequest([]byte(body), "", small); return err }
	for body, read := range map[string]func(string) error{
		`{"inputs":[],"more":%s}`: request,
		`{"inputs":[{"name":"x","datatype":"BOOL","shape":[0],"data":[],"more":%s}]}`: request,
		`{"inputs":[],"outputs":[{"name":"x","more":%s}]}`:                            request,
		`{"outputs":[],"more":%s}`: func(body string) error {
			_, err := ReadResponse([]byte(body), "", small)
			return err
		},
		`{"more":%s}`:  func(body string) error { _, err := ReadIndex([]byte(body), small); return err },
		`{"extra":%s}`: func(body string) error { return ReadLoad([]byte(body), small) },
	} {
		for depth, ok := range map[int]bool{1001: true, 1002: false} { // of which the first is no level
			text := fmt.Sprintf(body, strings.Repeat("[", depth)+strings.Repeat("]", depth))
			if err := read(text); (err == nil) != ok {
				t.Errorf("%s with %d lists in each other: %v", body, depth, err)
			}
		}
	}
}
