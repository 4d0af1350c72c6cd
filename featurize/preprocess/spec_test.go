package preprocess

import (
	"bytes"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/internal/approx"
	"github.com/mfgs/mfgs/onnx/tensor"
	"gopkg.in/yaml.v3"
)

func TestLoad(t *testing.T) {
	t.Parallel()
	got, err := Load(strings.NewReader(`
resize: {size: 256, mode: shortest, filter: bicubic}
crop: {width: 200, height: 224}
color: BGR
scale: 0.5
mean: [1, 2, 3]
std: [4]
layout: NHWC
flatten: true
`))
	want := Spec{
		Resize: &Resize{Size: 256, Mode: Shortest, Filter: Bicubic}, Crop: &Crop{Width: 200, Height: 224},
		Color: BGR, Scale: .5, Mean: []float64{1, 2, 3}, Std: []float64{4}, Layout: NHWC, Flatten: true,
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
}

// The schema printed in the package documentation is a Spec, and so are the examples
// that follow it.
func TestDocumentedSchemaLoads(t *testing.T) {
	t.Parallel()
	src, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string // of code
	code := false
	for line := range strings.Lines(string(src)) {
		text, ok := strings.CutPrefix(line, "//\t")
		if ok && !code {
			blocks = append(blocks, "")
		}
		if code = ok; ok {
			blocks[len(blocks)-1] += text
		}
	}
	if len(blocks) != 3 {
		t.Fatalf("%d blocks of code", len(blocks))
	}
	load := func(text string) Spec {
		s, err := Load(strings.NewReader(text))
		if err != nil {
			t.Errorf("%v from\n%s", err, text)
			return Spec{Resize: &Resize{}, Pad: &Pad{}, Crop: &Crop{}}
		}
		return s
	}
	// Of settings that exclude each other, keep one.
	without := func(text, from, to string) string {
		i, j := strings.Index(text, from), strings.Index(text, to)
		if i < 0 || j < i {
			t.Fatalf("no %s before %s in\n%s", from, to, text)
		}
		return text[:i] + text[j:]
	}
	schema := without(blocks[0], "  width: 224", "  mode: shortest")
	shortest := load(without(without(schema, "pad:", "crop:"), "  width: 224", "color:"))
	if shortest.Resize == nil || shortest.Resize.Size != 256 || shortest.Crop == nil || len(shortest.Mean) != 3 ||
		shortest.Scale != 1./255 {
		t.Errorf("%+v", shortest)
	}
	values := without(strings.Replace(without(schema, "crop:", "color:"), "mode: shortest", "mode: fit", 1), "  value: 114",
		"  values:")
	if fit := load(values); !reflect.DeepEqual(fit.Pad, &Pad{Values: []float64{124, 116, 104}, Position: Centre}) {
		t.Errorf("%+v", fit)
	}
	if s := load(blocks[1]); !reflect.DeepEqual(s.Resize, &Resize{Width: 640, Height: 640, Mode: Fit}) ||
		!reflect.DeepEqual(s.Pad, &Pad{Value: 114}) {
		t.Errorf("%+v %+v", s.Resize, s.Pad)
	}
	if s := load(blocks[2]); !reflect.DeepEqual(s.Resize, &Resize{Width: 192, Height: 48, Mode: Height}) ||
		!reflect.DeepEqual(s.Pad, &Pad{Value: 127.5, Position: Corner}) {
		t.Errorf("%+v %+v", s.Resize, s.Pad)
	}
}

// Width and height may stand in size, as in other tools' files.
func TestSizeMayBeWidthAndHeight(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Spec{
		"resize: {size: {width: 192, height: 48}}":                                              {Resize: &Resize{Width: 192, Height: 48}},
		"resize: {filter: nearest, size: {height: 48, width: 192}, mode: fit}":                  {Resize: &Resize{Width: 192, Height: 48, Mode: Fit, Filter: Nearest}},
		"resize:\n  size:\n    width: 192\n    height: 48\ncrop: {size: {width: 9, height: 8}}": {Resize: &Resize{Width: 192, Height: 48}, Crop: &Crop{Width: 9, Height: 8}},
		"resize: {size: &s {width: 30, height: 40}}\ncrop: {size: *s}":                          {Resize: &Resize{Width: 30, Height: 40}, Crop: &Crop{Width: 30, Height: 40}},
	} {
		got, err := Load(strings.NewReader(text))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v %+v, %v", text, got.Resize, got.Crop, err)
		}
	}
}

