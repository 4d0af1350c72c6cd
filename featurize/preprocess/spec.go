package preprocess

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/mfgs/mfgs/internal/yamlcheck"
)

// A Spec says how an image becomes a tensor; see the package documentation for the fields and their defaults.
// The zero value changes no pixel, and applies EXIF orientations.
type Spec struct {
	Resize  *Resize   `yaml:"resize,omitempty" json:"resize,omitempty"`
	Pad     *Pad      `yaml:"pad,omitempty" json:"pad,omitempty"`
	Crop    *Crop     `yaml:"crop,omitempty" json:"crop,omitempty"`
	Color   Color     `yaml:"color,omitempty" json:"color,omitempty"`
	Scale   float64   `yaml:"scale,omitempty" json:"scale,omitempty"` // 0 is 1
	Mean    []float64 `yaml:"mean,omitempty,flow" json:"mean,omitempty"`
	Std     []float64 `yaml:"std,omitempty,flow" json:"std,omitempty"`
	Layout  Order     `yaml:"layout,omitempty" json:"layout,omitempty"`
	Flatten bool      `yaml:"flatten,omitempty" json:"flatten,omitempty"`

	// Exif says whether the EXIF orientation of an image file is applied first. Nil is true, except in
	// bundles: those without it were calibrated with images as they are stored.
	Exif *bool `yaml:"exif,omitempty" json:"exif,omitempty"`
}

// Resize scales an image. Either Size is set, for both sides if Mode needs two, or Width and Height are.
type Resize struct {
	Size   int    `yaml:"size,omitempty" json:"size,omitempty"`
	Width  int    `yaml:"width,omitempty" json:"width,omitempty"`
	Height int    `yaml:"height,omitempty" json:"height,omitempty"`
	Mode   Mode   `yaml:"mode,omitempty" json:"mode,omitempty"`
	Filter Filter `yaml:"filter,omitempty" json:"filter,omitempty"`
	// Arithmetic is the precision of the filter's weights.
	Arithmetic Arithmetic `yaml:"arithmetic,omitempty" json:"arithmetic,omitempty"`
}

// Arithmetic is the library whose rounding is reproduced.
type Arithmetic string

const (
	Pillow Arithmetic = "pillow" // also ""
	Torch  Arithmetic = "torch"  // PyTorch's for byte tensors: weights have 16 bits
)

// Pad pads an image that is smaller than Resize's Width × Height to these, as letterboxes do in the modes Fit
// and Height, or one that is smaller than Crop to that.
type Pad struct {
	// Value is that of every channel, from 0 to 255, before Scale, Mean and Std. It may be a fraction for a
	// floating-point input.
	Value float64 `yaml:"value" json:"value"`
	// Values, if set, replaces Value by the values of three channels, in the order of Color.
	Values   []float64 `yaml:"values,omitempty,flow" json:"values,omitempty"`
	Position Position  `yaml:"position,omitempty" json:"position,omitempty"`
}

// of returns the value of channel c.
func (p *Pad) of(c int) float64 {
	if len(p.Values) > 0 {
		return p.Values[c]
	}
	return p.Value
}

// Position is where Pad puts the image.
type Position string

const (
	Centre Position = "centre" // also ""
	Corner Position = "corner" // top left: the padding is on the right and at the bottom
)

// Crop crops the centre. Either Size is set, or Width and Height are.
type Crop struct {
	Size   int `yaml:"size,omitempty" json:"size,omitempty"`
	Width  int `yaml:"width,omitempty" json:"width,omitempty"`
	Height int `yaml:"height,omitempty" json:"height,omitempty"`
	// Round says where the crop begins if an odd number of pixels is cut off.
	Round Round `yaml:"round,omitempty" json:"round,omitempty"`
}

// Round says how half a pixel is rounded.
type Round string

const (
	Even Round = "even" // to the even one, as torchvision and timm; also ""
	Down Round = "down" // as transformers
)

// Color names an image's channels and their order.
type Color string

const (
	RGB  Color = "RGB"
	BGR  Color = "BGR"
	Grey Color = "grey"
)

// channels returns the number of channels, 0 for as many as the image has.
func (c Color) channels() int {
	switch c {
	case RGB, BGR:
		return 3
	case Grey:
		return 1
	}
	return 0
}

// Mode says which sides Resize fixes.
type Mode string

