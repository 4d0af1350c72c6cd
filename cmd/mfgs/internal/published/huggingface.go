package published

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mfgs/mfgs/featurize/preprocess"
	"github.com/mfgs/mfgs/internal/text"
)

// huggingFaceMarks are keys of which a preprocessor_config.json has at least one.
var huggingFaceMarks = []string{"image_processor_type", "feature_extractor_type", "do_resize", "do_normalize", "do_rescale",
	"do_center_crop", "image_mean", "image_std"}

// A processor is one of transformers' image processors, with its defaults for keys that a file omits.
type processor struct {
	size, crop side
	square     bool // a size of one number is both sides, else the shorter one
	resample   int  // Pillow's number of the filter
	mean, std  [3]float64
	factor     float64 // rescale_factor; 0 is 1/255
	cropped    bool    // do_center_crop
	flipped    bool    // do_flip_channel_order
	fractions  bool    // resizes fractions, not bytes

	ignoresNormalize, ignoresCrop bool // ignores do_normalize or do_center_crop in the file

	// resize turns sizes into steps, if the class has a way of its own.
	resize func(c *config, p *processed) error
	// numbers makes further changes to scale, mean and std.
	numbers func(c *config, p *processed) error
}

// side is a size as transformers writes it: Height and Width, or the shorter edge.
type side struct {
	Height        int `json:"height"`
	Width         int `json:"width"`
	ShortestEdge  int `json:"shortest_edge"`
	LongestEdge   int `json:"longest_edge"`
	MaxHeight     int `json:"max_height"`
	MaxWidth      int `json:"max_width"`
	MinimumPixels int `json:"min_pixels"`
	MaximumPixels int `json:"max_pixels"`
}

func sq(n int) side       { return side{Height: n, Width: n} }
func shortest(n int) side { return side{ShortestEdge: n} }

var (
	standard    = [3]float64{.5, .5, .5}
	imagenet    = [3]float64{.485, .456, .406}
	imagenetStd = [3]float64{.229, .224, .225}
	ones        = [3]float64{1, 1, 1}
	clipMean    = [3]float64{0.48145466, 0.4578275, 0.40821073}
	clipStd     = [3]float64{0.26862954, 0.26130258, 0.27577711}
)

// Pillow's numbers of filters.
const (
	lanczos  = 1
	bilinear = 2
	bicubic  = 3
)

// pilFilters are Pillow's filters by number.
var pilFilters = []preprocess.Filter{preprocess.Nearest, preprocess.Lanczos, preprocess.Bilinear, preprocess.Bicubic,
	preprocess.Box, preprocess.Hamming}

// processors are the classes whose steps a Spec can express, without the suffix "ImageProcessor".
// TestDefaultsAreThoseOfTransformers compares them with the library.
var processors = map[string]processor{
	"Beit":        {mean: standard, std: standard, resample: bicubic, square: true, size: sq(224), crop: sq(224)},
	"Bit":         clip,
	"Blip":        {mean: clipMean, std: clipStd, resample: bicubic, square: true, size: sq(384)},
	"ChineseCLIP": clip,
	"CLIP":        clip,
	"ConvNext":    {mean: standard, std: standard, resample: bicubic, size: shortest(384), resize: convNextResize},
	"DeiT": {mean: standard, std: standard, resample: bicubic, square: true, size: sq(256), crop: sq(224),
		cropped: true},
	"DINOv3ViT": {mean: imagenet, std: imagenetStd, resample: bilinear, square: true, size: sq(224), fractions: true},
	"EfficientNet": {mean: standard, std: standard, resample: bicubic, square: true, size: sq(346), crop: sq(289),
		numbers: efficientNetNumbers},
	"Chameleon": {mean: ones, std: ones, resample: lanczos, size: shortest(512), crop: sq(512), cropped: true,
		factor: 0.0078},
	"Levit": {mean: imagenet, std: imagenetStd, resample: bicubic, size: shortest(224), crop: sq(224), cropped: true,
		resize: levitResize},
	"MobileNetV1": mobileNet,
	"MobileNetV2": mobileNet,
	"MobileViT": {mean: standard, std: standard, resample: bicubic, size: shortest(224), crop: sq(256), cropped: true,
		flipped: true, ignoresNormalize: true},
	"OwlViT": {mean: clipMean, std: clipStd, resample: bicubic, square: true, size: sq(768), crop: sq(768)},
	"PoolFormer": {mean: imagenet, std: imagenetStd, resample: bicubic, size: shortest(224), crop: sq(224),
		cropped: true, resize: poolFormerResize},
	"Pvt":       {mean: imagenet, std: imagenetStd, resample: bicubic, square: true, size: sq(224)},
	"Segformer": {mean: imagenet, std: imagenetStd, resample: bilinear, square: true, size: sq(512), ignoresCrop: true},
	"Siglip":    {mean: standard, std: standard, resample: bicubic, size: sq(224)},
	"ViT":       {mean: standard, std: standard, resample: bilinear, square: true, size: sq(224)},
}

