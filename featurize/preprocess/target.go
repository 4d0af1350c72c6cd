package preprocess

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/mfgs/mfgs/internal/option"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// A Target is the model input to be filled.
type Target struct {
	Name  string  // for messages; may be empty
	Shape []int64 // with the batch axis first; -1 is unknown
	Type  tensor.Type
}

// String formats t as "input [N,3,224,224] float32".
func (t Target) String() string {
	dims := make([]string, len(t.Shape))
	for i, d := range t.Shape {
		switch {
		case i == 0:
			dims[i] = "N"
		case d < 0:
			dims[i] = "?"
		default:
			dims[i] = strconv.FormatInt(d, 10)
		}
	}
	s := "[" + strings.Join(dims, ",") + "] " + t.Type.String()
	if t.Name != "" {
		s = t.Name + " " + s
	}
	return s
}

// An axes is the image axes of a Target. Unknown sizes are -1.
type axes struct {
	order   Order // "" if channels first or last is unknown
	c, h, w int
	flat    bool // [N,c·h·w] in the given order
	n       int  // flat: length of a row
}

func (t Target) validate() error {
	if len(t.Shape) == 0 {
		return fmt.Errorf("the model's input %v has no batch axis: if it is no data, %s gives it a value", t, option.Fix)
	}
	for _, d := range t.Shape[1:] {
		if d == 0 || d < -1 || d > math.MaxInt32 {
			return fmt.Errorf("the model's input %v has an impossible dimension %d", t, d)
		}
	}
	return nil
}

// axes returns the target's image axes, or why it has none.
func (t Target) axes(order Order) (axes, error) {
	dim := func(i int) int { return int(t.Shape[i]) }
	switch len(t.Shape) {
	case 2:
		return axes{order: order, c: -1, h: -1, w: -1, flat: true, n: dim(1)}, nil
	case 3:
		return axes{order: order, c: 1, h: dim(1), w: dim(2)}, nil
	case 4:
		first := axes{order: NCHW, c: dim(1), h: dim(2), w: dim(3)}
		last := axes{order: NHWC, c: dim(3), h: dim(1), w: dim(2)}
		isFirst, isLast := t.Shape[1] == 1 || t.Shape[1] == 3, t.Shape[3] == 1 || t.Shape[3] == 3
		switch {
		case order == NHWC:
			return last.checked()
		case order == NCHW:
			return first.checked()
		case isFirst && isLast:
			return axes{}, fmt.Errorf("it can be NCHW and NHWC; say which with layout in %s", option.Preprocess)
		case isLast:
			return last, nil
		}
		// If ambiguous, ONNX's own order.
		return first.checked()
	}
	return axes{}, errors.New("it takes no images, only arrays of its own shape")
}

func (a axes) checked() (axes, error) {
	if a.c != 1 && a.c != 3 && a.c != -1 {
		return axes{}, fmt.Errorf("it has %d channels as %s, and images have 1 or 3", a.c, a.order)
	}
	return a, nil
}

// For returns the default preprocessing for a model input: x/255 if it is floating-point; colour, layout and
// flattening by its shape; neither resize nor crop.
func For(t Target) Spec {
	var s Spec
	if t.Type.IsFloat() {
		s.Scale = 1. / 255
	}
	return s.fill(t)
}

// fill fills in what the target decides.
func (s Spec) fill(t Target) Spec {
	if s.Color == "" && (len(s.Mean) == 3 || len(s.Std) == 3) {
		s.Color = RGB
	}
	a, err := t.axes(s.Layout)
	if err != nil {
		return s
	}
	s.Flatten = s.Flatten || a.flat
	if s.Layout == "" {
		s.Layout = a.order
	}
	if s.Color == "" {
		switch a.c {
		case 1:
			s.Color = Grey
		case 3:
			s.Color = RGB
		}
	}
	return s
}

// Presets lists the names of the presets.
var Presets = []string{"unit", "none", "imagenet", "mobilenet", "caffe", "imagenet-pixels", "mobilenet-pixels",
	"caffe-pixels"}

// Preset returns a named preprocessing, fitted to a model input:
//
//	unit        x/255
//	none        x, from 0 to 255
//	imagenet    torchvision's: RGB x/255, minus the ImageNet mean, by its standard deviation
//	mobilenet   TensorFlow's: RGB x/127.5 − 1
//	caffe       BGR x − (104, 117, 123)
//
// The last three first resize the shorter side to 8/7 of the model's and crop the centre, to 256 and 224 if the
// model's size is unknown; with the suffix -pixels they do not.
func Preset(name string, t Target) (Spec, error) {
	kind, pixels := strings.CutSuffix(name, "-pixels")
	var s Spec
	switch kind {
	case "unit":
		s.Scale = 1. / 255
	case "none":
	case "imagenet":
		s = Spec{Color: RGB, Scale: 1. / 255, Mean: []float64{.485, .456, .406}, Std: []float64{.229, .224, .225}}
	case "mobilenet":
		s = Spec{Color: RGB, Scale: 1 / 127.5, Mean: []float64{1}}
	case "caffe":
		s = Spec{Color: BGR, Mean: []float64{104, 117, 123}}
	default:
		return Spec{}, fmt.Errorf("there is no preprocessing preset %q; want a YAML file or one of %s", name,
			strings.Join(Presets, ", "))
	}
	if s.Color != "" && !pixels {
		w, h := 224, 224
		if a, err := t.axes(""); err == nil && a.w > 0 && a.h > 0 {
			w, h = a.w, a.h
		}
		s.Crop = &Crop{Width: w, Height: h}
		s.Resize = &Resize{Size: int(math.Round(float64(max(w, h)) * 8 / 7)), Mode: Shortest, Filter: Bilinear}
		if w == h {
			s.Crop = &Crop{Size: w}
		}
	}
	s = s.fill(t)
	return s, s.Validate()
}