const (
	Shortest Mode = "shortest" // the shorter side becomes Size
	Exact    Mode = "exact"    // the image becomes Width × Height, or Size × Size

	// These keep the aspect ratio; Pad fills the rest.
	Fit    Mode = "fit"    // as large as fits into Width × Height
	Cover  Mode = "cover"  // as small as covers Width × Height
	Height Mode = "height" // the height becomes Height; images that become wider than Width are squeezed
)

// Filter is a resampling filter.
type Filter string

const (
	Nearest  Filter = "nearest"
	Bilinear Filter = "bilinear"
	Bicubic  Filter = "bicubic" // a = −0.5
	Lanczos  Filter = "lanczos" // of three lobes
	Box      Filter = "box"
	Hamming  Filter = "hamming"
)

// Order is the order of a model input's axes.
type Order string

const (
	NCHW Order = "NCHW"
	NHWC Order = "NHWC"
)

// maxSide bounds the sides in Resize and Crop.
const maxSide = 16384

// Load reads a Spec from YAML and validates it. Unknown fields are refused.
func Load(r io.Reader) (Spec, error) {
	const most = 1 << 20
	document, err := io.ReadAll(io.LimitReader(r, most+1))
	if err != nil {
		return Spec{}, fmt.Errorf("preprocessing: %w", err)
	}
	if len(document) > most {
		return Spec{}, fmt.Errorf("preprocessing: the file is longer than %d bytes", most)
	}
	s, err := parse(document)
	if err != nil {
		return Spec{}, fmt.Errorf("preprocessing: %w", err)
	}
	return s, nil
}

func parse(document []byte) (s Spec, err error) {
	var root yaml.Node
	d := yaml.NewDecoder(bytes.NewReader(document))
	if err := d.Decode(&root); errors.Is(err, io.EOF) {
		return s, errors.New("the file is empty")
	} else if err != nil {
		return s, rephrased(err)
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return s, errors.New("more than one YAML document")
	}
	if err := yamlcheck.Types(&root, reflect.TypeFor[Spec](), ""); err != nil {
		return s, err
	}
	d = yaml.NewDecoder(bytes.NewReader(document))
	d.KnownFields(true)
	if err := d.Decode(&s); err != nil {
		return s, rephrased(err)
	}
	return s, s.validate()
}

// fieldNames are the top-level keys of a file of preprocessing.
var fieldNames = func() (names []string) {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Spec]()) {
		name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		names = append(names, name)
	}
	return names
}()

// rephrased is an error of package yaml, which has several lines and names Go types.
func rephrased(err error) error {
	message, unknown := yamlcheck.Message(err)
	if unknown {
		message = "unknown field: " + message + "; the top-level fields are " + strings.Join(fieldNames, ", ")
	}
	return errors.New(message)
}

// Summary describes the steps in a line, such as "resized, cropped, RGB, (x/255 − mean) / std, NCHW".
func (s *Spec) Summary() string {
	var steps []string
	if s.Resize != nil {
		steps = append(steps, "resized")
	}
	if s.Crop != nil {
		steps = append(steps, "cropped")
	}
	if s.Pad != nil {
		steps = append(steps, "padded")
	}
	if s.Color != "" {
		steps = append(steps, string(s.Color))
	}
	pixel := "x"
	switch s.Scale {
	case 0, 1:
	case 1. / 255:
		pixel = "x/255"
	default:
		pixel += "·" + strconv.FormatFloat(s.Scale, 'g', 4, 64)
	}
	if len(s.Mean) > 0 {
		pixel += " − mean"
	}
	if len(s.Std) > 0 {
		pixel = "(" + pixel + ") / std"
	}
	steps = append(steps, pixel)
	if s.Layout != "" {
		steps = append(steps, string(s.Layout))
	}
	if s.Exif != nil && !*s.Exif {
		steps = append(steps, "as stored")
	}
	return strings.Join(steps, ", ")
}

// Validate checks a Spec by itself, without a model.
func (s Spec) Validate() error {
	if err := s.validate(); err != nil {
		return fmt.Errorf("preprocessing: %w", err)
	}
	return nil
}