// Functions of several classes.
var (
	clip = processor{mean: clipMean, std: clipStd, resample: bicubic, size: shortest(224), crop: sq(224),
		cropped: true}
	mobileNet = processor{mean: standard, std: standard, resample: bilinear, size: shortest(256), crop: sq(224),
		cropped: true}
)

// ofModelType maps the model_type in config.json to the processor, for files that name none.
var ofModelType = map[string]string{
	"beit": "Beit", "data2vec-vision": "Beit", "bit": "Bit", "blip": "Blip", "clip": "CLIP", "convnext": "ConvNext", "convnextv2": "ConvNext",
	"cvt": "ConvNext", "deit": "DeiT", "dinov2": "Bit", "dinat": "ViT", "efficientnet": "EfficientNet", "focalnet": "Bit",
	"hiera": "Bit", "levit": "Levit", "mobilenet_v1": "MobileNetV1", "mobilenet_v2": "MobileNetV2", "mobilevit": "MobileViT",
	"mobilevitv2": "MobileViT", "poolformer": "PoolFormer", "pvt": "Pvt", "pvt_v2": "ConvNext", "regnet": "ConvNext", "resnet": "ConvNext",
	"segformer": "Segformer", "siglip": "Siglip", "swiftformer": "ViT", "swin": "ViT", "swinv2": "ViT", "van": "ConvNext",
	"vit": "ViT", "vit_msn": "ViT",
}

// processed is the content of a processor's file.
type processed struct {
	spec       preprocess.Spec
	size, crop side
	do         struct{ resize, crop, rescale, normalize bool }
	filter     preprocess.Filter
	arithmetic preprocess.Arithmetic // for the filters that PyTorch implements for tensors
	factor     float64
	mean, std  []float64
}

// huggingFace reads a preprocessor_config.json.
func (c *config) huggingFace(modelType string) (preprocess.Spec, string, error) {
	name, class, err := c.processor(modelType)
	if err != nil {
		return preprocess.Spec{}, "", err
	}
	p, err := c.process(class)
	if err == nil {
		err = p.steps(c, class)
	}
	if err == nil {
		// do_reduce_labels concerns labels; loading files always converts to RGB.
		c.ignore("do_reduce_labels", "reduce_labels", "do_convert_rgb", "processor_class", "model_input_names", "data_format",
			"input_data_format", "return_tensors", "device", "disable_grouping", "num_channels", "_valid_processor_keys",
			"default_to_square", "_name_or_path", "transformers_version", "_commit_hash")
		err = c.rest()
	}
	return p.spec, name, err
}

// processor finds the class that the file is for.
func (c *config) processor(modelType string) (name string, class processor, err error) {
	var byFeature string
	if err := errors.Join(c.get("image_processor_type", "a name", &name),
		c.get("feature_extractor_type", "a name", &byFeature)); err != nil {
		return "", class, err
	}
	if name == "" {
		name = byFeature
	}
	if name == "" && modelType != "" {
		if name = ofModelType[modelType]; name == "" {
			return "", class, fmt.Errorf("no image_processor_type, and mfgs does not know the processor of %s", text.Name(modelType))
		}
		name += "ImageProcessor"
	}
	if name == "" {
		return "", class, errors.New("no image_processor_type: add that of the model, such as ViTImageProcessor")
	}
	bare := strings.TrimSuffix(strings.TrimSuffix(name, "Fast"), "Pil")
	bare = strings.TrimSuffix(strings.TrimSuffix(bare, "ImageProcessor"), "FeatureExtractor")
	class, ok := processors[bare]
	if !ok {
		known := make([]string, 0, len(processors))
		for k := range processors {
			known = append(known, k)
		}
		slices.SortFunc(known, func(a, b string) int { return strings.Compare(strings.ToLower(a), strings.ToLower(b)) })
		return "", class, fmt.Errorf("mfgs does not support %s, only the image processors %s: write the preprocessing as YAML", text.Name(name),
			strings.Join(known, ", "))
	}
	return bare + "ImageProcessor", class, nil
}