func TestBadSpecsAreRefused(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "preprocessing: the file is empty",
		"scale: 1 #" + strings.Repeat("x", 1<<20): "the file is longer than 1048576 bytes",
		"sclae: 1":                            "unknown field: line 1: field sclae",
		"scale: x":                            `line 1: scale is "x", want a number`,
		"[1]":                                 "line 1: is a list, want a mapping",
		"color: RGB\nmean: [1, x]":            `line 2: mean is "x", want a number`,
		"exif: &yes maybe":                    `line 1: exif is "maybe", want true or false`,
		"scale: 1\n---\nscale: 2":             "more than one YAML document",
		"scale: -1":                           "scale -1 is not a positive number",
		"scale: .nan":                         "scale NaN is not a positive number",
		"std: [0]":                            "std 0 is not positive",
		"mean: [.inf]":                        "mean and std must be finite",
		"mean: [1, 2]":                        "mean has 2 numbers; want 1 or 3",
		"{color: grey, mean: [1, 2, 3]}":      "mean has 3 numbers for grey; want 1 or 1",
		"{color: RGB, std: [1, 2]}":           "std has 2 numbers for RGB; want 1 or 3",
		"color: rgb":                          `color "rgb" is unknown`,
		"layout: CHW":                         `layout "CHW" is unknown`,
		"resize: {}":                          "resize takes either size, or width and height",
		"resize: {size: 1, width: 2}":         "resize takes either size, or width and height",
		"resize: {width: 2}":                  "resize takes either size, or width and height",
		"resize: {size: -1}":                  "resize to -1 pixels; want 1 to 16384",
		"crop: {size: 99999}":                 "crop to 99999 pixels",
		"resize: {size: 1, mode: longest}":    `resize mode "longest" is unknown`,
		"resize: {size: 1, filter: mitchell}": `resize filter "mitchell" is unknown`,
		"resize: {width: 1, height: 1, mode: shortest}": "takes size, not width and height",
		"{resize: {size: 10}, crop: {size: 11}}":        "crop to 11×11 is larger than what resize leaves",

		"resize: {size: {width: 2}}":                               "resize takes either size, or width and height",
		"resize: {size: {width: 2, height: 3, depth: 4}}":          "unknown field: line 1: field depth",
		"resize: {size: {width: 2, height: 3}, width: 2}":          `"width" already defined`,
		"resize: {size: 2, sise: 3}":                               "unknown field: line 1: field sise",
		"crop: {size: 2, mode: exact}":                             "unknown field: line 1: field mode",
		"resize: {size: [2, 3]}":                                   "line 1: resize.size is a list, want a whole number",
		"crop:\n  size: {width: 2, height: 2.5}":                   `line 2: crop.height is "2.5", want a whole number`,
		"resize: [2, 3]":                                           "line 1: resize is a list, want a mapping",
		"resize: {size: {width: 16385, height: 3}, mode: fit}":     "resize to 16385 pixels; want 1 to 16384",
		"resize: {width: 16384, height: 16384}":                    "resize to 16384×16384 pixels; want at most 100000000 in all",
		"{resize: {size: 16384, mode: fit}, pad: {}}":              "resize to 16384×16384 pixels; want at most 100000000 in all",
		"pad: {value: 3}":                                          "pad needs a resize in mode fit or height",
		"{resize: {width: 2, height: 3}, pad: {value: 3}}":         "pad needs a resize in mode fit or height",
		"{resize: {size: 2}, pad: {value: 3}}":                     "pad needs a resize in mode fit or height",
		"{resize: {size: 2, mode: fit}, pad: {value: -1}}":         "pad value -1 is not a number from 0 to 255",
		"{resize: {size: 2, mode: fit}, pad: {value: 255.5}}":      "pad value 255.5 is not a number from 0 to 255",
		"{resize: {size: 2, mode: fit}, pad: {value: .nan}}":       "pad value NaN is not a number from 0 to 255",
		"{resize: {size: 2, mode: fit}, pad: {value: [1, 2, 3]}}":  "line 1: pad.value is a list, want a number",
		"{resize: {size: 2, mode: fit}, pad: {position: left}}":    `pad position "left" is unknown; want centre or corner`,
		"{resize: {size: 2, mode: fit}, pad: {size: 4}}":           "unknown field: line 1: field size",
		"{resize: {size: 9, mode: height}, crop: {size: 2}}":       "crop cannot be combined with resize mode height: use pad",
		"{resize: {size: 9, mode: fit}, crop: {size: 2}}":          "crop after resize mode fit needs pad",
		"{crop: {size: 2}, pad: {position: corner}}":               "position corner needs a resize without a crop",
		"{crop: {size: 2, round: up}}":                             `crop round "up" is unknown; want even or down`,
		"{crop: {size: 2}, pad: {values: [1, 2]}}":                 "pad takes either value, or values for 3 channels, not 2",
		"{crop: {size: 2}, pad: {value: 1, values: [1, 2, 3]}}":    "pad takes either value, or values",
		"{crop: {size: 2}, pad: {values: [1, 2, 256]}}":            "pad value 256 is not a number from 0 to 255",
		"{color: grey, crop: {size: 2}, pad: {values: [1, 2, 3]}}": "pad values has 3 numbers for grey",
	} {
		_, err := Load(strings.NewReader(text))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v, want %s on one line", text, err, want)
		}
	}
}