func (s Spec) validate() error {
	for _, check := range []func() error{
		s.Resize.validate,
		func() error { return s.Pad.validate(s.Resize, s.Crop) },
		func() error { return s.Crop.validate(s.Resize, s.Pad) },
		func() error { return known("color", s.Color, "RGB, BGR or grey", RGB, BGR, Grey) },
		func() error { return known("layout", s.Layout, "NCHW or NHWC", NCHW, NHWC) },
		s.validateNumbers,
	} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// known refuses a word that is neither "" nor among the known ones.
func known[T ~string](what string, word T, want string, words ...T) error {
	if word == "" || slices.Contains(words, word) {
		return nil
	}
	return fmt.Errorf("%s %q is unknown; want %s", what, word, want)
}

func (r *Resize) validate() error {
	if r == nil {
		return nil
	}
	if err := sides("resize", r.Size, r.Width, r.Height); err != nil {
		return err
	}
	if err := known("resize mode", r.Mode, "shortest, exact, fit, cover or height", Shortest, Exact, Fit,
		Cover, Height); err != nil {
		return err
	}
	if err := known("resize arithmetic", r.Arithmetic, "pillow or torch", Pillow, Torch); err != nil {
		return err
	}
	if w, h := r.sides(); (r.exact() || r.leavesRoom() || r.Mode == Cover) && w > maxPixels/h {
		return fmt.Errorf("resize to %d×%d pixels; want at most %d in all", h, w, maxPixels)
	}
	if r.Mode == Shortest && r.Size == 0 {
		return errors.New("resize mode shortest takes size, not width and height")
	}
	return known("resize filter", r.Filter, "nearest, bilinear, bicubic, lanczos, box or hamming", Nearest, Bilinear,
		Bicubic, Lanczos, Box, Hamming)
}

func (p *Pad) validate(r *Resize, c *Crop) error {
	if p == nil {
		return nil
	}
	if c == nil && (r == nil || !r.leavesRoom()) {
		return errors.New("pad needs a resize in mode fit or height, or a crop")
	}
	for _, v := range append([]float64{p.Value}, p.Values...) {
		if !(v >= 0 && v <= 255) {
			return fmt.Errorf("pad value %v is not a number from 0 to 255", v)
		}
	}
	switch {
	case len(p.Values) > 0 && (len(p.Values) != 3 || p.Value != 0):
		return fmt.Errorf("pad takes either value, or values for 3 channels, not %d", len(p.Values))
	case c != nil && p.Position == Corner:
		return errors.New("pad around a crop leaves the image in the centre; position corner needs a resize without a crop")
	}
	return known("pad position", p.Position, "centre or corner", Centre, Corner)
}

func (c *Crop) validate(r *Resize, p *Pad) error {
	if c == nil {
		return nil
	}
	if r != nil && r.Mode == Height {
		return errors.New("crop cannot be combined with resize mode height: use pad")
	}
	if r != nil && r.leavesRoom() && p == nil {
		return fmt.Errorf("crop after resize mode %s needs pad", r.Mode)
	}
	if err := known("crop round", c.Round, "even or down", Even, Down); err != nil {
		return err
	}
	if err := sides("crop", c.Size, c.Width, c.Height); err != nil || r == nil || p != nil {
		return err
	}
	cw, ch := c.sides()
	if rw, rh := r.sides(); cw > rw || ch > rh {
		return fmt.Errorf("crop to %d×%d is larger than what resize leaves, %d×%d", cw, ch, rw, rh)
	}
	return nil
}

// validateNumbers checks scale, mean and std.
func (s Spec) validateNumbers() error {
	if math.IsNaN(s.Scale) || math.IsInf(s.Scale, 0) || s.Scale < 0 {
		return fmt.Errorf("scale %v is not a positive number", s.Scale)
	}
	for _, v := range slices.Concat(s.Mean, s.Std) {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return errors.New("mean and std must be finite")
		}
	}
	for _, v := range s.Std {
		if v <= 0 {
			return fmt.Errorf("std %v is not positive", v)
		}
	}
	lists := map[string][]float64{"mean": s.Mean, "std": s.Std}
	if s.Pad != nil {
		lists["pad values"] = s.Pad.Values
	}
	for name, v := range lists {
		switch n := s.Color.channels(); {
		case len(v) <= 1, len(v) == n, n == 0 && len(v) == 3:
		case n == 0:
			return fmt.Errorf("%s has %d numbers; want 1 or 3", name, len(v))
		default:
			return fmt.Errorf("%s has %d numbers for %s; want 1 or %d", name, len(v), s.Color, n)
		}
	}
	return nil
}