// process reads the keys common to all classes.
func (c *config) process(class processor) (*processed, error) {
	p := &processed{size: class.size, crop: class.crop, factor: 1. / 255, mean: class.mean[:], std: class.std[:]}
	if class.factor != 0 {
		p.factor = class.factor
	}
	p.do.resize, p.do.crop, p.do.rescale, p.do.normalize = true, class.cropped, true, true
	square, resample, pads := class.square, class.resample, false
	err := errors.Join(
		c.get("do_resize", "true or false", &p.do.resize),
		c.get("do_center_crop", "true or false", &p.do.crop),
		c.get("do_rescale", "true or false", &p.do.rescale),
		c.get("do_normalize", "true or false", &p.do.normalize),
		c.get("do_pad", "true or false", &pads),
		c.get("default_to_square", "true or false", &square),
		c.get("resample", "a number from 0 to 5", &resample),
		c.get("rescale_factor", "a number", &p.factor),
		c.size("size", square, &p.size),
		c.size("crop_size", true, &p.crop),
		c.channels("image_mean", &p.mean),
		c.channels("image_std", &p.std),
	)
	c.ignore("pad_size") // has no effect without do_pad
	switch {
	case err != nil:
		return p, firstOf(err)
	case pads:
		return p, errors.New("do_pad: true pads after the last step, which mfgs does not support")
	case resample < 0 || resample >= len(pilFilters):
		return p, fmt.Errorf("resample is %d, want a number from 0 to 5", resample)
	case p.do.rescale && !(p.factor > 0):
		return p, fmt.Errorf("rescale_factor is %v, want a positive number", p.factor)
	}
	p.filter = pilFilters[resample]
	p.do.crop = p.do.crop && !class.ignoresCrop
	p.do.normalize = p.do.normalize && !class.ignoresNormalize
	return p, nil
}

// firstOf returns the first of joined errors, so that a message is one line.
func firstOf(err error) error {
	if list, ok := err.(interface{ Unwrap() []error }); ok {
		return list.Unwrap()[0]
	}
	return err
}

// size reads a size: a mapping, [height, width], or a number, for both sides or the shorter one.
func (c *config) size(key string, square bool, to *side) error {
	if !c.has(key) {
		c.used[key] = true
		return nil
	}
	var n int
	var list []int
	var s side
	switch raw := c.fields[key]; {
	case json.Unmarshal(raw, &n) == nil && square:
		s = sq(n)
	case json.Unmarshal(raw, &n) == nil:
		s = shortest(n)
	case json.Unmarshal(raw, &list) == nil && len(list) == 2:
		s = side{Height: list[0], Width: list[1]}
	default:
		s = side{}
		if err := c.get(key, "a number, [height, width], or one of them by name", &s); err != nil {
			return err
		}
	}
	c.used[key] = true
	*to = s
	return nil
}

// channels reads a number or a list of them.
func (c *config) channels(key string, to *[]float64) error {
	var one float64
	if c.has(key) && json.Unmarshal(c.fields[key], &one) == nil {
		c.used[key], *to = true, []float64{one}
		return nil
	}
	return c.get(key, "a number, or one for each channel", to)
}

// plain returns a Resize for a size: width and height, or the shorter side.
func (s side) plain(key string) (w, h, shorter int, err error) {
	switch {
	case s.LongestEdge != 0, s.MaxHeight != 0, s.MaxWidth != 0, s.MinimumPixels != 0, s.MaximumPixels != 0:
		return 0, 0, 0, fmt.Errorf("%s limits the longer side or the number of pixels, which mfgs does not support", key)
	case s.Height > 0 && s.Width > 0 && s.ShortestEdge == 0:
		return s.Width, s.Height, 0, nil
	case s.Height == 0 && s.Width == 0 && s.ShortestEdge > 0:
		return 0, 0, s.ShortestEdge, nil
	}
	return 0, 0, 0, fmt.Errorf("%s: want height and width, or shortest_edge", key)
}

// steps builds the Spec.
func (p *processed) steps(c *config, class processor) error {
	p.spec = preprocess.Spec{Color: preprocess.RGB, Exif: new(true)}
	switch p.filter {
	case preprocess.Bilinear, preprocess.Bicubic, preprocess.Lanczos:
		p.arithmetic = preprocess.Torch
		if class.fractions {
			p.arithmetic = preprocess.Pillow
		}
	}
	if p.do.resize {
		resize := plainResize
		if class.resize != nil {
			resize = class.resize
		}
		if err := resize(c, p); err != nil {
			return err
		}
	} else {
		c.ignore("crop_pct")
	}
	if p.do.crop {
		if err := p.centreCrop(); err != nil {
			return err
		}
	}
	if p.do.rescale {
		p.spec.Scale = p.factor
	}
	if p.do.normalize {
		p.spec.Mean, p.spec.Std = p.mean, p.std
	}
	if class.numbers != nil {
		if err := class.numbers(c, p); err != nil {
			return err
		}
	}
	flip := class.flipped
	if class.flipped {
		if err := c.get("do_flip_channel_order", "true or false", &flip); err != nil {
			return err
		}
	}
	if flip {
		p.spec.Color = preprocess.BGR
	}
	return nil
}