func FuzzPreprocessYAML(f *testing.F) {
	f.Add([]byte("resize: {size: 256}\ncrop: {size: 224}\nmean: [1, 2, 3]"))
	f.Add([]byte("{color: grey, layout: NHWC, scale: 1e-300}"))
	f.Add([]byte("{resize: {size: {width: 64, height: 48}, mode: height}, pad: {value: 127.5, position: corner}}"))
	f.Add([]byte("resize: &a {size: *a, <<: *a}"))
	f.Add([]byte("&a [*a]"))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := Load(bytes.NewReader(b))
		if err != nil {
			return
		}
		// An accepted spec survives being recorded, and New does not panic for it.
		text, err := yaml.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Load(bytes.NewReader(text))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if second, _ := yaml.Marshal(again); !bytes.Equal(text, second) {
			t.Fatalf("%s became %s", text, second)
		}
		if _, err := New(s, Target{Shape: []int64{-1, 3, -1, -1}, Type: tensor.Float32}); err != nil &&
			strings.Contains(err.Error(), "\n") {
			t.Fatal(err)
		}
	})
}

func TestDefaultFollowsTheModel(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		shape []int64
		elem  tensor.Type
		want  Spec
	}{
		{[]int64{-1, 3, 224, 224}, tensor.Float32, Spec{Color: RGB, Scale: 1. / 255, Layout: NCHW}},
		{[]int64{-1, 224, 224, 3}, tensor.Float16, Spec{Color: RGB, Scale: 1. / 255, Layout: NHWC}},
		{[]int64{1, 1, 28, 28}, tensor.Float32, Spec{Color: Grey, Scale: 1. / 255, Layout: NCHW}},
		{[]int64{-1, 28, 28}, tensor.Float32, Spec{Color: Grey, Scale: 1. / 255}},
		{[]int64{-1, 784}, tensor.Float32, Spec{Scale: 1. / 255, Flatten: true}},
		{[]int64{-1, 32, 32, 3}, tensor.Uint8, Spec{Color: RGB, Layout: NHWC}},
		{[]int64{-1, -1, -1, -1}, tensor.Float32, Spec{Scale: 1. / 255, Layout: NCHW}},
		{[]int64{-1, 128}, tensor.Int64, Spec{Flatten: true}},
		{[]int64{-1}, tensor.Float32, Spec{Scale: 1. / 255}},
	} {
		got := For(Target{Shape: c.shape, Type: c.elem})
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%v %s: %+v, want %+v", c.shape, c.elem, got, c.want)
		}
	}
}

func TestPresets(t *testing.T) {
	t.Parallel()
	model := func(side int64) Target { return Target{Shape: []int64{-1, 3, side, side}, Type: tensor.Float32} }
	for _, name := range Presets {
		s, err := Preset(name, model(224))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if _, err := New(s, model(224)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if geometry := name == "imagenet" || name == "mobilenet" || name == "caffe"; (s.Resize != nil) != geometry || (s.Crop != nil) != geometry {
			t.Errorf("%s: resize %v, crop %v", name, s.Resize, s.Crop)
		}
	}
	for side, resize := range map[int64]int{224: 256, 128: 146, 299: 342, -1: 256} {
		s, err := Preset("imagenet", model(side))
		if err != nil || s.Resize.Size != resize {
			t.Errorf("side %d: resize %+v, %v; want %d", side, s.Resize, err, resize)
		}
	}
	oblong, err := Preset("imagenet", Target{Shape: []int64{-1, 3, 70, 112}, Type: tensor.Float32})
	if err != nil || oblong.Resize.Size != 128 || oblong.Crop.Width != 112 || oblong.Crop.Height != 70 {
		t.Errorf("an oblong model: resize %+v, crop %+v, %v", oblong.Resize, oblong.Crop, err)
	}
	if _, err := Preset("imagent", model(224)); err == nil || !strings.Contains(err.Error(), `no preprocessing preset "imagent"; want a YAML file or one of unit, none`) {
		t.Error(err)
	}

	// Black and white, worked out by hand, channels in the order of Color.
	for name, want := range map[string][2][3]float64{
		"unit":             {{0, 0, 0}, {1, 1, 1}},
		"none":             {{0, 0, 0}, {255, 255, 255}},
		"imagenet-pixels":  {{-0.485 / 0.229, -0.456 / 0.224, -0.406 / 0.225}, {0.515 / 0.229, 0.544 / 0.224, 0.594 / 0.225}},
		"mobilenet-pixels": {{-1, -1, -1}, {1, 1, 1}},
		"caffe-pixels":     {{-104, -117, -123}, {151, 138, 132}},
	} {
		s, err := Preset(name, model(2))
		if err != nil {
			t.Fatal(err)
		}
		p, err := New(s, model(2))
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range []uint8{0, 255} {
			dst := make([]float32, 12)
			img := Image{Shape: []int{2, 2, 3}, Layout: tensor.HWC, Data: bytes.Repeat([]byte{v}, 12)}
			if err := p.Apply(img, dst); err != nil {
				t.Fatal(err)
			}
			for k := range dst {
				if !approx.Equal(float64(dst[k]), want[i][k/4], 1e-6) {
					t.Errorf("%s of %d: %v, want %v", name, v, dst, want[i])
				}
			}
		}
	}
}