// sides checks that either size is set, or width and height are.
func sides(what string, size, width, height int) error {
	for _, v := range []int{size, width, height} {
		if v < 0 || v > maxSide {
			return fmt.Errorf("%s to %d pixels; want 1 to %d", what, v, maxSide)
		}
	}
	if square, rect := size > 0, width > 0 && height > 0; square == rect || square && width+height > 0 {
		return fmt.Errorf("%s takes either size, or width and height", what)
	}
	return nil
}

func (r *Resize) exact() bool { return r.Mode == Exact || r.Mode == "" && r.Size == 0 }

func (r *Resize) leavesRoom() bool { return r.Mode == Fit || r.Mode == Height }

// sides returns the requested width and height.
func (r *Resize) sides() (w, h int) {
	if r.Size == 0 {
		return r.Width, r.Height
	}
	return r.Size, r.Size
}

// to returns the sides of a resized image of w × h, which may be cropped next.
func (r *Resize) to(w, h int, cropped bool) (int, int) {
	toW, toH := r.sides()
	switch {
	case r.exact():
	case r.Mode == Cover, r.Mode == Fit && cropped:
		// timm's ResizeKeepRatio, except for a side that it rounds to 0.
		ratio := max(float64(w)/float64(toW), float64(h)/float64(toH))
		if r.Mode == Cover {
			ratio = min(float64(w)/float64(toW), float64(h)/float64(toH))
		}
		side := func(n int) int {
			return int(min(max(1, math.RoundToEven(float64(n)/ratio)), maxPixels))
		}
		toW, toH = side(w), side(h)
	case r.Mode == Fit:
		// Pillow's ImageOps.contain, except for a side that it rounds to 0.
		if ratio, wanted := float64(w)/float64(h), float64(toW)/float64(toH); ratio > wanted {
			toH = max(1, int(math.RoundToEven(float64(h)/float64(w)*float64(toW))))
		} else if ratio < wanted {
			toW = max(1, int(math.RoundToEven(float64(w)/float64(h)*float64(toH))))
		}
	case r.Mode == Height:
		toW = int(min(float64(toW), math.Ceil(float64(toH)*(float64(w)/float64(h)))))
	case w <= h: // torchvision: the longer side is int(size * long / short).
		toH = int(int64(r.Size) * int64(h) / int64(w))
	default:
		toW = int(int64(r.Size) * int64(w) / int64(h))
	}
	return toW, toH
}

func (c *Crop) sides() (w, h int) {
	if c.Size == 0 {
		return c.Width, c.Height
	}
	return c.Size, c.Size
}

// UnmarshalYAML also accepts size: {width, height}.
func (r *Resize) UnmarshalYAML(n *yaml.Node) error {
	type plain Resize
	return decodeSized(n, (*plain)(r), "resize", "size", "width", "height", "mode", "filter", "arithmetic")
}

// UnmarshalYAML also accepts size: {width, height}.
func (c *Crop) UnmarshalYAML(n *yaml.Node) error {
	type plain Crop
	return decodeSized(n, (*plain)(c), "crop", "size", "width", "height", "round")
}

// decodeSized decodes the mapping at a key, of known fields, and size: {width, height} as width and height. It refuses
// unknown fields, since a decoder's KnownFields has no effect within UnmarshalYAML.
func decodeSized(n *yaml.Node, into any, at string, known ...string) error {
	if n.Kind != yaml.MappingNode {
		return cmp.Or(yamlcheck.Types(n, reflect.TypeOf(into), at), n.Decode(into))
	}
	flat := *n
	flat.Content = nil
	for i := 0; i < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if value.Kind == yaml.AliasNode {
			value = value.Alias
		}
		if key.Value == "size" && value.Kind == yaml.MappingNode {
			for j := 0; j < len(value.Content); j += 2 {
				if side := value.Content[j]; side.Value != "width" && side.Value != "height" {
					return unknownField(side, "size")
				}
			}
			flat.Content = append(flat.Content, value.Content...)
			continue
		}
		if !slices.Contains(known, key.Value) {
			return unknownField(key, at)
		}
		flat.Content = append(flat.Content, key, value)
	}
	return cmp.Or(yamlcheck.Types(&flat, reflect.TypeOf(into), at), flat.Decode(into))
}

// unknownField rewords a decoder's error about an unknown field.
func unknownField(key *yaml.Node, of string) error {
	return &yaml.TypeError{Errors: []string{fmt.Sprintf("line %d: field %s not found in type %s", key.Line, key.Value,
		of)}}
}
