package published_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/cmd/mfgs/internal/published"
	"github.com/mfgs/mfgs/featurize/preprocess"
)

// read reads a document and checks that its source is named.
func read(t *testing.T, document, modelType string) (preprocess.Spec, string) {
	t.Helper()
	s, from, err := published.Read([]byte(document), modelType)
	if err != nil {
		t.Fatalf("%s: %v", document, err)
	}
	return s, from
}

// Missing keys have the defaults of transformers: testdata/defaults.json has the complete file of every class.
func TestDefaultsAreThoseOfTransformers(t *testing.T) {
	t.Parallel()
	file, err := os.ReadFile("testdata/defaults.json")
	if err != nil {
		t.Fatal(err)
	}
	var classes map[string]json.RawMessage
	if err := json.Unmarshal(file, &classes); err != nil {
		t.Fatal(err)
	}
	if len(classes) < 18 {
		t.Fatalf("%d classes", len(classes))
	}
	for name, full := range classes {
		want, from := read(t, string(full), "")
		got, _ := read(t, `{"image_processor_type": "`+name+`ImageProcessor"}`, "")
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
		if from != name+"ImageProcessor" {
			t.Errorf("%s is reported as from %s", name, from)
		}
	}
}

// Missing keys have the defaults of timm's create_transform: timm.data.constants and the defaults of its arguments.
func TestDefaultsAreThoseOfTimm(t *testing.T) {
	t.Parallel()
	read(t, `{"input_size": [3, 224, 224], "mean": [0.1, 0.2, 0.3], "std": [0.4, 0.5, 0.6]}`, "") // which leaves the defaults alone
	for _, document := range []string{`{"input_size": [3, 224, 224]}`,
		`{"input_size": [3, 224, 224], "crop_pct": null, "crop_mode": null, "interpolation": null, "mean": null, "std": null}`,
		`{"pretrained_cfg": {"crop_pct": 0}}`} {
		want := preprocess.Spec{Color: preprocess.RGB, Scale: 1. / 255,
			Mean: []float64{.485, .456, .406}, Std: []float64{.229, .224, .225},
			Resize: &preprocess.Resize{Size: 256, Mode: preprocess.Shortest, Filter: preprocess.Bicubic},
			Crop:   &preprocess.Crop{Width: 224, Height: 224}}
		if got, _ := read(t, document, ""); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", document, got, want)
		}
	}
}

// A crop of the whole resized image needs no padding.
func TestACropOfAllIsNotPadded(t *testing.T) {
	t.Parallel()
	for document, side := range map[string]int{
		`{"input_size": [3, 96, 96], "crop_pct": 1}`:                                                        96,
		`{"input_size": [3, 1, 1], "crop_pct": 1}`:                                                          1,
		`{"image_processor_type": "ConvNextImageProcessor", "size": {"shortest_edge": 224}, "crop_pct": 1}`: 224,
	} {
		s, _ := read(t, document, "")
		if s.Pad != nil || s.Resize.Size != side || s.Crop.Width != side {
			t.Errorf("%s: resize %+v, crop %+v, pad %+v", document, s.Resize, s.Crop, s.Pad)
		}
	}
	if s, _ := read(t, `{"input_size": [3, 96, 96], "crop_pct": 1.25}`, ""); s.Pad == nil {
		t.Error("a crop that is larger than the resized image is not padded")
	}
}

// Only transformers publishes a loader, which turns image files upright.
func TestOnlyTransformersSaysEXIF(t *testing.T) {
	t.Parallel()
	vision, err := published.Torchvision("resnet50")
	if err != nil || vision.Exif != nil {
		t.Errorf("torchvision: EXIF %v, %v", vision.Exif, err)
	}
	if timm, _ := read(t, `{"input_size": [3, 224, 224]}`, ""); timm.Exif != nil {
		t.Errorf("timm: EXIF %v", *timm.Exif)
	}
	if s, _ := read(t, `{"image_processor_type": "ViTImageProcessor"}`, ""); s.Exif == nil || !*s.Exif {
		t.Errorf("transformers: EXIF %v", s.Exif)
	}
}

