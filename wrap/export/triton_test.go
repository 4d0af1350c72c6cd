package export

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// info describes a tensor; -1 is an open dimension.
func info(name string, typ tensor.Type, dims ...int64) onnx.ValueInfo {
	v := onnx.ValueInfo{Name: name, Type: typ, Shape: []onnx.Dim{}}
	for _, d := range dims {
		v.Shape = append(v.Shape, onnx.Dim{Value: d})
	}
	return v
}

func TestTheConfigurationDescribesWhatTritonCanServe(t *testing.T) {
	t.Parallel()
	image := []onnx.ValueInfo{info("image", tensor.Float32, -1, 3, 224, 224)}
	added := []onnx.ValueInfo{info("probabilities", tensor.Float32, -1, 10), info("leverage", tensor.Float32, -1)}
	fixed := []onnx.ValueInfo{info("probabilities", tensor.Float32, 4, 10), info("leverage", tensor.Float32, 4)}
	rankless := info("boxes", tensor.Float32)
	rankless.Shape = nil
	for name, test := range map[string]struct {
		inputs, own, added []onnx.ValueInfo
		maxBatch           int
		want               string // the tensors, and the batch
		unfit, err         string
	}{
		"an image": {
			inputs: image, added: added, maxBatch: 64,
			want: "64: image TYPE_FP32 [3 224 224] → probabilities TYPE_FP32 [10], leverage TYPE_FP32 scalar",
		},
		"own outputs": {
			inputs: image, own: []onnx.ValueInfo{info("label", tensor.Int64, -1), info("embedding", tensor.Float16, -1, 512)},
			added: added, maxBatch: 8,
			want: "8: image TYPE_FP32 [3 224 224] → label TYPE_INT64 scalar, embedding TYPE_FP16 [512], probabilities TYPE_FP32 [10], leverage TYPE_FP32 scalar",
		},
		"logits that are its own": {
			inputs: image, own: added[:1], added: added, maxBatch: 8,
			want: "8: image TYPE_FP32 [3 224 224] → probabilities TYPE_FP32 [10], leverage TYPE_FP32 scalar",
		},
		"several inputs of open length": {
			inputs: []onnx.ValueInfo{info("input_ids", tensor.Int64, -1, -1), info("attention_mask", tensor.Int64, -1, -1)}, added: added,
			maxBatch: 1,
			want:     "1: input_ids TYPE_INT64 [-1], attention_mask TYPE_INT64 [-1] → probabilities TYPE_FP32 [10], leverage TYPE_FP32 scalar",
		},
		"strings, and one number an example": {
			inputs: []onnx.ValueInfo{info("text", tensor.String, -1), info("age", tensor.Float64, -1, 1)}, added: added,
			maxBatch: 64,
			want:     "64: text TYPE_STRING scalar, age TYPE_FP64 [1] → probabilities TYPE_FP32 [10], leverage TYPE_FP32 scalar",
		},
		"every other type": {
			inputs: []onnx.ValueInfo{
				info("a", tensor.Bool, -1, 1), info("b", tensor.Uint8, -1, 1), info("c", tensor.Uint16, -1, 1),
				info("d", tensor.Uint32, -1, 1), info("e", tensor.Uint64, -1, 1),
				info("f", tensor.Int8, -1, 1), info("g", tensor.Int16, -1, 1), info("h", tensor.Int32, -1, 1),
				info("i", tensor.BFloat16, -1, 1),
			},
			added: added[:1], maxBatch: 64,
			want: "64: a TYPE_BOOL [1], b TYPE_UINT8 [1], c TYPE_UINT16 [1], d TYPE_UINT32 [1], e TYPE_UINT64 [1], f TYPE_INT8 [1], g TYPE_INT16 [1], h TYPE_INT32 [1], i TYPE_BF16 [1] → probabilities TYPE_FP32 [10]",
		},
		"a fixed batch": {
			inputs: []onnx.ValueInfo{info("image", tensor.Float32, 4, 3, 8, 8)},
			own:    []onnx.ValueInfo{info("label", tensor.Int64, 4)}, added: fixed, maxBatch: 64,
			want: "0: image TYPE_FP32 [4 3 8 8] → label TYPE_INT64 [4], probabilities TYPE_FP32 [4 10], leverage TYPE_FP32 [4]",
		},
		"an input for the whole batch": {
			inputs: []onnx.ValueInfo{image[0], info("training", tensor.Bool)}, own: []onnx.ValueInfo{info("label", tensor.Int64, -1)},
			added: added, maxBatch: 64,
			want: "0: image TYPE_FP32 [-1 3 224 224], training TYPE_BOOL [1] → label TYPE_INT64 [-1], probabilities TYPE_FP32 [-1 10], leverage TYPE_FP32 [-1]",
		},

		"own outputs that are no tensors": {
			inputs: image, own: []onnx.ValueInfo{info("label", tensor.Int64, -1), {Name: "scores"}}, added: added, maxBatch: 64,
			unfit: `"scores" is not declared as a tensor`,
		},
		"an own output for the whole batch": {
			inputs: image, own: []onnx.ValueInfo{info("loss", tensor.Float32)}, added: added, maxBatch: 64,
			unfit: `"loss" has no open batch`,
		},
		"an own output of one example": {
			inputs: image, own: []onnx.ValueInfo{info("logits", tensor.Float32, 1, 10)}, added: added, maxBatch: 64,
			unfit: `"logits" has no open batch`,
		},
		"an own output that says less than can be inferred": {
			inputs: image, own: []onnx.ValueInfo{info("logits", tensor.Float32, -1, -1)}, added: added, maxBatch: 64,
			unfit: `"logits" has dimensions that the model does not declare`,
		},
		"the same of the batch": {
			inputs: []onnx.ValueInfo{info("image", tensor.Float32, 4, 3, 8, 8)},
			own:    []onnx.ValueInfo{info("label", tensor.Int64, -1)}, added: fixed, maxBatch: 64,
			unfit: `"label" has an open batch, and the inputs a fixed one`,
		},
		"logits of its own that say nothing": {
			inputs: image, own: []onnx.ValueInfo{{Name: "probabilities", Type: tensor.Float32}},
			added: append([]onnx.ValueInfo{{Name: "probabilities", Type: tensor.Float32}}, added[1:]...), maxBatch: 64,
			unfit: `"probabilities" has a shape that the model does not declare`,
		},
		"an own output of any shape": {
			inputs: image, own: []onnx.ValueInfo{rankless}, added: added, maxBatch: 64,
			unfit: `"boxes" has a shape that the model does not declare`,
		},
		"an own output of complex numbers": {
			inputs: image, own: []onnx.ValueInfo{info("spectrum", tensor.Complex64, -1, 8)}, added: added, maxBatch: 64,
			unfit: `"spectrum" is of type complex64`,
		},

		"an input of any shape":      {inputs: []onnx.ValueInfo{rankless}, added: added, err: `"boxes" has a shape that the model does not declare, which Triton does not serve: export to a file`},
		"an input that is no tensor": {inputs: []onnx.ValueInfo{{Name: "rows"}}, added: added, err: `"rows" is not declared as a tensor`},
		"an input of 8-bit floats":   {inputs: []onnx.ValueInfo{info("x", 17, -1, 8)}, added: added, err: `"x" is of type float8e4m3fn`},
		"an input of no numbers":     {inputs: []onnx.ValueInfo{info("x", tensor.Float32, -1, 0)}, added: added, err: `"x" has a dimension of 0`},
		"a name that is no text":     {inputs: []onnx.ValueInfo{info("\xff", tensor.Float32, -1, 1)}, added: added, err: `"\xff" is not UTF-8`},
	} {
		t.Run(name, func(t *testing.T) {
			c, unfit, err := newTritonConfig("m", test.inputs, test.own, test.added, test.maxBatch)
			if test.err != "" {
				says(t, err, test.err)
				return
			}
			if err != nil || unfit != test.unfit {
				t.Fatalf("unfit is %q, error %v; want %q", unfit, err, test.unfit)
			}
			if test.unfit != "" {
				return
			}
			side := func(tensors []tritonTensor) string {
				var list []string
				for _, t := range tensors {
					dims := fmt.Sprint(t.dims)
					if t.scalar {
						if dims != "[1]" {
							dims += " not [1]"
						}
						dims = strings.Replace(dims, "[1]", "scalar", 1)
					}
					list = append(list, t.name+" "+t.dataType+" "+dims)
				}
				return strings.Join(list, ", ")
			}
			if got := fmt.Sprintf("%d: %s → %s", c.maxBatch, side(c.inputs), side(c.outputs)); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

// modelConfig describes the written part of Triton's message ModelConfig, with its field numbers, so that
// protobuf's own parser can check the text.
func modelConfig(t *testing.T) protoreflect.MessageDescriptor {
	t.Helper()
	const text = `
		name: "model_config.proto" package: "inference" syntax: "proto3"
		enum_type { name: "DataType"
			value { name: "TYPE_INVALID" number: 0 } value { name: "TYPE_BOOL" number: 1 }
			value { name: "TYPE_UINT8" number: 2 } value { name: "TYPE_UINT16" number: 3 } value { name: "TYPE_UINT32" number: 4 } value { name: "TYPE_UINT64" number: 5 }
			value { name: "TYPE_INT8" number: 6 } value { name: "TYPE_INT16" number: 7 } value { name: "TYPE_INT32" number: 8 } value { name: "TYPE_INT64" number: 9 }
			value { name: "TYPE_FP16" number: 10 } value { name: "TYPE_FP32" number: 11 } value { name: "TYPE_FP64" number: 12 }
			value { name: "TYPE_STRING" number: 13 } value { name: "TYPE_BF16" number: 14 } }
		message_type { name: "ModelTensorReshape" field { name: "shape" number: 1 type: TYPE_INT64 label: LABEL_REPEATED } }
		message_type { name: "ModelInput"
			field { name: "name" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL }
			field { name: "data_type" number: 2 type: TYPE_ENUM type_name: ".inference.DataType" label: LABEL_OPTIONAL }
			field { name: "dims" number: 4 type: TYPE_INT64 label: LABEL_REPEATED }
			field { name: "reshape" number: 5 type: TYPE_MESSAGE type_name: ".inference.ModelTensorReshape" label: LABEL_OPTIONAL } }
		message_type { name: "ModelOutput"
			field { name: "name" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL }
			field { name: "data_type" number: 2 type: TYPE_ENUM type_name: ".inference.DataType" label: LABEL_OPTIONAL }
			field { name: "dims" number: 3 type: TYPE_INT64 label: LABEL_REPEATED }
			field { name: "reshape" number: 5 type: TYPE_MESSAGE type_name: ".inference.ModelTensorReshape" label: LABEL_OPTIONAL }
			field { name: "label_filename" number: 4 type: TYPE_STRING label: LABEL_OPTIONAL } }
		message_type { name: "ModelDynamicBatching" }
		message_type { name: "ModelParameter" field { name: "string_value" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL } }
		message_type { name: "ModelVersionPolicy"
			nested_type { name: "Latest" field { name: "num_versions" number: 1 type: TYPE_UINT32 label: LABEL_OPTIONAL } }
			field { name: "latest" number: 1 type: TYPE_MESSAGE type_name: ".inference.ModelVersionPolicy.Latest" label: LABEL_OPTIONAL } }
		message_type { name: "ModelConfig"
			nested_type { name: "ParametersEntry" options { map_entry: true }
				field { name: "key" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL }
				field { name: "value" number: 2 type: TYPE_MESSAGE type_name: ".inference.ModelParameter" label: LABEL_OPTIONAL } }
			field { name: "name" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL }
			field { name: "backend" number: 17 type: TYPE_STRING label: LABEL_OPTIONAL }
			field { name: "version_policy" number: 3 type: TYPE_MESSAGE type_name: ".inference.ModelVersionPolicy" label: LABEL_OPTIONAL }
			field { name: "max_batch_size" number: 4 type: TYPE_INT32 label: LABEL_OPTIONAL }
			field { name: "input" number: 5 type: TYPE_MESSAGE type_name: ".inference.ModelInput" label: LABEL_REPEATED }
			field { name: "output" number: 6 type: TYPE_MESSAGE type_name: ".inference.ModelOutput" label: LABEL_REPEATED }
			field { name: "dynamic_batching" number: 11 type: TYPE_MESSAGE type_name: ".inference.ModelDynamicBatching" label: LABEL_OPTIONAL }
			field { name: "parameters" number: 14 type: TYPE_MESSAGE type_name: ".inference.ModelConfig.ParametersEntry" label: LABEL_REPEATED } }`
	var file descriptorpb.FileDescriptorProto
	if err := prototext.Unmarshal([]byte(text), &file); err != nil {
		t.Fatal(err)
	}
	d, err := protodesc.NewFile(&file, nil)
	if err != nil {
		t.Fatal(err)
	}
	return d.Messages().ByName("ModelConfig")
}

func TestTritonConfigurationIsProtobufText(t *testing.T) {
	t.Parallel()
	odd := []string{`a "quoted" \ name`, "line\nbreak\ttab\x00\x7f", "größe/模型:0", "#", "' "}
	c := tritonConfig{name: odd[0], maxBatch: 16, labelled: odd[2],
		inputs: []tritonTensor{{odd[1], "TYPE_STRING", []int64{-1, 3}, false}}}
	for i, name := range odd {
		c.outputs = append(c.outputs, tritonTensor{name, "TYPE_FP32", []int64{1}, i%2 == 1})
	}
	metadata := map[string]string{"mfgs.method": odd[1], "mfgs.labels": "[]", "author": "\xff"}
	text := c.text(metadata)
	got := dynamicpb.NewMessage(modelConfig(t))
	if err := prototext.Unmarshal(text, got); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	// The wanted message is built by hand, in protobuf's canonical spelling.
	quoted := func(s string) string {
		b, err := prototext.Marshal(&descriptorpb.FileDescriptorProto{Name: &s})
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimPrefix(string(b), "name:")
	}
	var b strings.Builder
	fmt.Fprintf(&b, "name: %s backend: 'onnxruntime' max_batch_size: 16 dynamic_batching: {} version_policy: {latest: {num_versions: 1}}\n", quoted(odd[0]))
	fmt.Fprintf(&b, "input: {name: %s data_type: TYPE_STRING dims: -1 dims: 3}\n", quoted(odd[1]))
	for i, name := range odd {
		extra := ""
		switch {
		case i%2 == 1:
			extra = "reshape: {}"
		case i == 2:
			extra = "label_filename: 'labels.txt'"
		}
		fmt.Fprintf(&b, "output: {name: %s data_type: TYPE_FP32 dims: 1 %s}\n", quoted(name), extra)
	}
	fmt.Fprintf(&b, "parameters: {key: 'mfgs.method' value: {string_value: %s}}\n", quoted(odd[1]))
	want := dynamicpb.NewMessage(modelConfig(t))
	if err := prototext.Unmarshal([]byte(b.String()), want); err != nil {
		t.Fatal(err)
	}
	// Messages of two descriptors are never equal: their text is compared.
	show := func(m proto.Message) string { return strings.Join(strings.Fields(prototext.Format(m)), " ") }
	if show(got) != show(want) {
		t.Errorf("the configuration\n%s\nreads\n%s\nwant\n%s", text, show(got), show(want))
	}

	c.maxBatch = 1
	if strings.Contains(string(c.text(nil)), "dynamic_batching") {
		t.Error("requests are put together into batches of one")
	}
}

func TestTritonModelsHaveTheLayoutThatItLooksFor(t *testing.T) {
	t.Parallel()
	fake := func(name string) onnx.File { return text(name, []byte("content of "+name)) }
	for _, test := range []struct {
		model  []onnx.File
		labels []string
		want   string
	}{
		{[]onnx.File{fake("model.onnx")}, nil, "1/model.onnx config.pbtxt"},
		{[]onnx.File{fake("model.onnx")}, []string{"a"}, "1/model.onnx labels.txt config.pbtxt"},
		{[]onnx.File{fake("model.onnx"), fake("model.onnx.data")}, []string{"a", "two\r\nlines", ""}, "1/model.onnx/model.onnx 1/model.onnx/model.onnx.data labels.txt config.pbtxt"},
	} {
		c := &tritonConfig{name: "m", labelled: "p", outputs: []tritonTensor{{"p", "TYPE_FP32", []int64{3}, false}}}
		files := c.layOut(test.model, test.labels, nil)
		contents := map[string]string{}
		var names []string
		for _, f := range files {
			var b strings.Builder
			if err := f.Write(&b); err != nil || int64(b.Len()) != f.Size {
				t.Fatalf("%s: wrote %d bytes of %d, %v", f.Name, b.Len(), f.Size, err)
			}
			names, contents[f.Name] = append(names, f.Name), b.String()
		}
		if got := strings.Join(names, " "); got != test.want {
			t.Errorf("got %s, want %s", got, test.want)
		}
		for i, f := range test.model {
			if got := contents[names[i]]; got != "content of "+f.Name {
				t.Errorf("%s holds %q", names[i], got)
			}
		}
		if labelled := strings.Contains(contents["config.pbtxt"], `label_filename: "labels.txt"`); labelled != (test.labels != nil) {
			t.Errorf("labels %q are named: %t", test.labels, labelled)
		}
		if len(test.labels) > 1 && contents["labels.txt"] != "a\ntwo  lines\n\n" {
			t.Errorf("labels.txt is %q", contents["labels.txt"])
		}
	}
}

func TestTritonNames(t *testing.T) {
	for name, ok := range map[string]bool{
		"digits": true, "resnet-50_v1.5": true, "ziffern_größe": true, "7": true, "_": true, strings.Repeat("x", 200): true,
		"": false, ".": false, "..": false, ".hidden": false, "-flag": false, "a/b": false, `a\b`: false, "a b": false, " ": false, "a\n": false,
		"a:b": false, "a?b": false, "\xff": false, "\u200b": false, strings.Repeat("x", 201): false,
	} {
		if err := CheckTritonName(name); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		} else if !ok {
			says(t, err, fmt.Sprintf("%q", name), "want letters, digits")
		}
	}
	for dir, want := range map[string]string{
		"digits": "digits", "a/b/digits.mfgs": "digits", "my digits, again": "my_digits__again", "/": "", ".mfgs": "", "a/..cache": "", "": "",
	} {
		name, err := tritonName(filepath.FromSlash(dir))
		if name != want || (err == nil) != (want != "") {
			t.Errorf("%q gives %q, %v; want %q", dir, name, err, want)
		}
	}
	dir := t.TempDir()
	t.Chdir(dir)
	if name, err := tritonName("."); name != filepath.Base(dir) || err != nil {
		t.Errorf("the current folder, %s, gives %q, %v", dir, name, err)
	}
}

func TestOnlyWhatAnExportWroteIsReplaced(t *testing.T) {
	t.Parallel()
	config := tritonMark + "name: \"m\"\n"
	for name, test := range map[string]struct {
		files  map[string]string
		reason string // "": it is replaced
	}{
		"a model":              {map[string]string{"config.pbtxt": config, "1/model.onnx": "m"}, ""},
		"labels":               {map[string]string{"config.pbtxt": config, "1/model.onnx": "m", "labels.txt": "a"}, ""},
		"weights of their own": {map[string]string{"config.pbtxt": config, "1/model.onnx/model.onnx": "m", "1/model.onnx/model.onnx.data": "w"}, ""},

		"nothing":                 {nil, "no file config.pbtxt"},
		"another's model":         {map[string]string{"config.pbtxt": "name: \"m\"\n" + config, "1/model.onnx": "m"}, "not written by mfgs export"},
		"a folder of that name":   {map[string]string{"config.pbtxt/x": ""}, "no file config.pbtxt"},
		"another version":         {map[string]string{"config.pbtxt": config, "1/model.onnx": "m", "2/model.onnx": "m"}, "it holds 2, which"},
		"a note":                  {map[string]string{"config.pbtxt": config, "README": "mine"}, "it holds README, which"},
		"a folder of labels":      {map[string]string{"config.pbtxt": config, "labels.txt/a": "mine"}, "it holds labels.txt, which"},
		"more beside the model":   {map[string]string{"config.pbtxt": config, "1/model.onnx": "m", "1/model.plan": "m"}, "it holds 1/model.plan, which"},
		"more beside the weights": {map[string]string{"config.pbtxt": config, "1/model.onnx/a.bin": "w"}, "it holds 1/model.onnx/a.bin, which"},
		"a version that is none":  {map[string]string{"config.pbtxt": config, "1": "m"}, "it holds 1, which"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, content := range test.files {
				write(t, dir, file, []byte(content))
			}
			err := replaceableTriton(dir)
			if test.reason == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			says(t, err, dir+" is not replaced", test.reason)
		})
	}
	dir := t.TempDir()
	if err := os.Symlink(dir, filepath.Join(dir, "link")); err == nil { // where links can be made
		says(t, replaceableTriton(filepath.Join(dir, "link")), "not a folder")
	}
	says(t, replaceableTriton(write(t, dir, "file", nil)), "not a folder")
}
