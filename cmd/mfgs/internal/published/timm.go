package published

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/mfgs/mfgs/featurize/preprocess"
	"github.com/mfgs/mfgs/internal/text"
)

// timm reads timm's config.json, which describes model and preprocessing.
func (c *config) timm() (preprocess.Spec, string, error) {
	var no preprocess.Spec
	from := "timm"
	var architecture string
	if err := c.get("architecture", "a name", &architecture); err != nil {
		return no, from, err
	}
	if architecture != "" {
		from += ", " + text.Name(architecture)
	}
	inner := &config{fields: map[string]json.RawMessage{}, used: map[string]bool{}}
	if err := c.get("pretrained_cfg", "an object", &inner.fields); err != nil {
		return no, from, err
	}
	return inner.timmConfig(from)
}

// timmConfig reads a pretrained_cfg as timm's create_transform(**resolve_data_config(…)) does, which ignores keys
// about training and the model itself.
func (c *config) timmConfig(from string) (preprocess.Spec, string, error) {
	var no preprocess.Spec
	input, pct := []int{3, 224, 224}, 0.
	interpolation, mode := "bicubic", "center"
	mean, std := slices.Clone(imagenet[:]), slices.Clone(imagenetStd[:])
	if err := errors.Join(
		c.get("input_size", "[channels, height, width]", &input),
		c.get("crop_pct", "a number", &pct),
		c.get("interpolation", "a name", &interpolation),
		c.get("crop_mode", "a name", &mode),
		c.channels("mean", &mean),
		c.channels("std", &std),
	); err != nil {
		return no, from, firstOf(err)
	}
	if pct == 0 {
		pct = 0.875
	}
	if len(input) != 3 || input[0] != 3 && input[0] != 1 || min(input[1], input[2]) < 1 ||
		max(input[1], input[2]) > maxSide {
		return no, from, fmt.Errorf("input_size is %v, want [channels, height, width] of 1 or 3 channels and at most %d pixels", input, maxSide)
	}
	filter := preprocess.Filter(interpolation)
	if !slices.Contains(pilFilters, filter) {
		return no, from, fmt.Errorf("interpolation is %q, want nearest, bilinear, bicubic, lanczos, box or hamming",
			text.Line(interpolation))
	}
	h, w := input[1], input[2]
	scaledH, scaledW := math.Floor(float64(h)/pct), math.Floor(float64(w)/pct)
	if !(pct > 0 && min(scaledH, scaledW) >= 1 && max(scaledH, scaledW) <= maxSide) {
		return no, from, fmt.Errorf("crop_pct is %v, want a positive number that leaves 1 to %d pixels", pct, maxSide)
	}
	s := preprocess.Spec{Color: preprocess.RGB, Scale: 1. / 255, Mean: mean, Std: std,
		Crop:   &preprocess.Crop{Width: w, Height: h},
		Resize: &preprocess.Resize{Width: int(scaledW), Height: int(scaledH), Filter: filter}}
	if input[0] == 1 {
		s.Color = preprocess.Grey
	}
	lacks := pct > 1
	switch mode {
	case "squash":
		s.Resize.Mode = preprocess.Exact
	case "border":
		s.Resize.Mode, lacks = preprocess.Fit, false
		s.Pad = &preprocess.Pad{Values: make([]float64, 3)}
		for i := range s.Pad.Values {
			s.Pad.Values[i] = math.RoundToEven(255 * mean[min(i, len(mean)-1)])
		}
	case "center":
		if s.Resize.Mode = preprocess.Cover; scaledH == scaledW {
			s.Resize.Mode, s.Resize.Size, s.Resize.Width, s.Resize.Height = preprocess.Shortest, int(scaledW), 0, 0
		}
	default:
		return no, from, fmt.Errorf("crop_mode is %q, want center, squash or border", text.Line(mode))
	}
	if lacks {
		s.Pad = &preprocess.Pad{}
	}
	return s, from, nil
}