// Files of older releases, and of other classes with the same steps, give the same Spec.
func TestEquivalentSettingsGiveTheSameSpec(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ a, b, modelType string }{
		"fast":              {a: `{"image_processor_type": "ViTImageProcessor"}`, b: `{"image_processor_type": "ViTImageProcessorFast"}`},
		"feature extractor": {a: `{"image_processor_type": "ViTImageProcessor"}`, b: `{"feature_extractor_type": "ViTFeatureExtractor"}`},
		"model type":        {a: `{"image_processor_type": "ViTImageProcessor", "size": 192}`, b: `{"size": 192, "do_resize": true}`, modelType: "swin"},
		"square size":       {a: `{"image_processor_type": "ViTImageProcessor", "size": {"height": 96, "width": 96}}`, b: `{"image_processor_type": "ViTImageProcessor", "size": 96}`},
		"shorter size":      {a: `{"image_processor_type": "CLIPImageProcessor", "size": {"shortest_edge": 96}, "crop_size": {"height": 90, "width": 90}}`, b: `{"image_processor_type": "CLIPFeatureExtractor", "size": 96, "crop_size": 90}`},
		"list of sides":     {a: `{"image_processor_type": "ViTImageProcessor", "size": {"height": 96, "width": 80}}`, b: `{"image_processor_type": "ViTImageProcessor", "size": [96, 80]}`},
		"null":              {a: `{"image_processor_type": "ViTImageProcessor"}`, b: `{"image_processor_type": "ViTImageProcessor", "size": null, "do_pad": null, "do_thumbnail": false}`},
		"processor config":  {a: `{"image_processor_type": "CLIPImageProcessor"}`, b: `{"processor_class": "CLIPProcessor", "image_processor": {"image_processor_type": "CLIPImageProcessor"}}`},
		"flat timm":         {a: `{"architecture": "x", "pretrained_cfg": {"input_size": [3, 64, 64], "mean": [0.5, 0.5, 0.5]}}`, b: `{"input_size": [3, 64, 64], "mean": [0.5, 0.5, 0.5]}`},
	} {
		a, _ := read(t, c.a, "")
		b, _ := read(t, c.b, c.modelType)
		if !reflect.DeepEqual(a, b) {
			t.Errorf("%s: %+v and %+v", name, a, b)
		}
	}
}

