// Package published reads how images become a model's input as other libraries write it beside the
// model: a preprocessor_config.json of transformers, a config.json of timm ([Read]), and the
// transforms of torchvision's weights, by name ([Torchvision]).
//
// # What it equals
//
// Tensors equal those of transformers 5.23, timm 1.0.31 and torchvision 0.29, and of a JPEG file
// within 4 of 255, by what its decoder does: see [pixels.Decode]. What transformers does with
// Pillow instead of torchvision, it resizes a little otherwise: the two are off each other by 2 of
// 255 in seven of a million elements, and else by 1 at most. The exceptions:
//
//   - DINOv3ViTImageProcessor resizes fractions instead of bytes: within 1 of 255.
//   - Pillow 13 resizes in the other order where an image is made wider and lower: for timm and
//     torchvision's weights, at sharp edges, up to 2 of 255 with the filter bicubic and 3 with
//     lanczos.
//   - Where the filter nearest falls between two pixels, transformers takes one with Pillow, and
//     the other with torchvision. Here it is Pillow's.
//   - An image that is smaller than the crop by an odd number of pixels lies one pixel further
//     right and below in transformers with Pillow. Here it lies as with torchvision.
//
// Files are opened as the libraries' loaders do, without alpha and with palettes looked up. There is
// one exception: the loaders of timm and torchvision ignore an EXIF orientation. The transforms that
// they publish begin behind the loader and say nothing of it, so Exif is left open here, and image
// files are turned upright, as networks know them. transformers' load_image turns them, too.
//
// [pixels.Decode]: https://pkg.go.dev/github.com/mfgs/mfgs/featurize/pixels#Decode
package published

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mfgs/mfgs/featurize/preprocess"
	"github.com/mfgs/mfgs/internal/text"
)

// maxSide bounds the sides of images, as a Spec does.
const maxSide = 16384

// A config is a JSON object of which every key is accounted for: what nobody asked for in the
// end is refused.
type config struct {
	fields map[string]json.RawMessage
	used   map[string]bool
}

// ErrNone is that of a document which is no published configuration.
var ErrNone = errors.New("it says nothing of preprocessing: want a preprocessor_config.json of transformers, " +
	"or a config.json of timm")

// Read reads the configuration of preprocessing that another library wrote beside a model: a
// preprocessor_config.json of transformers, or a config.json of timm. modelType is the model_type
// of the model's config.json, by which transformers knows the processor where the file does not
// name one; it may be empty. from names what was read, as in "ViTImageProcessor" or "timm,
// resnet50".
//
// What the library would do and a Spec cannot say is an error that names it. Where transformers
// ignores a key, so does Read; a key that it cannot account for is refused.
func Read(document []byte, modelType string) (s preprocess.Spec, from string, err error) {
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(document, &fields); err != nil {
		return preprocess.Spec{}, "", fmt.Errorf("not a JSON object: %s", text.Line(err.Error()))
	}
	if nested, ok := fields["image_processor"]; ok { // a processor_config.json
		fields = map[string]json.RawMessage{}
		if err := json.Unmarshal(nested, &fields); err != nil {
			return preprocess.Spec{}, "", errors.New("image_processor is no JSON object")
		}
	}
	c := &config{fields: fields, used: map[string]bool{}}
	switch {
	case c.has("sampling_rate"): // of sounds
		err = ErrNone
	case c.has("pretrained_cfg"):
		s, from, err = c.timm()
	case c.hasAny(huggingFaceMarks...):
		s, from, err = c.huggingFace(modelType)
	case c.has("input_size"):
		s, from, err = c.timmConfig("timm")
	default:
		err = ErrNone
	}
	if err == nil {
		err = s.Validate()
	}
	if err != nil {
		if from != "" {
			err = fmt.Errorf("%s: %w", from, err)
		}
		return preprocess.Spec{}, "", err
	}
	return s, from, nil
}

// Recognise reports whether a document is for Read: a JSON object with none of a Spec's own fields.
func Recognise(document []byte) bool {
	fields := map[string]json.RawMessage{}
	if !bytes.HasPrefix(bytes.TrimSpace(document), []byte("{")) || json.Unmarshal(document, &fields) != nil {
		return false
	}
	for _, own := range []string{"resize", "pad", "crop", "color", "scale", "mean", "std", "layout", "flatten", "exif"} {
		if _, ok := fields[own]; ok {
			_, timm := fields["input_size"]
			return timm
		}
	}
	return len(fields) > 0
}

func (c *config) hasAny(keys ...string) bool { return slices.ContainsFunc(keys, c.has) }

// has reports whether key is there, and not null.
func (c *config) has(key string) bool {
	raw, ok := c.fields[key]
	return ok && string(bytes.TrimSpace(raw)) != "null"
}

// get decodes key into v, which stays as it is where the key is missing or null.
func (c *config) get(key, want string, v any) error {
	c.used[key] = true
	if !c.has(key) {
		return nil
	}
	if err := json.Unmarshal(c.fields[key], v); err != nil {
		return fmt.Errorf("%s is %s, want %s", key, text.Line(short(c.fields[key])), want)
	}
	return nil
}

func short(raw []byte) string {
	const most = 60
	if len(raw) > most {
		return string(raw[:most]) + "…"
	}
	return string(raw)
}

// ignore accounts for keys that change no pixel.
func (c *config) ignore(keys ...string) {
	for _, k := range keys {
		c.used[k] = true
	}
}

// rest refuses what nothing accounted for, but null, false and what is empty.
func (c *config) rest() error {
	var left []string
	for _, k := range slices.Sorted(maps.Keys(c.fields)) {
		v := strings.TrimSpace(string(c.fields[k]))
		if !c.used[k] && v != "null" && v != "false" && v != `""` && v != "[]" && v != "{}" {
			left = append(left, fmt.Sprintf("%s: %s", text.Line(short([]byte(k))), text.Line(short([]byte(v)))))
		}
	}
	if len(left) > 0 {
		return fmt.Errorf("mfgs does not know what %s asks for: write what is to be done as YAML", strings.Join(left, ", "))
	}
	return nil
}
