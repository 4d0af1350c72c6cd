// Package published reads the preprocessing that other libraries write beside a model: transformers'
// preprocessor_config.json, timm's config.json ([Read]), and the transforms of torchvision's weights, by name
// ([Torchvision]).
//
// # What it equals
//
// Tensors equal those of transformers 5.23, timm 1.0.31 and torchvision 0.29; for JPEG files within 4 of 255,
// because of the decoder: see [pixels.Decode]. transformers resizes slightly differently with Pillow than with
// torchvision: by 2 of 255 in seven of a million elements, and else by at most 1. The exceptions:
//
//   - DINOv3ViTImageProcessor resizes fractions instead of bytes: within 1 of 255.
//   - Pillow 13 resizes in the other order if an image becomes wider and lower: for timm and torchvision's
//     weights, at sharp edges, up to 2 of 255 with the filter bicubic and 3 with lanczos.
//   - If the filter nearest falls between two pixels, transformers with Pillow takes the one, and with
//     torchvision the other. Here it is Pillow's.
//   - An image that is smaller than the crop by an odd number of pixels is one pixel further right and down in
//     transformers with Pillow. Here it is as with torchvision.
//
// Files are opened as by the libraries' loaders, without alpha and with palettes looked up, with one exception:
// timm's and torchvision's loaders ignore an EXIF orientation. Their transforms start after the loader and do not
// mention it, so Exif is left unset here, and image files are turned upright, as networks expect them.
// transformers' load_image does that too.
//
// [pixels.Decode]: https://pkg.go.dev/github.com/mfgs/mfgs/internal/pixels#Decode
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

// maxSide bounds the sides of images, as in a Spec.
const maxSide = 16384

// A config is a JSON object whose keys must all be used: unused ones are refused at the end.
type config struct {
	fields map[string]json.RawMessage
	used   map[string]bool
}

// ErrNone reports a document that is not a published configuration.
var ErrNone = errors.New("no preprocessing in it: want a preprocessor_config.json of transformers, " +
	"or a config.json of timm")

// Read reads the preprocessing that another library wrote beside a model: transformers'
// preprocessor_config.json, or timm's config.json. modelType is the model_type in the model's config.json, which
// selects the processor if the file does not name one; it may be empty. from names what was read, such as
// "ViTImageProcessor" or "timm, resnet50".
//
// A step that a Spec cannot express is an error that names it. Keys that transformers ignores are ignored; unknown
// keys are refused.
func Read(document []byte, modelType string) (s preprocess.Spec, from string, err error) {
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(document, &fields); err != nil {
		return preprocess.Spec{}, "", fmt.Errorf("not a JSON object: %s", text.Line(err.Error()))
	}
	if nested, ok := fields["image_processor"]; ok { // a processor_config.json
		fields = map[string]json.RawMessage{}
		if err := json.Unmarshal(nested, &fields); err != nil {
			return preprocess.Spec{}, "", errors.New("image_processor is not a JSON object")
		}
	}
	c := &config{fields: fields, used: map[string]bool{}}
	switch {
	case c.has("sampling_rate"): // audio
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

// Recognise reports whether a document is for Read: a JSON object without any field of a Spec.
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

// has reports whether key is present, and not null.
func (c *config) has(key string) bool {
	raw, ok := c.fields[key]
	return ok && string(bytes.TrimSpace(raw)) != "null"
}

// get decodes key into v, which is unchanged if the key is missing or null.
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

// ignore marks keys that change no pixel as used.
func (c *config) ignore(keys ...string) {
	for _, k := range keys {
		c.used[k] = true
	}
}

// rest refuses unused keys, unless their values are null, false or empty.
func (c *config) rest() error {
	var left []string
	for _, k := range slices.Sorted(maps.Keys(c.fields)) {
		v := strings.TrimSpace(string(c.fields[k]))
		if !c.used[k] && v != "null" && v != "false" && v != `""` && v != "[]" && v != "{}" {
			left = append(left, fmt.Sprintf("%s: %s", text.Line(short([]byte(k))), text.Line(short([]byte(v)))))
		}
	}
	if len(left) > 0 {
		return fmt.Errorf("mfgs does not support %s: write the preprocessing as YAML", strings.Join(left, ", "))
	}
	return nil
}