// A step that a Spec cannot express is refused by name.
func TestUnsupportedStepsAreRefusedByName(t *testing.T) {
	t.Parallel()
	const vit = `{"image_processor_type": "ViTImageProcessor", `
	for document, want := range map[string]string{
		`[]`:                                              "not a JSON object",
		`{}`:                                              "no preprocessing in it",
		`{"model_type": "vit"}`:                           "no preprocessing in it",
		`{"do_resize": true}`:                             "no image_processor_type",
		vit + `"do_thumbnail": true}`:                     "does not support do_thumbnail: true",
		vit + `"do_pad": true}`:                           "do_pad: true pads after the last step",
		vit + `"size_divisor": 32}`:                       "does not support size_divisor: 32",
		vit + `"auto_map": {"a": "b.c"}}`:                 "does not support auto_map",
		vit + `"resample": 6}`:                            "resample is 6, want a number from 0 to 5",
		vit + `"resample": "bicubic"}`:                    `resample is "bicubic", want a number`,
		vit + `"do_resize": "yes"}`:                       `do_resize is "yes", want true or false`,
		vit + `"rescale_factor": -1}`:                     "rescale_factor is -1",
		vit + `"rescale_factor": 0}`:                      "rescale_factor is 0, want a positive number",
		vit + `"image_std": [0, 1, 1]}`:                   "std 0 is not positive",
		vit + `"image_mean": [1, 2]}`:                     "mean has 2 numbers",
		vit + `"size": {"longest_edge": 9}}`:              "size limits the longer side",
		vit + `"size": {"height": 9}}`:                    "size: want height and width, or shortest_edge",
		vit + `"size": 99999}`:                            "resize to 99999 pixels; want 1 to 16384",
		vit + `"size": -4}`:                               "size: want height and width",
		vit + `"size": [1, 2, 3]}`:                        "size is [1, 2, 3], want a number",
		`{"image_processor_type": "DonutImageProcessor"}`: "does not support DonutImageProcessor",
		`{"image_processor_type": "ConvNextImageProcessor", "size": 224, "crop_pct": 0}`:        "crop_pct is 0",
		`{"image_processor_type": "ConvNextImageProcessor", "size": {"height": 1, "width": 1}}`: "size: want shortest_edge",
		`{"image_processor_type": "CLIPImageProcessor", "crop_size": {"shortest_edge": 9}}`:     "crop_size: want height and width",
		`{"image_processor_type": "CLIPImageProcessor", "use_square_size": true}`:               "does not support use_square_size: true",
		`{"image_processor": 3}`:                          "image_processor is not a JSON object",
		`{"pretrained_cfg": 3}`:                           "pretrained_cfg is 3",
		`{"pretrained_cfg": {"input_size": [3, 4]}}`:      "input_size is [3 4]",
		`{"pretrained_cfg": {"input_size": [4, 9, 9]}}`:   "1 or 3 channels",
		`{"pretrained_cfg": {"interpolation": "random"}}`: `interpolation is "random", want nearest`,
		`{"pretrained_cfg": {"crop_mode": "five"}}`:       `crop_mode is "five"`,
		`{"pretrained_cfg": {"crop_pct": 1e-9}}`:          "crop_pct is 1e-09",
		`{"pretrained_cfg": {"crop_pct": -1}}`:            "crop_pct is -1",
	} {
		_, _, err := published.Read([]byte(document), "")
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %s on one line", document, err, want)
		}
	}
	if _, _, err := published.Read([]byte(`{"do_resize": true}`), "whisper"); err == nil ||
		!strings.Contains(err.Error(), "does not know the processor of whisper") {
		t.Error(err)
	}
}

func TestTorchvisionNames(t *testing.T) {
	t.Parallel()
	named, err := published.Torchvision("ResNet50_Weights.IMAGENET1K_V2")
	if err != nil {
		t.Fatal(err)
	}
	if named.Resize.Size != 232 || named.Crop.Size != 224 {
		t.Errorf("%+v %+v", named.Resize, named.Crop)
	}
	for _, same := range []string{"resnet50", "ResNet50_Weights.DEFAULT", "resnet50_weights.imagenet1k_v2"} {
		if s, err := published.Torchvision(same); err != nil || !reflect.DeepEqual(s, named) {
			t.Errorf("%s: %+v, %v", same, s, err)
		}
	}
	for name, want := range map[string]string{
		"resnet":                      "want one such as",
		"":                            "want one such as",
		"ResNet50_Weights.IMAGENET2K": "available: ResNet50_Weights.IMAGENET1K_V1, ResNet50_Weights.IMAGENET1K_V2",
	} {
		if _, err := published.Torchvision(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
}

// Every line of the table gives a valid Spec.
func TestTheTableOfTorchvisionIsWhole(t *testing.T) {
	t.Parallel()
	table, err := os.ReadFile("torchvision.txt")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(table)) {
		name, _, _ := strings.Cut(line, " ")
		s, err := published.Torchvision(name)
		if err == nil {
			err = s.Validate()
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		n++
	}
	if n < 100 {
		t.Errorf("%d weights", n)
	}
}

// No document makes the reader panic, and its Spec is valid.
func FuzzPublished(f *testing.F) {
	files, err := filepath.Glob("testdata/configs/*.json")
	if err != nil || len(files) == 0 {
		f.Fatal(len(files), err)
	}
	for _, name := range files {
		document, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(document, "")
	}
	f.Add([]byte(`{"size": [1e9, 2]}`), "levit")
	f.Fuzz(func(t *testing.T, document []byte, modelType string) {
		s, _, err := published.Read(document, modelType)
		if err != nil {
			return
		}
		if err := s.Validate(); err != nil {
			t.Fatal(err)
		}
	})
}