// shortestResize resizes so that the shorter side becomes n.
func (p *processed) shortestResize(n int) {
	p.spec.Resize = &preprocess.Resize{Size: n, Mode: preprocess.Shortest, Filter: p.filter, Arithmetic: p.arithmetic}
}

// exactResize resizes to w × h.
func (p *processed) exactResize(w, h int) {
	p.spec.Resize = &preprocess.Resize{Width: w, Height: h, Mode: preprocess.Exact, Filter: p.filter,
		Arithmetic: p.arithmetic}
}

func plainResize(_ *config, p *processed) error {
	w, h, shorter, err := p.size.plain("size")
	if err != nil {
		return err
	}
	if shorter > 0 {
		p.shortestResize(shorter)
	} else {
		p.exactResize(w, h)
	}
	return nil
}

// centreCrop crops to crop_size, padding smaller images with black.
func (p *processed) centreCrop() error {
	w, h, shorter, err := p.crop.plain("crop_size")
	if err == nil && shorter > 0 {
		err = errors.New("crop_size: want height and width")
	}
	if err != nil {
		return err
	}
	if own := p.spec.Crop; own != nil {
		if own.Width != w || own.Height != h {
			return fmt.Errorf("do_center_crop to %d×%d after a crop to %d×%d, which mfgs does not support", h, w, own.Height, own.Width)
		}
		return nil
	}
	r := p.spec.Resize
	if r != nil && r.Width == w && r.Height == h {
		return nil
	}
	p.spec.Crop = &preprocess.Crop{Width: w, Height: h, Round: preprocess.Down}
	if r == nil || max(r.Size, r.Width) < w || max(r.Size, r.Height) < h {
		p.spec.Pad = &preprocess.Pad{}
	}
	return nil
}

// convNextResize crops sizes below 384 from a larger image, and squeezes to larger sizes.
func convNextResize(c *config, p *processed) error {
	pct := 224. / 256
	if err := c.get("crop_pct", "a number", &pct); err != nil {
		return err
	}
	_, _, n, err := p.size.plain("size")
	switch {
	case err != nil:
		return err
	case n == 0:
		return errors.New("size: want shortest_edge")
	case n >= 384:
		p.exactResize(n, n)
		return nil
	}
	larger, err := divided(n, pct)
	if err != nil {
		return err
	}
	p.shortestResize(larger)
	p.spec.Crop = &preprocess.Crop{Width: n, Height: n, Round: preprocess.Down}
	if larger < n {
		p.spec.Pad = &preprocess.Pad{}
	}
	return nil
}

// divided returns n/pct, truncated.
func divided(n int, pct float64) (int, error) {
	q := float64(n) / pct
	if !(pct > 0 && q < maxSide+1) {
		return 0, fmt.Errorf("crop_pct is %v, want a positive number that leaves at most %d pixels", pct, maxSide)
	}
	return int(q), nil
}

// levitResize makes the shorter side 256/224 of the size.
func levitResize(c *config, p *processed) error {
	if p.size.ShortestEdge > maxSide {
		return fmt.Errorf("size is %d pixels; want at most %d", p.size.ShortestEdge, maxSide)
	}
	if p.size.ShortestEdge > 0 {
		p.size.ShortestEdge = int(256. / 224 * float64(p.size.ShortestEdge))
	}
	return plainResize(c, p)
}

// poolFormerResize makes the image larger by 1/crop_pct.
func poolFormerResize(c *config, p *processed) error {
	pct := 0.9
	if err := c.get("crop_pct", "a number", &pct); err != nil {
		return err
	}
	w, h, n, err := p.size.plain("size")
	if err != nil {
		return err
	}
	if n == 0 && w == h {
		n = w
	}
	if n > 0 {
		if n, err = divided(n, pct); err == nil {
			p.shortestResize(n)
		}
		return err
	}
	if w, err = divided(w, pct); err != nil {
		return err
	}
	if h, err = divided(h, pct); err == nil {
		p.exactResize(w, h)
	}
	return err
}

// efficientNetNumbers shifts by 1 with rescale_offset, and divides by std once more with
// include_top.
func efficientNetNumbers(c *config, p *processed) error {
	offset, top := false, true
	if err := errors.Join(c.get("rescale_offset", "true or false", &offset), c.get("include_top", "true or false", &top)); err != nil {
		return firstOf(err)
	}
	s := &p.spec
	if offset && p.do.rescale {
		mean := s.Mean
		if len(mean) == 0 {
			mean = []float64{0}
		}
		s.Mean = slices.Clone(mean)
		for i := range s.Mean {
			s.Mean[i]++
		}
	}
	if !top {
		return nil
	}
	if !p.do.normalize {
		s.Std = p.std
		return nil
	}
	s.Std = slices.Clone(s.Std)
	for i, v := range s.Std {
		s.Std[i] = v * v
	}
	return nil
}
