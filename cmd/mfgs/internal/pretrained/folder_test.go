package pretrained_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/cmd/mfgs/internal/pretrained"
	"github.com/mfgs/mfgs/featurize/preprocess"
	"github.com/mfgs/mfgs/onnx/tensor"
)

const (
	vit  = `{"image_processor_type": "ViTImageProcessor", "size": {"height": 32, "width": 32}}`
	pets = `{"model_type": "swin", "id2label": {"1": "dog", "0": "cat"}, "label2id": {"cat": 0, "dog": 1}}`
	timm = `{"architecture": "resnet18", "pretrained_cfg": {"input_size": [3, 32, 32]}, "label_names": ["cat", "dog"]}`
)

// write makes a folder with files and returns it.
func write(t *testing.T, contents map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "a folder")
	for name, text := range contents {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestSettingsAreReadFromAFolder(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		files                       map[string]string
		model, processor, tokenizer string
		classes                     []string
	}{
		"save_pretrained": {map[string]string{"model.onnx": "", "config.json": pets, "preprocessor_config.json": vit}, "model.onnx",
			"ViTImageProcessor", "", []string{"cat", "dog"}},
		"Optimum": {map[string]string{"onnx/model.onnx": "", "onnx/model_quantized.onnx": "", "config.json": pets,
			"preprocessor_config.json": vit}, "onnx/model.onnx", "ViTImageProcessor", "", []string{"cat", "dog"}},
		"processor by the model's type": {map[string]string{"model.onnx": "", "config.json": pets,
			"preprocessor_config.json": `{"size": 32, "do_resize": true}`}, "model.onnx", "ViTImageProcessor", "", []string{"cat", "dog"}},
		"timm":       {map[string]string{"resnet.onnx": "", "config.json": timm}, "resnet.onnx", "timm, resnet18", "", []string{"cat", "dog"}},
		"text":       {map[string]string{"model.onnx": "", "config.json": pets, "tokenizer.json": "{}"}, "model.onnx", "", "tokenizer.json", []string{"cat", "dog"}},
		"sound":      {map[string]string{"model.onnx": "", "preprocessor_config.json": `{"do_normalize": true, "sampling_rate": 16000}`}, "model.onnx", "", "", nil},
		"no names":   {map[string]string{"model.onnx": "", "config.json": `{"id2label": {"0": "LABEL_0", "1": "LABEL_1"}}`}, "model.onnx", "", "", nil},
		"model only": {map[string]string{"a.ONNX": "", "config.json": "{}"}, "a.ONNX", "", "", nil},
	} {
		dir := write(t, c.files)
		f, err := pretrained.Open(dir)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		tokenizer := ""
		if c.tokenizer != "" {
			tokenizer = filepath.Join(dir, c.tokenizer)
		}
		if f.Model != filepath.Join(dir, c.model) || f.Processor != c.processor || f.Tokenizer != tokenizer ||
			!slices.Equal(f.Classes, c.classes) || (f.Preprocess != nil) != (c.processor != "") || f.Unusable != nil {
			t.Errorf("%s: %+v", name, f)
		}
		beside := pretrained.Beside(f.Model)
		if beside.Processor != f.Processor || !slices.Equal(beside.Classes, f.Classes) {
			t.Errorf("%s, from the model: %+v", name, beside)
		}
	}
}

func TestFoldersThatAreRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"no model":   {map[string]string{"x.txt": ""}, "no ONNX file in the folder: want model.onnx or onnx/model.onnx"},
		"PyTorch":    {map[string]string{"model.safetensors": ""}, "the model is not ONNX, but model.safetensors: export it with Optimum: optimum-cli export onnx --model '"},
		"several":    {map[string]string{"a.onnx": "", "b.onnx": ""}, "several ONNX files, and none is model.onnx: give one of a.onnx, b.onnx"},
		"no JSON":    {map[string]string{"model.onnx": "", "config.json": "{"}, "config.json: not JSON"},
		"gap":        {map[string]string{"model.onnx": "", "config.json": `{"id2label": {"0": "a", "2": "b"}}`}, `label "2" of 2 names`},
		"no text":    {map[string]string{"model.onnx": "", "config.json": `{"id2label": {"0": 1}}`}, "the name of class 0 is not a string"},
		"same label": {map[string]string{"model.onnx": "", "config.json": `{"label2id": {"a": 0, "b": 0}}`}, "have the label 0"},
	} {
		dir := write(t, c.files)
		if _, err := pretrained.Open(dir); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
		// Beside a model file it may belong to something else.
		if _, ok := c.files["config.json"]; ok {
			if f := pretrained.Beside(filepath.Join(dir, "model.onnx")); f.Unusable == nil || f.Classes != nil {
				t.Errorf("%s: from the model %+v", name, f)
			}
		}
	}
	f, err := pretrained.Open(write(t, map[string]string{"model.onnx": "", "preprocessor_config.json": `{"image_processor_type": "DonutImageProcessor"}`}))
	if err != nil || f.Unusable == nil || !strings.Contains(f.Unusable.Error(), "support DonutImageProcessor") {
		t.Errorf("%+v, %v", f, err)
	}
}

// ImageNet has two classes called crane.
func TestNamesOfSeveralClassesGetTheirLabel(t *testing.T) {
	t.Parallel()
	names, err := pretrained.Classes([]byte(`{"id2label": {"0": "crane", "1": "maillot", "2": "crane"}}`))
	if want := []string{"crane (0)", "maillot", "crane (2)"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("%q, %v", names, err)
	}
	if _, err := pretrained.Classes([]byte(`{"id2label": {"0": "a", "1": "a", "2": "a (1)"}}`)); err == nil {
		t.Error("a name that stands for two classes is taken")
	}
}

func TestSuggestions(t *testing.T) {
	t.Parallel()
	target := func(typ tensor.Type, shape ...int64) preprocess.Target {
		return preprocess.Target{Name: "x", Shape: append([]int64{-1}, shape...), Type: typ}
	}
	beside, err := pretrained.Open(write(t, map[string]string{"model.onnx": "", "preprocessor_config.json": vit}))
	if err != nil {
		t.Fatal(err)
	}
	broken, err := pretrained.Open(write(t, map[string]string{"model.onnx": "", "preprocessor_config.json": `{"image_processor_type": "SamImageProcessor"}`}))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		inputs []preprocess.Target
		beside *pretrained.Folder
		want   string // "" for none
		guess  bool
		reason string
	}{
		{[]preprocess.Target{target(tensor.Float32, 3, 224, 224)}, nil, "imagenet", true, "channels first"},
		{[]preprocess.Target{target(tensor.Float32, 3, -1, -1)}, nil, "imagenet", true, "channels first"},
		{[]preprocess.Target{target(tensor.Float16, 224, 224, 3)}, nil, "mobilenet", true, "channels last"},
		{[]preprocess.Target{target(tensor.Float32, 3, 32, 32)}, nil, "unit", true, "small images"},
		{[]preprocess.Target{target(tensor.Float32, 1, 28, 28)}, nil, "unit", true, "one grey channel"},
		{[]preprocess.Target{target(tensor.Uint8, 224, 224, 3)}, nil, "none", true, "the model takes bytes"},
		{[]preprocess.Target{target(tensor.Int64, -1)}, nil, "", false, ""},
		{[]preprocess.Target{target(tensor.Float32, 30)}, nil, "", false, ""},
		{[]preprocess.Target{target(tensor.Float32, 3, 9, 9), target(tensor.Float32, 3)}, nil, "", false, ""},
		{[]preprocess.Target{target(tensor.Float32, 3, 32, 32)}, beside, beside.PreprocessFile, false, "ViTImageProcessor is next to the model"},
		{[]preprocess.Target{target(tensor.Float32, 3, 224, 224)}, beside, "imagenet", true, "does not fit the model"},
		{[]preprocess.Target{target(tensor.Float32, 3, 224, 224)}, broken, "imagenet", true, "does not support SamImageProcessor"},
	} {
		s, ok := pretrained.Suggest(c.inputs, c.beside)
		if ok != (c.want != "") || s.Preprocess != c.want || s.Guess != c.guess || !strings.Contains(s.Reason, c.reason) {
			t.Errorf("%v: %+v, want %s because %s", c.inputs, s, c.want, c.reason)
		}
	}
}

// A shell parses a quoted command into the original arguments.
func TestQuotedArgumentsComeBack(t *testing.T) {
	t.Parallel()
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"--model", "a b", "it's", "$HOME", "x[0:9]", "*", "", "a\nb", "~", "a=b", "`x`", "\\", "-", "ü", "!", "'"}
	out, err := exec.Command(shell, "-c", pretrained.Command(append([]string{"printf", "%s\\0"}, args...)...)).Output()
	if got := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00"); err != nil || !slices.Equal(got, args) {
		t.Errorf("%q, %v", got, err)
	}
}
